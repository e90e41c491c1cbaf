//! Runs blocks in a random order, each thread on a fiber of its own once it has to wait.
//!
//! A warp runs until all of its lanes wait or have returned; then the operation that they wait for
//! is carried out. Between barriers one warp may run far ahead of the others, as on a GPU, and
//! chance decides which one. A fiber whose thread has returned continues with the next thread of
//! the warp: a kernel that never waits costs one switch a warp.

use crate::collective::{self, Call, Rows};
use crate::copies::Copies;
use crate::failure::{LaunchFailure, Mistake};
use crate::fiber::{Fiber, FiberStack, FiberYielder, STACK, Stop, position_slot};
use crate::memory::Snapshot;
use crate::races::{Now, Races, Use};
use crate::random::Random;
use crate::shared::SharedMemory;
use crate::tensor_core::TensorCore;
use crate::trap::{Trap, guard};
use crate::unit::Export;
use corosensei::CoroutineResult;
use isentrope_cuda::{Dim, Function, Grid};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr::null;

/// A launch, as all of its blocks see it.
pub(crate) struct Launch<'a> {
    pub(crate) function: &'a Function,
    pub(crate) export: &'a Export,
    pub(crate) grid: Grid,
    pub(crate) arguments: &'a [u64],
    pub(crate) memory: &'a Snapshot,
    pub(crate) core: TensorCore,
    pub(crate) shared_limit: usize,
    pub(crate) races: bool,
    pub(crate) seed: u64,
    pub(crate) number: u64,
}

/// A thread's position in the grid; `ThreadPosition` in runtime/emulator.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ThreadPosition {
    thread: u32,
    threads: u32,
    block: Dim,
    blocks: Dim,
}

/// Most threads of a block.
pub(crate) const THREADS: usize = 1024;

/// A thread's state.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// It has not begun.
    #[default]
    New,
    /// It may run.
    Ready,
    /// It waits for the block.
    Barrier,
    /// It waits for the warp; the worker's calls have its call.
    Warp,
    Returned,
}

/// A thread.
#[derive(Clone, Copy, Default)]
struct Lane {
    state: State,
    /// The line of the call that it waits in.
    line: u32,
    /// The fiber that it runs on.
    fiber: u32,
}

/// Which warp is next.
#[derive(Clone, Copy)]
enum Policy {
    /// The first, the last that can run.
    First,
    Last,
    /// Any warp. With this many chances in 16, the last one once more.
    Random(usize),
}

/// Runs blocks on one thread of the host. It keeps only memory from block to block and from launch
/// to launch.
pub(crate) struct Worker {
    pub(crate) shared: SharedMemory,
    pub(crate) races: Races,
    pub(crate) random: Random,
    stacks: RefCell<Vec<FiberStack>>,
    /// Counts barriers and blocks, for `races`.
    epoch: Cell<u32>,

    // State of the launch. Pointers are valid while it runs.
    launch: Cell<*const Launch<'static>>,
    /// Boxed, so that no fiber moves.
    #[allow(clippy::vec_box, reason = "a fiber runs while others are added")]
    fibers: RefCell<Vec<Box<Fiber>>>,
    idle: RefCell<Vec<usize>>,

    // State of the block.
    positions: Box<[Cell<ThreadPosition>]>,
    lanes: Box<[Cell<Lane>]>,
    calls: Box<[Cell<Call>]>,
    /// Barriers of each warp.
    steps: RefCell<Vec<u32>>,
    copies: RefCell<Vec<Copies>>,
    copied: Cell<bool>,
    /// The threads that are still to begin, of the warp that runs: first, stride, how many are
    /// left.
    begin: Cell<(u32, u32, u32)>,

    // State of the running thread.
    running: Cell<u32>,
    yielder: Cell<*const FiberYielder>,
    failure: RefCell<Option<LaunchFailure>>,
}

// SAFETY: between launches it has no fibers and no pointers in use, only memory.
unsafe impl Send for Worker {}

thread_local! {
    /// The worker whose fiber runs on this thread.
    static CURRENT: Cell<*const Worker> = const { Cell::new(null()) };
}

