//! Runs that hold an entropy: `objective.covariance.target_entropy`, and the entropy bonus with a
//! target. `crates/learn/objective` tests the controller.

use crate::training::{Bench, assert_resumes, metrics, state, weights};

/// The recipe of the tests has a bonus with a target of its own.
const NO_BONUS: &str = "objective.entropy_bonus={coefficient=0.0}";

/// A table `[objective.covariance]` that picks many of few tokens.
fn covariance(method: &str, more: &str) -> String {
    format!("'objective.covariance={{method=\"{method}\",fraction=0.1,low=0.0,high=100.0{more}}}'")
}

/// A metric of every step.
fn series(out: &std::path::Path, name: &str) -> Vec<f64> {
    let lines = metrics(out).into_iter().skip(1);
    lines
        .map(|line| line[name].as_f64().unwrap_or_else(|| panic!("{name} is not in {line}")))
        .collect()
}

#[test]
fn each_step_has_the_value_that_its_rollout_asks_for() {
    let bench = Bench::train();
    // From below the target, so that there is no way down to it, on which nothing is learnt.
    let target = ",target_entropy={fraction_of_initial=1.05},\
                  controller={gain=3.0,integral_steps=4.0,min=0.01,max=0.9}";
    let target = covariance("clip-cov", target);
    let out = bench.run("run", format!("{NO_BONUS} {target} run.steps=3 eval.every=0"), "");
    let [entropies, targets, fractions] =
        ["policy/entropy", "entropy/target", "cov/fraction"].map(|name| series(&out, name));
    assert!(targets.iter().all(|target| *target == 1.05 * entropies[0]), "{targets:?}");
    let (mut smoothed, mut integral) = (entropies[0].ln(), 0.0);
    for (step, (entropy, fraction)) in entropies.iter().zip(&fractions).enumerate() {
        smoothed = (smoothed + entropy.ln()) / 2.0;
        let error = targets[step].ln() - smoothed;
        integral += 3.0 * error / 4.0;
        let expected = 0.1 * (3.0 * error + integral).exp();
        assert!((0.011..0.89).contains(&expected), "{expected} is at a bound");
        assert!((fraction / expected - 1.0).abs() < 1e-9, "{step}: {fraction}, not {expected}");
    }
    assert!(metrics(&out).iter().all(|line| line.get("cov/coefficient").is_none()));
}

#[test]
fn a_steered_value_acts_as_the_same_setting_does() {
    let bench = Bench::train();
    let made = |name: &str, covariance: &str| {
        let sets = format!("{NO_BONUS} {covariance} run.steps=1 eval.every=0");
        weights(&bench.run(name, sets, ""), 1)
    };
    // So far out of reach that the value is at its upper bound in every step.
    let far = |controller: &str| format!(",target_entropy=20,controller={{{controller}}}");
    for method in ["clip-cov", "kl-cov"] {
        let set = covariance(method, "").replace("fraction=0.1", "fraction=0.3");
        let steered = made(&format!("{method}-steered"), &covariance(method, &far("max=0.3")));
        assert!(steered == made(&format!("{method}-set"), &set), "{method}");
    }
    let set = made("set", &covariance("kl-cov", ",coefficient=4.0"));
    let far = far("steer=\"coefficient\",max=4.0");
    assert!(made("steered", &covariance("kl-cov", &far)) == set);
    assert_eq!(series(&bench.out("steered"), "cov/coefficient"), [4.0]);
}

#[test]
fn a_resumed_run_holds_on_to_what_it_knew() {
    let bench = Bench::train();
    let of_initial = "{fraction_of_initial=0.9}";
    let steered = covariance("clip-cov", &format!(",target_entropy={of_initial}"));
    let bonus = format!("objective.entropy_bonus={{target={of_initial},delta=0.01,max=0.1}}");
    for (name, sets) in [
        ("clip-cov", format!("{NO_BONUS} {steered}")),
        ("bonus", format!("{bonus} {}", covariance("kl-cov", ""))),
    ] {
        let whole = assert_resumes(&bench, name, sets, 1, 2);
        let known = &state(&whole, 2)["trainer"]["entropy_control"]["initial"];
        assert_eq!(known.as_f64().unwrap(), series(&whole, "policy/entropy")[0], "{name}");
    }
}

#[test]
fn a_bonus_acts_by_the_entropy_and_the_target_of_its_step() {
    let bench = Bench::train();
    // Below the first target and above the second, from the third step on.
    let bonus =
        "objective.entropy_bonus={target={schedule=[[2,20],[3,0.001]]},delta=0.01,max=0.015}";
    let out = bench.run("run", format!("{bonus} run.steps=4 eval.every=0"), "");
    assert_eq!(series(&out, "entropy/target"), [20.0, 20.0, 0.001, 0.001]);
    assert_eq!(series(&out, "entropy/bonus_coefficient"), [0.0, 0.01, 0.0, 0.0]);
}
