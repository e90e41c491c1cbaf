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

    /// Makes room for one row of each cached running sample that has a row. If there is too little
    /// room, the samples that started last are no longer cached: neighbours go through an update
    /// together, so a cached sample without its neighbours saves nothing.
    pub fn make_room(
        &mut self,
        running: &mut [Sample<'_>],
        has_row: impl Fn(usize, &Sample<'_>) -> bool,
    ) {
        let Some(activation_cache) = &mut self.0 else { return };
        let is_cached =
            |&(at, sample): &(usize, &Sample<'_>)| sample.slots.is_some() && has_row(at, sample);
        let mut rows = running.iter().enumerate().filter(is_cached).count();
        for (at, sample) in running.iter_mut().enumerate().rev() {
            if rows <= activation_cache.free_slots() {
                break;
            }
            if has_row(at, sample)
                && let Some(slots) = sample.slots.take()
            {
                slots[sample.prompt.len()..]
                    .iter()
                    .for_each(|&slot| activation_cache.release(slot));
                rows -= 1;
            }
        }
    }

    /// Frees the slots of a sequence from its token `from` on. Other sequences share the slots
    /// before it.
    pub fn release(&mut self, slots: Option<Vec<u32>>, from: usize) {
        let (Some(activation_cache), Some(slots)) = (&mut self.0, slots) else { return };
        slots.iter().skip(from).for_each(|&slot| activation_cache.release(slot));
    }

    /// Frees the slots of a sequence beyond its first tokens.
    pub fn cut(&mut self, slots: &mut Option<Vec<u32>>, len: usize) {
        let (Some(activation_cache), Some(slots)) = (&mut self.0, slots) else { return };
        slots.drain(len..).for_each(|slot| activation_cache.release(slot));
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
