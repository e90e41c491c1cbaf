//! Which rows of a step are recorded, and who gives way when a recording is full.

use crate::sequence::Sample;
use isentrope_kernels::Backend;
use isentrope_model::{Recording, Step};

/// Hands out the slots of a recording, if there is one.
pub(crate) struct Recorder<'a, B: Backend>(pub Option<&'a mut Recording<B>>);

impl<B: Backend> Recorder<'_, B> {
    /// The slots of a sequence that has not been fed yet.
    pub fn slots(&self, record: bool) -> Option<Vec<u32>> {
        (record && self.0.is_some()).then(Vec::new)
    }

    /// Makes room for one row of each running sample that is recorded. Where there is too little, the last to have started
    /// are recorded no more: neighbours go through an update together, and what is recorded of one alone is of no use.
    pub fn make_room(&mut self, running: &mut [Sample<'_>]) {
        let Some(recording) = &mut self.0 else { return };
        let mut rows = running.iter().filter(|sample| sample.slots.is_some()).count();
        for sample in running.iter_mut().rev() {
            if rows <= recording.free_slots() {
                break;
            }
            if let Some(slots) = sample.slots.take() {
                slots[sample.prompt.len()..].iter().for_each(|&slot| recording.release(slot));
                rows -= 1;
            }
        }
    }

    /// Has the rows of the step's last run recorded, after those of the same sequence in `slots`, if there is room for all
    /// of them; else the sequence, a prompt, is recorded no more.
    pub fn record(&mut self, step: &mut Step, slots: &mut Option<Vec<u32>>) {
        let (Some(recording), Some(own)) = (&mut self.0, &mut *slots) else {
            return;
        };
        let (before, rows) = (own.len(), step.last_rows().len());
        if rows <= recording.free_slots() {
            own.extend((0..rows).filter_map(|_| recording.take()));
            step.record(&own[before..]);
        } else {
            own.iter().for_each(|&slot| recording.release(slot));
            *slots = None;
        }
    }
}
