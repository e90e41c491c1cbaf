//! The device as operations call it: at once, or put down to be called together.
//!
//! While a step is recorded, the launches of the thread that makes it are put down, and what it
//! uploads gathers in one piece of memory that keeps its place from step to step. Whatever else it
//! calls (a copy, a download) has to be called in its order: then what has been put down is carried
//! out, and the rest of the step is called at once.

use crate::device::{Device, Limits, MemoryInfo, Product};
use crate::kernels::{Argument, Function, Grid};
use crate::operation::{Operation, carry_out};
use crate::pool::{Block, Pool};
use crate::uploaded::Uploaded;
use isentrope_kernels::OutOfMemory;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Bytes of the first region for uploads; the next ones are twice as large each.
const REGION: usize = 64 << 10;
/// Places of uploads are multiples of this at least, as memory's are; and of a power of two not far
/// below their size, so that a longer upload seldom moves those behind it.
const ALIGNMENT: usize = 256;

/// A device, and what is being recorded of the calls to it.
pub(crate) struct Stream<D: Device> {
    device: Arc<D>,
    pool: Arc<Pool<D>>,
    recording: Mutex<Option<Recording<D>>>,
    /// Processors that work is divided for, where these are not the device's.
    processors: Option<usize>,
}

struct Recording<D: Device> {
    /// Whose calls are put down.
    thread: ThreadId,
    operations: Vec<Operation>,
    regions: Vec<Region<D>>,
    /// Whether something could not be put down: calls are made at once from then on.
    is_over: bool,
}

/// Memory on the device for uploads, and what goes there.
struct Region<D: Device> {
    block: Arc<Block<D>>,
    size: usize,
    bytes: Vec<u8>,
}

/// A step that is being recorded. Dropped before its [end](Self::finish), as in a panic, it is
/// forgotten.
pub(crate) struct Recorded<'s, D: Device>(&'s Stream<D>);

impl<D: Device> Stream<D> {
    /// The device's stream; `pool` has the memory of its steps.
    pub(crate) fn new(device: Arc<D>, pool: Arc<Pool<D>>) -> Self {
        Self { device, pool, recording: Mutex::default(), processors: None }
    }

    /// Says from now on that there are so many processors.
    pub(crate) fn divide_for(&mut self, processors: usize) {
        self.processors = Some(processors);
    }

    /// The device itself.
    pub(crate) fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Records what this thread calls from now on; none where something is being recorded already.
    pub(crate) fn record(&self) -> Option<Recorded<'_, D>> {
        let mut recording = self.lock();
        if recording.is_some() {
            return None;
        }
        let thread = thread::current().id();
        let (operations, regions) = (Vec::new(), Vec::new());
        *recording = Some(Recording { thread, operations, regions, is_over: false });
        self.pool.hold_steps();
        Some(Recorded(self))
    }

    /// Whether calls of this thread are put down.
    pub(crate) fn is_recording(&self) -> bool {
        self.lock().as_mut().is_some_and(|recording| recording.is_open())
    }

    /// Puts bytes down to be uploaded, where a step is recorded; `allocate` gives memory that no
    /// launch of the step has had. None where none is recorded, or there is no memory.
    pub(crate) fn place(
        &self,
        bytes: &[u8],
        allocate: impl FnOnce(usize) -> Option<Block<D>>,
    ) -> Option<Uploaded<D>> {
        let mut recording = self.lock();
        let recording = recording.as_mut().filter(|recording| recording.is_open())?;
        let size = bytes.len().next_power_of_two().max(ALIGNMENT);
        let start = |region: &Region<D>| region.bytes.len().next_multiple_of(ALIGNMENT);
        let has_room =
            recording.regions.last().is_some_and(|region| start(region) + size <= region.size);
        if !has_room {
            let next = recording.regions.last().map_or(REGION, |region| 2 * region.size).max(size);
            let block = Arc::new(allocate(next)?);
            recording.regions.push(Region { block, size: next, bytes: Vec::new() });
        }
        let region = recording.regions.last_mut()?;
        let start = start(region);
        region.bytes.resize(start, 0);
        region.bytes.extend_from_slice(bytes);
        // The next one begins behind the room that this one has.
        region.bytes.resize(start + size, 0);
        Some(Uploaded::new(region.block.clone(), start))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Recording<D>>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an operation down, if a step is recorded.
    fn put_down(&self, operation: impl FnOnce() -> Operation) -> bool {
        let mut recording = self.lock();
        match recording.as_mut().filter(|recording| recording.is_open()) {
            Some(recording) => {
                recording.operations.push(operation());
                true
            }
            None => false,
        }
    }

    /// Carries out what this thread has put down, and calls at once what is left of its step.
    pub(crate) fn carry_on(&self) {
        let mut recording = self.lock();
        if let Some(recording) = recording.as_mut().filter(|recording| recording.is_open()) {
            recording.is_over = true;
            recording.upload(&self.device);
            carry_out(&*self.device, &mem::take(&mut recording.operations));
            self.pool.let_go_of_steps();
        }
    }

    /// The device, for a call that cannot be put down: what has been comes before it.
    fn at_once(&self) -> &D {
        self.carry_on();
        &self.device
    }
}