/// The worker whose thread calls.
///
/// # Safety
/// Only from a kernel; the reference ends with the call.
pub(crate) unsafe fn current<'a>() -> &'a Worker {
    // SAFETY: kernels run while `run` has set it.
    unsafe { &*CURRENT.get() }
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self {
            shared: SharedMemory::new(),
            races: Races::new(),
            random: Random::new(&[]),
            stacks: RefCell::default(),
            epoch: Cell::new(1),
            launch: Cell::new(null()),
            fibers: RefCell::default(),
            idle: RefCell::default(),
            positions: vec![Cell::default(); THREADS].into(),
            lanes: vec![Cell::default(); THREADS].into(),
            calls: vec![Cell::new(Call::NONE); THREADS].into(),
            steps: RefCell::default(),
            copies: RefCell::default(),
            copied: Cell::new(false),
            begin: Cell::new((0, 1, 0)),
            running: Cell::new(0),
            yielder: Cell::new(null()),
            failure: RefCell::default(),
        }
    }

    /// Runs blocks of a launch, given by their numbers, as long as there are any.
    ///
    /// After a failure the worker must not be used again.
    pub(crate) fn run(
        &self,
        launch: &Launch<'_>,
        mut next: impl FnMut() -> Option<u64>,
    ) -> Result<(), Box<LaunchFailure>> {
        self.launch.set(std::ptr::from_ref(launch).cast());
        let begun = self.shared.begin_launch(launch.grid.shared as usize, launch.shared_limit);
        let result = match begun {
            Err(error) => Err(Box::new(self.mistake(Mistake::Launch, None, error.to_string()))),
            Ok(()) => {
                CURRENT.set(self);
                self.races.begin_launch(self.epoch.get());
                let result =
                    std::iter::from_fn(&mut next).try_for_each(|block| self.run_block(block));
                CURRENT.set(null());
                guard(None);
                result
            }
        };
        self.end_fibers();
        self.launch.set(null());
        result
    }

    fn launch(&self) -> &Launch<'_> {
        // SAFETY: `run` has set it, and runs.
        unsafe { &*self.launch.get() }
    }

    /// Frees the fibers' stacks. Threads that have not ended hold nothing that must be dropped.
    fn end_fibers(&self) {
        self.idle.borrow_mut().clear();
        for fiber in self.fibers.borrow_mut().drain(..) {
            let mut fiber = *fiber;
            if !fiber.done() {
                // SAFETY: the stack has frames of a kernel, of `run_lanes` and of functions in
                // calls.rs. None of them holds anything to be dropped while it is suspended.
                unsafe { fiber.force_reset() };
            }
            self.stacks.borrow_mut().push(fiber.into_stack());
        }
    }

    /// A failure of the running thread, of the block or of the launch.
    fn mistake(&self, mistake: Mistake, line: Option<u32>, what: String) -> LaunchFailure {
        let launch = self.launch();
        LaunchFailure {
            mistake,
            kernel: launch.function.name,
            file: launch.function.source.file,
            line: line.filter(|&line| line > 0),
            block: None,
            thread: None,
            what,
            seed: launch.seed,
        }
    }

    fn block_mistake(
        &self,
        mistake: Mistake,
        line: Option<u32>,
        what: String,
    ) -> Box<LaunchFailure> {
        let block = self.positions[0].get().block;
        Box::new(LaunchFailure { block: Some(block), ..self.mistake(mistake, line, what) })
    }

    fn thread_mistake(
        &self,
        mistake: Mistake,
        line: Option<u32>,
        thread: u32,
        what: String,
    ) -> Box<LaunchFailure> {
        Box::new(LaunchFailure { thread: Some(thread), ..*self.block_mistake(mistake, line, what) })
    }

    fn run_block(&self, number: u64) -> Result<(), Box<LaunchFailure>> {
        let launch = self.launch();
        let (grid, races) = (launch.grid, launch.races);
        self.random.seed(&[launch.seed, launch.number, number]);
        let [x, y, _] = grid.blocks.map(u64::from);
        let block = [number % x, number / x % y, number / x / y].map(|n| n as u32);
        let position =
            ThreadPosition { thread: 0, threads: grid.threads, block, blocks: grid.blocks };
        for thread in 0..grid.threads {
            self.positions[thread as usize].set(ThreadPosition { thread, ..position });
            self.lanes[thread as usize].set(Lane::default());
        }
        if races {
            let mut steps = self.steps.borrow_mut();
            steps.clear();
            steps.resize(grid.threads as usize / 32, 0);
            self.epoch.set(self.epoch.get() + 1);
            self.races.begin_block(self.epoch.get());
        }
        if self.copied.take() {
            self.copies.borrow_mut().iter_mut().for_each(Copies::clear);
        }
        self.shared.begin_block(&self.random);
        self.schedule(grid.threads as usize / 32)?;
        match self.shared.damage() {
            Some(what) => Err(self.block_mistake(Mistake::OutOfBounds, None, what)),
            None => Ok(()),
        }
    }

    /// Runs all warps of a block to their end.
    fn schedule(&self, warps: usize) -> Result<(), Box<LaunchFailure>> {
        let policy = match self.random.below(6) {
            0 => Policy::First,
            1 => Policy::Last,
            2 => Policy::Random(0),
            3 => Policy::Random(8),
            _ => Policy::Random(15),
        };
        let mut ready: Vec<usize> = (0..warps).collect();
        let mut at_barrier = Vec::with_capacity(warps);
        let mut last = warps;
        loop {
            while !ready.is_empty() {
                let again = ready.iter().position(|&warp| warp == last);
                let which = match (policy, again) {
                    (Policy::First, _) => 0,
                    (Policy::Last, _) => ready.len() - 1,
                    (Policy::Random(stay), Some(which)) if self.random.below(16) < stay => which,
                    _ => self.random.below(ready.len()),
                };
                last = ready[which];
                match self.run_warp(last)? {
                    Reached::Collective => {}
                    Reached::Barrier(line) => {
                        at_barrier.push((ready.remove(which), line));
                    }
                    Reached::End => {
                        ready.remove(which);
                    }
                }
            }
            let Some(&(first, line)) = at_barrier.first() else { return Ok(()) };
            if let Some(&(other, other_line)) = at_barrier.iter().find(|(_, other)| *other != line)
            {
                let what = format!(
                    "warp {first} waits at the barrier of line {line}, \
                     warp {other} at that of line {other_line}"
                );
                return Err(self.block_mistake(Mistake::Barrier, Some(line), what));
            }
            if at_barrier.len() < warps {
                let missing =
                    (0..warps).find(|warp| at_barrier.iter().all(|(other, _)| other != warp));
                let what = format!(
                    "warp {first} waits at the barrier of line {line}, but warp {} has returned",
                    missing.unwrap_or(0)
                );
                return Err(self.block_mistake(Mistake::Barrier, Some(line), what));
            }
            self.epoch.set(self.epoch.get() + 1);
            ready.extend(at_barrier.drain(..).map(|(warp, _)| warp));
            ready.sort_unstable();
            self.release(0..warps * 32);
        }
    }

    /// Makes these threads ready to run.
    fn release(&self, threads: Range<usize>) {
        for lane in &self.lanes[threads] {
            lane.set(Lane { state: State::Ready, ..lane.get() });
        }
    }

    /// Runs the lanes of a warp until all wait or have returned.
    fn run_warp(&self, warp: usize) -> Result<Reached, Box<LaunchFailure>> {
        let first = warp * 32;
        // An odd stride visits all 32.
        let bits = self.random.bits();
        let (offset, stride) = (bits & 31, (bits >> 5) & 31 | 1);
        if self.lanes[first].get().state == State::New {
            self.begin.set((first as u32 | offset, stride, 32));
            while self.begin.get().2 > 0 {
                let fiber = self.idle_fiber()?;
                self.resume(fiber)?;
            }
        } else {
            for i in 0..32 {
                let lane = first + ((offset + i * stride) & 31) as usize;
                let of_lane = self.lanes[lane].get();
                if of_lane.state == State::Ready {
                    self.running.set(lane as u32);
                    self.resume(of_lane.fiber as usize)?;
                }
            }
        }
        self.judge(first)
    }

    fn idle_fiber(&self) -> Result<usize, Box<LaunchFailure>> {
        if let Some(fiber) = self.idle.borrow_mut().pop() {
            return Ok(fiber);
        }
        let kept = self.stacks.borrow_mut().pop();
        let stack = kept.map_or_else(FiberStack::new, Ok).map_err(|error| {
            self.block_mistake(Mistake::Launch, None, format!("no memory for a stack: {error}"))
        })?;
        let mut fibers = self.fibers.borrow_mut();
        fibers.push(Box::new(Fiber::with_stack(stack, |yielder, ()| {
            loop {
                // SAFETY: fibers are resumed by a worker that runs.
                unsafe { current() }.run_lanes(yielder);
                yielder.suspend(Stop::Idle);
            }
        })));
        Ok(fibers.len() - 1)
    }

    /// On a fiber: runs threads that are still to begin, to their end.
    fn run_lanes(&self, yielder: &FiberYielder) {
        let slot = position_slot(&yielder);
        loop {
            let (lane, stride, left) = self.begin.get();
            if left == 0 {
                return;
            }
            self.begin.set(((lane & !31) | ((lane + stride) & 31), stride, left - 1));
            self.running.set(lane);
            self.yielder.set(yielder);
            let launch = self.launch();
            let position = self.positions[lane as usize].as_ptr();
            // SAFETY: the slot is the stack's own, above the part that its fiber uses. The export's
            // parameters have been compared with the arguments. Places do not move as long as the
            // block runs.
            unsafe {
                slot.write(position as usize);
                launch.export.call(launch.arguments);
            }
            // The thread may have waited meanwhile, so that others ran.
            self.lanes[lane as usize].set(Lane { state: State::Returned, ..Lane::default() });
        }
    }

    /// Runs a fiber until its thread waits, or it has no more to run.
    fn resume(&self, number: usize) -> Result<(), Box<LaunchFailure>> {
        let fiber = std::ptr::from_mut(&mut *self.fibers.borrow_mut()[number]);
        // SAFETY: only the scheduler changes the list. It is suspended here until the fiber stops,
        // and boxes do not move.
        let fiber = unsafe { &mut *fiber };
        guard(Some(fiber.trap_handler()));
        let result = fiber.resume(());
        match result {
            CoroutineResult::Yield(Stop::Idle) => self.idle.borrow_mut().push(number),
            CoroutineResult::Yield(Stop::Failed) => {
                let failure = self.failure.borrow_mut().take();
                return Err(Box::new(failure.expect("whoever stops so says why")));
            }
            CoroutineResult::Yield(Stop::Waiting) => {
                let lane = &self.lanes[self.running.get() as usize];
                lane.set(Lane { fiber: number as u32, ..lane.get() });
            }
            CoroutineResult::Return(trap) => return Err(self.trapped(trap, number)),
        }
        Ok(())
    }

    /// Finds out where a warp's lanes have stopped, and carries out a collective.
    fn judge(&self, first: usize) -> Result<Reached, Box<LaunchFailure>> {
        let lanes = &self.lanes[first..first + 32];
        let Lane { state, line, .. } = lanes[0].get();
        if lanes[1..].iter().any(|lane| (lane.get().state, lane.get().line) != (state, line)) {
            return Err(self.diverged(first));
        }
        match state {
            State::Returned => Ok(Reached::End),
            State::Barrier => Ok(Reached::Barrier(line)),
            State::Warp => {
                self.collective(first)?;
                Ok(Reached::Collective)
            }
            State::New | State::Ready => unreachable!("all lanes have run until they waited"),
        }
    }

    fn collective(&self, first: usize) -> Result<(), Box<LaunchFailure>> {
        let calls: [Call; 32] = std::array::from_fn(|i| self.calls[first + i].get());
        if calls
            .iter()
            .any(|call| (call.operation, call.bytes) != (calls[0].operation, calls[0].bytes))
        {
            return Err(self.diverged(first));
        }
        let rows = RowsOf { worker: self, first };
        // SAFETY: the lanes are suspended in these calls, which have one operation and one size.
        let done = unsafe { collective::carry_out(&calls, self.launch().core, &rows) };
        done.map_err(|(mistake, lane, what)| {
            let what = format!("{}: {what}", collective::name(calls[lane].operation));
            self.thread_mistake(mistake, Some(calls[lane].line), (first + lane) as u32, what)
        })?;
        // No other collective orders memory.
        if calls[0].operation == collective::SYNC
            && let Some(step) = self.steps.borrow_mut().get_mut(first / 32)
        {
            *step += 1;
        }
        self.release(first..first + 32);
        Ok(())
    }

    /// The lanes of a warp wait for different things.
    fn diverged(&self, first: usize) -> Box<LaunchFailure> {
        let lanes: Vec<Lane> = self.lanes[first..first + 32].iter().map(Cell::get).collect();
        let describe = |i: usize, lane: Lane| match lane.state {
            State::Barrier => format!("wait at the barrier of line {}", lane.line),
            State::Warp => {
                let Call { operation, bytes, .. } = self.calls[first + i].get();
                let of = if bytes > 0 { format!(" of {bytes} bytes") } else { String::new() };
                format!("wait in {}{of} of line {}", collective::name(operation), lane.line)
            }
            _ => "have returned".to_owned(),
        };
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (i, &lane) in lanes.iter().enumerate() {
            let what = describe(i, lane);
            match groups.iter_mut().find(|(other, _)| *other == what) {
                Some((_, members)) => members.push(i),
                None => groups.push((what, vec![i])),
            }
        }
        let parts: Vec<String> = groups
            .iter()
            .map(|(what, members)| format!("lanes {} {what}", ranges(members)))
            .collect();
        let waiting = lanes.iter().position(|lane| lane.state != State::Returned);
        let in_collective = lanes.iter().any(|lane| lane.state == State::Warp);
        let mistake = if in_collective { Mistake::Collective } else { Mistake::Barrier };
        let lane = waiting.unwrap_or(0);
        let line = lanes[lane].line;
        let what = format!("of the 32 lanes of its warp, {}", parts.join(", "));
        self.thread_mistake(mistake, Some(line), (first + lane) as u32, what)
    }

    /// A signal in the running thread.
    fn trapped(&self, trap: Trap, fiber: usize) -> Box<LaunchFailure> {
        let Trap { signal, address, write } = trap;
        let fibers = self.fibers.borrow();
        let on_stack = fibers[fiber].trap_handler().stack_ptr_in_bounds(address);
        let (mistake, what) = match signal {
            libc::SIGFPE => (Mistake::Undefined, "it divides an integer by zero".to_owned()),
            libc::SIGILL | libc::SIGTRAP => {
                let what = "it does what C++ leaves undefined: an index outside of an array's \
                            dimension, a shift by too much, a misaligned address, a division by \
                            zero";
                (Mistake::Undefined, what.to_owned())
            }
            _ if on_stack => {
                (Mistake::Stack, format!("it has more than {} KiB of local memory", STACK >> 10))
            }
            _ => {
                let how = match write {
                    Some(true) => "writes",
                    Some(false) => "reads",
                    None => "accesses memory",
                };
                (Mistake::OutOfBounds, format!("it {how} {}", self.describe(address)))
            }
        };
        self.thread_mistake(mistake, None, self.running.get(), what)
    }

    /// Where an address lies, for messages.
    pub(crate) fn describe(&self, address: usize) -> String {
        self.shared.describe(address).unwrap_or_else(|| self.launch().memory.describe(address))
    }

    // Kernels call the functions below, through calls.rs.

    /// Suspends the running thread until all threads of the block are at this line.
    pub(crate) fn wait_for_block(&self, line: u32) {
        self.lanes[self.running.get() as usize].set(Lane { state: State::Barrier, line, fiber: 0 });
        self.wait(Stop::Waiting);
    }

    /// Suspends the running thread until all lanes of its warp are there, and this call has been
    /// carried out.
    pub(crate) fn wait_for_warp(&self, call: Call) {
        let thread = self.running.get() as usize;
        self.lanes[thread].set(Lane { state: State::Warp, line: call.line, fiber: 0 });
        self.calls[thread].set(call);
        self.wait(Stop::Waiting);
    }

    fn wait(&self, stop: Stop) {
        let (yielder, thread) = (self.yielder.get(), self.running.get());
        // SAFETY: the fiber whose thread runs has set it, and is there as long as its thread runs.
        unsafe { (*yielder).suspend(stop) };
        self.yielder.set(yielder);
        self.running.set(thread);
    }

    /// Ends the launch with a failure of the running thread.
    pub(crate) fn fail(&self, mistake: Mistake, line: Option<u32>, what: String) -> ! {
        let failure = self.thread_mistake(mistake, line, self.running.get(), what);
        *self.failure.borrow_mut() = Some(*failure);
        loop {
            // It is not resumed.
            self.wait(Stop::Failed);
        }
    }

    /// Checks an address against existing memory, and against other users of the bytes at the same
    /// time.
    pub(crate) fn check(
        &self,
        usage: Use,
        address: usize,
        bytes: usize,
    ) -> Result<(), (Mistake, String)> {
        self.check_of(self.running.get() as usize, usage, address, bytes)
    }

    fn check_of(
        &self,
        thread: usize,
        usage: Use,
        address: usize,
        bytes: usize,
    ) -> Result<(), (Mistake, String)> {
        let shared = self.shared.contains(address, bytes);
        if !shared && self.launch().memory.containing(address, bytes).is_none() {
            return Err((Mistake::OutOfBounds, String::new()));
        }
        self.note(thread, usage, address, bytes, shared)
    }

    fn note(
        &self,
        thread: usize,
        usage: Use,
        address: usize,
        bytes: usize,
        shared: bool,
    ) -> Result<(), (Mistake, String)> {
        if !self.launch().races {
            return Ok(());
        }
        let step = self.steps.borrow()[thread / 32];
        self.races.note(
            Now { epoch: self.epoch.get(), step, thread },
            usage,
            address,
            bytes,
            shared,
        )
    }

    /// A load or a store, reported by the compiler's hook. Local memory and constants are not
    /// checked.
    pub(crate) fn access(
        &self,
        usage: Use,
        address: usize,
        bytes: usize,
    ) -> Result<(), (Mistake, String)> {
        let here = &raw const usage as usize;
        if here & !(STACK - 1) == address & !(STACK - 1) {
            return Ok(());
        }
        let shared = self.shared.contains(address, bytes);
        if !shared && self.launch().memory.containing(address, bytes).is_none() {
            // Constants are elsewhere.
            let near = self.shared.is_near(address) || self.launch().memory.is_near(address);
            return if near || usage != Use::Read {
                Err((Mistake::OutOfBounds, String::new()))
            } else {
                Ok(())
            };
        }
        self.note(self.running.get() as usize, usage, address, bytes, shared)
    }

    /// Changes the asynchronous copies of the running thread.
    pub(crate) fn copies<R>(&self, change: impl FnOnce(&mut Copies) -> R) -> R {
        let thread = self.running.get() as usize;
        let mut copies = self.copies.borrow_mut();
        self.copied.set(true);
        if copies.len() <= thread {
            copies.resize_with(thread + 1, Copies::default);
        }
        change(&mut copies[thread])
    }

    /// Whether accesses are checked.
    pub(crate) fn sees_races(&self) -> bool {
        self.launch().races
    }

    /// Whether these bytes are in global memory.
    pub(crate) fn is_global(&self, address: usize, bytes: usize) -> bool {
        self.launch().memory.containing(address, bytes).is_some()
    }
}

