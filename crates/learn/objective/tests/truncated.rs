//! Training on responses of truncated sampling: expectations by enumeration of all responses of a
//! tiny policy.

use crate::common::Arrays;
use isentrope_objective::{
    Aggregation, KlEstimator, Loss, Objective, ObjectiveSettings, ReferenceKl, objective,
};

const TOKENS: usize = 4;

/// A policy over responses of two tokens: logits of the first token, and of the second after each
/// first.
type Policy = [[f64; TOKENS]; 1 + TOKENS];

const POLICY: Policy = [
    [1.0, 0.3, -0.4, -2.0],
    [0.2, 0.1, 0.0, -1.0],
    [-1.0, 2.0, 0.5, 0.4],
    [3.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0],
];

/// The tokens that sampling keeps at each place: some half of the mass, or nearly all, or the
/// likeliest alone.
const KEPT: [&[usize]; 1 + TOKENS] = [&[0, 1, 2], &[0, 1], &[1, 2], &[0], &[0, 1]];

/// A reward of each response, without a pattern.
fn reward(response: [usize; 2]) -> f64 {
    [[1.0, -0.5, 3.0, 8.0], [0.25, 0.0, -2.0, 5.0], [-1.5, 1.0, 4.0, -7.0], [9.0, 9.0, -9.0, 2.0]]
        [response[0]][response[1]]
}

fn probabilities(logits: &[f64; TOKENS]) -> [f64; TOKENS] {
    let sum: f64 = logits.iter().map(|z| z.exp()).sum();
    logits.map(|z| z.exp() / sum)
}

/// Probability of what is kept at a place.
fn mass(policy: &Policy, place: usize) -> f64 {
    let p = probabilities(&policy[place]);
    KEPT[place].iter().map(|&token| p[token]).sum()
}

/// The responses that truncated sampling can give, with the place of each of their tokens.
fn responses() -> impl Iterator<Item = [(usize, usize); 2]> {
    KEPT[0].iter().flat_map(|&first| {
        KEPT[1 + first].iter().map(move |&second| [(0, first), (1 + first, second)])
    })
}

/// Probability of a response under truncated sampling.
fn chance(policy: &Policy, response: [(usize, usize); 2]) -> f64 {
    response
        .iter()
        .map(|&(place, token)| probabilities(&policy[place])[token] / mass(policy, place))
        .product()
}

/// Expected value of a function of the response under truncated sampling.
fn expectation(policy: &Policy, of: impl Fn([usize; 2]) -> f64) -> f64 {
    responses()
        .map(|response| chance(policy, response) * of(response.map(|(_, token)| token)))
        .sum()
}

/// The objective of one response as a minibatch; its advantage is that of all its tokens.
fn objective_of(
    settings: &ObjectiveSettings,
    (policy, old): (&Policy, &Policy),
    response: &[(usize, usize)],
    advantage: f64,
    knows_masks: bool,
) -> Objective {
    let each = |number: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        response.iter().map(|&(place, token)| number(place, token)).collect()
    };
    let logprobs =
        |policy: &Policy| each(&|place, token| probabilities(&policy[place])[token].ln());
    let masses = |policy: &Policy| each(&|place, _| mass(policy, place).ln());
    let arrays = Arrays {
        lengths: vec![response.len()],
        logprobs: logprobs(policy),
        old_logprobs: logprobs(old),
        masses: knows_masks.then(|| [masses(policy), masses(old)]),
        entropies: each(&|_, _| 1.0),
        advantages: each(&|_, _| advantage),
        reference_logprobs: logprobs(policy),
        ..Default::default()
    };
    objective(settings, &arrays.minibatch())
}

/// A loss, and nothing besides, summed over each response.
fn settings(loss: Loss) -> ObjectiveSettings {
    ObjectiveSettings { loss, aggregation: Aggregation::SeqMeanTokenSum, ..Default::default() }
}

/// The gradient of a response's objective by the logits.
fn logit_gradient(policy: &Policy, response: &[(usize, usize)], said: &Objective) -> Policy {
    let mut gradient = Policy::default();
    for (t, &(place, token)) in response.iter().enumerate() {
        let p = probabilities(&policy[place]);
        for v in 0..TOKENS {
            let share = if KEPT[place].contains(&v) { p[v] / mass(policy, place) } else { 0.0 };
            let of_logprob = f64::from(u8::from(v == token)) - p[v];
            gradient[place][v] += said.d_logprobs[t] * of_logprob
                + said.d_log_masses.get(t).unwrap_or(&0.0) * (share - p[v]);
        }
    }
    gradient
}

fn add(sum: &mut Policy, what: &Policy, by: f64) {
    sum.iter_mut().flatten().zip(what.iter().flatten()).for_each(|(sum, what)| *sum += by * what);
}

/// Central differences of a function of the logits.
fn differences(policy: &Policy, of: impl Fn(&Policy) -> f64) -> Policy {
    const H: f64 = 1e-5;
    let mut slopes = Policy::default();
    for place in 0..policy.len() {
        for v in 0..TOKENS {
            let at = |by: f64| {
                let mut moved = *policy;
                moved[place][v] += by;
                of(&moved)
            };
            slopes[place][v] = (at(H) - at(-H)) / (2.0 * H);
        }
    }
    slopes
}

#[track_caller]
fn assert_near(got: &Policy, want: &Policy, what: &str) {
    for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
        assert!((got - want).abs() < 1e-8, "{what}: {got} instead of {want}");
    }
}

