//! What the responses to a set of problems amount to.

use super::votes;
use crate::group::Response;
use crate::metrics::Metrics;
use isentrope_reward::Verdict;
use serde::{Deserialize, Serialize};

/// What counts of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the verifier found.
    pub verdict: Verdict,
    /// What the verifier gave for it. In the command's files it is the reward, since there are no penalties.
    #[serde(rename = "reward")]
    pub score: f64,
    /// The answer found.
    pub extracted: Option<String>,
    /// Another spelling of the answer, under which it has votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<String>,
    /// Length, in tokens.
    pub tokens: usize,
    /// Whether it was cut off.
    pub truncated: bool,
    /// Mean entropy over its tokens, in nats.
    pub entropy: f64,
}

impl From<&Response> for Outcome {
    fn from(response: &Response) -> Self {
        Self {
            verdict: response.judgement.verdict,
            score: response.judgement.score,
            extracted: response.judgement.extracted.clone(),
            vote: response.vote.clone(),
            tokens: response.tokens.len(),
            truncated: response.truncated,
            entropy: response.entropy(),
        }
    }
}

impl Outcome {
    fn is_correct(&self) -> bool {
        self.verdict == Verdict::Correct
    }

    pub(super) fn counts(&self) -> bool {
        self.verdict.is_scored()
    }
}

/// The share of the responses to a problem that are correct, of those that could be judged; none without any.
pub fn accuracy(responses: &[Outcome]) -> Option<f64> {
    let counted = responses.iter().filter(|r| r.counts()).count();
    let right = responses.iter().filter(|r| r.is_correct()).count();
    (counted > 0).then(|| right as f64 / counted as f64)
}

/// The mean score of the responses to a problem that could be judged; none without any.
pub fn mean_score(responses: &[Outcome]) -> Option<f64> {
    let (sum, count) = Statistic::Score.of(responses);
    (count > 0.0).then(|| sum / count)
}

/// Whether some score is neither 0 nor 1: only then does their mean say more than the share of correct responses.
pub fn is_graded<'a>(responses: impl IntoIterator<Item = &'a Outcome>) -> bool {
    responses.into_iter().any(|r| r.counts() && r.score != 0.0 && r.score != 1.0)
}

/// How a policy did on a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The set.
    pub name: String,
    /// Responses to each problem.
    pub samples: usize,
    /// Mean over problems of the share of correct responses; none where no response could be judged.
    pub mean: Option<f64>,
    /// Mean score of the responses, likewise.
    pub score: Option<f64>,
    /// Whether some score is neither 0 nor 1.
    #[serde(default)]
    pub is_graded: bool,
    /// (k, pass@k) for every power of two up to the number of responses, and that number.
    pub pass: Vec<(usize, f64)>,
    /// Share of problems whose most frequent answer is correct; none where no response could be judged, or the verifier
    /// tells no answers.
    pub majority: Option<f64>,
    /// Mean over responses of the mean entropy of their tokens, in nats.
    pub entropy: f64,
    /// Mean length, in tokens.
    pub length: f64,
    /// Share of responses that were cut off.
    pub truncated: f64,
    /// Share of responses that could not be judged; they are left out of everything above but the entropy and lengths.
    pub faults: f64,
}

impl Evaluation {
    /// Sums up the responses to each problem.
    pub fn of(name: &str, samples: usize, problems: &[Vec<Outcome>]) -> Self {
        let of = |statistic: Statistic| statistic.value(problems);
        Self {
            name: name.to_owned(),
            samples,
            mean: of(Statistic::Mean),
            score: of(Statistic::Score),
            is_graded: is_graded(problems.iter().flatten()),
            pass: ks(samples).into_iter().filter_map(|k| Some((k, of(Statistic::Pass(k))?))).collect(),
            majority: of(Statistic::Majority),
            entropy: of(Statistic::Entropy).unwrap_or(0.0),
            length: of(Statistic::Length).unwrap_or(0.0),
            truncated: of(Statistic::Truncated).unwrap_or(0.0),
            faults: of(Statistic::Faults).unwrap_or(0.0),
        }
    }

    /// Every set's numbers, and the mean of the sets' accuracies where there are several.
    pub(super) fn record_all(evaluations: &[Self], metrics: &mut Metrics) {
        for evaluation in evaluations {
            evaluation.record(metrics);
        }
        if evaluations.len() > 1
            && let Some(mean) = Self::mean_of_sets(evaluations)
        {
            metrics.set("eval/mean_of_sets", mean);
        }
    }

