//! The autopilot: its law, and what becomes of a policy that it steers.

use crate::common::arrays;
use isentrope_objective::{
    Controller, ControllerSettings, Covariance, FractionOfInitial, Method, ObjectiveSettings,
    Schedule, Statistics, Steer, Strength, TargetEntropy, objective,
};
use isentrope_random::{Draws, Purpose};
use proptest::prelude::*;

fn kl_cov() -> Covariance {
    Covariance { method: Method::KlCov, ..Default::default() }
}

/// A simulated policy: its log-entropy falls by `drift` a step, less by `answer` per e-fold of the
/// fraction.
struct Plant {
    /// How fast the logarithm of entropy falls per step at the recipe's fraction.
    drift: f64,
    /// How much less per e-fold of the fraction.
    answer: f64,
    /// Whether the method can but hold entropy, not raise it: KL-Cov.
    brake: bool,
    /// Standard deviation of a measured entropy's logarithm.
    noise: f64,
    initial: f64,
}

/// A slow task, and a fast one: entropy falls by half a percent a step, and by six.
const PLANTS: [Plant; 2] = [
    Plant { drift: 0.005, answer: 0.0025, brake: false, noise: 0.02, initial: 0.38 },
    Plant { drift: 0.06, answer: 0.03, brake: false, noise: 0.05, initial: 1.2 },
];

impl Plant {
    fn run(&self, target: &TargetEntropy) -> Vec<Step> {
        let start = kl_cov().strength().fraction;
        let change = |_, fraction: f64| {
            let change = self.answer * (fraction / start).ln() - self.drift;
            // However little restrains it, entropy does not fall without limit.
            let change = change.max(-1.5 * self.drift);
            if self.brake { change.min(0.0) } else { change }
        };
        steer(&kl_cov(), (self.noise, self.initial), target, |_| Vec::new(), change)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// The true entropy as a share of the target.
    share: f64,
    fraction: f64,
    /// I after it.
    integral: f64,
}

/// 400 steps whose updates measure `updates` and change the logarithm of entropy by `change`, of
/// step and fraction.
fn steer(
    covariance: &Covariance,
    (noise, initial): (f64, f64),
    target: &TargetEntropy,
    updates: impl Fn(u64) -> Vec<Statistics>,
    change: impl Fn(u64, f64) -> f64,
) -> Vec<Step> {
    let mut controller = Controller::default();
    let mut log_entropy = initial.ln();
    (1..=400)
        .map(|step| {
            let [normal, _] = Draws::of(7, Purpose::Bootstrap, step, 0).normals(0);
            let entropy = (log_entropy + noise * normal).exp();
            let target = target.at(step, Some(initial));
            let fraction = controller.step(covariance, entropy, target).fraction;
            controller.after_step(covariance, &updates(step));
            let share = log_entropy.exp() / target;
            log_entropy += change(step, fraction);
            Step { share, fraction, integral: integral(&controller) }
        })
        .collect()
}

/// The state of a controller.
fn integral(controller: &Controller) -> f64 {
    serde_json::to_value(controller).unwrap()["integral"].as_f64().unwrap()
}

/// A policy under Clip-Cov: its effect is proportional to the number of picked tokens, at least one
/// of each minibatch and at most the band's. Numbers as measured in runs of
/// `recipes/countdown-autopilot.toml`.
#[derive(Clone, Copy)]
struct Band {
    /// How fast the logarithm of entropy falls per step by itself.
    drift: f64,
    /// The fraction that holds it.
    holds: f64,
    noise: f64,
    initial: f64,
}

const BANDS: [Band; 2] = [
    Band { drift: 0.009, holds: 0.05, noise: 0.033, initial: 0.36 },
    Band { drift: 0.06, holds: 0.1, noise: 0.05, initial: 1.2 },
];

impl Band {
    const MINIBATCHES: usize = 4;
    const TOKENS: usize = 2500;

