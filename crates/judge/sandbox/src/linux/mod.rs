//! The sandbox of Linux.
//!
//! `sandbox` finds out what the machine offers, `jail` is the starter's end of a jail. `role` makes
//! this program the `outer` and the `inner` process of one, which `inner_process` is the end of
//! that the outer one has; `message` is how the three talk. The walls, in the order in which
//! `inner` builds them: `new_root`, `identity`, `landlock_rules`, `resource_limits`,
//! `system_calls`. `self_test` tries to leave jails, by `attempts` from inside.

mod attempts;
mod bubblewrap;
mod cgroup;
mod escapes;
mod excesses;
mod identity;
mod inner;
mod inner_process;
mod jail;
mod landlock_rules;
mod layout;
mod message;
mod new_root;
mod outer;
mod plan;
mod resource_limits;
mod role;
mod sandbox;
mod self_test;
mod system_calls;
mod watchdog;

pub use jail::{Jail, kill_all};
pub use sandbox::Sandbox;

/// A problem, as a sentence without its end.
type Problem = String;

/// Adds to a failure the description of the attempt.
fn attempt<T, E: std::fmt::Display>(
    what: impl std::fmt::Display,
    result: Result<T, E>,
) -> Result<T, Problem> {
    result.map_err(|error| format!("{what}: {error}"))
}
