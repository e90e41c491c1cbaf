//! Notes on an autopilot that cannot hold its target.

use isentrope_objective::{
    Alarms, ControlledStep, Controller, ControllerSettings, Covariance, Method, Saturation,
    Statistics, Steer, TargetEntropy,
};

fn controlled(method: Method, steer: Steer) -> Covariance {
    let controller = ControllerSettings { steer, ..Default::default() };
    let target_entropy = Some(TargetEntropy::Nats(1.0));
    Covariance { method, target_entropy, controller, ..Default::default() }
}

/// Two updates of a step.
fn updates(cov_selected: usize, cov_eligible: usize) -> Vec<Statistics> {
    vec![Statistics { tokens: 100, cov_selected, cov_eligible, ..Default::default() }; 2]
}

/// Steps with equal entropy and steered value.
fn steady(steps: usize, entropy: f64, value: f64) -> Vec<(f64, f64)> {
    vec![(entropy, value); steps]
}

/// The alarms by step, with this entropy and steered value in each, and a target of 1. The state is
/// saved and read again after each step.
fn alarms(
    settings: &Covariance,
    updates: &[Statistics],
    steps: Vec<(f64, f64)>,
) -> Vec<(usize, String)> {
    let mut saturation = Saturation::default();
    let mut has_arrived = false;
    let after = |(number, (entropy, value)): (usize, (f64, f64))| {
        let mut strength = settings.strength();
        *strength.steered_mut(settings.controller.steer) = value;
        has_arrived |= entropy <= 1.0;
        let step = ControlledStep { strength, entropy, target: 1.0, has_arrived, updates };
        let saved = serde_json::to_string(&saturation).unwrap();
        saturation = serde_json::from_str(&saved).unwrap();
        Some((number + 1, saturation.after_step(settings, &step)?))
    };
    steps.into_iter().enumerate().filter_map(after).collect()
}

#[test]
fn a_target_that_cannot_be_held_is_told_once_with_cause_and_remedy() {
    let kl_cov = controlled(Method::KlCov, Steer::Fraction);
    let coefficient = controlled(Method::KlCov, Steer::Coefficient);
    let clip_cov = controlled(Method::ClipCov, Steer::Fraction);
    let arrived = |entropy, value| [vec![(1.0, value)], steady(30, entropy, value)].concat();
    let upper =
        "0.8000|1.0000|upper bound 0.5|controller.max|optimizer.learning_rate|update.prompts";
    for (case, settings, updates, steps, due, parts) in [
        ("upper bound", &kl_cov, updates(50, 100), steady(30, 0.8, 0.5), 10, upper),
        ("at the target", &kl_cov, updates(50, 100), steady(30, 0.95, 0.5), 0, ""),
        ("there is room", &kl_cov, updates(50, 100), steady(30, 0.8, 0.3), 0, ""),
        (
            "coefficient",
            &coefficient,
            updates(1, 100),
            steady(30, 0.8, 100.0),
            10,
            "the coefficient has been at its upper bound 100",
        ),
        (
            "used up",
            &clip_cov,
            updates(7, 7),
            steady(30, 0.5, 0.01),
            10,
            "every token of its band from 1 to 5, 14 in the last step|objective.covariance.low",
        ),
        ("tokens left", &clip_cov, updates(6, 7), steady(30, 0.5, 0.01), 0, ""),
        ("nothing was tried", &clip_cov, vec![], steady(30, 0.5, 0.01), 0, ""),
        ("`Alarms` speak of an empty band", &clip_cov, updates(0, 0), steady(30, 0.5, 0.5), 0, ""),
        ("on the way down", &kl_cov, updates(1, 100), steady(30, 1.5, 1e-5), 0, ""),
        (
            "lower bound",
            &kl_cov,
            updates(1, 100),
            arrived(1.5, 1e-5),
            11,
            "1.5000|lower bound 0.00001|cannot lower it",
        ),
        // With 100 tokens every fraction below 0.01 is one token.
        (
            "one token",
            &kl_cov,
            updates(1, 100),
            arrived(1.2, 0.005),
            11,
            "the fraction has been so low that one token of each minibatch",
        ),
        ("two tokens", &kl_cov, updates(2, 100), arrived(1.2, 0.02), 0, ""),
        ("no tokens bound it", &coefficient, updates(1, 10), arrived(1.2, 0.05), 0, ""),
    ] {
        let alarms = alarms(settings, &updates, steps);
        let steps: Vec<usize> = alarms.iter().map(|(step, _)| *step).collect();
        let expected: Vec<usize> = [due].into_iter().filter(|&step| step > 0).collect();
        assert_eq!(steps, expected, "{case}");
        for part in parts.split('|').filter(|part| !part.is_empty()) {
            assert!(alarms[0].1.contains(part), "{case}: {part}: {}", alarms[0].1);
        }
    }
    let episodes = [steady(30, 0.8, 0.5), steady(1, 1.0, 0.1), steady(30, 0.8, 0.5)].concat();
    let told = alarms(&kl_cov, &updates(50, 100), episodes);
    assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [10, 41], "each episode");
}

/// Steps without a token in the band neither count nor end the count.
#[test]
fn one_cause_has_one_alarm() {
    let clip_cov = controlled(Method::ClipCov, Steer::Fraction);
    let mut alarms = Alarms::default();
    let told = (0..30).filter_map(|_| alarms.after_step(&clip_cov, &updates(0, 0))).count();
    assert_eq!(told, 1);
    let mut saturation = Saturation::default();
    let told = (1..=20).filter(|step| {
        let updates = if step % 2 == 0 { updates(7, 7) } else { updates(0, 0) };
        let strength = clip_cov.strength();
        let (entropy, target, has_arrived) = (0.5, 1.0, true);
        let step = ControlledStep { strength, entropy, target, has_arrived, updates: &updates };
        saturation.after_step(&clip_cov, &step).is_some()
    });
    assert_eq!(told.collect::<Vec<_>>(), [20]);
}

/// The lower bound is where the controller belongs while entropy falls to where its target has
/// gone.
#[test]
fn a_target_that_falls_is_no_alarm() {
    let kl_cov = controlled(Method::KlCov, Steer::Fraction);
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
