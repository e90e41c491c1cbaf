//! A rank's activity, and the heartbeat that reports it to others.

use crate::engine::{NOTE_BYTES, Note};
use crate::text::beginning;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rank's activity, as its heartbeat reports it to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    what: String,
    done: u64,
    of: u64,
    /// The number of the exchange in which the rank waits for others.
    pub waits: Option<u64>,
    /// The number of the exchange to which rank 0 calls all ranks, because one waits there.
    pub calls: Option<u64>,
}

pub(crate) struct Activity(Mutex<Beat>);

/// Marks the rank as waiting for others until it is dropped.
pub(crate) struct WaitGuard<'a>(&'a Activity);

impl Activity {
    pub fn new() -> Self {
        let (what, waits, calls) = ("starting".into(), None, None);
        Self(Mutex::new(Beat { what, done: 0, of: 0, waits, calls }))
    }

    fn beat(&self) -> MutexGuard<'_, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn report(&self, what: &str, done: u64, of: u64) {
        let mut beat = self.beat();
        what.clone_into(&mut beat.what);
        (beat.done, beat.of) = (done, of);
    }

    /// Marks this rank as waiting for others in exchange `number`, until the guard is dropped.
    pub fn wait(&self, number: u64) -> WaitGuard<'_> {
        self.beat().waits = Some(number);
        WaitGuard(self)
    }

    /// Sets the exchange to which rank 0 calls all ranks; none ends the call.
    pub fn call(&self, number: Option<u64>) {
        self.beat().calls = number;
    }

    /// The number of the exchange to which rank 0 calls all.
    pub fn called(&self) -> Option<u64> {
        self.beat().calls
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.beat().waits = None;
    }
}

/// Bytes before the text.
const FIXED: usize = 34;
const TEXT: usize = NOTE_BYTES - FIXED;

impl Beat {
    pub fn of(activity: &Activity) -> Self {
        activity.beat().clone()
    }

    pub fn encode(&self) -> Note {
        let mut note = [0; NOTE_BYTES];
        let text = beginning(&self.what, TEXT).as_bytes();
        note[0] = u8::from(self.waits.is_some()) | u8::from(self.calls.is_some()) << 1;
        note[1] = text.len() as u8;
        note[2..10].copy_from_slice(&self.done.to_le_bytes());
        note[10..18].copy_from_slice(&self.of.to_le_bytes());
        note[18..26].copy_from_slice(&self.waits.unwrap_or(0).to_le_bytes());
        note[26..FIXED].copy_from_slice(&self.calls.unwrap_or(0).to_le_bytes());
        note[FIXED..FIXED + text.len()].copy_from_slice(text);
        note
    }

    pub fn decode(note: &Note) -> Self {
        let number =
            |at: usize| note[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
        let text = &note[FIXED..][..usize::from(note[1]).min(TEXT)];
        Self {
            what: String::from_utf8_lossy(text).into_owned(),
            done: number(2),
            of: number(10),
            waits: (note[0] & 1 != 0).then(|| number(18)),
            calls: (note[0] & 2 != 0).then(|| number(26)),
        }
    }

    /// `sampling, 41 of 64 done`.
    pub fn describe(&self) -> String {
        let waits = if self.waits.is_some() { ", waiting for others" } else { "" };
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
        let waiting = activity.wait(12);
        activity.call(Some(1 << 40));
        let beat = Beat::of(&activity);
        let arrived = Beat::decode(&beat.encode());
        assert!(beat.what.starts_with(&arrived.what) && arrived.what.len() > TEXT - 3);
        assert_eq!((arrived.waits, arrived.calls), (Some(12), Some(1 << 40)));
        assert_eq!((arrived.done, arrived.of), (41, 64));
        drop(waiting);
        activity.call(None);
        let arrived = Beat::decode(&Beat::of(&activity).encode());
        assert_eq!((arrived.waits, arrived.calls, activity.called()), (None, None, None));
    }

    proptest! {
        #[test]
        fn any_note_can_be_read(note in prop::collection::vec(any::<u8>(), NOTE_BYTES)) {
            let beat = Beat::decode(note.as_slice().try_into().unwrap());
            prop_assert!(beat.describe().len() < 4 * NOTE_BYTES);
        }
    }
}
