//! The head: log-probs and entropies of rows of hidden states, and the gradient of a loss by these.
//!
//! As on the CPU, logits are held for some rows at a time on the way forward, and for some of the
//! vocabulary on the way back.

use crate::buffer::CudaBuffer;
use crate::catalog::{
    HEAD_DIVERGENCES, HEAD_ROWS, HEAD_SLOPES, LOGIT_GRADIENT, ROUND_ROWS, TAUGHT_LOGIT_GRADIENT,
};
use crate::cuda::{Cuda, lines};
use crate::dtype::Dtype;
use crate::index::CudaIndex;
use crate::kernels::{Grid, Pointer, word};
use crate::linear::{Direction, Matrix};
use crate::logits_blocks::LogitsBlocks;
use crate::parts::{Parts, Purpose, Rows, SUM_BLOCK};
use crate::pool::Block;
use crate::uploaded::Uploaded;
use isentrope_kernels::{EntropySlopes, HeadScores, Linear, SamplingMasks, TeacherRows};
use std::ops::Range;
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
    /// A teacher's numbers likewise, with the reverse KL in the place of the log-mass.
    teacher: Option<Block>,
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

/// Bytes that the head takes over `rows` rows, beside the statistics.
pub(crate) fn scores_workspace(blocks: LogitsBlocks, shape: Linear, rows: usize) -> usize {
    let at_a_time = blocks.rows(shape, rows).min(rows);
    let logits = at_a_time.saturating_mul(shape.outputs).saturating_mul(4);
    logits.saturating_add(Purpose::Statistics.bytes(shape.outputs, at_a_time))
}

