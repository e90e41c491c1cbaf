//! Products in bf16: in three directions, gated, with adapters, and the head's.

use super::{compare, noise, parameter, read, rounded, rows};
use crate::buffer::CudaBuffer;
use crate::cuda::Cuda;
use crate::gpu::cublas::chain::chain;
use crate::linear::{Direction, Matrix};
use half::bf16;
use isentrope_kernels::{
    Backend, Buffer, Cpu, Gate, Grouped, Kind, Linear, LowRank, RmsNorm, Role,
};

const SILU: Gate = Gate::Silu;
/// A product whose steps are compared: not a multiple of any tile, and so deep that stages of tiles
/// are used again. No library computes it, since its rows are padded.
const STEPS: Linear = Linear { inputs: 547, outputs: 71 };
const ROWS: usize = 5;
/// A layer whose outputs are normed: more than a block's threads take at a time.
const NORMED: Linear = Linear { inputs: 40, outputs: 1160 };
/// A layer larger than a large tile in every dimension, and deeper than all stages of one. Its
/// outputs are also used as two halves; both sizes need padding.
const TILES: Linear = Linear { inputs: 133, outputs: 134 };
const MANY_ROWS: usize = 147;
/// Ranks of an adapter of this layer, which fill no tile.
const RANKS: usize = 19;
/// First output of the head's second part: a multiple of 64.
const PART: usize = 64;

fn matrix(backend: &Cuda, role: fn(Kind) -> Role, shape: Linear, numbers: &[f32]) -> Buffer {
    let kind = Kind::Matrix(shape);
    parameter(backend, role(kind), kind, numbers)
}

/// Steps of the tensor core, in rounded sums and in exact sums, which show where terms were cut. If
/// the tensor core's arithmetic is unknown (compute capability below 9), operands are small whole
/// numbers, which every arithmetic adds exactly.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn steps(backend: &Cuda) -> Result<(), String> {
    let Linear { inputs, outputs } = STEPS;
    let is_known = backend.device().limits().capability.0 >= 9;
    let numbers =
        |seed, len| if is_known { of_many_magnitudes(seed, len) } else { whole(seed, len) };
    let (x, weights) = (numbers(1, ROWS * inputs), numbers(3, inputs * outputs));
    let packed = matrix(backend, Role::Weight, STEPS, &weights);
    let of_x = rows(backend, &x, inputs);
    let mut y = rows(backend, &noise(5, ROWS * outputs), outputs);
    backend.linear(STEPS, &of_x, &packed, None, &mut y, ROWS);
    let logits = backend.scratch(4 * ROWS * outputs);
    backend.logits(
        STEPS,
        0..outputs,
        Cuda::matrix_of(of_x.of(), ROWS, inputs),
        packed.of(),
        logits.at(0),
        ROWS,
    );
    let bits = |numbers: &[f32]| -> Vec<u16> {
        numbers.iter().map(|&number| bf16::from_f32(number).to_bits()).collect()
    };
    let (x, weights) = (bits(&x), bits(&weights));
    let pairs = x.chunks(inputs).flat_map(|x| weights.chunks(inputs).map(move |w| (x, w)));
    let want: Vec<f32> = pairs.map(|(x, w)| chain(0.0, x, w)).collect();
    compare(
        "a linear layer in bf16",
        &read(backend, &y, want.len()),
        &rounded(want.iter().copied()),
    )?;
    compare("the head's logits in bf16", &backend.downloaded(&logits, want.len()), &want)
}

/// Numbers that bf16 holds. The smallest ones vanish when a step of the tensor core adds them to
/// the largest.
fn of_many_magnitudes(seed: u64, len: usize) -> Vec<f32> {
    rounded(noise(seed, len).into_iter().enumerate().map(|(i, x)| x * 0.5_f32.powi((i % 8) as i32)))
}

