//! Every way to learn from a response, and what a reward is made of.

use crate::program::failure_last;
use crate::training::{Bench, metrics, rollouts, succeed, weights};
use serde_json::Value;
use std::path::Path;

/// Every number of every step is one. Metrics write what is not as null.
fn assert_finite(out: &Path, what: &str) {
    for line in metrics(out) {
        for (name, value) in line.as_object().unwrap() {
            assert!(value.is_number(), "{what}: {name} is {value} in step {}", line["step"]);
        }
    }
}

/// Settings that keep a run of one or two steps from being empty, and its responses from being
/// equally long.
const ALWAYS: [&str; 4] =
    ["run.steps=2", "eval.every=0", "rollout.prompts=6", "rollout.temperature=1.5"];

#[test]
fn every_advantage_and_every_loss_trains() {
    let bench = Bench::train();
    let mut all = Vec::new();
    for advantage in
        ["grpo", "dr-grpo", "rloo", "reinforce++", "reinforce++-baseline", "remax", "opo", "prime"]
    {
        let set = format!("objective.advantage={advantage}");
        let out =
            bench.run(&format!("advantage-{advantage}"), &[&ALWAYS[..], &[&set]].concat(), &[]);
        assert_finite(&out, advantage);
        all.push(weights(&out, 2));
    }
    for loss in ["clip", "importance", "gspo", "cispo", "policy-gradient"] {
        let set = format!("objective.loss={loss}");
        let out = bench.run(
            &format!("loss-{loss}"),
            &[&ALWAYS[..], &[&set, "objective.clip_high=0.01"]].concat(),
            &[],
        );
        assert_finite(&out, loss);
        if loss != "importance" {
            all.push(weights(&out, 2));
        }
    }
    for set in [
        "objective.covariance={method=\"clip-cov\", fraction=0.1, low=0.0, high=100.0}",
        "objective.covariance={method=\"kl-cov\", fraction=0.1, kl=\"k1\"}",
        "objective.covariance={method=\"kl-cov\", fraction=0.1, kl=\"k2\"}",
        "objective.covariance={method=\"kl-cov\", fraction=0.1, kl=\"k3\"}",
        "objective.covariance={method=\"kl-cov\", fraction=0.1}",
        "objective.covariance={method=\"none\"}",
        "objective.aggregation=seq-mean-token-sum",
        "objective.aggregation=seq-mean-token-mean",
        "objective.entropy_mask_fraction=0.2",
        "objective.entropy_bonus={coefficient=0.01}",
    ] {
        let out = bench.run(&format!("other-{}", all.len()), &[&ALWAYS[..], &[set]].concat(), &[]);
        assert_finite(&out, set);
        all.push(weights(&out, 2));
    }
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate().skip(i + 1) {
            assert!(a != b, "settings {i} and {j} have come to the same weights");
        }
    }
}

#[test]
fn a_penalty_on_the_distance_from_the_start_holds_the_policy_there() {
    let bench = Bench::train();
    let drift = |name: &str, coefficient: &str| {
        let set = format!("objective.reference_kl={{coefficient={coefficient}, estimator=\"k2\"}}");
        let sets = [
            "run.steps=6",
            "eval.every=0",
            "rollout.filter=false",
            "optimizer.learning_rate=3e-3",
            &set,
        ];
        let out = bench.run(name, &sets, &[]);
        assert_finite(&out, name);
        metrics(&out).last().unwrap()["kl/reference"].as_f64().unwrap()
    };
    let (loose, tight) = (drift("loose", "1e-6"), drift("tight", "10.0"));
    assert!(loose > 0.0 && tight < loose / 2.0, "{tight} with the penalty, {loose} without");
}

#[test]
fn a_filter_that_never_finds_enough_says_so_or_trains_on_what_there_is() {
    let bench = Bench::train();
    let short = ["run.steps=1", "eval.every=0", "rollout.prompts=24", "rollout.max_batches=1"];
    let parts = [" of 24 prompts after 1 batches", "rollout.max_batches", "rollout.when_short"];
    failure_last(
        &mut bench.command("error", &short, &[]),
        &[&["the filter left "], &parts[..]].concat(),
    );
    let said = succeed(&mut bench.command(
        "train",
        &[&short[..], &["rollout.when_short=train"]].concat(),
        &[],
    ));
    assert!(said.contains("training on ") && said.contains(" of 24 prompts"), "{said}");
    assert_finite(&bench.out("train"), "train");
    // Nothing at all to train on is an error all the same.
    let impossible: Vec<Value> = (1..9)
        .map(|i| serde_json::json!({"problem": format!("{i} {i} {i}>{i}:"), "answer": "987654321"}))
        .collect();
    let set = format!("data.files=[{:?}]", bench.scratch.lines("impossible.jsonl", &impossible));
    let sets =
        ["run.steps=1", "eval.every=0", "rollout.max_batches=2", "rollout.when_short=train", &set];
    let parts = ["0 of 4 prompts after 2 batches", "data of another difficulty"];
    failure_last(&mut bench.command("nothing", &sets, &[]), &parts);
}

