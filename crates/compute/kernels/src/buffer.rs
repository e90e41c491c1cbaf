//! Memory for activations, weights and caches: aligned, on huge pages where large, and recycled.

use crate::role::OutOfMemory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of `f32` in main memory, one after the other, aligned to a cache line. When it is dropped,
/// the backend that made it keeps the memory for the next buffer of that size: otherwise page
/// faults would cost more than small models do.
pub struct CpuBuffer {
    storage: Option<Storage>,
    len: usize,
    /// Floats in a row.
    features: usize,
    /// Floats of storage.
    capacity: usize,
    fate: Fate,
    recycler: Arc<Recycler>,
}

impl CpuBuffer {
    /// The first rows.
    ///
    /// # Panics
    /// When there are fewer, or rows have another length.
    pub(crate) fn rows(&self, rows: usize, features: usize) -> &[f32] {
        assert!(
            self.features == features && rows * features <= self.len,
            "{rows} rows of {features}"
        );
        &self[..rows * features]
    }

    /// The first rows.
    ///
    /// # Panics
    /// As [`rows`](Self::rows).
    pub(crate) fn rows_mut(&mut self, rows: usize, features: usize) -> &mut [f32] {
        assert!(
            self.features == features && rows * features <= self.len,
            "{rows} rows of {features}"
        );
        &mut self[..rows * features]
    }

    /// Floats in a row.
    pub(crate) fn features(&self) -> usize {
        self.features
    }
}

/// The use of a buffer's memory after it is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The memory is kept for the next buffer of its size.
    Recycled,
    /// The memory is kept for the next cache of keys and values.
    Cache,
    /// The memory goes back to the system, to make room for other memory.
    GivenBack,
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

/// A task's own memory, aligned to a cache line (a vector that lies across two takes two loads) and
/// recycled by its thread, since tasks are short and first touches slow.
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
/// Buffers up to this size are recycled, and caches of any; larger ones go straight back to the
/// system.
const RECYCLED_BYTES: usize = 512 << 20;
/// How many times larger than asked for a recycled buffer may be: the last micro-batch of several
/// is a small one.
const SLACK: usize = 4;

