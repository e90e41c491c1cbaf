//! Numerics on buffers: the operations of one decoder, forward and backward, exact to the bit.
//!
//! Everything obeys the numerics contract in docs/concepts/numerics.md: results depend only on the
//! values that go in, not on batch composition, blocking, threads or instruction set. [`Backend`]
//! is the list of operations; [`Cpu`] carries them out. Only these numerics have `unsafe` code:
//! each kernel is a plain function that checks its slices, and behind it a loop over vectors that
//! relies on those checks.
#![allow(unsafe_code, reason = "vector intrinsics and disjoint writes from several threads")]

mod adamw;
mod attention;
mod backend;
mod batch;
mod buffer;
mod cpu;
mod delta_rule;
mod draw;
mod embedding;
mod erased;
mod experts;
mod glu;
mod head;
mod linear;
mod mapped_file;
mod math;
mod norm;
mod output_gate;
mod pool;
mod replay_key;
mod role;
mod rope;
mod rows;
mod sampling_masks;
mod simd;
mod threads;
mod tile;

pub use adamw::{AdamW, NORM_BLOCK, UpdateFactors, UpdateSlice, norm};
pub use attention::{Attention, HeadNorms};
pub use backend::{
    Backend, DeviceLinks, ExpertOperations, HybridOperations, NO_SLOT, PeerElements, SplitWeights,
};
pub use batch::{CheckedBatch, DRAWN, HostBatch, Run};
pub use buffer::CpuBuffer;
pub use cpu::Cpu;
pub use delta_rule::{DeltaRule, DeltaWeights};
pub use draw::{Adjustments, Draw, Drawn, SamplingMask};
pub use erased::{
    Buffer, DeviceBatch, DeviceIndex, DeviceRoutes, DrawnTokens, HeadStatistics, QueuedDraws,
};
pub use experts::{Choices, Router, Routes, Routing};
pub use glu::Gate;
pub use head::{CpuStatistics, Distribution, EntropySlopes, HeadScores, LOGITS_BLOCK, TeacherRows};
pub use linear::{Linear, LowRank};
pub use mapped_file::MappedFile;
pub use math::ln;
pub use norm::{Grouped, RmsNorm};
pub use replay_key::ReplayKey;
pub use role::{Kind, OutOfMemory, Role, Work};
pub use rope::Turn;
pub use sampling_masks::SamplingMasks;
pub use simd::Isa;
pub use threads::thread_count;
