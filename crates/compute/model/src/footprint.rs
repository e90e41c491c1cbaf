//! Counts the bytes of a model's buffers on a device, from the layout alone.

use crate::adapter::AdapterLayout;
use crate::gradient::embedded_capacity;
use crate::internals::Internals;
use crate::layout::{Layout, Parameter, ParameterList};
use crate::parameters::ROWS_PER_CALL;
use crate::pass::TapeKind;
use isentrope_kernels::{Backend, Kind, Linear, Role, Router, Work};
use std::ops::Range;

/// Rows of the head's work for one token: the normed row, its gradient and that of the last block's
/// output.
const HEAD_ROWS: usize = 3;
/// The residual stream, its gradient and the largest copies made on the way.
const STREAM_ROWS: usize = 4;
/// Bytes for each choice of an expert: the expert, its weight and the derivative by that; and
/// grouped by experts the row, the weight and the place.
const ROUTE_BYTES: usize = 6 * 4;
/// Bytes of the entropy of a token's choice.
const ENTROPY_BYTES: usize = 4;

impl Layout {
    /// Most bytes of the host while weights are loaded to a device with its own memory: some rows
    /// of a tensor in f32, and their upload copy.
    pub fn loading_bytes(&self) -> usize {
        let of_rows = |shape: Vec<usize>| {
            let width: usize = shape[1..].iter().product();
            shape[0].min(ROWS_PER_CALL).saturating_mul(width).saturating_mul(8)
        };
        shapes(&self.parameters).map(of_rows).max().unwrap_or(0)
    }

    /// Most bytes of the host's memory for a tensor on its way from a device with its own memory to
    /// a checkpoint.
    pub fn saving_bytes(&self) -> usize {
        let whole = |shape: Vec<usize>| shape.into_iter().fold(4, usize::saturating_mul);
        shapes(self.trained()).map(whole).max().unwrap_or(0)
    }

    /// Least bytes of weights that a pass over `tokens` reads. It reads only its tokens' rows of
    /// the embedding, unless that is the head as well; and of experts as many as tokens reach on
    /// average if each chooses evenly and for itself.
    pub fn read_bytes(&self, backend: &dyn Backend, tokens: f64) -> f64 {
        let adapter = self.adapter.iter().flat_map(|adapter| adapter.parameters.iter());
        let read = |parameter: &Parameter| backend.bytes_read(parameter.kind);
        let all: usize = self.parameters.iter().chain(adapter).map(read).sum();
        let embedding = read(&self.parameters[self.embedding.0]);
        let all = if self.head == self.embedding { all } else { all - embedding } as f64;
        let Some(Router { experts, chosen, .. }) = self.shapes.router else { return all };
        let passed_over = (1.0 - chosen as f64 / experts as f64).powf(tokens.max(1.0));
        let each = [self.shapes.gate_up, self.shapes.down]
            .map(|shape| backend.bytes_read(Kind::Matrix(shape)))
            .iter()
            .sum::<usize>();
        let adapters = self.adapter.as_ref().map_or(0, |of| of.expert_bytes(backend));
        all - passed_over * (self.blocks.len() * experts * each + adapters) as f64
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Most bytes of a gradient whose parameters have memory only while their layer is one of
    /// `blocks` blocks in a row, or is the head or the embedding, which are alone; an embedding that
    /// is the head too stays beside them.
    pub fn gradient_bytes_by_layer(&self, backend: &dyn Backend, blocks: usize) -> usize {
        let groups = self.bytes_of_groups(backend, Role::Gradient);
        let (of_blocks, head) = (&groups[1..groups.len() - 1], groups[groups.len() - 1]);
        let largest = largest_sum(of_blocks, blocks).max(head);
        if self.head_trains_embedding() {
            groups[0].saturating_add(largest)
        } else {
            groups[0].max(largest)
        }
    }

    /// Most bytes of weights that passes read if they have memory only while their layer is one of
    /// `blocks` blocks in a row, or is the head or the embedding, which are alone.
    pub fn weight_bytes_by_layer(&self, backend: &dyn Backend, blocks: usize) -> usize {
        let groups = self.bytes_of_groups(backend, Role::Frozen);
        let (of_blocks, head) = (&groups[1..groups.len() - 1], groups[groups.len() - 1]);
        let of_head = if self.head == self.embedding { groups[0] } else { 0 };
        let head = head.saturating_add(of_head);
        largest_sum(of_blocks, blocks).max(head).max(groups[0])
    }

    fn bytes_of_groups(&self, backend: &dyn Backend, role: fn(Kind) -> Role) -> Vec<usize> {
        let list = self.trained();
        let bytes = |parameter: &Parameter| backend.bytes(role(parameter.kind));
        let of_group =
            |group: Range<usize>| list[group].iter().map(bytes).fold(0, usize::saturating_add);
        list.groups().into_iter().map(of_group).collect()
    }

    /// Whether blocks have experts.
    pub fn has_experts(&self) -> bool {
        self.shapes.router.is_some()
    }

    /// Whether the head adds to the gradient of the embedding, because the two are one matrix that
    /// is trained.
    pub fn head_trains_embedding(&self) -> bool {
        self.head == self.embedding && self.adapter.is_none()
    }

    /// Bytes that the [tape](crate::Tape) of a forward pass keeps for one token.
    pub fn tape_bytes_per_token(&self, backend: &dyn Backend, keep: TapeKind) -> usize {
        self.activation_bytes_per_token(backend, keep) + backend.workspace(Work::Statistics(1))
    }

    /// Bytes of one slot of an [activation cache](crate::ActivationCache).
    pub fn activation_bytes_per_slot(&self, backend: &dyn Backend) -> usize {
        self.activation_bytes_per_token(backend, TapeKind::Activations)
    }

    /// Bytes of the host's memory for the inputs of all blocks, of a pass over
    /// `tokens`, if a tape [offloads](TapeKind::OffloadedBlockInputs) them.
    pub fn offloaded_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        let input = TapeKind::OffloadedBlockInputs.input_role(tokens, self.shapes.hidden);
        backend.host_bytes(input).saturating_mul(self.blocks.len())
    }

