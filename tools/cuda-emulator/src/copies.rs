//! Asynchronous copies of one thread: they arrive when it waits for them, and not before.

use crate::memory::POISON;
use crate::random::Random;
use std::collections::VecDeque;

/// A copy that is under way.
pub(crate) struct Copy {
    /// Where to, in shared memory.
    pub(crate) to: usize,
    /// Source address.
    from: usize,
    /// Bytes that are written, at most 16.
    pub(crate) bytes: usize,
    /// Bytes that are read; the others are zeros.
    given: usize,
    /// The bytes read, if the device has read already.
    read: Option<[u8; 16]>,
}

impl Copy {
    /// Begins a copy: the old content of `to` is overwritten by poison.
    ///
    /// # Safety
    /// Both ranges are memory of the device, `from` for `given` bytes.
    pub(crate) unsafe fn begin(
        to: usize,
        from: usize,
        bytes: usize,
        given: usize,
        random: &Random,
    ) -> Self {
        // SAFETY: the caller's.
        unsafe { (to as *mut u8).write_bytes(POISON, bytes) };
        let mut copy = Self { to, from, bytes, given, read: None };
        if random.below(2) == 0 {
            // SAFETY: the caller's.
            copy.read = Some(unsafe { copy.source() });
        }
        copy
    }

    unsafe fn source(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        // SAFETY: `begin`'s caller vouches for the range, which the launch keeps.
        unsafe { (self.from as *const u8).copy_to(bytes.as_mut_ptr(), self.given) };
        bytes
    }

    fn finish(&self) {
        // SAFETY: `begin`'s caller vouches for both ranges, which the launch keeps.
        unsafe {
            let source = self.read.unwrap_or_else(|| self.source());
            source.as_ptr().copy_to(self.to as *mut u8, self.bytes);
        }
    }
}

/// The copies of one thread.
#[derive(Default)]
pub(crate) struct Copies {
    open: Vec<Copy>,
    groups: VecDeque<Vec<Copy>>,
}

impl Copies {
    pub(crate) fn add(&mut self, copy: Copy) {
        self.open.push(copy);
    }

    /// Makes a group of those since the last one.
    pub(crate) fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// Finishes all groups but the last `groups`, in random order, and calls `done` for each copy.
    pub(crate) fn wait(&mut self, groups: usize, random: &Random, mut done: impl FnMut(&Copy)) {
        let finished = self.groups.len().saturating_sub(groups);
        let mut due: Vec<Copy> = self.groups.drain(..finished).flatten().collect();
        random.shuffle(&mut due);
        for copy in &due {
            copy.finish();
            done(copy);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.groups.clear();
    }
}
