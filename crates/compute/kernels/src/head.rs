//! The fused head: hidden states to the log-probability of one target per row and the exact entropy
//! of the row's distribution, and back, without the `[rows, vocabulary]` matrix.
//!
//! With `z = logits / temperature`, `m = max z` and `s = sum exp(z - m)`:
//! `logprob = z_y - m - ln s` and `entropy = ln s - sum exp(z - m) (z - m) / s`, in nats.
//!
//! If sampling was truncated to some tokens K, also `log_mass = ln sum_K exp(z - m) - ln s`, the
//! logarithm of the probability that they have together: `logprob - log_mass` is the
//! log-probability under the truncated distribution.
//!
//! [`EntropySlopes`] says how a step along the gradient of a target's log-prob moves the entropy.
//!
//! Beside a teacher's rows ([`TeacherRows`]), also the reverse KL `sum p (ln p - ln q)`, in nats,
//! where q is the teacher's distribution over the policy's vocabulary. The teacher's logits are
//! computed again wherever the policy's are, block by block.

use crate::erased::Buffer;
use crate::linear::{self, Destination, Linear, PANEL};
use crate::math::{EXP_ZERO, exp, ln};
use crate::sampling_masks::SamplingMasks;
use crate::simd::{Isa, Kernel, LANES, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;
use std::sync::Arc;

/// Logits that a CPU holds at a time, in floats.
pub const LOGITS_BLOCK: usize = 32 << 20;

/// The least log-prob that a teacher is taken to give: finite, so that a token that is impossible
/// under both adds nothing to the divergence.
const LEAST_LOGPROB: f32 = -1e30;

/// A teacher's rows in the places of a head's rows.
#[derive(Clone, Copy)]
pub struct TeacherRows<'a> {
    /// The teacher's final hidden states, `[rows, shape.inputs]`, normed.
    pub hidden: &'a Buffer,
    /// The teacher's head.
    pub weights: &'a Buffer,
    /// The shape of the teacher's head, with at least the outputs of the policy's. Outputs beyond
    /// these are left out of the teacher's distribution.
    pub shape: Linear,
}

/// Summary of the distribution that a row of logits gives at a temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// The largest `logit / temperature`.
    pub max: f32,
    /// Natural logarithm of the sum of `exp(logit / temperature - max)`.
    pub log_sum: f32,
    /// Entropy over the vocabulary, in nats.
    pub entropy: f32,
}

impl Distribution {
    /// Reads a whole row of logits. Impossible tokens have -inf; at least one token is possible.
    ///
    /// # Panics
    /// When the processor lacks `isa`.
    pub fn of(isa: Isa, logits: &[f32], temperature: f32) -> Self {
        assert!(isa.is_available(), "this processor does not have {isa}");
        // SAFETY: reads stay within the slice; the instruction set is there.
        let (max, sum, weighted) = unsafe { isa.run(Reduce { logits, temperature }) };
        let log_sum = ln(sum as f32);
        Self { max, log_sum, entropy: log_sum - (weighted / sum) as f32 }
    }

    /// Log-probability of the token with this logit.
    pub fn logprob(&self, logit: f32, temperature: f32) -> f32 {
        (logit / temperature - self.max) - self.log_sum
    }

