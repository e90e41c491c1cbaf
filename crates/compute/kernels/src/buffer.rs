//! Memory for activations, weights and caches: aligned, on huge pages where large, and recycled.

use crate::role::OutOfMemory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
/// The part of its size that a recycled buffer may be larger than asked for. More would be lost in
/// each of the buffers that a tape keeps.
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
    buffers: Mutex<Buffers>,
    /// At most one cache of keys and values, so that no more memory waits than one rollout was
    /// allowed.
    cache: Mutex<Option<Storage>>,
}

/// Buffers for a moment, those in use and those that wait. Together they take no more memory than
/// has been in use at once, so that passes of many sizes have what the largest needs.
#[derive(Default)]
struct Buffers {
    /// Waiting memory by capacity in floats. No list is empty.
    waiting: BTreeMap<usize, Vec<Storage>>,
    /// Floats that are in use, and that wait.
    used: usize,
    kept: usize,
    /// Most floats that were in use at once.
    most: usize,
}

impl Buffers {
    /// Waiting memory for `wanted` floats, with its capacity. If there is none, makes room for new
    /// memory of that size.
    fn take(&mut self, wanted: usize) -> Option<(usize, Storage)> {
        let sizes = wanted..=wanted.saturating_add(wanted / SLACK);
        let fitting = self.waiting.range(sizes).next().map(|(&size, _)| size);
        let taken = fitting.and_then(|size| Some((size, self.pop(size)?)));
        self.used = self.used.saturating_add(fitting.unwrap_or(wanted));
        self.most = self.most.max(self.used);
        while self.used.saturating_add(self.kept) > self.most {
            // The next smaller size served the same purpose in a smaller pass.
            let smaller = self.waiting.range(..wanted).next_back();
            let other = smaller.or_else(|| self.waiting.last_key_value());
            let Some(size) = other.map(|(&size, _)| size) else { break };
            self.pop(size);
        }
        taken
    }

    /// Takes waiting memory of exactly this capacity.
    fn pop(&mut self, size: usize) -> Option<Storage> {
        let waiting = self.waiting.get_mut(&size)?;
        let storage = waiting.pop();
        if waiting.is_empty() {
            self.waiting.remove(&size);
        }
        self.kept -= size;
        storage
    }

    /// Takes back memory of this capacity; there is none if it is not to wait.
    fn give_back(&mut self, capacity: usize, storage: Option<Storage>) {
        self.used -= capacity;
        if let Some(storage) = storage {
            self.kept += capacity;
            self.waiting.entry(capacity).or_default().push(storage);
        }
    }

    /// Gives waiting memory back to the system.
    fn clear(&mut self) {
        self.waiting.clear();
        (self.kept, self.most) = (0, self.used);
    }
}

impl Recycler {
    /// `rows` of `features` whose contents are unspecified (whatever the memory last held).
    pub(crate) fn buffer(
        self: &Arc<Self>,
        rows: usize,
        features: usize,
    ) -> Result<CpuBuffer, OutOfMemory> {
        let len = rows.saturating_mul(features);
        // More is refused in any case, and this can be counted.
        let wanted = capacity(len).min(usize::MAX / 2);
        let fitting = self.buffers().take(wanted);
        let (capacity, storage) = match fitting {
            Some(fitting) => fitting,
            None => {
                let refused = |_: &OutOfMemory| {
                    let mut buffers = self.buffers();
                    buffers.give_back(wanted, None);
                    buffers.clear();
                };
                (wanted, Storage::new(wanted).inspect_err(refused)?)
            }
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

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives all waiting memory back to the system.
    pub(crate) fn clear(&self) {
        self.buffers().clear();
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
            Fate::Recycled => {
                let waits = self.capacity * size_of::<f32>() <= RECYCLED_BYTES;
                self.recycler.buffers().give_back(self.capacity, waits.then_some(storage));
            }
            Fate::GivenBack => {}
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

    /// Whatever sizes are asked for: waiting memory never makes the whole larger than what was in
    /// use at once, and a buffer is at most by an eighth and a quarter larger than asked for.
    #[test]
    fn buffers_of_all_sizes_take_the_memory_of_the_largest_use() {
        let recycler = Arc::new(Recycler::default());
        let (mut state, mut most) = (1_u64, 0);
        let mut reused = 0;
        for _ in 0..300 {
            let mut held = Vec::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let len = 1000 + (state >> 33) as usize % 20_000;
                let waiting = recycler.buffers().kept;
                let buffer = recycler.buffer(1, len).unwrap();
                let all = recycler.buffers();
                let counted = all.waiting.iter().map(|(size, of)| size * of.len()).sum::<usize>();
                assert_eq!(all.kept, counted);
                reused += usize::from(all.kept + buffer.capacity == waiting);
                assert!(4 * buffer.capacity <= 6 * len && buffer.capacity >= len);
                held.push(buffer);
                let used = held.iter().map(|buffer: &CpuBuffer| buffer.capacity).sum();
                most = most.max(used);
                assert!(all.used == used && used + all.kept <= most, "{used} {}", all.kept);
            }
        }
        assert!(reused > 300, "{reused} of 2400 were recycled");
        recycler.clear();
        assert_eq!(recycler.buffers().most, 0);
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
        assert!(recycler.buffers().waiting.is_empty() && recycler.cache.lock().unwrap().is_none());
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
