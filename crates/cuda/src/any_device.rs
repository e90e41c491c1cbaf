//! A device whose type is known at run time only.

use crate::device::{Device, Limits, Memory, MemoryInfo, Product};
use crate::kernels::{Argument, Function, Grid};
use isentrope_kernels::OutOfMemory;
use std::any::Any;

/// Some device: a program that computes on a GPU, or in tests on the emulator, has one instance of the backend for both. A
/// virtual call per launch is nothing beside a launch.
pub struct AnyDevice(Box<dyn Erased>);

/// Memory of an [`AnyDevice`].
pub struct AnyMemory {
    memory: Box<dyn Any + Send + Sync>,
    address: u64,
    bytes: usize,
}

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
    fn copy(&self, from: &AnyMemory, from_offset: usize, to: &AnyMemory, to_offset: usize, bytes: usize);
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize);
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]);
    fn product(&self, product: &Product) -> bool;
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
    fn copy(&self, from: &AnyMemory, from_offset: usize, to: &AnyMemory, to_offset: usize, bytes: usize) {
        Device::copy(self, from.of::<D>(), from_offset, to.of::<D>(), to_offset, bytes);
    }
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize) {
        Device::clear(self, memory.of::<D>(), offset, bytes);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        Device::launch(self, function, grid, arguments);
    }
    fn product(&self, product: &Product) -> bool {
        Device::product(self, product)
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
        self.0.allocate(bytes)
    }
    fn upload(&self, bytes: &[u8], to: &AnyMemory, offset: usize) {
        self.0.upload(bytes, to, offset);
    }
    fn download(&self, from: &AnyMemory, offset: usize, bytes: &mut [u8]) {
        self.0.download(from, offset, bytes);
    }
    fn copy(&self, from: &AnyMemory, from_offset: usize, to: &AnyMemory, to_offset: usize, bytes: usize) {
        self.0.copy(from, from_offset, to, to_offset, bytes);
    }
    fn clear(&self, memory: &AnyMemory, offset: usize, bytes: usize) {
        self.0.clear(memory, offset, bytes);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.0.launch(function, grid, arguments);
    }
    fn product(&self, product: &Product) -> bool {
        self.0.product(product)
    }
    fn synchronize(&self) {
        self.0.synchronize();
    }
}
