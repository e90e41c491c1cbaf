//! Notes on an autopilot that cannot hold its target.

use isentrope_objective::{
    Alarms, ControlledStep, Controller, ControllerSettings, Covariance, Method, Saturation,
    Statistics, Steer, Strength, TargetEntropy,
};

fn controlled(method: Method) -> Covariance {
    Covariance { method, target_entropy: Some(TargetEntropy::Nats(1.0)), ..Default::default() }
}

fn updates(picked: usize, eligible: usize) -> Vec<Statistics> {
    vec![
        Statistics {
            tokens: 100,
            cov_selected: picked,
            cov_eligible: eligible,
            ..Default::default()
        };
        2
    ]
}

/// The alarms by step, with this entropy and steered value in each, and a target of 1.
fn said(
    settings: &Covariance,
    updates: &[Statistics],
    steps: impl IntoIterator<Item = (f64, f64)>,
) -> Vec<(usize, String)> {
    let mut saturation = Saturation::default();
    let mut has_arrived = false;
    let after = |(number, (entropy, value)): (usize, (f64, f64))| {
        let mut strength = settings.strength();
        *strength.steered_mut(settings.controller.steer) = value;
        has_arrived |= entropy <= 1.0;
        let step = ControlledStep { strength, entropy, target: 1.0, has_arrived, updates };
        Some((number + 1, saturation.after_step(settings, &step)?))
    };
    steps.into_iter().enumerate().filter_map(after).collect()
}

fn steady(entropy: f64, value: f64) -> impl Iterator<Item = (f64, f64)> {
    std::iter::repeat_n((entropy, value), 30)
}

