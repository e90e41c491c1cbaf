//! Memory that waits for its next use.
//!
//! Memory to keep (weights, gradients, moments, caches) is asked of the device to the byte, and
//! given back to it. Scratch of a pass is rounded up to one of a few sizes and waits in the pool
//! when it is dropped, because passes ask for the same sizes over and over. Its next user comes
//! later in the same stream, so it may be taken at once. When the device has no more, all
//! waiting memory is given back and the device is asked again: waiting memory never stands in the
//! way of memory to keep. It is also given back before the program would hold more than it may.
//!
//! Memory of decoding steps waits in a list of its own and is taken from the lowest address on. A
//! step with the same requests as the step before gets the same memory, so that its launches are
//! the same.

use crate::counted_memory::CountedMemory;
use crate::device::{Device, Memory};
use crate::kernels::Pointer;
use isentrope_kernels::OutOfMemory;
use isentrope_trace::call;
use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};

/// The memory of one device.
pub(crate) struct Pool {
    device: Arc<dyn Device>,
    /// Bytes of memory that the device has.
    total: usize,
    /// Waiting memory by size.
    waiting: Mutex<BTreeMap<usize, Vec<CountedMemory>>>,
    of_steps: Mutex<StepMemory>,
    /// Notified when no thread holds the memory of steps any more.
    let_go: Condvar,
    /// Bytes of all memory that has not been given back.
    held: Arc<AtomicUsize>,
    /// While the program holds more bytes than this, no dropped memory is kept.
    most: Arc<AtomicUsize>,
    /// The memory of the device's second stream. A stream takes none that waits for the other.
    second: OnceLock<Arc<Self>>,
    /// The memory of the first stream, if this is the second's.
    first: Weak<Self>,
}

/// Memory of decoding steps.
struct StepMemory {
    /// Waiting memory by size and address.
    waiting: BTreeMap<(usize, u64), CountedMemory>,
    /// Memory for uploads. Uploads come before any launch of their step, so they cannot take memory
    /// that a launch has used.
    uploads: BTreeMap<(usize, u64), CountedMemory>,
    /// The thread that has yet to launch kernels on waiting memory.
    held_by: Option<ThreadId>,
}

impl StepMemory {
    fn of(&mut self, home: Home) -> &mut BTreeMap<(usize, u64), CountedMemory> {
        if home == Home::Uploads { &mut self.uploads } else { &mut self.waiting }
    }
}

/// Destination of dropped memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// Back to the device.
    Device,
    /// It waits for any scratch.
    Waiting,
    /// The memory is kept for the next step.
    Steps,
    /// The memory is kept for the uploads of the next step.
    Uploads,
}

/// Memory out of a pool, to which it goes back when it is dropped.
pub(crate) struct Block {
    /// Present until the block is dropped.
    memory: Option<CountedMemory>,
    pool: Arc<Pool>,
    home: Home,
}

impl Pool {
    pub(crate) fn new(device: Arc<dyn Device>) -> Arc<Self> {
        let of_steps = Mutex::new(StepMemory {
            waiting: BTreeMap::new(),
            uploads: BTreeMap::new(),
            held_by: None,
        });
        let (let_go, most) = (Condvar::new(), Arc::new(AtomicUsize::new(usize::MAX)));
        let (total, held) = (device.memory_info().total, Arc::default());
        let (waiting, second, first) = (Mutex::default(), OnceLock::new(), Weak::new());
        Arc::new(Self { device, total, waiting, of_steps, let_go, held, most, second, first })
    }

    /// The memory of the device's second stream, which is within the same limits.
    pub(crate) fn second(self: &Arc<Self>, device: Arc<dyn Device>) -> Arc<Self> {
        let mut second = Self::new(device);
        let new = Arc::get_mut(&mut second).expect("nobody else has it");
        (new.held, new.most) = (Arc::clone(&self.held), Arc::clone(&self.most));
        new.first = Arc::downgrade(self);
        Arc::clone(self.second.get_or_init(|| second))
    }

