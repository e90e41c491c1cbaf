//! Verdicts and rewards of responses.

use crate::error::{Error, Result};
use crate::response::Response;
use crate::sequence::{Completion, FinishReason};
use isentrope_data::Problem;
use isentrope_reward::{
    Item, Judgement, Overlong, Verdict, Verifier, VerifierSettings, overlong_penalty,
};
use isentrope_trace::span;

/// A verifier and the penalties that turn its scores into rewards.
pub struct Judge {
    /// Judges responses.
    pub verifier: Box<dyn Verifier>,
    /// The penalty of long responses.
    pub overlong: Overlong,
    /// Longest response, in tokens; to a prompt that leaves less of the context, a response of that
    /// length.
    pub max_tokens: usize,
}

impl Judge {
    /// Judges responses, each to its problem, as one batch: with verdicts and rewards, in the order
    /// of the batch. Where an environment has rewarded an episode, or failed at it, the verifier is
    /// not asked; of any other episode it is shown the last turn. A verifier of groups gets the
    /// last turns of all a group's episodes together.
    pub fn responses(&self, sampled: Vec<(&Problem, Completion)>) -> Result<Vec<Response>> {
        if sampled.is_empty() {
            return Ok(Vec::new());
        }
        let known: Vec<Option<Judgement>> = sampled
            .iter()
            .map(|(_, completion)| completion.episode.as_ref()?.judgement())
            .collect();
        let asked = sampled.iter().zip(&known).filter(|(_, known)| known.is_none());
        let batch: Vec<(Item<'_>, &str)> = asked
            .map(|((problem, completion), _)| {
                let of_episode = completion.episode.as_ref().map(|episode| &*episode.last_turn);
                let text = of_episode.or(completion.text.as_deref());
                (verifier_item(problem), text.unwrap_or_default())
            })
            .collect();
        let mut verdicts = Vec::new().into_iter();
        if !batch.is_empty() {
            let _span = span("verify").with("responses", batch.len());
            verdicts = self.verifier.verify_batch(&batch)?.into_iter();
        }
        drop(batch);
        let none = || Judgement::new(Verdict::Fault, None, "the verifier has given no verdict");
        let judged = sampled.into_iter().zip(known).map(|((_, completion), known)| {
            let mut judgement = known.unwrap_or_else(|| verdicts.next().unwrap_or_else(none));
            if let Some(episode) = &completion.episode {
                judgement.metrics.extend(episode.metrics.clone());
            }
            self.rewarded(completion, judgement)
        });
        Ok(judged.collect())
    }

    fn rewarded(&self, completion: Completion, judgement: Judgement) -> Response {
        let judgement = match judgement.score.is_finite() {
            true => judgement,
            false => unjudged(judgement),
        };
        let Overlong { buffer, factor } = self.overlong;
        let longest = self.max_tokens.min(completion.room);
        let penalty = overlong_penalty(completion.tokens.len(), longest, buffer, factor);
        let episode = completion.episode.unwrap_or_default();
        Response {
            vote: None,
            reward: judgement.score + penalty,
            text: completion.text.unwrap_or_default(),
            tokens: completion.tokens,
            given: completion.given,
            given_text: episode.given_text,
            logprobs: completion.logprobs,
            entropies: completion.entropies,
            masks: completion.masks,
            truncated: completion.finish_reason == FinishReason::Length,
            out_of_turns: episode.out_of_turns,
            judgement,
            activation_slots: completion.activation_slots,
        }
    }
}

/// The part of a problem that the verifier sees.
pub fn verifier_item(problem: &Problem) -> Item<'_> {
    Item {
        ground_truth: &problem.ground_truth,
        prompt: problem.prompt.question().unwrap_or_default(),
        data_source: &problem.data_source,
        extra_info: &problem.extra_info,
        messages: problem.prompt.messages(),
        columns: Some(&problem.columns),
    }
}

/// Checks what a problem's row alone cannot tell: whether the verifier has a judge for the
/// problem's data source, and whether that judge can use the ground truth.
pub fn check_problem(problem: &Problem, verifier: &VerifierSettings) -> Result<()> {
    let Problem { ground_truth, data_source, origin, .. } = problem;
    let wrong = |what: String| Error::Problem { origin: origin.clone(), what };
    verifier.check_data_source(data_source).map_err(wrong)?;
    verifier
        .check_ground_truth(ground_truth, data_source)
        .map_err(|what| wrong(format!("{what}; choose another reward.verifier")))
}

