//! Verdicts and rewards of responses.

use crate::error::Result;
use crate::group::Response;
use isentrope_data::Problem;
use isentrope_reward::{BatchVerifier, Item, Judgement, Overlong, Verdict, overlong_penalty};
use isentrope_rollout::{Completion, FinishReason};

/// A verifier and the penalties that turn its scores into rewards.
pub struct Judge {
    /// Judges responses.
    pub verifier: Box<dyn BatchVerifier>,
    /// The penalty of long responses.
    pub overlong: Overlong,
    /// Longest response, in tokens.
    pub max_tokens: usize,
}

impl Judge {
    /// The responses to each problem, all judged together, with their verdicts and rewards.
    ///
    /// # Errors
    /// [`Error::Verifier`](crate::Error::Verifier) when the verifier can judge nothing any more.
    pub fn responses(&self, sampled: Vec<(&Problem, Vec<Completion>)>) -> Result<Vec<Vec<Response>>> {
        let pairs = || {
            sampled.iter().flat_map(|(problem, completions)| completions.iter().map(move |c| (*problem, c)))
        };
        let batch: Vec<(Item<'_>, &str)> =
            pairs().map(|(problem, c)| (item(problem), c.text.as_deref().unwrap_or_default())).collect();
        let mut judgements = self.verifier.verify_batch(&batch)?.into_iter();
        drop(batch);
        Ok(sampled
            .into_iter()
            .map(|(_, completions)| {
                completions.into_iter().zip(&mut judgements).map(|(c, j)| self.response(c, j)).collect()
            })
            .collect())
    }

    fn response(&self, completion: Completion, judgement: Judgement) -> Response {
        let judgement = with_finite_score(judgement);
        let Overlong { buffer, factor } = self.overlong;
        let penalty = overlong_penalty(completion.tokens.len(), self.max_tokens, buffer, factor);
        Response {
            vote: None,
            reward: judgement.score + penalty,
            text: completion.text.unwrap_or_default(),
            tokens: completion.tokens,
            logprobs: completion.logprobs,
            entropies: completion.entropies,
            truncated: completion.finish_reason == FinishReason::Length,
            judgement,
            slots: completion.slots,
        }
    }
}

/// What the verifier is told of a problem.
pub(crate) fn item(problem: &Problem) -> Item<'_> {
    Item {
        ground_truth: &problem.ground_truth,
        prompt: problem.prompt.question().unwrap_or_default(),
        data_source: &problem.data_source,
        extra_info: &problem.extra_info,
    }
}

/// A score that is no number is the verifier's fault.
fn with_finite_score(judgement: Judgement) -> Judgement {
    if judgement.score.is_finite() {
        return judgement;
    }
    let reason = format!("the verifier's score is {}: it must be a finite number", judgement.score);
    Judgement { verdict: Verdict::Fault, score: 0.0, reason, ..judgement }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;
    use crate::rollout_statistics::RolloutStatistics;
    use isentrope_data::Prompt;
    use isentrope_reward::Verifier;
    use serde_json::Value;

    /// Gives every response the same score.
    struct Constant(f64);

    impl Verifier for Constant {
        fn verify(&self, _: &Item<'_>, _: &str) -> Judgement {
            Judgement { score: self.0, ..Judgement::new(Verdict::Correct, None, "") }
        }
    }

    /// A group of two responses judged with the score.
    fn group(score: f64) -> Group {
        let overlong = Overlong::default();
        let judge = Judge { verifier: Box::new(Constant(score)), overlong, max_tokens: 8 };
        let problem = Problem {
            prompt: Prompt::Text("?".into()),
            ground_truth: Value::Null,
            data_source: String::new(),
            extra_info: Value::Null,
            origin: "made up".into(),
        };
        let completion = Completion {
            tokens: vec![1, 2],
            logprobs: vec![-1.0; 2],
            sampling_logprobs: None,
            entropies: vec![1.0; 2],
            text: Some("!".into()),
            finish_reason: FinishReason::Stop,
            slots: None,
        };
        let sampled = vec![(&problem, vec![completion.clone(), completion])];
        let responses = judge.responses(sampled).unwrap().remove(0);
        Group { step: 1, position: 0, problem, prompt: vec![1], responses, greedy: None }
    }

    #[test]
    fn a_reward_that_is_no_number_is_the_verifiers_fault() {
        for score in [f64::NAN, f64::INFINITY] {
            let group = group(score);
            assert!(group.responses.iter().all(|r| r.judgement.verdict == Verdict::Fault && !r.counts()));
            assert!(!group.informative() && group.accuracy().is_none());
            let mut statistics = RolloutStatistics::default();
            statistics.add(&group);
            let error = statistics.check_faults().unwrap_err().to_string();
            assert!(error.contains("could not judge any of 2 responses (made up: the verifier's score is"));
            assert!(error.contains("look at reward.verifier"), "{error}");
        }
    }

    #[test]
    fn faults_beside_verdicts_are_counted_and_do_not_end_the_run() {
        let mut statistics = RolloutStatistics::default();
        statistics.add(&group(f64::NAN));
        statistics.add(&group(1.0));
        statistics.check_faults().unwrap();
        assert_eq!(statistics.faults().map(|(count, _)| count), Some(2));
        let mut metrics = crate::metrics::Metrics::default();
        statistics.record(&mut metrics);
        assert_eq!(metrics.get("reward/mean"), Some(1.0), "over what could be judged");
        assert_eq!(metrics.get("verdict/fault"), Some(0.5));
    }

    #[test]
    fn a_greedy_response_that_could_not_be_judged_is_no_baseline_and_is_counted() {
        let with_greedy = |score| Group { greedy: group(score).responses.pop(), ..group(1.0) };
        let (judged, faulted) = (with_greedy(0.25), with_greedy(f64::NAN));
        assert_eq!((judged.greedy_reward(), faulted.greedy_reward()), (Some(0.25), None));
        let mut statistics = RolloutStatistics::default();
        statistics.add(&judged);
        assert_eq!(statistics.faults(), None);
        statistics.add(&faulted);
        let (count, first) = statistics.faults().unwrap();
        assert!(count == 1 && first.contains("the verifier's score is NaN"), "{first}");
        let mut metrics = crate::metrics::Metrics::default();
        statistics.record(&mut metrics);
        assert_eq!(metrics.get("verdict/fault"), Some(1.0 / 5.0));
        assert_eq!(metrics.get("verdict/correct"), Some(4.0 / 5.0));
        assert_eq!(metrics.get("rollout/responses"), Some(4.0));
    }
}
