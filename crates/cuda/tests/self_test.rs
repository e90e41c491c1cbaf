//! The operations that a GPU must get right before it is used.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_cuda::{Argument, Cuda, Device, Dtype, Function, Grid, Limits, MemoryInfo, self_test};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::OutOfMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An emulated device one of whose downloads, counted from 0, has a wrong bit: with f32 in its last number, with bf16
/// near its beginning, since rows of bf16 end with what pads them.
struct Wrong {
    emulator: Emulator,
    dtype: Dtype,
    which: usize,
    downloads: AtomicUsize,
}

impl Device for Wrong {
    type Memory = <Emulator as Device>::Memory;
    type HostMemory = <Emulator as Device>::HostMemory;

    fn name(&self) -> String {
        self.emulator.name()
    }
    fn limits(&self) -> Limits {
        self.emulator.limits()
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
        self.emulator.upload(bytes, to, offset);
    }
    fn download(&self, from: &Self::Memory, offset: usize, bytes: &mut [u8]) {
        self.emulator.download(from, offset, bytes);
        if self.downloads.fetch_add(1, Ordering::Relaxed) == self.which {
            let at = if self.dtype == Dtype::F32 { bytes.len() - 2 } else { 2 };
            bytes[at] ^= 1;
        }
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
    fn copy_in(&self, from: &Self::HostMemory, at: usize, to: &Self::Memory, to_at: usize, bytes: usize) {
        self.emulator.copy_in(from, at, to, to_at, bytes);
    }
    fn copy_out(&self, from: &Self::Memory, at: usize, to: &Self::HostMemory, to_at: usize, bytes: usize) {
        self.emulator.copy_out(from, at, to, to_at, bytes);
    }
    fn read_host(&self, from: &Self::HostMemory, offset: usize, bytes: &mut [u8]) {
        self.emulator.read_host(from, offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &Self::HostMemory, offset: usize) {
        self.emulator.write_host(bytes, to, offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.emulator.launch(function, grid, arguments);
    }
    fn synchronize(&self) {
        self.emulator.synchronize();
    }
}

/// What is said of a device whose download `which` is wrong, and how many downloads there were.
fn tested(dtype: Dtype, capability: (u32, u32), which: usize) -> (Result<(), String>, usize) {
    let emulator = Emulator::new(Settings { capability, ..Settings::default() });
    let backend =
        Cuda::new(Arc::new(Wrong { emulator, dtype, which, downloads: AtomicUsize::new(0) }), dtype);
    (self_test(&backend), backend.device().downloads.load(Ordering::Relaxed))
}

#[test]
fn a_sound_device_passes_and_a_single_wrong_bit_is_told() {
    let cases = [(Dtype::F32, (9, 0)), (Dtype::Bf16, (9, 0)), (Dtype::Bf16, (8, 0))];
    for (dtype, capability) in cases {
        let (said, downloads) = tested(dtype, capability, usize::MAX);
        said.unwrap();
        for which in 0..downloads {
            let (said, _) = tested(dtype, capability, which);
            let Err(said) = said else { panic!("download {which} of {dtype:?} may be wrong") };
            assert!(said.contains(" where it must be "), "download {which} of {dtype:?}: {said}");
        }
    }
}
