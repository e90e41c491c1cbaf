//! Numbers uploaded by the host.

use crate::kernels::Pointer;
use crate::pool::Block;
use std::sync::Arc;

/// Uploaded numbers, in memory of their own or in a step's region.
pub(crate) struct Uploaded {
    region: Arc<Block>,
    start: usize,
}

impl Uploaded {
    /// The upload that starts `start` bytes into a region.
    pub(crate) fn new(region: Arc<Block>, start: usize) -> Self {
        Self { region, start }
    }

    /// The address `offset` bytes into it.
    pub(crate) fn at(&self, offset: usize) -> Pointer {
        self.region.at(self.start + offset)
    }
}
