//! The head: log-probs and entropies of rows of hidden states, and the gradient of a loss by these.
//!
//! As on the CPU, logits are held for some rows at a time on the way forward, and for some of the
//! vocabulary on the way back.

use crate::buffer::CudaBuffer;
use crate::catalog::{HEAD_ROWS, HEAD_SLOPES, LOGIT_GRADIENT, ROUND_ROWS};
use crate::cuda::{Cuda, lines};
use crate::dtype::Dtype;
use crate::index::CudaIndex;
use crate::kernels::{Grid, Pointer, word};
use crate::linear::{Direction, Matrix};
use crate::logits_blocks::LogitsBlocks;
use crate::parts::{Purpose, Rows, SUM_BLOCK};
use crate::pool::Block;
use crate::uploaded::Uploaded;
use isentrope_kernels::{EntropySlopes, HeadScores, Linear, SamplingMasks};
use std::sync::Arc;

/// Values of a row's statistics.
const NUMBERS: usize = 5;
const THREADS: u32 = 256;

/// Statistics of rows, which the head keeps on the device from its forward to its backward pass.
pub struct CudaStatistics {
    targets: CudaIndex,
    temperature: f32,
    /// Maximum, logarithm of the sum, entropy, log-prob and log-mass, `[5, rows]`.
    numbers: Block,
    kept: Option<UploadedMasks>,
}

/// The tokens that masks keep, on the device.
struct UploadedMasks {
    block: Uploaded,
    rows: usize,
}

impl UploadedMasks {
    /// The start of each row's tokens, and the end of the last row's.
    fn starts(of: Option<&Self>) -> Pointer {
        of.map_or(Pointer::NULL, |kept| kept.block.at(0))
    }
    fn tokens(of: Option<&Self>) -> Pointer {
        of.map_or(Pointer::NULL, |kept| kept.block.at(4 * (kept.rows + 1)))
    }
}

/// Bytes that the head and its gradient take over `rows` rows, beside the statistics.
pub(crate) fn workspace(dtype: Dtype, blocks: LogitsBlocks, shape: Linear, rows: usize) -> usize {
    let at_a_time = blocks.rows(shape, rows).min(rows);
    let forward = at_a_time.saturating_mul(shape.outputs).saturating_mul(4);
    let forward = forward.saturating_add(Purpose::Statistics.bytes(shape.outputs, at_a_time));
    let of_block = rows.saturating_mul(blocks.columns(shape, rows));
    // Coefficients, and logits; with bf16 also the logits' gradient, and the hidden states'
    // gradient in f32.
    let backward = rows.saturating_mul(12).saturating_add(of_block.saturating_mul(4));
    let backward = match dtype {
        Dtype::F32 => backward,
        Dtype::Bf16 => backward
            .saturating_add(
                rows.saturating_mul(2 * blocks.columns(shape, rows).next_multiple_of(8)),
            )
            .saturating_add(rows.saturating_mul(shape.inputs).saturating_mul(4)),
    };
    forward.max(backward)
}

/// Bytes of the statistics of `rows` rows.
pub(crate) fn statistics_bytes(rows: usize) -> usize {
    rows.saturating_mul(NUMBERS * 4)
}

impl Cuda {
    fn upload_kept(
        &self,
        masks: &SamplingMasks,
        rows: usize,
        vocabulary: usize,
    ) -> Option<UploadedMasks> {
        if masks.is_whole() {
            return None;
        }
        let (mut starts, mut tokens) = (vec![0], Vec::new());
        for row in 0..rows {
            tokens.extend_from_slice(masks.of(row));
            starts.push(word(tokens.len()));
        }
        assert!(
            tokens.iter().all(|&token| (token as usize) < vocabulary),
            "a mask of tokens beyond the vocabulary"
        );
        starts.extend(tokens);
        Some(UploadedMasks { block: self.uploaded(&starts), rows })
    }

    /// Statistics of rows of hidden states. Calls `also` with each block of logits, and with its
    /// first row and its number of rows.
    #[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
    fn rows_of_head(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        targets: CudaIndex,
        masks: &SamplingMasks,
        temperature: f32,
        also: impl Fn(&CudaStatistics, Pointer, usize, usize),
    ) -> CudaStatistics {
        let rows = targets.len();
        targets.check(shape.outputs, "there is no token");
        let kept = self.upload_kept(masks, rows, shape.outputs);
        let numbers = self.scratch(statistics_bytes(rows));
        let statistics = CudaStatistics { targets, temperature, numbers, kept };
        let block = self.logits_blocks.rows(shape, rows);
        let logits = self.scratch(4 * block.min(rows) * shape.outputs);
        let parts = self.parts(Purpose::Statistics, shape.outputs, block.min(rows));
        let stride = x.layout.stride;
        x.rows(rows, shape.inputs);
        for first in (0..rows).step_by(block) {
            let count = block.min(rows - first);
            let x = Matrix { start: x.rows_from(first, count, shape.inputs), stride };
            self.logits(shape, 0..shape.outputs, x, weights, logits.at(0), count);
            self.sum_parts(logits.at(0), &Rows::All(temperature), count, &parts);
            let kept = statistics.kept.as_ref();
            HEAD_ROWS.launch(
                &*self.device,
                Grid::line(count, 32).with_shared(Purpose::Statistics.shared(shape.outputs)),
                (
                    logits.at(0),
                    parts.maxima(),
                    parts.sums(),
                    temperature,
                    statistics.targets.start(),
                    UploadedMasks::tokens(kept),
                    UploadedMasks::starts(kept),
                    statistics.numbers.at(0),
                    shape.outputs,
                    first,
                    rows,
                ),
            );
            also(&statistics, logits.at(0), first, count);
        }
        statistics
    }