    /// Logarithm of the probability of all `tokens` together; there is at least one. `logits` is
    /// the whole row. Sums in f64, in the order of the tokens.
    pub(crate) fn log_mass(
        &self,
        isa: Isa,
        logits: &[f32],
        tokens: &[u32],
        temperature: f32,
    ) -> f32 {
        let logits: Vec<f32> = tokens.iter().map(|&token| logits[token as usize]).collect();
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) / temperature;
        let mut weights = vec![0.0; logits.len()];
        softmax_weights(isa, &logits, temperature, largest, &mut weights);
        let log_sum = ln(weights.iter().map(|&weight| f64::from(weight)).sum::<f64>() as f32);
        // The result is finite even if the difference of logits is not.
        ((largest - self.max).max(f32::MIN) + log_sum) - self.log_sum
    }

    /// `p (ln p + H)` of tokens of these log-probs, which is minus the slope of the entropy by a
    /// token's logit over the temperature: how much raising the logit pulls the entropy down.
    fn pulls(&self, isa: Isa, logprobs: &[f32]) -> Vec<f64> {
        let logprobs: Vec<f32> = logprobs.iter().map(|&logprob| logprob.max(EXP_ZERO)).collect();
        let mut p = vec![0.0; logprobs.len()];
        softmax_weights(isa, &logprobs, 1.0, 0.0, &mut p);
        let pull = |(&p, &logprob): (&f32, &f32)| {
            f64::from(p) * (f64::from(logprob) + f64::from(self.entropy))
        };
        p.iter().zip(&logprobs).map(pull).collect()
    }

    /// Mean of [`pulls`](Self::pulls) over the distribution. `logits` is the whole row.
    fn expected_pull(&self, isa: Isa, logits: &[f32], temperature: f32) -> f64 {
        // SAFETY: reads stay within the slice; the backend's instruction set is available.
        unsafe { isa.run(ExpectedPull { distribution: *self, logits, temperature }) }
    }

    /// The expected pull over the distribution of truncated sampling. Sums in f64, in the order of
    /// the tokens.
    fn expected_pull_of(
        &self,
        isa: Isa,
        logits: &[f32],
        kept: Truncated<'_>,
        temperature: f32,
    ) -> f64 {
        let logprob =
            |&token: &u32| self.logprob(logits[token as usize], temperature).max(f32::MIN);
        let logprobs: Vec<f32> = kept.tokens.iter().map(logprob).collect();
        let truncated: Vec<f32> = logprobs.iter().map(|logprob| logprob - kept.log_mass).collect();
        let mut shares = vec![0.0; truncated.len()];
        softmax_weights(isa, &truncated, 1.0, 0.0, &mut shares);
        shares
            .iter()
            .zip(self.pulls(isa, &logprobs))
            .map(|(&share, pull)| f64::from(share) * pull)
            .sum()
    }
}

/// The tokens that truncated sampling keeps of a distribution, and the logarithm of the probability
/// that they have together.
struct Truncated<'a> {
    tokens: &'a [u32],
    log_mass: f32,
}

/// `weights[v] = exp(logits[v] / temperature - max)`: the softmax without its denominator.
pub(crate) fn softmax_weights(
    isa: Isa,
    logits: &[f32],
    temperature: f32,
    max: f32,
    weights: &mut [f32],
) {
    assert_eq!(logits.len(), weights.len());
    // SAFETY: accesses stay within the slices; the backend's instruction set is available.
    unsafe { isa.run(SoftmaxWeights { logits, temperature, max, weights }) }
}

struct SoftmaxWeights<'a> {
    logits: &'a [f32],
    temperature: f32,
    max: f32,
    weights: &'a mut [f32],
}

impl Kernel for SoftmaxWeights<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: both slices have one length.
        unsafe {
            let (temperature, max) = (S::splat(self.temperature), S::splat(self.max));
            vectors!(self.logits.len(), |i, n| {
                let z = S::div(load::<S>(self.logits.as_ptr().add(i), n), temperature);
                store::<S>(self.weights.as_mut_ptr().add(i), exp::<S>(S::sub(z, max)), n);
            });
        }
    }
}

/// Logits whose exponentials are summed in f32, in 16 lanes; the sums of such blocks are added in
/// f64, in order. In f32 alone, the likely tokens of a large vocabulary would swallow thousands of
/// unlikely ones.
const SUM_BLOCK: usize = 512;

struct Reduce<'a> {
    logits: &'a [f32],
    temperature: f32,
}

impl Kernel for Reduce<'_> {
    /// The maximum, the sum of exponentials, and the sum of each times its argument.
    type Output = (f32, f64, f64);

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> (f32, f64, f64) {
        let x = self.logits.as_ptr();
        let len = self.logits.len();
        // SAFETY: reads stay within the slice. Lanes beyond the end hold -inf, an impossible token.
        unsafe {
            let temperature = S::splat(self.temperature);
            let mut largest = S::splat(f32::NEG_INFINITY);
            let whole = len - len % LANES;
            let mut i = 0;
            while i < whole {
                largest = S::max(largest, S::div(S::load(x.add(i)), temperature));
                i += LANES;
            }
            let mut max = S::max_lane(largest);
            for i in whole..len {
                let z = *x.add(i) / self.temperature;
                max = if max > z { max } else { z };
            }
            let m = S::splat(max);
            // An impossible token adds nothing to the entropy; 0 times -inf would be NaN.
            let zero = S::splat(EXP_ZERO);
            let (mut sum, mut weighted) = (0.0, 0.0);
            for first in (0..len).step_by(SUM_BLOCK) {
                let (mut block_sum, mut block_weighted) = (S::splat(0.0), S::splat(0.0));
                let mut i = first;
                while i < (first + SUM_BLOCK).min(whole) {
                    let d = S::max(zero, S::sub(S::div(S::load(x.add(i)), temperature), m));
                    let e = exp::<S>(d);
                    block_sum = S::add(block_sum, e);
                    block_weighted = S::fma(e, d, block_weighted);
                    i += LANES;
                }
                if first + SUM_BLOCK > whole {
                    let mut padded = [f32::NEG_INFINITY; LANES];
                    std::ptr::copy_nonoverlapping(x.add(whole), padded.as_mut_ptr(), len - whole);
                    let d = S::max(zero, S::sub(S::div(S::load(padded.as_ptr()), temperature), m));
                    let e = exp::<S>(d);
                    block_sum = S::add(block_sum, e);
                    block_weighted = S::fma(e, d, block_weighted);
                }
                sum += f64::from(S::sum(block_sum));
                weighted += f64::from(S::sum(block_weighted));
            }
            (max, sum, weighted)
        }
    }
}

