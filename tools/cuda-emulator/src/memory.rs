//! The device's memory: each allocation between guard pages, poisoned, and known by its address.

use crate::region::{GUARD, Region};
use isentrope_cuda::Argument;
use isentrope_kernels::OutOfMemory;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Poison: fills memory that nothing has written yet. It reads as NaN in f32, bf16 and f64, and is
/// no row's number.
pub(crate) const POISON: u8 = 0xff;

/// A second poison, used now and then for kernels that pass over NaN: large positive numbers.
pub(crate) const LARGE: u8 = 0x7f;

/// Number of freed allocations whose addresses are not given out again, so that a late user does
/// not find another's memory there.
const FREED: usize = 256;

/// Memory on the emulated device. Once dropped, its address is not reused for a while.
pub(crate) struct EmulatedMemory {
    /// There until it is dropped.
    region: Option<Region>,
    allocations: Arc<Allocations>,
}

impl EmulatedMemory {
    fn region(&self) -> &Region {
        self.region.as_ref().expect("it is taken when this is dropped")
    }

    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        self.region().start() as u64
    }

    /// The address of `bytes` bytes from `offset`.
    ///
    /// # Panics
    /// When they reach beyond its end.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        let size = self.region().bytes();
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= size),
            "{bytes} bytes from {offset} of a memory of {size}"
        );
        (self.region().start() + offset) as *mut u8
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        let Some(mut region) = self.region.take() else { return };
        let damage = region.damage();
        region.close();
        let mut known = self.allocations.lock();
        known.used -= region.bytes();
        known.by_start.remove(&region.start());
        if let Some(at) = damage {
            known.damage.get_or_insert(format!(
                "something wrote to byte {at} of a memory of {} bytes before it was freed",
                region.bytes()
            ));
        }
        known.freed.push_back(region);
        if known.freed.len() > FREED {
            known.freed.pop_front();
        }
    }
}

/// All memory that is allocated.
pub(crate) struct Allocations {
    total: usize,
    seed: u64,
    known: Mutex<Known>,
}

/// See [`Allocations`].
#[derive(Default)]
pub(crate) struct Known {
    used: usize,
    /// From the start of each to its end.
    by_start: BTreeMap<usize, usize>,
    /// The regions that were freed last.
    freed: VecDeque<Region>,
    /// Allocations so far.
    count: u64,
    /// Damage found when memory was freed.
    pub(crate) damage: Option<String>,
}

impl Allocations {
    pub(crate) fn new(total: usize, seed: u64) -> Self {
        Self { total, seed, known: Mutex::default() }
    }

    /// Excludes allocations and frees meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that can be allocated, and all that there are.
    pub(crate) fn free_and_total(&self) -> (usize, usize) {
        (self.total - self.lock().used, self.total)
    }

    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<EmulatedMemory, OutOfMemory> {
        let mut known = self.lock();
        let free = self.total - known.used;
        if bytes > free {
            let why = format!("{} MiB of {} MiB are free", free >> 20, self.total >> 20);
            return Err(OutOfMemory { asked: bytes, why });
        }
        let region = Region::new(bytes)
            .map_err(|error| OutOfMemory { asked: bytes, why: error.to_string() })?;
        known.count += 1;
        region.fill(if known.count.wrapping_add(self.seed).is_multiple_of(4) {
            LARGE
        } else {
            POISON
        });
        known.used += bytes;
        known.by_start.insert(region.start(), region.end());
        drop(known);
        Ok(EmulatedMemory { region: Some(region), allocations: Arc::clone(self) })
    }
}

/// The memory as a launch sees it while it runs.
pub(crate) struct Snapshot {
    /// Start and end of each allocation, ascending.
    ranges: Vec<(usize, usize)>,
    /// Addresses among the arguments, with their numbers.
    pointers: Vec<(usize, usize)>,
}

impl Snapshot {
    pub(crate) fn new(known: &Known, arguments: &[Argument]) -> Self {
        let pointers = arguments.iter().enumerate().filter_map(|(i, argument)| match argument {
            Argument::Pointer(address) => Some((*address as usize, i)),
            _ => None,
        });
        Self {
            ranges: known.by_start.iter().map(|(&s, &e)| (s, e)).collect(),
            pointers: pointers.collect(),
        }
    }

    /// The allocation that these bytes are within.
    pub(crate) fn containing(&self, address: usize, bytes: usize) -> Option<(usize, usize)> {
        let next = self.ranges.partition_point(|&(start, _)| start <= address);
        let (start, end) = *self.ranges.get(next.checked_sub(1)?)?;
        (address + bytes <= end).then_some((start, end))
    }

    /// Whether an address is beside an allocation, up to its guard pages.
    pub(crate) fn is_near(&self, address: usize) -> bool {
        let next = self.ranges.partition_point(|&(start, _)| start <= address);
        let behind = next.checked_sub(1).is_some_and(|i| address < self.ranges[i].1 + GUARD);
        behind || self.ranges.get(next).is_some_and(|&(start, _)| start - GUARD <= address)
    }

    /// Where an address is, for people.
    pub(crate) fn describe(&self, address: usize) -> String {
        let next = self.ranges.partition_point(|&(start, _)| start <= address);
        let before = next.checked_sub(1).map(|i| self.ranges[i]);
        let after = self.ranges.get(next).copied();
        let near = |&(start, end): &(usize, usize)| {
            if address < start { start - address } else { (address + 1).saturating_sub(end) }
        };
        let Some((start, end)) = before.into_iter().chain(after).min_by_key(near) else {
            return format!("at {address:#x}, where there is no memory");
        };
        if near(&(start, end)) > GUARD {
            return format!("at {address:#x}, where there is no memory, or none any more");
        }
        let bytes = end - start;
        let argument =
            self.pointers.iter().find(|(pointer, _)| (start..end.max(start + 1)).contains(pointer));
        let whose = match argument {
            Some((_, number)) => {
                format!("the memory of {bytes} bytes that argument {number} points to")
            }
            None => format!("a memory of {bytes} bytes that no argument points to"),
        };
        if address < start {
            format!("{} bytes before {whose}", start - address)
        } else if address >= end {
            format!("{} bytes behind the end of {whose}", address - end)
        } else {
            format!("byte {} of {whose}", address - start)
        }
    }

    /// The arguments that are addresses of memory.
    pub(crate) fn argument_ranges(&self) -> impl Iterator<Item = (usize, (usize, usize))> {
        self.pointers
            .iter()
            .filter_map(|&(address, number)| Some((number, self.containing(address, 0)?)))
    }
}
