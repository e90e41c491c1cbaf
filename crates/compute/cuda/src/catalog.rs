//! The list of kernels: files, names and parameters. A test compares it with the signatures in the
//! files.

use crate::dtype::Dtype;
use crate::kernels::{Arguments, Function, Grid, Kernel, Pointer, Source};

/// A kernel for each type of elements.
pub(crate) struct Pair<P: 'static> {
    f32: Kernel<P>,
    bf16: Kernel<P>,
}

impl<P: Arguments> Pair<P> {
    /// The kernel for this type.
    pub(crate) fn of(&self, dtype: Dtype) -> &Kernel<P> {
        match dtype {
            Dtype::F32 => &self.f32,
            Dtype::Bf16 => &self.bf16,
        }
    }
}

/// A kernel for each size of tiles.
pub(crate) struct Tiled<P: 'static> {
    small: Kernel<P>,
    large: Kernel<P>,
    narrow: Option<Kernel<P>>,
}

impl<P: Arguments> Tiled<P> {
    /// The kernel of narrow tiles, which every product of a decoding step has.
    const fn narrow_function(&self) -> &Function {
        self.narrow.as_ref().expect("declared with narrow tiles").function()
    }

    /// The kernel and grid for products of `rows` x each of `columns` on a device with `processors`
    /// processors.
    ///
    /// Large tiles read each operand half as often. A small product has too few of them to occupy
    /// the processors; and if one small tile covers all rows, more blocks read the other operand
    /// faster. If even small tiles leave processors idle, narrow tiles keep memory busy, because
    /// more of their reads are under way. The choice changes no bit.
    pub(crate) fn of(
        &self,
        rows: usize,
        columns: &[usize],
        processors: usize,
    ) -> (&Kernel<P>, Grid) {
        let across = |tile: &Tile| -> usize {
            columns.iter().map(|columns| columns.div_ceil(tile.columns)).sum()
        };
        let blocks = |tile: &Tile| rows.div_ceil(tile.rows) * across(tile);
        let (kernel, tile) = match &self.narrow {
            _ if rows > SMALL.rows && blocks(&LARGE) >= processors => (&self.large, LARGE),
            Some(narrow) if blocks(&SMALL) < processors => (narrow, NARROW),
            _ => (&self.small, SMALL),
        };
        let grid = [rows.div_ceil(tile.rows), across(&tile), 1];
        (kernel, Grid::new(grid, tile.threads).with_shared(tile.shared()))
    }
}

/// A tile of a product, as in `product.cu`.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    rows: usize,
    columns: usize,
    threads: u32,
    /// Terms of each stage.
    depth: usize,
    /// Pairs of operand tiles in shared memory.
    stages: usize,
}

const SMALL: Tile = Tile { rows: 64, columns: 64, threads: 128, depth: 32, stages: 4 };
/// Rows that one tile covers, so that each weight is read once.
pub(crate) const FEW_ROWS: usize = SMALL.rows;
const LARGE: Tile = Tile { rows: 128, columns: 128, threads: 128, depth: 32, stages: 4 };
const NARROW: Tile = Tile { rows: 64, columns: 32, threads: 128, depth: 64, stages: 7 };

impl Tile {
    /// Bytes of shared memory.
    const fn shared(&self) -> u32 {
        const PADDING: usize = 8;
        (self.stages * (self.rows + self.columns) * (self.depth + PADDING) * 2) as u32
    }
}

/// Kernels by the largest number of features that a head may have: 16, 32, 64 and 128.
pub(crate) type ByHead<P> = [(usize, Kernel<P>); 4];

/// The kernel for heads of `head_dim` features, and the number of features that it pads them to.
/// None if they have more than 128.
pub(crate) fn for_head<P>(kernels: &ByHead<P>, head_dim: usize) -> Option<(usize, &Kernel<P>)> {
    let fitting = kernels.iter().find(|(most, _)| head_dim <= *most);
    fitting.map(|(most, kernel)| (*most, kernel))
}

