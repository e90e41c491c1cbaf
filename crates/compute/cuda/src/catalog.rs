//! Which kernels there are: their files, names and parameters. A test holds these against the
//! signatures in the files.

use crate::dtype::Dtype;
use crate::kernels::{Arguments, Function, Grid, Kernel, Pointer, Source};

/// A kernel for each type that numbers may be kept as.
pub(crate) struct Pair<P: 'static> {
    f32: &'static Kernel<P>,
    bf16: &'static Kernel<P>,
}

impl<P: Arguments> Pair<P> {
    /// The one for this type.
    pub(crate) fn of(&self, dtype: Dtype) -> &'static Kernel<P> {
        match dtype {
            Dtype::F32 => self.f32,
            Dtype::Bf16 => self.bf16,
        }
    }
}

/// A kernel for each of its tiles.
pub(crate) struct Tiled<P: 'static> {
    small: &'static Kernel<P>,
    large: &'static Kernel<P>,
    narrow: Option<&'static Kernel<P>>,
}

impl<P: Arguments> Tiled<P> {
    /// The kernel for a product on a device of so many processors, its tiles, and their grid. Large
    /// tiles read each operand half as often; they would leave processors idle where the product is
    /// small, and where a small one has all rows, more blocks are better at reading the other
    /// operand. Where small tiles leave processors idle, narrow ones, of which more is under way,
    /// keep memory busy. No bit depends on the choice.
    pub(crate) fn of(
        &self,
        rows: usize,
        columns: usize,
        processors: usize,
    ) -> (&'static Kernel<P>, Grid) {
        let blocks = |tile: &Tile| rows.div_ceil(tile.rows) * columns.div_ceil(tile.columns);
        let (kernel, tile) = match self.narrow {
            _ if rows > SMALL.rows && blocks(&LARGE) >= processors => (self.large, LARGE),
            Some(narrow) if blocks(&SMALL) < processors => (narrow, NARROW),
            _ => (self.small, SMALL),
        };
        let grid = [rows.div_ceil(tile.rows), columns.div_ceil(tile.columns), 1];
        (kernel, Grid::new(grid, tile.threads).with_shared(tile.shared()))
    }
}

/// A tile of a product, as `product.cu` has it.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    rows: usize,
    columns: usize,
    threads: u32,
    /// Along k, of each stage.
    depth: usize,
    /// Tiles of both operands in shared memory.
    stages: usize,
}

const SMALL: Tile = Tile { rows: 64, columns: 64, threads: 128, depth: 32, stages: 4 };
const LARGE: Tile = Tile { rows: 128, columns: 128, threads: 128, depth: 32, stages: 4 };
const NARROW: Tile = Tile { rows: 64, columns: 32, threads: 128, depth: 64, stages: 7 };

impl Tile {
    /// Bytes of shared memory.
    const fn shared(&self) -> u32 {
        const PADDING: usize = 8;
        (self.stages * (self.rows + self.columns) * (self.depth + PADDING) * 2) as u32
    }
}

