//! The loss of an implicit process reward model, and how well it separates right from wrong
//! (arXiv:2502.01456, arXiv:2412.01981).
//!
//! Its score of a response, or of a response's prefix, is s = beta sum_t (log pi_phi - log pi_ref)
//! over the tokens, and sigmoid(s) the probability that it gives to a correct verdict.

use std::collections::BTreeMap;

/// A minibatch's loss, and its derivatives for the process model.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessLoss {
    /// Mean cross-entropy of the responses, nats.
    pub loss: f64,
    /// Derivative of the loss by log pi_phi of each token, `[tokens]`: the same for all tokens of a
    /// response.
    pub d_logprobs: Vec<f64>,
}

/// Cross-entropy of sigmoid(s) against the verdict, mean over responses. `lengths` are the
/// responses' tokens, `log_ratios` have log pi_phi - log pi_ref of each, in nats, `[tokens]` end to
/// end; `correct` has for each response whether it is right.
///
/// PyTorch's `binary_cross_entropy`, which the published code takes, bounds each cross-entropy at
/// 100; here nothing does.
///
/// # Panics
/// When the arrays' lengths disagree.
pub fn process_loss(
    beta: f64,
    lengths: &[usize],
    log_ratios: &[f64],
    correct: &[bool],
) -> ProcessLoss {
    assert_eq!(lengths.len(), correct.len(), "one verdict per response");
    assert_eq!(lengths.iter().sum::<usize>(), log_ratios.len(), "one log-ratio per token");
    let responses = lengths.len().max(1) as f64;
    let (mut sum, mut d_logprobs) = (0.0, Vec::with_capacity(log_ratios.len()));
    let mut rest = log_ratios;
    for (&length, &correct) in lengths.iter().zip(correct) {
        let (own, others) = rest.split_at(length);
        rest = others;
        let score = score(beta, own);
        sum += cross_entropy(score, correct);
        let slope = beta * (sigmoid(score) - f64::from(u8::from(correct))) / responses;
        d_logprobs.extend(std::iter::repeat_n(slope, length));
    }
    ProcessLoss { loss: sum / responses, d_logprobs }
}

fn score(beta: f64, log_ratios: &[f64]) -> f64 {
    beta * log_ratios.iter().sum::<f64>()
}

fn sigmoid(x: f64) -> f64 {
    let small = libm::exp(-x.abs()); // of what cannot overflow
    if x >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

fn cross_entropy(score: f64, correct: bool) -> f64 {
    let against = if correct { -score } else { score };
    against.max(0.0) + libm::log1p(libm::exp(-against.abs()))
}

/// A response as the process model sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScoredResponse<'a> {
    /// Its prompt.
    pub group: usize,
    /// Its verdict.
    pub correct: bool,
    /// log pi_phi - log pi_ref of its tokens, nats.
    pub log_ratios: &'a [f64],
}

/// How well a process model separates right responses from wrong ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discernment {
    /// Mean cross-entropy of the responses, nats.
    pub loss: f64,
    /// Share of responses whose score is positive if they are right and negative if they are wrong.
    /// A score of 0 counts half.
    pub accuracy: f64,
    /// Expected calibration error: of ten equal ranges of sigmoid(s), the distance of the mean of
    /// sigmoid(s) from the share of right responses, weighted by their responses.
    pub calibration_error: f64,
    /// Area under the ROC curve of the scores: how often a right response has a higher score than a
    /// wrong one, equal ones counting half. None if there is only one kind.
    pub auc: Option<f64>,
    /// `auc` over the pairs of responses to one prompt, of all prompts.
    pub auc_within_prompts: Option<f64>,
    /// `auc` of the scores of responses' prefixes: their first 25, 50 and 75 % of tokens, rounded
    /// up.
    pub auc_first: [Option<f64>; 3],
}

/// Ranges of sigmoid(s) in the calibration error.
const RANGES: usize = 10;

impl Discernment {
    /// Names in metrics.
    pub const METRICS: [&str; 8] = [
        "prime/loss",
        "prime/accuracy",
        "prime/calibration_error",
        "prime/auc",
        "prime/auc_within_prompts",
        "prime/auc_first_25_percent",
        "prime/auc_first_50_percent",
        "prime/auc_first_75_percent",
    ];

