//! Collects a file's numbers into series, by name and step, in the order in which they were
//! written.

use super::Series;
use std::collections::{BTreeMap, BTreeSet};

/// Most numbers of one log.
const MAX_NUMBERS: usize = 20_000_000;
/// Most names of one log.
const MAX_NAMES: usize = 20_000;
/// Most restarts of one log that drop numbers. Each restart visits all names.
const MAX_RESTARTS: usize = 10_000;
/// Longest name, in bytes.
const MAX_NAME: usize = 1000;

/// Latest step. Beyond it, not every whole number is a float.
pub(crate) const MAX_STEP: u64 = 9_000_000_000_000_000;

/// The numbers of a log so far.
#[derive(Default)]
pub(super) struct Points {
    tracks: BTreeMap<String, Track>,
    numbers: usize,
    /// The largest step of any name; none before the first number.
    latest: Option<u64>,
    /// The step of the last number, and the count of numbers before that step's first.
    current: Option<(u64, usize)>,
    restarts: usize,
    /// Whether rows may come in any order, as in a table. If not, they come in the order of the
    /// run.
    is_table: bool,
    /// Steps that came a second time with another value.
    again: BTreeSet<u64>,
    /// Numbers of later steps that a restart has made void.
    lost: usize,
}

#[derive(Default)]
struct Track {
    /// The metric's place among all names, in the order of first appearance.
    place: usize,
    /// The count of numbers in the log before this metric's last one.
    written: usize,
    values: BTreeMap<u64, f64>,
}

impl Points {
    /// For rows in any order.
    pub(super) fn of_table() -> Self {
        Self { is_table: true, ..Self::default() }
    }

    /// Adds a number. If a step comes again, the later number holds, unless only that one is not
    /// finite. If the name had already gone on to later steps, the run restarted and made the step
    /// again: then all names lose their numbers from that step on, since that work was lost.
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
            let track = Track { place: self.tracks.len(), written: 0, values: BTreeMap::new() };
            self.tracks.insert(name.to_owned(), track);
        }
        if self.numbers == MAX_NUMBERS {
            return Err(format!("more than {MAX_NUMBERS} numbers"));
        }
        if self.current.is_none_or(|(current, _)| current != step) {
            self.current = Some((step, self.numbers));
        }
        let is_again = |track: &Track| track.values.contains_key(&step);
        let has_gone_on =
            |track: &Track| track.values.last_key_value().is_some_and(|(last, _)| *last > step);
        if !self.is_table
            && self.tracks.get(name).is_some_and(|track| is_again(track) && has_gone_on(track))
        {
            self.restart_at(step)?;
        }
        let Some(track) = self.tracks.get_mut(name) else { return Ok(()) }; // it is there now
        track.written = self.numbers;
        self.numbers += 1;
        self.latest = self.latest.max(Some(step));
        let before = track.values.get(&step).copied();
        if value.is_finite() || before.is_none_or(|before| !before.is_finite()) {
            track.values.insert(step, value);
            if before.is_some_and(|before| before.to_bits() != value.to_bits()) {
                self.again.insert(step);
            }
        }
        Ok(())
    }

    /// Drops all numbers from a step on, except those that the restarted run wrote of this step
    /// before the name that shows the restart.
    fn restart_at(&mut self, step: u64) -> Result<(), String> {
        self.count_restart()?;
        let began = self.current.map_or(self.numbers, |(_, began)| began);
        for track in self.tracks.values_mut() {
            let new = track.values.get(&step).copied().filter(|_| track.written >= began);
            let lost = track.values.split_off(&step);
            self.lost += lost.keys().filter(|lost| **lost > step).count();
            track.values.extend(new.map(|value| (step, value)));
        }
        self.again.insert(step);
        self.latest = Some(step);
        Ok(())
    }

    fn count_restart(&mut self) -> Result<(), String> {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            return Err(format!("more than {MAX_RESTARTS} restarts before steps that were made"));
        }
        Ok(())
    }

    /// Drops all numbers from a step on.
    ///
    /// # Errors
    /// When that has been so more often than any run is started again.
    pub(super) fn forget_from(&mut self, step: u64) -> Result<(), String> {
        if self.latest < Some(step) {
            return Ok(());
        }
        self.count_restart()?;
        self.tracks.values_mut().for_each(|track| drop(track.values.split_off(&step)));
        self.latest = step.checked_sub(1);
        Ok(())
    }

    /// Whether all numbers are of one step, and a name came more than twice.
    pub(super) fn repeat_one_step(&self) -> bool {
        let mut steps = self.tracks.values().flat_map(|track| track.values.keys());
        let first = steps.next();
        first.is_some()
            && steps.all(|step| Some(step) == first)
            && self.numbers > 2 * self.tracks.len()
    }

    /// The series in the order of their first numbers, and notes: on names that were never finite,
    /// which are left out, and on steps that came again.
    pub(super) fn finish(self) -> (Vec<(String, Series)>, Vec<String>) {
        let mut notes = Vec::from_iter(self.said_of_steps());
        let mut tracks: Vec<(String, Track)> = self.tracks.into_iter().collect();
        tracks.sort_by_key(|(_, track)| track.place);
        let series = |values: &BTreeMap<u64, f64>| {
            let mut series = Series::default();
            values.iter().for_each(|(step, value)| series.push(*step, *value));
            series
        };
        let (mut all, mut never) = (Vec::new(), Vec::new());
        for (name, track) in tracks {
            let series = series(&track.values);
            match () {
                () if !series.steps.is_empty() => all.push((name, series)),
                () if !track.values.is_empty() => never.push(name),
                () => {}
            }
        }
        if let [first, ..] = &never[..] {
            let (count, verb) =
                (never.len(), if never.len() == 1 { "metric was" } else { "metrics were" });
            notes.push(format!(
                "{count} {verb} never finite, such as {first}: nothing can be said of that"
            ));
        }
        (all, notes)
    }

    fn said_of_steps(&self) -> Option<String> {
        let (first, last) = (self.again.first()?, self.again.last()?);
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
}
