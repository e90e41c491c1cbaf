//! Decides which rows of a step are cached, and which samples lose their slots when the activation
//! cache is full.

use crate::sequence::Sample;
use isentrope_model::{ActivationCache, Step};

/// Hands out the slots of an activation cache, if there is one.
pub(crate) struct ActivationSlots<'a>(pub Option<&'a mut ActivationCache>);

impl ActivationSlots<'_> {
    /// The slots of a sequence that has not been fed yet.
    pub fn slots(&self, cache_activations: bool) -> Option<Vec<u32>> {
        (cache_activations && self.0.is_some()).then(Vec::new)
    }

    /// Makes room for the rows of cached running samples; `rows` has the number of each sample's,
    /// `[running]`. If there is too little room, the samples that started last are no longer
    /// cached: neighbours go through an update together, so a cached sample without its neighbours
    /// saves nothing.
    pub fn make_room(&mut self, running: &mut [Sample<'_>], rows: &[usize]) {
        let Some(activation_cache) = &mut self.0 else { return };
        let cached = running.iter().zip(rows).filter(|(sample, _)| sample.slots.is_some());
        let mut needed: usize = cached.map(|(_, rows)| rows).sum();
        for (sample, &rows) in running.iter_mut().zip(rows).rev() {
            if needed <= activation_cache.free_slots() {
                break;
            }
            if rows > 0
                && let Some(slots) = sample.slots.take()
            {
                slots[sample.prompt.len()..]
                    .iter()
                    .for_each(|&slot| activation_cache.release(slot));
                needed -= rows;
            }
        }
    }

    /// Frees the slots of a sequence from its token `from` on. Other sequences share the slots
    /// before it.
    pub fn release(&mut self, slots: Option<Vec<u32>>, from: usize) {
        let (Some(activation_cache), Some(slots)) = (&mut self.0, slots) else { return };
        slots.iter().skip(from).for_each(|&slot| activation_cache.release(slot));
    }

    /// Caches the activations of the step's last run, if there is room for all its rows, and
    /// appends their slots to the sequence's `slots`. Otherwise the sequence, a prompt, is no
    /// longer cached.
    pub fn cache(&mut self, step: &mut Step, slots: &mut Option<Vec<u32>>) {
        let (Some(activation_cache), Some(own)) = (&mut self.0, &mut *slots) else {
            return;
        };
        let (before, rows) = (own.len(), step.last_rows().len());
        if rows <= activation_cache.free_slots() {
            own.extend((0..rows).filter_map(|_| activation_cache.take()));
            step.cache_activations(&own[before..]);
        } else {
            own.iter().for_each(|&slot| activation_cache.release(slot));
            *slots = None;
        }
    }
}