    /// Measures these responses; nothing without responses.
    pub fn of(beta: f64, responses: &[ScoredResponse<'_>]) -> Option<Self> {
        if responses.is_empty() {
            return None;
        }
        let count = responses.len() as f64;
        let scores = |quarters: usize| -> Vec<f64> {
            let beginning = |r: &ScoredResponse<'_>| {
                score(beta, &r.log_ratios[..(r.log_ratios.len() * quarters).div_ceil(4)])
            };
            responses.iter().map(beginning).collect()
        };
        let whole = scores(4);
        let judged =
            || whole.iter().zip(responses).map(|(&score, response)| (score, response.correct));
        let agreement = |(score, correct): (f64, bool)| match score {
            0.0 => 0.5,
            _ => f64::from(u8::from((score > 0.0) == correct)),
        };
        let all = |scores: &[f64]| {
            Pairs::of(
                scores.iter().zip(responses).map(|(&score, response)| (score, response.correct)),
            )
            .auc()
        };
        let mut groups: BTreeMap<usize, Vec<(f64, bool)>> = BTreeMap::new();
        for ((score, correct), response) in judged().zip(responses) {
            groups.entry(response.group).or_default().push((score, correct));
        }
        let within = groups
            .into_values()
            .map(|group| Pairs::of(group.into_iter()))
            .fold(Pairs::default(), Pairs::add);
        Some(Self {
            loss: judged().map(|(score, correct)| cross_entropy(score, correct)).sum::<f64>()
                / count,
            accuracy: judged().map(agreement).sum::<f64>() / count,
            calibration_error: calibration_error(judged()),
            auc: all(&whole),
            auc_within_prompts: within.auc(),
            auc_first: [1, 2, 3].map(|quarters| all(&scores(quarters))),
        })
    }

    /// Names and values of metrics, without those that are not defined.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let [first_25, first_50, first_75] = self.auc_first;
        let always = [self.loss, self.accuracy, self.calibration_error].map(Some);
        let areas = [self.auc, self.auc_within_prompts, first_25, first_50, first_75];
        Self::METRICS
            .into_iter()
            .zip(always.into_iter().chain(areas))
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Pairs of a right and a wrong response.
#[derive(Clone, Copy, Default)]
struct Pairs {
    all: f64,
    /// Pairs in which the right response has the higher score; a pair of equal scores counts half.
    told: f64,
}

impl Pairs {
    /// Counts pairs by rank: for each right response, the wrong ones with a lower score.
    fn of(responses: impl Iterator<Item = (f64, bool)>) -> Self {
        let mut sorted: Vec<(f64, bool)> = responses.collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut told, mut right, mut wrong) = (0.0, 0.0, 0.0);
        for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
            let rights = equal.iter().filter(|(_, correct)| *correct).count() as f64;
            let wrongs = equal.len() as f64 - rights;
            told += rights * (wrong + 0.5 * wrongs);
            right += rights;
            wrong += wrongs;
        }
        Self { all: right * wrong, told }
    }

    fn add(self, other: Self) -> Self {
        Self { all: self.all + other.all, told: self.told + other.told }
    }

    fn auc(self) -> Option<f64> {
        (self.all > 0.0).then(|| self.told / self.all)
    }
}

fn calibration_error(judged: impl Iterator<Item = (f64, bool)>) -> f64 {
    // The sum of sigmoid(s) less the number of right responses, of each range.
    let (mut off, mut count) = ([0.0; RANGES], 0.0);
    for (score, correct) in judged {
        let probability = sigmoid(score);
        let range = ((probability * RANGES as f64) as usize).min(RANGES - 1);
        off[range] += probability - f64::from(u8::from(correct));
        count += 1.0;
    }
    off.iter().map(|off| off.abs()).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_beyond_exponentials_have_a_loss_all_the_same() {
        let certain = |score: f64, correct| process_loss(1.0, &[1], &[score], &[correct]);
        assert_eq!(certain(2000.0, false), ProcessLoss { loss: 2000.0, d_logprobs: vec![1.0] });
        assert_eq!(certain(-2000.0, true), ProcessLoss { loss: 2000.0, d_logprobs: vec![-1.0] });
        assert_eq!(certain(2000.0, true), ProcessLoss { loss: 0.0, d_logprobs: vec![0.0] });
        assert_eq!(process_loss(1.0, &[], &[], &[]), ProcessLoss { loss: 0.0, d_logprobs: vec![] });
    }

    #[test]
    fn a_model_that_has_not_learnt_yet_knows_nothing() {
        let responses = [(0, true), (0, false), (1, false)]
            .map(|(group, correct)| ScoredResponse { group, correct, log_ratios: &[0.0, 0.0] });
        let discernment = Discernment::of(0.05, &responses).unwrap();
        assert!((discernment.loss - std::f64::consts::LN_2).abs() < 1e-15);
        assert_eq!((discernment.accuracy, discernment.auc), (0.5, Some(0.5)));
        assert!((discernment.calibration_error - (0.5 - 1.0 / 3.0)).abs() < 1e-15);
        assert_eq!(Discernment::of(0.05, &[]), None);
        let same = Discernment::of(0.05, &responses[1..]).unwrap();
        assert_eq!((same.auc, same.auc_within_prompts, same.metrics().count()), (None, None, 3));
    }
}
