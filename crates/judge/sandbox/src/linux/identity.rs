//! The users of a jail's processes, which own nothing and may do nothing.

use std::fs;

use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::{Problem, attempt};

/// The user and group in a jail with a user namespace.
pub const USER: u32 = 1000;

/// Capabilities to build the walls: mounting, naming the host, and giving up the rest.
const BUILDER: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// Whether this process is root with root's capabilities.
pub fn is_root() -> bool {
    let needed =
        BUILDER.into_iter().chain([CapabilitySet::SETUID, CapabilitySet::SETGID]).collect();
    let may = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    geteuid().is_root() && may
}

/// An unused user id: in the upper half of the longest range that this process may use, at an
/// offset given by this process's id. The limit on processes counts all processes of a user, so
/// every jail needs its own user.
pub fn unused_user() -> Result<u32, Problem> {
    let map = attempt(
        "the users of this system are not known",
        fs::read_to_string("/proc/self/uid_map"),
    )?;
    user_in(&map, std::process::id()).ok_or_else(|| "there are no users to run programs as".into())
}

fn user_in(map: &str, process: u32) -> Option<u32> {
    let ranges = map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, length) = (fields.next()?.ok()?, fields.next()?, fields.next()?.ok()?);
        (length >= 1024).then_some((length, first))
    });
    let (length, first) = ranges.max()?;
    Some(first + length / 2 + process % (length / 2))
}

/// Sets up a user namespace that this process has just made, in which it is this user and group of
/// the old one. Keeps the capabilities to build walls for the next program that it starts.
pub fn enter_user_namespace(user: Uid, group: Gid) -> Result<(), Problem> {
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("gid_map", format!("{USER} {group} 1")),
        ("uid_map", format!("{USER} {user} 1")),
    ] {
        let written = fs::write(format!("/proc/self/{file}"), text);
        attempt(format_args!("a user namespace cannot be set up ({file})"), written)?;
    }
    let all: CapabilitySet = BUILDER.into_iter().collect();
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    let problem = "capabilities cannot be kept in a user namespace";
    attempt(problem, set_capabilities(None, sets))?;
    BUILDER
        .iter()
        .try_for_each(|one| attempt(problem, configure_capability_in_ambient_set(*one, true)))
}

/// Becomes this user, if one is named, and gives up every capability for good. With
/// `may_keep_bounds` a failure to drop the bounding set is no error: bubblewrap may have taken the
/// capability for it, and bounds mean nothing once no process can gain privileges.
pub fn give_up(user: Option<u32>, may_keep_bounds: bool) -> Result<(), Problem> {
    let problem = "capabilities cannot be given up";
    for bit in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            Err(Errno::INVAL) => break, // the kernel knows no more
            Err(Errno::PERM) if may_keep_bounds => break,
            Err(error) => return Err(format!("{problem}: {error}")),
        }
    }
    if let Some(user) = user {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        let problem = format!("this process cannot become user {user}");
        attempt(&problem, setgroups(&[]))?;
        attempt(&problem, setresgid(gid, gid, gid))?;
        attempt(&problem, setresuid(uid, uid, uid))?;
    }
    attempt(problem, clear_ambient_capability_set())?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    attempt(problem, set_capabilities(None, sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jails_have_users_of_their_own() {
        let host = "         0          0 4294967295\n";
        assert_eq!(user_in(host, 7), Some(2_147_483_654));
        assert_ne!(user_in(host, 4_194_303), user_in(host, 1));
        // These are ranges as in a container.
        let container = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(user_in(container, 32_770), Some(1 + 32_768 + 2));
        assert_eq!(user_in("0 1000 1\n", 7), None);
    }
}
