//! Runs a program that may be hostile in a jail, and leaves nothing behind.
//!
//! [`Sandbox::find`] says what this machine offers, or what to install or enable; [`Jail::start`] starts a [`Program`] within
//! [`Limits`]. In front of every program stand processes of this program itself, of which `role` is the beginning: the outer
//! one, which ends the jail when nobody wants it any more, and the inner one, which builds the
//! walls around itself and then becomes the program. `docs/guides/data-and-rewards.md` has the
//! threat model.

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