/// Whole numbers from -4 to 4: any sum of their products here is exact, in every order and
/// arithmetic.
fn whole(seed: u64, len: usize) -> Vec<f32> {
    noise(seed, len).into_iter().map(|x| (x * 4.0).round() + 0.0).collect()
}

/// `sum over k of a(i, k) b(j, k)`, `[rows, columns]`.
fn sums(
    [rows, columns, depth]: [usize; 3],
    a: impl Fn(usize, usize) -> f32,
    b: impl Fn(usize, usize) -> f32,
) -> Vec<f32> {
    let sum = |i, j| (0..depth).map(|k| a(i, k) * b(j, k)).sum::<f32>() + 0.0;
    (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).collect()
}

fn compare_tiles(operation: &str, tiles: &str, got: &[f32], want: &[f32]) -> Result<(), String> {
    compare(&format!("{operation} in bf16, in tiles {tiles},"), got, want)
}

/// A layer with a bias, logits, and a gated layer, on a backend that uses such tiles.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn outputs(backend: &Cuda, cpu: &Cpu, tiles: &str) -> Result<(), String> {
    let Linear { inputs, outputs } = TILES;
    let (x, w, bias) =
        (whole(1, MANY_ROWS * inputs), whole(3, inputs * outputs), whole(4, outputs));
    let packed = matrix(backend, Role::Weight, TILES, &w);
    let vector = Kind::Vector(outputs);
    let packed_bias = parameter(backend, Role::Weight(vector), vector, &bias);
    let of_x = rows(backend, &x, inputs);
    let want =
        sums([MANY_ROWS, outputs, inputs], |i, k| x[i * inputs + k], |j, k| w[j * inputs + k]);

    let mut y = rows(backend, &noise(6, MANY_ROWS * outputs), outputs);
    backend.linear(TILES, &of_x, &packed, Some(&packed_bias), &mut y, MANY_ROWS);
    let with_bias = rounded(want.iter().zip(bias.iter().cycle()).map(|(sum, bias)| sum + bias));
    compare_tiles("a linear layer", tiles, &read(backend, &y, want.len()), &with_bias)?;

    let logits = backend.scratch(4 * MANY_ROWS * outputs);
    let of_x = Cuda::matrix_of(of_x.of(), MANY_ROWS, inputs);
    backend.logits(TILES, 0..outputs, of_x, packed.of(), logits.at(0), MANY_ROWS);
    compare_tiles("the head's logits", tiles, &backend.downloaded(&logits, want.len()), &want)?;

    gated(backend, cpu, tiles)?;
    adapted(backend, tiles)
}

/// A layer's gradients, and the gradient of the head's input, which continues from part to part of
/// the vocabulary.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn gradients(backend: &Cuda, tiles: &str) -> Result<(), String> {
    let Linear { inputs, outputs } = TILES;
    let (x, dy) = (whole(1, MANY_ROWS * inputs), whole(2, MANY_ROWS * outputs));
    let (w, dw) = (whole(3, inputs * outputs), whole(5, inputs * outputs));
    let packed = matrix(backend, Role::Weight, TILES, &w);
    let (of_x, of_dy) = (rows(backend, &x, inputs), rows(backend, &dy, outputs));
    let want =
        sums([MANY_ROWS, inputs, outputs], |i, k| dy[i * outputs + k], |j, k| w[k * inputs + j]);

    let mut dx = rows(backend, &noise(7, MANY_ROWS * inputs), inputs);
    backend.linear_backward_input(TILES, &of_dy, &packed, &mut dx, MANY_ROWS);
    let got = read(backend, &dx, want.len());
    compare_tiles(
        "the gradient of a linear layer's input",
        tiles,
        &got,
        &rounded(want.iter().copied()),
    )?;

    let of_head = backend.scratch(4 * MANY_ROWS * inputs);
    let dx = Matrix { start: of_head.at(0), stride: inputs };
    let Matrix { start, stride } = Cuda::matrix_of(of_dy.of(), MANY_ROWS, outputs);
    for part in [0..PART, PART..outputs] {
        let dy = Matrix { start: start.by(2 * part.start), stride };
        let direction = Direction::HeadInput(part.start > 0);
        backend.input_gradient_part(TILES, part, dy, packed.of(), dx, MANY_ROWS, direction);
    }
    let got: Vec<f32> = backend.downloaded(&of_head, want.len());
    compare_tiles("the gradient of the head's input", tiles, &got, &want)?;

    // The last tokens fill no block of 16, and are added when the gradient is read.
    let mut of_dw = matrix(backend, Role::Gradient, TILES, &dw);
    backend.linear_backward_weight(TILES, &of_dy, &of_x, &mut of_dw, MANY_ROWS);
    let mut got = vec![0.0; dw.len()];
    backend.unpack(Kind::Matrix(TILES), 0, &of_dw, &mut got);
    let want =
        sums([outputs, inputs, MANY_ROWS], |i, k| dy[k * outputs + i], |j, k| x[k * inputs + j]);
    let want: Vec<f32> = want.iter().zip(&dw).map(|(sum, before)| sum + before).collect();
    compare_tiles("the gradient of a linear layer's weights", tiles, &got, &want)
}

