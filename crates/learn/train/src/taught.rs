//! The teacher's side of passes whose loss has the exact reverse KL: its final hidden states in the
//! places of their targets. They are computed before a pass's tape, behind the teacher's own
//! prompts, and stay with the tape. The head computes the teacher's logits from them.

use crate::error::Result;
use crate::layer_weights::go_forward;
use crate::passes::{Pass, micro_batches};
use crate::ranks::TrainingRanks;
use crate::weight_slice::WeightSlice;
use isentrope_budget::PassLimits;
use isentrope_kernels::{Buffer, Role};
use isentrope_model::{ForwardPass, Model, Packed, Sequence, units};

/// The teacher of an update.
#[derive(Clone, Copy)]
pub struct UpdateTeacher<'a> {
    /// The teacher; none if it is the model in training, as it is before the update.
    pub model: Option<&'a Model>,
    /// Each sequence of the update as the teacher is shown it, with its targets, `[sequences]`.
    pub sequences: &'a [Sequence<'a>],
}

impl UpdateTeacher<'_> {
    /// Gives each of these passes the teacher's hidden states. `model` is the one in training,
    /// whose weights are in `slice` if it has none. All ranks come together.
    pub(crate) fn teach<'p, 'a: 'p>(
        self,
        model: &Model,
        slice: Option<&WeightSlice>,
        ranks: &TrainingRanks,
        limits: &PassLimits,
        passes: impl Iterator<Item = &'p mut Pass<'a>>,
    ) -> Result<()> {
        let (teacher, slice) = self.model.map_or((model, slice), |teacher| (teacher, None));
        // Behind longer prompts than the policy's, a pass may be several of the teacher.
        let (mut batches, mut taught) = (Vec::new(), Vec::new());
        for pass in passes {
            let mut rest = &self.sequences[pass.places.clone()];
            let cut = micro_batches(&units(rest), limits.micro_batch_tokens);
            taught.push((pass, cut.len()));
            for unit in cut {
                let (batch, others) = rest.split_at(unit.sequences);
                rest = others;
                batches.push((Packed::new(batch), None));
            }
        }
        let end = |model: &Model, pass: ForwardPass, packed: Packed| {
            (model.end_hidden(pass, &packed), packed.target_count())
        };
        let batches = batches.into_iter();
        let mut parts = go_forward(teacher, slice, ranks, limits, batches, end)?.into_iter();
        for (pass, count) in taught {
            pass.hidden = Some(joined(teacher, parts.by_ref().take(count)));
        }
        Ok(())
    }
}

/// Rows of several buffers in one, each with its number of rows.
fn joined(model: &Model, parts: impl Iterator<Item = (Buffer, usize)>) -> Buffer {
    let mut parts: Vec<_> = parts.collect();
    if let [_] = parts[..] {
        return parts.remove(0).0;
    }
    let (backend, total) = (&*model.backend, parts.iter().map(|(_, count)| count).sum());
    let mut all = backend.buffer(Role::Activation(total, model.config.hidden_size));
    let mut first = 0;
    for (part, count) in parts {
        let [from, to] = [0, first].map(|start| (start..start + count as u32).collect::<Vec<_>>());
        let (from, to) = (backend.upload_index(&from), backend.upload_index(&to));
        backend.store_rows(&part, &from, &mut all, &to);
        first += count as u32;
    }
    all
}
