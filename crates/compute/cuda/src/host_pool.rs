//! Locked memory of the host for activations that wait there, in blocks of one size. Locking memory
//! takes far longer than a copy, so a dropped block waits for its next use until the backend ends:
//! there are never more blocks than were once in use together, but for the rest of a slab. Slabs of
//! many blocks are locked at once, because each takes a mapping or more of the process, and Linux
//! gives it 65,530 (`vm.max_map_count`).

use crate::device::{HostMemory, Memory};
use crate::stream::Stream;
use isentrope_kernels::OutOfMemory;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block: enough for the bus, and little beside a pass's activations.
const BLOCK: usize = 1 << 20;
/// Bytes that are locked at a time.
pub(crate) const SLAB: usize = 64 << 20;

/// Blocks that wait for their next use.
#[derive(Default)]
pub(crate) struct HostPool(Mutex<Vec<HostBlock>>);

/// A block's slab, and the block's first byte there. Each block of a slab exists once.
struct HostBlock(Arc<HostMemory>, usize);

/// Bytes in the host's memory, one block behind the other. They hold anything at first.
pub(crate) struct HostBlocks {
    blocks: Vec<HostBlock>,
    pool: Arc<HostPool>,
}

/// The bytes of the host's memory that `bytes` bytes take in blocks.
pub(crate) fn in_blocks(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(usize::MAX)
}

impl HostPool {
    /// Blocks for `bytes` bytes.
    pub(crate) fn blocks(
        self: &Arc<Self>,
        device: &Stream,
        bytes: usize,
    ) -> Result<HostBlocks, OutOfMemory> {
        let mut taken = HostBlocks { blocks: Vec::new(), pool: Arc::clone(self) };
        while taken.blocks.len() * BLOCK < bytes {
            let waiting = self.waiting().pop();
            match waiting {
                Some(block) => taken.blocks.push(block),
                None => self.waiting().extend(slab(device)?),
            }
        }
        Ok(taken)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<HostBlock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a slab, and divides it into blocks.
fn slab(device: &Stream) -> Result<impl Iterator<Item = HostBlock>, OutOfMemory> {
    let slab = Arc::new(device.allocate_host(SLAB)?);
    Ok((0..SLAB).step_by(BLOCK).map(move |at| HostBlock(Arc::clone(&slab), at)))
}

impl HostBlocks {
    /// Copies the first `bytes` bytes of the device's memory here.
    pub(crate) fn copy_out(&self, device: &Stream, from: &Memory, bytes: usize) {
        for (HostBlock(slab, to), at, bytes) in self.parts(bytes) {
            device.copy_out(from, at, slab, *to, bytes);
        }
    }

    /// Copies the first `bytes` bytes to the beginning of the device's memory.
    pub(crate) fn copy_in(&self, device: &Stream, to: &Memory, bytes: usize) {
        for (HostBlock(slab, from), at, bytes) in self.parts(bytes) {
            device.copy_in(slab, *from, to, at, bytes);
        }
    }

    /// The blocks of the first `bytes` bytes, each with the place and the number of its own.
    fn parts(&self, bytes: usize) -> impl Iterator<Item = (&HostBlock, usize, usize)> {
        assert!(
            bytes <= BLOCK * self.blocks.len(),
            "{bytes} bytes in {} blocks",
            self.blocks.len()
        );
        let parts = (0..bytes).step_by(BLOCK).map(move |at| (at, BLOCK.min(bytes - at)));
        self.blocks.iter().zip(parts).map(|(block, (at, bytes))| (block, at, bytes))
    }
}

impl Drop for HostBlocks {
    /// The next user's copies come later in the pool's stream.
    fn drop(&mut self) {
        self.pool.waiting().append(&mut self.blocks);
    }
}
