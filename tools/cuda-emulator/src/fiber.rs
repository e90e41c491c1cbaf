//! Stacks that the threads of a block run on.

use crate::trap::Trap;
use corosensei::stack::{Stack, StackPointer};
use corosensei::trap::CoroutineTrapHandler;
use corosensei::{Coroutine, Yielder};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

/// Bytes of a stack, and the alignment of its address, so that a thread finds the stack's last
/// bytes from any address on it.
pub(crate) const STACK: usize = 64 << 10;

/// Offset, from a stack's end, of the pointer to the position of the thread that runs on it;
/// runtime/emulator.h has the same. The bytes above it are unused: if all pointers were at one
/// offset from multiples of 64 KiB, they would lie in the same few sets of the caches.
fn slot(top: usize) -> usize {
    top - 64 - ((top >> 17) & 127) * 64
}

/// Why a fiber has stopped running.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// It has no thread left to run.
    Idle,
    /// Its thread waits; its lane in the worker says for what.
    Waiting,
    /// Its thread has failed, and must not continue; the worker knows why.
    Failed,
}

/// A fiber: it runs one thread after another, and only a signal ends it.
pub(crate) type Fiber = Coroutine<(), Stop, Trap, FiberStack>;
pub(crate) type FiberYielder = Yielder<(), Stop>;
pub(crate) type FiberTrap = CoroutineTrapHandler<Trap>;

/// A stack with a guard page below.
pub(crate) struct FiberStack {
    base: *mut c_void,
    start: usize,
}

// SAFETY: it owns its pages, and nothing on them is in use when nothing runs there.
unsafe impl Send for FiberStack {}

impl FiberStack {
    pub(crate) fn new() -> io::Result<Self> {
        // Twice the size has a multiple of the size in it.
        // SAFETY: a new mapping, wherever the system has room.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                2 * STACK,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let start = (base as usize).next_multiple_of(STACK);
        let page = rustix::param::page_size();
        // SAFETY: within the mapping; the first page stays without access.
        unsafe {
            mprotect(
                (start + page) as *mut c_void,
                STACK - page,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )?;
        }
        Ok(Self { base, start })
    }
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own.
        let unmapped = unsafe { munmap(self.base, 2 * STACK) };
        debug_assert!(unmapped.is_ok(), "its own mapping");
    }
}

// SAFETY: there is a guard page at the limit, and far more than 4096 bytes above.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(slot(self.start + STACK)).expect("no mapping is at address 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.start).expect("no mapping is at address 0")
    }
}

/// The slot with the pointer to a thread's position, on the stack that `here` is on.
pub(crate) fn position_slot<T>(here: &T) -> *mut usize {
    slot(((std::ptr::from_ref(here) as usize) | (STACK - 1)) + 1) as *mut usize
}
