//! The gradient of a loss, accumulated over micro-batches.

use crate::Result;
use crate::layout::Layout;
use crate::model::Model;
use crate::parameters::Parameters;
use isentrope_kernels::{Backend, Buffer, Linear, Role};
use std::collections::HashMap;

/// A gradient that is being accumulated. Every number is one chain of sums over the tokens, in
/// order, wherever micro-batches end.
pub struct Gradient {
    pub(crate) parameters: Parameters,
    embedding: EmbeddingRows,
}

/// The embedding's gradient, for the tokens that occurred. With tied weights the same matrix has a
/// gradient from the head as well; two chains added at the end do not depend on micro-batches, as
/// one chain alternating would.
struct EmbeddingRows {
    slots: HashMap<u32, u32>,
    tokens: Vec<u32>,
    /// `[capacity, hidden]`; rows in use are the first `tokens.len()`.
    rows: Buffer,
    capacity: usize,
}

impl Gradient {
    /// A gradient of zero.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn zeros(model: &Model) -> Result<Self> {
        let backend = &*model.backend;
        Ok(Self {
            parameters: Parameters::zeros(backend, &model.layout, Role::Gradient)?,
            embedding: EmbeddingRows {
                slots: HashMap::new(),
                tokens: Vec::new(),
                rows: backend.buffer(Role::Exact(0, model.layout.shapes.hidden)),
                capacity: 0,
            },
        })
    }

    /// Back to zero, keeping the memory.
    pub fn reset(&mut self, backend: &dyn Backend) {
        for buffer in self.parameters.buffers_mut() {
            backend.fill(buffer, 0.0);
        }
        self.embedding.clear();
    }

    /// Ends the accumulation, and returns the complete gradient. Call it once, after the last
    /// micro-batch.
    pub fn finish(&mut self, model: &Model) -> &mut Parameters {
        let Layout { embedding, shapes, .. } = &model.layout;
        let EmbeddingRows { tokens, rows, .. } = &self.embedding;
        let (b, packed) = (&*model.backend, &mut self.parameters[*embedding]);
        b.add_embedding_rows(shapes.vocabulary, rows, &b.upload_index(tokens), packed);
        self.embedding.clear();
        &mut self.parameters
    }

    /// The parameters that [`finish`](Self::finish) has returned.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// Adds `dx: [tokens, hidden]`, the gradient of the embedded `tokens`.
    pub(crate) fn add_embedded(
        &mut self,
        backend: &dyn Backend,
        vocabulary: Linear,
        tokens: &[u32],
        dx: &Buffer,
    ) {
        let slots = self.embedding.slots_of(backend, vocabulary, tokens);
        backend.embed_backward(&backend.upload_index(&slots), dx, &mut self.embedding.rows);
    }
}

/// The number of allocated rows when `used` are in use, each for a different token.
pub(crate) fn embedded_capacity(vocabulary: Linear, used: usize) -> usize {
    used.next_power_of_two().min(vocabulary.outputs)
}

impl EmbeddingRows {
    fn clear(&mut self) {
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
            backend.copy_first_rows(&self.rows, &mut rows, used);
            self.rows = rows;
        }
        let new = vec![0.0; (self.tokens.len() - used) * hidden];
        backend.write(&mut self.rows, used, &new);
        slots
    }
}