    /// From now on no dropped memory is kept while the program holds more than `most` bytes.
    /// Allocations are not refused.
    pub(crate) fn keep_within(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Scratch of at least `bytes` bytes with arbitrary content.
    pub(crate) fn for_a_moment(self: &Arc<Self>, bytes: usize) -> Result<Block, OutOfMemory> {
        let waits = self.device.keeps_memory();
        let size = if waits { size_class(bytes) } else { bytes };
        let memory = match self.take_waiting(size) {
            Some(memory) => memory,
            // If there is no room for the rounded size, there may be room for the exact one.
            None => self.ask(size).or_else(|_| self.ask(bytes))?,
        };
        let home = if waits { Home::Waiting } else { Home::Device };
        Ok(Block { memory: Some(memory), pool: self.clone(), home })
    }

    /// Memory for a step, as [`for_a_moment`](Self::for_a_moment). It is the same memory as in the
    /// step before if that step made the same requests in the same order and has dropped all of it.
    pub(crate) fn for_a_step(self: &Arc<Self>, bytes: usize) -> Result<Block, OutOfMemory> {
        self.of_a_step(bytes, Home::Steps)
    }

    /// Memory for a step's uploads, which come before its launches. As
    /// [`for_a_step`](Self::for_a_step).
    pub(crate) fn for_uploads(self: &Arc<Self>, bytes: usize) -> Result<Block, OutOfMemory> {
        self.of_a_step(bytes, Home::Uploads)
    }

    fn of_a_step(self: &Arc<Self>, bytes: usize, home: Home) -> Result<Block, OutOfMemory> {
        let size = if self.device.keeps_memory() { size_class(bytes) } else { bytes };
        let mut of_steps = self.of_steps();
        let waiting = of_steps.of(home);
        // Memory smaller than its class was allocated when there was no room for more.
        let first = waiting.range((bytes, 0)..=(size, u64::MAX)).next().map(|(&key, _)| key);
        let memory = first.and_then(|key| waiting.remove(&key));
        drop(of_steps);
        let memory = memory.map_or_else(|| self.ask(size).or_else(|_| self.ask(bytes)), Ok)?;
        Ok(Block { memory: Some(memory), pool: self.clone(), home })
    }

    /// Memory to keep, of `bytes` bytes with arbitrary content.
    pub(crate) fn to_keep(self: &Arc<Self>, bytes: usize) -> Result<Block, OutOfMemory> {
        Ok(Block { memory: Some(self.ask(bytes)?), pool: self.clone(), home: Home::Device })
    }

    /// This thread has yet to launch kernels on memory of a step, even if that memory waits
    /// already. Until it [lets go](Self::let_go_of_steps), the memory is not given back to the
    /// device. One thread holds it at a time.
    pub(crate) fn hold_steps(&self) {
        self.of_steps().held_by = Some(thread::current().id());
    }

    /// Ends the hold: all those launches have been made.
    pub(crate) fn let_go_of_steps(&self) {
        self.of_steps().held_by = None;
        self.let_go.notify_all();
    }

    fn of_steps(&self) -> MutexGuard<'_, StepMemory> {
        self.of_steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all waiting memory back to the device.
    pub(crate) fn trim(&self) {
        let waiting = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let mut of_steps = self.of_steps();
        if of_steps.held_by.is_none() {
            of_steps.waiting.clear();
            of_steps.uploads.clear();
        }
        drop(waiting);
        if let Some(second) = self.second.get() {
            second.trim();
        }
    }

    /// Gives waiting memory of steps back to the device, after another thread that holds it has let
    /// go. Memory that this thread holds is kept.
    fn trim_steps(&self) {
        let this = thread::current().id();
        let is_held =
            |of_steps: &mut StepMemory| of_steps.held_by.is_some_and(|thread| thread != this);
        let of_steps = self.let_go.wait_while(self.of_steps(), is_held);
        let mut of_steps = of_steps.unwrap_or_else(PoisonError::into_inner);
        if of_steps.held_by.is_none() {
            of_steps.waiting.clear();
            of_steps.uploads.clear();
        }
    }

    /// Bytes that the device can hand out after all waiting memory has been given back.
    pub(crate) fn free(&self) -> usize {
        self.trim();
        self.device.memory_info().free
    }

    /// Memory of this size, or of up to a quarter more.
    fn take_waiting(&self, size: usize) -> Option<CountedMemory> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .range_mut(size..=size.saturating_add(size / 4))
            .find_map(|(_, of_size)| of_size.pop())
    }