    pub(crate) fn head_forward(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        targets: CudaIndex,
        masks: &Arc<SamplingMasks>,
        temperature: f32,
    ) -> CudaStatistics {
        self.rows_of_head(shape, x, weights, targets, masks, temperature, |_, _, _, _| ())
    }

    /// Reads the scores from statistics.
    pub(crate) fn read_scores(&self, statistics: &CudaStatistics) -> HeadScores {
        let rows = statistics.targets.len();
        let numbers: Vec<f32> = self.downloaded(&statistics.numbers, NUMBERS * rows);
        let of = |number: usize| numbers[number * rows..][..rows].to_vec();
        let log_masses = if statistics.kept.is_some() { of(4) } else { Vec::new() };
        HeadScores { logprobs: of(3), entropies: of(2), log_masses }
    }

    pub(crate) fn slopes(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        targets: CudaIndex,
        masks: &SamplingMasks,
        temperature: f32,
    ) -> EntropySlopes {
        let rows = targets.len();
        let slopes = self.scratch(4 * rows);
        let slopes_of =
            |statistics: &CudaStatistics, logits: Pointer, first: usize, count: usize| {
                let kept = statistics.kept.as_ref();
                HEAD_SLOPES.launch(
                    &*self.device,
                    Grid::line(count, THREADS)
                        .with_shared(word(4 * shape.outputs.div_ceil(SUM_BLOCK))),
                    (
                        logits,
                        temperature,
                        statistics.targets.start(),
                        UploadedMasks::tokens(kept),
                        UploadedMasks::starts(kept),
                        statistics.numbers.at(0),
                        slopes.at(0),
                        shape.outputs,
                        first,
                        rows,
                    ),
                );
            };
        let statistics =
            self.rows_of_head(shape, x, weights, targets, masks, temperature, slopes_of);
        EntropySlopes {
            scores: self.read_scores(&statistics),
            slopes: self.downloaded(&slopes, rows),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    pub(crate) fn head_gradient(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        statistics: &CudaStatistics,
        [d_logprobs, d_entropies, d_log_masses]: [&[f32]; 3],
        dx: &CudaBuffer,
        dw: Option<&CudaBuffer>,
    ) {
        let rows = statistics.targets.len();
        assert!(
            d_logprobs.len() == rows && d_entropies.len() == rows,
            "coefficients of other rows"
        );
        assert!(
            d_log_masses.is_empty() || d_log_masses.len() == rows,
            "coefficients of other rows"
        );
        let (x, dx_rows) =
            (Self::matrix_of(x, rows, shape.inputs), Self::matrix_of(dx, rows, shape.inputs));
        if rows == 0 {
            return;
        }
        let mut coefficients = [d_logprobs, d_entropies, d_log_masses].concat();
        coefficients.resize(3 * rows, 0.0);
        let coefficients = self.uploaded(&coefficients);
        let block = self.logits_blocks.columns(shape, rows);
        let logits = self.scratch(4 * rows * block);
        // With bf16 the logits' gradient is rounded into memory of its own, and the hidden states'
        // gradient is summed in f32 before it is rounded.
        let is_f32 = self.dtype == Dtype::F32;
        let rounded = (!is_f32).then(|| self.scratch(2 * rows * block.next_multiple_of(8)));
        let sums = (!is_f32).then(|| self.scratch(4 * rows * shape.inputs));
        let into = sums
            .as_ref()
            .map_or(dx_rows, |sums| Matrix { start: sums.at(0), stride: shape.inputs });
        let kept = statistics.kept.as_ref();
        // Every block of columns continues from the same tail.
        let mut dw = dw.map(|dw| (dw, dw.tail(), !dw.is_zero()));
        let mut after = None;
        for first in (0..shape.outputs).step_by(block) {
            let columns = first..(first + block).min(shape.outputs);
            self.logits(shape, columns.clone(), x, weights, logits.at(0), rows);
            let gradient = match &rounded {
                Some(rounded) => {
                    Matrix { start: rounded.at(0), stride: columns.len().next_multiple_of(8) }
                }
                None => Matrix { start: logits.at(0), stride: columns.len() },
            };
            LOGIT_GRADIENT.of(self.dtype).launch(
                &*self.device,
                Grid::line(rows, THREADS),
                (
                    logits.at(0),
                    gradient.start,
                    statistics.numbers.at(0),
                    statistics.targets.start(),
                    UploadedMasks::tokens(kept),
                    UploadedMasks::starts(kept),
                    coefficients.at(0),
                    statistics.temperature,
                    rows,
                    first,
                    columns.len(),
                    gradient.stride,
                ),
            );
            let direction = Direction::HeadInput(first > 0);
            let part = columns.clone();
            self.input_gradient_part(shape, part, gradient, weights, into, rows, direction);
            after = dw.as_ref().map(|(dw, tail, goes_on)| {
                self.weight_gradient_part(shape, columns, gradient, x, dw, rows, **tail, *goes_on)
            });
        }
        if let (Some((_, tail, _)), Some(after)) = (&mut dw, after) {
            **tail = after;
        }
        if let Some(sums) = &sums {
            ROUND_ROWS.launch(
                &*self.device,
                lines(rows * shape.inputs),
                (sums.at(0), dx_rows.start, rows, shape.inputs, shape.inputs, dx.layout.stride),
            );
        }
    }
}
