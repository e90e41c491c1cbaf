//! A device whose type is known at run time only. What the host asks of it is in traces.

use crate::device::{Device, Limits, Memory, MemoryInfo, Product};
use crate::kernels::{Argument, Function, Grid};
use crate::operation::Operation;
use isentrope_kernels::OutOfMemory;
use isentrope_trace::call;
use std::any::Any;

/// Some device: a program that computes on a GPU, or in tests on the emulator, has one instance of
/// the backend for both. A virtual call per launch is nothing beside a launch.
pub struct AnyDevice(Box<dyn Erased>);

/// Memory of an [`AnyDevice`].
pub struct AnyMemory {
    memory: Box<dyn Any + Send + Sync>,
    address: u64,
    bytes: usize,
}

/// Memory of the host's that an [`AnyDevice`] has allocated.
pub struct AnyHostMemory(Box<dyn Any + Send + Sync>);

/// Bytes on their way from an [`AnyDevice`].
pub struct AnyFetch(Box<dyn Any + Send>);

/// Launches that an [`AnyDevice`] has made one.
pub struct AnyGraph(Box<dyn Any + Send + Sync>);

impl AnyDevice {
    /// This device.
    pub fn new(device: impl Device) -> Self {
        Self(Box::new(device))
    }
}

/// [`Device`] with memory of an unknown type.
trait Erased: Send + Sync {
    fn name(&self) -> String;
    fn limits(&self) -> Limits;
    fn memory_info(&self) -> MemoryInfo;
    fn keeps_memory(&self) -> bool;
    fn allocate(&self, bytes: usize) -> Result<AnyMemory, OutOfMemory>;
    fn upload(&self, bytes: &[u8], to: &AnyMemory, offset: usize);
    fn download(&self, from: &AnyMemory, offset: usize, bytes: &mut [u8]);
    fn fetch(&self, from: &AnyMemory, offset: usize, bytes: usize) -> AnyFetch;
    fn fetched(&self, fetch: AnyFetch, bytes: &mut [u8]);
    fn copy(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    );
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize);
    fn allocate_host(&self, bytes: usize) -> Result<AnyHostMemory, OutOfMemory>;
    fn copy_in(
        &self,
        from: &AnyHostMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    );
    fn copy_out(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyHostMemory,
        to_offset: usize,
        bytes: usize,
    );
    fn read_host(&self, from: &AnyHostMemory, offset: usize, bytes: &mut [u8]);
    fn write_host(&self, bytes: &[u8], to: &AnyHostMemory, offset: usize);
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]);
    fn product_library(&self) -> Option<String>;
    fn examine(&self, product: &Product) -> Result<(), String>;
    fn product(&self, product: &Product) -> bool;
    fn capture(&self, operations: &[Operation]) -> Result<AnyGraph, String>;
    fn replay(&self, graph: &AnyGraph) -> Result<(), String>;
    fn synchronize(&self);
}

impl AnyMemory {
    /// As the device has it that has allocated it.
    ///
    /// # Panics
    /// When it is another device's.
    fn of<D: Device>(&self) -> &D::Memory {
        self.memory.downcast_ref().expect("memory goes to the device that it is of")
    }
}

impl AnyHostMemory {
    /// As [`AnyMemory::of`].
    fn of<D: Device>(&self) -> &D::HostMemory {
        self.0.downcast_ref().expect("memory goes to the device that has allocated it")
    }
}

