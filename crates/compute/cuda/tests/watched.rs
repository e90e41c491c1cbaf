//! An emulated device whose work is watched or changed.

use isentrope_cuda::{
    Argument, Device, Fetch, Function, Graph, Grid, HostMemory, Limits, Memory, MemoryInfo,
    Operation, Product, carry_out,
};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::OutOfMemory;
use std::sync::Arc;

/// Hooks in an emulator's work. By default they do nothing, and there is no library of products.
pub trait Watch: Send + Sync + 'static {
    /// The host has received these bytes; the hook may change them.
    fn downloaded(&self, _bytes: &mut [u8]) {}
    /// As [`Device::product`].
    fn product(&self, _emulator: &Emulator, _product: &Product) -> bool {
        false
    }
    /// As [`Device::product_library`].
    fn product_library(&self) -> Option<String> {
        None
    }
    /// As [`Device::examine`].
    fn examine(&self, _product: &Product) -> Result<(), String> {
        Err("there is no library of products".into())
    }
    /// As [`Device::capture`]: returns the operations that the graph launches.
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        Ok(operations.to_vec())
    }
    /// As [`Device::replay`]: whether a graph is launched.
    fn replay(&self, _operations: &[Operation]) -> Result<(), String> {
        Ok(())
    }
    /// Memory of the host is allocated.
    fn allocated_on_host(&self, _bytes: usize) {}
    /// A kernel is launched, by itself or in a graph.
    fn launched(&self, _function: &Function) {}
    /// Whether launched kernels run.
    fn computes(&self) -> bool {
        true
    }
    /// As [`Device::limits`].
    fn limits(&self, limits: Limits) -> Limits {
        limits
    }
}

/// The device.
pub struct Watched<W> {
    pub emulator: Emulator,
    pub watch: W,
}

impl<W: Watch> Watched<W> {
    pub fn new(watch: W) -> Arc<Self> {
        Self::with(Settings::default(), watch)
    }

    pub fn with(settings: Settings, watch: W) -> Arc<Self> {
        Arc::new(Self { emulator: Emulator::new(settings), watch })
    }
}

impl<W: Watch> Device for Watched<W> {
    fn name(&self) -> String {
        self.emulator.name()
    }
    fn limits(&self) -> Limits {
        self.watch.limits(self.emulator.limits())
    }
    fn memory_info(&self) -> MemoryInfo {
        self.emulator.memory_info()
    }
    fn keeps_memory(&self) -> bool {
        self.emulator.keeps_memory()
    }
    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
        self.emulator.allocate(bytes)
    }
    fn upload(&self, bytes: &[u8], to: &Memory, offset: usize) {
        self.emulator.upload(bytes, to, offset);
    }
    fn download(&self, from: &Memory, offset: usize, bytes: &mut [u8]) {
        self.emulator.download(from, offset, bytes);
        self.watch.downloaded(bytes);
    }
    fn fetch(&self, from: &Memory, offset: usize, bytes: usize) -> Fetch {
        self.emulator.fetch(from, offset, bytes)
    }
    fn fetched(&self, fetch: Fetch, bytes: &mut [u8]) {
        self.emulator.fetched(fetch, bytes);
        self.watch.downloaded(bytes);
    }
    fn copy(&self, from: &Memory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        self.emulator.copy(from, at, to, to_at, bytes);
    }
    fn clear(&self, memory: &Memory, offset: usize, bytes: usize) {
        self.emulator.clear(memory, offset, bytes);
    }
    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory> {
        self.watch.allocated_on_host(bytes);
        self.emulator.allocate_host(bytes)
    }
    fn copy_in(&self, from: &HostMemory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        self.emulator.copy_in(from, at, to, to_at, bytes);
    }
    fn copy_out(&self, from: &Memory, at: usize, to: &HostMemory, to_at: usize, bytes: usize) {
        self.emulator.copy_out(from, at, to, to_at, bytes);
    }
    fn read_host(&self, from: &HostMemory, offset: usize, bytes: &mut [u8]) {
        self.emulator.read_host(from, offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &HostMemory, offset: usize) {
        self.emulator.write_host(bytes, to, offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.watch.launched(function);
        if self.watch.computes() {
            self.emulator.launch(function, grid, arguments);
        }
    }
    fn product(&self, product: &Product) -> bool {
        self.watch.product(&self.emulator, product)
    }
    fn product_library(&self) -> Option<String> {
        self.watch.product_library()
    }
    fn examine(&self, product: &Product) -> Result<(), String> {
        self.watch.examine(product)
    }
    fn capture(&self, operations: &[Operation]) -> Result<Graph, String> {
        self.watch.capture(operations).map(Graph::new)
    }
    fn replay(&self, graph: &Graph) -> Result<(), String> {
        let operations: &Vec<Operation> = graph.of();
        self.watch.replay(operations)?;
        carry_out(self, operations);
        Ok(())
    }
    fn synchronize(&self) {
        self.emulator.synchronize();
    }
}