    /// Bytes of a block's input while it is computed again from an offloaded one.
    pub fn input_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        backend.bytes(Role::Activation(tokens, self.shapes.hidden))
    }

    /// Most bytes that a forward and a backward pass over `tokens` take besides the tape.
    pub fn working_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        let per_token = self.working_bytes_per_token(backend);
        per_token.saturating_mul(tokens).saturating_add(self.head_bytes(backend, tokens))
    }

    /// The head's part of [`working_bytes`](Self::working_bytes): its logits. It is not
    /// proportional to the tokens, because the head works on some at a time.
    pub fn head_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        backend.workspace(Work::Head(self.shapes.vocabulary, tokens))
    }

    /// Bytes of the head's logits in a pass over `tokens` tokens that only scores. From some number
    /// of tokens on it takes no more.
    pub fn scores_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        backend.workspace(Work::Scores(self.shapes.vocabulary, tokens))
    }

    /// As [`head_bytes`](Self::head_bytes), with a [teacher](crate::Taught).
    pub fn taught_head_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        backend.workspace(Work::TaughtHead(self.shapes.vocabulary, tokens))
    }

    /// Bytes for one token that a pass has of its [teacher](crate::Taught), which is this model.
    pub fn taught_bytes_per_token(&self, backend: &dyn Backend) -> usize {
        let hidden = backend.bytes(Role::Activation(1, self.shapes.hidden));
        hidden + backend.workspace(Work::TeacherStatistics(1))
    }

    /// The rest of [`working_bytes`](Self::working_bytes), for one token.
    pub fn working_bytes_per_token(&self, backend: &dyn Backend) -> usize {
        let row = |features| backend.bytes(Role::Activation(1, features));
        let block = |block| bytes_of(backend, Internals::features(block, &self.shapes));
        let block = self.blocks.iter().map(block).max().unwrap_or(0);
        let rows =
            (HEAD_ROWS + STREAM_ROWS) * row(self.shapes.hidden) + row(self.shapes.intermediate);
        let attention = backend.workspace(Work::AttentionGradient(self.attention(), 1));
        let delta = self.delta_rule().map_or(0, |(block, rule)| {
            let [none, one] = [0, 1].map(|n| backend.workspace(Work::DeltaGradient(rule, n)));
            one - none + row(block.output.shape.inputs)
        });
        // Experts keep nothing, so all of this is made on the way back, if all tokens go to one.
        let experts = self.shapes.router.map_or(0, |router| {
            let exact = |features| backend.bytes(Role::Exact(1, features));
            // Freed buffers of the chosen experts may wait while the shared one has its own.
            let bytes = |size: usize| row(2 * size) + 2 * row(size);
            let shared = self.shared_expert().map_or(0, |of| bytes(of.expert().down.shape.inputs));
            let of_expert = bytes(self.shapes.intermediate) + shared;
            let of_router = exact(router.experts) + row(router.experts);
            let sums = exact(self.shapes.hidden);
            let routes = router.chosen * ROUTE_BYTES + ENTROPY_BYTES;
            4 * row(self.shapes.hidden) + sums + of_expert + of_router + routes
        });
        // An adapter's branch on the way back: A x, its gradient, and that of its input.
        let adapter = self.adapter.as_ref().map_or(0, |of| {
            let added = backend.workspace(Work::AddedInputGradient(of.widest_input(), 1));
            2 * row(of.most_ranks()) + added
        });
        // A block's internals, their gradients, and the keys and values of one layer.
        let cache = cache_bytes_per_position(backend, self.cache(1, 1));
        2 * block + rows + attention.max(delta) + cache + adapter + experts
    }

    /// Most bytes that a [gradient](crate::Gradient) of `tokens` takes besides its parameters: a
    /// row for each different token, and while these grow, the old rows too. None with an adapter,
    /// beside which the embedding is not trained.
    pub fn embedded_bytes(&self, backend: &dyn Backend, tokens: usize) -> usize {
        if self.adapter.is_some() {
            return 0;
        }
        backend
            .bytes(Role::Exact(embedded_rows(self.shapes.vocabulary, tokens), self.shapes.hidden))
    }

    /// Bytes of one page of keys and values, over all layers, with the page's part of recurrent
    /// states.
    pub fn cache_page_bytes(&self, backend: &dyn Backend) -> usize {
        let page = backend.bytes(self.cache(self.attention_layers(), 1));
        page + self.state_bytes(backend).div_ceil(self.pages_per_state(backend))
    }

    /// Bytes of the keys and values of one position, over all layers.
    pub fn cache_bytes_per_position(&self, backend: &dyn Backend) -> f64 {
        let page = backend.bytes(self.cache(self.attention_layers(), 1));
        page as f64 / backend.page_positions() as f64
    }

    /// Pages that a cache of several sequences needs for one of `positions` positions: its own and
    /// a copy of one that it shares; in models with recurrent states at least as many as come with
    /// a state.
    pub fn pages_of_sequence(&self, backend: &dyn Backend, positions: usize) -> usize {
        let pages = positions.div_ceil(backend.page_positions()) + 1;
        if self.state_layers() == 0 { pages } else { pages.max(self.pages_per_state(backend)) }
    }

    /// Least pages of a cache: one, or in models with recurrent states as many as come with two,
    /// for a prompt and its response.
    pub fn least_pages(&self, backend: &dyn Backend) -> usize {
        if self.state_layers() == 0 { 1 } else { 2 * self.pages_per_state(backend) }
    }

    /// Recurrent states that a cache of `pages` pages has: as many as their parts pay for, and two
    /// even if these do not. None in models without.
    pub(crate) fn states_beside(&self, backend: &dyn Backend, pages: usize) -> usize {
        if self.state_layers() == 0 {
            return 0;
        }
        (pages / self.pages_per_state(backend)).max(2)
    }

    /// Pages that take the memory of a state, and come with one.
    fn pages_per_state(&self, backend: &dyn Backend) -> usize {
        let page = backend.bytes(self.cache(self.attention_layers(), 1));
        (self.state_bytes(backend) / page).max(1)
    }

    /// Bytes of a sequence's recurrent state over all layers; 0 in models without.
    pub fn state_bytes(&self, backend: &dyn Backend) -> usize {
        self.state_layers() * self.delta_rule().map_or(0, |_| backend.bytes(self.states(1)))
    }

    /// The role of a layer's states.
    pub(crate) fn states(&self, slots: usize) -> Role {
        Role::Exact(slots, self.delta_rule().map_or(0, |(_, rule)| rule.state()))
    }

    /// Bytes that drawing from `rows` takes.
    pub fn draw_bytes(&self, backend: &dyn Backend, rows: usize) -> usize {
        backend.workspace(Work::Draw(self.shapes.vocabulary, rows))
    }

    /// Bytes that attention and linear layers take besides their buffers, in any pass or step over
    /// sequences of at most `longest` tokens.
    pub fn block_bytes(&self, backend: &dyn Backend, longest: usize) -> usize {
        let attention = backend.workspace(Work::Attention(self.attention(), longest));
        let delta = |rule| backend.workspace(Work::DeltaGradient(rule, 0));
        let attention = attention.max(self.delta_rule().map_or(0, |(_, rule)| delta(rule)));
        let layers = self.linear_layers().into_iter().chain(self.adapter_layers());
        let adds = layers.filter(|&(_, adds)| adds);
        let outputs = adds.map(|(shape, _)| shape.outputs).max().unwrap_or(0);
        attention.saturating_add(backend.workspace(Work::LinearSums(outputs)))
    }

    /// Estimated bytes of captured decoding steps, which a device keeps if there is room. Steps of
    /// experts are not captured.
    pub fn steps_bytes(&self, backend: &dyn Backend) -> usize {
        if self.shapes.router.is_some() {
            return 0;
        }
        let adapters = self.adapter.as_ref().map_or(0, AdapterLayout::layers);
        backend.workspace(Work::Steps(self.blocks.len(), adapters))
    }

    /// The role of a cache.
    pub(crate) fn cache(&self, layers: usize, pages: usize) -> Role {
        Role::Cache { shape: self.attention(), layers, pages }
    }

    /// Bytes per token that a backward pass needs of a forward pass, without the head's statistics.
    fn activation_bytes_per_token(&self, backend: &dyn Backend, keep: TapeKind) -> usize {
        let input = backend.bytes(keep.input_role(1, self.shapes.hidden));
        let block = |(number, block)| match keep.is_whole(number, self.blocks.len()) {
            true => input + bytes_of(backend, Internals::kept(block, self)),
            false => input,
        };
        // At most all rows of the last block's output are kept.
        let last = backend.bytes(Role::Activation(1, self.shapes.hidden));
        self.blocks.iter().enumerate().map(block).sum::<usize>() + last
    }
}