/// Settles what responses to a problem are worth at which the verifier
/// [failed](Judgement::failed), or to which alone it does not apply: no more than the worst of the
/// others, so that none gains by it. Where it failed at all of several, the problem may be the
/// cause, and they are not judged.
pub fn settle_failures(responses: &mut [&mut Response]) {
    let are_several = responses.len() > 1;
    let judged = responses.iter().filter(|r| r.is_judged() && !r.judgement.failed);
    let least = judged.map(|response| response.judgement.score.min(0.0)).reduce(f64::min);
    let is_left_out = |judgement: &Judgement| judgement.failed || !judgement.applies;
    for response in responses.iter_mut().filter(|response| is_left_out(&response.judgement)) {
        let judgement = &mut response.judgement;
        match least {
            Some(least) => {
                response.reward += least; // which was the penalty alone
                (judgement.verdict, judgement.score) = (Verdict::Unparseable, least);
                (judgement.failed, judgement.applies) = (true, true);
            }
            None if are_several => (judgement.verdict, judgement.failed) = (Verdict::Fault, false),
            None => {}
        }
    }
}

/// A score that is not finite is a fault of the verifier.
fn unjudged(judgement: Judgement) -> Judgement {
    let reason = format!("the verifier's score is {}: it must be a finite number", judgement.score);
    Judgement { verdict: Verdict::Fault, score: 0.0, reason, ..judgement }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::VerifierName;
    use isentrope_run::tokens::GivenRanges;

    fn judge() -> Judge {
        let overlong = Overlong { buffer: 4, factor: 1.0 };
        Judge { verifier: Box::new(VerifierName::Math), overlong, max_tokens: 100 }
    }

    fn judged(tokens: usize, room: usize, judgement: Judgement) -> Response {
        let completion = Completion {
            tokens: vec![1; tokens],
            logprobs: vec![-1.0; tokens],
            sampling_logprobs: None,
            entropies: vec![1.0; tokens],
            masks: None,
            given: GivenRanges::default(),
            text: None,
            finish_reason: FinishReason::Length,
            room,
            activation_slots: None,
            episode: None,
        };
        judge().rewarded(completion, judgement)
    }

    /// Scores of a group's responses, what they are worth in the end, and their verdicts.
    #[test]
    fn who_makes_the_verifier_fail_gains_nothing_by_it() {
        let settled = |judgements: &[Judgement]| {
            // Half of the longest penalty.
            let mut responses: Vec<Response> =
                judgements.iter().map(|judgement| judged(8, 10, judgement.clone())).collect();
            settle_failures(&mut responses.iter_mut().collect::<Vec<_>>());
            let of = |r: Response| (r.reward + 0.5, r.judgement.verdict, r.judgement.failed);
            responses.into_iter().map(of).collect::<Vec<_>>()
        };
        let scored = |score| Judgement { score, ..Judgement::new(Verdict::Wrong, None, "") };
        let (failed, fault) =
            (Judgement::failed("it ends"), Judgement::new(Verdict::Fault, None, ""));
        let (worst, masked) = (Verdict::Unparseable, (0.0, Verdict::Fault, false));
        assert_eq!(settled(&[scored(0.5), failed.clone()])[1], (0.0, worst, true));
        let below = settled(&[failed.clone(), scored(-2.0), scored(1.0), failed.clone()]);
        assert_eq!([below[0], below[3]], [(-2.0, worst, true); 2]);
        assert_eq!([below[1].0, below[2].0], [-2.0, 1.0]);
        let none = || Judgement::inapplicable("it returned None");
        assert_eq!(settled(&[none(), scored(0.5)])[0], (0.0, worst, true));
        assert_eq!(settled(&[none(), none()]), [masked; 2]);
        assert_eq!(settled(&[failed.clone(), failed.clone()]), [masked; 2]);
        assert_eq!(settled(&[failed.clone(), fault]), [masked; 2]);
        assert_eq!(settled(&[failed]), [(0.0, worst, true)], "nothing to compare it with");
    }

    #[test]
    fn penalties_are_measured_from_the_context_and_scores_are_finite() {
        let wrong = || Judgement::new(Verdict::Wrong, None, "");
        let reward = |tokens, room| judged(tokens, room, wrong()).reward;
        assert_eq!([reward(10, 10), reward(8, 10), reward(6, 10)], [-1.0, -0.5, 0.0]);
        assert_eq!([reward(100, 300), reward(98, 300), reward(96, 300)], [-1.0, -0.5, 0.0]);
        for score in [f64::NAN, f64::INFINITY] {
            let response = judged(1, 10, Judgement { score, ..wrong() });
            assert!(response.judgement.verdict == Verdict::Fault && !response.is_judged());
            assert!(response.judgement.reason.starts_with("the verifier's score is "));
        }
    }
}