    /// The mean of the sets' accuracies; none where a set has none.
    pub fn mean_of_sets(evaluations: &[Self]) -> Option<f64> {
        let means: Vec<f64> = evaluations.iter().map(|e| e.mean).collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// Under the names of docs/metrics.md; what there is no number for is left out.
    fn record(&self, metrics: &mut Metrics) {
        let Self { name, samples, .. } = self;
        if let Some(mean) = self.mean {
            metrics.set(format!("eval/{name}/mean@{samples}"), mean);
        }
        for (k, value) in &self.pass {
            metrics.set(format!("eval/{name}/pass@{k}"), *value);
        }
        if let Some(majority) = self.majority {
            metrics.set(format!("eval/{name}/maj@{samples}"), majority);
        }
        if let Some(score) = self.score {
            metrics.set(format!("eval/{name}/score"), score);
        }
        metrics.set(format!("eval/{name}/entropy"), self.entropy);
        metrics.set(format!("eval/{name}/length_mean"), self.length);
        metrics.set(format!("eval/{name}/truncated"), self.truncated);
        metrics.set(format!("eval/{name}/faults"), self.faults);
    }
}

/// The k of pass@k: every power of two up to the number of responses, and that number.
pub fn ks(samples: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |k| Some(2 * k)).take_while(|&k| k < samples);
    powers.chain([samples]).collect()
}

/// A number about a set: a sum over problems divided by another sum over problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// mean@k: mean over problems of the share of correct responses.
    Mean,
    /// pass@k.
    Pass(usize),
    /// maj@k: share of problems whose most frequent answer is correct.
    Majority,
    /// Mean score of the responses that could be judged.
    Score,
    /// Share of responses that were cut off.
    Truncated,
    /// Mean length of responses, in tokens.
    Length,
    /// Mean over responses of the mean entropy of their tokens, in nats.
    Entropy,
    /// Share of responses that could not be judged.
    Faults,
}

impl Statistic {
    /// What a problem adds to both sums. Responses that could not be judged add nothing to the first four.
    pub fn of(self, responses: &[Outcome]) -> (f64, f64) {
        let over_responses = |value: &dyn Fn(&Outcome) -> f64| {
            (responses.iter().map(value).sum::<f64>(), responses.len() as f64)
        };
        let share = |yes: bool| f64::from(u8::from(yes));
        let of_problem = |value: Option<f64>| value.map_or((0.0, 0.0), |value| (value, 1.0));
        match self {
            Self::Mean => of_problem(accuracy(responses)),
            Self::Pass(k) => {
                let counted = responses.iter().filter(|r| r.counts()).count();
                let right = responses.iter().filter(|r| r.is_correct()).count();
                of_problem((k <= counted).then(|| pass_at(counted, right, k)))
            }
            Self::Majority => {
                let counted: Vec<&Outcome> = responses.iter().filter(|r| r.counts()).collect();
                let right = votes::winner(&counted).is_some_and(Outcome::is_correct);
                of_problem((!counted.is_empty()).then(|| share(right)))
            }
            Self::Score => {
                let counted: Vec<f64> = responses.iter().filter(|r| r.counts()).map(|r| r.score).collect();
                (counted.iter().sum(), counted.len() as f64)
            }
            Self::Truncated => over_responses(&|r| share(r.truncated)),
            Self::Length => over_responses(&|r| r.tokens as f64),
            Self::Entropy => over_responses(&|r| r.entropy),
            Self::Faults => over_responses(&|r| share(!r.counts())),
        }
    }

    /// The number; none where there is nothing to divide by.
    pub fn value(self, problems: &[Vec<Outcome>]) -> Option<f64> {
        // Entropies are added one by one and not by problem, since the order of additions decides the last bits and
        // metrics of earlier runs were added so.
        let (sum, count) = match self {
            Self::Entropy => {
                let all = || problems.iter().flatten();
                (all().map(|r| r.entropy).sum(), all().count() as f64)
            }
            Self::Majority if !votes::are_told(problems.iter().flatten()) => return None,
            _ => problems.iter().map(|p| self.of(p)).fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d)),
        };
        (count > 0.0).then(|| sum / count)
    }
}

