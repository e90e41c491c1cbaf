//! Control groups (version 2), if a part of their tree is delegated to this process. Then the
//! kernel counts memory and processes of a jail itself.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use nix::unistd::{Pid, geteuid};

use super::{Problem, attempt};
use crate::Limits;

/// The prefix of the names of jails' groups; the id of the outer process follows.
const JAIL: &str = "isentrope-jail-";

/// The group that this program moves to, because a group with groups below it may not have
/// processes.
const OWN: &str = "isentrope";

/// The group in which this process may make others, if there is one. Moves this process out of the
/// way if needed, and removes groups that killed processes have left.
pub fn place() -> Option<PathBuf> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(find_place).clone()
}

fn find_place() -> Option<PathBuf> {
    let own = own_group()?;
    let place = if has_controllers(own.parent()?, "cgroup.subtree_control")
        && is_delegated(own.parent()?)
    {
        own.parent()?.to_owned()
    } else {
        make_room(&own).then_some(own)?
    };
    for entry in fs::read_dir(&place).ok()?.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(JAIL)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path()); // refused while it has processes
        }
    }
    Some(place)
}

/// The group of this process.
fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(group))
}

fn has_controllers(group: &Path, file: &str) -> bool {
    let listed = fs::read_to_string(group.join(file)).unwrap_or_default();
    ["memory", "pids"]
        .iter()
        .all(|wanted| listed.split_whitespace().any(|controller| controller == *wanted))
}

/// Whether a group's processes may divide it: the system's manager has marked it so, or given it to
/// their user.
fn is_delegated(group: &Path) -> bool {
    let said = |name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, name, &mut value[..])
            .is_ok_and(|length| &value[..length] == b"1")
    };
    let given = fs::metadata(group)
        .is_ok_and(|found| !geteuid().is_root() && found.uid() == geteuid().as_raw());
    given || said("user.delegate") || said("trusted.delegate")
}

/// Moves this process, if it is alone in its group and the group is delegated, into one below it.
fn make_room(own: &Path) -> bool {
    let this = std::process::id().to_string();
    let alone = fs::read_to_string(own.join("cgroup.procs"))
        .is_ok_and(|processes| processes.trim() == this);
    if !alone || !is_delegated(own) || !has_controllers(own, "cgroup.controllers") {
        return false;
    }
    let below = own.join(OWN);
    let moved = make(&below)
        .and_then(|()| fs::write(below.join("cgroup.procs"), &this))
        .and_then(|()| fs::write(own.join("cgroup.subtree_control"), "+memory +pids"));
    if moved.is_err() {
        let _ = fs::write(own.join("cgroup.procs"), &this);
        let _ = fs::remove_dir(&below);
    }
    moved.is_ok()
}

/// Makes a group, unless an earlier process has left it.
fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The group of a jail. It is removed when this value is dropped.
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes the group of the jail whose outer process this is.
    pub fn make(place: &Path, limits: &Limits) -> Result<Self, Problem> {
        let path = path(place, std::process::id());
        attempt(format_args!("the control group {} cannot be made", path.display()), make(&path))?;
        let group = Self { path };
        // Files in /tmp count as the group's memory, too.
        let memory = limits.memory_bytes.saturating_add(limits.temporary_bytes);
        group.write("memory.max", &memory.to_string())?;
        let _ = group.write("memory.swap.max", "0"); // not there without swap
        group.write("memory.oom.group", "1")?;
        group.write("pids.max", &limits.processes.to_string())?;
        Ok(group)
    }

    /// Puts a process into the group; its children follow.
    pub fn add(&self, process: Pid) -> Result<(), Problem> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// Whether the kernel has killed a process of the group for want of memory.
    pub fn was_short_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.is_some_and(|count| count.trim() != "0")
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Problem> {
        let path = self.path.join(file);
        attempt(format_args!("{} cannot be written", path.display()), fs::write(&path, text))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the group of a jail whose outer process, with this id, could not remove it.
pub fn remove_after(place: &Path, outer: u32) {
    remove(&path(place, outer));
}

fn path(place: &Path, outer: u32) -> PathBuf {
    place.join(format!("{JAIL}{outer}"))
}

/// Removes a group once its last process is gone, which may take the kernel a moment.
fn remove(group: &Path) {
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
}
