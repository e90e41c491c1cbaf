//! The parts of the host's file system that a jail shows: the files that the program needs, and the
//! symbolic links on the way there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Problem;
use super::plan::VisiblePath;
use crate::Program;

/// Folders in which the loader finds libraries. Those that exist are shown.
const LIBRARIES: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/local/lib"];

/// Folders that reveal the host, or reach into the kernel.
const NEVER: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/run"];

/// Longest chain of symbolic links: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The paths that a program's jail shows, parents before their children.
pub fn visible_paths(program: &Program) -> Result<Vec<VisiblePath>, Problem> {
    let libraries = LIBRARIES.iter().map(Path::new).filter(|path| path.exists());
    let readable = program.readable.iter().map(PathBuf::as_path);
    let program = Some(program.program.as_path());
    let program = program.filter(|path| *path != Path::new("")); // a probe has none
    let mut layout = Layout::default();
    libraries.chain(readable).chain(program).try_for_each(|path| layout.show(path))?;
    Ok(layout.0)
}

#[derive(Default)]
struct Layout(Vec<VisiblePath>);

impl Layout {
    /// Shows the file or directory at this path, under the same path.
    fn show(&mut self, path: &Path) -> Result<(), Problem> {
        let problem = |what: &str| format!("{} cannot be shown in a jail: {what}", path.display());
        if !path.is_absolute() {
            return Err(problem("it is no absolute path"));
        }
        let mut names = names(path);
        let mut links = 0;
        let mut at = PathBuf::from("/");
        while let Some(name) = names.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let found = fs::symlink_metadata(&next).map_err(|error| problem(&error.to_string()))?;
            if !found.is_symlink() {
                at = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(problem("too many symbolic links"));
            }
            let target = fs::read_link(&next).map_err(|error| problem(&error.to_string()))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            names.extend(self::names(&target));
            self.add(&next, VisiblePath::Link(next.clone().into(), target.into()));
        }
        if at == Path::new("/") || NEVER.iter().any(|never| at.starts_with(never)) {
            return Err(problem("it would show the host"));
        }
        let found = fs::metadata(&at).map_err(|error| problem(&error.to_string()))?;
        let shown = if found.is_dir() {
            VisiblePath::Directory(at.clone().into())
        } else if found.is_file() {
            VisiblePath::File(at.clone().into())
        } else {
            return Err(problem("it is neither a file nor a directory"));
        };
        self.add(&at, shown);
        Ok(())
    }

    /// Adds a path unless it, or a directory above it, is there already.
    fn add(&mut self, path: &Path, shown: VisiblePath) {
        let there = self.0.iter().any(|other| match other {
            VisiblePath::Directory(directory) => path.starts_with(directory),
            VisiblePath::File(other) | VisiblePath::Link(other, _) => path.as_os_str() == other,
        });
        if there {
            return;
        }
        // A directory includes everything below it.
        if matches!(shown, VisiblePath::Directory(_)) {
            self.0.retain(|other| !Path::new(other.path()).starts_with(path));
        }
        self.0.push(shown);
    }
}

impl VisiblePath {
    /// Its path.
    pub fn path(&self) -> &OsStr {
        match self {
            Self::Link(path, _) | Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// The names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn layout(paths: &[PathBuf]) -> Result<Vec<VisiblePath>, Problem> {
        let mut layout = Layout::default();
        paths.iter().try_for_each(|path| layout.show(path)).map(|()| layout.0)
    }

    #[test]
    fn links_are_shown_with_what_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("store/python/bin")).unwrap();
        fs::write(root.join("store/python/bin/python3.11"), "").unwrap();
        symlink("python3.11", root.join("store/python/bin/python3")).unwrap();
        symlink("store/python", root.join("current")).unwrap();
        symlink(root.join("current/bin/python3"), root.join("python")).unwrap();
        let os = |path: &str| root.join(path).into_os_string();
        let shown = layout(&[root.join("python")]).unwrap();
        let link = |at: &str, to: OsString| VisiblePath::Link(os(at), to);
        assert_eq!(
            shown,
            [
                link("python", os("current/bin/python3")),
                link("current", "store/python".into()),
                link("store/python/bin/python3", "python3.11".into()),
                VisiblePath::File(os("store/python/bin/python3.11")),
            ]
        );
        // A directory includes everything below it, in whichever order they are added.
        let store = VisiblePath::Directory(os("store"));
        let both = [root.join("store/python/bin/python3"), root.join("store")];
        assert_eq!(layout(&both).unwrap(), std::slice::from_ref(&store));
        let both = [root.join("store"), root.join("store/python/bin/python3")];
        assert_eq!(layout(&both).unwrap(), [store]);
    }

    #[test]
    fn nothing_of_the_host_itself_is_shown() {
        for (path, problem) in [
            ("/proc/self/status", "it would show the host"),
            ("/", "it would show the host"),
            ("/usr/..", "it would show the host"),
            ("/dev/null", "it would show the host"),
            ("/sys", "it would show the host"),
            ("bin/sh", "it is no absolute path"),
            ("/no/such/file", "No such file"),
        ] {
            let refused = layout(&[path.into()]).unwrap_err();
            assert!(refused.starts_with(&format!("{path} cannot be shown in a jail: {problem}")));
        }
    }
}
