//! The thread pool. Work is split into tasks that own disjoint outputs, so results depend neither
//! on the number of threads nor on which thread runs a task.

use crate::pool::Pool;
use crate::simd::Isa;
use std::ops::Range;

/// The environment variable that overrides the number of threads.
pub const THREADS_VARIABLE: &str = "ISENTROPE_THREADS";

/// A fixed set of threads.
pub(crate) struct Threads(Pool);

impl Threads {
    pub(crate) fn new(threads: usize) -> Result<Self, String> {
        Pool::new(threads).map(Self).map_err(|e| format!("cannot start {threads} threads: {e}"))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.threads()
    }

    /// Calls `f` for every task index below `tasks`, in parallel and in no particular order.
    pub(crate) fn each(&self, tasks: usize, f: impl Fn(usize) + Sync) {
        self.0.run(tasks, &f);
    }

    /// Calls `f` on ranges that cover `0..len`, each a multiple of `granule` long but for the last.
    /// Ranges are cut small enough to share the load and large enough (`least` items) to be worth a
    /// task.
    pub(crate) fn ranges(
        &self,
        len: usize,
        granule: usize,
        least: usize,
        f: impl Fn(Range<usize>) + Sync,
    ) {
        let size = len.div_ceil(self.count() * 4).max(least).max(1).next_multiple_of(granule);
        self.each(len.div_ceil(size), |i| f(i * size..(i * size + size).min(len)));
    }
}

/// Resolves the number of threads: as asked, else `ISENTROPE_THREADS`, else the cores this process
/// may use.
///
/// # Errors
/// A sentence for the user when the variable is not a positive whole number.
pub fn thread_count(asked: Option<usize>) -> Result<usize, String> {
    match (asked, std::env::var_os(THREADS_VARIABLE)) {
        (Some(n), _) if (1..=MAX_THREADS).contains(&n) => Ok(n),
        (Some(n), _) => {
            Err(format!("{n} threads: expected a whole number from 1 to {MAX_THREADS}"))
        }
        (None, Some(text)) => pinned(&text.to_string_lossy()),
        (None, None) => Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
    }
}

/// The number that the value of `ISENTROPE_THREADS` gives.
fn pinned(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_THREADS).contains(&n) => Ok(n),
        _ => Err(format!(
            "{THREADS_VARIABLE}={text}: expected a whole number from 1 to {MAX_THREADS}"
        )),
    }
}

const MAX_THREADS: usize = 1024;

/// An instruction set and a pool of threads: every operation needs both.
pub(crate) struct Workers {
    pub isa: Isa,
    pub threads: Threads,
}

/// A pointer that tasks share, each writing its own part.
pub(crate) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: the code that dereferences the pointer vouches that tasks touch disjoint parts while the
// owner is borrowed.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn of(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr())
    }

    /// Wraps a bare pointer.
    pub(crate) fn at(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The start of the slice this was made of. (A method, so that closures capture the wrapper,
    /// not the pointer.)
    pub(crate) fn start(self) -> *mut T {
        self.0
    }

    /// The part `range` of the slice this was made of.
    ///
    /// # Safety
    /// `range` lies inside that slice, which is still borrowed, and no other task touches the
    /// range.
    pub(crate) unsafe fn slice<'a>(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_are_bounded() {
        assert_eq!((pinned("1"), pinned("1024")), (Ok(1), Ok(1024)));
        for text in ["", "0", "-1", "1025", "2.0", "two", "99999999999999999999"] {
            let expected =
                format!("ISENTROPE_THREADS={text}: expected a whole number from 1 to 1024");
            assert_eq!(pinned(text), Err(expected));
        }
        assert_eq!(thread_count(Some(3)), Ok(3));
        for n in [0, 1025] {
            let expected = format!("{n} threads: expected a whole number from 1 to 1024");
            assert_eq!(thread_count(Some(n)), Err(expected));
        }
    }

    #[test]
    fn ranges_cover_everything_once() {
        for threads in [1, 3] {
            let pool = Threads::new(threads).unwrap();
            for (len, granule, least) in
                [(0, 16, 1), (1, 1, 1), (17, 16, 1), (1000, 16, 64), (1000, 1, 5000)]
            {
                let seen: Vec<_> =
                    (0..len).map(|_| std::sync::atomic::AtomicUsize::new(0)).collect();
                let order = std::sync::atomic::Ordering::Relaxed;
                pool.ranges(len, granule, least, |range| {
                    assert!(range.start.is_multiple_of(granule) && !range.is_empty());
                    range.for_each(|i| _ = seen[i].fetch_add(1, order));
                });
                assert!(seen.iter().all(|n| n.load(order) == 1), "{len} in granules of {granule}");
            }
        }
    }
}
