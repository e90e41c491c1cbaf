//! Drawing tokens from rows of hidden states.

use crate::head::{Distribution, LOGITS_BLOCK, logits_block_rows, softmax_weights};
use crate::linear::{self, Destination, Linear};
use crate::math::ln;
use crate::simd::Isa;
use crate::threads::{Shared, Workers};

/// Tokens whose weights are summed before the search for a draw looks at single ones.
const BLOCK: usize = 256;

/// A token to be drawn.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The row of hidden states to draw from. Several draws may name one row.
    pub row: usize,
    /// The distribution it is drawn from.
    pub adjustments: Adjustments,
    /// Tokens for the repetition penalty, in any order, repeats allowed. Not read if the penalty is
    /// 1.
    pub penalised: Vec<u32>,
    /// Whether to return the tokens that top-k, top-p and min-p have kept.
    pub records_kept: bool,
    /// A number in [0, 1), which chooses the token by the cumulative distribution.
    pub uniform: f64,
}

/// The differences between the distribution that tokens are drawn from and the model's own. They
/// are applied in transformers' order: repetition penalty, temperature, top-k, top-p, min-p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustments {
    /// Divides the positive logits, and multiplies the negative ones, of the penalised tokens; 1
    /// changes nothing.
    pub repetition_penalty: f32,
    /// Divisor of the logits; 0 takes the most likely token (the lowest id among equals).
    pub temperature: f32,
    /// Keeps this many most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens that together have this probability; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this many times as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
}

impl Adjustments {
    /// No adjustment besides a temperature above 0: the distribution that log-probs and entropies
    /// refer to.
    pub fn temperature(temperature: f32) -> Self {
        Self { repetition_penalty: 1.0, temperature, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }

    /// Whether some tokens are excluded from being drawn.
    pub fn truncates(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Whether tokens are drawn from another distribution than the model's own at the temperature.
    pub fn departs(&self) -> bool {
        self.truncates() || self.repetition_penalty != 1.0
    }
}

/// A drawn token and its probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// The token's log-probability under the model at the temperature (at 1 for greedy decoding),
    /// in nats.
    pub logprob: f32,
    /// The token's log-probability under the distribution that it was drawn from, if top-k, top-p,
    /// min-p or a repetition penalty changed the distribution.
    pub sampling_logprob: Option<f32>,
    /// Entropy of the model's distribution at that temperature, over the whole vocabulary, in nats.
    pub entropy: f32,
    /// The tokens that could have been drawn, if [asked for](Draw::records_kept) and fewer than the
    /// whole vocabulary.
    pub mask: Option<Box<SamplingMask>>,
}

/// The tokens that top-k, top-p and min-p have kept.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingMask {
    /// The tokens, ascending.
    pub tokens: Vec<u32>,
    /// Logarithm of the kept tokens' total probability, under the model at the temperature, in
    /// nats, with the bits that [`Backend::head`](crate::Backend::head) computes for them.
    pub log_mass: f32,
}

/// Floats of logits held at a time for draws from `rows` rows.
pub(crate) fn workspace(shape: Linear, rows: usize) -> usize {
    logits_block_rows(shape, rows) * shape.outputs
}

/// The largest workspace that a block of any remainder needs.
pub(crate) fn most_workspace(shape: Linear, rows: usize) -> usize {
    rows.saturating_mul(shape.outputs).min(LOGITS_BLOCK)
}

/// One more than the largest row that a draw names.
pub(crate) fn rows(draws: &[Draw]) -> usize {
    draws.iter().map(|draw| draw.row + 1).max().unwrap_or(0)
}