/// The sums of a layer, added to a residual and normed by one kernel. A layer ends so if a library
/// computes its product.
///
/// # Errors
/// As [`self_test`](super::self_test).
pub(super) fn normed(backend: &Cuda, cpu: &Cpu) -> Result<(), String> {
    let Linear { inputs, outputs } = NORMED;
    let norm = RmsNorm { shift: 1.0, ..RmsNorm::plain(1e-5) };
    let (x, w) = (whole(1, ROWS * inputs), whole(3, inputs * outputs));
    let (bias, before) = (whole(4, outputs), whole(5, ROWS * outputs));
    let vector = Kind::Vector(outputs);
    let [of_bias, weight] = [bias.clone(), noise(6, outputs)]
        .map(|numbers| parameter(backend, Role::Weight(vector), vector, &numbers));
    let packed = matrix(backend, Role::Weight, NORMED, &w);
    let (of_x, y) = (rows(backend, &x, inputs), rows(backend, &before, outputs));
    let normed = rows(backend, &noise(7, ROWS * outputs), outputs);
    let sums = backend.scratch(4 * ROWS * outputs);
    let [of_x, of_y, to] = [(&of_x, inputs), (&y, outputs), (&normed, outputs)]
        .map(|(of, features)| Cuda::matrix_of(of.of(), ROWS, features));
    backend.logits(NORMED, 0..outputs, of_x, packed.of(), sums.at(0), ROWS);
    let [of_bias, of_weight] = [&of_bias, &weight].map(|of| of.of::<CudaBuffer>().vector(outputs));
    backend.add_and_norm(sums.at(0), of_bias, of_y, norm, of_weight, to, [ROWS, outputs]);

    let of_product =
        self::sums([ROWS, outputs, inputs], |i, k| x[i * inputs + k], |j, k| w[j * inputs + k]);
    let all = of_product.iter().zip(bias.iter().cycle()).zip(&before);
    let added = rounded(all.map(|((sum, bias), before)| sum + bias + before));
    compare("a layer that is added and normed in bf16", &read(backend, &y, added.len()), &added)?;
    let weight = parameter(cpu, Role::Weight(vector), vector, &rounded(noise(6, outputs)));
    let mut want = rows(cpu, &noise(8, added.len()), outputs);
    cpu.rms_norm(
        Grouped::rows(outputs),
        norm,
        &rows(cpu, &added, outputs),
        &weight,
        &mut want,
        ROWS,
    );
    let want = rounded(read(cpu, &want, added.len()));
    compare("the norm of a layer in bf16", &read(backend, &normed, want.len()), &want)
}

