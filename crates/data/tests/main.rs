//! Data files as they are published and as users write them.
//! One binary: each would link the whole crate anew.

mod files;
mod published;
