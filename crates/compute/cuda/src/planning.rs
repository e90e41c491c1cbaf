//! A device that is not there, for plans: it answers how much memory there would be, and nothing
//! else.

use crate::device::{Device, Limits, Memory, MemoryInfo};
use crate::kernels::{Argument, Function, Grid};
use crate::operation::Operation;
use isentrope_kernels::OutOfMemory;
use std::convert::Infallible;

/// A GPU of so many bytes that nobody has to have. [`Cuda`](crate::Cuda) on it says how many bytes
/// buffers and operations take, as on every GPU. There is no memory on it; whoever computes with it
/// has made a mistake, and hears so by a panic.
#[derive(Clone, Copy, Debug)]
pub struct PlanningDevice {
    /// Bytes of its memory.
    pub memory: usize,
}

/// Memory on it, of which there is none.
pub struct NoMemory(Infallible);

impl Memory for NoMemory {
    fn address(&self) -> u64 {
        match self.0 {}
    }
    fn bytes(&self) -> usize {
        match self.0 {}
    }
}

/// The refusal of memory.
fn refused(asked: usize) -> OutOfMemory {
    OutOfMemory { asked, why: "a device for plans has none".into() }
}

impl Device for PlanningDevice {
    type Memory = NoMemory;
    type HostMemory = NoMemory;
    type Fetch = NoMemory;
    type Graph = NoMemory;

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
    fn allocate(&self, bytes: usize) -> Result<NoMemory, OutOfMemory> {
        Err(refused(bytes))
    }
    fn upload(&self, _: &[u8], to: &NoMemory, _: usize) {
        match to.0 {}
    }
    fn download(&self, from: &NoMemory, _: usize, _: &mut [u8]) {
        match from.0 {}
    }
    fn fetch(&self, from: &NoMemory, _: usize, _: usize) -> NoMemory {
        match from.0 {}
    }
    fn fetched(&self, fetch: NoMemory, _: &mut [u8]) {
        match fetch.0 {}
    }
    fn copy(&self, from: &NoMemory, _: usize, _: &NoMemory, _: usize, _: usize) {
        match from.0 {}
    }
    fn clear(&self, memory: &NoMemory, _: usize, _: usize) {
        match memory.0 {}
    }
    fn allocate_host(&self, bytes: usize) -> Result<NoMemory, OutOfMemory> {
        Err(refused(bytes))
    }
    fn copy_in(&self, from: &NoMemory, _: usize, _: &NoMemory, _: usize, _: usize) {
        match from.0 {}
    }
    fn copy_out(&self, from: &NoMemory, _: usize, _: &NoMemory, _: usize, _: usize) {
        match from.0 {}
    }
    fn read_host(&self, from: &NoMemory, _: usize, _: &mut [u8]) {
        match from.0 {}
    }
    fn write_host(&self, _: &[u8], to: &NoMemory, _: usize) {
        match to.0 {}
    }
    fn launch(&self, function: &Function, _: Grid, _: &[Argument]) {
        panic!("the kernel {} was launched on a device for plans", function.name);
    }
    /// Which there may be, so that what products by it take is counted.
    fn product_library(&self) -> Option<String> {
        Some("a library of products".into())
    }
    fn capture(&self, _: &[Operation]) -> Result<NoMemory, String> {
        Err("a device for plans launches nothing".into())
    }
    fn replay(&self, graph: &NoMemory) -> Result<(), String> {
        match graph.0 {}
    }
    fn synchronize(&self) {}
}