#[test]
fn an_upper_bound_below_the_target_is_told_once_after_ten_steps() {
    let kl_cov = controlled(Method::KlCov);
    let [(10, message)] = &said(&kl_cov, &updates(50, 100), steady(0.8, 0.5))[..] else {
        panic!("one is due")
    };
    for part in [
        "0.8000",
        "1.0000",
        "upper bound 0.5",
        "controller.max",
        "optimizer.learning_rate",
        "update.prompts",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(
        said(&kl_cov, &updates(50, 100), steady(0.95, 0.5)).is_empty(),
        "entropy is at the target"
    );
    assert!(said(&kl_cov, &updates(50, 100), steady(0.8, 0.3)).is_empty(), "there is room");
    let steer = ControllerSettings { steer: Steer::Coefficient, ..Default::default() };
    let of_coefficient = Covariance { controller: steer, ..kl_cov };
    let told = said(&of_coefficient, &updates(1, 100), steady(0.8, 100.0));
    assert!(told[0].1.contains("the coefficient has been at its upper bound 100"), "{told:?}");
}

#[test]
fn a_band_that_is_used_up_is_told_with_its_limits() {
    let clip_cov = controlled(Method::ClipCov);
    let [(10, message)] = &said(&clip_cov, &updates(7, 7), steady(0.5, 0.01))[..] else {
        panic!("one is due")
    };
    for part in
        ["every token of its band from 1 to 5, 14 in the last step", "objective.covariance.low"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(said(&clip_cov, &updates(6, 7), steady(0.5, 0.01)).is_empty(), "there are tokens left");
    assert!(
        said(&clip_cov, &[], steady(0.5, 0.01)).is_empty(),
        "without updates nothing was tried"
    );
}

/// `Alarms` speak of an empty band after five steps, whatever the fraction has come to.
#[test]
fn one_cause_has_one_alarm() {
    let clip_cov = controlled(Method::ClipCov);
    assert!(said(&clip_cov, &updates(0, 0), steady(0.5, 0.5)).is_empty());
    let mut alarms = Alarms::default();
    let told = (0..30).filter_map(|_| alarms.after_step(&clip_cov, &updates(0, 0))).count();
    assert_eq!(told, 1);
    // Steps without a token in the band, between others, neither count nor end the count.
    let mut saturation = Saturation::default();
    let mut told = Vec::new();
    for step in 1..=20 {
        let updates = if step % 2 == 0 { updates(7, 7) } else { updates(0, 0) };
        let strength = clip_cov.strength();
        let step_of = ControlledStep {
            strength,
            entropy: 0.5,
            target: 1.0,
            has_arrived: true,
            updates: &updates,
        };
        told.extend(saturation.after_step(&clip_cov, &step_of).map(|_| step));
    }
    assert_eq!(told, [20]);
}

/// The lower bound is where the controller belongs while entropy falls to where its target has
/// gone.
#[test]
fn a_target_that_falls_is_no_alarm() {
    let kl_cov = controlled(Method::KlCov);
    let (mut controller, mut saturation) = (Controller::default(), Saturation::default());
    let mut entropy = 0.5;
    for step in 1..=300 {
        // A jump, a line that is faster than entropy, and a jump again.
        let target = match step {
            1..=50 => 0.5,
            51..=100 => 0.4,
            101..=120 => 0.4 - 0.01 * f64::from(step - 100),
            _ => 0.1,
        };
        let strength = controller.step(&kl_cov, entropy, target);
        let step_of = ControlledStep {
            strength,
            entropy: controller.entropy().unwrap(),
            target,
            has_arrived: controller.has_arrived(),
            updates: &updates(1, 100),
        };
        assert_eq!(saturation.after_step(&kl_cov, &step_of), None, "step {step}");
        if entropy > target {
            entropy *= 0.99;
        }
    }
    assert!(entropy < 0.14);
}

#[test]
fn a_lower_bound_is_told_only_after_the_target_has_been_reached() {
    let kl_cov = controlled(Method::KlCov);
    assert!(
        said(&kl_cov, &updates(1, 100), steady(1.5, 1e-5)).is_empty(),
        "that is the way down to it"
    );
    let reached = [(1.0, 1e-3)].into_iter().chain(steady(1.5, 1e-5));
    let [(11, message)] = &said(&kl_cov, &updates(1, 100), reached)[..] else {
        panic!("one is due")
    };
    for part in ["1.5000", "lower bound 0.00001", "cannot lower it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// With 100 tokens every fraction below 0.01 is one token.
#[test]
fn a_fraction_below_one_token_of_each_minibatch_is_at_its_lower_bound() {
    let kl_cov = controlled(Method::KlCov);
    let after_arrival = |value| [(1.0, value)].into_iter().chain(steady(1.2, value));
    let [(11, message)] = &said(&kl_cov, &updates(1, 100), after_arrival(0.005))[..] else {
        panic!("one is due")
    };
    assert!(
        message.contains("the fraction has been so low that one token of each minibatch"),
        "{message}"
    );
    assert!(said(&kl_cov, &updates(2, 100), after_arrival(0.02)).is_empty(), "there is room");
    let steer = ControllerSettings { steer: Steer::Coefficient, ..Default::default() };
    let of_coefficient = Covariance { controller: steer, ..kl_cov };
    let few = [Statistics { tokens: 10, cov_selected: 1, cov_eligible: 10, ..Default::default() }];
    assert!(
        said(&of_coefficient, &few, after_arrival(0.05)).is_empty(),
        "no number of tokens bounds it"
    );
}

#[test]
fn each_episode_is_told_once_and_a_saved_count_goes_on() {
    let kl_cov = controlled(Method::KlCov);
    let episodes = steady(0.8, 0.5).chain([(1.0, 0.1)]).chain(steady(0.8, 0.5));
    let steps: Vec<_> =
        said(&kl_cov, &updates(50, 100), episodes).into_iter().map(|(step, _)| step).collect();
    assert_eq!(steps, [10, 41]);
    let updates = updates(50, 100);
    let step = ControlledStep {
        strength: Strength { fraction: 0.5, coefficient: 1.0 },
        entropy: 0.8,
        target: 1.0,
        has_arrived: true,
        updates: &updates,
    };
    let mut saturation = Saturation::default();
    for _ in 0..9 {
        assert_eq!(saturation.after_step(&kl_cov, &step), None);
    }
    let mut resumed: Saturation =
        serde_json::from_str(&serde_json::to_string(&saturation).unwrap()).unwrap();
    assert!(resumed.after_step(&kl_cov, &step).is_some());
}
