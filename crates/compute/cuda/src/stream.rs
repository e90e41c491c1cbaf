//! Passes operations' calls to the device: at once, or recorded and then made together. Traces show
//! each request of the host to the device.
//!
//! While a thread records a step, its launches are recorded, and its uploads collect in one piece of
//! memory that keeps its place from step to step. Any other call (a copy, a download) must be made
//! in its order: then the recorded launches are made, and the rest of the step is called at once.

use crate::device::{Device, Fetch, Graph, HostMemory, Limits, Memory, Product};
use crate::kernels::{Argument, Function, Grid, Launch};
use crate::operation::{Operation, carry_out, compute, launch};
use crate::pool::{Block, Pool};
use crate::uploaded::Uploaded;
use isentrope_kernels::OutOfMemory;
use isentrope_trace::call;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Bytes of the first region for uploads; the next ones are twice as large each.
const REGION: usize = 64 << 10;
/// The least alignment of uploads in the region, as of memory. The alignment is a power of two not
/// far below the upload's size, so that a longer upload seldom moves the uploads behind it.
const ALIGNMENT: usize = 256;

/// A device, and the recording of calls to it.
pub(crate) struct Stream {
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    recording: Mutex<Option<Recording>>,
    /// The number of processors that work is divided for, if it is not the device's own.
    processors: Option<usize>,
}

struct Recording {
    /// The thread whose calls are recorded.
    thread: ThreadId,
    operations: Vec<Operation>,
    regions: Vec<Region>,
    /// Whether a call could not be recorded. From then on calls are made at once.
    is_over: bool,
}

/// Memory on the device for uploads, and the bytes to upload.
struct Region {
    block: Arc<Block>,
    size: usize,
    bytes: Vec<u8>,
}

/// A step that is being recorded. If it is dropped before its [end](Self::finish), as in a panic,
/// the recording is discarded.
pub(crate) struct RecordedStep<'s>(&'s Stream);

impl Stream {
    /// The device's stream; `pool` has the memory of its steps.
    pub(crate) fn new(device: Arc<dyn Device>, pool: Arc<Pool>) -> Self {
        Self { device, pool, recording: Mutex::default(), processors: None }
    }

    /// Makes all later launches divide their work as on a device with `processors` processors.
    pub(crate) fn divide_for(&mut self, processors: usize) {
        self.processors = Some(processors);
    }

    /// The device itself.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Begins to record this thread's calls; none if a recording is under way.
    pub(crate) fn record(&self) -> Option<RecordedStep<'_>> {
        let mut recording = self.lock();
        if recording.is_some() {
            return None;
        }
        let thread = thread::current().id();
        let (operations, regions) = (Vec::new(), Vec::new());
        *recording = Some(Recording { thread, operations, regions, is_over: false });
        self.pool.hold_steps();
        Some(RecordedStep(self))
    }

    /// Whether calls of this thread are recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.lock().as_mut().is_some_and(|recording| recording.is_open())
    }

    /// Records bytes to be uploaded; `allocate` must return memory that no launch of this step
    /// uses. None if nothing is being recorded, or if memory is lacking.
    pub(crate) fn place(
        &self,
        bytes: &[u8],
        allocate: impl FnOnce(usize) -> Option<Block>,
    ) -> Option<Uploaded> {
        let mut recording = self.lock();
        let recording = recording.as_mut().filter(|recording| recording.is_open())?;
        let size = bytes.len().next_power_of_two().max(ALIGNMENT);
        let start = |region: &Region| region.bytes.len().next_multiple_of(ALIGNMENT);
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
        // The next upload begins behind the room that this one has.
        region.bytes.resize(start + size, 0);
        Some(Uploaded::new(region.block.clone(), start))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an operation, if a step is being recorded.
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

    /// Carries out this thread's recorded launches, and calls the rest of its step at once.
    pub(crate) fn carry_on(&self) {
        let mut recording = self.lock();
        if let Some(recording) = recording.as_mut().filter(|recording| recording.is_open()) {
            recording.is_over = true;
            recording.upload(&*self.device);
            carry_out(&*self.device, &mem::take(&mut recording.operations));
            self.pool.let_go_of_steps();
        }
    }

    /// The device, for a call that cannot be recorded: recorded calls come before it.
    fn at_once(&self) -> &dyn Device {
        self.carry_on();
        &*self.device
    }
}

impl Recording {
    fn is_open(&self) -> bool {
        !self.is_over && self.thread == thread::current().id()
    }

    fn upload(&mut self, device: &dyn Device) {
        for Region { block, bytes, .. } in self.regions.drain(..) {
            let _call = call("upload").with("bytes", bytes.len());
            device.upload(&bytes, block.memory(), 0);
        }
    }
}

