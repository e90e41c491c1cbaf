//! What this machine offers.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::plan::{Plan, Task, Way};
use super::{Jail, Problem, identity};
use crate::{Ending, Program, Tier, Unavailable};

/// What this machine offers to run programs safely, found and tried once.
#[derive(Clone, Debug)]
pub struct Sandbox {
    way: Way,
    /// The version of Landlock that jails have, 0 for none.
    landlock: u8,
}

impl Sandbox {
    /// Finds the first way to make jails that works here, by making one.
    ///
    /// # Errors
    /// When none works; what to install or enable.
    pub fn find() -> Result<Self, Unavailable> {
        let mut tried = Vec::new();
        for way in ways() {
            let sandbox = Self { way, landlock: 0 };
            match sandbox.probe() {
                Ok(landlock) => return Ok(Self { landlock, ..sandbox }),
                Err(problem) => tried.push(problem),
            }
        }
        Err(unavailable(&tried))
    }

    /// Who makes the namespaces.
    pub fn tier(&self) -> Tier {
        match self.way {
            Way::Bubblewrap(_) => Tier::Bubblewrap,
            Way::Root | Way::UserNamespace => Tier::Namespaces,
        }
    }

    /// What it consists of, in a line.
    pub fn describe(&self) -> String {
        let who = match &self.way {
            Way::Root => "namespaces made by root, and a user for each jail".to_owned(),
            Way::UserNamespace => "namespaces of an unprivileged user".to_owned(),
            Way::Bubblewrap(bwrap) => format!("namespaces made by {}", bwrap.display()),
        };
        let landlock = match self.landlock {
            0 => "no Landlock in this kernel".to_owned(),
            version => format!("Landlock {version}"),
        };
        format!("{who}, {landlock}, seccomp, resource limits, memory watched")
    }

    /// What the processes in front of a jail are told.
    pub(super) fn plan(&self, program: &Program, task: Task) -> Plan {
        Plan { way: self.way.clone(), task, program: program.clone(), shown: Vec::new(), user: None }
    }

    /// Builds all walls, to see whether they can be; the version of Landlock among them.
    fn probe(&self) -> Result<u8, Problem> {
        let mut jail = Jail::with(self.plan(&Program::default(), Task::Probe))?;
        let (_, mut stdout, _) = jail.streams().ok_or("a jail has no streams")?;
        let mut landlock = [0];
        match (stdout.read_exact(&mut landlock), jail.wait()) {
            (Ok(()), Ending::Exited(0)) => Ok(landlock[0]),
            (_, ending) => Err(format!("a jail ended at once ({ending:?})")),
        }
    }
}

/// The ways to make jails, the best first.
fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    if identity::is_root() {
        ways.push(Way::Root);
    }
    ways.push(Way::UserNamespace);
    ways
}

/// What to say when no way works.
fn unavailable(tried: &[Problem]) -> Unavailable {
    let forbidden = [
        (
            "user/max_user_namespaces",
            "0",
            "user namespaces are switched off: set the sysctl user.max_user_namespaces to 10000",
        ),
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "user namespaces are for root alone: set the sysctl kernel.unprivileged_userns_clone to 1",
        ),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "AppArmor restricts user namespaces: set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0",
        ),
    ];
    let says = |file: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(file)).is_ok_and(|text| text.trim() == value)
    };
    let why = forbidden.into_iter().find(|(file, value, _)| says(file, value)).map_or(
        "In a container, allow it to make namespaces (docker run --cap-add SYS_ADMIN --security-opt seccomp=unconfined \
         --security-opt apparmor=unconfined); on a machine of your own, allow user namespaces",
        |(_, _, why)| why,
    );
    Unavailable {
        problem: tried.join("; "),
        remedy: format!("{why}, or install bubblewrap, or run isentrope as root"),
    }
}
