//! The grader against labelled answers, and against texts that are made to exhaust it.
//! One binary: each would link the whole crate anew.

mod agreement;
mod bounds;