/// Declares the kernels of each file. `one` is a single kernel; a `pair` has one for each type of
/// elements, `heads` one for each size of heads, and `tiled` one for each size of tiles, narrow
/// ones included if it is for `decoding`.
macro_rules! catalog {
    ($($source:ident $file:literal {
        $(one $one:ident $one_name:literal ($($one_p:ty),*);)*
        $(decoding $decoding:ident $decoding_name:literal ($($decoding_p:ty),*);)*
        $(tiled $tiled:ident $tiled_name:literal ($($tiled_p:ty),*);)*
        $(heads $heads:ident $heads_name:literal $heads_p:ty;)*
        $(pair $pair:ident $pair_name:literal ($($pair_p:ty),*);)*
    })*) => {
        $(
            static $source: Source =
                Source { file: $file, text: include_str!(concat!("../kernels/", $file)) };
            $(pub(crate) static $one: Kernel<($($one_p,)*)> = Kernel::new($one_name, &$source);)*
            $(pub(crate) static $decoding: Tiled<($($decoding_p,)*)> = Tiled {
                small: Kernel::new(concat!($decoding_name, "_64"), &$source),
                large: Kernel::new(concat!($decoding_name, "_128"), &$source),
                narrow: Some(Kernel::new(concat!($decoding_name, "_narrow"), &$source)),
            };)*
            $(pub(crate) static $tiled: Tiled<($($tiled_p,)*)> = Tiled {
                small: Kernel::new(concat!($tiled_name, "_64"), &$source),
                large: Kernel::new(concat!($tiled_name, "_128"), &$source),
                narrow: None,
            };)*
            $(pub(crate) static $heads: ByHead<$heads_p> = [
                (16, Kernel::new(concat!($heads_name, "_16"), &$source)),
                (32, Kernel::new(concat!($heads_name, "_32"), &$source)),
                (64, Kernel::new(concat!($heads_name, "_64"), &$source)),
                (128, Kernel::new(concat!($heads_name, "_128"), &$source)),
            ];)*
            $(pub(crate) static $pair: Pair<($($pair_p,)*)> = Pair {
                f32: Kernel::new(concat!($pair_name, "_f32"), &$source),
                bf16: Kernel::new(concat!($pair_name, "_bf16"), &$source),
            };)*
        )*

        /// Every file of kernels.
        pub static SOURCES: &[&Source] = &[$(&$source),*];

        /// Every kernel.
        pub static FUNCTIONS: &[&Function] = &[$(
            $($one.function(),)*
            $($decoding.small.function(), $decoding.large.function(), $decoding.narrow_function(),)*
            $($tiled.small.function(), $tiled.large.function(),)*
            $($heads[0].1.function(), $heads[1].1.function(),
              $heads[2].1.function(), $heads[3].1.function(),)*
            $($pair.f32.function(), $pair.bf16.function(),)*
        )*];
    };
}

type P = Pointer;
/// A count of rows, features, bytes and the like: `unsigned` in the kernel.
type N = usize;
/// qkv, layer, tiles, pages, out, partial sums, partial extents, heads, kv heads, head_dim, window,
/// scale, stride, out's stride.
type Forward = (P, P, P, P, P, P, P, N, N, N, N, f32, N, N);
/// The parameters of the pairs in `attention_backward.cu`.
type BackwardQueries = (P, P, P, P, P, N, N, N, N, f32, N, N);
type BackwardKeys = (P, P, P, P, P, P, N, N, N, N, f32, N, N);
/// vectors, gates, runs, order, states, kept states, o, key heads, value heads, key_dim, value_dim,
/// numbers from one state to the next.
type Recurrence = (P, P, P, P, P, P, P, N, N, N, N, u64);
/// vectors, pre, gates, d_o, runs, order, kept states, states, u, gradients behind and before,
/// terms, d_gates, key heads, value heads, key_dim, value_dim.
type RecurrenceBackward = (P, P, P, P, P, P, P, P, P, P, P, P, P, N, N, N, N);

