//! Lets the program `bwrap` make the namespaces and the new root, on systems that allow it to and
//! not this program.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};

use super::plan::{Plan, VisiblePath};
use super::role::{self, Role};
use super::{Problem, attempt, identity, new_root};
use crate::Limits;

/// This program's path in the jail until it becomes the jailed program. Landlock hides the path
/// from that one.
const THIS_PROGRAM: &str = "/.isentrope";

/// The program, if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join("bwrap")).find(|file| {
        file.is_absolute()
            && file
                .metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// The command that starts the inner process.
pub fn command(bwrap: &Path, plan: &Plan) -> Result<Command, Problem> {
    let this = attempt("this program's file is not known", std::env::current_exe())?;
    let mut command = Command::new(bwrap);
    let (name, value) = role::variable(Role::Inner);
    command.env_clear().env(name, value).args(["--die-with-parent", "--new-session", "--as-pid-1"]);
    command.args([
        "--unshare-ipc",
        "--unshare-net",
        "--unshare-pid",
        "--unshare-uts",
        "--hostname",
        "jail",
    ]);
    let user = identity::USER.to_string();
    command.args(["--unshare-user", "--uid", &user, "--gid", &user]);
    if bwrap.metadata().is_ok_and(|found| found.mode() & 0o4000 != 0) {
        return Err("it is installed setuid root, and so lets nobody limit what /tmp holds".into());
    }
    command.args(["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]);
    let size = plan.program.limits.temporary_bytes.max(4096).to_string();
    command.args(["--perms", "0700", "--size", &size, "--tmpfs", "/tmp"]);
    // Folders that bwrap makes on its own can be entered by their owner only.
    let mut above = BTreeSet::from([Path::new("/dev")]);
    above.extend(plan.shown.iter().flat_map(|shown| Path::new(shown.path()).ancestors().skip(1)));
    for directory in
        above.into_iter().filter(|path| *path != Path::new("/") && *path != Path::new("/tmp"))
    {
        command.args(["--perms", "0755", "--dir"]).arg(directory);
    }
    for device in new_root::DEVICES {
        command.args(["--dev-bind", device, device]);
    }
    command.args(["--symlink", "/tmp", "/dev/shm"]);
    for shown in &plan.shown {
        match shown {
            VisiblePath::Link(at, target) => command.arg("--symlink").args([target, at]),
            VisiblePath::Directory(path) | VisiblePath::File(path) => {
                command.arg("--ro-bind").args([path, path])
            }
        };
    }
    command.arg("--ro-bind").arg(this).arg(THIS_PROGRAM);
    command.args(["--remount-ro", "/", "--chdir", "/tmp", "--", THIS_PROGRAM, "__sandbox"]);
    Ok(command)
}

/// Does what `bwrap` cannot: limits the files in `/tmp`, if this process may. If it may not, the
/// outer process counts them.
pub fn limit_files(limits: &Limits) {
    let (bytes, files) =
        (limits.temporary_bytes.max(4096), limits.temporary_files.saturating_add(1));
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = format!("size={bytes},nr_inodes={files}");
    let _ = mount(Some("tmpfs"), "/tmp", Some("tmpfs"), flags, Some(options.as_str()));
}
