//! Runs that hold an entropy: `objective.covariance.target_entropy`, and the entropy bonus with a
//! target.

use crate::program::{isentrope, stdout_of};
use crate::recipes::recipe_of;
use crate::training::{Bench, assert_resumes, checkpoint, metrics, state, succeed};
use std::fs;

/// The recipe of the tests has a bonus with a target of its own.
const NO_BONUS: &str = "objective.entropy_bonus={ coefficient = 0.0 }";

/// A table `[objective.covariance]` that picks many of few tokens.
fn covariance(method: &str, more: &str) -> String {
    format!(
        "objective.covariance={{ method = \"{method}\", fraction = 0.1, low = 0.0, high = 100.0, {more} }}"
    )
}

/// A metric of every step.
fn series(out: &std::path::Path, name: &str) -> Vec<f64> {
    let value = |line: &serde_json::Value| {
        line[name].as_f64().unwrap_or_else(|| panic!("{name} is not in {line}"))
    };
    metrics(out)[1..].iter().map(value).collect()
}

#[test]
fn each_step_has_the_value_that_its_rollout_asks_for() {
    let bench = Bench::train();
    let controller = "controller = { gain = 3.0, integral_steps = 4.0, min = 0.01, max = 0.9 }";
    // From below the target, so that there is no way down to it, on which nothing is learnt.
    let target = format!("target_entropy = {{ fraction_of_initial = 1.05 }}, {controller}");
    let out = bench.run(
        "run",
        &[NO_BONUS, &covariance("clip-cov", &target), "run.steps=4", "eval.every=0"],
        &[],
    );
    let [entropies, targets, fractions] =
        ["policy/entropy", "entropy/target", "cov/fraction"].map(|name| series(&out, name));
    assert!(
        targets.iter().all(|target| *target == 1.05 * entropies[0]),
        "{targets:?} {entropies:?}"
    );
    let (mut smoothed, mut integral) = (entropies[0].ln(), 0.0);
    for (step, (entropy, fraction)) in entropies.iter().zip(&fractions).enumerate() {
        smoothed = (smoothed + entropy.ln()) / 2.0;
        let error = targets[step].ln() - smoothed;
        integral += 3.0 * error / 4.0;
        let expected = 0.1 * (3.0 * error + integral).exp();
        assert!(
            (0.011..0.89).contains(&expected),
            "the test is of values between the bounds: {expected}"
        );
        assert!(
            (fraction / expected - 1.0).abs() < 1e-9,
            "step {}: {fraction}, not {expected}",
            step + 1
        );
    }
    assert!(metrics(&out).iter().all(|line| line.get("cov/coefficient").is_none()));
}

#[test]
fn a_steered_value_acts_as_the_same_setting_does() {
    let bench = Bench::train();
    let weights = |name: &str, covariance: &str| {
        let sets = [NO_BONUS, covariance, "run.steps=1", "eval.every=0"];
        fs::read(checkpoint(&bench.run(name, &sets, &[]), 1).join("model.safetensors")).unwrap()
    };
    // So far out of reach that the value is at its upper bound in every step.
    let far = |controller: &str| format!("target_entropy = 20, controller = {{ {controller} }}");
    for method in ["clip-cov", "kl-cov"] {
        let set = format!(
            "objective.covariance={{ method = \"{method}\", fraction = 0.3, low = 0.0, high = 100.0 }}"
        );
        let steered = weights(&format!("{method}-steered"), &covariance(method, &far("max = 0.3")));
        assert!(steered == weights(&format!("{method}-set"), &set), "{method}");
        assert!(
            steered != weights(&format!("{method}-other"), &covariance(method, "")),
            "{method}"
        );
    }
    let set = covariance("kl-cov", "coefficient = 4.0");
    let steered = covariance("kl-cov", &far("steer = \"coefficient\", max = 4.0"));
    assert!(weights("coefficient-steered", &steered) == weights("coefficient-set", &set));
    assert_eq!(series(&bench.out("coefficient-steered"), "cov/coefficient"), [4.0]);
    assert_eq!(series(&bench.out("coefficient-steered"), "cov/fraction"), [0.1]);
}