impl RecordedStep<'_> {
    /// Ends the recording: uploads the step's data, and returns its launches; none if they have
    /// been made already. The caller makes the launches and then drops this. Until then no other
    /// thread records, so none gets the step's memory.
    pub(crate) fn finish(&self) -> Option<Vec<Operation>> {
        let mut recording = self.0.lock();
        let recording = recording.as_mut().filter(|recording| recording.is_open())?;
        recording.is_over = true;
        recording.upload(&*self.0.device);
        Some(mem::take(&mut recording.operations))
    }
}

impl Drop for RecordedStep<'_> {
    fn drop(&mut self) {
        // Under the same lock, so that the next recording holds steps again.
        let mut recording = self.0.lock();
        self.0.pool.let_go_of_steps();
        recording.take();
    }
}

/// The calls of [`Device`], in their order.
impl Stream {
    pub(crate) fn limits(&self) -> Limits {
        let limits = self.device.limits();
        Limits { processors: self.processors.unwrap_or(limits.processors), ..limits }
    }
    pub(crate) fn upload(&self, bytes: &[u8], to: &Memory, offset: usize) {
        let device = self.at_once();
        let _call = call("upload").with("bytes", bytes.len());
        device.upload(bytes, to, offset);
    }
    pub(crate) fn download(&self, from: &Memory, offset: usize, bytes: &mut [u8]) {
        let device = self.at_once();
        let _call = call("download").with("bytes", bytes.len());
        device.download(from, offset, bytes);
    }
    pub(crate) fn fetch(&self, from: &Memory, offset: usize, bytes: usize) -> Fetch {
        let device = self.at_once();
        let _call = call("fetch").with("bytes", bytes);
        device.fetch(from, offset, bytes)
    }
    /// The fetch was called before the call that is now recorded.
    pub(crate) fn fetched(&self, fetch: Fetch, bytes: &mut [u8]) {
        let _call = call("fetched").with("bytes", bytes.len());
        self.device.fetched(fetch, bytes);
    }
    pub(crate) fn copy(&self, from: &Memory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        let device = self.at_once();
        let _call = call("copy").with("bytes", bytes);
        device.copy(from, at, to, to_at, bytes);
    }
    pub(crate) fn clear(&self, memory: &Memory, offset: usize, bytes: usize) {
        let device = self.at_once();
        let _call = call("clear").with("bytes", bytes);
        device.clear(memory, offset, bytes);
    }
    pub(crate) fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory> {
        self.device.allocate_host(bytes)
    }
    pub(crate) fn copy_in(
        &self,
        from: &HostMemory,
        at: usize,
        to: &Memory,
        to_at: usize,
        bytes: usize,
    ) {
        let device = self.at_once();
        let _call = call("copy in").with("bytes", bytes);
        device.copy_in(from, at, to, to_at, bytes);
    }
    pub(crate) fn copy_out(
        &self,
        from: &Memory,
        at: usize,
        to: &HostMemory,
        to_at: usize,
        bytes: usize,
    ) {
        let device = self.at_once();
        let _call = call("copy out").with("bytes", bytes);
        device.copy_out(from, at, to, to_at, bytes);
    }
    pub(crate) fn read_host(&self, from: &HostMemory, offset: usize, bytes: &mut [u8]) {
        let device = self.at_once();
        let _call = call("read host memory").with("bytes", bytes.len());
        device.read_host(from, offset, bytes);
    }
    pub(crate) fn write_host(&self, bytes: &[u8], to: &HostMemory, offset: usize) {
        let device = self.at_once();
        let _call = call("write host memory").with("bytes", bytes.len());
        device.write_host(bytes, to, offset);
    }
    pub(crate) fn finish(&self) {
        let device = self.at_once();
        let _call = call("synchronize");
        device.synchronize();
    }
    /// If a step is recorded, the launch behind the product is needed too: the device's library may
    /// not compute the product.
    pub(crate) fn product(&self, product: &Product) -> bool {
        !self.put_down(|| Operation::Product(*product)) && compute(&*self.device, product)
    }
    pub(crate) fn product_library(&self) -> Option<String> {
        self.device.product_library()
    }
    pub(crate) fn examine(&self, product: &Product) -> Result<(), String> {
        self.at_once().examine(product)
    }
}

impl Launch for Stream {
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        let operation =
            || Operation::Launch { function: *function, grid, arguments: arguments.to_vec() };
        if !self.put_down(operation) {
            launch(&*self.device, function, grid, arguments);
        }
    }
}

/// Captures launches as one, and shows it in traces.
pub(crate) fn capture(device: &dyn Device, operations: &[Operation]) -> Result<Graph, String> {
    let _call = call("capture").with("operations", operations.len());
    device.capture(operations)
}

/// Replays a graph, and shows it in traces.
pub(crate) fn replay(device: &dyn Device, graph: &Graph) -> Result<(), String> {
    let _call = call("replay");
    device.replay(graph)
}
