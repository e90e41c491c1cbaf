//! The gradient of a loss, accumulated over micro-batches.

use crate::Result;
use crate::layout::{Id, Layout, ParameterList};
use crate::model::Model;
use crate::parameters::{Parameters, ROWS_PER_CALL, set_rows};
use crate::router_use::RouterUse;
use isentrope_kernels::{Backend, Buffer, DeltaWeights, Linear, Role, Routing};
use std::collections::HashMap;
use std::mem;
use std::ops::Range;

/// A gradient that is being accumulated. Every number is one chain of sums over the tokens, in
/// order, wherever micro-batches end.
pub struct Gradient {
    /// The gradient of each trained parameter.
    parameters: Parameters,
    /// Parameters that are zero outside their tensors: their gradients are multiplied by these
    /// masks, which have ones where the tensors are, and zeros elsewhere.
    masks: Vec<(Id, Buffer)>,
    /// The rows of the embedding; none if the model's own parameters are frozen.
    embedding: Option<EmbeddingRows>,
    router_use: RouterUse,
}

/// The embedding's gradient, for the tokens that occurred. With tied weights the same matrix has a
/// gradient from the head as well; two chains added at the end do not depend on micro-batches, as
/// one chain alternating would.
struct EmbeddingRows {
    slots: HashMap<u32, u32>,
    tokens: Vec<u32>,
    /// `[capacity, hidden]`; rows in use are the first `tokens.len()`, and the others are zero.
    rows: Buffer,
    capacity: usize,
}

impl Gradient {
    /// A gradient of zero.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn zeros(model: &Model) -> Result<Self> {
        let mut gradient = Self::without_memory(model)?;
        let (backend, trained) = (&*model.backend, model.layout.trained());
        gradient.parameters.allocate(backend, trained, Role::Gradient, 0..trained.len())?;
        Ok(gradient)
    }

    /// A gradient whose parameters have no memory. They must have it, and be zeros, before a
    /// micro-batch adds to them.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn without_memory(model: &Model) -> Result<Self> {
        let (backend, trained) = (&*model.backend, model.layout.trained());
        let embedding = model.layout.adapter.is_none().then(|| EmbeddingRows::new(model));
        let masks = masks(backend, trained)?;
        let parameters = Parameters::without_memory(backend, trained);
        Ok(Self { parameters, masks, embedding, router_use: RouterUse::default() })
    }

    /// The use of experts by the tokens whose derivatives were not 0, since this was last asked.
    pub fn take_router_use(&mut self) -> RouterUse {
        mem::take(&mut self.router_use)
    }

    /// Counts the routes of these rows of a block's batch.
    pub(crate) fn count_routes(&mut self, block: usize, routing: &Routing, rows: &[u32]) {
        self.router_use.count(block, routing, rows);
    }

    /// Back to zero, keeping the memory and the use of experts.
    pub fn reset(&mut self, backend: &dyn Backend) {
        self.reset_part(backend, 0..self.parameters.buffers().len());
        if let Some(embedding) = &mut self.embedding {
            embedding.clear(backend);
        }
    }

    /// Sets the gradients of some parameters, whose accumulation has [ended](Self::finish_part), to
    /// zero.
    pub fn reset_part(&mut self, backend: &dyn Backend, parameters: Range<usize>) {
        let buffers = &mut self.parameters.buffers_mut()[parameters];
        buffers.iter_mut().for_each(|buffer| backend.fill(buffer, 0.0));
    }

    /// Ends the accumulation, and returns the complete gradient. Call it once, after the last
    /// micro-batch.
    pub fn finish(&mut self, model: &Model) -> &mut Parameters {
        self.finish_part(model, 0..self.parameters.buffers().len())
    }

    /// Ends the accumulation of the gradients of some parameters, which all micro-batches have
    /// added to. Call it once for each parameter.
    pub fn finish_part(&mut self, model: &Model, parameters: Range<usize>) -> &mut Parameters {
        let (b, Layout { embedding: id, shapes, .. }) = (&*model.backend, &model.layout);
        if let Some(embedding) = self.embedding.as_mut().filter(|_| parameters.contains(&id.0)) {
            let (rows, tokens) = (&embedding.rows, b.upload_index(&embedding.tokens));
            b.add_embedding_rows(shapes.vocabulary, rows, &tokens, &mut self.parameters[*id]);
            embedding.clear(b);
        }
        let masks = self.masks.iter().filter(|(id, _)| parameters.contains(&id.0));
        masks.for_each(|(id, mask)| b.multiply(mask, &mut self.parameters[*id]));
        &mut self.parameters
    }

    /// Frees the memory of the embedding's rows, if they hold nothing: the next ones take it again.
    ///
    /// # Panics
    /// When the accumulation of the embedding's gradient has not [ended](Self::finish_part).
    pub fn free_embedded(&mut self, model: &Model) {
        if let Some(embedding) = &mut self.embedding {
            assert!(embedding.tokens.is_empty(), "rows are still to be added");
            *embedding = EmbeddingRows::new(model);
        }
    }

    /// The parameters that [`finish`](Self::finish) has returned.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The gradient of one of the model's own parameters; none if they are frozen.
    pub(crate) fn of_model(&mut self, id: Id) -> Option<&mut Buffer> {
        self.embedding.is_some().then(|| &mut self.parameters[id])
    }

    /// The gradients of a delta rule's parameters; none if they are frozen.
    pub(crate) fn of_delta_rule(
        &mut self,
        ids: DeltaWeights<Id>,
    ) -> Option<DeltaWeights<&mut Buffer>> {
        self.embedding.is_some().then(|| self.parameters.of_delta_rule(ids))
    }

    /// Adds `dx: [tokens, hidden]`, the gradient of the embedded `tokens`, if the embedding is
    /// trained.
    pub(crate) fn add_embedded(
        &mut self,
        backend: &dyn Backend,
        vocabulary: Linear,
        tokens: &[u32],
        dx: &Buffer,
    ) {
        if let Some(embedding) = &mut self.embedding {
            let slots = embedding.slots_of(backend, vocabulary, tokens);
            backend.embed_backward(&backend.upload_index(&slots), dx, &mut embedding.rows);
        }
    }
}

