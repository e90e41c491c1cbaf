//! Jails, with programs that try everything: as this user, and as one without privileges; in every
//! tier that there is.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![allow(clippy::print_stderr, reason = "what is skipped must be seen")]

mod endings;
mod limits;
mod python;
mod self_test;
mod starting;
mod support;
mod unprivileged;
mod walls;
