//! Processes that train together, on one machine or many, with the same bits as a single process.
//!
//! [`Launch`] says whether a launcher has started several, and [`World::begin`] brings them
//! together, over TCP or over the launcher's MPI library. An engine (`engine.rs`) moves bytes and
//! adds nothing up; everything above it is ours: [`World::sum`] adds in the tree that `tree.rs`
//! describes, in which nothing depends on how many ranks there are. Every exchange begins with a
//! header of each rank, so that all end alike when one fails, and a pulse beside it notices a rank
//! that falls silent.
//!
//! Users read about ranks in docs/guides/several-machines.md.

mod beat;
mod check;
mod directory;
mod engine;
mod error;
mod exchange;
mod floats;
mod header;
mod launch;
mod line;
mod local;
mod mpi;
mod piece;
mod pulse;
mod rank_host;
mod settings;
mod slices;
mod sum;
mod tcp;
mod text;
pub mod threads;
mod tree;
mod world;

pub use error::{Error, Result};
pub use floats::{HostFloats, Parameter};
pub use launch::Launch;
pub use line::Traffic;
pub use local::{LOCAL_LAUNCHER, LocalRanks};
pub use pulse::{Message, Tell, Watch};
pub use rank_host::{Node, RankHost, ThreadNote, host};
pub use settings::{Library, Settings};
pub use slices::{BLOCK, Slices};
pub use sum::{Part, Wanted};
pub use tree::{PartialSums, allowed_ranks, shards_of_rank};
pub use world::World;
