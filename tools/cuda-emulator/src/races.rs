//! Detects races: remembers the last accesses to memory, and checks that a barrier orders each new
//! access after them.
//!
//! Within a block only barriers order threads, so this needs no clocks: two accesses are ordered if
//! one thread makes both, if a barrier is between them, or, within a warp, a barrier of the warp.
//! (Shuffles and the like do not order memory, by the CUDA C++ Programming Guide.) Blocks of a
//! launch are not ordered at all.

use crate::failure::Mistake;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes that are checked together: the smallest element of a kernel.
const GRAIN: usize = 2;
const PAGE: usize = 4096;

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Who uses memory, and when.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    /// Counts barriers and blocks, over all launches.
    pub(crate) epoch: u32,
    /// Counts the barriers of the warp.
    pub(crate) step: u32,
    pub(crate) thread: usize,
}

/// A [`Now`] in one word: epoch, step, thread and whether there has been one at all.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Stamp(u64);

impl Stamp {
    fn new(now: Now) -> Self {
        let step = u64::from(now.step & 0xf_ffff);
        Self(u64::from(now.epoch) << 32 | step << 12 | (now.thread as u64) << 1 | 1)
    }

    fn some(self) -> Option<Now> {
        let now = Now {
            epoch: (self.0 >> 32) as u32,
            step: (self.0 >> 12) as u32 & 0xf_ffff,
            thread: (self.0 >> 1) as usize & 0x7ff,
        };
        (self.0 != 0).then_some(now)
    }
}

/// Who has used some bytes.
#[derive(Clone, Copy, Default)]
struct Grain {
    write: Stamp,
    /// Two readers of different warps; see `keep_reader`.
    reads: [Stamp; 2],
    /// An asynchronous copy to it is under way.
    pending: bool,
}

/// Every access by a launch's blocks so far.
pub(crate) struct Races {
    pages: RefCell<HashMap<usize, Vec<Grain>>>,
    /// The first epoch of the launch, and of the block.
    launch: Cell<u32>,
    block: Cell<u32>,
}

impl Races {
    pub(crate) fn new() -> Self {
        Self { pages: RefCell::default(), launch: Cell::new(1), block: Cell::new(1) }
    }

    pub(crate) fn begin_launch(&self, epoch: u32) {
        self.launch.set(epoch);
        self.pages.borrow_mut().clear();
    }

    pub(crate) fn begin_block(&self, epoch: u32) {
        self.block.set(epoch);
    }

    /// Whether `before` may run at the same time as `now`.
    fn at_once(&self, before: Now, now: Now, shared: bool) -> bool {
        if before.epoch < self.block.get() {
            // Another block of the launch; its shared memory is not this one's.
            return !shared && before.epoch >= self.launch.get();
        }
        before.epoch == now.epoch
            && before.thread != now.thread
            && (before.thread / 32 != now.thread / 32 || before.step == now.step & 0xf_ffff)
    }

    fn whom(&self, before: Now) -> String {
        if before.epoch < self.block.get() {
            format!("thread {} of another block", before.thread)
        } else {
            format!("thread {}", before.thread)
        }
    }

    /// Notes an access, or returns why it is a mistake.
    pub(crate) fn note(
        &self,
        now: Now,
        usage: Use,
        address: usize,
        bytes: usize,
        shared: bool,
    ) -> Result<(), (Mistake, String)> {
        let stamp = Stamp::new(now);
        let mut pages = self.pages.borrow_mut();
        let mut at = address / GRAIN;
        while at * GRAIN < address + bytes {
            let page = at * GRAIN / PAGE;
            // On the heap at once: a fiber's stack is small.
            let cells = pages.entry(page).or_insert_with(|| vec![Grain::default(); PAGE / GRAIN]);
            let end = ((page + 1) * PAGE).min(address + bytes);
            while at * GRAIN < end {
                self.note_grain(&mut cells[at % (PAGE / GRAIN)], stamp, now, usage, shared)?;
                at += 1;
            }
        }
        Ok(())
    }

    fn note_grain(
        &self,
        cell: &mut Grain,
        stamp: Stamp,
        now: Now,
        usage: Use,
        shared: bool,
    ) -> Result<(), (Mistake, String)> {
        let written = cell.write.some().filter(|write| !shared || write.epoch >= self.block.get());
        if let Some(write) = written {
            if cell.pending {
                let what = format!("a copy to it is under way, which {} began", self.whom(write));
                return Err((Mistake::Unfinished, what));
            }
            if self.at_once(write, now, shared) {
                let what = format!("{} writes it at the same time", self.whom(write));
                return Err((Mistake::Race, what));
            }
        } else if shared && usage != Use::Write {
            return Err((Mistake::Uninitialised, "nothing has been written there".to_owned()));
        }
        if usage == Use::Read {
            self.keep_reader(&mut cell.reads, stamp, now, shared);
            return Ok(());
        }
        for read in cell.reads.iter().filter_map(|read| read.some()) {
            if self.at_once(read, now, shared) {
                return Err((
                    Mistake::Race,
                    format!("{} reads it at the same time", self.whom(read)),
                ));
            }
        }
        cell.write = stamp;
        cell.pending = false;
        Ok(())
    }

    /// Two readers stand for all: an access that conflicts with a forgotten reader conflicts with a
    /// kept one too.
    fn keep_reader(&self, reads: &mut [Stamp; 2], stamp: Stamp, now: Now, shared: bool) {
        let alone = |read: &Stamp| read.some().is_none_or(|read| !self.at_once(read, now, shared));
        let warp = |read: &Stamp| read.some().map(|read| read.thread / 32);
        if alone(&reads[0]) {
            reads[0] = stamp;
        } else if alone(&reads[1]) || warp(&reads[0]) == warp(&reads[1]) {
            reads[1] = stamp;
        }
    }

    /// Notes whether a copy is under way to bytes that have just been noted as written.
    pub(crate) fn set_pending(&self, address: usize, bytes: usize, pending: bool) {
        let mut pages = self.pages.borrow_mut();
        for at in (address..address + bytes).step_by(GRAIN) {
            if let Some(cells) = pages.get_mut(&(at / PAGE)) {
                cells[at / GRAIN % (PAGE / GRAIN)].pending = pending;
            }
        }
    }
}
