//! Makes every program that holds this library, its tests included, a process in front of a jail
//! when it is started as one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use isentrope_files::this_program;
use nix::unistd::getppid;

use super::{attempts, inner, outer};

/// The environment variable that holds a process's role and its starter's process id (0 in a new
/// process namespace). A process that does not match ignores it.
const VARIABLE: &str = "ISENTROPE_SANDBOX";

/// The role of a process in front of a jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The outer process, which stands outside the jail and ends it.
    Outer,
    /// The first process inside the jail, which becomes the program.
    Inner,
    /// The self-test's program, which tries to leave its jail.
    Attempts,
}

const ROLES: [(Role, &str); 3] =
    [(Role::Outer, "outer"), (Role::Inner, "inner"), (Role::Attempts, "attempts")];

/// The loader calls the functions in this section before `main`, so that a program need not call
/// anything; a test's `main` could not.
// As in crates/compute/model/src/chat_template/worker_process.rs, where the reasons stand.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if let Some(role) = role() {
        // No one would see a panic's message. The other end notices that this process is gone.
        std::panic::set_hook(Box::new(|_| {}));
        let run = match role {
            Role::Outer => outer::run,
            Role::Inner => inner::run,
            Role::Attempts => attempts::run,
        };
        let done = std::panic::catch_unwind(run).is_ok_and(|done| done.is_ok());
        std::process::exit(if done { 0 } else { 1 });
    }
}

/// The role of this process, if it has one.
fn role() -> Option<Role> {
    let value = std::env::var(VARIABLE).ok()?;
    let (name, parent) = value.split_once(':')?;
    let (role, _) = ROLES.into_iter().find(|(_, other)| *other == name)?;
    (parent == getppid().to_string()).then_some(role)
}

/// The variable that gives a process its role: for an outer process with this one's id as its
/// parent, for the first process in a jail with 0.
pub fn variable(role: Role) -> (OsString, OsString) {
    let parent = if role == Role::Outer { std::process::id() } else { 0 };
    named(role, parent)
}

/// The variable for a process that this one starts.
pub fn variable_below(role: Role) -> (OsString, OsString) {
    named(role, std::process::id())
}

fn named(role: Role, parent: u32) -> (OsString, OsString) {
    let name = ROLES.into_iter().find(|(other, _)| *other == role).map_or("", |(_, name)| name);
    (VARIABLE.into(), format!("{name}:{parent}").into())
}

/// The command that starts this program in a role.
pub fn command(role: Role) -> io::Result<Command> {
    let mut command = Command::new(this_program()?);
    let (name, value) = variable(role);
    // The name and the argument explain the process in a list of processes.
    command.arg0("isentrope").arg("__sandbox").env_clear().env(name, value);
    // The program's libraries may lie there.
    command.envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)));
    Ok(command)
}
