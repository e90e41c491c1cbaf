//! Memory for activations, weights and caches: aligned, on huge pages where large, and recycled.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// A flat run of `f32` in main memory, aligned to a cache line. Dropping it hands the memory back to the backend
/// that made it, for the next buffer of that size: page faults would otherwise cost more than small models do.
pub struct CpuBuffer {
    storage: Option<Storage>,
    len: usize,
    /// Floats of storage.
    capacity: usize,
    recycler: Arc<Recycler>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f32; 16]);

fn floats(lines: &[CacheLine]) -> &[f32] {
    // SAFETY: a cache line is exactly 16 floats, without padding.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * 16) }
}

fn floats_mut(lines: &mut [CacheLine]) -> &mut [f32] {
    // SAFETY: a cache line is exactly 16 floats, without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 16) }
}

/// A task's own memory, aligned to a cache line (a vector that lies across two takes two loads) and recycled by its
/// thread, since tasks are short and first touches slow.
pub(crate) struct Scratch(Vec<CacheLine>);

thread_local! {
    static SCRATCH: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// At least `len` floats, whose contents are unspecified (whatever the memory last held).
    pub(crate) fn new(len: usize) -> Self {
        let mut lines = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
        if lines.len() * 16 < len {
            lines.resize(len.div_ceil(16), CacheLine([0.0; 16]));
        }
        Self(lines)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SCRATCH.with_borrow_mut(|waiting| waiting.push(std::mem::take(&mut self.0)));
    }
}

impl Deref for Scratch {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        floats(&self.0)
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        floats_mut(&mut self.0)
    }
}

enum Storage {
    Small(Vec<CacheLine>),
    Mapped(memmap2::MmapMut),
}

/// From this size on, memory is mapped, so that the kernel can back it with huge pages.
const MAPPED_BYTES: usize = 1 << 20;
/// Buffers up to this size are recycled; larger ones go straight back to the system.
const RECYCLED_BYTES: usize = 512 << 20;
/// How many times larger than asked for a recycled buffer may be: the last micro-batch of several is a small one.
const SLACK: usize = 4;

impl Storage {
    /// Zeros.
    fn new(len: usize) -> Self {
        let bytes = len * size_of::<f32>();
        if bytes < MAPPED_BYTES {
            return Self::Small(vec![CacheLine([0.0; 16]); len.div_ceil(16)]);
        }
        // An allocation that the system refuses ends the process, as Vec's does: plans are checked beforehand.
        let map = memmap2::MmapMut::map_anon(bytes)
            .unwrap_or_else(|e| panic!("cannot allocate {} MiB of memory: {e}", bytes >> 20));
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage); // only a hint: refusal changes nothing but speed
        Self::Mapped(map)
    }

    fn floats(&self) -> &[f32] {
        match self {
            Self::Small(lines) => floats(lines),
            Self::Mapped(map) => bytemuck::cast_slice(map),
        }
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Small(lines) => floats_mut(lines),
            Self::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

/// Memory waiting to be used again, by capacity in floats.
#[derive(Default)]
pub(crate) struct Recycler(Mutex<BTreeMap<usize, Vec<Storage>>>);

impl Recycler {
    /// A buffer of `len` floats whose contents are unspecified (whatever the memory last held).
    pub(crate) fn buffer(self: &Arc<Self>, len: usize) -> CpuBuffer {
        let wanted = capacity(len);
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting =
            free.range_mut(wanted..=wanted * SLACK).find_map(|(&size, waiting)| Some((size, waiting.pop()?)));
        drop(free);
        let (capacity, storage) = fitting.unwrap_or_else(|| (wanted, Storage::new(wanted)));
        CpuBuffer { storage: Some(storage), capacity, len, recycler: self.clone() }
    }

    /// A buffer of `len` zeros, in memory of its own: what is to stay must not hold on to memory larger than it needs.
    pub(crate) fn zeros(self: &Arc<Self>, len: usize) -> CpuBuffer {
        let capacity = capacity(len);
        CpuBuffer { storage: Some(Storage::new(capacity)), capacity, len, recycler: self.clone() }
    }

    /// Gives all waiting memory back to the system.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Capacities are rounded up by at most an eighth, so that batches of similar size share memory.
fn capacity(len: usize) -> usize {
    len.max(64).next_multiple_of((len.max(64).next_power_of_two() / 16).max(16))
}

/// Memory for one purpose, which nothing else takes and keeps: as much as the most that was asked for.
#[derive(Default)]
pub(crate) struct Reserved(Mutex<Option<Storage>>);

impl Reserved {
    /// Calls `f` with `len` floats whose contents are unspecified (whatever the memory last held).
    pub(crate) fn with<R>(&self, len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = kept.take().filter(|storage| storage.floats().len() >= len);
        let storage = kept.insert(storage.unwrap_or_else(|| Storage::new(len)));
        f(&mut storage.floats_mut()[..len])
    }

    /// Gives it back to the system.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Deref for CpuBuffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        self.storage.as_ref().map_or(&[], |s| &s.floats()[..self.len])
    }
}

impl DerefMut for CpuBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        let len = self.len;
        self.storage.as_mut().map_or(&mut [], |s| &mut s.floats_mut()[..len])
    }
}

impl Drop for CpuBuffer {
    fn drop(&mut self) {
        if let Some(storage) = self.storage.take()
            && self.capacity * size_of::<f32>() <= RECYCLED_BYTES
        {
            let mut free = self.recycler.0.lock().unwrap_or_else(PoisonError::into_inner);
            free.entry(self.capacity).or_default().push(storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_recycled() {
        let recycler = Arc::new(Recycler::default());
        for len in [1, 17, 1000, 300_000, 5_000_000] {
            let mut a = recycler.buffer(len);
            assert_eq!((a.len(), a.as_ptr() as usize % 64), (len, 0));
            a.fill(3.0);
            let at = a.as_ptr();
            drop(a);
            assert_eq!(recycler.buffer(len).as_ptr(), at, "{len} floats were not recycled");
        }
        recycler.clear();
        assert_eq!(recycler.buffer(5_000_000)[4_999_999], 0.0);
    }

    #[test]
    fn reserved_memory_grows_to_the_most_that_was_asked_for() {
        let reserved = Reserved::default();
        let fill = |len, value| {
            reserved.with(len, |floats| {
                assert_eq!(floats.len(), len);
                let found = floats.first().copied();
                floats.fill(value);
                found
            })
        };
        assert_eq!(fill(0, 1.0), None);
        assert_eq!(fill(300_000, 1.0), Some(0.0));
        assert_eq!(fill(10, 2.0), Some(1.0), "less is found in the same memory");
        assert_eq!(fill(300_000, 3.0), Some(2.0));
        assert_eq!(fill(400_000, 4.0), Some(0.0), "more is new");
        reserved.clear();
        reserved.with(10, |floats| assert_eq!(floats, [0.0; 10]));
    }
}
