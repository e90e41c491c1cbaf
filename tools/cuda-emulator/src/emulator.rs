//! The emulated device.

use crate::failure::{LaunchFailure, Mistake};
use crate::library_stream::LibraryStream;
use crate::memory::{Allocations, EmulatedMemory, Snapshot};
use crate::order::Order;
use crate::region::damage_between;
use crate::tensor_core::TensorCore;
use crate::trap;
use crate::unit::{Export, Replaced, Unit};
use crate::work::TracedWork;
use crate::worker::{Launch, Worker};
use isentrope_cuda::{
    Argument, Device, Fetch, Function, Graph, Grid, HostMemory, Limits, Memory, MemoryInfo,
    Operation, Source, carry_out,
};
use isentrope_kernels::OutOfMemory;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{env, ptr, thread};

/// The emulated device, and how strictly it is emulated.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Seed of schedules and of poison.
    pub seed: u64,
    /// Host threads that run blocks, where a launch is large enough for them.
    pub workers: usize,
    /// Whether every load and store is checked: bounds to the byte, reads of unwritten shared
    /// memory, races. It is ten times slower, and blocks run on one host thread.
    pub races: bool,
    /// Compute capability: decides the tensor cores' arithmetic, and how much shared memory there
    /// is.
    pub capability: (u32, u32),
    /// Bytes of memory.
    pub memory: usize,
    /// A kernel, and the number of its launch, from 1, from which on all launches fail.
    pub fails_at: Option<(&'static str, u64)>,
}

impl Default for Settings {
    /// A Hopper with 8 GiB and one worker. The seed is `ISENTROPE_EMULATOR_SEED`, or 0; every
    /// access is checked if `ISENTROPE_EMULATOR_RACES` is set.
    fn default() -> Self {
        let seed = env::var("ISENTROPE_EMULATOR_SEED").ok().and_then(|seed| seed.parse().ok());
        Self {
            seed: seed.unwrap_or(0),
            workers: 1,
            races: env::var_os("ISENTROPE_EMULATOR_RACES").is_some_and(|value| !value.is_empty()),
            capability: (9, 0),
            memory: 8 << 30,
            fails_at: None,
        }
    }
}

/// A GPU that is not there, and one stream of its work. Kernels run on the CPU, by their sources.
pub struct Emulator {
    shared: Arc<Shared>,
    /// The stream's number.
    number: usize,
    /// The stream that libraries put work into.
    stream: Box<LibraryStream>,
}

/// The device that both streams share.
struct Shared {
    settings: Settings,
    allocations: Arc<Allocations>,
    /// Workers that wait for the next launch. A launch holds the lock until its blocks have run.
    workers: Mutex<Vec<Worker>>,
    launches: AtomicU64,
    /// Launches of the kernel that is to fail.
    launches_to_failure: AtomicU64,
    /// Sources compiled so far.
    units: Mutex<HashMap<&'static str, Arc<Unit>>>,
    /// Texts that replace the files' own.
    replaced: Replaced,
    order: Mutex<Order>,
}

impl Emulator {
    /// The device.
    pub fn new(settings: Settings) -> Self {
        trap::install();
        let shared = Shared {
            settings,
            allocations: Arc::new(Allocations::new(settings.memory, settings.seed)),
            workers: Mutex::default(),
            launches: AtomicU64::new(0),
            launches_to_failure: AtomicU64::new(0),
            units: Mutex::default(),
            replaced: Replaced::new(),
            order: Mutex::default(),
        };
        Self { shared: Arc::new(shared), number: 0, stream: Box::default() }
    }

    /// Replaces the text of one file of kernels or of one header, so that tests can see the effect
    /// of a change.
    pub fn with_replaced(mut self, file: &str, text: String) -> Self {
        let shared = Arc::get_mut(&mut self.shared).expect("there is one stream yet");
        shared.replaced.insert(file.to_owned(), text);
        self
    }

    /// Notes that the stream's next call uses these memories, by their addresses.
    fn uses(&self, memories: impl IntoIterator<Item = u64>) {
        if let Err(mistake) = self.order().used(self.number, memories) {
            isentrope_cuda::DeviceFailure::of_device(mistake).end();
        }
    }