struct ExpectedPull<'a> {
    distribution: Distribution,
    logits: &'a [f32],
    temperature: f32,
}

impl ExpectedPull<'_> {
    /// `p^2 (ln p + H)` of each lane.
    #[inline(always)]
    unsafe fn terms<S: Simd>(&self, logits: S::V) -> S::V {
        let Distribution { max, log_sum, entropy } = self.distribution;
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let z = S::div(logits, S::splat(self.temperature));
            let logp = S::sub(S::sub(z, S::splat(max)), S::splat(log_sum));
            let logp = S::max(S::splat(EXP_ZERO), logp);
            let p = exp::<S>(logp);
            S::mul(S::mul(p, p), S::add(logp, S::splat(entropy)))
        }
    }
}

impl Kernel for ExpectedPull<'_> {
    type Output = f64;

    /// The sum of the terms, in blocks as in [`Reduce`].
    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f64 {
        let mut sum = 0.0;
        for block in self.logits.chunks(SUM_BLOCK) {
            let (whole, rest) = block.as_chunks::<LANES>();
            // Lanes beyond the end hold an impossible token, whose term is 0.
            let mut padded = [f32::NEG_INFINITY; LANES];
            padded[..rest.len()].copy_from_slice(rest);
            let last = (!rest.is_empty()).then_some(&padded);
            // SAFETY: reads are of arrays of 16; the caller vouches for the instruction set.
            unsafe {
                let mut of_block = S::splat(0.0);
                for lanes in whole {
                    of_block = S::add(of_block, self.terms::<S>(S::load(lanes.as_ptr())));
                }
                if let Some(lanes) = last {
                    of_block = S::add(of_block, self.terms::<S>(S::load(lanes.as_ptr())));
                }
                sum += f64::from(S::sum(of_block));
            }
        }
        sum
    }
}

/// A row of a teacher's distribution, and the reverse KL to it.
#[derive(Clone, Copy, Default)]
struct TeacherRow {
    /// The largest `logit / temperature`.
    max: f32,
    /// Natural logarithm of the sum of `exp(logit / temperature - max)`.
    log_sum: f32,
    /// `sum p (ln p - ln q)`, in nats.
    divergence: f32,
}

impl TeacherRow {
    /// `logits` and `of_teacher` are whole rows over one vocabulary.
    fn of(
        isa: Isa,
        distribution: Distribution,
        logits: &[f32],
        of_teacher: &[f32],
        temperature: f32,
    ) -> Self {
        let Distribution { max, log_sum, .. } = Distribution::of(isa, of_teacher, temperature);
        let teacher = Self { max, log_sum, divergence: 0.0 };
        assert_eq!(logits.len(), of_teacher.len());
        let kernel = Divergence { distribution, teacher, logits, of_teacher, temperature };
        // SAFETY: both rows have one length; the backend's instruction set is available.
        let divergence = unsafe { isa.run(kernel) } as f32;
        Self { divergence, ..teacher }
    }

    /// Log-probs of the teacher's tokens with these logits.
    #[inline(always)]
    unsafe fn logprobs<S: Simd>(self, logits: S::V, temperature: S::V) -> S::V {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let z = S::sub(S::div(logits, temperature), S::splat(self.max));
            S::max(S::splat(LEAST_LOGPROB), S::sub(z, S::splat(self.log_sum)))
        }
    }
}

struct Divergence<'a> {
    distribution: Distribution,
    teacher: TeacherRow,
    logits: &'a [f32],
    of_teacher: &'a [f32],
    temperature: f32,
}

