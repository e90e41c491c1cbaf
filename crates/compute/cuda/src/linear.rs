//! Linear layers in three directions.
//!
//! With bf16 a weight's gradient is a chain over blocks of 16 tokens, counted from where the
//! accumulation began. Tokens that do not fill a block wait behind the gradient for the next ones
//! ([`Tail`](crate::buffer::Tail)), so that micro-batches may end anywhere.
//!
//! The vendor's library computes a product where it has the right bits. It can neither add a bias
//! or a residual before the one rounding, nor continue a sum. So a kernel adds them to the
//! library's unrounded sums, and the library computes only the first part of a weight's gradient.
//!
//! An adapter's two products are thin: their time is that of a launch, and of a chain over the
//! layer's inputs. So the first is computed beside the layer's own product by the same launch, and
//! the second adds to its output at once. The library computes neither, because it would write
//! unrounded sums and read them again, three times the bytes.

use crate::buffer::{CudaBuffer, Tail};
use crate::catalog::{
    ADD_AND_NORM, ADD_AND_ROUND, BIAS_GRADIENT, COPY_ROWS, FEW_ROWS, HEAD_BACKWARD_INPUT_BF16,
    LINEAR_BACKWARD_INPUT_BF16, LINEAR_BACKWARD_INPUT_F32, LINEAR_BACKWARD_WEIGHT_BF16,
    LINEAR_BACKWARD_WEIGHT_F32, LINEAR_BF16, LINEAR_F32, LINEAR_GLU_BF16, LOGITS_BF16, Tiled,
};
use crate::cuda::{Cuda, lines};
use crate::device::Product;
use crate::dtype::Dtype;
use crate::kernels::{Arguments, Grid, Pointer, word};
use crate::layout::{BLOCK, Layout};
use isentrope_kernels::{Gate, Grouped, Linear, LowRank, RmsNorm, Role};
use std::ops::Range;

/// A matrix in memory: its address, and elements from one row to the next.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub start: Pointer,
    pub stride: usize,
}

/// The operands of a product by the tensor core, `d[i, j] = sum over k of a[i, k] b[j, k]`.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    pub a: Matrix,
    pub b: Matrix,
    pub d: Matrix,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}

/// A thin product of the rows that another product takes: `d`, `[rows, columns]`, gets factors
/// times the rounded product. Without columns there is none.
#[derive(Clone, Copy)]
struct Beside {
    b: Matrix,
    factors: Pointer,
    d: Matrix,
    columns: usize,
}

impl Beside {
    const NOTHING: Self = Self {
        b: Matrix { start: Pointer::NULL, stride: 0 },
        factors: Pointer::NULL,
        d: Matrix { start: Pointer::NULL, stride: 0 },
        columns: 0,
    };

    /// An adapter's first product.
    fn of(adapter: LowRank<'_>, reduced: &CudaBuffer, tokens: usize) -> Self {
        let (a, ranks) = (adapter.a.of::<CudaBuffer>(), adapter.down.outputs);
        Self {
            b: Matrix { start: a.matrix(adapter.down), stride: a.layout.stride },
            factors: adapter.scales.of::<CudaBuffer>().rows(1, ranks),
            d: Cuda::matrix_of(reduced, tokens, ranks),
            columns: ranks,
        }
    }
}

/// The four directions of a product. Only kernels continue sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Outputs of a layer; `true` for logits, which are f32.
    Forward(bool),
    /// The gradient by inputs.
    Input,
    /// The head's input gradient in f32; `true` if its sums continue from the buffer.
    HeadInput(bool),
    /// The gradient by weights; `true` if its sums continue from the buffer.
    Weight(bool),
}

impl Operands {
    /// The product as the vendor's library takes it. None if its matrices have gaps, or rows of the
    /// result do not begin at multiples of 16 bytes.
    pub(crate) fn as_product(&self, direction: Direction) -> Option<Product> {
        let (a_transposed, b_transposed) = match direction {
            Direction::Forward(_) => (false, false),
            Direction::Input | Direction::HeadInput(false) => (false, true),
            Direction::Weight(false) => (true, true),
            // The library would add the earlier sum at the end, which is another chain.
            Direction::HeadInput(true) | Direction::Weight(true) => return None,
        };
        let Self { a, b, d, rows, columns, depth } = *self;
        let is_as_asked = columns.is_multiple_of(8)
            && a.stride == if a_transposed { rows } else { depth }
            && b.stride == if b_transposed { columns } else { depth }
            && d.stride == columns;
        is_as_asked.then_some(Product {
            a: a.start.0,
            a_transposed,
            b: b.start.0,
            b_transposed,
            d: d.start.0,
            d_exact: !matches!(direction, Direction::Forward(false) | Direction::Input),
            rows,
            columns,
            depth,
        })
    }
}