    /// A run that begins with this fraction and holds 0.25 nats; the band has this share of the
    /// tokens in each step.
    fn run(&self, start: f64, reach: impl Fn(u64) -> f64) -> Vec<Step> {
        let covariance =
            Covariance { method: Method::ClipCov, fraction: Some(start), ..Default::default() };
        let update = |step| Statistics {
            tokens: Self::TOKENS,
            cov_eligible: (reach(step) * Self::TOKENS as f64) as usize,
            ..Default::default()
        };
        let updates = |step| vec![update(step); Self::MINIBATCHES];
        let change = |step, fraction: f64| {
            let picked = fraction.max(1.0 / Self::TOKENS as f64).min(reach(step));
            self.drift * (picked / self.holds - 1.0).min(3.0)
        };
        let system = (self.noise, self.initial);
        steer(&covariance, system, &TargetEntropy::Nats(0.25), updates, change)
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

fn mean_share(run: &[Step]) -> f64 {
    mean(run.iter().map(|step| step.share))
}

/// The entropies are within these shares of the target.
#[track_caller]
fn assert_within(run: &[Step], steps: std::ops::Range<usize>, within: std::ops::Range<f64>) {
    for (number, step) in steps.clone().zip(&run[steps]) {
        assert!(within.contains(&step.share), "step {number}: {step:?} is not in {within:?}");
    }
}

#[test]
fn the_recipes_fraction_is_in_force_when_entropy_gets_to_the_target() {
    for (band, most) in BANDS.into_iter().zip([0.5, 0.8]) {
        let run = band.run(band.holds, |_| 0.2);
        let entry = run.iter().position(|step| step.share <= 1.0).unwrap();
        assert!(entry > 20 && run[entry].integral.abs() < 0.25, "{:?}", run[entry]);
        assert_within(&run, entry..400, 0.85..f64::INFINITY);
        assert!((mean_share(&run[200..]) - 1.0).abs() < 0.02);
        // The fraction jumps by the noise of measured entropies times the gain, less what smoothing
        // takes.
        let logs = || run[200..].iter().map(|step| step.fraction.ln());
        let centre = mean(logs());
        let deviation = mean(logs().map(|log| (log - centre).powi(2))).sqrt();
        assert!((0.2..most).contains(&deviation), "{deviation}");
    }
}

#[test]
fn a_start_that_is_wrong_by_far_is_learnt_from_either_side() {
    for band in BANDS {
        for start in [band.holds / 30.0, 0.2] {
            let run = band.run(start, |_| 0.2);
            assert!((mean_share(&run[250..]) - 1.0).abs() < 0.02, "{start}");
            assert_within(&run, 250..400, 0.85..1.15);
        }
    }
}

#[test]
fn a_band_that_was_used_up_leaves_no_windup() {
    // For 200 steps the band has too few tokens, and entropy falls slowly, however much is asked
    // for.
    let band = Band { drift: 0.002, holds: 0.005, noise: 0.033, initial: 0.25 };
    let run = band.run(0.002, |step| if step < 200 { 0.0045 } else { 0.2 });
    assert!(run[198].share < 0.97 && run[198].fraction > 0.0045, "{:?}", run[198]);
    let acts = (0.0045f64 / 0.002).ln();
    assert!(run[198].integral < acts + 0.3, "{:?}", run[198]);
    assert_within(&run, 199..400, 0.0..1.05);
}

/// The loop is stable for a * gain (1 + 1 / integral_steps) below 6.
#[test]
fn a_very_fast_task_does_not_ring() {
    let fast = Plant { drift: 0.1, answer: 0.08, brake: false, noise: 0.0, initial: 0.8 };
    let run = fast.run(&of_initial(0.4));
    assert_within(&run, 60..400, 0.9..1.05);
    assert_within(&run, 300..400, 0.999..1.001);
    assert!((run[399].share - run[398].share).abs() < 1e-4, "{:?}", &run[395..]);
}

fn of_initial(fraction_of_initial: f64) -> TargetEntropy {
    TargetEntropy::OfInitial(FractionOfInitial { fraction_of_initial })
}

fn schedule(pairs: &[[f64; 2]]) -> TargetEntropy {
    TargetEntropy::Scheduled(Schedule { schedule: pairs.to_vec() })
}

#[test]
fn entropy_settles_at_the_target_and_does_not_fall_far_below() {
    for plant in PLANTS {
        for fraction in [1.0, 0.8, 0.5, 0.25] {
            let run = plant.run(&of_initial(fraction));
            assert_within(&run, 0..400, 0.8..f64::INFINITY);
            assert_within(&run, 250..400, 0.9..1.1);
            assert!((mean_share(&run[250..]) - 1.0).abs() < 0.03);
        }
    }
}

#[test]
fn nothing_restrains_entropy_on_its_way_down_to_a_far_target() {
    for plant in PLANTS {
        let run = plant.run(&of_initial(0.25));
        let far: Vec<_> = run.iter().take_while(|step| step.share > 1.5).collect();
        assert!(far.len() > 8 && far.iter().all(|step| step.fraction == 1e-5), "{far:?}");
    }
}

#[test]
fn a_brake_holds_what_it_cannot_raise() {
    for plant in PLANTS {
        let run = Plant { brake: true, ..plant }.run(&of_initial(0.5));
        // Noise can only take, never give back: it is held below the target, where the brake is
        // firm enough.
        assert_within(&run, 250..400, 0.75..1.02);
        let change = run[399].share / run[250].share;
        assert!((0.97..=1.0).contains(&change), "{change}");
    }
}

#[test]
fn a_jump_of_the_target_is_followed_down_and_up() {
    for plant in PLANTS {
        let (high, low) = (0.9 * plant.initial, 0.5 * plant.initial);
        let down = plant.run(&schedule(&[[149.0, high], [150.0, low]]));
        assert_within(&down, 120..148, 0.9..1.1);
        assert_within(&down, 150..400, 0.85..2.0);
        assert_within(&down, 340..400, 0.9..1.1);
        let up = plant.run(&schedule(&[[199.0, low], [200.0, 1.2 * low]]));
        assert_within(&up, 200..400, 0.75..1.12);
        assert_within(&up, 340..400, 0.9..1.1);
    }
}

#[test]
fn a_line_is_followed_without_lagging_behind() {
    for plant in PLANTS {
        // It falls more slowly than the entropy would by itself.
        let slope = 0.5 * plant.drift;
        let steps = (0.5f64.ln() / -slope).ceil();
        let run =
            plant.run(&schedule(&[[60.0, plant.initial], [60.0 + steps, 0.5 * plant.initial]]));
        assert_within(&run, 60..400, 0.85..1.1);
        let second_half = 60 + steps as usize / 2..60 + steps as usize;
        assert!((mean_share(&run[second_half]) - 1.0).abs() < 0.04);
    }
}

#[test]
fn targets_are_lines_between_their_points() {
    let target = schedule(&[[10.0, 0.6], [20.0, 0.4], [21.0, 0.1]]);
    let at = |step| target.at(step, None);
    for (step, nats) in [(0, 0.6), (10, 0.6), (15, 0.5), (20, 0.4), (21, 0.1), (9999, 0.1)] {
        assert!((at(step) - nats).abs() < 1e-12, "{step}: {}", at(step));
    }
    assert_eq!(TargetEntropy::Nats(0.3).at(7, None), 0.3);
    assert_eq!(of_initial(0.5).at(7, Some(1.2)), 0.6);
    assert!(of_initial(0.5).at(7, None).is_nan());
}

#[test]
fn the_first_step_is_the_proportional_part_and_one_step_of_the_integral() {
    let value = |target: f64| Controller::default().step(&kl_cov(), 1.0, target).fraction;
    assert_eq!(value(1.0), 2e-3, "at the target, what the recipe sets, to the bit");
    let expected = 2e-3 * (1.1f64).powf(20.0 + 20.0 / 50.0);
    assert!((value(1.1) / expected - 1.0).abs() < 1e-9, "{} {expected}", value(1.1));
    assert_eq!((value(0.1), value(9.0)), (1e-5, 0.5), "the bounds themselves, to the bit");
}

#[test]
fn entropy_is_smoothed_over_two_steps() {
    let mut controller = Controller::default();
    let entropies = [1.0, 1.1, 0.9, 0.95];
    let (mut smoothed, mut learnt) = (0.0f64, 0.0f64);
    for (number, entropy) in entropies.into_iter().enumerate() {
        let fraction = controller.step(&kl_cov(), entropy, 1.0).fraction;
        smoothed = if number == 0 { entropy.ln() } else { (smoothed + entropy.ln()) / 2.0 };
        learnt -= 20.0 * smoothed / 50.0;
        let expected = 2e-3 * (learnt - 20.0 * smoothed).exp();
        assert!((fraction / expected - 1.0).abs() < 1e-9, "{number}: {fraction} {expected}");
        assert!((controller.entropy().unwrap() - smoothed.exp()).abs() < 1e-12);
    }
}

/// A controller that has learnt to take more than what the recipe sets.
fn taught(covariance: &Covariance) -> Controller {
    let mut controller = Controller::default();
    for _ in 0..60 {
        controller.step(covariance, 0.9, 1.0);
    }
    assert!(integral(&controller) > 2.0);
    controller
}

#[test]
fn another_start_is_the_same_value_and_another_method_is_learnt_anew() {
    let before = kl_cov();
    let next = |covariance: &Covariance| {
        let mut controller = taught(&before);
        controller.step(covariance, 0.95, 1.0)
    };
    let start = Covariance { fraction: Some(1e-3), ..before.clone() };
    let (same, moved) = (next(&before).fraction, next(&start).fraction);
    assert!((moved / same - 1.0).abs() < 1e-9, "{moved} {same}");
    let coefficient = ControllerSettings { steer: Steer::Coefficient, ..Default::default() };
    for other in [
        Covariance { method: Method::ClipCov, fraction: Some(2e-3), ..before.clone() },
        Covariance { controller: coefficient, ..before.clone() },
    ] {
        let mut controller = taught(&before);
        controller.step(&other, 0.9, 1.0);
        let once = -20.0 * 0.9f64.ln() / 50.0;
        assert!((integral(&controller) - once).abs() < 1e-9, "{}", integral(&controller));
    }
}

#[test]
fn an_odd_step_with_few_tokens_to_pick_costs_little_of_what_was_learnt() {
    let clip_cov =
        Covariance { method: Method::ClipCov, fraction: Some(2e-3), ..Default::default() };
    let update =
        |eligible| [Statistics { tokens: 5000, cov_eligible: eligible, ..Default::default() }];
    let after = |eligible| {
        let mut controller = taught(&clip_cov);
        controller.after_step(&clip_cov, &update(1000));
        controller.step(&clip_cov, 1.0, 1.0); // smoothed, it is still below
        let learnt = integral(&controller);
        controller.after_step(&clip_cov, &update(eligible));
        controller.step(&clip_cov, f64::NAN, 1.0);
        let entropy = controller.entropy().unwrap();
        controller.step(&clip_cov, 1.0 / entropy, 1.0); // at the target, smoothed
        integral(&controller) - learnt
    };
    assert!(after(1000).abs() < 1e-9 && after(0).abs() < 1e-9, "none to pick from says nothing");
    let lost = after(5); // half of what the recipe picks
    assert!((-0.4..-0.25).contains(&lost), "a tenth of it: {lost}");
}

#[test]
fn the_coefficient_is_steered_in_place_of_the_fraction() {
    let controller = ControllerSettings { steer: Steer::Coefficient, ..Default::default() };
    let covariance = Covariance { coefficient: 2.0, controller, ..kl_cov() };
    let at = |entropy| Controller::default().step(&covariance, entropy, 1.0);
    assert_eq!(at(1.0), Strength { fraction: 2e-3, coefficient: 2.0 });
    assert_eq!(at(0.1), Strength { fraction: 2e-3, coefficient: 100.0 });
    assert_eq!(at(5.0), Strength { fraction: 2e-3, coefficient: 0.01 });
}

#[test]
fn what_says_nothing_holds_the_last_value() {
    let mut controller = Controller::default();
    assert_eq!(controller.step(&kl_cov(), f64::NAN, 1.0).fraction, 2e-3);
    let last = controller.step(&kl_cov(), 0.95, 1.0);
    for (entropy, target) in
        [(f64::NAN, 1.0), (0.0, 1.0), (f64::INFINITY, 1.0), (-1.0, 1.0), (1.0, f64::NAN)]
    {
        assert_eq!(controller.step(&kl_cov(), entropy, target), last);
    }
    let saved = serde_json::to_string(&controller).unwrap();
    let mut resumed: Controller = serde_json::from_str(&saved).unwrap();
    assert_eq!(resumed.step(&kl_cov(), 0.9, 1.0), controller.step(&kl_cov(), 0.9, 1.0));
}

proptest! {
    /// Whatever the entropies: values are finite and within the bounds, and so is what the
    /// controller has learnt.
    #[test]
    fn no_history_leaves_the_bounds(
        entropies in prop::collection::vec(prop_oneof![1e-9f64..1e3, Just(0.0), Just(f64::NAN)], 1..200),
        target in 1e-3f64..10.0,
        gain in 1e-3f64..1e4,
        integral_steps in 1e-3f64..1e4,
    ) {
        let controller = ControllerSettings { gain, integral_steps, ..Default::default() };
        let covariance = Covariance { controller, ..kl_cov() };
        let mut controller = Controller::default();
        for entropy in entropies {
            let fraction = controller.step(&covariance, entropy, target).fraction;
            prop_assert!((1e-5..=0.5).contains(&fraction), "{fraction}");
            let learnt = 2e-3 * integral(&controller).exp();
            prop_assert!((0.999_999e-5..0.500_001).contains(&learnt), "{learnt}");
        }
    }

    /// After the same steps, a lower entropy never means a weaker hand; but next to a bound, where
    /// the integral stands, the hand may be weaker by what the integral has not learnt.
    #[test]
    fn less_entropy_is_answered_by_more(
        history in prop::collection::vec(0.2f64..2.0, 0..50),
        (one, other) in (0.1f64..3.0, 0.1f64..3.0),
    ) {
        let mut controller = Controller::default();
        for entropy in history {
            controller.step(&kl_cov(), entropy, 1.0);
        }
        let settings = kl_cov().controller;
        let answer = |entropy| {
            let mut controller = controller.clone();
            let fraction = controller.step(&kl_cov(), entropy, 1.0).fraction;
            let error = -controller.entropy().unwrap().ln();
            (fraction, (settings.gain * error / settings.integral_steps).abs())
        };
        let ((low, unlearnt), (high, also_unlearnt)) =
            (answer(one.min(other)), answer(one.max(other)));
        let slack = unlearnt.max(also_unlearnt).exp();
        let (min, max) = settings.bounds();
        let is_at_bound = high * slack >= max || low <= min * slack;
        prop_assert!(low >= high || is_at_bound && low * slack >= high, "{} {}", low, high);
    }

    /// A controller's strength does what the same settings without one do.
    #[test]
    fn the_objective_takes_the_steered_strength(
        arrays in arrays(0.4),
        clips in any::<bool>(),
        fraction in 0.01f64..1.0,
        coefficient in 0.1f64..5.0,
    ) {
        let method = if clips { Method::ClipCov } else { Method::KlCov };
        let covariance = Covariance { method, low: 0.0, ..Default::default() };
        let settings = |covariance| ObjectiveSettings { covariance, ..Default::default() };
        let mut batch = arrays.minibatch();
        let set = settings(Covariance { fraction: Some(fraction), coefficient, ..covariance.clone() });
        let by_settings = objective(&set, &batch);
        batch.terms.steered = Some(Strength { fraction, coefficient });
        prop_assert_eq!(objective(&settings(covariance), &batch), by_settings);
    }
}