impl<D: Device> Recording<D> {
    fn is_open(&self) -> bool {
        !self.is_over && self.thread == thread::current().id()
    }

    fn upload(&mut self, device: &D) {
        for Region { block, bytes, .. } in self.regions.drain(..) {
            device.upload(&bytes, block.memory(), 0);
        }
    }
}

impl<D: Device> Recorded<'_, D> {
    /// Ends the recording: uploads what the step needs, and returns what it launches; none where
    /// all has been launched already. Nobody else records, and so nobody gets the step's memory,
    /// until this is dropped, once the launches have been made.
    pub(crate) fn finish(&self) -> Option<Vec<Operation>> {
        let mut recording = self.0.lock();
        let recording = recording.as_mut().filter(|recording| recording.is_open())?;
        recording.is_over = true;
        recording.upload(&self.0.device);
        Some(mem::take(&mut recording.operations))
    }
}

impl<D: Device> Drop for Recorded<'_, D> {
    fn drop(&mut self) {
        // Under one lock: the next recording holds steps again.
        let mut recording = self.0.lock();
        self.0.pool.let_go_of_steps();
        recording.take();
    }
}

impl<D: Device> Device for Stream<D> {
    type Memory = D::Memory;
    type HostMemory = D::HostMemory;
    type Fetch = D::Fetch;
    type Graph = D::Graph;

    fn name(&self) -> String {
        self.device.name()
    }
    fn limits(&self) -> Limits {
        let limits = self.device.limits();
        Limits { processors: self.processors.unwrap_or(limits.processors), ..limits }
    }
    fn memory_info(&self) -> MemoryInfo {
        self.device.memory_info()
    }
    fn keeps_memory(&self) -> bool {
        self.device.keeps_memory()
    }
    fn allocate(&self, bytes: usize) -> Result<D::Memory, OutOfMemory> {
        self.device.allocate(bytes)
    }
    fn upload(&self, bytes: &[u8], to: &D::Memory, offset: usize) {
        self.at_once().upload(bytes, to, offset);
    }
    fn download(&self, from: &D::Memory, offset: usize, bytes: &mut [u8]) {
        self.at_once().download(from, offset, bytes);
    }
    fn fetch(&self, from: &D::Memory, offset: usize, bytes: usize) -> D::Fetch {
        self.at_once().fetch(from, offset, bytes)
    }
    fn fetched(&self, fetch: D::Fetch, bytes: &mut [u8]) {
        // It was called before whatever is being recorded.
        self.device.fetched(fetch, bytes);
    }
    fn copy(
        &self,
        from: &D::Memory,
        from_offset: usize,
        to: &D::Memory,
        to_offset: usize,
        bytes: usize,
    ) {
        self.at_once().copy(from, from_offset, to, to_offset, bytes);
    }
    fn clear(&self, memory: &D::Memory, offset: usize, bytes: usize) {
        self.at_once().clear(memory, offset, bytes);
    }
    fn allocate_host(&self, bytes: usize) -> Result<D::HostMemory, OutOfMemory> {
        self.device.allocate_host(bytes)
    }
    fn copy_in(
        &self,
        from: &D::HostMemory,
        from_offset: usize,
        to: &D::Memory,
        to_offset: usize,
        bytes: usize,
    ) {
        self.at_once().copy_in(from, from_offset, to, to_offset, bytes);
    }
    fn copy_out(
        &self,
        from: &D::Memory,
        from_offset: usize,
        to: &D::HostMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        self.at_once().copy_out(from, from_offset, to, to_offset, bytes);
    }
    fn read_host(&self, from: &D::HostMemory, offset: usize, bytes: &mut [u8]) {
        self.at_once().read_host(from, offset, bytes);
    }
    fn write_host(&self, bytes: &[u8], to: &D::HostMemory, offset: usize) {
        self.at_once().write_host(bytes, to, offset);
    }
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        let operation =
            || Operation::Launch { function: *function, grid, arguments: arguments.to_vec() };
        if !self.put_down(operation) {
            self.device.launch(function, grid, arguments);
        }
    }
    /// Where a step is recorded, the launch that follows is needed as well, for a device whose
    /// library does not compute it.
    fn product(&self, product: &Product) -> bool {
        !self.put_down(|| Operation::Product(*product)) && self.device.product(product)
    }
    fn product_library(&self) -> Option<String> {
        self.device.product_library()
    }
    fn examine(&self, product: &Product) -> Result<(), String> {
        self.at_once().examine(product)
    }
    fn capture(&self, operations: &[Operation]) -> Result<D::Graph, String> {
        self.device.capture(operations)
    }
    fn replay(&self, graph: &D::Graph) -> Result<(), String> {
        self.at_once().replay(graph)
    }
    fn synchronize(&self) {
        self.at_once().synchronize();
    }
}