/// The most unrounded sums that are computed at a time before a bias or a residual is added: 32
/// MiB.
const SUMS: usize = 8 << 20;

/// Rows whose unrounded sums are computed at a time.
fn rows_of_sums(columns: usize) -> usize {
    (SUMS / columns.max(1)).clamp(1, 4096)
}

/// Most bytes that linear layers of up to `outputs` outputs take beside their operands.
pub(crate) fn workspace(dtype: Dtype, outputs: usize) -> usize {
    if dtype == Dtype::Bf16 { 4 * rows_of_sums(outputs) * outputs } else { 0 }
}

/// The grid of a kernel with one chain for each element: eight warps load, and a ninth adds.
pub(crate) fn chains(numbers: usize) -> Grid {
    Grid::line(numbers.div_ceil(32), 32 * (1 + 8))
}

fn grid_f32(x: usize, y: usize) -> Grid {
    Grid::new([x.div_ceil(16), y.div_ceil(64), 1], 256)
}

impl Cuda {
    pub(crate) fn matrix_of(buffer: &CudaBuffer, rows: usize, features: usize) -> Matrix {
        Matrix { start: buffer.rows(rows, features), stride: buffer.layout.stride }
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    pub(crate) fn forward(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        bias: Option<&CudaBuffer>,
        y: &CudaBuffer,
        tokens: usize,
        adds: bool,
    ) {
        let operands = Self::operands(shape, x, weights, y, tokens);
        let bias = bias.map_or(Pointer::NULL, |bias| bias.vector(shape.outputs));
        if self.dtype == Dtype::Bf16 {
            return self.multiply_beside(operands, bias, adds, Beside::NOTHING);
        }
        let Operands { a, b, d, rows, columns, depth } = operands;
        if rows > 0 && columns > 0 {
            LINEAR_F32.launch(
                &*self.device,
                grid_f32(rows, columns),
                (a.start, b.start, bias, d.start, rows, depth, columns, 0, columns, adds),
            );
        }
    }

    /// A layer that is added to `y`, whose rows are then normed.
    #[allow(clippy::too_many_arguments, reason = "the operands of two operations")]
    pub(crate) fn forward_normed(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        bias: Option<&CudaBuffer>,
        y: &CudaBuffer,
        norm: RmsNorm,
        norm_weight: &CudaBuffer,
        normed: &CudaBuffer,
        tokens: usize,
    ) {
        let outputs = shape.outputs;
        let operands = Self::operands(shape, x, weights, y, tokens);
        if self.dtype == Dtype::F32 || !self.has_library_sums(&operands) {
            self.forward(shape, x, weights, bias, y, tokens, true);
            self.norm(Grouped::rows(outputs), norm, y, norm_weight, normed, tokens);
            return;
        }
        let bias = bias.map_or(Pointer::NULL, |bias| bias.vector(outputs));
        let (w, to) = (norm_weight.vector(outputs), Self::matrix_of(normed, tokens, outputs));
        self.multiply_in_parts(operands, |sums, y, rows| {
            let to = Matrix { start: to.start.by(2 * rows.start * to.stride), ..to };
            self.add_and_norm(sums, bias, y, norm, w, to, [rows.len(), outputs]);
        });
    }

    /// The end of a layer in bf16 whose unrounded sums, `[rows, outputs]`, are there: they and a
    /// bias are added to `y` with one rounding, and its rows are normed.
    #[allow(clippy::too_many_arguments, reason = "the operands of two operations")]
    pub(crate) fn add_and_norm(
        &self,
        sums: Pointer,
        bias: Pointer,
        y: Matrix,
        norm: RmsNorm,
        norm_weight: Pointer,
        to: Matrix,
        [rows, outputs]: [usize; 2],
    ) {
        let RmsNorm { eps, shift } = norm;
        ADD_AND_NORM.launch(
            &*self.device,
            Grid::line(rows, 256).with_shared(word(2 * outputs)),
            (sums, bias, y.start, norm_weight, to.start, outputs, y.stride, to.stride, eps, shift),
        );
    }

    /// The operands of a layer's outputs.
    fn operands(
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        y: &CudaBuffer,
        tokens: usize,
    ) -> Operands {
        Operands {
            a: Self::matrix_of(x, tokens, shape.inputs),
            b: Matrix { start: weights.matrix(shape), stride: weights.layout.stride },
            d: Self::matrix_of(y, tokens, shape.outputs),
            rows: tokens,
            columns: shape.outputs,
            depth: shape.inputs,
        }
    }

    /// A layer with an adapter. With a gate, `y` is what it gates, and the gated numbers go to the
    /// buffer beside it.
    #[allow(clippy::too_many_arguments, reason = "the operands of one layer")]
    pub(crate) fn forward_adapted(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        bias: Option<&CudaBuffer>,
        adapter: LowRank<'_>,
        y: &CudaBuffer,
        tokens: usize,
        adds: bool,
        gated: Option<(Gate, &CudaBuffer)>,
    ) {
        let LowRank { up, b, .. } = adapter;
        let layout = Layout::new(self.dtype, Role::Activation(tokens, up.inputs));
        let reduced = CudaBuffer::new(self.scratch(layout.bytes()), layout);
        if self.dtype == Dtype::F32 {
            self.forward(shape, x, weights, bias, y, tokens, adds);
            self.reduce_rows(adapter, x, &reduced, tokens);
            self.forward(up, &reduced, b.of(), None, y, tokens, true);
            if let Some((by, to)) = gated {
                self.gate(by, up.outputs / 2, y, to, tokens);
            }
            return;
        }
        let operands = Self::operands(shape, x, weights, y, tokens);
        let bias = bias.map_or(Pointer::NULL, |bias| bias.vector(shape.outputs));
        self.multiply_beside(operands, bias, adds, Beside::of(adapter, &reduced, tokens));
        match gated {
            None => {
                let operands = Self::operands(up, &reduced, b.of(), y, tokens);
                self.multiply_and_add(operands, Pointer::NULL, true, Beside::NOTHING);
            }
            Some((by, to)) => {
                self.multiply_and_gate(up, by, &reduced, b.of(), None, Some(y), to, tokens, true);
            }
        }
    }

    /// An adapter's first product, scaled.
    pub(crate) fn reduce_rows(
        &self,
        adapter: LowRank<'_>,
        x: &CudaBuffer,
        reduced: &CudaBuffer,
        tokens: usize,
    ) {
        if self.dtype == Dtype::F32 {
            self.forward(adapter.down, x, adapter.a.of(), None, reduced, tokens, false);
            self.scale(adapter.scales.of(), reduced, tokens);
        } else {
            let a = Self::matrix_of(x, tokens, adapter.down.inputs);
            let beside = Beside::of(adapter, reduced, tokens);
            self.multiply_thin(a, beside, adapter.down.inputs, tokens);
        }
    }

    /// A layer with gated outputs. If the vendor's library does not compute its product, one kernel
    /// does everything.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    pub(crate) fn forward_gated(
        &self,
        shape: Linear,
        by: Gate,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        bias: Option<&CudaBuffer>,
        gate_up: Option<&CudaBuffer>,
        y: &CudaBuffer,
        tokens: usize,
    ) {
        let Linear { inputs, outputs } = shape;
        assert!(outputs.is_multiple_of(2), "halves of {outputs} outputs");
        let a = Self::matrix_of(x, tokens, inputs);
        let b = Matrix { start: weights.matrix(shape), stride: weights.layout.stride };
        let layout = Layout::new(self.dtype, Role::Activation(tokens, outputs));
        let of_library = || {
            // The address does not matter: whether the library computes a product depends on its
            // sizes alone.
            let whole = Matrix { start: Pointer::NULL, stride: layout.stride };
            let operands =
                Operands { a, b, d: whole, rows: tokens, columns: outputs, depth: inputs };
            self.is_of_library(Direction::Forward(false), &operands)
        };
        if self.dtype == Dtype::F32 || (bias.is_none() && of_library()) {
            let for_a_moment;
            let gate_up = match gate_up {
                Some(gate_up) => gate_up,
                None => {
                    for_a_moment = CudaBuffer::new(self.scratch(layout.bytes()), layout);
                    &for_a_moment
                }
            };
            self.forward(shape, x, weights, bias, gate_up, tokens, false);
            self.gate(by, outputs / 2, gate_up, y, tokens);
            return;
        }
        self.multiply_and_gate(shape, by, x, weights, bias, gate_up, y, tokens, false);
    }

