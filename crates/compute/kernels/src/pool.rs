//! A fixed pool of threads for parallel loops of a few microseconds.
//!
//! A small model's step is some fifty parallel loops of tens of microseconds each. A work-stealing
//! pool spends a good part of that on waking its workers; here idle workers watch for the next loop
//! for a while before they sleep, and a loop is a counter per thread.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that an idle worker watches for a loop before it sleeps.
const WATCH: Duration = Duration::from_micros(200);
/// Looks at a flag before the processor is offered to other threads between looks.
const EAGER_LOOKS: u32 = 256;

thread_local! {
    /// Whether this thread is inside a loop of some pool: loops inside loops run on their own
    /// thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The thread that runs a loop holds this lock.
    turn: Mutex<()>,
}

struct Shared {
    /// [`OPEN`] while tasks of `job` may be taken, plus [`WORKER`] for each worker that is taking
    /// them.
    state: AtomicUsize,
    /// The number of loops so far, so that a worker joins each only once.
    loops: AtomicUsize,
    /// For each thread, the next of its own tasks.
    next: Box<[Counter]>,
    /// Written by the caller of a loop while `state` is 0; read by workers that have joined.
    job: UnsafeCell<Job>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

const OPEN: usize = 1;
const WORKER: usize = 2;

/// The counter has cache lines of its own, so that threads do not slow each other's counting.
#[repr(align(128))]
struct Counter(AtomicUsize);

#[derive(Clone, Copy)]
struct Job {
    /// Borrowed while workers are counted in `state`: the `'static` is only nominal.
    task: Option<&'static (dyn Fn(usize) + Sync)>,
    tasks: usize,
}

// SAFETY: `job` is the only field that is not Sync by itself; `state` orders its one writer before
// all readers, and the next writer after them.
unsafe impl Sync for Shared {}

impl Pool {
    /// A pool of `threads` threads, the caller of a loop included.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: AtomicUsize::new(0),
            loops: AtomicUsize::new(0),
            next: (0..threads).map(|_| Counter(AtomicUsize::new(0))).collect(),
            job: UnsafeCell::new(Job { task: None, tasks: 0 }),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        });
        let mut pool = Self { shared, workers: Vec::new(), turn: Mutex::new(()) };
        for i in 1..threads {
            let shared = pool.shared.clone();
            let worker = thread::Builder::new()
                .name(format!("isentrope-{i}"))
                .spawn(move || shared.work(i))?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` for every index below `tasks`, in no particular order, and returns when all
    /// have returned.
    ///
    /// # Panics
    /// When a task panics, with its payload, after the others are done.
    pub(crate) fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() || INSIDE.get() {
            return (0..tasks).for_each(task);
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        // SAFETY: the borrow's lifetime is stretched only in name: no worker uses it once this
        // function has seen `state` at 0 again, below.
        let task = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(task)
        };
        let job = Job { task: Some(task), tasks };
        // SAFETY: `state` is 0 and this thread has the turn, so no other thread touches `job`.
        unsafe { *shared.job.get() = job };
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(shared.first(thread, tasks), Ordering::Relaxed);
        }
        shared.loops.fetch_add(1, Ordering::Relaxed);
        // SeqCst pairs with a worker's way to sleep: either it sees the loop, or we see the
        // sleeper.
        shared.state.store(OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            drop(shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            shared.wake.notify_all();
        }
        shared.take(0, job);
        shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while shared.state.load(Ordering::Acquire) != 0 {
            look_again(&mut looks);
        }
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // Tasks' panics are caught, so a worker ends only on `stop`.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self, thread: usize) {
        let mut joined = 0;
        while self.wait(joined) {
            let state = self.state.load(Ordering::Acquire);
            if state & OPEN == 0
                || self
                    .state
                    .compare_exchange(state, state + WORKER, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            joined = self.loops.load(Ordering::Relaxed);
            // SAFETY: this worker is counted in `state`, so the caller neither writes `job` nor
            // returns.
            self.take(thread, unsafe { *self.job.get() });
            self.state.fetch_sub(WORKER, Ordering::AcqRel);
        }
    }

    /// The first of a thread's own tasks.
    fn first(&self, thread: usize, tasks: usize) -> usize {
        thread * tasks / self.next.len()
    }

    /// Runs tasks until none is left: first this thread's own, whose data tends to be in its cache
    /// from the last such loop, then tasks that other threads have not begun.
    fn take(&self, thread: usize, job: Job) {
        let Some(task) = job.task else { return };
        INSIDE.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let threads = self.next.len();
            for owner in (thread..threads).chain(0..thread) {
                let end = self.first(owner + 1, job.tasks);
                loop {
                    let i = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                    if i >= end {
                        break;
                    }
                    task(i);
                }
            }
        }));
        INSIDE.set(false);
        if let Err(panic) = result {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }

    /// Whether there is a loop that this worker has not joined yet.
    fn offers(&self, joined: usize) -> bool {
        self.state.load(Ordering::SeqCst) & OPEN != 0
            && self.loops.load(Ordering::Relaxed) != joined
    }

    /// Waits for a new loop; false when the pool ends.
    fn wait(&self, joined: usize) -> bool {
        let (mut looks, started) = (0, Instant::now());
        while !self.offers(joined) {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            look_again(&mut looks);
            if looks % 64 == 0 && started.elapsed() > WATCH {
                let mut guard = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while !self.offers(joined) && !self.stop.load(Ordering::SeqCst) {
                    guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
        true
    }
}

fn look_again(looks: &mut u32) {
    *looks += 1;
    if *looks < EAGER_LOOKS {
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_whatever_the_pool() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for round in 0..300 {
                let counts: Vec<AtomicUsize> =
                    (0..round % 41).map(|_| AtomicUsize::new(0)).collect();
                pool.run(counts.len(), &|i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                if round % 100 == 0 {
                    thread::sleep(3 * WATCH); // workers fall asleep and must wake
                }
            }
        }
    }

    #[test]
    fn loops_nest_and_several_threads_share_a_pool() {
        let pool = Pool::new(3).unwrap();
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.run(8, &|_| {
                            pool.run(4, &|_| _ = total.fetch_add(1, Ordering::Relaxed));
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 100 * 8 * 4);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(2).unwrap();
        for bad in 0..20 {
            let result =
                catch_unwind(AssertUnwindSafe(|| pool.run(20, &|i| assert_ne!(i, bad, "task"))));
            assert!(result.is_err());
            pool.run(20, &|_| ());
        }
    }
}