/// Probability that of k responses drawn without replacement from n, c of them correct, one is correct: the unbiased
/// estimate of pass@k (Chen et al., arXiv:2107.03374, equation 1).
pub fn pass_at(n: usize, c: usize, k: usize) -> f64 {
    if n - c < k {
        return 1.0;
    }
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(answer: Option<&str>, verdict: Verdict) -> Outcome {
        Outcome {
            verdict,
            score: f64::from(u8::from(verdict == Verdict::Correct)),
            extracted: answer.map(str::to_owned),
            vote: None,
            tokens: 2,
            truncated: false,
            entropy: 1.0,
        }
    }

    /// Counts the subsets of k responses that hold a correct one.
    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_correct_response() {
        for n in 1..=9usize {
            for c in 0..=n {
                for k in 1..=n {
                    let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == k);
                    let (mut all, mut good) = (0, 0);
                    for subset in subsets {
                        all += 1;
                        good += usize::from(subset & ((1 << c) - 1) != 0);
                    }
                    let expected = f64::from(good as u32) / f64::from(all);
                    assert!((pass_at(n, c, k) - expected).abs() < 1e-12, "{n} {c} {k}");
                }
            }
        }
    }

    #[test]
    fn k_takes_powers_of_two_and_the_number_of_responses() {
        assert_eq!([ks(1), ks(2), ks(6), ks(8)], [vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]);
    }

    #[test]
    fn faults_are_left_out_and_majorities_need_an_answer() {
        let (right, wrong, fault) = (Verdict::Correct, Verdict::Wrong, Verdict::Fault);
        let problems = [
            vec![
                outcome(Some("7"), right),
                outcome(Some("8"), wrong),
                outcome(Some("7"), right),
                outcome(None, fault),
            ],
            vec![
                outcome(None, Verdict::Unparseable),
                outcome(None, Verdict::Unparseable),
                outcome(Some("3"), right),
                outcome(Some("4"), wrong),
            ],
            vec![outcome(None, fault); 4],
        ];
        let evaluation = Evaluation::of("set", 4, &problems);
        assert!((evaluation.mean.unwrap() - (2.0 / 3.0 + 0.25) / 2.0).abs() < 1e-12);
        assert_eq!(evaluation.score, Some(3.0 / 7.0), "over responses");
        assert_eq!(evaluation.majority, Some(1.0), "of the second problem's answers the first given counts");
        assert_eq!(evaluation.pass[2], (4, 1.0), "over the only problem with four verdicts");
        assert_eq!((evaluation.faults, evaluation.entropy), (5.0 / 12.0, 1.0));
        assert_eq!(Evaluation::of("none", 2, &[]).pass, []);
    }

    #[test]
    fn scores_of_any_size_have_a_mean_and_those_of_faults_do_not_count() {
        let scored = |score: f64, verdict| Outcome { score, ..outcome(None, verdict) };
        let right_and_wrong = vec![vec![
            scored(1.0, Verdict::Correct),
            scored(0.0, Verdict::Wrong),
            scored(9.0, Verdict::Fault),
        ]];
        let evaluation = Evaluation::of("set", 3, &right_and_wrong);
        assert_eq!((evaluation.score, evaluation.is_graded), (Some(0.5), false));
        let graded = vec![
            vec![scored(2.5, Verdict::Correct), scored(-1.0, Verdict::Wrong)],
            vec![scored(0.0, Verdict::Unparseable), scored(9.0, Verdict::TimedOut)],
        ];
        let evaluation = Evaluation::of("set", 2, &graded);
        assert_eq!((evaluation.score, evaluation.mean, evaluation.is_graded), (Some(0.5), Some(0.25), true));
    }

    #[test]
    fn what_could_not_be_judged_has_no_numbers_of_verdicts() {
        let fault = Evaluation::of("fault", 2, &vec![vec![outcome(None, Verdict::Fault); 2]; 3]);
        let fine = Evaluation::of("fine", 2, &[vec![outcome(Some("1"), Verdict::Correct); 2]]);
        let names = |evaluations: &[Evaluation]| {
            let mut metrics = Metrics::default();
            Evaluation::record_all(evaluations, &mut metrics);
            metrics.iter().map(|(name, _)| name.to_owned()).collect::<Vec<String>>()
        };
        let always = ["entropy", "length_mean", "truncated", "faults"];
        let of = |set: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("eval/{set}/{name}")).collect()
        };
        assert_eq!(names(std::slice::from_ref(&fault)), of("fault", &always));
        let judged = [&["mean@2", "pass@1", "pass@2", "maj@2", "score"], &always[..]].concat();
        let both = names(&[fine.clone(), fault.clone()]);
        assert_eq!(both, [of("fine", &judged), of("fault", &always)].concat(), "and no mean of sets");
        assert_eq!(names(&[fine.clone(), fine.clone()]).last().unwrap(), "eval/mean_of_sets");
        assert_eq!(Evaluation::mean_of_sets(&[fine, fault]), None);
    }
}
