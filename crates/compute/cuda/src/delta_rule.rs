//! The gated delta rule, and gates behind attention.

use crate::batch::CudaBatch;
use crate::buffer::CudaBuffer;
use crate::catalog::{
    ADD, BIAS_GRADIENT, COPY_ROWS, DELTA_CONV_BACKWARD, DELTA_CONV_GRADIENT, DELTA_HISTORY,
    DELTA_INPUTS, DELTA_OUTPUT, DELTA_OUTPUT_BACKWARD, DELTA_RULE, DELTA_RULE_BACKWARD,
    DELTA_VECTORS_BACKWARD, GATE_OUTPUT, GATE_OUTPUT_BACKWARD, Pair, RMS_NORM_WEIGHT_GRADIENT,
    for_head,
};
use crate::cuda::{Cuda, lines};
use crate::delta_runs::{DeltaRuns, Part, SEGMENT, Wave};
use crate::dtype::Dtype;
use crate::kernels::{Grid, Pointer, word};
use crate::layout::Element;
use crate::linear::chains;
use crate::pool::Block;
use crate::rows::dtype_of;
use isentrope_kernels::{Buffer, DeltaRule, DeltaWeights, DeviceBatch, HybridOperations};
use std::sync::Arc;

/// Most features of a query, a key or a value.
pub(crate) const MOST_FEATURES: usize = 128;
/// Threads of the kernels of half warps, which have eight each.
const THREADS: u32 = 128;
const HALF_WARPS: usize = 8;
/// Columns of a block that goes through runs.
const COLUMNS: usize = 32;
/// Numbers of a token and head's gates, as in `delta_rule.h`.
const GATES: usize = 4;
/// Heads of runs whose gradient is computed at a time: enough to occupy a GPU, and each takes as
/// much memory as a segment's matrices.
const HEADS_AT_ONCE: usize = 128;

/// Runs that are computed at a time in a pass over whole sequences.
fn runs_at_once(shape: DeltaRule) -> usize {
    (HEADS_AT_ONCE / shape.value_heads).max(1)
}

/// Numbers in the matrices of a run.
fn matrices(shape: DeltaRule) -> usize {
    shape.value_heads * shape.matrix()
}

/// Bytes of dynamic shared memory of the gradient's kernel.
pub(crate) fn gradient_shared(keys: usize, values: usize) -> u32 {
    word(4 * (keys * (values + 16) + 2 * keys + 5 * values))
}

/// Most bytes of [`Cuda::delta_gradient`] over this number of positions.
pub(crate) fn gradient_workspace(shape: DeltaRule, positions: usize) -> usize {
    let (heads, values) = (shape.value_heads, shape.value_features());
    // Vectors and what is before SiLU, norms, gates, three rows of outputs, the scale of each;
    // terms of the gradients of queries and keys, derivatives by gates, and words of runs.
    let of_row = 2 * shape.channels()
        + 2 * shape.key_heads
        + GATES * heads
        + 3 * values
        + heads
        + 3 * heads * shape.key_dim
        + 3 * heads
        + 10;
    let of_row = of_row + matrices(shape).div_ceil(SEGMENT);
    // A segment's matrices, those that kept ones of two parts are rounded up by, the last ones,
    // and two gradients; and `u`.
    let of_run = (SEGMENT + 5) * matrices(shape) + SEGMENT * values;
    let once = runs_at_once(shape).saturating_mul(of_run);
    of_row.saturating_mul(positions).saturating_add(once).saturating_mul(4)
}

/// Inputs of the rule, in f32.
struct Inputs {
    /// `[rows, channels]`.
    vectors: Block,
    /// `[rows, value heads, GATES]`.
    gates: Block,
    /// `[rows, channels]` and `[rows, 2 key heads]`, for the way back.
    kept: Option<[Block; 2]>,
}

/// Matrices of runs by their places, or none.
#[derive(Clone, Copy)]
struct Places {
    start: Pointer,
    /// Numbers from one place to the next.
    stride: usize,
}

/// The arguments that kernels of all rows share.
struct Layer<'a> {
    cuda: &'a Cuda,
    shape: DeltaRule,
    weights: DeltaWeights<&'a CudaBuffer>,
    mixed: &'a CudaBuffer,
    runs: &'a DeltaRuns,
    rows: usize,
}