    /// As [`trim`](Self::trim), of both streams.
    fn trim_both(&self) {
        match self.first.upgrade() {
            Some(first) => first.trim(),
            None => self.trim(),
        }
    }

    fn ask(&self, bytes: usize) -> Result<CountedMemory, OutOfMemory> {
        if bytes > self.total {
            let why = format!("the device has {} MiB", self.total >> 20);
            return Err(OutOfMemory { asked: bytes, why });
        }
        if self.held.load(Ordering::Relaxed).saturating_add(bytes)
            > self.most.load(Ordering::Relaxed)
        {
            self.trim_both();
        }
        let allocate = || {
            let _call = call("allocate").with("bytes", bytes);
            self.device.allocate(bytes)
        };
        let memory = allocate().or_else(|_| {
            self.trim_both();
            allocate()
        });
        // Another thread's step will free its memory soon.
        let memory = memory.or_else(|_| {
            self.trim_steps();
            allocate()
        })?;
        Ok(CountedMemory::new(memory, &self.held))
    }
}

impl Block {
    /// The memory.
    pub(crate) fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("memory is there until the block is dropped")
    }

    /// The address of the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> Pointer {
        Pointer::at(self.memory(), offset)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        match self.home {
            Home::Device => {}
            Home::Waiting => {
                let mut waiting = self.pool.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.entry(memory.bytes()).or_default().push(memory);
            }
            home @ (Home::Steps | Home::Uploads) => {
                self.pool.of_steps().of(home).insert((memory.bytes(), memory.address()), memory);
            }
        }
    }
}

