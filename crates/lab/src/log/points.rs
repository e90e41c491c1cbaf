//! Numbers on their way from a file to series: taken in by name and step, in the order in which they were written.

use super::Series;
use std::collections::{BTreeMap, BTreeSet};

/// Most numbers of one log.
const MAX_NUMBERS: usize = 20_000_000;
/// Most names of one log.
const MAX_NAMES: usize = 20_000;
/// Longest name, in bytes.
const MAX_NAME: usize = 1000;

/// What a log says so far.
#[derive(Default)]
pub(super) struct Points {
    tracks: BTreeMap<String, Track>,
    numbers: usize,
    /// Steps that came a second time and said something else.
    again: BTreeSet<u64>,
}

#[derive(Default)]
struct Track {
    /// Its place among all names, in the order in which they first came.
    place: usize,
    values: BTreeMap<u64, f64>,
}

impl Points {
    /// Takes in a number. A step that comes again was made again after a restart: its later number holds, and what the name
    /// has of the steps behind it is of work that was lost.
    ///
    /// # Errors
    /// When a log has more numbers, names or letters than any log has.
    pub(super) fn add(&mut self, name: &str, step: u64, value: f64) -> Result<(), String> {
        if !self.tracks.contains_key(name) {
            if self.tracks.len() == MAX_NAMES {
                return Err(format!("more than {MAX_NAMES} names of metrics"));
            }
            if name.len() > MAX_NAME {
                return Err(format!("a name of more than {MAX_NAME} bytes"));
            }
            let track = Track { place: self.tracks.len(), values: BTreeMap::new() };
            self.tracks.insert(name.to_owned(), track);
        }
        let Some(track) = self.tracks.get_mut(name) else { return Ok(()) }; // it is there now
        self.numbers += 1;
        if self.numbers > MAX_NUMBERS {
            return Err(format!("more than {MAX_NUMBERS} numbers"));
        }
        if let Some(before) = track.values.insert(step, value) {
            let lost = track.values.split_off(&step.saturating_add(1));
            let same = before.to_bits() == value.to_bits();
            if !same || !lost.is_empty() {
                self.again.insert(step);
            }
        }
        Ok(())
    }

    /// Forgets what all names have from a step on.
    pub(super) fn forget_from(&mut self, step: u64) {
        self.tracks.values_mut().for_each(|track| drop(track.values.split_off(&step)));
    }

    /// The series in the order in which their names first came, without those that were never finite; and what there is to
    /// say of steps that came again.
    pub(super) fn finish(self) -> (Vec<(String, Series)>, Option<String>) {
        let mut tracks: Vec<(String, Track)> = self.tracks.into_iter().collect();
        tracks.sort_by_key(|(_, track)| track.place);
        let series = |track: Track| {
            let mut series = Series::default();
            track.values.into_iter().for_each(|(step, value)| series.push(step, value));
            series
        };
        let all = tracks.into_iter().map(|(name, track)| (name, series(track)));
        let note = match (self.again.first(), self.again.last()) {
            (Some(first), Some(last)) => {
                let steps = if first == last {
                    format!("step {first} is")
                } else {
                    format!("steps {first} to {last} are")
                };
                Some(format!(
                    "{steps} there more than once, as after a restart: what was written last is taken"
                ))
            }
            _ => None,
        };
        (all.filter(|(_, series)| !series.steps.is_empty()).collect(), note)
    }
}