impl Layer<'_> {
    fn floats(&self, count: usize) -> Block {
        self.cuda.scratch(4 * count)
    }

    fn mixed(&self) -> Pointer {
        self.mixed.rows(self.rows, self.shape.row())
    }

    fn conv(&self) -> (Pointer, usize) {
        let conv = self.weights.conv;
        (conv.matrix(self.shape.convolution()), conv.layout.matrix_stride())
    }

    fn inputs(&self, states: Pointer, keeps: bool) -> Inputs {
        let DeltaRule { key_heads, value_heads, key_dim, value_dim, taps, .. } = self.shape;
        let channels = self.rows * self.shape.channels();
        let (vectors, gates) =
            (self.floats(channels), self.floats(self.rows * value_heads * GATES));
        let kept = keeps.then(|| [self.floats(channels), self.floats(self.rows * 2 * key_heads)]);
        let [pre, inverses] = kept
            .as_ref()
            .map_or([Pointer::NULL; 2], |kept| kept.each_ref().map(|block| block.at(0)));
        let (conv, conv_stride) = self.conv();
        let units = self.rows * (2 * key_heads + value_heads + 1);
        DELTA_INPUTS.of(self.cuda.dtype).launch(
            &*self.cuda.device,
            Grid::line(units.div_ceil(HALF_WARPS), THREADS),
            (
                self.mixed(),
                conv,
                self.weights.a_log.vector(value_heads),
                self.weights.dt_bias.vector(value_heads),
                self.runs.runs(),
                self.runs.run_of(),
                states,
                vectors.at(0),
                pre,
                inverses,
                gates.at(0),
                self.rows,
                key_heads,
                value_heads,
                key_dim,
                value_dim,
                taps,
                self.mixed.layout.stride,
                conv_stride,
                self.shape.query_scale(),
            ),
        );
        Inputs { vectors, gates, kept }
    }

    /// Goes through a part's runs, from the matrices at their places, and keeps some of them.
    fn go_through(&self, inputs: &Inputs, part: &Part, places: Places, kept: Pointer, o: &Block) {
        let DeltaRule { key_heads, value_heads, key_dim, value_dim, .. } = self.shape;
        let (_, kernel) = for_head(&DELTA_RULE, key_dim).expect("keys were checked");
        kernel.launch(
            &*self.cuda.device,
            Grid::new([part.len, value_heads, value_dim.div_ceil(COLUMNS)], 32),
            (
                inputs.vectors.at(0),
                inputs.gates.at(0),
                self.runs.runs(),
                self.runs.order(part),
                places.start,
                kept,
                o.at(0),
                key_heads,
                value_heads,
                key_dim,
                value_dim,
                places.stride as u64,
            ),
        );
    }

    /// Memory for the last matrices of the sequences that runs continue, if there are any.
    fn shared_matrices(&self, wave: &Wave) -> Block {
        let is_shared = !wave.continuing.is_empty();
        self.floats(if is_shared { wave.begins.len * matrices(self.shape) } else { 0 })
    }
}

/// Results of the way back, in f32.
struct Gradients<'a> {
    dy: &'a CudaBuffer,
    d_mixed: &'a CudaBuffer,
    /// `[rows, value features]` each: outputs before their norm, their gradients, and the gradients
    /// of normed outputs times the norm's weights.
    o: Block,
    d_o: Block,
    d_normed: Block,
    /// `[rows, value heads]`.
    scales: Block,
    /// `[rows, value heads, 3, key_dim]`.
    terms: Block,
    /// `[rows, 3, value heads]`.
    d_gates: Block,
}