/// A token for each draw, None if the row's logits are not finite. `hidden: [rows, hidden]`;
/// `logits` has [`workspace`] floats.
pub(crate) fn draw(
    workers: &Workers,
    shape: Linear,
    hidden: &[f32],
    weights: &[f32],
    draws: &[Draw],
    logits: &mut [f32],
) -> Vec<Option<Drawn>> {
    let rows = rows(draws);
    let block = logits_block_rows(shape, rows);
    assert!(hidden.len() >= rows * shape.inputs && logits.len() >= workspace(shape, rows));
    let mut order: Vec<usize> = (0..draws.len()).collect();
    order.sort_by_key(|&i| draws[i].row);
    let mut drawn = vec![None; draws.len()];
    for here in order.chunk_by(|&a, &b| draws[a].row / block == draws[b].row / block) {
        let first = draws[here[0]].row / block * block;
        let count = block.min(rows - first);
        let hidden = &hidden[first * shape.inputs..];
        linear::forward(workers, shape, hidden, weights, None, logits, Destination::Replace, count);
        let (out, logits) = (Shared::of(&mut drawn), &*logits);
        workers.threads.each(here.len(), |i| {
            let draw = &draws[here[i]];
            let row = &logits[(draw.row - first) * shape.outputs..][..shape.outputs];
            // SAFETY: the numbers in `order` are distinct, and below the length of `drawn`.
            unsafe { *out.start().add(here[i]) = draw.from_logits(workers.isa, row) };
        });
    }
    drawn
}

impl Draw {
    /// A draw at a temperature, from the whole distribution.
    pub fn at_temperature(temperature: f32, row: usize, uniform: f64) -> Self {
        let adjustments = Adjustments::temperature(temperature);
        Self { row, adjustments, penalised: Vec::new(), records_kept: false, uniform }
    }

    /// Draws from a row of logits; None if they are not finite.
    ///
    /// # Panics
    /// When the processor lacks `isa`.
    pub fn from_logits(&self, isa: Isa, logits: &[f32]) -> Option<Drawn> {
        draw_one(isa, self, logits)
    }
}

fn draw_one(isa: Isa, draw: &Draw, logits: &[f32]) -> Option<Drawn> {
    let adjustments = &draw.adjustments;
    let greedy = adjustments.temperature == 0.0;
    let temperature = if greedy { 1.0 } else { adjustments.temperature };
    let distribution = Distribution::of(isa, logits, temperature);
    if !distribution.max.is_finite()
        || !distribution.log_sum.is_finite()
        || !distribution.entropy.is_finite()
    {
        return None;
    }
    let policy_logits = logits;
    let penalty = adjustments.repetition_penalty;
    let penalised = (penalty != 1.0).then(|| penalise(penalty, logits, &draw.penalised));
    let logits = penalised.as_deref().unwrap_or(logits);

    let mut mask = None;
    let (token, sampling_logprob) = if greedy {
        (likeliest(logits), None)
    } else {
        let max = match &penalised {
            Some(_) => Distribution::of(isa, logits, temperature).max,
            None => distribution.max,
        };
        let mut weights = vec![0.0; logits.len()];
        softmax_weights(isa, logits, temperature, max, &mut weights);
        let (token, logprob) = if adjustments.truncates() {
            let nucleus = keep(adjustments, &weights);
            if draw.records_kept && nucleus.len() < weights.len() {
                let mut tokens: Vec<u32> = nucleus.iter().map(|&(_, token)| token).collect();
                tokens.sort_unstable();
                let log_mass = distribution.log_mass(isa, policy_logits, &tokens, temperature);
                mask = Some(Box::new(SamplingMask { tokens, log_mass }));
            }
            draw_kept(&nucleus, draw.uniform)
        } else {
            draw_from(&weights, draw.uniform)
        };
        (token, adjustments.departs().then_some(logprob))
    };
    Some(Drawn {
        token,
        logprob: distribution.logprob(policy_logits[token as usize], temperature),
        sampling_logprob,
        entropy: distribution.entropy,
        mask,
    })
}

fn penalise(penalty: f32, logits: &[f32], tokens: &[u32]) -> Vec<f32> {
    let mut penalised = logits.to_vec();
    for &token in tokens {
        let token = token as usize;
        let logit = logits[token];
        penalised[token] = if logit > 0.0 { logit / penalty } else { logit * penalty };
    }
    penalised
}

fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Inverts the cumulative distribution over tokens in order of their ids. Sums are in f64, by
/// blocks.
fn draw_from(weights: &[f32], uniform: f64) -> (u32, f32) {
    let sums: Vec<f64> = weights.chunks(BLOCK).map(block_sum).collect();
    let total: f64 = sums.iter().sum();
    let target = uniform * total;
    let mut before = 0.0;
    let mut block = 0;
    while block + 1 < sums.len() && before + sums[block] <= target {
        before += sums[block];
        block += 1;
    }
    // Rounding may leave the target just beyond the end of the last block: then the last possible
    // token is chosen.
    let mut chosen = None;
    for (i, &weight) in weights.iter().enumerate().skip(block * BLOCK).take(BLOCK) {
        if weight > 0.0 {
            chosen = Some(i);
            before += f64::from(weight);
            if before > target {
                break;
            }
        }
    }
    let chosen = chosen.unwrap_or_else(|| last_possible(weights));
    (chosen as u32, log_share(weights[chosen], total))
}

fn block_sum(block: &[f32]) -> f64 {
    let mut partial = [0.0f64; 8];
    for chunk in block.chunks(8) {
        for (sum, &w) in partial.iter_mut().zip(chunk) {
            *sum += f64::from(w);
        }
    }
    partial.iter().sum()
}

fn last_possible(weights: &[f32]) -> usize {
    weights.iter().rposition(|&w| w > 0.0).unwrap_or(0)
}

/// The tokens that top-k, top-p and min-p keep, with their weights, the likeliest first.
fn keep(adjustments: &Adjustments, weights: &[f32]) -> Vec<(f32, u32)> {
    let likelier = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let every_rank = adjustments.top_k == 0 || adjustments.top_k >= weights.len();
    let total: f64 = weights.chunks(BLOCK).map(block_sum).sum();
    let mut least = f32::MIN_POSITIVE;
    if every_rank {
        // The tokens whose weight is below the nucleus's share of the rest, spread evenly over the
        // vocabulary, together weigh less than the rest. So the nucleus is complete without them,
        // and few tokens are left to sort. The likeliest token has weight 1.
        let tail = (1.0 - f64::from(adjustments.top_p)) * total / weights.len() as f64;
        least = least.max((tail * 0.999) as f32).max(adjustments.min_p);
    }
    let mut kept: Vec<(f32, u32)> =
        (0u32..).zip(weights).filter(|&(_, &w)| w >= least).map(|(i, &w)| (w, i)).collect();
    if !every_rank && adjustments.top_k < kept.len() {
        kept.select_nth_unstable_by(adjustments.top_k - 1, likelier);
        kept.truncate(adjustments.top_k);
    }
    kept.sort_unstable_by(likelier);
    if adjustments.top_p < 1.0 {
        let mass = if every_rank { total } else { kept.iter().map(|&(w, _)| f64::from(w)).sum() };
        let wanted = f64::from(adjustments.top_p) * mass;
        let mut sum = 0.0;
        let nucleus = kept.iter().position(|&(w, _)| {
            sum += f64::from(w);
            sum >= wanted
        });
        kept.truncate(nucleus.map_or(kept.len(), |last| last + 1));
    }
    if let Some(&(likeliest, _)) = kept.first() {
        kept.truncate(kept.partition_point(|&(w, _)| w >= adjustments.min_p * likeliest));
    }
    kept
}

/// Draws among tokens with their weights.
fn draw_kept(kept: &[(f32, u32)], uniform: f64) -> (u32, f32) {
    let ordered: Vec<f32> = kept.iter().map(|&(w, _)| w).collect();
    let (place, logprob) = draw_from(&ordered, uniform);
    (kept[place as usize].1, logprob)
}

fn log_share(weight: f32, total: f64) -> f32 {
    ln(weight) - ln(total as f32)
}