/// The expected gradient of a loss over all responses of the policy's own truncated sampling.
fn expected_gradient(
    settings: &ObjectiveSettings,
    advantage: impl Fn([usize; 2]) -> f64,
    knows_masks: bool,
) -> Policy {
    let mut sum = Policy::default();
    for response in responses() {
        let advantage = advantage(response.map(|(_, token)| token));
        let said = objective_of(settings, (&POLICY, &POLICY), &response, advantage, knows_masks);
        assert!(!knows_masks || said.statistics.log_ratio_abs == 0.0, "the ratio is 1 on-policy");
        assert!(said.statistics.clip_fraction() == 0.0, "and nothing is clipped");
        add(&mut sum, &logit_gradient(&POLICY, &response, &said), chance(&POLICY, response));
    }
    sum
}

/// With the masks held, the policy gradient of truncated sampling is exact: its expectation is the
/// derivative of the expected reward of truncated sampling. Whatever constant is taken from the
/// rewards.
#[test]
fn the_expected_gradient_is_that_of_the_truncated_policys_reward() {
    let exact = differences(&POLICY, |policy| -expectation(policy, reward));
    for loss in Loss::ALL {
        for baseline in [0.0, expectation(&POLICY, reward), 100.0] {
            let got =
                expected_gradient(&settings(loss), |response| reward(response) - baseline, true);
            assert_near(&got, &exact, &format!("{loss:?} with a baseline of {baseline}"));
        }
    }
}

/// The purpose of the masks: looked at as draws from the whole vocabulary, the same responses move
/// probability between the tokens that can be drawn and those that cannot, where reward has said
/// nothing of the latter. Worse than the baseline, they feed the tail.
#[test]
fn without_masks_the_tail_is_fed() {
    let (below, above) = (|_| -1.0, |_| 1.0);
    for loss in Loss::ALL {
        let settings = settings(loss);
        let idle = expected_gradient(&settings, below, true);
        assert_near(&idle, &Policy::default(), "the same reward everywhere teaches nothing");
        let fed = expected_gradient(&settings, below, false);
        assert!(
            fed[0][3] < -0.01 && expected_gradient(&settings, above, false)[0][3] > 0.01,
            "{loss:?}: {fed:?}"
        );
    }
}

/// Where the policy is the reference, the penalty on their divergence must not move it. That of k1
/// lowers the probability of the tokens that can be drawn, which is why recipes with it are
/// refused.
#[test]
fn the_divergence_from_an_equal_reference_says_nothing_but_for_k1() {
    let of = |estimator| {
        let reference_kl = ReferenceKl { coefficient: 0.5, estimator };
        expected_gradient(
            &ObjectiveSettings { reference_kl, ..settings(Loss::Clip) },
            |_| 0.0,
            true,
        )
    };
    for estimator in [KlEstimator::Abs, KlEstimator::K2, KlEstimator::K3] {
        assert!(estimator.is_flat_at_zero());
        assert_near(&of(estimator), &Policy::default(), &format!("{estimator:?}"));
    }
    // 0.5 log pi(K) at each place that a response comes to, once.
    let log_mass = |policy: &Policy, response: [(usize, usize); 2]| -> f64 {
        response.iter().map(|&(place, _)| mass(policy, place).ln()).sum()
    };
    let drained = differences(&POLICY, |policy| {
        responses()
            .map(|response| chance(&POLICY, response) * 0.5 * log_mass(policy, response))
            .sum()
    });
    assert!(!KlEstimator::K1.is_flat_at_zero() && drained[0][3] < -0.01);
    assert_near(&of(KlEstimator::K1), &drained, "k1");
}

/// Off-policy, the importance-weighted gradient of responses of one token is the derivative of the
/// expected reward at the new weights, on the masks of the old ones.
#[test]
fn importance_ratios_are_those_of_the_truncated_policies() {
    let old = POLICY;
    let mut new = POLICY;
    new[0] = [0.1, 0.9, -0.2, 1.5];
    let of_first = |policy: &Policy| -> f64 {
        let p = probabilities(&policy[0]);
        KEPT[0].iter().map(|&token| p[token] / mass(policy, 0) * reward([token, 0])).sum()
    };
    let exact = differences(&new, |policy| -of_first(policy));
    let mut sum = Policy::default();
    for &token in KEPT[0] {
        let response = [(0, token)];
        let said = objective_of(
            &settings(Loss::Importance),
            (&new, &old),
            &response,
            reward([token, 0]),
            true,
        );
        let chance = probabilities(&old[0])[token] / mass(&old, 0);
        add(&mut sum, &logit_gradient(&new, &response, &said), chance);
    }
    assert_near(&sum, &exact, "off-policy");
}

/// A ratio of the whole policy to the truncated one would be the mass that was kept, 0.4 here:
/// below the clip range, so that no response with a negative advantage would be learnt from.
#[test]
fn clipping_does_not_see_the_mass_that_was_cut() {
    let (kept, whole) = (0.4f64.ln(), 0.0);
    let of = |masses| {
        let arrays = Arrays {
            lengths: vec![1],
            logprobs: vec![-1.5],
            old_logprobs: vec![-1.5],
            masses: Some(masses),
            entropies: vec![1.0],
            advantages: vec![-1.0],
            ..Default::default()
        };
        let settings = ObjectiveSettings::default();
        objective(&settings, &arrays.minibatch())
    };
    let right = of([vec![kept], vec![kept]]);
    assert_eq!((&right.d_logprobs[..], &right.d_log_masses[..]), (&[1.0][..], &[-1.0][..]));
    assert_eq!((right.statistics.ratio_max, right.statistics.clip_fraction()), (1.0, 0.0));
    let wrong = of([vec![whole], vec![kept]]);
    assert_eq!((wrong.d_logprobs[0], wrong.statistics.clip_fraction_low), (0.0, 1.0));
}