impl Divergence<'_> {
    /// `p (ln p - ln q)` of each lane.
    #[inline(always)]
    unsafe fn terms<S: Simd>(&self, logits: S::V, of_teacher: S::V) -> S::V {
        let Distribution { max, log_sum, .. } = self.distribution;
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let temperature = S::splat(self.temperature);
            let z = S::div(logits, temperature);
            let logp = S::sub(S::sub(z, S::splat(max)), S::splat(log_sum));
            let logp = S::max(S::splat(EXP_ZERO), logp);
            let logq = self.teacher.logprobs::<S>(of_teacher, temperature);
            S::mul(exp::<S>(logp), S::sub(logp, logq))
        }
    }
}

impl Kernel for Divergence<'_> {
    type Output = f64;

    /// The sum of the terms, in blocks as in [`Reduce`].
    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f64 {
        let mut sum = 0.0;
        let blocks = self.logits.chunks(SUM_BLOCK).zip(self.of_teacher.chunks(SUM_BLOCK));
        for (block, of_teacher) in blocks {
            let (whole, rest) = block.as_chunks::<LANES>();
            let (whole_of_teacher, rest_of_teacher) = of_teacher.as_chunks::<LANES>();
            // Lanes beyond the end hold a token that the policy never draws, whose term is 0.
            let (mut padded, mut of_padded) = ([f32::NEG_INFINITY; LANES], [0.0; LANES]);
            padded[..rest.len()].copy_from_slice(rest);
            of_padded[..rest.len()].copy_from_slice(rest_of_teacher);
            let last = (!rest.is_empty()).then_some((&padded, &of_padded));
            // SAFETY: reads are of arrays of 16; the caller vouches for the instruction set.
            unsafe {
                let mut of_block = S::splat(0.0);
                for (lanes, of_teacher) in whole.iter().zip(whole_of_teacher).chain(last) {
                    let (logits, of_teacher) =
                        (S::load(lanes.as_ptr()), S::load(of_teacher.as_ptr()));
                    of_block = S::add(of_block, self.terms::<S>(logits, of_teacher));
                }
                sum += f64::from(S::sum(of_block));
            }
        }
        sum
    }
}

/// The head's results for each row, in nats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadScores {
    /// Log-prob of the target, `[rows]`.
    pub logprobs: Vec<f32>,
    /// Entropy over the whole vocabulary, `[rows]`.
    pub entropies: Vec<f32>,
    /// Logarithm of the probability of the tokens that the row's mask keeps, `[rows]`, 0 for the
    /// whole vocabulary; empty if no row is masked.
    pub log_masses: Vec<f32>,
}

/// The head's results for rows without a backward pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntropySlopes {
    /// The scores, as in a pass with a backward pass.
    pub scores: HeadScores,
    /// How fast the entropy changes along the gradient of the target's log-prob, both by
    /// `z = logits / temperature`, `[rows]`:
    /// `grad H . grad ln p_y = sum_K q_v p_v (ln p_v + H) - p_y (ln p_y + H)`, where
    /// `q_v = p_v / P` is the distribution that the target is drawn from: over the tokens K that
    /// its mask keeps, of probability P, or over all.
    pub slopes: Vec<f32>,
}

/// Statistics of rows that the head keeps from its forward to its backward pass.
pub struct CpuStatistics {
    targets: Vec<u32>,
    temperature: f32,
    /// Log-prob of each target, until it is read.
    logprobs: Vec<f32>,
    distributions: Vec<Distribution>,
    masks: Arc<SamplingMasks>,
    /// Log-mass of each mask; empty without masks.
    log_masses: Vec<f32>,
    /// The teacher's part of each row; empty without a teacher.
    teacher: Vec<TeacherRow>,
}

impl CpuStatistics {
    /// Bytes for `rows` rows once the log-probs have been read, without the targets and the
    /// teacher's part.
    pub(crate) fn bytes(rows: usize) -> usize {
        rows.saturating_mul(size_of::<Distribution>())
    }

    /// Bytes of the teacher's part.
    pub(crate) fn teacher_bytes(rows: usize) -> usize {
        rows.saturating_mul(size_of::<TeacherRow>())
    }

    /// The reverse KL of each row.
    pub(crate) fn divergences(&self) -> Vec<f32> {
        self.teacher.iter().map(|row| row.divergence).collect()
    }

    /// Log-prob of each target, which is taken out, entropy of each row, and log-mass of each mask.
    pub(crate) fn read(&mut self) -> HeadScores {
        let entropies = self.distributions.iter().map(|d| d.entropy).collect();
        let logprobs = std::mem::take(&mut self.logprobs);
        HeadScores { logprobs, entropies, log_masses: self.log_masses.clone() }
    }
}