/// The masks of parameters that are zero outside their tensors.
fn masks(backend: &dyn Backend, list: &ParameterList) -> Result<Vec<(Id, Buffer)>> {
    let mut masks = Vec::new();
    for (id, parameter) in list.masked() {
        let mut mask = backend.allocate(Role::Gradient(parameter.kind))?;
        for tensor in &parameter.tensors {
            let ones = vec![1.0; ROWS_PER_CALL * tensor.columns.len()];
            for first in (0..tensor.len).step_by(ROWS_PER_CALL) {
                let rows = ROWS_PER_CALL.min(tensor.len - first);
                let ones = &ones[..rows * tensor.columns.len()];
                set_rows(backend, &mut mask, parameter, tensor, first, ones);
            }
        }
        masks.push((id, mask));
    }
    Ok(masks)
}

/// The number of allocated rows when `used` are in use, each for a different token.
pub(crate) fn embedded_capacity(vocabulary: Linear, used: usize) -> usize {
    used.next_power_of_two().min(vocabulary.outputs)
}

impl EmbeddingRows {
    fn new(model: &Model) -> Self {
        let rows = model.backend.buffer(Role::Exact(0, model.layout.shapes.hidden));
        Self { slots: HashMap::new(), tokens: Vec::new(), rows, capacity: 0 }
    }

    fn clear(&mut self, backend: &dyn Backend) {
        if !self.tokens.is_empty() {
            backend.fill(&mut self.rows, 0.0);
        }
        self.slots.clear();
        self.tokens.clear();
    }

    fn slots_of(&mut self, backend: &dyn Backend, vocabulary: Linear, tokens: &[u32]) -> Vec<u32> {
        let hidden = vocabulary.inputs;
        let used = self.tokens.len();
        let slots = tokens
            .iter()
            .map(|&token| {
                *self.slots.entry(token).or_insert_with(|| {
                    self.tokens.push(token);
                    self.tokens.len() as u32 - 1
                })
            })
            .collect();
        if self.tokens.len() > self.capacity {
            self.capacity = embedded_capacity(vocabulary, self.tokens.len());
            let mut rows = backend.buffer(Role::Exact(self.capacity, hidden));
            backend.fill(&mut rows, 0.0);
            backend.copy_first_rows(&self.rows, &mut rows, used);
            self.rows = rows;
        }
        slots
    }
}
