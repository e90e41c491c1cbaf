//! An emulated device that is looked at, or interfered with, on the way.

use isentrope_cuda::{
    Argument, Device, Function, Grid, Limits, MemoryInfo, Operation, Product, carry_out,
};
use isentrope_cuda_emulator::Emulator;
use isentrope_kernels::OutOfMemory;

/// Hooks beside the emulator's own work. By default they do nothing, and there is no library of
/// products.
pub trait Watch: Send + Sync + 'static {
    /// The host has got these bytes, which may be changed.
    fn downloaded(&self, _bytes: &mut [u8]) {}
    /// As [`Device::product`].
    fn product(&self, _product: &Product) -> bool {
        false
    }
    /// The same, with the emulator at hand.
    fn product_on(&self, _emulator: &Emulator, product: &Product) -> bool {
        self.product(product)
    }
    /// As [`Device::product_library`].
    fn product_library(&self) -> Option<String> {
        None
    }
    /// As [`Device::examine`].
    fn examine(&self, _product: &Product) -> Result<(), String> {
        Err("there is no library of products".into())
    }
    /// As [`Device::capture`]: what is launched when the graph is.
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        Ok(operations.to_vec())
    }
    /// As [`Device::replay`]: whether a graph is launched.
    fn replay(&self, _operations: &[Operation]) -> Result<(), String> {
        Ok(())
    }
    /// A kernel is launched, by itself or of a graph.
    fn launched(&self, _function: &Function) {}
    /// As [`Device::limits`].
    fn limits(&self, limits: Limits) -> Limits {
        limits
    }
    /// So many bytes go to the device.
    fn uploaded(&self, _bytes: usize) {}
}

/// The device.
pub struct Watched<W> {
    pub emulator: Emulator,
    pub watch: W,
}

impl<W: Watch> Device for Watched<W> {
    type Memory = <Emulator as Device>::Memory;
    type HostMemory = <Emulator as Device>::HostMemory;
    type Fetch = <Emulator as Device>::Fetch;
    type Graph = Vec<Operation>;

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
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, OutOfMemory> {
        self.emulator.allocate(bytes)
    }
    fn upload(&self, bytes: &[u8], to: &Self::Memory, offset: usize) {
        self.watch.uploaded(bytes.len());
        self.emulator.upload(bytes, to, offset);
    }
    fn download(&self, from: &Self::Memory, offset: usize, bytes: &mut [u8]) {
        self.emulator.download(from, offset, bytes);
        self.watch.downloaded(bytes);
    }
    fn fetch(&self, from: &Self::Memory, offset: usize, bytes: usize) -> Self::Fetch {
        self.emulator.fetch(from, offset, bytes)
    }
    fn fetched(&self, fetch: Self::Fetch, bytes: &mut [u8]) {
        self.emulator.fetched(fetch, bytes);
        self.watch.downloaded(bytes);
    }
    fn copy(&self, from: &Self::Memory, at: usize, to: &Self::Memory, to_at: usize, bytes: usize) {
        self.emulator.copy(from, at, to, to_at, bytes);
    }
    fn clear(&self, memory: &Self::Memory, offset: usize, bytes: usize) {
        self.emulator.clear(memory, offset, bytes);
    }
    fn allocate_host(&self, bytes: usize) -> Result<Self::HostMemory, OutOfMemory> {
        self.emulator.allocate_host(bytes)
    }
    fn copy_in(
        &self,
        from: &Self::HostMemory,
        at: usize,
        to: &Self::Memory,
        to_at: usize,
        bytes: usize,
    ) {
        self.emulator.copy_in(from, at, to, to_at, bytes);
    }
    fn copy_out(
        &self,
        from: &Self::Memory,
        at: usize,
        to: &Self::HostMemory,
        to_at: usize,
        bytes: usize,
    ) {
        self.emulator.copy_out(from, at, to, to_at, bytes);
    }
    fn read_host(&self, from: &Self::HostMemory, offset: usize, bytes: &mut [u8]) {
        self.emulator.read_host(from, offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &Self::HostMemory, offset: usize) {
        self.emulator.write_host(bytes, to, offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.watch.launched(function);
        self.emulator.launch(function, grid, arguments);
    }
    fn product(&self, product: &Product) -> bool {
        self.watch.product_on(&self.emulator, product)
    }
    fn product_library(&self) -> Option<String> {
        self.watch.product_library()
    }
    fn examine(&self, product: &Product) -> Result<(), String> {
        self.watch.examine(product)
    }
    fn capture(&self, operations: &[Operation]) -> Result<Self::Graph, String> {
        self.watch.capture(operations)
    }
    fn replay(&self, graph: &Self::Graph) -> Result<(), String> {
        self.watch.replay(graph)?;
        carry_out(self, graph);
        Ok(())
    }
    fn synchronize(&self) {
        self.emulator.synchronize();
    }
}
