//! Short messages between rank 0 and each other rank, which may come at any time.

use super::abi::{Calls, Handle};
use crate::engine::{NOTE_BYTES, Note};
use crate::error::Result;
use std::ffi::c_int;
use std::mem;

const TAG: c_int = 2;
/// First byte of a note that is the last.
const GOODBYE: u8 = 1;
/// Most notes under way to one rank. Further notes are dropped, because the rank does not read
/// them.
const MOST_UNDER_WAY: usize = 8;

/// A note as it travels, behind a byte for its kind. Its bytes are on the heap, so they stay in
/// place when this is moved.
type Envelope = Vec<u8>;

/// The notes to receive, and the notes under way.
pub(super) struct Notes<H> {
    /// One for each rank that sends notes.
    awaited: Vec<AwaitedNote<H>>,
    /// Receiver, note and request of each note under way.
    posted: Vec<(usize, Envelope, H)>,
}

struct AwaitedNote<H> {
    from: usize,
    note: Envelope,
    request: H,
    /// Whether the last note has come.
    over: bool,
}

impl<H: Handle> Notes<H> {
    pub fn none() -> Self {
        Self { awaited: Vec::new(), posted: Vec::new() }
    }

    /// Begins to wait for a rank's notes.
    pub fn hear(&mut self, calls: &Calls<H>, from: usize) -> Result<()> {
        let (note, request) = next(calls, from)?;
        self.awaited.push(AwaitedNote { from, note, request, over: false });
        Ok(())
    }

    pub fn post(&mut self, calls: &Calls<H>, to: usize, note: &Note) -> Result<()> {
        self.forget_posted(calls)?;
        let under_way = self.posted.iter().filter(|(other, ..)| *other == to).count();
        if under_way < MOST_UNDER_WAY { self.send(calls, 0, to, note) } else { Ok(()) }
    }

    /// The last note to everybody.
    pub fn say_goodbye(&mut self, calls: &Calls<H>) -> Result<()> {
        let peers: Vec<usize> = self.awaited.iter().map(|awaited| awaited.from).collect();
        peers.into_iter().try_for_each(|to| self.send(calls, GOODBYE, to, &[0; NOTE_BYTES]))
    }

    /// Whether everybody has said goodbye.
    pub fn all_are_gone(&self) -> bool {
        self.awaited.iter().all(|awaited| awaited.over)
    }

    /// Whether none of our notes is under way.
    pub fn all_have_arrived(&mut self, calls: &Calls<H>) -> Result<bool> {
        self.forget_posted(calls)?;
        Ok(self.posted.is_empty())
    }

    /// The notes that have come.
    pub fn receive(&mut self, calls: &Calls<H>) -> Result<Vec<(usize, Note)>> {
        let mut notes = Vec::new();
        for awaited in &mut self.awaited {
            while !awaited.over && has_ended(calls, &mut awaited.request)? {
                if awaited.note[0] == GOODBYE {
                    awaited.over = true;
                    break;
                }
                let mut note = [0; NOTE_BYTES];
                note.copy_from_slice(&awaited.note[1..]);
                notes.push((awaited.from, note));
                (awaited.note, awaited.request) = next(calls, awaited.from)?;
            }
        }
        Ok(notes)
    }

    fn send(&mut self, calls: &Calls<H>, kind: u8, to: usize, note: &Note) -> Result<()> {
        let mut envelope: Envelope = vec![kind; NOTE_BYTES + 1];
        envelope[1..].copy_from_slice(note);
        // SAFETY: `posted` keeps the envelope until the request has ended.
        let request = unsafe { calls.send(&envelope, to, TAG) }?;
        self.posted.push((to, envelope, request));
        Ok(())
    }

    fn forget_posted(&mut self, calls: &Calls<H>) -> Result<()> {
        // Notes are removed one by one, so that none is lost when a call fails.
        let mut index = 0;
        while index < self.posted.len() {
            if has_ended(calls, &mut self.posted[index].2)? {
                self.posted.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }
}

/// Awaits a note.
fn next<H: Handle>(calls: &Calls<H>, from: usize) -> Result<(Envelope, H)> {
    let mut note: Envelope = vec![0; NOTE_BYTES + 1];
    // SAFETY: the caller keeps the envelope with the request, and looks at it when that has ended.
    let request = unsafe { calls.receive(&mut note, from, TAG) }?;
    Ok((note, request))
}

fn has_ended<H: Handle>(calls: &Calls<H>, request: &mut H) -> Result<bool> {
    // SAFETY: requests here are those that the library has made, and overwritten when they ended.
    unsafe { calls.have_ended(std::slice::from_mut(request)) }
}

impl<H> Drop for Notes<H> {
    /// Leaks memory that the library may still read or write.
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.awaited));
        mem::forget(mem::take(&mut self.posted));
    }
}
