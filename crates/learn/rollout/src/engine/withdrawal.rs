//! Takes unfinished responses out of the engine, so that another engine can go on with them.

use super::Engine;
use crate::engine::RequestId;
use crate::partial_response::PartialResponse;
use crate::sequence::{GroupState, Sample};

impl Engine<'_> {
    /// The responses that have not ended and can go on in another engine, with their numbers of
    /// tokens: those that are in their first turn and were not opened.
    pub fn unfinished(&self) -> impl Iterator<Item = (RequestId, usize, usize)> + '_ {
        let running = self.running.iter().filter(|sample| sample.given.is_empty());
        let running = running.map(|sample| (sample.id, sample.sample, sample.drawn.len()));
        let waiting = self.groups.iter().flat_map(|group| {
            let tokens =
                |at: usize| group.partial.get(at).map_or(0, |response| response.tokens.len());
            let is_opened =
                |at: usize| group.partial.get(at).is_some_and(|partial| !partial.given.is_empty());
            (group.started..group.samples.len())
                .filter(move |&at| !is_opened(at))
                .map(move |at| (group.id, group.samples[at], tokens(at)))
        });
        running.chain(waiting)
    }

    /// Takes a response that has not ended and is in its first turn out of the engine; none if
    /// there is no such response. No later event names it. Its pages are free again, and so are its
    /// slots of the activation cache, with the prompt's if none of the prompt's responses has
    /// started.
    pub fn withdraw(&mut self, request: RequestId, sample: usize) -> Option<PartialResponse> {
        let is_it = |running: &Sample<'_>| {
            running.id == request && running.sample == sample && running.given.is_empty()
        };
        if let Some(at) = self.running.iter().position(is_it) {
            let sample = self.leave(at);
            self.release(sample.pages, sample.reserved, sample.state_slot);
            self.activation_slots.release(sample.slots, sample.prompt.len());
            return Some(PartialResponse::new(&sample.drawn, sample.masks));
        }
        let at = self.groups.iter().position(|group| group.id == request)?;
        let group = &self.groups[at];
        let index =
            (group.started..group.samples.len()).find(|&index| group.samples[index] == sample)?;
        // Room for the first response is reserved when the prompt is admitted, for the others when
        // they start.
        let has_reserved = group.started == 0 && !matches!(group.state, GroupState::Waiting);
        let reserved = if has_reserved { self.pages_for_next(group) } else { 0 };
        let reserved_states = if has_reserved { self.states_for_next(group) } else { 0 };
        let group = &mut self.groups[at];
        group.samples.remove(index);
        let response = if index < group.partial.len() {
            group.partial.remove(index)
        } else {
            PartialResponse::default()
        };
        if group.started < group.samples.len() {
            if has_reserved {
                // The last response takes over the prompt's own pages, so the response that is now
                // the last needs less.
                let group = &self.groups[at];
                self.reserved_states -= reserved_states - self.states_for_next(group);
                self.reserved -= reserved - self.pages_for_next(group);
            }
        } else if let Some(group) = self.groups.remove(at) {
            self.release(group.pages, reserved, group.state_slot);
            self.activation_slots.release(group.slots.filter(|_| group.started == 0), 0);
        }
        Some(response)
    }
}
