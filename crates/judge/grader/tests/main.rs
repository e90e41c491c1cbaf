//! The grader against labelled answers, and against texts that are made to exhaust it.
//! One binary: each would link the whole crate anew.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod agreement;
mod bounds;
mod deception;
mod rules;