impl<D: Device> Erased for D {
    fn name(&self) -> String {
        Device::name(self)
    }
    fn limits(&self) -> Limits {
        Device::limits(self)
    }
    fn memory_info(&self) -> MemoryInfo {
        Device::memory_info(self)
    }
    fn keeps_memory(&self) -> bool {
        Device::keeps_memory(self)
    }
    fn allocate(&self, bytes: usize) -> Result<AnyMemory, OutOfMemory> {
        let memory = Device::allocate(self, bytes)?;
        let (address, bytes) = (memory.address(), memory.bytes());
        Ok(AnyMemory { memory: Box::new(memory), address, bytes })
    }
    fn upload(&self, bytes: &[u8], to: &AnyMemory, offset: usize) {
        Device::upload(self, bytes, to.of::<D>(), offset);
    }
    fn download(&self, from: &AnyMemory, offset: usize, bytes: &mut [u8]) {
        Device::download(self, from.of::<D>(), offset, bytes);
    }
    fn fetch(&self, from: &AnyMemory, offset: usize, bytes: usize) -> AnyFetch {
        AnyFetch(Box::new(Device::fetch(self, from.of::<D>(), offset, bytes)))
    }
    fn fetched(&self, fetch: AnyFetch, bytes: &mut [u8]) {
        let fetch = fetch.0.downcast().expect("bytes are asked for where they were fetched");
        Device::fetched(self, *fetch, bytes);
    }
    fn copy(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        Device::copy(self, from.of::<D>(), from_offset, to.of::<D>(), to_offset, bytes);
    }
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize) {
        Device::clear(self, memory.of::<D>(), offset, bytes);
    }
    fn allocate_host(&self, bytes: usize) -> Result<AnyHostMemory, OutOfMemory> {
        Ok(AnyHostMemory(Box::new(Device::allocate_host(self, bytes)?)))
    }
    fn copy_in(
        &self,
        from: &AnyHostMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        Device::copy_in(self, from.of::<D>(), from_offset, to.of::<D>(), to_offset, bytes);
    }
    fn copy_out(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyHostMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        Device::copy_out(self, from.of::<D>(), from_offset, to.of::<D>(), to_offset, bytes);
    }
    fn read_host(&self, from: &AnyHostMemory, offset: usize, bytes: &mut [u8]) {
        Device::read_host(self, from.of::<D>(), offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &AnyHostMemory, offset: usize) {
        Device::write_host(self, bytes, to.of::<D>(), offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        Device::launch(self, function, grid, arguments);
    }
    fn product_library(&self) -> Option<String> {
        Device::product_library(self)
    }
    fn examine(&self, product: &Product) -> Result<(), String> {
        Device::examine(self, product)
    }
    fn product(&self, product: &Product) -> bool {
        Device::product(self, product)
    }
    fn capture(&self, operations: &[Operation]) -> Result<AnyGraph, String> {
        Ok(AnyGraph(Box::new(Device::capture(self, operations)?)))
    }
    fn replay(&self, graph: &AnyGraph) -> Result<(), String> {
        let graph =
            graph.0.downcast_ref().expect("a graph goes to the device that has captured it");
        Device::replay(self, graph)
    }
    fn synchronize(&self) {
        Device::synchronize(self);
    }
}

impl Memory for AnyMemory {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Device for AnyDevice {
    type Memory = AnyMemory;
    type HostMemory = AnyHostMemory;
    type Fetch = AnyFetch;
    type Graph = AnyGraph;

    fn name(&self) -> String {
        self.0.name()
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn memory_info(&self) -> MemoryInfo {
        self.0.memory_info()
    }
    fn keeps_memory(&self) -> bool {
        self.0.keeps_memory()
    }
    fn allocate(&self, bytes: usize) -> Result<AnyMemory, OutOfMemory> {
        let _call = call("allocate").with("bytes", bytes);
        self.0.allocate(bytes)
    }
    fn upload(&self, bytes: &[u8], to: &AnyMemory, offset: usize) {
        let _call = call("upload").with("bytes", bytes.len());
        self.0.upload(bytes, to, offset);
    }
    fn download(&self, from: &AnyMemory, offset: usize, bytes: &mut [u8]) {
        let _call = call("download").with("bytes", bytes.len());
        self.0.download(from, offset, bytes);
    }
    fn fetch(&self, from: &AnyMemory, offset: usize, bytes: usize) -> AnyFetch {
        let _call = call("fetch").with("bytes", bytes);
        self.0.fetch(from, offset, bytes)
    }
    fn fetched(&self, fetch: AnyFetch, bytes: &mut [u8]) {
        let _call = call("fetched").with("bytes", bytes.len());
        self.0.fetched(fetch, bytes);
    }
    fn copy(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let _call = call("copy").with("bytes", bytes);
        self.0.copy(from, from_offset, to, to_offset, bytes);
    }
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize) {
        let _call = call("clear").with("bytes", bytes);
        self.0.clear(memory, offset, bytes);
    }
    fn allocate_host(&self, bytes: usize) -> Result<AnyHostMemory, OutOfMemory> {
        self.0.allocate_host(bytes)
    }
    fn copy_in(
        &self,
        from: &AnyHostMemory,
        from_offset: usize,
        to: &AnyMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let _call = call("copy in").with("bytes", bytes);
        self.0.copy_in(from, from_offset, to, to_offset, bytes);
    }
    fn copy_out(
        &self,
        from: &AnyMemory,
        from_offset: usize,
        to: &AnyHostMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let _call = call("copy out").with("bytes", bytes);
        self.0.copy_out(from, from_offset, to, to_offset, bytes);
    }
    fn read_host(&self, from: &AnyHostMemory, offset: usize, bytes: &mut [u8]) {
        let _call = call("read host memory").with("bytes", bytes.len());
        self.0.read_host(from, offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &AnyHostMemory, offset: usize) {
        let _call = call("write host memory").with("bytes", bytes.len());
        self.0.write_host(bytes, to, offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        let _call = call("launch").named("kernel", function.name);
        self.0.launch(function, grid, arguments);
    }
    fn product_library(&self) -> Option<String> {
        self.0.product_library()
    }
    fn examine(&self, product: &Product) -> Result<(), String> {
        self.0.examine(product)
    }
    fn product(&self, product: &Product) -> bool {
        let _call = call("product").with("rows", product.rows).with("columns", product.columns);
        self.0.product(product)
    }
    fn capture(&self, operations: &[Operation]) -> Result<AnyGraph, String> {
        let _call = call("capture").with("operations", operations.len());
        self.0.capture(operations)
    }
    fn replay(&self, graph: &AnyGraph) -> Result<(), String> {
        let _call = call("replay");
        self.0.replay(graph)
    }
    fn synchronize(&self) {
        let _call = call("synchronize");
        self.0.synchronize();
    }
}