/// Bytes of a block's internals for one token.
fn bytes_of(backend: &dyn Backend, features: Internals<usize>) -> usize {
    features.each().map(|features| backend.bytes(Role::Activation(1, features))).sum()
}

/// The largest sum of this many numbers in a row.
fn largest_sum(numbers: &[usize], count: usize) -> usize {
    let sum = |numbers: &[usize]| numbers.iter().copied().fold(0, usize::saturating_add);
    numbers.windows(count.min(numbers.len())).map(sum).max().unwrap_or(0)
}

fn shapes(list: &ParameterList) -> impl Iterator<Item = Vec<usize>> {
    list.tensors().map(|(_, parameter, tensor)| parameter.shape(tensor))
}

fn cache_bytes_per_position(backend: &dyn Backend, page: Role) -> usize {
    backend.bytes(page).div_ceil(backend.page_positions())
}

/// Most rows that are allocated at a time: the new rows, and while they are copied, the old ones, a
/// smaller power of two.
fn embedded_rows(vocabulary: Linear, tokens: usize) -> usize {
    let used = tokens.min(vocabulary.outputs);
    embedded_capacity(vocabulary, used) + used.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::mixture;

    /// One token reads the experts that it chooses; many read all.
    #[test]
    fn a_pass_reads_the_experts_that_its_tokens_reach() {
        let layout = mixture(3, 8, 16);
        let cpu = isentrope_kernels::Cpu::new(isentrope_kernels::Isa::available()[0], 1).unwrap();
        let [one, two, all] = [1.0, 2.0, 1e6].map(|tokens| layout.read_bytes(&cpu, tokens));
        // Gate, up and down of each expert, 32 x 16 numbers of 4 bytes.
        let of_expert = 3.0 * 32.0 * 16.0 * 4.0;
        assert!((all - one - 3.0 * 6.0 * of_expert).abs() < 1.0, "{one} {all}");
        // A second token reads a quarter of the six others.
        assert!((two - one - 3.0 * 1.5 * of_expert).abs() < 1.0, "{one} {two}");
    }

    /// The bound is compared with the growth itself, one token after the other.
    #[test]
    fn rows_of_an_embedding_are_bounded_while_they_grow() {
        for outputs in (1..70).chain([131_072, 131_073, 151_936]) {
            let vocabulary = Linear { inputs: 1, outputs };
            let (mut capacity, mut most) = (0, 0);
            for used in 1..=outputs {
                if used > capacity {
                    let grown = embedded_capacity(vocabulary, used);
                    most = most.max(capacity + grown);
                    capacity = grown;
                }
                assert_eq!(embedded_rows(vocabulary, used), most, "{used} of {outputs} tokens");
            }
            assert_eq!(embedded_rows(vocabulary, usize::MAX), most);
        }
    }
}