/// Kernels for heads of 16, 32, 64 and 128 features at most.
pub(crate) type ByHead<P> = [(usize, &'static Kernel<P>); 4];

/// The one for heads of so many features, and the features that it computes with; None where there
/// are too many.
pub(crate) fn for_head<P>(
    kernels: &ByHead<P>,
    head_dim: usize,
) -> Option<(usize, &'static Kernel<P>)> {
    kernels.iter().copied().find(|(most, _)| head_dim <= *most)
}

/// Declares the kernels of each file: `one`; what is `tiled`, with a kernel for each size of tiles,
/// or `decoding`, with one more for narrow tiles; `heads`, with one for each number of features of a
/// head; and a `pair`, with one for each type of numbers.
macro_rules! catalog {
    ($($source:ident $file:literal {
        $(one $one:ident $one_name:literal ($($one_p:ty),*);)*
        $(decoding $decoding:ident, $d_small:ident $d_small_name:literal, $d_large:ident $d_large_name:literal,
            $narrow:ident $narrow_name:literal ($($decoding_p:ty),*);)*
        $(tiled $tiled:ident, $small:ident $small_name:literal, $large:ident $large_name:literal ($($tiled_p:ty),*);)*
        $(heads $heads:ident [$($size:literal $head:ident $head_name:literal),*] $heads_p:ty;)*
        $(pair $pair:ident, $f32:ident $f32_name:literal, $bf16:ident $bf16_name:literal ($($pair_p:ty),*);)*
    })*) => {
        $(
            static $source: Source = Source { file: $file, text: include_str!(concat!("../kernels/", $file)) };
            $(pub(crate) static $one: Kernel<($($one_p,)*)> = Kernel::new($one_name, &$source);)*
            $(
                static $small: Kernel<($($tiled_p,)*)> = Kernel::new($small_name, &$source);
                static $large: Kernel<($($tiled_p,)*)> = Kernel::new($large_name, &$source);
                pub(crate) static $tiled: Tiled<($($tiled_p,)*)> =
                    Tiled { small: &$small, large: &$large, narrow: None };
            )*
            $(
                static $d_small: Kernel<($($decoding_p,)*)> = Kernel::new($d_small_name, &$source);
                static $d_large: Kernel<($($decoding_p,)*)> = Kernel::new($d_large_name, &$source);
                static $narrow: Kernel<($($decoding_p,)*)> = Kernel::new($narrow_name, &$source);
                pub(crate) static $decoding: Tiled<($($decoding_p,)*)> =
                    Tiled { small: &$d_small, large: &$d_large, narrow: Some(&$narrow) };
            )*
            $(
                $(static $head: Kernel<$heads_p> = Kernel::new($head_name, &$source);)*
                pub(crate) static $heads: ByHead<$heads_p> = [$(($size, &$head)),*];
            )*
            $(
                static $f32: Kernel<($($pair_p,)*)> = Kernel::new($f32_name, &$source);
                static $bf16: Kernel<($($pair_p,)*)> = Kernel::new($bf16_name, &$source);
                pub(crate) static $pair: Pair<($($pair_p,)*)> = Pair { f32: &$f32, bf16: &$bf16 };
            )*
        )*
        /// Every file of kernels.
        pub static SOURCES: &[&Source] = &[$(&$source),*];
        /// Every kernel.
        pub static FUNCTIONS: &[&Function] = &[
            $(
                $($one.function(),)*
                $($d_small.function(), $d_large.function(), $narrow.function(),)*
                $($small.function(), $large.function(),)*
                $($($head.function(),)*)*
                $($f32.function(), $bf16.function(),)*
            )*
        ];
    };
}

type P = Pointer;
/// qkv, layer, tiles, pages, out, partial sums, partial extents, heads, kv heads, head_dim, window,
/// scale, stride, out's stride.
type Forward = (P, P, P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);
/// As the pairs of `attention_backward.cu`.
type BackwardQueries = (P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);
type BackwardKeys = (P, P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);

catalog! {
    ROWS "rows.cu" {
        // to, words, value.
        one FILL_WORDS "fill_words" (P, u64, u32);
        // to, halves, value.
        one FILL_HALVES "fill_halves" (P, u64, u32);
        // to, halves, seed, range.
        one FILL_RANDOM "fill_random" (P, u64, u64, f32);
        // from, to, count, features, from's stride, to's stride.
        one ROUND_ROWS "round_rows" (P, P, u32, u32, u32, u32);
        // sums, bias, d, rows, columns, d's stride, adds.
        one ADD_AND_ROUND "add_and_round" (P, P, P, u32, u32, u32, u32);
        // from, keys, starts, order, to, groups, features, from's stride, to's stride.
        one EMBED_BACKWARD_BF16 "embed_backward_bf16" (P, P, P, P, P, u32, u32, u32, u32);
        // rows, tokens, packed, count, inputs, outputs, stride.
        one ADD_EMBEDDING_ROWS "add_embedding_rows" (P, P, P, u32, u32, u32, u32);
        // from, rows, to, slots, count, features, from's stride, to's stride.
        pair COPY_ROWS, COPY_ROWS_F32 "copy_rows_f32", COPY_ROWS_BF16 "copy_rows_bf16" (P, P, P, P, u32, u32, u32, u32);
        // from, to, count.
        pair ADD, ADD_F32 "add_f32", ADD_BF16 "add_bf16" (P, P, u64);
        // from, keys, starts, order, to, groups, features, from's stride, to's stride.
        pair SCATTER_ROWS, SCATTER_ROWS_F32 "scatter_rows_f32", SCATTER_ROWS_BF16 "scatter_rows_bf16"
            (P, P, P, P, P, u32, u32, u32, u32);
        // packed, tokens, what was drawn, y, count, inputs, outputs, stride, y's stride.
        pair EMBED, EMBED_F32 "embed_f32", EMBED_BF16 "embed_bf16" (P, P, P, P, u32, u32, u32, u32, u32);
    }
    PACK "pack.cu" {
        // rows, packed, first, count, inputs, outputs, stride.
        one PACK_EXACT "pack_exact" (P, P, u32, u32, u32, u32, u32);
        // packed, rows, first, count, inputs, outputs, stride.
        one UNPACK_EXACT "unpack_exact" (P, P, u32, u32, u32, u32, u32);
        // rows, upper, rest, first, count, inputs, stride.
        one PACK_SPLIT "pack_split" (P, P, P, u64, u32, u32, u32);
        // upper, rest, rows, first, count, inputs, stride.
        one UNPACK_SPLIT "unpack_split" (P, P, P, u64, u32, u32, u32);
    }
    NORM "norm.cu" {
        // x, weight, y, rows, x's stride, y's stride, offset, groups, features, eps.
        pair RMS_NORM, RMS_NORM_F32 "rms_norm_f32", RMS_NORM_BF16 "rms_norm_bf16"
            (P, P, P, u32, u32, u32, u32, u32, u32, f32);
        // x, scales, rows, stride, offset, groups, features, eps.
        pair RMS_NORM_SCALES, RMS_NORM_SCALES_F32 "rms_norm_scales_f32", RMS_NORM_SCALES_BF16 "rms_norm_scales_bf16"
            (P, P, u32, u32, u32, u32, u32, f32);
        // x, dy, scales, dw, rows, x's stride, dy's stride, offset, groups, features.
        pair RMS_NORM_WEIGHT_GRADIENT, RMS_NORM_WEIGHT_GRADIENT_F32 "rms_norm_weight_gradient_f32",
            RMS_NORM_WEIGHT_GRADIENT_BF16 "rms_norm_weight_gradient_bf16" (P, P, P, P, u32, u32, u32, u32, u32, u32);
        // x, weight, dy, scales, dx, rows, strides of x, dy and dx, offset, groups, features, adds.
        pair RMS_NORM_INPUT_GRADIENT, RMS_NORM_INPUT_GRADIENT_F32 "rms_norm_input_gradient_f32",
            RMS_NORM_INPUT_GRADIENT_BF16 "rms_norm_input_gradient_bf16"
            (P, P, P, P, P, u32, u32, u32, u32, u32, u32, u32, u32);
    }
    ROTARY "rope.cu" {
        // x, cos, sin, positions, rows, stride, offset, groups, half, sign.
        pair ROPE, ROPE_F32 "rope_f32", ROPE_BF16 "rope_bf16" (P, P, P, P, u32, u32, u32, u32, u32, f32);
    }
    GATED "swiglu.cu" {
        // gate_up, y, rows, features, gate_up's stride, y's stride.
        pair SWIGLU, SWIGLU_F32 "swiglu_f32", SWIGLU_BF16 "swiglu_bf16" (P, P, u32, u32, u32, u32);
        // dy, gate_up, rows, features, gate_up's stride, dy's stride.
        pair SWIGLU_BACKWARD, SWIGLU_BACKWARD_F32 "swiglu_backward_f32", SWIGLU_BACKWARD_BF16 "swiglu_backward_bf16"
            (P, P, u32, u32, u32, u32);
    }
    OPTIMIZER "adamw.cu" {
        // tensors, count, sums, blocks, split.
        one SQUARE_SUMS "square_sums" (P, u32, P, u64, u32);
        // tensors, count, split, gradient scale, keep, beta1, 1 - beta1, beta2, 1 - beta2, root of
        // the correction, eps, rate.
        one ADAMW "adamw" (P, u32, u32, f32, f32, f32, f32, f32, f32, f32, f32, f32);
    }
    CHAINS "linear_f32.cu" {
        // x, weights, bias, y, tokens, inputs, outputs, first output, columns, adds.
        one LINEAR_F32 "linear_f32" (P, P, P, P, u32, u32, u32, u32, u32, u32);
        // dy, weights, dx, tokens, inputs, outputs, first output, columns, resumes.
        one LINEAR_BACKWARD_INPUT_F32 "linear_backward_input_f32" (P, P, P, u32, u32, u32, u32, u32, u32);
        // dy, x, dw, tokens, inputs, outputs, first output, columns.
        one LINEAR_BACKWARD_WEIGHT_F32 "linear_backward_weight_f32" (P, P, P, u32, u32, u32, u32, u32);
    }
    BIAS "bias.cu" {
        // dy, db, tokens, outputs, stride.
        pair BIAS_GRADIENT, BIAS_GRADIENT_F32 "bias_gradient_f32", BIAS_GRADIENT_BF16 "bias_gradient_bf16"
            (P, P, u32, u32, u32);
    }
    TENSOR_CORE "product.cu" {
        // a, b, bias, d, rows, columns, depth, strides of a, b and d, adds.
        decoding LINEAR_BF16, LINEAR_BF16_64 "linear_bf16_64", LINEAR_BF16_128 "linear_bf16_128",
            LINEAR_BF16_NARROW "linear_bf16_narrow"
            (P, P, P, P, u32, u32, u32, u32, u32, u32, u32);
        // a, b, bias, gate_up, y, rows, features, depth, strides of a, b, gate_up and y.
        decoding LINEAR_SWIGLU_BF16, LINEAR_SWIGLU_BF16_64 "linear_swiglu_bf16_64",
            LINEAR_SWIGLU_BF16_128 "linear_swiglu_bf16_128", LINEAR_SWIGLU_BF16_NARROW "linear_swiglu_bf16_narrow"
            (P, P, P, P, P, u32, u32, u32, u32, u32, u32, u32);
        // a, b, d, rows, columns, depth, strides.
        decoding LOGITS_BF16, LOGITS_BF16_64 "logits_bf16_64", LOGITS_BF16_128 "logits_bf16_128",
            LOGITS_BF16_NARROW "logits_bf16_narrow"
            (P, P, P, u32, u32, u32, u32, u32, u32);
        tiled LINEAR_BACKWARD_INPUT_BF16, LINEAR_BACKWARD_INPUT_BF16_64 "linear_backward_input_bf16_64",
            LINEAR_BACKWARD_INPUT_BF16_128 "linear_backward_input_bf16_128"
            (P, P, P, u32, u32, u32, u32, u32, u32);
        // The same, resumes.
        tiled HEAD_BACKWARD_INPUT_BF16, HEAD_BACKWARD_INPUT_BF16_64 "head_backward_input_bf16_64",
            HEAD_BACKWARD_INPUT_BF16_128 "head_backward_input_bf16_128"
            (P, P, P, u32, u32, u32, u32, u32, u32, u32);
        tiled LINEAR_BACKWARD_WEIGHT_BF16, LINEAR_BACKWARD_WEIGHT_BF16_64 "linear_backward_weight_bf16_64",
            LINEAR_BACKWARD_WEIGHT_BF16_128 "linear_backward_weight_bf16_128"
            (P, P, P, u32, u32, u32, u32, u32, u32);
    }
    ATTEND "attention.cu" {
        // cache, pairs, words of a page, words of a layer.
        one COPY_PAGES "copy_pages" (P, P, u64, u64);
        // raw, qkv, weights of the queries' and the keys' norm, cos, sin, positions, rows, slots,
        // layer, count, heads, kv heads, head_dim, stride, eps.
        pair PREPARE_QKV, PREPARE_QKV_F32 "prepare_qkv_f32", PREPARE_QKV_BF16 "prepare_qkv_bf16"
            (P, P, P, P, P, P, P, P, P, P, u32, u32, u32, u32, u32, f32);
        // qkv, layer, tiles, pages, out, heads, kv heads, head_dim, window, scale, stride, out's
        // stride.
        pair ATTENTION, ATTENTION_F32 "attention_f32", ATTENTION_BF16 "attention_bf16"
            (P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);
    }
    ATTEND_BACKWARD "attention_backward.cu" {
        // qkv, d_out, tiles, d_qkv, statistics, heads, kv heads, head_dim, window, scale, stride,
        // d_out's stride.
        pair ATTENTION_BACKWARD_QUERIES, ATTENTION_BACKWARD_QUERIES_F32 "attention_backward_queries_f32",
            ATTENTION_BACKWARD_QUERIES_BF16 "attention_backward_queries_bf16"
            (P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);
        // qkv, d_out, tiles, runs, statistics, d_qkv, heads, kv heads, head_dim, window, scale,
        // stride, d_out's stride.
        pair ATTENTION_BACKWARD_KEYS, ATTENTION_BACKWARD_KEYS_F32 "attention_backward_keys_f32",
            ATTENTION_BACKWARD_KEYS_BF16 "attention_backward_keys_bf16"
            (P, P, P, P, P, P, u32, u32, u32, u32, f32, u32, u32);
    }
    ATTEND_TILES "attention_tiles.cu" {
        // tiles, partial sums, partial extents, out, heads, kv heads, head_dim, rows of a tile,
        // out's stride.
        one ATTENTION_MERGE "attention_merge" (P, P, P, P, u32, u32, u32, u32, u32);
        heads ATTENTION_TILES [
            16 ATTENTION_16 "attention_16", 32 ATTENTION_32 "attention_32",
            64 ATTENTION_64 "attention_64", 128 ATTENTION_128 "attention_128"
        ] Forward;
    }
    ATTEND_DECODE "attention_decode.cu" {
        heads ATTENTION_DECODE [
            16 ATTENTION_DECODE_16 "attention_decode_16",
            32 ATTENTION_DECODE_32 "attention_decode_32",
            64 ATTENTION_DECODE_64 "attention_decode_64",
            128 ATTENTION_DECODE_128 "attention_decode_128"
        ] Forward;
    }
    ATTEND_TILES_BACKWARD "attention_tiles_backward.cu" {
        heads ATTENTION_BACKWARD_QUERIES_TILES [
            16 ATTENTION_BACKWARD_QUERIES_16 "attention_backward_queries_16",
            32 ATTENTION_BACKWARD_QUERIES_32 "attention_backward_queries_32",
            64 ATTENTION_BACKWARD_QUERIES_64 "attention_backward_queries_64",
            128 ATTENTION_BACKWARD_QUERIES_128 "attention_backward_queries_128"
        ] BackwardQueries;
        heads ATTENTION_BACKWARD_KEYS_TILES [
            16 ATTENTION_BACKWARD_KEYS_16 "attention_backward_keys_16",
            32 ATTENTION_BACKWARD_KEYS_32 "attention_backward_keys_32",
            64 ATTENTION_BACKWARD_KEYS_64 "attention_backward_keys_64",
            128 ATTENTION_BACKWARD_KEYS_128 "attention_backward_keys_128"
        ] BackwardKeys;
    }
    IN_PARTS "parts.cu" {
        // logits, row numbers, maxima, vocabulary.
        one PART_MAXIMA "part_maxima" (P, P, P, u32);
        // logits, row numbers, temperatures, temperature, maxima, sums, masses, vocabulary.
        one PART_SUMS "part_sums" (P, P, P, f32, P, P, P, u32);
    }
    HEAD "head.cu" {
        // logits, maxima, sums, temperature, targets, kept, kept's starts, statistics, vocabulary,
        // first row, all rows.
        one HEAD_ROWS "head_rows" (P, P, P, f32, P, P, P, P, u32, u32, u32);
        // logits, temperature, targets, kept, kept's starts, statistics, slopes, vocabulary, first
        // row, all rows.
        one HEAD_SLOPES "head_slopes" (P, f32, P, P, P, P, P, u32, u32, u32);
        // logits, gradient, statistics, targets, kept, kept's starts, coefficients, temperature,
        // rows, first token, columns, stride.
        pair LOGIT_GRADIENT, LOGIT_GRADIENT_F32 "logit_gradient_f32", LOGIT_GRADIENT_BF16 "logit_gradient_bf16"
            (P, P, P, P, P, P, P, f32, u32, u32, u32, u32);
    }
    SAMPLE "draw.cu" {
        // logits, draws, maxima, sums, masses, statistics, drawn, vocabulary, first draw, all
        // draws.
        one DRAW "draw" (P, P, P, P, P, P, P, u32, u32, u32);
    }
}
