//! Advantages of a rollout's responses. Responses that could not be judged have none.

use crate::group::Group;
use isentrope_objective::{Estimator, ObjectiveSettings, Outcome, advantages};
use isentrope_rollout::Response;
use isentrope_run::tokens::Advantages;

/// The advantages of each response of each group, for an estimator that gives all tokens of a
/// response the same advantage. A response has none if it could not be judged, or if its group has
/// no [baseline](Group::has_baseline) to compare it with, since other responses could not be
/// judged.
pub fn group_advantages(
    settings: &ObjectiveSettings,
    groups: &[Group],
) -> Vec<Vec<Option<Advantages>>> {
    let estimator = settings.advantage;
    let values = advantages(settings, &outcomes(estimator, groups));
    by_group(estimator, groups, values.into_iter().map(Advantages::Same))
}

/// A response that has advantages.
pub(crate) struct ComparedResponse<'a> {
    /// The number of the response's group, and the response's number in it.
    pub place: (usize, usize),
    pub group: &'a Group,
    pub response: &'a Response,
}

/// The responses that have advantages. All others could not be judged, or their group has no
/// [baseline](Group::has_baseline) to compare them with, since other responses could not be judged.
/// An estimator that does not read rewards takes all responses.
pub(crate) fn compared(
    estimator: Estimator,
    groups: &[Group],
) -> impl Iterator<Item = ComparedResponse<'_>> {
    let having = groups
        .iter()
        .enumerate()
        .filter(move |(_, group)| group.has_baseline(estimator.baseline()));
    having.flat_map(move |(number, group)| {
        let counts = move |response: &Response| response.is_judged() || !estimator.reads_rewards();
        let counted =
            group.responses.iter().enumerate().filter(move |(_, response)| counts(response));
        counted.map(move |(sample, response)| ComparedResponse {
            place: (number, sample),
            group,
            response,
        })
    })
}

/// How the [compared] responses came out.
pub(crate) fn outcomes(estimator: Estimator, groups: &[Group]) -> Vec<Outcome> {
    let outcome = |ComparedResponse { place, group, response }: ComparedResponse<'_>| Outcome {
        group: place.0,
        reward: response.reward,
        tokens: response.sampled_tokens(),
        greedy_reward: group.greedy_reward().unwrap_or_default(), // there wherever it is read
    };
    compared(estimator, groups).map(outcome).collect()
}

/// Gives each [compared] response its advantages, in their order.
pub(crate) fn by_group(
    estimator: Estimator,
    groups: &[Group],
    advantages: impl Iterator<Item = Advantages>,
) -> Vec<Vec<Option<Advantages>>> {
    let none = |group: &Group| group.responses.iter().map(|_| None).collect();
    let mut all: Vec<Vec<Option<Advantages>>> = groups.iter().map(none).collect();
    for (ComparedResponse { place: (number, sample), .. }, its) in
        compared(estimator, groups).zip(advantages)
    {
        all[number][sample] = Some(its);
    }
    all
}

/// The advantages of the responses that are trained on. With `mask_truncated`, truncated responses
/// are not.
pub fn trained_advantages<'a>(
    groups: &[Group],
    advantages: &'a [Vec<Option<Advantages>>],
    mask_truncated: bool,
) -> Vec<Vec<Option<&'a Advantages>>> {
    let of_group = |(group, advantages): (&Group, &'a Vec<Option<Advantages>>)| {
        let responses = group.responses.iter().zip(advantages);
        let learns = |response: &Response| !is_masked(response, mask_truncated);
        responses
            .map(|(response, advantages)| advantages.as_ref().filter(|_| learns(response)))
            .collect()
    };
    groups.iter().zip(advantages).map(of_group).collect()
}

/// Whether a response is left out of the loss because it was truncated.
pub(crate) fn is_masked(response: &Response, mask_truncated: bool) -> bool {
    mask_truncated && response.truncated
}