#[test]
fn without_the_filter_groups_that_teach_nothing_are_kept() {
    let bench = Bench::train();
    let out = bench.run("run", &["run.steps=1", "eval.every=0", "rollout.filter=false"], &[]);
    assert_finite(&out, "without the filter");
    assert!(
        metrics(&out)[1..]
            .iter()
            .all(|m| m["rollout/groups"] == 4.0 && m["rollout/carried"] == 0.0)
    );
}

#[test]
fn truncated_responses_are_masked_and_long_ones_cost() {
    let bench = Bench::train();
    let sets = [
        "run.steps=1",
        "eval.every=0",
        "rollout.max_tokens=13",
        "rollout.filter=false",
        "update.epochs=1",
    ];
    let plain = bench.run("plain", &sets, &[]);
    let masked = bench.run("masked", &[&sets[..], &["reward.mask_truncated=true"]].concat(), &[]);
    for out in [&plain, &masked] {
        assert_finite(out, "truncation");
    }
    let truncated = |line: &&Value| line["truncated"] == true;
    let (of_plain, of_masked) = (rollouts(&plain, 1), rollouts(&masked, 1));
    let count = of_plain.iter().filter(truncated).count();
    assert!(
        0 < count && count < of_plain.len(),
        "{count} of {} responses are truncated",
        of_plain.len()
    );
    assert_eq!(of_plain, of_masked, "the first rollout is the same");
    assert_ne!(weights(&plain, 1), weights(&masked, 1));

    // The penalty grows from 0 at 9 tokens to 0.5 at 13.
    let overlong = ["reward.overlong={buffer=4, factor=0.5}"];
    let out = bench.run("overlong", &[&sets[..], &overlong].concat(), &[]);
    let lines = rollouts(&out, 1);
    for line in &lines {
        let beyond = (line["tokens"].as_f64().unwrap() - 9.0).max(0.0);
        let score = f64::from(u8::from(line["verdict"] == "correct"));
        assert_eq!(line["reward"].as_f64().unwrap(), score - beyond / 4.0 * 0.5, "{line}");
    }
    assert!(lines.iter().any(|line| line["reward"].as_f64().unwrap() < 0.0));
}

#[test]
fn a_run_in_which_every_response_is_masked_goes_on() {
    let bench = Bench::train();
    let sets = [
        "run.steps=2",
        "eval.every=0",
        "rollout.max_tokens=2",
        "rollout.filter=false",
        "reward.mask_truncated=true",
    ];
    let out = bench.run("run", &sets, &[]);
    assert_finite(&out, "all masked");
    assert!(metrics(&out)[1..].iter().all(|m| m["update/count"] == 0.0));
}

#[test]
fn five_gradients_in_a_row_that_are_no_numbers_end_the_run() {
    let bench = Bench::train();
    // Rewards so large that the gradient overflows.
    let sets = [
        "run.steps=9",
        "eval.every=0",
        "rollout.filter=false",
        "objective.advantage=dr-grpo",
        "reward.overlong={buffer=16, factor=1e300}",
    ];
    let parts = ["was not finite 5 times in a row", "optimizer.learning_rate"];
    failure_last(&mut bench.command("run", &sets, &[]), &parts);
}

/// The truncation of sampling holds while the rollout is learnt from: the ratio is 1 before the
/// first update, whatever was cut off, and every way to learn works.
#[test]
fn truncated_rollouts_are_learnt_from_as_they_were_drawn() {
    let bench = Bench::train();
    let truncated = ["rollout.top_p=0.8", "rollout.top_k=6", "rollout.min_p=0.01"];
    let run =
        |name: &str, sets: &[&str]| bench.run(name, &[&ALWAYS[..], &truncated, sets].concat(), &[]);
    let on_policy = ["rollout.filter=false", "update.prompts=6", "update.epochs=1"];
    let out = run("on-policy", &on_policy);
    assert_finite(&out, "truncated");
    for line in &metrics(&out)[1..] {
        assert_eq!(
            (&line["policy/log_ratio_abs"], &line["policy/ratio_max"]),
            (&0.0.into(), &1.0.into())
        );
        let number = |name: &str| line[name].as_f64().unwrap();
        let (mean, least) = (number("rollout/kept_mass_mean"), number("rollout/kept_mass_min"));
        assert!(0.1 < least && least < mean && mean < 0.999, "{least} {mean}");
        assert!(
            (1.0..=6.0).contains(&number("rollout/kept_tokens"))
                && number("rollout/kept_whole") == 0.0
        );
    }
    let masses = rollouts(&out, 1).into_iter().map(|line| line["kept_mass"].as_f64().unwrap());
    assert!(masses.clone().count() == 24 && masses.clone().all(|mass| 0.1 < mass && mass < 1.0));
    for loss in ["clip", "gspo"] {
        let out = run(loss, &[&format!("objective.loss={loss}"), "objective.advantage=remax"]);
        assert_finite(&out, loss);
    }
    let plain = bench.run("plain", &[&ALWAYS[..], &on_policy].concat(), &[]);
    assert_ne!(weights(&plain, 2), weights(&out, 2));
    assert_eq!(metrics(&plain)[1].get("rollout/kept_mass_mean"), None, "nothing is truncated");
}