/// A teacher's rows as [`TeacherRows`] has them, in the processor's memory.
#[derive(Clone, Copy)]
pub(crate) struct Teacher<'a> {
    pub shape: Linear,
    pub x: &'a [f32],
    pub weights: &'a [f32],
}

impl Teacher<'_> {
    /// Floats of a row of [`logits`](Self::logits).
    fn width(&self, panels: &Range<usize>) -> usize {
        (panels.end * PANEL).min(self.shape.outputs) - panels.start * PANEL
    }

    /// Logits of some of its rows over these panels, `[rows, width]`.
    fn logits(
        &self,
        workers: &Workers,
        panels: Range<usize>,
        rows: Range<usize>,
        logits: &mut [f32],
    ) {
        let (to, x) = (Destination::Replace, &self.x[rows.start * self.shape.inputs..]);
        let (shape, weights, count) = (self.shape, self.weights, rows.len());
        linear::forward_columns(workers, shape, panels, x, weights, None, logits, to, count);
    }
}

/// Log-probability, entropy and distribution of each row, and the probability that its mask keeps;
/// with a teacher, the reverse KL to it. `x: [rows, hidden]` (already normed).
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
pub(crate) fn forward(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    targets: Vec<u32>,
    masks: Arc<SamplingMasks>,
    temperature: f32,
    teacher: Option<Teacher<'_>>,
    logits: &mut [f32],
) -> CpuStatistics {
    let ignore = |_: Isa, _: HeadRow<'_>| ();
    forward_with(workers, shape, x, weights, targets, masks, temperature, teacher, logits, ignore)
}

/// A row of the head, as [`forward_with`] passes it on.
struct HeadRow<'a> {
    number: usize,
    logits: &'a [f32],
    distribution: Distribution,
    /// Log-prob of the target.
    logprob: f32,
    /// The tokens that the row's mask keeps; none if the row has no mask.
    truncated: Option<Truncated<'a>>,
}

/// Like [`forward`], and also calls `also` with each row, on all threads.
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
fn forward_with(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    targets: Vec<u32>,
    masks: Arc<SamplingMasks>,
    temperature: f32,
    teacher: Option<Teacher<'_>>,
    logits: &mut [f32],
    also: impl Fn(Isa, HeadRow<'_>) + Sync,
) -> CpuStatistics {
    let rows = targets.len();
    check_operands(shape, x, &targets, &masks, logits);
    assert!(teacher.is_none_or(|teacher| teacher.shape.outputs >= shape.outputs));
    let mut logprobs = vec![0.0; rows];
    let mut distributions = vec![Distribution { max: 0.0, log_sum: 0.0, entropy: 0.0 }; rows];
    let mut log_masses = vec![0.0; if masks.is_whole() { 0 } else { rows }];
    let mut of_teacher = vec![TeacherRow::default(); if teacher.is_none() { 0 } else { rows }];
    let out_t = Shared::of(&mut of_teacher);
    let (out_p, out_d) = (Shared::of(&mut logprobs), Shared::of(&mut distributions));
    let out_m = Shared::of(&mut log_masses);
    let isa = workers.isa;
    each_row(workers, shape, x, weights, rows, teacher, logits, |r, row, taught| {
        let distribution = Distribution::of(isa, row, temperature);
        let logprob = distribution.logprob(row[targets[r] as usize], temperature);
        let tokens = masks.of(r);
        let truncated = (!tokens.is_empty()).then(|| Truncated {
            tokens,
            log_mass: distribution.log_mass(isa, row, tokens, temperature),
        });
        // SAFETY: rows are disjoint, and there is a log-mass for each row if one is masked, and a
        // teacher's row for each if there is a teacher.
        unsafe {
            *out_p.start().add(r) = logprob;
            *out_d.start().add(r) = distribution;
            if let Some(Truncated { log_mass, .. }) = truncated {
                *out_m.start().add(r) = log_mass;
            }
            if let Some(taught) = taught {
                *out_t.start().add(r) = TeacherRow::of(isa, distribution, row, taught, temperature);
            }
        }
        also(isa, HeadRow { number: r, logits: row, distribution, logprob, truncated });
    });
    let teacher = of_teacher;
    CpuStatistics { targets, temperature, logprobs, distributions, masks, log_masses, teacher }
}

/// The scores of [`forward`] for each row, and the slope of its entropy. `x: [rows, hidden]`
/// (already normed).
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
pub(crate) fn entropy_slopes(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    targets: Vec<u32>,
    masks: Arc<SamplingMasks>,
    temperature: f32,
    logits: &mut [f32],
) -> EntropySlopes {
    let mut slopes = vec![0.0; targets.len()];
    let out = Shared::of(&mut slopes);
    let slope = |isa: Isa, row: HeadRow<'_>| {
        let HeadRow { number, logits, distribution, logprob, truncated } = row;
        let expected = match truncated {
            None => distribution.expected_pull(isa, logits, temperature),
            Some(kept) => distribution.expected_pull_of(isa, logits, kept, temperature),
        };
        // SAFETY: rows are disjoint.
        unsafe {
            *out.start().add(number) = (expected - distribution.pulls(isa, &[logprob])[0]) as f32;
        }
    };
    let mut statistics =
        forward_with(workers, shape, x, weights, targets, masks, temperature, None, logits, slope);
    EntropySlopes { scores: statistics.read(), slopes }
}

