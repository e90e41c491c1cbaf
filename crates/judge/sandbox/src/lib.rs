//! Runs a program, which may be hostile, in a jail, and leaves nothing behind.
//!
//! [`Sandbox::find`] says what this machine offers, or what to install or enable; [`Jail::start`]
//! starts a [`Program`] within [`Limits`]. Two processes of this program run first (`role` starts
//! them): the outer one ends the jail when nobody uses it any more; the inner one builds the walls
//! around itself and then becomes the program. `docs/guides/data-and-rewards.md` has the threat
//! model.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other_systems;
mod program;

#[cfg(target_os = "linux")]
pub use linux::{Jail, Sandbox, kill_all};
#[cfg(not(target_os = "linux"))]
pub use other_systems::{Jail, Sandbox, kill_all};
pub use program::{Attempt, Ending, Error, Limits, Program, Tier, Unavailable};