catalog! {
    ROWS "rows.cu" {
        // to, words, value.
        one FILL_WORDS "fill_words" (P, u64, u32);
        // to, halves, value.
        one FILL_HALVES "fill_halves" (P, u64, u32);
        // to, halves, seed, range.
        one FILL_RANDOM "fill_random" (P, u64, u64, f32);
        // from, to, count, features, from's stride, to's stride.
        one ROUND_ROWS "round_rows" (P, P, N, N, N, N);
        // sums, bias, d, rows, columns, d's stride, adds.
        one ADD_AND_ROUND "add_and_round" (P, P, P, N, N, N, bool);
        // from, keys, starts, order, to, groups, features, from's stride, to's stride.
        one EMBED_BACKWARD_BF16 "embed_backward_bf16" (P, P, P, P, P, N, N, N, N);
        // rows, tokens, packed, count, inputs, outputs, stride.
        one ADD_EMBEDDING_ROWS "add_embedding_rows" (P, P, P, N, N, N, N);
        // from, rows, to, slots, count, features, from's stride, to's stride.
        pair COPY_ROWS "copy_rows" (P, P, P, P, N, N, N, N);
        // from, to, count.
        pair ADD "add" (P, P, u64);
        // factors, x, rows, features, stride.
        pair SCALE_ROWS "scale_rows" (P, P, N, N, N);
        // from, keys, starts, order, to, groups, features, from's stride, to's stride.
        pair SCATTER_ROWS "scatter_rows" (P, P, P, P, P, N, N, N, N);
        // packed, tokens, drawn tokens, y, count, inputs, outputs, stride, y's stride.
        pair EMBED "embed" (P, P, P, P, N, N, N, N, N);
    }
    PACK "pack.cu" {
        // rows, packed, first, count, inputs, outputs, stride.
        one PACK_EXACT "pack_exact" (P, P, N, N, N, N, N);
        // packed, rows, first, count, inputs, outputs, stride.
        one UNPACK_EXACT "unpack_exact" (P, P, N, N, N, N, N);
        // rows, upper, rest, first, count, inputs, stride.
        one PACK_SPLIT "pack_split" (P, P, P, u64, N, N, N);
        // upper, rest, rows, first, count, inputs, stride.
        one UNPACK_SPLIT "unpack_split" (P, P, P, u64, N, N, N);
    }
    NORM "norm.cu" {
        // sums, bias, x, weight, y, features, x's stride, y's stride, eps, shift.
        one ADD_AND_NORM "add_and_norm" (P, P, P, P, P, N, N, N, f32, f32);
        // x, weight, y, rows, x's stride, y's stride, offset, groups, features, eps, shift.
        pair RMS_NORM "rms_norm" (P, P, P, N, N, N, N, N, N, f32, f32);
        // x, scales, rows, stride, offset, groups, features, eps.
        pair RMS_NORM_SCALES "rms_norm_scales" (P, P, N, N, N, N, N, f32);
        // x, dy, scales, dw, rows, x's stride, dy's stride, offset, groups, features.
        pair RMS_NORM_WEIGHT_GRADIENT "rms_norm_weight_gradient"
            (P, P, P, P, N, N, N, N, N, N);
        // x, weight, dy, scales, dx, rows, strides of x, dy and dx, offset, groups, features, adds,
        // shift.
        pair RMS_NORM_INPUT_GRADIENT "rms_norm_input_gradient"
            (P, P, P, P, P, N, N, N, N, N, N, N, bool, f32);
    }
    ROTARY "rope.cu" {
        // x, cos, sin, positions, rows, stride, offset, groups, half, sign.
        pair ROPE "rope" (P, P, P, P, N, N, N, N, N, f32);
    }
    GATED "glu.cu" {
        // gate_up, y, rows, features, gate_up's stride, y's stride, is GELU.
        pair GLU "glu" (P, P, N, N, N, N, bool);
        // dy, gate_up, rows, features, gate_up's stride, dy's stride, is GELU.
        pair GLU_BACKWARD "glu_backward" (P, P, N, N, N, N, bool);
        // x, gate, y, rows, features, stride.
        pair GATE_OUTPUT "gate_output" (P, P, P, N, N, N);
        // x, gate, dy, rows, features, stride.
        pair GATE_OUTPUT_BACKWARD "gate_output_backward" (P, P, P, N, N, N);
    }
    DELTA "delta_rule.cu" {
        heads DELTA_RULE "delta_rule" Recurrence;
        // mixed, convolution, a_log, dt_bias, runs, numbers of rows' runs, states, vectors, pre,
        // inverses, gates, rows, key heads, value heads, key_dim, value_dim, taps, strides of mixed
        // and of the convolution, queries' scale.
        pair DELTA_INPUTS "delta_inputs"
            (P, P, P, P, P, P, P, P, P, P, P, N, N, N, N, N, N, N, N, f32);
        // o, mixed, norm, numbers of rows' runs, y, rows, value heads, value_dim, first z, strides
        // of mixed and y, eps.
        pair DELTA_OUTPUT "delta_output" (P, P, P, P, P, N, N, N, N, N, N, f32);
        // mixed, runs, states, channels, rows, stride, numbers of a state.
        pair DELTA_HISTORY "delta_history" (P, P, P, N, N, N, u64);
    }
    DELTA_BACK "delta_rule_backward.cu" {
        // vectors, inverses, terms, pre, rows, key heads, value heads, key_dim, value_dim, queries'
        // scale.
        one DELTA_VECTORS_BACKWARD "delta_vectors_backward" (P, P, P, P, N, N, N, N, N, f32);
        heads DELTA_RULE_BACKWARD "delta_rule_backward" RecurrenceBackward;
        // o, mixed, norm, dy, runs, order, d_o, d_normed, scales, d_mixed, value heads, value_dim,
        // first z, strides of mixed, dy and d_mixed, eps.
        pair DELTA_OUTPUT_BACKWARD "delta_output_backward"
            (P, P, P, P, P, P, P, P, P, P, N, N, N, N, N, N, f32);
        // d_sums, mixed, runs, numbers of rows' runs, dw, rows, channels, taps, strides of mixed
        // and of the convolution.
        pair DELTA_CONV_GRADIENT "delta_conv_gradient" (P, P, P, P, P, N, N, N, N, N);
        // d_sums, d_gates, convolution, runs, numbers of rows' runs, d_mixed, channels, value
        // heads, value features, taps, strides of d_mixed and of the convolution.
        pair DELTA_CONV_BACKWARD "delta_conv_backward" (P, P, P, P, P, P, N, N, N, N, N, N);
    }
    EXPERTS "experts.cu" {
        // logits, ranked, experts, weights, entropies, number of experts, chosen, normalises.
        one ROUTE_EXPERTS "route_experts" (P, P, P, P, P, N, N, bool);
        // probabilities, experts, weights, their derivatives, logits' gradient, number of experts,
        // chosen, stride, normalises.
        pair ROUTE_BACKWARD "route_backward" (P, P, P, P, P, N, N, N, bool);
        // from, rows, weights, sums, count, features, from's stride, sums' stride.
        pair ADD_WEIGHTED_ROWS "add_weighted_rows" (P, P, P, P, N, N, N, N);
        // weights, x, count, features, stride.
        pair WEIGH_ROWS "weigh_rows" (P, P, N, N, N);
        // a, b, places, products, count, features, strides of a and b.
        pair ROW_PRODUCTS "row_products" (P, P, P, P, N, N, N, N);
    }
    OPTIMIZER "adamw.cu" {
        // tensors, count, sums, blocks, split.
        one SQUARE_SUMS "square_sums" (P, N, P, u64, bool);
        // tensors, count, split, gradient scale, keep, beta1, 1 - beta1, beta2, 1 - beta2, root of
        // the correction, eps, rate.
        one ADAMW "adamw" (P, N, bool, f32, f32, f32, f32, f32, f32, f32, f32, f32);
    }
    CHAINS "linear_f32.cu" {
        // x, weights, bias, y, tokens, inputs, outputs, first output, columns, adds.
        one LINEAR_F32 "linear_f32" (P, P, P, P, N, N, N, N, N, bool);
        // dy, weights, dx, tokens, inputs, outputs, first output, columns, resumes.
        one LINEAR_BACKWARD_INPUT_F32 "linear_backward_input_f32" (P, P, P, N, N, N, N, N, bool);
        // dy, x, dw, tokens, inputs, outputs, first output, columns.
        one LINEAR_BACKWARD_WEIGHT_F32 "linear_backward_weight_f32" (P, P, P, N, N, N, N, N);
    }
    BIAS "bias.cu" {
        // dy, db, tokens, outputs, stride.
        pair BIAS_GRADIENT "bias_gradient" (P, P, N, N, N);
    }
    TENSOR_CORE "product.cu" {
        // a, b, bias, d, rows, columns, depth, strides of a, b and d, adds; thin b, factors, thin
        // d, its columns, its stride.
        decoding LINEAR_BF16 "linear_bf16"
            (P, P, P, P, N, N, N, N, N, N, bool, P, P, P, N, N);
        // a, b, bias, gate_up, y, rows, features, depth, strides of a, b, gate_up and y, is
        // GELU, adds.
        decoding LINEAR_GLU_BF16 "linear_glu_bf16"
            (P, P, P, P, P, N, N, N, N, N, N, N, bool, bool);
        // a, b, d, rows, columns, depth, strides.
        decoding LOGITS_BF16 "logits_bf16" (P, P, P, N, N, N, N, N, N);
        tiled LINEAR_BACKWARD_INPUT_BF16 "linear_backward_input_bf16" (P, P, P, N, N, N, N, N, N);
        // a, b, d, rows, columns, depth, strides, resumes.
        tiled HEAD_BACKWARD_INPUT_BF16 "head_backward_input_bf16"
            (P, P, P, N, N, N, N, N, N, bool);
        tiled LINEAR_BACKWARD_WEIGHT_BF16 "linear_backward_weight_bf16"
            (P, P, P, N, N, N, N, N, N);
    }
    ATTEND "attention.cu" {
        // cache, pairs, words of a page, words of a layer.
        one COPY_PAGES "copy_pages" (P, P, u64, u64);
        // raw, qkv, weights of the queries' and the keys' norm, cos, sin, positions, rows, slots,
        // layer, count, heads, kv heads, head_dim, stride, eps, shift.
        pair PREPARE_QKV "prepare_qkv" (P, P, P, P, P, P, P, P, P, P, N, N, N, N, N, f32, f32);
        // qkv, layer, tiles, pages, out, heads, kv heads, head_dim, window, scale, stride, out's
        // stride.
        pair ATTENTION "attention" (P, P, P, P, P, N, N, N, N, f32, N, N);
    }
    ATTEND_BACKWARD "attention_backward.cu" {
        // qkv, d_out, tiles, d_qkv, statistics, heads, kv heads, head_dim, window, scale, stride,
        // d_out's stride.
        pair ATTENTION_BACKWARD_QUERIES "attention_backward_queries"
            (P, P, P, P, P, N, N, N, N, f32, N, N);
        // qkv, d_out, tiles, runs, statistics, d_qkv, heads, kv heads, head_dim, window, scale,
        // stride, d_out's stride.
        pair ATTENTION_BACKWARD_KEYS "attention_backward_keys"
            (P, P, P, P, P, P, N, N, N, N, f32, N, N);
    }
    ATTEND_TILES "attention_tiles.cu" {
        // tiles, partial sums, partial extents, out, heads, kv heads, head_dim, rows of a tile,
        // out's stride.
        one ATTENTION_MERGE "attention_merge" (P, P, P, P, N, N, N, N, N);
        heads ATTENTION_TILES "attention" Forward;
    }
    ATTEND_DECODE "attention_decode.cu" {
        heads ATTENTION_DECODE "attention_decode" Forward;
    }
    ATTEND_TILES_BACKWARD "attention_tiles_backward.cu" {
        heads ATTENTION_BACKWARD_QUERIES_TILES "attention_backward_queries" BackwardQueries;
        heads ATTENTION_BACKWARD_KEYS_TILES "attention_backward_keys" BackwardKeys;
    }
    IN_PARTS "parts.cu" {
        // logits, row numbers, maxima, vocabulary.
        one PART_MAXIMA "part_maxima" (P, P, P, N);
        // logits, row numbers, temperatures, temperature, maxima, sums, masses, vocabulary.
        one PART_SUMS "part_sums" (P, P, P, f32, P, P, P, N);
    }
    HEAD "head.cu" {
        // logits, maxima, sums, temperature, targets, kept, kept's starts, statistics, vocabulary,
        // first row, all rows.
        one HEAD_ROWS "head_rows" (P, P, P, f32, P, P, P, P, N, N, N);
        // logits, temperature, targets, kept, kept's starts, statistics, slopes, vocabulary, first
        // row, all rows.
        one HEAD_SLOPES "head_slopes" (P, f32, P, P, P, P, P, N, N, N);
        // logits, teacher's logits, temperature, statistics, teacher's statistics, vocabulary,
        // first row, all rows.
        one HEAD_DIVERGENCES "head_divergences" (P, P, f32, P, P, N, N, N);
        // logits, gradient, statistics, targets, kept, kept's starts, coefficients, temperature,
        // rows, first token, columns, stride.
        pair LOGIT_GRADIENT "logit_gradient" (P, P, P, P, P, P, P, f32, N, N, N, N);
        // logits, teacher's logits, gradient, statistics, teacher's statistics, then as above.
        pair TAUGHT_LOGIT_GRADIENT "taught_logit_gradient"
            (P, P, P, P, P, P, P, P, P, f32, N, N, N, N);
    }
    SAMPLE "draw.cu" {
        // logits, draws, maxima, sums, masses, statistics, drawn, vocabulary, first draw, all
        // draws.
        one DRAW "draw" (P, P, P, P, P, P, P, N, N, N);
    }
}
