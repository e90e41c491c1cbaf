//! A device that computes nothing, and knows what it was asked for.

use isentrope_cuda::{Argument, Device, Function, Grid, Limits, Memory, MemoryInfo, Operation};
use isentrope_kernels::OutOfMemory;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A GPU that computes nothing, and counts what it is asked for.
#[derive(Default)]
pub struct Counts {
    launches: AtomicUsize,
    replays: AtomicUsize,
    uploads: AtomicUsize,
    /// Times that the host waits for all that it has asked for.
    waits: AtomicUsize,
    /// Times that it waits for something while the GPU has more to do.
    waits_behind: AtomicUsize,
    /// Launches of both kinds so far.
    all_launches: AtomicUsize,
    addresses: AtomicU64,
    launched: Mutex<Vec<Launch>>,
    uploaded: Mutex<BTreeMap<u64, Vec<u8>>>,
}

/// A kernel that was launched.
pub struct Launch {
    pub name: &'static str,
    pub grid: Grid,
    pub arguments: Vec<Argument>,
}

impl Counts {
    /// Launches of kernels and of graphs, uploads and waits of both kinds since the last time.
    pub fn take(&self) -> [usize; 5] {
        [&self.launches, &self.replays, &self.uploads, &self.waits, &self.waits_behind]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// The kernels that were launched one by one since the last time.
    pub fn launched(&self) -> Vec<Launch> {
        mem::take(&mut self.launched.lock().unwrap())
    }

    /// So many words from an address on, which were uploaded.
    pub fn words(&self, address: u64, len: usize) -> Vec<u32> {
        let uploaded = self.uploaded.lock().unwrap();
        let (start, bytes) = uploaded.range(..=address).next_back().unwrap();
        let at = (address - start) as usize;
        bytes[at..at + 4 * len]
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }
}

fn count(of: &AtomicUsize) {
    of.fetch_add(1, Ordering::Relaxed);
}

pub struct Nowhere {
    address: u64,
    bytes: usize,
}

impl Memory for Nowhere {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Device for Counts {
    type Memory = Nowhere;
    type HostMemory = ();
    /// Launches before it.
    type Fetch = usize;
    type Graph = ();

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
    fn allocate(&self, bytes: usize) -> Result<Nowhere, OutOfMemory> {
        let size = (bytes as u64).next_multiple_of(256) + 256;
        Ok(Nowhere { address: 256 + self.addresses.fetch_add(size, Ordering::Relaxed), bytes })
    }
    fn upload(&self, bytes: &[u8], to: &Nowhere, offset: usize) {
        count(&self.uploads);
        self.uploaded.lock().unwrap().insert(to.address + offset as u64, bytes.to_vec());
    }
    fn download(&self, _: &Nowhere, _: usize, bytes: &mut [u8]) {
        count(&self.waits);
        bytes.fill(0);
    }
    fn fetch(&self, _: &Nowhere, _: usize, _: usize) -> usize {
        self.all_launches.load(Ordering::Relaxed)
    }
    fn fetched(&self, before: usize, bytes: &mut [u8]) {
        let is_behind = self.all_launches.load(Ordering::Relaxed) > before;
        count(if is_behind { &self.waits_behind } else { &self.waits });
        bytes.fill(0);
    }
    fn copy(&self, _: &Nowhere, _: usize, _: &Nowhere, _: usize, _: usize) {
        count(&self.launches);
    }
    fn clear(&self, _: &Nowhere, _: usize, _: usize) {
        count(&self.launches);
    }
    fn allocate_host(&self, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }
    fn copy_in(&self, (): &(), _: usize, _: &Nowhere, _: usize, _: usize) {
        count(&self.uploads);
    }
    fn copy_out(&self, _: &Nowhere, _: usize, (): &(), _: usize, _: usize) {
        count(&self.uploads);
    }
    fn read_host(&self, (): &(), _: usize, _: &mut [u8]) {
        count(&self.waits);
    }
    fn write_host(&self, _: &[u8], (): &(), _: usize) {
        count(&self.waits);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        // A grid without blocks launches nothing.
        if !grid.blocks.contains(&0) {
            count(&self.launches);
            count(&self.all_launches);
            let launch = Launch { name: function.name, grid, arguments: arguments.to_vec() };
            self.launched.lock().unwrap().push(launch);
        }
    }
    fn capture(&self, _: &[Operation]) -> Result<(), String> {
        Ok(())
    }
    fn replay(&self, (): &()) -> Result<(), String> {
        count(&self.replays);
        count(&self.all_launches);
        Ok(())
    }
    fn synchronize(&self) {
        count(&self.waits);
    }
}
