//! Downloads from a hub on a local port, and the cache they leave.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod cached;
mod datasets;
mod downloads;
mod refusals;
mod repository;
mod server;
mod troubles;
