//! Finds what this machine offers to run programs safely.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::{Method, Plan, Task};
use super::{Jail, Problem, bubblewrap, cgroup, identity};
use crate::{Ending, Program, Tier, Unavailable};

/// A way to run programs safely on this machine, found and tried once.
#[derive(Clone, Debug)]
pub struct Sandbox {
    method: Method,
    /// The version of Landlock that jails have, 0 for none.
    landlock: u8,
    /// The directory in which control groups can be made, if there is one.
    cgroups: Option<PathBuf>,
}

impl Sandbox {
    /// Finds the first way to make jails that works here, by making one.
    ///
    /// # Errors
    /// When none works; what to install or enable.
    pub fn find() -> Result<Self, Unavailable> {
        Self::first(&methods())
    }

    /// As [`find`](Self::find), of this tier.
    ///
    /// # Errors
    /// When it does not work; what to install or enable.
    pub fn of_tier(tier: Tier) -> Result<Self, Unavailable> {
        let mut methods = methods();
        methods.retain(|method| method.tier() == tier);
        Self::first(&methods)
    }

    fn first(methods: &[Method]) -> Result<Self, Unavailable> {
        let mut tried = Vec::new();
        let cgroups = cgroup::place();
        for method in methods {
            let sandbox = Self { method: method.clone(), landlock: 0, cgroups: cgroups.clone() };
            match sandbox.probe() {
                Ok(landlock) => return Ok(Self { landlock, ..sandbox }),
                Err(problem) => tried.push(format!("{}: {problem}", method.describe())),
            }
        }
        Err(unavailable(&tried))
    }

    /// Who makes the namespaces.
    pub fn tier(&self) -> Tier {
        self.method.tier()
    }

    /// Describes its walls in a line.
    pub fn describe(&self) -> String {
        let who = self.method.describe();
        let landlock = match self.landlock {
            0 => "no Landlock in this kernel".to_owned(),
            version => format!("Landlock {version}"),
        };
        let memory = if self.cgroups.is_some() { "control groups" } else { "memory watched" };
        format!("{who}, {landlock}, seccomp, resource limits, {memory}")
    }

    /// The message to the processes in front of a jail.
    pub(super) fn plan(&self, program: &Program, task: Task) -> Plan {
        let (method, cgroups) = (self.method.clone(), self.cgroups.clone());
        Plan { method, task, program: program.clone(), cgroups, shown: Vec::new(), user: None }
    }

    /// Builds all walls as a test. Returns the version of Landlock.
    fn probe(&self) -> Result<u8, Problem> {
        let mut jail = Jail::with(self.plan(&Program::default(), Task::Probe))?;
        match jail.wait() {
            Ending::Exited(0) => Ok(jail.landlock()),
            other => Err(format!("a jail ended at once ({other:?})")),
        }
    }
}

impl Method {
    fn tier(&self) -> Tier {
        match self {
            Self::Bubblewrap(_) => Tier::Bubblewrap,
            Self::Root | Self::UserNamespace => Tier::Namespaces,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Root => "namespaces made by root, and a user for each jail".to_owned(),
            Self::UserNamespace => "namespaces of an unprivileged user".to_owned(),
            Self::Bubblewrap(bwrap) => format!("namespaces made by {}", bwrap.display()),
        }
    }
}

/// The ways to make jails, the best first. Root needs no bubblewrap. The kernel could not end a
/// jail that bubblewrap made for root, because no process of it may signal another user's.
fn methods() -> Vec<Method> {
    let first = if identity::is_root() {
        Some(Method::Root)
    } else {
        bubblewrap::find().map(Method::Bubblewrap)
    };
    first.into_iter().chain([Method::UserNamespace]).collect()
}

/// Switches that turn user namespaces off: the file below /proc/sys, the value that does so, and
/// the remedy.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "user/max_user_namespaces",
        "0",
        "User namespaces are switched off: set the sysctl user.max_user_namespaces to 10000",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "User namespaces are for root alone: set the sysctl kernel.unprivileged_userns_clone to 1",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces: set the sysctl \
         kernel.apparmor_restrict_unprivileged_userns to 0",
    ),
];

/// The error when no way works.
fn unavailable(tried: &[Problem]) -> Unavailable {
    let is_set = |file: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(file)).is_ok_and(|text| text.trim() == value)
    };
    let switch = SWITCHES.into_iter().find(|(file, value, _)| is_set(file, value));
    let mut remedy = switch
        .map_or(
            "In a container, allow it to make namespaces (docker run --cap-add SYS_ADMIN \
             --security-opt \
         seccomp=unconfined --security-opt apparmor=unconfined); elsewhere, allow user namespaces",
            |(_, _, remedy)| remedy,
        )
        .to_owned();
    let mut problem = tried.join("; ");
    if tried.is_empty() {
        problem = "bubblewrap is not installed, or not of use to root".into();
    }
    if !identity::is_root() {
        if bubblewrap::find().is_none() {
            remedy += ", or install bubblewrap";
        }
        remedy += ", or run isentrope as root";
    }
    Unavailable { problem, remedy }
}
