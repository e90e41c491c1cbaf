//! What a rank is doing, and the sign of life that says so to others.

use crate::engine::{NOTE_BYTES, Note};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a rank is doing, as it reports it.
pub(crate) struct Activity(Mutex<Doing>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Doing {
    what: String,
    done: u64,
    of: u64,
    waits: bool,
    since: Instant,
}

/// The rank waits for others while this lives.
pub(crate) struct Waiting<'a>(&'a Activity);

impl Activity {
    pub fn new() -> Self {
        let doing = Doing { what: "starting".into(), done: 0, of: 0, waits: false, since: Instant::now() };
        Self(Mutex::new(doing))
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn report(&self, what: &str, done: u64, of: u64) {
        let mut doing = self.doing();
        what.clone_into(&mut doing.what);
        (doing.done, doing.of, doing.since) = (done, of, Instant::now());
    }

    pub fn wait(&self) -> Waiting<'_> {
        self.doing().waits = true;
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut doing = self.0.doing();
        (doing.waits, doing.since) = (false, Instant::now());
    }
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    what: String,
    done: u64,
    of: u64,
    /// Whether it waits for others.
    pub waits: bool,
    /// Since it last reported progress.
    pub quiet: Duration,
}

const TEXT: usize = NOTE_BYTES - 26;

impl Beat {
    pub fn of(activity: &Activity) -> Self {
        let Doing { what, done, of, waits, since } = activity.doing().clone();
        Self { what, done, of, waits, quiet: since.elapsed() }
    }

    pub fn encode(&self) -> Note {
        let mut note = [0; NOTE_BYTES];
        let end = (0..=self.what.len().min(TEXT)).rev().find(|&end| self.what.is_char_boundary(end));
        let text = &self.what.as_bytes()[..end.unwrap_or(0)];
        note[0] = u8::from(self.waits);
        note[1] = text.len() as u8;
        note[2..10].copy_from_slice(&self.done.to_le_bytes());
        note[10..18].copy_from_slice(&self.of.to_le_bytes());
        note[18..26].copy_from_slice(&(self.quiet.as_millis() as u64).to_le_bytes());
        note[26..26 + text.len()].copy_from_slice(text);
        note
    }

    pub fn decode(note: &Note) -> Self {
        let number = |at: usize| note[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let text = &note[26..][..usize::from(note[1]).min(TEXT)];
        Self {
            what: String::from_utf8_lossy(text).into_owned(),
            done: number(2),
            of: number(10),
            waits: note[0] != 0,
            quiet: Duration::from_millis(number(18)),
        }
    }

    /// `sampling, 41 of 64 done`.
    pub fn told(&self) -> String {
        let waits = if self.waits { ", waiting for others" } else { "" };
        if self.of == 0 {
            return format!("{}{waits}", self.what);
        }
        format!("{}, {} of {} done{waits}", self.what, self.done, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_beat_arrives_as_it_was() {
        let activity = Activity::new();
        activity.report(&"sämpling ".repeat(30), 41, 64);
        let waiting = activity.wait();
        let beat = Beat::of(&activity);
        let arrived = Beat::decode(&beat.encode());
        assert!(arrived.waits && beat.what.starts_with(&arrived.what) && arrived.what.len() > TEXT - 3);
        assert_eq!((arrived.done, arrived.of), (41, 64));
        drop(waiting);
        assert!(!Beat::decode(&Beat::of(&activity).encode()).waits);
    }

    proptest! {
        #[test]
        fn any_note_can_be_read(note in prop::collection::vec(any::<u8>(), NOTE_BYTES)) {
            let beat = Beat::decode(note.as_slice().try_into().unwrap());
            prop_assert!(beat.told().len() < 4 * NOTE_BYTES);
        }
    }
}
