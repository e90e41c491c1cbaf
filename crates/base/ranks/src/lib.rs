//! Processes that train together, on one machine or many, with the bits that one alone would have.
//!
//! [`World::begin`] says whether a launcher has started several, and brings them together over
//! whatever MPI library belongs to it. An [`Engine`](engine::Engine) moves bytes and adds nothing
//! up; everything above it is ours: [`World::sum`] adds in the tree that `tree.rs` describes, in
//! which nothing depends on how many ranks there are. Every exchange begins with a word from each
//! rank, so that all end alike when one fails, and a pulse beside it notices a rank that says
//! nothing any more.
//!
//! docs/guides/several-machines.md tells users of it.

mod beat;
mod check;
mod directory;
pub mod engine;
mod error;
mod exchange;
mod floats;
mod header;
mod host_piece;
mod launch;
mod line;
#[cfg(unix)]
mod mpi;
#[cfg(not(unix))]
#[path = "mpi_on_other_systems.rs"]
mod mpi;
mod pulse;
mod rank_host;
mod settings;
mod slices;
pub mod sum;
pub mod threads;
mod tree;
mod under_way;
mod world;

pub use error::{Error, Result};
pub use floats::{Floats, HostFloats, Parameter};
pub use host_piece::HostPiece;
pub use line::{Line, Traffic};
pub use pulse::{Tell, Watch};
pub use rank_host::{Node, RankHost, ThreadNote, host};
pub use settings::{Library, Settings};
pub use slices::{BLOCK, Slices};
pub use tree::{PartialSums, allowed_ranks, shards_of_rank};
pub use world::World;
