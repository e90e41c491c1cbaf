//! A device that computes nothing, and counts requests.

use isentrope_cuda::{
    Argument, Device, Fetch, Function, Graph, Grid, HostMemory, Limits, Memory, MemoryInfo,
    Operation, Product,
};
use isentrope_kernels::OutOfMemory;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A GPU that computes nothing, and counts requests.
#[derive(Default)]
pub struct Counts {
    launches: AtomicUsize,
    replays: AtomicUsize,
    uploads: AtomicUsize,
    /// How often the host waited for all its requests.
    waits: AtomicUsize,
    /// How often it waited for something while the GPU had later work.
    waits_behind: AtomicUsize,
    /// Launches of both kinds so far.
    all_launches: AtomicUsize,
    addresses: AtomicU64,
    /// Whether the GPU has had work since the host last waited for it.
    has_work: AtomicBool,
    /// How often the host waited for work, rather than for bytes alone.
    stalls: AtomicUsize,
    uploaded_bytes: AtomicUsize,
    /// Launches of each kernel, and of the library's.
    by_kernel: Mutex<BTreeMap<&'static str, usize>>,
    /// Whether there is a library that computes all products.
    has_library: bool,
}

/// The name that stands for all of the library's kernels.
pub const LIBRARY: &str = "the library's";

impl Counts {
    /// With a library that computes all products.
    pub fn with_library() -> Self {
        Self { has_library: true, ..Self::default() }
    }

    /// Launches of each kernel since the last call.
    pub fn take_kernels(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.by_kernel.lock().unwrap())
    }

    fn launched(&self, kernel: &'static str) {
        count(&self.launches);
        count(&self.all_launches);
        *self.by_kernel.lock().unwrap().entry(kernel).or_default() += 1;
        self.has_work.store(true, Ordering::Relaxed);
    }

    /// Launches of kernels and of graphs, uploads, and both kinds of waits since the last call.
    pub fn take(&self) -> [usize; 5] {
        [&self.launches, &self.replays, &self.uploads, &self.waits, &self.waits_behind]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// How often the host waited for work, and the bytes that it uploaded, since the last call.
    pub fn take_stalls(&self) -> [usize; 2] {
        [&self.stalls, &self.uploaded_bytes].map(|count| count.swap(0, Ordering::Relaxed))
    }

    fn wait(&self) {
        count(&self.waits);
        if self.has_work.swap(false, Ordering::Relaxed) {
            count(&self.stalls);
        }
    }
}

fn count(of: &AtomicUsize) {
    of.fetch_add(1, Ordering::Relaxed);
}

impl Device for Counts {
    fn name(&self) -> String {
        "a GPU that counts".into()
    }
    fn limits(&self) -> Limits {
        Limits { capability: (9, 0), processors: 132, shared: 227 << 10 }
    }
    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo { free: 1 << 40, total: 1 << 40 }
    }
    fn keeps_memory(&self) -> bool {
        true
    }
    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
        let size = (bytes as u64).next_multiple_of(256) + 256;
        let address = 256 + self.addresses.fetch_add(size, Ordering::Relaxed);
        Ok(Memory::new(address, bytes, ()))
    }
    fn upload(&self, bytes: &[u8], _: &Memory, _: usize) {
        count(&self.uploads);
        self.uploaded_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
    }
    fn download(&self, _: &Memory, _: usize, bytes: &mut [u8]) {
        self.wait();
        bytes.fill(0);
    }
    fn fetch(&self, _: &Memory, _: usize, _: usize) -> Fetch {
        // A fetch is known by the number of launches before it.
        Fetch::new(self.all_launches.load(Ordering::Relaxed))
    }
    fn fetched(&self, before: Fetch, bytes: &mut [u8]) {
        let is_behind = self.all_launches.load(Ordering::Relaxed) > before.into_own::<usize>();
        count(if is_behind { &self.waits_behind } else { &self.waits });
        bytes.fill(0);
    }
    fn copy(&self, _: &Memory, _: usize, _: &Memory, _: usize, _: usize) {
        count(&self.launches);
    }
    fn clear(&self, _: &Memory, _: usize, _: usize) {
        count(&self.launches);
    }
    fn allocate_host(&self, _: usize) -> Result<HostMemory, OutOfMemory> {
        Ok(HostMemory::new(()))
    }
    fn copy_in(&self, _: &HostMemory, _: usize, _: &Memory, _: usize, _: usize) {
        count(&self.uploads);
    }
    fn copy_out(&self, _: &Memory, _: usize, _: &HostMemory, _: usize, _: usize) {
        count(&self.uploads);
    }
    fn read_host(&self, _: &HostMemory, _: usize, _: &mut [u8]) {
        count(&self.waits);
    }
    fn write_host(&self, _: &[u8], _: &HostMemory, _: usize) {
        count(&self.waits);
    }
    fn product_library(&self) -> Option<String> {
        self.has_library.then(|| "a library".into())
    }
    fn examine(&self, _: &Product) -> Result<(), String> {
        if self.has_library { Ok(()) } else { Err("there is no library".into()) }
    }
    fn product(&self, _: &Product) -> bool {
        if self.has_library {
            self.launched(LIBRARY);
        }
        self.has_library
    }
    fn launch(&self, function: &Function, grid: Grid, _: &[Argument]) {
        assert!(grid.blocks[1..].iter().all(|&n| n <= 65_535), "a grid of {:?}", grid.blocks);
        // A grid without blocks launches nothing.
        if !grid.blocks.contains(&0) {
            self.launched(function.name);
        }
    }
    fn capture(&self, _: &[Operation]) -> Result<Graph, String> {
        Ok(Graph::new(()))
    }
    fn replay(&self, _: &Graph) -> Result<(), String> {
        count(&self.replays);
        count(&self.all_launches);
        Ok(())
    }
    fn synchronize(&self) {
        self.wait();
    }
}