/// The point that a warp has reached.
enum Reached {
    /// A collective, which has been carried out.
    Collective,
    /// The barrier of that line.
    Barrier(u32),
    /// All lanes have returned.
    End,
}

/// Ranges such as "0-15, 17", for messages.
fn ranges(numbers: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let [first, ..] = *rest {
        let length = rest.iter().enumerate().take_while(|(i, n)| **n == first + i).count();
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match length {
            1 => format!("{comma}{first}"),
            _ => format!("{comma}{first}-{}", first + length - 1),
        };
        rest = &rest[length..];
    }
    text
}

/// The shared memory that a warp's matrices are loaded from.
struct RowsOf<'a> {
    worker: &'a Worker,
    first: usize,
}

impl Rows for RowsOf<'_> {
    fn check(&self, lane: usize, address: usize, bytes: usize) -> Result<(), (Mistake, String)> {
        let worker = self.worker;
        if !worker.shared.contains(address, bytes) {
            let what = format!("the row is {}, not within shared memory", worker.describe(address));
            return Err((Mistake::OutOfBounds, what));
        }
        worker.check_of(self.first + lane, Use::Read, address, bytes).map_err(|(mistake, what)| {
            (mistake, format!("it reads {}: {what}", worker.describe(address)))
        })
    }
}