impl Storage {
    /// Zeros.
    fn new(len: usize) -> Result<Self, OutOfMemory> {
        let asked = len.saturating_mul(size_of::<f32>());
        if asked < MAPPED_BYTES {
            return Ok(Self::Small(vec![CacheLine([0.0; 16]); len.div_ceil(16)]));
        }
        let refused = |why: String| OutOfMemory { asked, why };
        if asked > isize::MAX as usize {
            return Err(refused("no memory is that large".into()));
        }
        let map = memmap2::MmapMut::map_anon(asked).map_err(|e| refused(e.to_string()))?;
        #[cfg(target_os = "linux")]
        // A refused hint changes only speed.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self::Mapped(map))
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

/// Memory waiting to be used again.
#[derive(Default)]
pub(crate) struct Recycler {
    /// By capacity in floats.
    buffers: Mutex<BTreeMap<usize, Vec<Storage>>>,
    /// At most one cache of keys and values, so that no more memory waits than one rollout was
    /// allowed.
    cache: Mutex<Option<Storage>>,
}

impl Recycler {
    /// `rows` of `features` whose contents are unspecified (whatever the memory last held).
    pub(crate) fn buffer(
        self: &Arc<Self>,
        rows: usize,
        features: usize,
    ) -> Result<CpuBuffer, OutOfMemory> {
        let len = rows.saturating_mul(features);
        let wanted = capacity(len);
        let mut free = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free
            .range_mut(wanted..=wanted.saturating_mul(SLACK))
            .find_map(|(&size, waiting)| Some((size, waiting.pop()?)));
        drop(free);
        let (capacity, storage) = match fitting {
            Some(fitting) => fitting,
            None => (wanted, Storage::new(wanted)?),
        };
        Ok(self.own(storage, capacity, len, features, Fate::Recycled))
    }

    /// Like [`buffer`](Self::buffer), in the memory of the last cache if it is large enough.
    pub(crate) fn cache(
        self: &Arc<Self>,
        rows: usize,
        features: usize,
    ) -> Result<CpuBuffer, OutOfMemory> {
        let len = rows.saturating_mul(features);
        let capacity = capacity(len);
        let waiting = self.cache.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A cache that is too small goes back to the system before the new one is asked for.
        let storage = match waiting.filter(|storage| storage.floats().len() >= capacity) {
            Some(storage) => storage,
            None => Storage::new(capacity)?,
        };
        Ok(self.own(storage, capacity, len, features, Fate::Cache))
    }

    /// `rows` of `features` zeros, in memory of their own. Memory to keep has no more than its
    /// size, and goes back to the system when it is dropped.
    pub(crate) fn zeros(
        self: &Arc<Self>,
        rows: usize,
        features: usize,
    ) -> Result<CpuBuffer, OutOfMemory> {
        let len = rows.saturating_mul(features);
        let capacity = capacity(len);
        Ok(self.own(Storage::new(capacity)?, capacity, len, features, Fate::GivenBack))
    }

    fn own(
        self: &Arc<Self>,
        storage: Storage,
        capacity: usize,
        len: usize,
        features: usize,
        fate: Fate,
    ) -> CpuBuffer {
        let (storage, recycler) = (Some(storage), self.clone());
        CpuBuffer { storage, len, features, capacity, fate, recycler }
    }

    /// Gives all waiting memory back to the system.
    pub(crate) fn clear(&self) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Capacities are rounded up by at most an eighth, so that batches of similar size share memory.
fn capacity(len: usize) -> usize {
    let len = len.max(64);
    // A size that no memory could hold is not rounded.
    let step = len.checked_next_power_of_two().map_or(16, |power| (power / 16).max(16));
    len.checked_next_multiple_of(step).unwrap_or(len)
}

/// Memory kept for one purpose. It grows to the largest size that was requested.
#[derive(Default)]
pub(crate) struct Reserved(Mutex<Option<Storage>>);

impl Reserved {
    /// Calls `f` with `len` floats whose contents are unspecified (whatever the memory last held).
    pub(crate) fn with<R>(&self, len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = kept.take().filter(|storage| storage.floats().len() >= len);
        let storage = storage
            .unwrap_or_else(|| Storage::new(len).unwrap_or_else(|refused| panic!("{refused}")));
        let storage = kept.insert(storage);
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
        let Some(storage) = self.storage.take() else { return };
        match self.fate {
            Fate::Cache => {
                let mut waiting =
                    self.recycler.cache.lock().unwrap_or_else(PoisonError::into_inner);
                if waiting
                    .as_ref()
                    .is_none_or(|other| other.floats().len() < storage.floats().len())
                {
                    *waiting = Some(storage);
                }
            }
            Fate::Recycled if self.capacity * size_of::<f32>() <= RECYCLED_BYTES => {
                let mut free = self.recycler.buffers.lock().unwrap_or_else(PoisonError::into_inner);
                free.entry(self.capacity).or_default().push(storage);
            }
            Fate::Recycled | Fate::GivenBack => {}
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
            let buffer = || recycler.buffer(1, len).unwrap();
            let mut a = buffer();
            assert_eq!((a.len(), a.as_ptr() as usize % 64), (len, 0));
            a.fill(3.0);
            let at = a.as_ptr();
            drop(a);
            assert_eq!(buffer().as_ptr(), at, "{len} floats were not recycled");
        }
        recycler.clear();
        assert_eq!(recycler.buffer(1, 5_000_000).unwrap()[4_999_999], 0.0);
    }

    #[test]
    fn a_cache_of_any_size_waits_for_the_next_one() {
        let recycler = Arc::new(Recycler::default());
        let large = RECYCLED_BYTES / size_of::<f32>() + 5000;
        let marked = |rows, features| {
            let mut cache = recycler.cache(rows, features).unwrap();
            let found = cache[0];
            cache[0] = 3.0;
            (found, cache)
        };
        let waiting =
            || recycler.cache.lock().unwrap().as_ref().map_or(0, |cache| cache.floats().len());
        drop(marked(1, 10));
        let (found, first) = marked(2, large);
        assert_eq!(
            (found, waiting()),
            (0.0, 0),
            "one that is too small does not wait beside a larger one"
        );
        let (_, second) = marked(1, large);
        drop(first);
        drop(second);
        assert!(waiting() >= 2 * large, "the larger of two waits");
        let (found, smaller) = marked(1, 10);
        assert_eq!((found, smaller.len(), waiting()), (3.0, 10, 0));
        let other = recycler.buffer(1, 2 * large).unwrap();
        assert_eq!(other[0], 0.0, "what is no cache takes none of its memory");
        drop(smaller);
        recycler.clear();
        assert_eq!(waiting(), 0);
    }

    #[test]
    fn what_was_kept_does_not_wait() {
        let recycler = Arc::new(Recycler::default());
        for len in [100, 1_000_000] {
            let mut kept = recycler.zeros(1, len).unwrap();
            kept.fill(3.0);
            drop(kept);
        }
        assert!(
            recycler.buffers.lock().unwrap().is_empty() && recycler.cache.lock().unwrap().is_none()
        );
        assert_eq!(recycler.zeros(1, 1_000_000).unwrap()[999_999], 0.0);
    }

    #[test]
    fn memory_that_there_is_not_is_refused_with_a_sentence() {
        let recycler = Arc::new(Recycler::default());
        for (rows, features) in
            [(1 << 50, 16), (usize::MAX, 2), (1 << 62, 1), (usize::MAX, usize::MAX)]
        {
            let (buffer, cache) = (recycler.buffer(rows, features), recycler.cache(rows, features));
            for refused in [buffer, cache, recycler.zeros(rows, features)] {
                let Err(refused) = refused else { panic!("{rows} rows of {features}") };
                assert!(refused.asked >= 1 << 52, "{refused:?}");
                assert!(refused.to_string().starts_with("cannot allocate "), "{refused}");
            }
        }
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