#[test]
fn a_resumed_run_holds_on_to_what_it_knew() {
    let bench = Bench::train();
    let of_initial = "{ fraction_of_initial = 0.9 }";
    let steered = covariance("clip-cov", &format!("target_entropy = {of_initial}"));
    let scheduled = covariance("kl-cov", "target_entropy = { schedule = [[1, 1.2], [2, 0.9]] }");
    let bonus =
        format!("objective.entropy_bonus={{ target = {of_initial}, delta = 0.01, max = 0.1 }}");
    let unsteered = covariance("kl-cov", "");
    for (name, sets) in [
        ("clip-cov", [NO_BONUS, &steered]),
        ("kl-cov", [NO_BONUS, &scheduled]),
        ("bonus", [&bonus, &unsteered]),
    ] {
        let whole = assert_resumes(&bench, name, &sets, 1, 2);
        let known = &state(&whole, 2)["trainer"]["entropy_control"]["initial"];
        assert_eq!(known.as_f64().unwrap(), series(&whole, "policy/entropy")[0], "{name}");
    }
}

#[test]
fn a_bonus_of_fixed_steps_acts_below_its_target_alone() {
    let bench = Bench::train();
    // Below the first target and above the second, from the third step on.
    let bonus = "objective.entropy_bonus={ target = { schedule = [[2, 20], [3, 0.001]] }, delta = 0.01, max = 0.015 }";
    let out = bench.run("run", &[bonus, "run.steps=4", "eval.every=0"], &[]);
    assert_eq!(series(&out, "entropy/target"), [20.0, 20.0, 0.001, 0.001]);
    assert_eq!(series(&out, "entropy/bonus_coefficient"), [0.0, 0.01, 0.0, 0.0]);
    let left = state(&out, 4)["trainer"]["entropy_control"]["bonus_coefficient"].as_f64().unwrap();
    assert!(left == 0.0, "0.015, then one step and another down: {left}");
}

#[test]
fn a_bonus_that_follows_its_target_sees_the_entropy_that_the_target_is_of() {
    let bench = Bench::train();
    let sets = [
        "objective.entropy_bonus={ target = 1.5, rate = 0.01, coefficient = 0.02, max = 0.1 }",
        "objective.covariance={ method = \"none\" }",
        "rollout.filter=false",
        "update.prompts=4",
        "update.epochs=1",
        "run.steps=2",
        "eval.every=0",
    ];
    let out = bench.run("run", &sets, &[]);
    let entropy = series(&out, "policy/entropy")[0];
    assert!(
        entropy != series(&out, "policy/entropy_token_mean")[0],
        "its responses are equally long"
    );
    let moved = 0.02 + 0.01 * (1.5 - entropy);
    let weights = series(&out, "entropy/bonus_coefficient");
    assert!(weights[0] == 0.02 && (weights[1] - moved).abs() < 1e-7, "{weights:?} {moved}");
}

#[test]
fn a_target_out_of_reach_is_told_with_what_to_turn() {
    let bench = Bench::train();
    let sets =
        [NO_BONUS, &covariance("kl-cov", "target_entropy = 20"), "run.steps=10", "eval.every=0"];
    let said = succeed(&mut bench.command("run", &sets, &[]));
    let told: Vec<_> = said.lines().filter(|line| line.contains("cannot be held")).collect();
    let [told] = told[..] else { panic!("one note is due: {said}") };
    assert!(
        told.contains("in step 10: ") && told.contains("objective.covariance.controller.max"),
        "{told}"
    );
}

/// The output of a recipe's dry run.
fn dry(recipe: &str, sets: &[&str]) -> String {
    let mut command = isentrope(&["train", recipe, "--dry-run"]);
    sets.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    recipe_of(&stdout_of(command.current_dir(root))).0
}

fn objective(recipe: &str) -> toml::Value {
    recipe.parse::<toml::Table>().unwrap()["objective"].clone()
}

/// Values filled in must not contradict the next setting.
#[test]
fn a_resolved_recipe_takes_the_other_rule_and_the_other_value() {
    let dir = tempfile::tempdir().unwrap();
    let again = |sets: &[&str], set: &str| {
        let path = dir.path().join("recipe.toml");
        fs::write(&path, dry("recipes/quickstart.toml", sets)).unwrap();
        objective(&dry(path.to_str().unwrap(), &[set]))
    };
    for sets in [&[][..], &["objective.entropy_bonus.target=0.3"]] {
        let table = "objective.entropy_bonus={ target = 0.3, delta = 5e-3 }";
        let key = "objective.entropy_bonus.delta=5e-3";
        let objective = again(sets, if sets.is_empty() { table } else { key });
        assert_eq!(objective["entropy_bonus"]["delta"].as_float(), Some(5e-3));
    }
    let target = "objective.covariance={ method = \"kl-cov\", target_entropy = 0.3 }";
    let objective = again(&[target], "objective.covariance.controller.steer=coefficient");
    assert_eq!(objective["covariance"]["controller"]["steer"].as_str(), Some("coefficient"));
}