impl Layer<'_> {
    /// Goes back through a part's runs. `behind` are the gradients of the matrices behind those
    /// that others continue. Returns the gradients of the matrices before runs that continue
    /// others.
    fn go_back(
        &self,
        inputs: &Inputs,
        part: &Part,
        kept: &Block,
        behind: Pointer,
        of: &Gradients<'_>,
    ) -> Block {
        let shape = self.shape;
        let DeltaRule { key_heads, value_heads, key_dim, value_dim, .. } = shape;
        let (device, dtype) = (&*self.cuda.device, self.cuda.dtype);
        let pre = inputs.kept.as_ref().expect("inputs for the way back")[0].at(0);
        let (runs, order) = (self.runs.runs(), self.runs.order(part));
        DELTA_OUTPUT_BACKWARD.of(dtype).launch(
            device,
            Grid::new([(part.longest * value_heads).div_ceil(HALF_WARPS), part.len, 1], THREADS),
            (
                of.o.at(0),
                self.mixed(),
                self.weights.norm.vector(value_dim),
                of.dy.rows(self.rows, shape.value_features()),
                runs,
                order,
                of.d_o.at(0),
                of.d_normed.at(0),
                of.scales.at(0),
                of.d_mixed.rows(self.rows, shape.row()),
                value_heads,
                value_dim,
                shape.channels(),
                self.mixed.layout.stride,
                of.dy.layout.stride,
                of.d_mixed.layout.stride,
                shape.eps,
            ),
        );
        let states = self.floats(part.len * SEGMENT * matrices(shape));
        let missing = self.floats(part.len * SEGMENT * shape.value_features());
        let before = self.floats(part.len * matrices(shape));
        let shared = gradient_shared(key_dim, value_dim);
        let (_, kernel) = for_head(&DELTA_RULE_BACKWARD, key_dim).expect("keys were checked");
        kernel.launch(
            device,
            Grid::new([part.len, value_heads, 1], THREADS).with_shared(shared),
            (
                inputs.vectors.at(0),
                pre,
                inputs.gates.at(0),
                of.d_o.at(0),
                runs,
                order,
                kept.at(0),
                states.at(0),
                missing.at(0),
                behind,
                before.at(0),
                of.terms.at(0),
                of.d_gates.at(0),
                key_heads,
                value_heads,
                key_dim,
                value_dim,
            ),
        );
        before
    }

    /// Goes through all runs, and back.
    fn all_back(&self, inputs: &Inputs, of: &Gradients<'_>) {
        let (stride, device) = (matrices(self.shape), &*self.cuda.device);
        for wave in &self.runs.waves {
            let (last, behind) = (self.shared_matrices(wave), self.shared_matrices(wave));
            let places = Places { start: last.at(0), stride };
            let through = |part: &Part| {
                let kept = self.floats(part.segments * stride);
                self.go_through(inputs, part, places, kept.at(0), &of.o);
                kept
            };
            let kept = through(&wave.begins);
            if !wave.continuing.is_empty() {
                self.cuda.fill_words(behind.at(0), wave.begins.len * stride, 0);
            }
            for part in &wave.continuing {
                let before = self.go_back(inputs, part, &through(part), Pointer::NULL, of);
                for (i, place) in self.runs.places[part.first..][..part.len].iter().enumerate() {
                    let (from, to) = (before.at(4 * i * stride), behind.at(4 * place * stride));
                    ADD.of(Dtype::F32).launch(device, lines(stride), (from, to, stride as u64));
                }
            }
            self.go_back(inputs, &wave.begins, &kept, behind.at(0), of);
        }
    }

    /// Adds to the gradients of the weights.
    fn weight_gradients(
        &self,
        d_sums: Pointer,
        of: &Gradients<'_>,
        d_weights: DeltaWeights<&CudaBuffer>,
    ) {
        let DeltaRule { value_heads, value_dim, taps, .. } = self.shape;
        let (device, rows, features) = (&*self.cuda.device, self.rows, self.shape.value_features());
        let channels = self.shape.channels();
        let grid = chains(channels);
        DELTA_CONV_GRADIENT.of(self.cuda.dtype).launch(
            device,
            Grid { blocks: [grid.blocks[0], word(taps), 1], ..grid },
            (
                d_sums,
                self.mixed(),
                self.runs.runs(),
                self.runs.run_of(),
                d_weights.conv.matrix(self.shape.convolution()),
                rows,
                channels,
                taps,
                self.mixed.layout.stride,
                d_weights.conv.layout.matrix_stride(),
            ),
        );
        for (part, d_weight) in [(1, d_weights.dt_bias), (2, d_weights.a_log)] {
            let from = of.d_gates.at(4 * part * value_heads);
            BIAS_GRADIENT.of(Dtype::F32).launch(
                device,
                chains(value_heads),
                (from, d_weight.vector(value_heads), rows, value_heads, 3 * value_heads),
            );
        }
        RMS_NORM_WEIGHT_GRADIENT.of(Dtype::F32).launch(
            device,
            chains(value_dim),
            (
                of.o.at(0),
                of.d_normed.at(0),
                of.scales.at(0),
                d_weights.norm.vector(value_dim),
                rows,
                features,
                features,
                0,
                value_heads,
                value_dim,
            ),
        );
    }
}