    /// Gated outputs by one kernel. If it `adds`, the outputs are added to those in `gate_up`
    /// first.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    fn multiply_and_gate(
        &self,
        shape: Linear,
        by: Gate,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        bias: Option<&CudaBuffer>,
        gate_up: Option<&CudaBuffer>,
        y: &CudaBuffer,
        tokens: usize,
        adds: bool,
    ) {
        let Linear { inputs, outputs } = shape;
        let features = outputs / 2;
        if tokens == 0 || features == 0 {
            return;
        }
        let (a, d) = (Self::matrix_of(x, tokens, inputs), Self::matrix_of(y, tokens, features));
        let b = Matrix { start: weights.matrix(shape), stride: weights.layout.stride };
        let layout = Layout::new(self.dtype, Role::Activation(tokens, outputs));
        // A tile has both values of a pair.
        self.launch_tiles(
            &LINEAR_GLU_BF16,
            tokens,
            &[outputs],
            (
                a.start,
                b.start,
                bias.map_or(Pointer::NULL, |bias| bias.vector(outputs)),
                gate_up.map_or(Pointer::NULL, |kept| kept.rows(tokens, outputs)),
                d.start,
                tokens,
                features,
                inputs,
                a.stride,
                b.stride,
                layout.stride,
                d.stride,
                by == Gate::GeluTanh,
                adds,
            ),
        );
    }

    /// Logits in f32, `[tokens, columns]`, of the outputs `columns`, which begin at a multiple of
    /// 64.
    pub(crate) fn logits(
        &self,
        shape: Linear,
        columns: Range<usize>,
        x: Matrix,
        weights: &CudaBuffer,
        logits: Pointer,
        tokens: usize,
    ) {
        let Linear { inputs, outputs } = shape;
        let (w, first, count) = (weights.matrix(shape), columns.start, columns.len());
        if tokens == 0 || count == 0 {
            return;
        }
        match self.dtype {
            Dtype::F32 => {
                let none = Pointer::NULL;
                LINEAR_F32.launch(
                    &*self.device,
                    grid_f32(tokens, count),
                    (x.start, w, none, logits, tokens, inputs, outputs, first, count, false),
                );
            }
            Dtype::Bf16 => {
                let stride = weights.layout.stride;
                let b = Matrix { start: w.by(2 * first * stride), stride };
                let d = Matrix { start: logits, stride: count };
                let operands = Operands { a: x, b, d, rows: tokens, columns: count, depth: inputs };
                self.multiply(Direction::Forward(true), operands);
            }
        }
    }

    pub(crate) fn input_gradient(
        &self,
        shape: Linear,
        dy: &CudaBuffer,
        weights: &CudaBuffer,
        dx: &CudaBuffer,
        tokens: usize,
    ) {
        let Linear { inputs, outputs } = shape;
        let (dy, dx) = (Self::matrix_of(dy, tokens, outputs), Self::matrix_of(dx, tokens, inputs));
        let direction = Direction::Input;
        self.input_gradient_part(shape, 0..outputs, dy, weights, dx, tokens, direction);
    }

    /// The part of the inputs' gradient that comes from the outputs `columns`; `dy` has only these.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    pub(crate) fn input_gradient_part(
        &self,
        shape: Linear,
        columns: Range<usize>,
        dy: Matrix,
        weights: &CudaBuffer,
        dx: Matrix,
        tokens: usize,
        direction: Direction,
    ) {
        let Linear { inputs, outputs } = shape;
        let (w, first, depth) = (weights.matrix(shape), columns.start, columns.len());
        match self.dtype {
            Dtype::F32 if tokens == 0 || inputs == 0 => {}
            Dtype::F32 => {
                let resumes = direction == Direction::HeadInput(true);
                LINEAR_BACKWARD_INPUT_F32.launch(
                    &*self.device,
                    grid_f32(tokens, inputs),
                    (dy.start, w, dx.start, tokens, inputs, outputs, first, depth, resumes),
                );
            }
            Dtype::Bf16 => {
                let stride = weights.layout.stride;
                let b = Matrix { start: w.by(2 * first * stride), stride };
                let operands = Operands { a: dy, b, d: dx, rows: tokens, columns: inputs, depth };
                self.multiply(direction, operands);
            }
        }
    }

    pub(crate) fn weight_gradient(
        &self,
        shape: Linear,
        dy: &CudaBuffer,
        x: &CudaBuffer,
        dw: &CudaBuffer,
        tokens: usize,
    ) {
        let Linear { inputs, outputs } = shape;
        let (dy, x) = (Self::matrix_of(dy, tokens, outputs), Self::matrix_of(x, tokens, inputs));
        let (mut tail, goes_on) = (dw.tail(), !dw.is_zero());
        *tail = self.weight_gradient_part(shape, 0..outputs, dy, x, dw, tokens, *tail, goes_on);
    }

    /// The gradient of the weights to the outputs `columns`; `dy` has only these. Returns the tail
    /// after all columns.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    pub(crate) fn weight_gradient_part(
        &self,
        shape: Linear,
        columns: Range<usize>,
        dy: Matrix,
        x: Matrix,
        dw: &CudaBuffer,
        tokens: usize,
        tail: Tail,
        goes_on: bool,
    ) -> Tail {
        if tokens == 0 || columns.is_empty() || shape.inputs == 0 {
            return tail;
        }
        let start = dw.matrix(shape);
        if self.dtype == Dtype::F32 {
            LINEAR_BACKWARD_WEIGHT_F32.launch(
                &*self.device,
                grid_f32(shape.inputs, columns.len()),
                (
                    dy.start,
                    x.start,
                    start,
                    tokens,
                    shape.inputs,
                    shape.outputs,
                    columns.start,
                    columns.len(),
                ),
            );
            return tail;
        }
        // First the rows that fill a waiting block, then whole blocks; the remaining rows wait.
        let filling = if tail.rows == 0 { 0 } else { (BLOCK - tail.rows).min(tokens) };
        self.wait(shape, &columns, (dy, x), 0..filling, dw, tail.side, tail.rows);
        if tail.rows + filling == BLOCK {
            self.add_waiting(shape, &columns, dw, tail.side, BLOCK);
        } else if tail.rows > 0 {
            return Tail { rows: tail.rows + filling, ..tail };
        }
        let whole = (tokens - filling) / BLOCK * BLOCK;
        if whole > 0 {
            let operands = Operands {
                a: Matrix { start: dy.start.by(2 * filling * dy.stride), ..dy },
                b: Matrix { start: x.start.by(2 * filling * x.stride), ..x },
                d: Matrix {
                    start: start.by(4 * columns.start * dw.layout.stride),
                    stride: dw.layout.stride,
                },
                rows: columns.len(),
                columns: shape.inputs,
                depth: whole,
            };
            self.multiply(Direction::Weight(goes_on), operands);
        }
        let side = 1 - tail.side;
        self.wait(shape, &columns, (dy, x), filling + whole..tokens, dw, side, 0);
        Tail { rows: tokens - filling - whole, side }
    }

    /// Copies rows of both operands to the waiting rows behind the gradient, from `place` on.
    #[allow(clippy::too_many_arguments, reason = "two matrices, and where rows of them go")]
    fn wait(
        &self,
        shape: Linear,
        columns: &Range<usize>,
        (dy, x): (Matrix, Matrix),
        rows: Range<usize>,
        dw: &CudaBuffer,
        side: usize,
        place: usize,
    ) {
        if rows.is_empty() {
            return;
        }
        let (outputs, inputs) = dw.layout.tail_strides();
        let parts = [
            (dy, dw.waiting_outputs(place, columns.start), columns.len(), outputs),
            (x, dw.waiting_inputs(side, place), shape.inputs, inputs),
        ];
        for (from, to, features, stride) in parts {
            let start = from.start.by(2 * rows.start * from.stride);
            COPY_ROWS.of(Dtype::Bf16).launch(
                &*self.device,
                lines(rows.len() * features),
                (
                    start,
                    Pointer::NULL,
                    to,
                    Pointer::NULL,
                    rows.len(),
                    features,
                    from.stride,
                    stride,
                ),
            );
        }
    }

    /// Adds the products of the first `rows` waiting rows.
    fn add_waiting(
        &self,
        shape: Linear,
        columns: &Range<usize>,
        dw: &CudaBuffer,
        side: usize,
        rows: usize,
    ) {
        let (outputs, inputs) = dw.layout.tail_strides();
        let stride = dw.layout.stride;
        let operands = Operands {
            a: Matrix { start: dw.waiting_outputs(0, columns.start), stride: outputs },
            b: Matrix { start: dw.waiting_inputs(side, 0), stride: inputs },
            d: Matrix { start: dw.start().by(4 * columns.start * stride), stride },
            rows: columns.len(),
            columns: shape.inputs,
            depth: rows,
        };
        self.multiply(Direction::Weight(true), operands);
    }

    /// Adds the rows that wait behind a gradient: the last block, which is not full.
    pub(crate) fn settle(&self, buffer: &CudaBuffer) {
        let mut tail = buffer.tail();
        if let (Some(shape), Tail { rows: 1.., .. }) = (buffer.layout.matrix, *tail) {
            self.add_waiting(shape, &(0..shape.outputs), buffer, tail.side, tail.rows);
            tail.rows = 0;
        }
    }

    pub(crate) fn bias_gradient(
        &self,
        shape: Linear,
        dy: &CudaBuffer,
        db: &CudaBuffer,
        tokens: usize,
    ) {
        let outputs = shape.outputs;
        BIAS_GRADIENT.of(self.dtype).launch(
            &*self.device,
            chains(outputs),
            (dy.rows(tokens, outputs), db.vector(outputs), tokens, outputs, dy.layout.stride),
        );
    }

    /// Launches a kernel for products of `rows` x each of `columns`.
    fn launch_tiles<P: Arguments>(
        &self,
        kernels: &Tiled<P>,
        rows: usize,
        columns: &[usize],
        arguments: P,
    ) {
        let (kernel, grid) = kernels.of(rows, columns, self.device.limits().processors);
        kernel.launch(&*self.device, grid, arguments);
    }

    /// Whether the vendor's library computes products of this kind. Addresses and the number of
    /// tokens do not matter.
    fn is_of_library(&self, direction: Direction, operands: &Operands) -> bool {
        let product = operands.as_product(direction);
        // This asks the device itself, so that a recording goes on.
        product.is_some_and(|product| self.device.device().examine(&product).is_ok())
    }

    /// Computes a product by the vendor's library if it can, else by a kernel. The bits are the
    /// same.
    fn multiply(&self, direction: Direction, operands: Operands) {
        if operands.rows == 0 || operands.columns == 0 {
            return;
        }
        if operands.as_product(direction).is_some_and(|product| self.device.product(&product)) {
            return;
        }
        let Operands { a, b, d, rows, columns, depth } = operands;
        let [a_stride, b_stride, d_stride] = [a, b, d].map(|matrix| matrix.stride);
        let (a, b, d) = (a.start, b.start, d.start);
        let plain = (a, b, d, rows, columns, depth, a_stride, b_stride, d_stride);
        match direction {
            Direction::Forward(true) => self.launch_tiles(&LOGITS_BF16, rows, &[columns], plain),
            Direction::Input => {
                self.launch_tiles(&LINEAR_BACKWARD_INPUT_BF16, rows, &[columns], plain);
            }
            // A new gradient continues from zeros.
            Direction::Weight(_) => {
                self.launch_tiles(&LINEAR_BACKWARD_WEIGHT_BF16, rows, &[columns], plain);
            }
            Direction::Forward(false) => {
                self.multiply_and_add(operands, Pointer::NULL, false, Beside::NOTHING);
            }
            Direction::HeadInput(resumes) => self.launch_tiles(
                &HEAD_BACKWARD_INPUT_BF16,
                rows,
                &[columns],
                (a, b, d, rows, columns, depth, a_stride, b_stride, d_stride, resumes),
            ),
        }
    }

    /// Outputs of a layer with a bias and a residual, which are added before the only rounding. The
    /// library computes exact sums first, for as many rows at a time as [`SUMS`] allows.
    fn multiply_then_add(&self, operands: Operands, bias: Pointer, adds: bool) {
        self.multiply_in_parts(operands, |sums, d, rows| {
            let (rows, columns) = (rows.len(), operands.columns);
            ADD_AND_ROUND.launch(
                &*self.device,
                Grid::line((rows * columns).div_ceil(4 * 256), 256),
                (sums, bias, d.start, rows, columns, d.stride, adds),
            );
        });
    }

    /// Unrounded sums of a layer by the library. `finish` gets the sums of each part of the rows,
    /// the part's outputs, and its rows.
    fn multiply_in_parts(
        &self,
        operands: Operands,
        finish: impl Fn(Pointer, Matrix, Range<usize>),
    ) {
        let Operands { a, d, rows, columns, .. } = operands;
        let at_a_time = rows_of_sums(columns).min(rows);
        let sums = self.scratch(4 * at_a_time * columns);
        for first in (0..rows).step_by(at_a_time.max(1)) {
            let here = at_a_time.min(rows - first);
            let product = Operands {
                a: Matrix { start: a.start.by(2 * first * a.stride), ..a },
                d: Matrix { start: sums.at(0), stride: columns },
                rows: here,
                ..operands
            };
            self.multiply(Direction::Forward(true), product);
            let outputs = Matrix { start: d.start.by(2 * first * d.stride), ..d };
            finish(sums.at(0), outputs, first..first + here);
        }
    }

    /// Whether the library computes the unrounded sums of these outputs.
    fn has_library_sums(&self, operands: &Operands) -> bool {
        let d = Matrix { stride: operands.columns, ..operands.d };
        operands.rows > 0
            && self.is_of_library(Direction::Forward(true), &Operands { d, ..*operands })
    }

    /// Outputs of a layer, by the library if it has their bits, and what is computed beside them.
    fn multiply_beside(&self, operands: Operands, bias: Pointer, adds: bool, beside: Beside) {
        let Operands { a, rows, depth, .. } = operands;
        if rows == 0 {
            return;
        }
        let is_plain = bias == Pointer::NULL && !adds;
        // With as few rows as in decoding, the adapter's chain over all inputs takes about as long
        // as the layer's weights need to arrive. A launch of its own would wait that long again.
        let waits = beside.columns > 0 && rows <= FEW_ROWS;
        let is_of_library = || match is_plain {
            true => self.is_of_library(Direction::Forward(false), &operands),
            false => self.has_library_sums(&operands),
        };
        if waits || !is_of_library() {
            return self.multiply_and_add(operands, bias, adds, beside);
        }
        if is_plain {
            self.multiply(Direction::Forward(false), operands);
        } else {
            self.multiply_then_add(operands, bias, adds);
        }
        if beside.columns > 0 {
            self.multiply_thin(a, beside, depth, rows);
        }
    }

    /// An adapter's first product without the layer's.
    fn multiply_thin(&self, a: Matrix, beside: Beside, depth: usize, rows: usize) {
        let (b, d) = (beside.b, beside.d);
        let nothing = Operands { a, b, d, rows, columns: 0, depth };
        self.multiply_and_add(nothing, Pointer::NULL, false, beside);
    }

    /// Outputs of a layer with a bias and a residual, which are added before the only rounding, and
    /// what is computed beside them.
    fn multiply_and_add(&self, operands: Operands, bias: Pointer, adds: bool, beside: Beside) {
        let Operands { a, b, d, rows, columns, depth } = operands;
        let [a_stride, b_stride, d_stride] = [a, b, d].map(|matrix| matrix.stride);
        let Beside { b: thin, factors, d: reduced, columns: ranks } = beside;
        assert!(ranks == 0 || thin.stride == b_stride, "weights of the same rows");
        self.launch_tiles(
            &LINEAR_BF16,
            rows,
            &[columns, ranks],
            (
                a.start,
                b.start,
                bias,
                d.start,
                rows,
                columns,
                depth,
                a_stride,
                b_stride,
                d_stride,
                adds,
                thin.start,
                factors,
                reduced.start,
                ranks,
                reduced.stride,
            ),
        );
    }
}