/// Sizes are rounded up by at most an eighth, so that batches of similar size share memory; the
/// least is 512 bytes.
fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    let step = bytes.checked_next_power_of_two().map_or(512, |power| (power / 16).max(512));
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Fetch, Graph, HostMemory, Limits, MemoryInfo};
    use crate::kernels::{Argument, Function, Grid};
    use crate::operation::Operation;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TOTAL: usize = 1 << 20;

    /// A device of one MiB that only counts its memory.
    #[derive(Default)]
    struct Counting {
        used: Arc<AtomicUsize>,
        asked: AtomicUsize,
        refused: AtomicUsize,
    }

    struct Counted(usize, Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(self.0, Ordering::Relaxed);
        }
    }

    impl Device for Counting {
        fn name(&self) -> String {
            "a device that counts".into()
        }
        fn limits(&self) -> Limits {
            Limits { capability: (9, 0), processors: 1, shared: 0 }
        }
        fn memory_info(&self) -> MemoryInfo {
            MemoryInfo { free: TOTAL - self.used.load(Ordering::Relaxed), total: TOTAL }
        }
        fn keeps_memory(&self) -> bool {
            true
        }
        fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
            if bytes > self.memory_info().free {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(OutOfMemory { asked: bytes, why: "no more".into() });
            }
            self.used.fetch_add(bytes, Ordering::Relaxed);
            let address = 256 * (1 + self.asked.fetch_add(1, Ordering::Relaxed) as u64);
            Ok(Memory::new(address, bytes, Counted(bytes, self.used.clone())))
        }
        fn upload(&self, _: &[u8], _: &Memory, _: usize) {}
        fn download(&self, _: &Memory, _: usize, _: &mut [u8]) {}
        fn fetch(&self, _: &Memory, _: usize, _: usize) -> Fetch {
            Fetch::new(())
        }
        fn fetched(&self, _: Fetch, _: &mut [u8]) {}
        fn copy(&self, _: &Memory, _: usize, _: &Memory, _: usize, _: usize) {}
        fn clear(&self, _: &Memory, _: usize, _: usize) {}
        fn allocate_host(&self, _: usize) -> Result<HostMemory, OutOfMemory> {
            Ok(HostMemory::new(()))
        }
        fn copy_in(&self, _: &HostMemory, _: usize, _: &Memory, _: usize, _: usize) {}
        fn copy_out(&self, _: &Memory, _: usize, _: &HostMemory, _: usize, _: usize) {}
        fn read_host(&self, _: &HostMemory, _: usize, _: &mut [u8]) {}
        fn write_host(&self, _: &[u8], _: &HostMemory, _: usize) {}
        fn launch(&self, _: &Function, _: Grid, _: &[Argument]) {}
        fn capture(&self, _: &[Operation]) -> Result<Graph, String> {
            Ok(Graph::new(()))
        }
        fn replay(&self, _: &Graph) -> Result<(), String> {
            Ok(())
        }
        fn synchronize(&self) {}
    }

    fn pool() -> (Arc<Pool>, Arc<Counting>) {
        let device = Arc::new(Counting::default());
        (Pool::new(device.clone()), device)
    }

    fn used(device: &Counting) -> usize {
        device.used.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_dropped_is_taken_again() {
        let (pool, _) = pool();
        for bytes in [0, 1, 512, 100_000] {
            let first = pool.for_a_moment(bytes).unwrap();
            let address = first.memory().address();
            assert!(
                first.memory().bytes() >= bytes
                    && first.memory().bytes() <= (bytes + bytes / 8).max(512)
            );
            drop(first);
            let again = pool.for_a_moment(bytes).unwrap();
            assert_eq!(again.memory().address(), address, "{bytes} bytes");
            assert_ne!(
                pool.for_a_moment(bytes).unwrap().memory().address(),
                address,
                "{bytes} bytes twice"
            );
        }
        let small = pool.for_a_moment(10).unwrap().memory().bytes();
        assert!(small < 1000, "{small} bytes for 10: what is far larger waits for others");
    }

    #[test]
    fn a_step_finds_its_memory_where_the_one_before_it_did() {
        let (pool, device) = pool();
        // The order in which a step's memory is dropped makes no difference. Other requests get
        // none of it.
        let step = |drops_first: usize| {
            let asked = [1000, 5000, 1000, 1000].map(|bytes| pool.for_a_step(bytes).unwrap());
            let addresses = asked.each_ref().map(|block| block.memory().address());
            let mut asked = Vec::from(asked);
            drop(asked.remove(drops_first));
            let again = pool.for_a_step(1000).unwrap();
            (addresses, again.memory().address())
        };
        step(0);
        let first = step(2);
        step(3);
        assert_eq!(step(2), first);
        assert!(!first.0.contains(&pool.for_a_moment(1000).unwrap().memory().address()));
        // Uploads never get memory that a launch of the step may have used.
        let (uploads, scratch) = (pool.for_uploads(1000).unwrap(), pool.for_a_step(1000).unwrap());
        assert!(first.0.contains(&scratch.memory().address()));
        assert!(!first.0.contains(&uploads.memory().address()));
        drop((uploads, scratch));
        pool.hold_steps();
        pool.trim();
        assert!(used(&device) > 0, "launches that use it are still to come");
        pool.let_go_of_steps();
        pool.trim();
        assert_eq!(used(&device), 0);
    }

    /// Two threads share a device. Memory that one thread's step holds is waited for, not refused.
    #[test]
    fn memory_that_a_step_holds_is_waited_for() {
        let (pool, device) = pool();
        drop(pool.for_a_step(TOTAL / 2).unwrap());
        pool.hold_steps();
        assert!(pool.to_keep(TOTAL).is_err(), "whoever makes the step does not wait for itself");
        device.refused.store(0, Ordering::Relaxed);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.to_keep(TOTAL).map(|kept| kept.memory().bytes())
        });
        // The other thread has been refused, and again after all free memory was given back.
        while device.refused.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        assert!(!other.is_finished() && used(&device) == TOTAL / 2);
        pool.let_go_of_steps();
        assert_eq!(other.join().unwrap().ok(), Some(TOTAL));
    }

    #[test]
    fn what_is_kept_is_asked_for_to_the_byte_and_given_back() {
        let (pool, device) = pool();
        let kept = pool.to_keep(12_345).unwrap();
        assert_eq!((kept.memory().bytes(), used(&device)), (12_345, 12_345));
        drop(kept);
        assert_eq!(used(&device), 0);
    }

    #[test]
    fn what_waits_gives_way_to_what_is_wanted() {
        let (pool, device) = pool();
        drop(pool.for_a_moment(TOTAL / 2).unwrap());
        assert_eq!(used(&device), TOTAL / 2);
        let kept = pool.to_keep(TOTAL).unwrap();
        assert_eq!(used(&device), TOTAL);
        assert_eq!(pool.for_a_moment(1).err().unwrap().why, "no more");
        drop(kept);
        // To the byte, if only that fits.
        let kept = pool.to_keep(TOTAL - 1000).unwrap();
        assert_eq!(pool.for_a_moment(1000).unwrap().memory().bytes(), 1000);
        drop(kept);
        drop(pool.for_a_moment(1).unwrap());
        pool.trim();
        assert_eq!(used(&device), 0);
    }

    /// Passes of many sizes leave memory of many sizes waiting, which would leave nothing for
    /// another rank on the device.
    #[test]
    fn what_waits_stays_within_what_the_program_may_have() {
        let all_of = |most: usize| {
            let (pool, device) = pool();
            pool.keep_within(most);
            let kept = pool.to_keep(TOTAL / 8).unwrap();
            let mut highest = 0;
            for step in 1..=12 {
                drop(pool.for_a_moment(step * TOTAL / 64).unwrap());
                highest = highest.max(used(&device));
                assert_eq!(pool.held.load(Ordering::Relaxed), used(&device));
            }
            drop(kept);
            pool.trim();
            assert_eq!(pool.held.load(Ordering::Relaxed), 0);
            highest
        };
        assert!(all_of(usize::MAX) > TOTAL / 2);
        assert!(all_of(TOTAL / 2) <= TOTAL / 2);
        // Memory needed at one time is not refused.
        assert!(all_of(0) >= TOTAL / 8 + 12 * TOTAL / 64);
    }

    /// A plan is made with all free memory, also after a phase of a run or after products were
    /// compared.
    #[test]
    fn what_waits_is_free() {
        let (pool, device) = pool();
        let kept = pool.to_keep(1000).unwrap();
        for bytes in [TOTAL / 2, TOTAL / 4, 10] {
            drop(pool.for_a_moment(bytes).unwrap());
        }
        assert!(device.memory_info().free < TOTAL / 4);
        assert_eq!(pool.free(), TOTAL - 1000);
        drop(kept);
        assert_eq!(pool.free(), TOTAL);
    }

    #[test]
    fn what_waits_in_one_stream_gives_way_to_the_other() {
        let (pool, device) = pool();
        let second = pool.second(device.clone());
        for (waits, asks) in [(&pool, &second), (&second, &pool)] {
            drop(waits.for_a_moment(TOTAL / 2).unwrap());
            assert_eq!(used(&device), TOTAL / 2);
            let kept = asks.to_keep(TOTAL).unwrap();
            assert_eq!(pool.held.load(Ordering::Relaxed), TOTAL);
            drop(kept);
        }
    }

    #[test]
    fn more_than_the_device_has_is_refused_with_what_it_has() {
        let (pool, _) = pool();
        for bytes in [TOTAL + 1, usize::MAX] {
            for refused in [pool.to_keep(bytes), pool.for_a_moment(bytes)] {
                let refused = refused.err().unwrap();
                assert!(
                    refused.asked >= bytes && refused.why == "the device has 1 MiB",
                    "{refused:?}"
                );
            }
        }
    }
}