/// The share of groups without signal: no response that is trained on has an advantage other than
/// 0, nor, if `is_taught`, the exact divergence from a teacher. None without groups.
pub fn share_without_signal(learnt: &[Vec<Option<&Advantages>>], is_taught: bool) -> Option<f64> {
    let has_none = |group: &&Vec<Option<&Advantages>>| {
        group.iter().flatten().all(|advantages| !is_taught && advantages.are_zero())
    };
    let count = learnt.iter().filter(has_none).count();
    (!learnt.is_empty()).then(|| count as f64 / learnt.len() as f64)
}

/// Returns the reason why a step has nothing to learn from, if so: no response has an advantage, or
/// all advantages are 0 and no other term of the loss reaches the responses' tokens. `limits` are
/// the settings that cut responses off.
pub fn nothing_to_learn(
    advantages: &[Vec<Option<Advantages>>],
    learnt: &[Vec<Option<&Advantages>>],
    other_terms: bool,
    limits: &str,
) -> Option<String> {
    let known = || advantages.iter().flatten().flatten();
    let mut left = learnt.iter().flatten().flatten().peekable();
    let none_is_left = left.peek().is_none();
    if (other_terms && !none_is_left) || !left.all(|advantages| advantages.are_zero()) {
        return None;
    }
    let why = if known().next().is_none() {
        "no group has enough judged responses to compare".to_owned()
    } else if none_is_left || !known().all(Advantages::are_zero) {
        format!(
            "all responses that could be learnt from were cut off at {limits}, and \
             reward.mask_truncated leaves such out"
        )
    } else {
        "no response is better or worse than what it is compared with".to_owned()
    };
    Some(format!("{why}: there is nothing to learn from in this step"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minibatch::TrainingBatch;
    use crate::test_support::group;

    const COMPARING: [Estimator; 8] = [
        Estimator::Grpo,
        Estimator::DrGrpo,
        Estimator::Rloo,
        Estimator::ReinforcePlusPlusBaseline,
        Estimator::Opo,
        Estimator::MaxRl,
        Estimator::Qae,
        Estimator::Prime,
    ];

    fn by(advantage: Estimator) -> ObjectiveSettings {
        ObjectiveSettings { advantage, ..ObjectiveSettings::default() }
    }

    #[allow(clippy::unnecessary_wraps, reason = "beside responses that have none")]
    fn same(advantage: f64) -> Option<Advantages> {
        Some(Advantages::Same(advantage))
    }

    #[test]
    fn what_faults_leave_alone_is_not_learnt_from() {
        let survivor = group(&[None, Some(1.0), None, None], None);
        let judged = group(&[Some(1.0), None, Some(0.0), Some(0.0)], None);
        let groups = [survivor.clone(), judged.clone(), group(&[None, None], None)];
        for estimator in COMPARING {
            let [left, whole, none] = &group_advantages(&by(estimator), &groups)[..] else {
                panic!()
            };
            assert!(left.iter().chain(none).all(Option::is_none), "{estimator:?}: {left:?}");
            let shape: Vec<bool> = whole.iter().map(Option::is_some).collect();
            assert_eq!(shape, [true, false, true, true], "{estimator:?}");
            // The other responses have the advantages that they would have without it.
            assert_eq!(
                group_advantages(&by(estimator), std::slice::from_ref(&judged))[0],
                *whole,
                "{estimator:?}"
            );
            let learnt = trained_advantages(&groups[..1], std::slice::from_ref(left), false);
            assert!(
                TrainingBatch::minibatches(&groups[..1], &learnt, 1).all(|batch| batch.is_empty())
            );
        }
        // A teacher scores what no verifier could judge.
        let taught = group_advantages(&by(Estimator::Distill), &groups);
        assert!(taught.iter().flatten().all(|advantages| *advantages == same(0.0)), "{taught:?}");
        // This estimator compares with the whole rollout.
        let alone = group_advantages(&by(Estimator::ReinforcePlusPlus), &groups);
        assert!(alone[0][1].as_ref().is_some_and(|advantages| advantages.at(0) > 0.0));
    }

    #[test]
    fn a_response_sampled_alone_is_taken_as_it_is() {
        let groups = [group(&[Some(0.75)], None), group(&[None], None)];
        for estimator in [Estimator::DrGrpo, Estimator::Rloo, Estimator::Opo] {
            assert_eq!(
                group_advantages(&by(estimator), &groups),
                [[same(0.75)], [None]],
                "{estimator:?}"
            );
        }
    }

    #[test]
    fn without_a_judged_greedy_response_there_is_no_baseline() {
        let rewards = [Some(1.0), Some(0.0), None];
        let judged = group(&rewards, Some(Some(0.25)));
        let groups = [group(&rewards, Some(None)), group(&rewards, None), judged];
        let advantages = group_advantages(&by(Estimator::Remax), &groups);
        assert_eq!(
            advantages,
            [[None, None, None], [None, None, None], [same(0.75), same(-0.25), None]]
        );
    }

    #[test]
    fn a_step_is_idle_only_if_no_term_of_the_loss_says_anything() {
        let why = |advantages: &[Vec<Option<Advantages>>], other_terms| {
            let learnt: Vec<Vec<_>> =
                advantages.iter().map(|group| group.iter().map(Option::as_ref).collect()).collect();
            nothing_to_learn(advantages, &learnt, other_terms, "")
        };
        let (even, uneven) = ([vec![same(0.0), None]], [vec![same(0.0), same(-0.5)]]);
        assert!(why(&even, false).unwrap().contains("better or worse"));
        assert_eq!(why(&even, true), None);
        for other_terms in [false, true] {
            let without_a_batch = why(&[vec![None, None]], other_terms);
            assert!(without_a_batch.unwrap().contains("enough judged responses"));
        }
        assert_eq!(why(&uneven, false), None);
    }

    #[test]
    fn a_step_whose_signal_was_cut_off_is_idle_and_says_what_left_it_out() {
        let mut groups = [group(&[Some(1.0), Some(0.0)], None)];
        let why = |groups: &[Group], masks, other_terms| {
            let advantages = group_advantages(&by(Estimator::DrGrpo), groups);
            nothing_to_learn(
                &advantages,
                &trained_advantages(groups, &advantages, masks),
                other_terms,
                "a limit",
            )
        };
        groups[0].responses[0].truncated = true;
        assert_eq!(why(&groups, true, false), None, "the other one is worse");
        groups[0].responses[1].truncated = true;
        assert_eq!(why(&groups, false, false), None);
        for other_terms in [false, true] {
            let why = why(&groups, true, other_terms).unwrap();
            assert!(why.contains("cut off at a limit, and reward.mask_truncated"), "{why}");
        }
        // The remaining response equals the mean that it is compared with.
        let mut groups = [group(&[Some(1.0), Some(0.5), Some(0.0)], None)];
        [0, 2].into_iter().for_each(|cut_off: usize| groups[0].responses[cut_off].truncated = true);
        assert!(why(&groups, true, false).unwrap().contains("reward.mask_truncated"));
        assert_eq!(why(&groups, true, true), None);
        let advantages = group_advantages(&by(Estimator::DrGrpo), &groups);
        let share =
            |masks| share_without_signal(&trained_advantages(&groups, &advantages, masks), false);
        assert_eq!((share(false), share(true)), (Some(0.0), Some(1.0)));
    }

    #[test]
    fn a_group_without_a_difference_has_no_signal() {
        let [zero, less, more] = [0.0, -0.5, 1.0].map(Advantages::Same);
        let later = Advantages::Each(vec![0.0, 0.5]);
        let groups = [
            vec![Some(&zero); 2],
            vec![None, None],
            vec![Some(&zero), Some(&less)],
            vec![Some(&more), None],
            vec![Some(&later)],
        ];
        assert_eq!(share_without_signal(&groups, false), Some(0.4));
        assert_eq!(share_without_signal(&groups, true), Some(0.2), "one has no response");
        assert_eq!(share_without_signal(&groups[2..], false), Some(0.0));
        assert_eq!(share_without_signal(&[], false), None);
    }
}
