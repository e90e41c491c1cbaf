//! Numbers on their way from a file to series: taken in by name and step, in the order in which they were written.

use super::Series;
use std::collections::{BTreeMap, BTreeSet};

/// Most numbers of one log.
const MAX_NUMBERS: usize = 20_000_000;
/// Most names of one log.
const MAX_NAMES: usize = 20_000;
/// Most restarts of one log that make void what was written: each looks at all names.
const MAX_RESTARTS: usize = 10_000;
/// Longest name, in bytes.
const MAX_NAME: usize = 1000;

/// Latest step: from there on, not every whole number is a float.
pub(crate) const MAX_STEP: u64 = 9_000_000_000_000_000;

/// What a log says so far.
#[derive(Default)]
pub(super) struct Points {
    tracks: BTreeMap<String, Track>,
    numbers: usize,
    /// No name has a step behind this one; none before the first number.
    latest: Option<u64>,
    restarts: usize,
    /// Whether rows come in any order, as those of a table may, and not as a run has written them.
    is_table: bool,
    /// Steps that came a second time and said something else.
    again: BTreeSet<u64>,
    /// Numbers of later steps that a restart has made void.
    lost: usize,
}

#[derive(Default)]
struct Track {
    /// Its place among all names, in the order in which they first came.
    place: usize,
    values: BTreeMap<u64, f64>,
}

impl Points {
    /// For rows in any order.
    pub(super) fn of_table() -> Self {
        Self { is_table: true, ..Self::default() }
    }

    /// Takes in a number. Of a step that comes again the later number holds. Where a run writes, the step was made again after
    /// a restart, and what the name has of the steps behind it is of work that was lost.
    ///
    /// # Errors
    /// When a log has more numbers, names, letters or steps than any log has.
    pub(super) fn add(&mut self, name: &str, step: u64, value: f64) -> Result<(), String> {
        if step > MAX_STEP {
            return Err(format!("step {step} is after {MAX_STEP}, the latest that is read"));
        }
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
        self.latest = self.latest.max(Some(step));
        if let Some(before) = track.values.insert(step, value) {
            let lost = if self.is_table { 0 } else { track.values.split_off(&(step + 1)).len() };
            self.lost += lost;
            let same = before.to_bits() == value.to_bits();
            if !same || lost > 0 {
                self.again.insert(step);
            }
        }
        Ok(())
    }

    /// Forgets what all names have from a step on.
    ///
    /// # Errors
    /// When that has been so more often than any run is started again.
    pub(super) fn forget_from(&mut self, step: u64) -> Result<(), String> {
        if self.latest < Some(step) {
            return Ok(());
        }
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            return Err(format!("more than {MAX_RESTARTS} restarts before steps that were made"));
        }
        self.tracks.values_mut().for_each(|track| drop(track.values.split_off(&step)));
        self.latest = step.checked_sub(1);
        Ok(())
    }

    /// Whether all is of one step, which came for a name more than twice.
    pub(super) fn repeat_one_step(&self) -> bool {
        let mut steps = self.tracks.values().flat_map(|track| track.values.keys());
        let first = steps.next();
        first.is_some() && steps.all(|step| Some(step) == first) && self.numbers > 2 * self.tracks.len()
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
                let restart = if self.is_table { "" } else { ", as after a restart" };
                let lost = match self.lost {
                    0 => String::new(),
                    1 => ", and 1 number of a later step, written before, is dropped".into(),
                    lost => format!(", and {lost} numbers of later steps, written before, are dropped"),
                };
                Some(format!("{steps} there more than once{restart}: what was written last is taken{lost}"))
            }
            _ => None,
        };
        (all.filter(|(_, series)| !series.steps.is_empty()).collect(), note)
    }
}
