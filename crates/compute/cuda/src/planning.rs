//! A device that does not exist, for plans of the memory that it would have.

use crate::device::{Device, Fetch, Graph, HostMemory, Limits, Memory, MemoryInfo};
use crate::kernels::{Argument, Function, Grid};
use crate::operation::Operation;
use isentrope_kernels::OutOfMemory;

/// A GPU of a given memory that need not exist. [`Cuda`](crate::Cuda) on it says how many bytes
/// buffers and operations take, as on every GPU. It has no memory, and computing with it panics.
#[derive(Clone, Copy, Debug)]
pub struct PlanningDevice {
    /// Bytes of its memory.
    pub memory: usize,
}

/// The refusal of a request for memory.
fn refused(asked: usize) -> OutOfMemory {
    OutOfMemory { asked, why: "a device for plans has none".into() }
}

/// # Panics
/// Always: a device for plans must not be called.
fn mistake() -> ! {
    panic!("a device for plans was called")
}

impl Device for PlanningDevice {
    fn name(&self) -> String {
        format!("a GPU of {} GiB that is planned for", self.memory >> 30)
    }
    fn limits(&self) -> Limits {
        Limits { capability: (9, 0), processors: 1, shared: 0 }
    }
    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo { free: self.memory, total: self.memory }
    }
    fn keeps_memory(&self) -> bool {
        true
    }
    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
        Err(refused(bytes))
    }
    fn upload(&self, _: &[u8], _: &Memory, _: usize) {
        mistake()
    }
    fn download(&self, _: &Memory, _: usize, _: &mut [u8]) {
        mistake()
    }
    fn fetch(&self, _: &Memory, _: usize, _: usize) -> Fetch {
        mistake()
    }
    fn fetched(&self, _: Fetch, _: &mut [u8]) {
        mistake()
    }
    fn copy(&self, _: &Memory, _: usize, _: &Memory, _: usize, _: usize) {
        mistake()
    }
    fn clear(&self, _: &Memory, _: usize, _: usize) {
        mistake()
    }
    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory> {
        Err(refused(bytes))
    }
    fn copy_in(&self, _: &HostMemory, _: usize, _: &Memory, _: usize, _: usize) {
        mistake()
    }
    fn copy_out(&self, _: &Memory, _: usize, _: &HostMemory, _: usize, _: usize) {
        mistake()
    }
    fn read_host(&self, _: &HostMemory, _: usize, _: &mut [u8]) {
        mistake()
    }
    fn write_host(&self, _: &[u8], _: &HostMemory, _: usize) {
        mistake()
    }
    fn launch(&self, _: &Function, _: Grid, _: &[Argument]) {
        mistake()
    }
    /// A GPU may have the library, so a plan counts the memory of its products.
    fn product_library(&self) -> Option<String> {
        Some("a library of products".into())
    }
    fn capture(&self, _: &[Operation]) -> Result<Graph, String> {
        mistake()
    }
    fn replay(&self, _: &Graph) -> Result<(), String> {
        mistake()
    }
    fn synchronize(&self) {}
}