fn check_operands(
    shape: Linear,
    x: &[f32],
    targets: &[u32],
    masks: &SamplingMasks,
    logits: &[f32],
) {
    let rows = targets.len();
    assert!(x.len() >= rows * shape.inputs && logits.len() >= forward_workspace(shape, rows));
    assert!(targets.iter().all(|&t| (t as usize) < shape.outputs));
    assert!((0..masks.len()).all(|r| masks.of(r).iter().all(|&t| (t as usize) < shape.outputs)));
}

/// Calls `f` with each row's index, its logits and the teacher's, on all threads.
#[allow(clippy::too_many_arguments, reason = "the operands of one pass")]
fn each_row(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    rows: usize,
    teacher: Option<Teacher<'_>>,
    logits: &mut [f32],
    f: impl Fn(usize, &[f32], Option<&[f32]>) + Sync,
) {
    let block = logits_block_rows(shape, rows);
    let (logits, of_teacher) = logits.split_at_mut(forward_workspace(shape, rows));
    let width = teacher.map_or(0, |teacher| teacher.width(&(0..shape.panels())));
    for first in (0..rows).step_by(block.max(1)) {
        let count = block.min(rows - first);
        let x = &x[first * shape.inputs..];
        linear::forward(workers, shape, x, weights, None, logits, Destination::Replace, count);
        if let Some(teacher) = teacher {
            teacher.logits(workers, 0..shape.panels(), first..first + count, of_teacher);
        }
        let (logits, of_teacher) = (&*logits, &*of_teacher);
        workers.threads.ranges(count, 1, (8192 / shape.outputs).max(1), |range| {
            for r in range {
                let taught = teacher.map(|_| &of_teacher[r * width..][..shape.outputs]);
                f(first + r, &logits[r * shape.outputs..(r + 1) * shape.outputs], taught);
            }
        });
    }
}

/// Rows whose logits are held at a time, at most `rows`.
pub(crate) fn logits_block_rows(shape: Linear, rows: usize) -> usize {
    (LOGITS_BLOCK / shape.outputs.max(1)).max(1).min(rows)
}

/// Floats of workspace that [`forward`] needs.
pub(crate) fn forward_workspace(shape: Linear, rows: usize) -> usize {
    logits_block_rows(shape, rows) * shape.outputs
}

/// Floats of logits that the head holds at a time over `rows` rows, forward or back.
pub(crate) fn workspace(shape: Linear, rows: usize) -> usize {
    forward_workspace(shape, rows).max(backward_workspace(shape, rows))
}

/// Floats of logits beside [`forward_workspace`], of any teacher.
pub(crate) fn teacher_forward_workspace(shape: Linear, rows: usize) -> usize {
    logits_block_rows(shape, rows).saturating_mul(shape.panels() * PANEL)
}

/// Floats of logits beside [`backward_workspace`], of any teacher.
pub(crate) fn teacher_backward_workspace(shape: Linear, rows: usize) -> usize {
    rows.saturating_mul(block_panels(shape, rows) * PANEL)
}

/// Floats of logits that the head holds at a time with a teacher, forward or back.
pub(crate) fn taught_workspace(shape: Linear, rows: usize) -> usize {
    let forward =
        forward_workspace(shape, rows).saturating_add(teacher_forward_workspace(shape, rows));
    let backward =
        backward_workspace(shape, rows).saturating_add(teacher_backward_workspace(shape, rows));
    forward.max(backward)
}

fn block_panels(shape: Linear, rows: usize) -> usize {
    (LOGITS_BLOCK / 2 / rows.max(1).saturating_mul(PANEL)).clamp(1, shape.outputs.div_ceil(PANEL))
}

/// Floats of workspace that [`backward`] needs.
pub(crate) fn backward_workspace(shape: Linear, rows: usize) -> usize {
    rows.saturating_mul((block_panels(shape, rows) * PANEL).min(shape.outputs))
}