    /// Fails as a lost GPU does, if that is planned for this launch or was for an earlier one.
    fn fail_if_planned(&self, kernel: &str) {
        let Some((failing, number)) = self.shared.settings.fails_at else { return };
        let launches = &self.shared.launches_to_failure;
        let is_next = kernel == failing;
        if launches.fetch_add(is_next.into(), Ordering::Relaxed) + u64::from(is_next) >= number {
            let said = format!("the emulated GPU has failed while it ran {kernel}");
            isentrope_cuda::DeviceFailure::of_device(said).end();
        }
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.shared.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the kernels in a file, and the parameters of their C++ signatures.
    ///
    /// # Panics
    /// When the file cannot be compiled.
    pub fn signatures(&self, source: &Source) -> Vec<(String, Vec<isentrope_cuda::ArgumentKind>)> {
        let unit = self.unit(source).unwrap_or_else(|error| panic!("{error}"));
        let signature = |name: String| {
            let parameters = unit.export(&name).map(Export::parameters);
            (name, parameters.unwrap_or_default())
        };
        unit.names().into_iter().map(signature).collect()
    }

    fn unit(&self, source: &Source) -> Result<Arc<Unit>, String> {
        let mut units = self.shared.units.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = units.get(source.file) {
            return Ok(Arc::clone(unit));
        }
        let unit = Unit::of(source, &self.shared.replaced, self.shared.settings.races)?;
        units.insert(source.file, Arc::clone(&unit));
        Ok(unit)
    }

    fn core(&self) -> TensorCore {
        TensorCore::of(self.shared.settings.capability)
    }

    /// Launches a kernel, and waits for it.
    ///
    /// # Errors
    /// When it does what a GPU would refuse, or what has no defined result there.
    ///
    /// # Panics
    /// When the arguments are not those that the kernel takes, or its file cannot be compiled.
    pub fn try_launch(
        &self,
        function: &Function,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), Box<LaunchFailure>> {
        function.check(arguments);
        let seed = self.shared.settings.seed;
        let refuse = |what: String| {
            Box::new(LaunchFailure {
                mistake: Mistake::Launch,
                kernel: function.name,
                file: function.source.file,
                line: None,
                block: None,
                thread: None,
                what,
                seed,
            })
        };
        let unit = self
            .unit(function.source)
            .unwrap_or_else(|error| isentrope_cuda::DeviceFailure::of_device(error).end());
        let Some(export) = unit.export(function.name) else {
            return Err(refuse("it is not exported".to_owned()));
        };
        if export.parameters() != function.parameters {
            let what = format!(
                "it takes {:?}, but is declared with {:?}",
                export.parameters(),
                function.parameters
            );
            return Err(refuse(what));
        }
        let blocks = grid.blocks.iter().map(|&n| u64::from(n)).product::<u64>();
        if blocks == 0 {
            return Ok(());
        }
        let limit = self.limits().shared;
        if grid.threads == 0 || !grid.threads.is_multiple_of(32) || grid.threads > 1024 {
            return Err(refuse(format!("blocks of {} threads", grid.threads)));
        }
        if grid.threads > export.threads() {
            return Err(refuse(format!(
                "blocks of {} threads, of {} at most",
                grid.threads,
                export.threads()
            )));
        }
        if grid.blocks[1] > 65_535 || grid.blocks[2] > 65_535 || grid.blocks[0] >= 1 << 31 {
            return Err(refuse(format!("a grid of {:?} blocks", grid.blocks)));
        }
        if grid.shared as usize > limit {
            return Err(refuse(format!(
                "{} bytes of shared memory, of {limit} at most",
                grid.shared
            )));
        }

        let mut waiting = self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.shared.allocations.lock();
        let memory = Snapshot::new(&known, arguments);
        drop(known);
        self.uses(memory.argument_ranges().map(|(_, (start, _))| start as u64));
        let bits: Vec<u64> = arguments.iter().map(|argument| argument.bits()).collect();
        let launch = Launch {
            function,
            export,
            grid,
            arguments: &bits,
            memory: &memory,
            core: self.core(),
            shared_limit: limit,
            races: self.shared.settings.races,
            seed,
            number: self.shared.launches.fetch_add(1, Ordering::Relaxed),
        };
        // To start a host thread takes as long as some hundred emulated ones.
        let worth = (blocks * u64::from(grid.threads) / 1024)
            .clamp(1, self.shared.settings.workers.max(1) as u64);
        let workers = if launch.races { 1 } else { worth as usize };
        let kept = waiting.len().max(workers);
        waiting.resize_with(kept, Worker::new);
        let running = TracedWork::begin(function.name);
        let result = run(&launch, &mut waiting[..workers], blocks);
        running.end(None);
        if result.is_err() {
            // Fibers and shared memory are as the failure has left them.
            waiting.clear();
        }
        result?;
        match damage(&memory) {
            Some(what) => {
                Err(Box::new(LaunchFailure { mistake: Mistake::OutOfBounds, ..*refuse(what) }))
            }
            None => Ok(()),
        }
    }
}

/// An argument's memory beside which something was written.
fn damage(memory: &Snapshot) -> Option<String> {
    memory.argument_ranges().find_map(|(number, (start, end))| {
        let at = damage_between(start, end)?;
        let bytes = end - start;
        Some(format!(
            "something wrote to byte {at} of the memory of {bytes} bytes that argument {number} \
             points to"
        ))
    })
}

/// Runs all blocks, in random order, on these workers.
fn run(launch: &Launch<'_>, workers: &mut [Worker], blocks: u64) -> Result<(), Box<LaunchFailure>> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let order = crate::random::Random::new(&[launch.seed, launch.number, u64::MAX]);
    // Blocks in order, or backwards, from any of them: enough to see that they do not rely on it.
    let (first, backwards) = (order.below(blocks as usize) as u64, order.below(2) == 1);
    let block = || {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let at = if backwards { blocks - 1 - i.min(blocks - 1) } else { i };
        (i < blocks && !failed.load(Ordering::Relaxed)).then(|| (first + at) % blocks)
    };
    let run_one = |worker: &mut Worker| {
        let result = worker.run(launch, block);
        failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    };
    if let [worker] = workers {
        return run_one(worker);
    }
    thread::scope(|scope| {
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(|| run_one(worker))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .fold(Ok(()), Result::and)
    })
}

/// The address of `bytes` bytes from `offset`.
fn range(memory: &Memory, offset: usize, bytes: usize) -> *mut u8 {
    memory.of::<EmulatedMemory>().range(offset, bytes)
}

fn host(memory: &HostMemory) -> MutexGuard<'_, Vec<u8>> {
    memory.of::<Mutex<Vec<u8>>>().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device for Emulator {
    fn name(&self) -> String {
        let (major, minor) = self.shared.settings.capability;
        format!("emulated sm_{major}{minor}")
    }

    fn limits(&self) -> Limits {
        let capability = self.shared.settings.capability;
        // The CUDA C++ Programming Guide's table of technical specifications.
        let kibibytes = match capability {
            (8, 0 | 7) => 163,
            (8, _) | (12, _) => 99,
            _ => 227,
        };
        Limits { capability, processors: 4, shared: kibibytes << 10 }
    }

    fn memory_info(&self) -> MemoryInfo {
        let (free, total) = self.shared.allocations.free_and_total();
        MemoryInfo { free, total }
    }

    fn keeps_memory(&self) -> bool {
        false
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
        let memory = self.shared.allocations.allocate(bytes)?;
        self.order().allocated(memory.address());
        Ok(Memory::new(memory.address(), bytes, memory))
    }

    fn upload(&self, bytes: &[u8], to: &Memory, offset: usize) {
        self.stream.wait();
        self.uses([to.address()]);
        let work = TracedWork::begin("upload");
        // SAFETY: `range` has checked that they fit; launches have ended.
        unsafe { bytes.as_ptr().copy_to(range(to, offset, bytes.len()), bytes.len()) };
        work.end(Some(bytes.len()));
    }

    fn download(&self, from: &Memory, offset: usize, bytes: &mut [u8]) {
        self.uses([from.address()]);
        self.synchronize();
        let work = TracedWork::begin("download");
        // SAFETY: as above.
        unsafe { range(from, offset, bytes.len()).copy_to(bytes.as_mut_ptr(), bytes.len()) };
        work.end(Some(bytes.len()));
    }

    fn fetch(&self, from: &Memory, offset: usize, bytes: usize) -> Fetch {
        let mut fetched = vec![0u8; bytes];
        self.download(from, offset, &mut fetched);
        Fetch::new(fetched)
    }

    fn fetched(&self, fetch: Fetch, bytes: &mut [u8]) {
        bytes.copy_from_slice(fetch.of::<Vec<u8>>());
    }

    fn copy(&self, from: &Memory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        let memories = [from.address(), to.address()];
        let (from, to) = (range(from, at, bytes), range(to, to_at, bytes));
        assert!(
            from.addr().abs_diff(to.addr()) >= bytes,
            "a copy whose two ranges touch each other"
        );
        self.stream.wait();
        self.uses(memories);
        let work = TracedWork::begin("copy");
        // SAFETY: as above.
        unsafe { from.copy_to(to, bytes) };
        work.end(Some(bytes));
    }

    fn clear(&self, memory: &Memory, offset: usize, bytes: usize) {
        self.stream.wait();
        self.uses([memory.address()]);
        let work = TracedWork::begin("clear");
        // SAFETY: as above.
        unsafe { range(memory, offset, bytes).write_bytes(0, bytes) };
        work.end(Some(bytes));
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory> {
        Ok(HostMemory::new(Mutex::new(vec![0u8; bytes])))
    }

    fn copy_in(&self, from: &HostMemory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        let from = host(from);
        self.upload(&from[at..][..bytes], to, to_at);
    }

    fn copy_out(&self, from: &Memory, at: usize, to: &HostMemory, to_at: usize, bytes: usize) {
        let mut to = host(to);
        self.download(from, at, &mut to[to_at..][..bytes]);
    }

    fn read_host(&self, from: &HostMemory, offset: usize, bytes: &mut [u8]) {
        let from = host(from);
        bytes.copy_from_slice(&from[offset..][..bytes.len()]);
    }

    fn write_host(&self, bytes: &[u8], to: &HostMemory, offset: usize) {
        let mut to = host(to);
        to[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.carry_out();
        self.fail_if_planned(function.name);
        if let Err(failure) = self.try_launch(function, grid, arguments) {
            isentrope_cuda::DeviceFailure::of_device(failure).end();
        }
    }

    fn capture(&self, operations: &[Operation]) -> Result<Graph, String> {
        Ok(Graph::new(operations.to_vec()))
    }

    /// Each launch has the captured arguments: if a kernel uses memory that was freed meanwhile, it
    /// fails.
    fn replay(&self, graph: &Graph) -> Result<(), String> {
        carry_out(self, graph.of::<Vec<Operation>>());
        Ok(())
    }

    fn library_stream(&self) -> Option<*mut c_void> {
        Some(ptr::from_ref(&*self.stream).cast_mut().cast())
    }

    fn second_stream(&self) -> Option<Arc<dyn Device>> {
        self.order().begin();
        let shared = Arc::clone(&self.shared);
        Some(Arc::new(Self { shared, number: 1, stream: Box::default() }))
    }

    fn follow(&self) {
        self.order().follow();
    }

    fn is_idle(&self) -> bool {
        let is_idle = self.stream.is_idle();
        if is_idle {
            self.order().waited_for(self.number);
        }
        is_idle
    }

    fn synchronize(&self) {
        self.carry_out();
        self.order().waited_for(self.number);
    }
}

impl Emulator {
    /// Waits for libraries' work, and reports damage that was found since.
    fn carry_out(&self) {
        self.stream.wait();
        let damage = self.shared.allocations.lock().damage.take();
        if let Some(damage) = damage {
            isentrope_cuda::DeviceFailure::of_device(damage).end();
        }
    }
}
