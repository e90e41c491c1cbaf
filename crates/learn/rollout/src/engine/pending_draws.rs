//! Draws that the device makes while the host prepares the next step.
//!
//! The device feeds that step with tokens that the host has not read. A response that turns out to
//! have ended with its token has a row too many there, which is dropped; a response that ends by
//! its length is known to, and has none. Its pages and slots may be handed out as soon as the draw
//! is read: whatever uses them comes later in the device's stream.

use super::drawing::{DueRow, rows};
use super::{Engine, Event};
use crate::Result;
use isentrope_kernels::{Buffer, DrawnTokens, QueuedDraws};
use isentrope_trace::span;
use std::mem;
use std::sync::Arc;

/// Draws that the device makes, whose tokens the host has not read.
pub(super) struct PendingDraws {
    /// The tokens, until a step has been fed with them.
    tokens: Option<DrawnTokens>,
    drawing: QueuedDraws,
    /// The index in `running` of each draw's sample; none if the sample has left since.
    samples: Vec<Option<usize>>,
}

impl PendingDraws {
    /// The tokens, for the next step to be fed with.
    pub fn take_tokens(&mut self) -> Option<DrawnTokens> {
        self.tokens.take()
    }

    /// The draw of each of `running` samples, if it has one.
    pub fn draws(&self, running: usize) -> Vec<Option<usize>> {
        let mut draws = vec![None; running];
        for (draw, sample) in self.samples.iter().enumerate() {
            if let Some(sample) = sample {
                draws[*sample] = Some(draw);
            }
        }
        draws
    }

    /// Notes that a sample leaves `running`, so that later indices move up.
    pub fn leaves(&mut self, left: usize) {
        for sample in &mut self.samples {
            *sample = sample.filter(|&at| at != left).map(|at| if at > left { at - 1 } else { at });
        }
    }
}

/// Rows of hidden states, and the draws due from them.
pub(super) type Drawable<H> = Option<(H, Vec<DueRow>)>;

impl Engine<'_> {
    /// Whether the next step's draws may stay unread until the step after it has been launched,
    /// because the device can make all of them.
    pub(super) fn may_draw_behind(&self) -> bool {
        let running = self.running.iter().map(|sample| &sample.sampling);
        let waiting = self.groups.iter().map(|group| &group.sampling);
        self.draws_behind
            && running.chain(waiting).all(|sampling| !sampling.adjustments().departs())
    }

    /// Begins the draws that are due after a step and for samples resumed before it, then reads the
    /// draws of the step before.
    pub(super) fn draw_behind(
        &mut self,
        of_step: Drawable<Arc<Buffer>>,
        resumed: Drawable<Buffer>,
    ) -> Result<Vec<Event>> {
        let begun = match (of_step, resumed) {
            (None, None) => None,
            (Some((hidden, due)), None) => self.begin_draw(&hidden, due),
            (None, Some((hidden, due))) => self.begin_draw(&hidden, due),
            (Some((hidden, mut due)), Some((resumed, more))) => {
                let (first, second) = (rows(&due), rows(&more));
                let both = self.both(&hidden, first, &resumed, second);
                due.extend(more.into_iter().map(|due| DueRow { row: first + due.row, ..due }));
                self.begin_draw(&both, due)
            }
        };
        let before = mem::replace(&mut self.pending, begun);
        self.read(before)
    }

    /// The first rows of two buffers of hidden states in one.
    fn both(&self, a: &Buffer, rows_of_a: usize, b: &Buffer, rows_of_b: usize) -> Buffer {
        let backend = &*self.model.backend;
        let mut both = self.model.hidden(rows_of_a + rows_of_b);
        let numbers = |from: usize, count: usize| {
            backend.upload_index(&(from as u32..).take(count).collect::<Vec<u32>>())
        };
        backend.store_rows(a, &numbers(0, rows_of_a), &mut both, &numbers(0, rows_of_a));
        backend.store_rows(b, &numbers(0, rows_of_b), &mut both, &numbers(rows_of_a, rows_of_b));
        both
    }

    /// Begins draws from rows of hidden states.
    fn begin_draw(&self, hidden: &Buffer, due: Vec<DueRow>) -> Option<PendingDraws> {
        let (draws, samples) = self.draws(due);
        if draws.is_empty() {
            return None;
        }
        let _drawing = span("draw").with("responses", draws.len());
        let (tokens, drawing) = self.model.begin_draw(hidden, &draws);
        Some(PendingDraws {
            tokens: Some(tokens),
            drawing,
            samples: samples.into_iter().map(Some).collect(),
        })
    }

    /// Reads draws that have been begun, appends their tokens, and retires what has ended.
    pub(super) fn read(&mut self, pending: Option<PendingDraws>) -> Result<Vec<Event>> {
        let Some(PendingDraws { drawing, samples, .. }) = pending else { return Ok(Vec::new()) };
        let reading = span("read draws").with("responses", samples.len());
        let drawn = self.model.drawn(drawing);
        drop(reading);
        self.append(
            samples.into_iter().zip(drawn).filter_map(|(sample, drawn)| Some((sample?, drawn))),
        )
    }
}
