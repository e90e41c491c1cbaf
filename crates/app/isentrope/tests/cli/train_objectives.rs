//! Every way to learn from a response, in whole runs. `crates/learn/objective` tests the numbers.

use crate::program::{assert_parts, failure_last, json_lines};
use crate::train_distill::TEACHER;
use crate::training::{Bench, metrics, rollouts, succeed, weights};
use isentrope_objective::{Estimator, Loss};
use serde_json::{Value, json};
use std::path::Path;

/// Every number of every step is one. Metrics write what is not as null.
fn assert_finite(out: &Path, what: &str) {
    for line in metrics(out) {
        for (name, value) in line.as_object().unwrap() {
            assert!(value.is_number(), "{what}: {name} is {value} in step {}", line["step"]);
        }
    }
}

/// Each setting trains with finite numbers, and no two come to the same weights.
#[test]
#[ignore = "deep: a run for each objective"]
fn every_advantage_and_every_loss_trains() {
    let bench = Bench::train();
    let name = |value: Value| value.as_str().unwrap().to_owned();
    let advantages = Estimator::ALL.iter().map(|all| json!(all)).map(name);
    let losses = Loss::ALL.iter().map(|all| json!(all)).map(name);
    let mut all: Vec<String> =
        advantages.map(|name| format!("objective.advantage={name}")).collect();
    let teacher = format!("objective.distillation.teacher={TEACHER}");
    for distills in all.iter_mut().filter(|sets| sets.ends_with("distill")) {
        *distills += &format!(" {teacher} rollout.filter=false");
    }
    all.push(format!("objective.advantage=rloo {teacher}"));
    // The recipe's own loss is among them.
    let losses = losses.filter(|name| name != "importance");
    // DPPO without room is not the importance-weighted gradient.
    let bounds = "objective.clip_high=0.01 objective.dppo={delta_low=0.0,delta_high=0.0}";
    all.extend(losses.map(|name| format!("objective.loss={name} {bounds}")));
    let terms = [
        "covariance={method=\"clip-cov\",fraction=0.1,low=0.0,high=100.0}",
        "covariance={method=\"kl-cov\",fraction=0.1,kl=\"k1\"}",
        "covariance={method=\"kl-cov\",fraction=0.1,kl=\"k2\"}",
        "covariance={method=\"none\"}",
        "aggregation=seq-mean-token-sum",
        "entropy_mask_fraction=0.2",
        "entropy_bonus={coefficient=0.01}",
        "reference_kl={coefficient=10.0,estimator=\"k2\"}",
        "methods.w_reinforce={}",
        "methods.repo_r={zeta=0.5}",
        "methods.repo_r={zeta=0.5,zeta_max=1.0,target_entropy=0.1} \
         objective.entropy_bonus.target= objective.entropy_bonus.rate=",
        "methods.entropy_advantage={alpha=0.4,kappa=2.0}",
        "methods.steer={weight_min=0.1}",
        "methods.erc={low=0.9999,high=1.0001}",
        "methods.clip_b={mu=0.5}",
        "loss=clip objective.methods.bapo={lower_start=0.7,upper_start=1.001,upper_max=1.01}",
        "methods.clip_v={mu=0.1,max_fraction=0.5}",
        "loss=clip objective.methods.flexible_clip={upper_slope=0.0,upper_intercept=0.002} \
         objective.clip_high=0.001",
        "loss=clip objective.methods.archer={high_entropy_clip_high=0.0}",
        "methods.entropic={high_prob=0.1} objective.entropy_bonus.target= \
         objective.entropy_bonus.rate=",
    ];
    all.extend(terms.map(|term| format!("objective.{term}")));
    let mut made: Vec<(&String, Vec<u8>)> = Vec::new();
    for (i, sets) in all.iter().enumerate() {
        let common = "run.steps=2 eval.every=0 rollout.prompts=6 rollout.temperature=1.5 \
                      update.epochs=1";
        let out = bench.run(&format!("setting-{i}"), format!("{common} {sets}"), "");
        assert_finite(&out, sets);
        let weights = weights(&out, 2);
        let same = made.iter().find(|(_, other)| *other == weights);
        assert!(same.is_none(), "{sets} has come to the weights of {}", same.unwrap().0);
        made.push((sets, weights));
    }
}

