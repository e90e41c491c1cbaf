//! One draw from one row of logits.

use crate::sampling::Sampling;
use isentrope_kernels::Backend;

/// Tokens whose weights are summed before the search for a draw looks at single ones.
const BLOCK: usize = 256;

/// A token and what the policy thought of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Its log-probability under the model at the temperature, in nats.
    pub logprob: f32,
    /// Its log-probability under the distribution it was drawn from, where top-k, top-p, min-p or a repetition
    /// penalty make that another one.
    pub sampling_logprob: Option<f32>,
    /// Entropy of the model's distribution at the temperature, over the whole vocabulary, in nats.
    pub entropy: f32,
}

/// Draws a token by a uniform number in [0, 1); `context` is the prompt and the response so far. None when the logits
/// are not finite.
///
/// The order of adjustments is transformers': repetition penalty, temperature, top-k, top-p, min-p.
pub(crate) fn draw<B: Backend>(
    backend: &B,
    sampling: &Sampling,
    logits: &[f32],
    context: impl Iterator<Item = u32>,
    uniform: f64,
) -> Option<Drawn> {
    let temperature = sampling.policy_temperature();
    let distribution = backend.distribution(logits, temperature);
    if !distribution.max.is_finite() || !distribution.log_sum.is_finite() || !distribution.entropy.is_finite()
    {
        return None;
    }
    let policy_logits = logits;
    let penalised = (sampling.repetition_penalty != 1.0).then(|| penalise(sampling, logits, context));
    let logits = penalised.as_deref().unwrap_or(logits);

    let (token, sampling_logprob) = if sampling.temperature == 0.0 {
        (greedy(logits), None)
    } else {
        let max = match &penalised {
            Some(_) => backend.distribution(logits, temperature).max,
            None => distribution.max,
        };
        let mut weights = vec![0.0; logits.len()];
        backend.softmax_weights(logits, temperature, max, &mut weights);
        let (token, logprob) = if sampling.truncates() {
            draw_truncated(sampling, &weights, uniform)
        } else {
            draw_from(&weights, uniform)
        };
        (token, sampling.departs().then_some(logprob))
    };
    Some(Drawn {
        token,
        logprob: distribution.logprob(policy_logits[token as usize], temperature),
        sampling_logprob,
        entropy: distribution.entropy,
    })
}

fn penalise(sampling: &Sampling, logits: &[f32], context: impl Iterator<Item = u32>) -> Vec<f32> {
    let mut penalised = logits.to_vec();
    for token in context {
        let token = token as usize;
        let logit = logits[token];
        let penalty = sampling.repetition_penalty;
        penalised[token] = if logit > 0.0 { logit / penalty } else { logit * penalty };
    }
    penalised
}

fn greedy(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Inverts the cumulative distribution over tokens in order of their ids. Sums are in f64, by blocks.
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
    // Rounding may leave the target just beyond the last block's end: the last possible token then stands in.
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

/// Draws among the tokens that top-k, top-p and min-p keep, the likeliest first.
fn draw_truncated(sampling: &Sampling, weights: &[f32], uniform: f64) -> (u32, f32) {
    let likelier = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let every_rank = sampling.top_k == 0 || sampling.top_k >= weights.len();
    let total: f64 = weights.chunks(BLOCK).map(block_sum).sum();
    let mut least = f32::MIN_POSITIVE;
    if every_rank {
        // Tokens below the nucleus's share of the rest, spread over the vocabulary, have less than the rest together: the
        // nucleus is complete without them, and sorting few tokens is cheap. The likeliest token has weight 1.
        let tail = (1.0 - f64::from(sampling.top_p)) * total / weights.len() as f64;
        least = least.max((tail * 0.999) as f32).max(sampling.min_p);
    }
    let mut kept: Vec<(f32, u32)> =
        (0u32..).zip(weights).filter(|&(_, &w)| w >= least).map(|(i, &w)| (w, i)).collect();
    if !every_rank && sampling.top_k < kept.len() {
        kept.select_nth_unstable_by(sampling.top_k - 1, likelier);
        kept.truncate(sampling.top_k);
    }
    kept.sort_unstable_by(likelier);
    if sampling.top_p < 1.0 {
        let mass = if every_rank { total } else { kept.iter().map(|&(w, _)| f64::from(w)).sum() };
        let wanted = f64::from(sampling.top_p) * mass;
        let mut sum = 0.0;
        let nucleus = kept.iter().position(|&(w, _)| {
            sum += f64::from(w);
            sum >= wanted
        });
        kept.truncate(nucleus.map_or(kept.len(), |last| last + 1));
    }
    if let Some(&(likeliest, _)) = kept.first() {
        kept.truncate(kept.partition_point(|&(w, _)| w >= sampling.min_p * likeliest));
    }
    let ordered: Vec<f32> = kept.iter().map(|&(w, _)| w).collect();
    let (place, logprob) = draw_from(&ordered, uniform);
    (kept[place as usize].1, logprob)
}

fn log_share(weight: f32, total: f64) -> f32 {
    isentrope_kernels::ln(weight) - isentrope_kernels::ln(total as f32)
}