/// A gated layer by one kernel. It is compared with a layer by one kernel and its gate by another,
/// and with the CPU.
fn gated(backend: &Cuda, cpu: &Cpu, tiles: &str) -> Result<(), String> {
    let Linear { inputs, outputs } = TILES;
    let (features, vector) = (outputs / 2, Kind::Vector(outputs));
    let x = rows(backend, &noise(11, MANY_ROWS * inputs), inputs);
    let weights = matrix(backend, Role::Weight, TILES, &noise(12, inputs * outputs));
    let bias = parameter(backend, Role::Weight(vector), vector, &noise(13, outputs));
    let [mut apart, mut kept] =
        [14, 15].map(|seed| rows(backend, &noise(seed, MANY_ROWS * outputs), outputs));
    let [mut y, mut of_apart] =
        [16, 17].map(|seed| rows(backend, &noise(seed, MANY_ROWS * features), features));
    backend.linear(TILES, &x, &weights, Some(&bias), &mut apart, MANY_ROWS);
    backend.linear_glu(TILES, SILU, &x, &weights, Some(&bias), Some(&mut kept), &mut y, MANY_ROWS);
    backend.glu(SILU, features, &apart, &mut of_apart, MANY_ROWS);

    let gate_up = read(backend, &apart, MANY_ROWS * outputs);
    let got = read(backend, &kept, MANY_ROWS * outputs);
    compare_tiles("what a gated linear layer keeps", tiles, &got, &gate_up)?;
    let mut want = rows(cpu, &noise(18, MANY_ROWS * features), features);
    cpu.glu(SILU, features, &rows(cpu, &gate_up, outputs), &mut want, MANY_ROWS);
    let want = rounded(read(cpu, &want, MANY_ROWS * features));
    compare("SwiGLU in bf16", &read(backend, &of_apart, MANY_ROWS * features), &want)?;
    compare_tiles("a gated linear layer", tiles, &read(backend, &y, MANY_ROWS * features), &want)
}

/// A gated layer with an adapter, compared with its operations by one kernel each.
fn adapted(backend: &Cuda, tiles: &str) -> Result<(), String> {
    let Linear { inputs, outputs } = TILES;
    let (down, up) = (Linear { inputs, outputs: RANKS }, Linear { inputs: RANKS, outputs });
    let noisy_rows = |seed, features| rows(backend, &noise(seed, MANY_ROWS * features), features);
    let [w, a, b] = [(TILES, 21), (down, 22), (up, 23)].map(|(shape, seed)| {
        matrix(backend, Role::Weight, shape, &noise(seed, shape.inputs * shape.outputs))
    });
    let mut scales = backend.buffer(Role::Exact(1, RANKS));
    backend.write(&mut scales, 0, &noise(24, RANKS));
    let (x, mut reduced) = (noisy_rows(25, inputs), noisy_rows(26, RANKS));
    let [mut apart, mut kept] = [27, 28].map(|seed| noisy_rows(seed, outputs));
    let [mut of_apart, mut y] = [29, 30].map(|seed| noisy_rows(seed, outputs / 2));
    backend.linear(TILES, &x, &w, None, &mut apart, MANY_ROWS);
    backend.linear(down, &x, &a, None, &mut reduced, MANY_ROWS);
    backend.scale_rows(&scales, &mut reduced, MANY_ROWS);
    backend.linear_add(up, &reduced, &b, None, &mut apart, MANY_ROWS);
    backend.glu(SILU, outputs / 2, &apart, &mut of_apart, MANY_ROWS);
    let adapter = LowRank { down, a: &a, scales: &scales, up, b: &b };
    let rows = MANY_ROWS;
    backend.linear_adapted_glu(TILES, SILU, &x, &w, None, adapter, &mut kept, &mut y, rows);

    let [got, want] = [&kept, &apart].map(|of| read(backend, of, rows * outputs));
    compare_tiles("a linear layer with an adapter", tiles, &got, &want)?;
    let [got, want] = [&y, &of_apart].map(|of| read(backend, of, rows * outputs / 2));
    compare_tiles("a gated linear layer with an adapter", tiles, &got, &want)
}