/// The learning rate is too small to change a weight, so that slopes recorded after the step are
/// what they were before its updates.
#[test]
fn clip_v_drops_tokens_by_the_slopes_of_the_policy_before_the_step() {
    let (mu, bench) = (0.5, Bench::train());
    let sets = "run.steps=1 eval.every=0 rollout.filter=false update.epochs=1 \
                optimizer.learning_rate=1e-30 lab.record_tokens=1000000 lab.track_theory=true";
    let method = format!("objective.methods.clip_v={{mu={mu},max_fraction=1.0}}");
    let out = bench.run("run", format!("{sets} {method}"), "");
    let records = json_lines(&out.join("tokens/step-000001.jsonl"));
    let share = |update: u64| {
        let own = records.iter().filter(|record| record["update"] == update);
        let of_record = |record: &Value| {
            let advantage = record["advantages"].as_f64().unwrap();
            let slopes = record["entropy_slopes_after"].as_array().unwrap().clone();
            slopes.into_iter().map(move |slope| (advantage, slope.as_f64().unwrap()))
        };
        let tokens: Vec<(f64, f64)> = own.flat_map(of_record).collect();
        let count = tokens.len() as f64;
        let mean = tokens.iter().map(|(_, slope)| slope).sum::<f64>() / count;
        let squares: f64 = tokens.iter().map(|(_, slope)| (slope - mean) * (slope - mean)).sum();
        let least = mu * (squares / count).sqrt();
        tokens.iter().filter(|(advantage, slope)| *advantage < 0.0 && *slope > least).count() as f64
            / count
    };
    let (first, second) = (share(1), share(2));
    assert!(first > 0.0 && second > 0.0 && first != second, "{first} {second}");
    let measured = metrics(&out)[1]["method/clip_v"].as_f64().unwrap();
    assert!((measured - (first + second) / 2.0).abs() < 1e-12, "{measured}: {first} {second}");
}

#[test]
fn a_filter_that_never_finds_enough_says_so_or_trains_on_what_there_is() {
    let bench = Bench::train();
    let short = "run.steps=1 eval.every=0 rollout.prompts=24 rollout.max_batches=1";
    let parts = [
        "the filter left ",
        " of 24 prompts after 1 batches",
        "rollout.max_batches",
        "rollout.when_short",
    ];
    failure_last(bench.command("error", short, ""), &parts);
    let train = format!("{short} rollout.when_short=train");
    let said = succeed(bench.command("train", train, ""));
    assert_parts(&said, &["training on ", " of 24 prompts"]);
    assert_finite(&bench.out("train"), "train");
    // Nothing at all to train on is an error all the same.
    let row = |i: u32| json!({"problem": format!("{i} {i} {i}>{i}:"), "answer": "987654321"});
    let rows = bench.scratch.lines("impossible.jsonl", &(1..9).map(row).collect::<Vec<_>>());
    let sets = format!(
        "run.steps=1 eval.every=0 rollout.max_batches=2 rollout.when_short=train data.files={rows}"
    );
    let parts = ["0 of 4 prompts after 2 batches", "data of another difficulty"];
    failure_last(bench.command("nothing", sets, ""), &parts);
    // Without the filter groups that teach nothing are kept.
    let out = bench.run("all", "run.steps=1 eval.every=0 rollout.filter=false", "");
    let line = &metrics(&out)[1];
    assert_eq!((&line["rollout/groups"], &line["rollout/carried"]), (&json!(4.0), &json!(0.0)));
}

#[test]
fn truncated_responses_are_masked() {
    let bench = Bench::train();
    let sets =
        "run.steps=1 eval.every=0 rollout.max_tokens=13 rollout.filter=false update.epochs=1";
    let plain = bench.run("plain", sets, "");
    let masked = bench.run("masked", format!("{sets} reward.mask_truncated=true"), "");
    let lines = rollouts(&plain, 1);
    let count = lines.iter().filter(|line| line["truncated"] == true).count();
    assert!(0 < count && count < lines.len(), "{count} of {} are truncated", lines.len());
    assert_eq!(lines, rollouts(&masked, 1), "the first rollout is the same");
    assert_ne!(weights(&plain, 1), weights(&masked, 1));
    // A run in which every response is masked goes on.
    let all = sets.replace("tokens=13", "tokens=2") + " reward.mask_truncated=true";
    let out = bench.run("all", all, "");
    assert_finite(&out, "all masked");
    assert_eq!(metrics(&out)[1]["update/count"], 0.0);
}

#[test]
fn five_gradients_in_a_row_that_are_no_numbers_end_the_run() {
    // Rewards so large that the gradient overflows.
    let sets = "run.steps=9 eval.every=0 rollout.filter=false objective.advantage=dr-grpo \
                reward.overlong={buffer=16,factor=1e300}";
    let parts = ["was not finite 5 times in a row", "optimizer.learning_rate"];
    failure_last(Bench::train().command("run", sets, ""), &parts);
}

/// The truncation of sampling holds while the rollout is learnt from: the ratio is 1 before the
/// first update, whatever was cut off.
#[test]
fn truncated_rollouts_are_learnt_from_as_they_were_drawn() {
    let bench = Bench::train();
    let sets = "run.steps=2 eval.every=0 rollout.prompts=6 rollout.temperature=1.5 \
                update.epochs=1 rollout.top_p=0.8 rollout.top_k=6 rollout.min_p=0.01 \
                rollout.filter=false update.prompts=6";
    let out = bench.run("on-policy", sets, "");
    assert_finite(&out, "truncated");
    for line in &metrics(&out)[1..] {
        let ratios = (&line["policy/log_ratio_abs"], &line["policy/ratio_max"]);
        assert_eq!(ratios, (&json!(0.0), &json!(1.0)));
        let number = |name: &str| line[name].as_f64().unwrap();
        let (mean, least) = (number("rollout/kept_mass_mean"), number("rollout/kept_mass_min"));
        assert!(0.1 < least && least < mean && mean < 0.999, "{least} {mean}");
        assert!((1.0..=6.0).contains(&number("rollout/kept_tokens")), "{line}");
    }
}