/// Inputs of the head's backward pass: statistics, and the loss's derivatives by each row's
/// log-prob, entropy and log-mass. The last may be absent, and is read only for masked rows. With
/// a teacher, also the derivatives by the reverse KL.
#[derive(Clone, Copy)]
pub(crate) struct HeadGradient<'a> {
    pub statistics: &'a CpuStatistics,
    pub d_logprobs: &'a [f32],
    pub d_entropies: &'a [f32],
    pub d_log_masses: &'a [f32],
    pub taught: Option<(Teacher<'a>, &'a [f32])>,
}

impl HeadGradient<'_> {
    /// The mask's own part of the gradient by the logits of consecutive tokens: `c p_v / P /
    /// temperature` of each kept token, with its index among these tokens. `p_v / P` is the
    /// exponential of a difference of f32, so its relative error is about `|ln P| 2^-24`.
    fn of_mask(
        &self,
        isa: Isa,
        r: usize,
        tokens: &Range<usize>,
        logits: &[f32],
    ) -> Vec<(usize, f32)> {
        let CpuStatistics { temperature, distributions, masks, log_masses, .. } = self.statistics;
        let kept = masks.of(r);
        let Some(&c) = self.d_log_masses.get(r).filter(|&&c| c != 0.0 && !kept.is_empty()) else {
            return Vec::new();
        };
        let from = kept.partition_point(|&token| (token as usize) < tokens.start);
        let to = kept.partition_point(|&token| (token as usize) < tokens.end);
        let places = kept[from..to].iter().map(|&token| token as usize - tokens.start);
        let truncated = |at| distributions[r].logprob(logits[at], *temperature) - log_masses[r];
        let logprobs: Vec<f32> = places.clone().map(truncated).collect();
        let mut shares = vec![0.0; logprobs.len()];
        softmax_weights(isa, &logprobs, 1.0, 0.0, &mut shares);
        places.zip(shares).map(|(at, share)| (at, c * share / temperature)).collect()
    }

    /// The part of the mask's coefficient that multiplies every token's probability.
    fn of_mass(&self, r: usize) -> f32 {
        let is_masked = !self.statistics.masks.of(r).is_empty();
        self.d_log_masses.get(r).copied().filter(|_| is_masked).unwrap_or_default()
    }
}

/// `dx` is replaced; `dw`, if it is wanted, continues its chains. Works through the vocabulary in
/// blocks of columns, so that every weight's chain runs over all rows at once. Logits are
/// recomputed, and their gradient lives for one block.
#[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
pub(crate) fn backward(
    workers: &Workers,
    shape: Linear,
    x: &[f32],
    weights: &[f32],
    gradient: HeadGradient<'_>,
    dx: &mut [f32],
    mut dw: Option<&mut [f32]>,
    logits: &mut [f32],
) {
    let HeadGradient { statistics, d_logprobs, d_entropies, d_log_masses, taught } = gradient;
    let rows = statistics.targets.len();
    assert!(logits.len() >= backward_workspace(shape, rows));
    let (logits, of_teacher) = logits.split_at_mut(backward_workspace(shape, rows));
    let has_rows =
        |(_, slopes): (_, &[f32])| statistics.teacher.len() == rows && slopes.len() == rows;
    assert!(taught.is_none_or(has_rows), "a teacher whose rows are known");
    assert!(d_logprobs.len() == rows && d_entropies.len() == rows);
    assert!(d_log_masses.is_empty() || d_log_masses.len() == rows);
    let all = shape.outputs.div_ceil(PANEL);
    let block = block_panels(shape, rows);
    for first in (0..all).step_by(block) {
        let panels = first..(first + block).min(all);
        let tokens = panels.start * PANEL..(panels.end * PANEL).min(shape.outputs);
        let width = tokens.len();
        linear::forward_columns(
            workers,
            shape,
            panels.clone(),
            x,
            weights,
            None,
            logits,
            Destination::Replace,
            rows,
        );
        if let Some((teacher, _)) = taught {
            teacher.logits(workers, panels.clone(), 0..rows, of_teacher);
        }
        let stride = taught.map_or(0, |(teacher, _)| teacher.width(&panels));
        let (shared, of_teacher) = (Shared::of(logits), &*of_teacher);
        workers.threads.ranges(rows, 1, (8192 / width).max(1), |range| {
            for r in range {
                // SAFETY: rows are disjoint.
                let row = unsafe { shared.slice(r * width..(r + 1) * width) };
                let of_mask = gradient.of_mask(workers.isa, r, &tokens, row);
                let taught = taught.map(|_| &of_teacher[r * stride..][..width]);
                // SAFETY: the kernel stays within its row.
                unsafe {
                    workers.isa.run(LogitGradient {
                        gradient,
                        r,
                        tokens: tokens.clone(),
                        row: &mut *row,
                        taught,
                    });
                }
                for (at, of_kept) in of_mask {
                    row[at] += of_kept;
                }
            }
        });
        linear::backward_input(
            workers,
            shape,
            panels.clone(),
            logits,
            weights,
            dx,
            Destination::Replace,
            rows,
            first > 0,
        );
        if let Some(dw) = &mut dw {
            linear::backward_weight(workers, shape, panels, logits, x, dw, rows);
        }
    }
}

