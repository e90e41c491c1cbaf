//! The jail's own file system: the shown parts of the host, read-only, an empty `/tmp`, three
//! devices, and nothing else.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use super::plan::VisiblePath;
use super::{Problem, attempt};
use crate::Limits;

/// The host's file system while the new one is made.
const HOST: &str = "/.host";

/// Directories to mount the new root on, one of which every system has. Other processes see no
/// change in them.
const PLACES: [&str; 4] = ["/tmp", "/usr", "/var", "/etc"];

/// Devices that programs expect. `/dev/zero` is missing, because memory that is mapped from it is
/// charged to nobody.
pub const DEVICES: [&str; 3] = ["/dev/null", "/dev/random", "/dev/urandom"];

const NOTHING: Option<&str> = None;

/// Leaves the host's file system for a new one, for which a mount namespace must have been made.
/// `owner` owns `/tmp`.
pub fn enter(shown: &[VisiblePath], limits: &Limits, owner: (u32, u32)) -> Result<(), Problem> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    attempt("the mounts cannot be made private", mount(NOTHING, "/", NOTHING, private, NOTHING))?;
    let place = PLACES.into_iter().find(|place| Path::new(place).is_dir()).unwrap_or("/");
    tmpfs(Path::new(place), "size=1m,nr_inodes=65536,mode=755")?;
    let host = Path::new(place).join(HOST.trim_start_matches('/'));
    attempt("the place of the host's files cannot be made", fs::create_dir(&host))?;
    attempt("the root cannot be changed (pivot_root)", pivot_root(place, &host))?;
    attempt("the new root cannot be entered", chdir("/"))?;

    directory(Path::new("/tmp"))?;
    tmpfs(Path::new("/tmp"), &temporary(limits, owner))?;
    directory(Path::new("/dev"))?;
    for device in DEVICES {
        show_file(Path::new(device))?;
    }
    // The C library keeps semaphores there.
    attempt("/dev/shm cannot be made", symlink("/tmp", "/dev/shm"))?;
    shown.iter().try_for_each(show)?;

    let mounts =
        attempt("the mounts are not known", fs::read(Path::new(HOST).join("proc/self/mountinfo")))?;
    for line in mounts.split(|byte| *byte == b'\n') {
        protect(line)?;
    }
    attempt("the host's files cannot be left", umount2(HOST, MntFlags::MNT_DETACH))?;
    attempt("the host's files cannot be left", fs::remove_dir(HOST))?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    let flags = read_only | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    attempt("the new root cannot be made read-only", mount(NOTHING, "/", NOTHING, flags, NOTHING))?;
    attempt("/tmp cannot be entered", chdir("/tmp"))
}

/// The options of the file system at `/tmp`.
pub fn temporary(limits: &Limits, (user, group): (u32, u32)) -> String {
    // The root directory counts as a file too, and 0 would mean no limit.
    let (bytes, files) =
        (limits.temporary_bytes.max(4096), limits.temporary_files.saturating_add(1));
    format!("size={bytes},nr_inodes={files},mode=700,uid={user},gid={group}")
}

fn tmpfs(at: &Path, options: &str) -> Result<(), Problem> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let mounted = mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options));
    attempt(format_args!("a temporary file system cannot be mounted at {}", at.display()), mounted)
}

/// Shows a part of the host's file system.
fn show(shown: &VisiblePath) -> Result<(), Problem> {
    match shown {
        VisiblePath::Link(at, target) => {
            directory(Path::new(at).parent().unwrap_or(Path::new("/")))?;
            attempt(format_args!("{} cannot be made", Path::new(at).display()), symlink(target, at))
        }
        VisiblePath::Directory(path) => {
            directory(Path::new(path))?;
            bind(Path::new(path))
        }
        VisiblePath::File(path) => show_file(Path::new(path)),
    }
}

fn show_file(path: &Path) -> Result<(), Problem> {
    directory(path.parent().unwrap_or(Path::new("/")))?;
    attempt(format_args!("{} cannot be made", path.display()), fs::write(path, ""))?;
    bind(path)
}

/// Makes a directory, with those above it.
fn directory(path: &Path) -> Result<(), Problem> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    attempt(format_args!("{} cannot be made", path.display()), made)
}

/// Mounts the host's file or directory at the same path of the new root.
fn bind(path: &Path) -> Result<(), Problem> {
    let host = Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path));
    let mounted = mount(Some(&host), path, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING);
    attempt(format_args!("{} cannot be mounted", path.display()), mounted)
}

/// Makes a mount read-only, given as a line of this process's table. Mounts below a directory have
/// lines of their own.
fn protect(line: &[u8]) -> Result<(), Problem> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let (Some(at), Some(options)) = (fields.next(), fields.next()) else { return Ok(()) };
    let at = unescaped(at);
    if at == Path::new("/") || at == Path::new("/tmp") || at.starts_with(HOST) {
        return Ok(());
    }
    let bind = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    let mut flags = bind | MsFlags::MS_NOSUID;
    if !at.starts_with("/dev") {
        flags |= MsFlags::MS_NODEV;
    }
    // A mount cannot allow again what the host has forbidden.
    for (name, flag) in [
        ("noexec", MsFlags::MS_NOEXEC),
        ("nodev", MsFlags::MS_NODEV),
        ("noatime", MsFlags::MS_NOATIME),
        ("nodiratime", MsFlags::MS_NODIRATIME),
        ("relatime", MsFlags::MS_RELATIME),
    ] {
        if options.split(|byte| *byte == b',').any(|option| option == name.as_bytes()) {
            flags |= flag;
        }
    }
    let mounted = mount(NOTHING, &at, NOTHING, flags, NOTHING);
    attempt(format_args!("{} cannot be made read-only", at.display()), mounted)
}

/// A path in a table of mounts, where four characters are written as octal numbers.
fn unescaped(path: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\');
        let number =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn paths_of_mounts_are_read() {
        assert_eq!(unescaped(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescaped(b"/plain"), Path::new("/plain"));
        assert_eq!(unescaped(br"/end\04").as_os_str().as_bytes(), br"/end\04");
    }
}
