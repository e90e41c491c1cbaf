//! Downloads from a hub on a local port, and the cache they leave.

mod cached;
mod datasets;
mod downloads;
mod refusals;
mod repository;
mod server;
mod troubles;