impl Cuda {
    /// The runs of a batch.
    fn delta_layer<'a>(
        &'a self,
        shape: DeltaRule,
        weights: DeltaWeights<&'a CudaBuffer>,
        mixed: &'a CudaBuffer,
        runs: &'a DeltaRuns,
        rows: usize,
    ) -> Layer<'a> {
        let DeltaRule { key_heads, value_heads, key_dim, value_dim, taps, .. } = shape;
        assert!(value_heads.is_multiple_of(key_heads) && taps >= 2, "{shape:?}");
        for dim in [key_dim, value_dim] {
            assert!(dim.is_multiple_of(16) && dim <= MOST_FEATURES, "{shape:?}");
        }
        Layer { cuda: self, shape, weights, mixed, runs, rows }
    }

    fn delta_runs(&self, shape: DeltaRule, batch: &CudaBatch) -> Arc<DeltaRuns> {
        batch.delta_runs(runs_at_once(shape), |words| self.uploaded(words))
    }
}

impl HybridOperations for Cuda {
    fn delta_rule(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        states: Option<&mut Buffer>,
        out: &mut Buffer,
    ) {
        let (batch, out): (&CudaBatch, &CudaBuffer) = (batch.of(), out.of());
        let runs = self.delta_runs(shape, batch);
        let layer =
            self.delta_layer(shape, weights.map(Buffer::of), mixed.of(), &runs, batch.rows());
        if runs.waves.is_empty() {
            return;
        }
        let DeltaRule { value_heads, value_dim, taps, eps, .. } = shape;
        let o = layer.floats(layer.rows * shape.value_features());
        if let Some(states) = states {
            let states: &CudaBuffer = states.of();
            assert!(batch.states_end() <= states.layout.rows, "states beyond the buffer");
            let (start, state) = (states.rows(0, shape.state()), shape.state());
            let inputs = layer.inputs(start, false);
            let history = taps - 1;
            let places = Places { start: start.by(4 * history * shape.channels()), stride: state };
            let part = &runs.waves[0].begins;
            layer.go_through(&inputs, part, places, Pointer::NULL, &o);
            DELTA_HISTORY.of(self.dtype).launch(
                &*self.device,
                Grid::new([part.len, shape.channels().div_ceil(THREADS as usize), 1], THREADS),
                (
                    layer.mixed(),
                    runs.runs(),
                    start,
                    shape.channels(),
                    history,
                    layer.mixed.layout.stride,
                    state as u64,
                ),
            );
        } else {
            let inputs = layer.inputs(Pointer::NULL, false);
            for wave in &runs.waves {
                let last = layer.shared_matrices(wave);
                let places = Places { start: last.at(0), stride: matrices(shape) };
                for part in [&wave.begins].into_iter().chain(&wave.continuing) {
                    layer.go_through(&inputs, part, places, Pointer::NULL, &o);
                }
            }
        }
        DELTA_OUTPUT.of(self.dtype).launch(
            &*self.device,
            Grid::line((layer.rows * value_heads).div_ceil(HALF_WARPS), THREADS),
            (
                o.at(0),
                layer.mixed(),
                layer.weights.norm.vector(value_dim),
                runs.run_of(),
                out.rows(layer.rows, shape.value_features()),
                layer.rows,
                value_heads,
                value_dim,
                shape.channels(),
                layer.mixed.layout.stride,
                out.layout.stride,
                eps,
            ),
        );
    }