struct LogitGradient<'a> {
    gradient: HeadGradient<'a>,
    r: usize,
    tokens: Range<usize>,
    row: &'a mut [f32],
    /// The teacher's logits of the row's tokens.
    taught: Option<&'a [f32]>,
}

impl Kernel for LogitGradient<'_> {
    type Output = ();

    /// With coefficients a (log-prob) and b (entropy):
    /// `dz_v = a (1[v = y] - p_v) - b p_v (ln p_v + H)`, `dlogit = dz / temperature`. With a mask
    /// that keeps K of mass P and a coefficient c (log-mass), also `c (1[v in K] p_v / P - p_v)`.
    /// With a teacher and a coefficient e (reverse KL), also `e p_v (ln p_v - ln q_v - KL)`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { gradient, r, tokens, row, taught } = self;
        let HeadGradient { statistics, d_logprobs, d_entropies, .. } = gradient;
        let (d, temperature) = (statistics.distributions[r], statistics.temperature);
        let (a, b) = (d_logprobs[r], d_entropies[r]);
        let x = row.as_mut_ptr();
        // SAFETY: accesses stay within the row.
        unsafe {
            let divisor = S::splat(temperature);
            let (max, log_sum, entropy) =
                (S::splat(d.max), S::splat(d.log_sum), S::splat(d.entropy));
            let (minus_a, minus_b, zero) =
                (S::splat(-a - gradient.of_mass(r)), S::splat(-b), S::splat(EXP_ZERO));
            vectors!(row.len(), |i, n| {
                let z = S::div(load::<S>(x.add(i), n), divisor);
                let logp = S::max(zero, S::sub(S::sub(z, max), log_sum));
                let p = exp::<S>(logp);
                let mut factor = S::fma(minus_b, S::add(logp, entropy), minus_a);
                if let (Some(taught), Some((_, slopes))) = (taught, gradient.taught) {
                    let teacher = statistics.teacher[r];
                    let logits = load::<S>(taught.as_ptr().add(i), n);
                    let apart = S::sub(logp, teacher.logprobs::<S>(logits, divisor));
                    let apart = S::sub(apart, S::splat(teacher.divergence));
                    factor = S::fma(S::splat(slopes[r]), apart, factor);
                }
                store::<S>(x.add(i), S::div(S::mul(p, factor), divisor), n);
            });
            let target = statistics.targets[r] as usize;
            if tokens.contains(&target) {
                row[target - tokens.start] += a / temperature;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_weights_are_exponentials_on_every_instruction_set() {
        for temperature in [1.0, 0.7] {
            for len in [1usize, 7, 16, 61, 1000] {
                let mut logits: Vec<f32> =
                    (0..len).map(|i| (i * 7919 % 613) as f32 / 10.0 - 30.0).collect();
                logits[len / 2] = f32::NEG_INFINITY;
                logits[len - 1] = 30.0;
                let max = 30.0 / temperature;
                let want: Vec<f64> = logits
                    .iter()
                    .map(|&z| ((f64::from(z) - 30.0) / f64::from(temperature)).exp())
                    .collect();
                let weights_on = |isa: Isa| {
                    let mut weights = vec![f32::NAN; len];
                    softmax_weights(isa, &logits, temperature, max, &mut weights);
                    weights
                };
                let weights = weights_on(Isa::Scalar);
                // An exponent of 85 is rounded to within 4e-6, and its exponential has the same
                // relative error.
                for (&got, &want) in weights.iter().zip(&want) {
                    assert!(
                        (f64::from(got) - want).abs() <= 1e-5 * want,
                        "{got} instead of {want}"
                    );
                }
                let bits =
                    |weights: Vec<f32>| weights.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                for isa in Isa::available() {
                    assert_eq!(bits(weights_on(isa)), bits(weights.clone()), "{isa}");
                }
            }
        }
    }
}
