//! Memory between pages without access.

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

/// Fills the gap between a guard page and memory that does not fill its pages.
const SLACK: u8 = 0xa5;

/// Bytes without access on either side: a wrong address is often far away.
pub(crate) const GUARD: usize = 1 << 20;

/// Alignment that kernels may rely on.
pub(crate) const ALIGNMENT: usize = 16;

/// Bytes that end at a guard page, or as close before it as [`ALIGNMENT`] allows.
pub(crate) struct Region {
    base: *mut c_void,
    mapped: usize,
    start: usize,
    bytes: usize,
}

// SAFETY: it owns its pages. Launches, which read and write them, are serialised; within a launch,
// races are the emulated kernels' affair.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A region of `bytes` bytes, which hold anything.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let too_large = || io::Error::other("more than the address space holds");
        let inner = bytes.checked_next_multiple_of(page).ok_or_else(too_large)?.max(page);
        let mapped = inner.checked_add(2 * GUARD).ok_or_else(too_large)?;
        // SAFETY: a new mapping, wherever the system has room.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                mapped,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let first = base as usize + GUARD;
        let region = Self {
            base,
            mapped,
            // Even an empty region does not begin at the guard page.
            start: first + inner - bytes.max(1).next_multiple_of(ALIGNMENT),
            bytes,
        };
        // SAFETY: within the mapping that was made above.
        unsafe {
            mprotect(first as *mut c_void, inner, MprotectFlags::READ | MprotectFlags::WRITE)?;
            (first as *mut u8).write_bytes(SLACK, region.start - first);
            (region.end() as *mut u8).write_bytes(SLACK, first + inner - region.end());
        }
        Ok(region)
    }

    /// Its first address: a multiple of [`ALIGNMENT`].
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The first byte after its end.
    pub(crate) fn end(&self) -> usize {
        self.start + self.bytes
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) {
        // SAFETY: its own bytes.
        unsafe { (self.start as *mut u8).write_bytes(byte, self.bytes) };
    }

    /// Gives the memory back, but keeps its addresses, which have no access from now on.
    pub(crate) fn close(&mut self) {
        // SAFETY: its own mapping, which is not used any more.
        let closed = unsafe {
            madvise(self.base, self.mapped, Advice::LinuxDontNeed)
                .and_then(|()| mprotect(self.base, self.mapped, MprotectFlags::empty()))
        };
        debug_assert!(closed.is_ok(), "its own mapping");
    }

    /// The offset, from its start, of a byte that was written outside of it, up to the guard pages.
    pub(crate) fn damage(&self) -> Option<isize> {
        damage_between(self.start, self.end())
    }
}

/// Finds the damage in the region with this start and this end.
pub(crate) fn damage_between(start: usize, end: usize) -> Option<isize> {
    let page = rustix::param::page_size();
    let last = (end.max(start + 1)).next_multiple_of(page);
    // The slack before a region is less than a page. The region's end is at most 15 bytes before a
    // page's end, and those bytes are the slack behind it.
    let first = start - start % page;
    let touched = |at: &usize| {
        // SAFETY: between the guard pages. Volatile, because kernels may write here behind the
        // compiler's back.
        unsafe { (*at as *const u8).read_volatile() != SLACK }
    };
    let has_touched = |at: &usize| {
        // SAFETY: as above, and aligned: pages and regions begin at multiples of 16.
        unsafe { (*at as *const u64).read_volatile() != u64::from_ne_bytes([SLACK; 8]) }
    };
    let before = || {
        let word = (first..start).step_by(8).rev().find(has_touched)?;
        (word..word + 8).rev().find(touched)
    };
    let found = (end..last).find(touched).or_else(before);
    found.map(|at| at.cast_signed() - start.cast_signed())
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own.
        let unmapped = unsafe { munmap(self.base, self.mapped) };
        debug_assert!(unmapped.is_ok(), "its own mapping");
    }
}