    fn delta_rule_backward(
        &self,
        shape: DeltaRule,
        weights: DeltaWeights<&Buffer>,
        mixed: &Buffer,
        batch: &DeviceBatch,
        d_out: &Buffer,
        d_mixed: &mut Buffer,
        d_weights: Option<DeltaWeights<&mut Buffer>>,
    ) {
        let batch: &CudaBatch = batch.of();
        assert!(
            batch.states_end() == 0 && batch.is_covered(),
            "the gradient needs whole sequences"
        );
        let runs = self.delta_runs(shape, batch);
        let layer =
            self.delta_layer(shape, weights.map(Buffer::of), mixed.of(), &runs, batch.rows());
        if runs.waves.is_empty() {
            return;
        }
        let (rows, heads, features) = (layer.rows, shape.value_heads, shape.value_features());
        let inputs = layer.inputs(Pointer::NULL, true);
        let of = Gradients {
            dy: d_out.of(),
            d_mixed: d_mixed.of(),
            o: layer.floats(rows * features),
            d_o: layer.floats(rows * features),
            d_normed: layer.floats(rows * features),
            scales: layer.floats(rows * heads),
            terms: layer.floats(rows * heads * 3 * shape.key_dim),
            d_gates: layer.floats(rows * 3 * heads),
        };
        layer.all_back(&inputs, &of);
        let [pre, inverses] =
            inputs.kept.as_ref().expect("inputs for the way back").each_ref().map(|of| of.at(0));
        DELTA_VECTORS_BACKWARD.launch(
            &*self.device,
            Grid::line((rows * 2 * shape.key_heads).div_ceil(HALF_WARPS), THREADS),
            (
                inputs.vectors.at(0),
                inverses,
                of.terms.at(0),
                pre,
                rows,
                shape.key_heads,
                heads,
                shape.key_dim,
                shape.value_dim,
                shape.query_scale(),
            ),
        );
        if let Some(d_weights) = d_weights {
            layer.weight_gradients(pre, &of, d_weights.map(|weight| (*weight).of()));
        }
        let (conv, conv_stride) = layer.conv();
        let columns = shape.channels() + 2 * heads;
        DELTA_CONV_BACKWARD.of(self.dtype).launch(
            &*self.device,
            Grid::new([rows, columns.div_ceil(THREADS as usize), 1], THREADS),
            (
                pre,
                of.d_gates.at(0),
                conv,
                runs.runs(),
                runs.run_of(),
                of.d_mixed.rows(rows, shape.row()),
                shape.channels(),
                heads,
                features,
                shape.taps,
                of.d_mixed.layout.stride,
                conv_stride,
            ),
        );
    }

    fn copy_states(&self, states: &mut Buffer, pairs: &[(u32, u32)]) {
        let states: &CudaBuffer = states.of();
        let mut rest = pairs;
        while !rest.is_empty() {
            // Copies that can be made at a time.
            let is_apart = |&n: &usize| {
                let (from, to) = rest[n];
                rest[..n]
                    .iter()
                    .all(|&(read, written)| written != from && written != to && read != to)
            };
            let count = 1 + (1..rest.len()).take_while(is_apart).count();
            let (now, later) = rest.split_at(count);
            let (from, to): (Vec<u32>, Vec<u32>) = now.iter().copied().unzip();
            let (from, to) = (self.indexed(&from), self.indexed(&to));
            self.copy_rows(states, Some(&from), states, Some(&to), count);
            rest = later;
        }
    }

    fn copy_columns(&self, from: &Buffer, to: &mut Buffer, first: (usize, usize), rows: usize) {
        let (from, to): (&CudaBuffer, &CudaBuffer) = (from.of(), to.of());
        let (all_from, all_to) = (from.layout.features, to.layout.features);
        let features = (all_from - first.0).min(all_to - first.1);
        let bytes = from.layout.element.bytes();
        assert_eq!(from.layout.element, to.layout.element, "rows of another kind");
        COPY_ROWS.of(dtype_of(from)).launch(
            &*self.device,
            lines(rows * features),
            (
                from.rows(rows, all_from).by(first.0 * bytes),
                Pointer::NULL,
                to.rows(rows, all_to).by(first.1 * bytes),
                Pointer::NULL,
                rows,
                features,
                from.layout.stride,
                to.layout.stride,
            ),
        );
    }

    fn gate_output(&self, x: &Buffer, gate: &Buffer, y: &mut Buffer, rows: usize) {
        gate_rows(self, &GATE_OUTPUT, [x.of(), gate.of(), y.of()], rows);
    }

    fn gate_output_backward(&self, x: &Buffer, gate: &mut Buffer, dy: &mut Buffer, rows: usize) {
        gate_rows(self, &GATE_OUTPUT_BACKWARD, [x.of(), gate.of(), dy.of()], rows);
    }
}

/// Launches a kernel of the gate over activations of one kind.
fn gate_rows(
    cuda: &Cuda,
    kernel: &Pair<(Pointer, Pointer, Pointer, usize, usize, usize)>,
    [x, gate, y]: [&CudaBuffer; 3],
    rows: usize,
) {
    for other in [gate, y] {
        assert!(
            other.layout.element == x.layout.element && other.layout.stride == x.layout.stride,
            "rows of another kind"
        );
    }
    assert!(x.layout.element != Element::Split, "weights are not activations");
    let features = x.layout.features;
    kernel.of(cuda.dtype).launch(
        &*cuda.device,
        lines(rows * features),
        (
            x.rows(rows, features),
            gate.rows(rows, features),
            y.rows(rows, features),
            rows,
            features,
            x.layout.stride,
        ),
    );
}