/// Bytes that the head and its gradient take over `rows` rows, beside the statistics.
pub(crate) fn workspace(dtype: Dtype, blocks: LogitsBlocks, shape: Linear, rows: usize) -> usize {
    let forward = scores_workspace(blocks, shape, rows);
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

/// Bytes of the head and its gradient with a teacher's logits beside the policy's.
pub(crate) fn taught_workspace(
    dtype: Dtype,
    blocks: LogitsBlocks,
    shape: Linear,
    rows: usize,
) -> usize {
    let forward = blocks.rows(shape, rows).min(rows).saturating_mul(shape.outputs);
    let backward = rows.saturating_mul(1 + blocks.columns(shape, rows));
    workspace(dtype, blocks, shape, rows).saturating_add(forward.max(backward).saturating_mul(4))
}

/// Bytes of the statistics of `rows` rows, the policy's or a teacher's.
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
    /// first row and its number of rows; then `also` may use the memory of the parts.
    #[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
    fn rows_of_head(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        targets: CudaIndex,
        masks: &SamplingMasks,
        temperature: f32,
        also: impl Fn(&CudaStatistics, Pointer, &Parts, Range<usize>),
    ) -> CudaStatistics {
        let rows = targets.len();
        targets.check(shape.outputs, "there is no token");
        let kept = self.upload_kept(masks, rows, shape.outputs);
        let numbers = self.scratch(statistics_bytes(rows));
        let statistics = CudaStatistics { targets, temperature, numbers, kept, teacher: None };
        let block = self.logits_blocks.rows(shape, rows);
        let logits = self.scratch(4 * block.min(rows) * shape.outputs);
        let parts = self.parts(Purpose::Statistics, shape.outputs, block.min(rows));
        let stride = x.layout.stride;
        x.rows(rows, shape.inputs);
        for first in (0..rows).step_by(block) {
            let count = block.min(rows - first);
            let x = Matrix { start: x.rows_from(first, count, shape.inputs), stride };
            self.logits(shape, 0..shape.outputs, x, weights, logits.at(0), count);
            let kept = statistics.kept.as_ref();
            let numbers = &statistics.numbers;
            let of_block = first..first + count;
            self.numbers_of_rows(
                shape,
                &statistics,
                logits.at(0),
                &parts,
                of_block.clone(),
                kept,
                numbers,
            );
            also(&statistics, logits.at(0), &parts, of_block);
        }
        statistics
    }

    /// Computes the numbers of a block's rows from their logits. `kept` has the masks that count.
    #[allow(clippy::too_many_arguments, reason = "the operands of one kernel")]
    fn numbers_of_rows(
        &self,
        shape: Linear,
        statistics: &CudaStatistics,
        logits: Pointer,
        parts: &Parts,
        of_block: Range<usize>,
        kept: Option<&UploadedMasks>,
        numbers: &Block,
    ) {
        let CudaStatistics { targets, temperature, .. } = statistics;
        self.sum_parts(logits, &Rows::All(*temperature), of_block.len(), parts);
        HEAD_ROWS.launch(
            &*self.device,
            Grid::line(of_block.len(), 32).with_shared(Purpose::Statistics.shared(shape.outputs)),
            (
                logits,
                parts.maxima(),
                parts.sums(),
                *temperature,
                targets.start(),
                UploadedMasks::tokens(kept),
                UploadedMasks::starts(kept),
                numbers.at(0),
                shape.outputs,
                of_block.start,
                targets.len(),
            ),
        );
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
    pub(crate) fn head_forward(
        &self,
        shape: Linear,
        x: &CudaBuffer,
        weights: &CudaBuffer,
        targets: CudaIndex,
        masks: &Arc<SamplingMasks>,
        temperature: f32,
        teacher: Option<TeacherRows<'_>>,
    ) -> CudaStatistics {
        let Some(teacher) = teacher else {
            return self.rows_of_head(
                shape,
                x,
                weights,
                targets,
                masks,
                temperature,
                |_, _, _, _| (),
            );
        };
        assert!(teacher.shape.outputs >= shape.outputs, "a teacher of fewer tokens");
        let rows = targets.len();
        let numbers = self.scratch(statistics_bytes(rows));
        let taught =
            self.scratch(4 * self.logits_blocks.rows(shape, rows).min(rows) * shape.outputs);
        let compare = |statistics: &CudaStatistics,
                       logits: Pointer,
                       parts: &Parts,
                       of_block: Range<usize>| {
            let (first, count) = (of_block.start, of_block.len());
            let hidden: &CudaBuffer = teacher.hidden.of();
            let x = Matrix {
                start: hidden.rows_from(first, count, teacher.shape.inputs),
                stride: hidden.layout.stride,
            };
            let tokens = 0..shape.outputs;
            self.logits(teacher.shape, tokens, x, teacher.weights.of(), taught.at(0), count);
            self.numbers_of_rows(shape, statistics, taught.at(0), parts, of_block, None, &numbers);
            HEAD_DIVERGENCES.launch(
                &*self.device,
                Grid::line(count, THREADS).with_shared(word(4 * shape.outputs.div_ceil(SUM_BLOCK))),
                (
                    logits,
                    taught.at(0),
                    temperature,
                    statistics.numbers.at(0),
                    numbers.at(0),
                    shape.outputs,
                    first,
                    rows,
                ),
            );
        };
        let statistics = self.rows_of_head(shape, x, weights, targets, masks, temperature, compare);
        CudaStatistics { teacher: Some(numbers), ..statistics }
    }

    /// Reads the reverse KL of each row; nothing without a teacher.
    pub(crate) fn read_divergences(&self, statistics: &CudaStatistics) -> Vec<f32> {
        let rows = statistics.targets.len();
        let read = |numbers| self.downloaded::<f32>(numbers, NUMBERS * rows).split_off(4 * rows);
        statistics.teacher.as_ref().map(read).unwrap_or_default()
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
            |statistics: &CudaStatistics, logits: Pointer, _: &Parts, of_block: Range<usize>| {
                let kept = statistics.kept.as_ref();
                HEAD_SLOPES.launch(
                    &*self.device,
                    Grid::line(of_block.len(), THREADS)
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
                        of_block.start,
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
        taught: Option<(TeacherRows<'_>, &[f32])>,
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
        let taught = taught.map(|(teacher, slopes)| {
            assert_eq!(slopes.len(), rows, "coefficients of other rows");
            coefficients.extend(slopes);
            let x = Self::matrix_of(teacher.hidden.of(), rows, teacher.shape.inputs);
            let numbers = statistics.teacher.as_ref().expect("a teacher whose rows are known");
            (teacher, x, numbers)
        });
        let coefficients = self.uploaded(&coefficients);
        let block = self.logits_blocks.columns(shape, rows);
        let logits = self.scratch(4 * rows * block);
        let of_teacher = taught.is_some().then(|| self.scratch(4 * rows * block));
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
            let (numbers, tokens) = (&statistics.numbers, &statistics.targets);
            let (count, temperature) = (columns.len(), statistics.temperature);
            let masks = (UploadedMasks::tokens(kept), UploadedMasks::starts(kept));
            match (&taught, &of_teacher) {
                (Some((teacher, hidden, its_numbers)), Some(its_logits)) => {
                    let (weights, to) = (teacher.weights.of(), its_logits.at(0));
                    self.logits(teacher.shape, columns.clone(), *hidden, weights, to, rows);
                    TAUGHT_LOGIT_GRADIENT.of(self.dtype).launch(
                        &*self.device,
                        Grid::line(rows, THREADS),
                        (
                            logits.at(0),
                            its_logits.at(0),
                            gradient.start,
                            numbers.at(0),
                            its_numbers.at(0),
                            tokens.start(),
                            masks.0,
                            masks.1,
                            coefficients.at(0),
                            temperature,
                            rows,
                            first,
                            count,
                            gradient.stride,
                        ),
                    );
                }
                _ => LOGIT_GRADIENT.of(self.dtype).launch(
                    &*self.device,
                    Grid::line(rows, THREADS),
                    (
                        logits.at(0),
                        gradient.start,
                        numbers.at(0),
                        tokens.start(),
                        masks.0,
                        masks.1,
                        coefficients.at(0),
                        temperature,
                        rows,
                        first,
                        count,
                        gradient.stride,
                    ),
                ),
            }
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
