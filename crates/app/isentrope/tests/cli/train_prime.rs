//! PRIME: runs with a process model beside the policy.

use crate::processes::{kill, start, until_reached};
use crate::program::{failure_last, isentrope, parse_lines, stdout_of, text};
use crate::training::{
    Bench, assert_same_results, base, checkpoint, lines, metrics, results, rollouts, state, weights,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const PRIME: [&str; 4] = [
    "objective.advantage=prime",
    "objective.entropy_bonus={}",
    "prime.optimizer={learning_rate=2e-3, weight_decay=0.1}",
    "prime.prompts=3",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&PRIME[..], more].concat()
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} is {} in {line}", line[name]))
}

fn process_model(out: &Path, step: u64) -> PathBuf {
    checkpoint(out, step).join("trainer/process_model")
}

#[test]
fn a_run_that_is_killed_ends_with_the_same_bytes() {
    let bench = Bench::train();
    let sets = with(&["run.steps=4", "checkpoint.every=1", "rollout.accuracy_band=[0.25, 0.75]"]);
    let whole = bench.run("whole", &sets, &[]);
    let killed = bench.out("killed");
    for step in [1, 2] {
        let mut child = start(bench.command("killed", &sets, &["--resume"]));
        until_reached(&mut child, || lines(&killed) > step);
        kill(&mut child);
    }
    let resumed = bench.run("killed", &sets, &["--resume"]);
    assert_same_results(&whole, &resumed);
    // The process model is a part of them: a model of its own, that its own optimizer has moved.
    let moments = "checkpoints/step-000004/trainer/process_model/moments/model.safetensors";
    assert!(results(&whole).contains_key(moments));
    let [first, last] = [3, 4].map(|step| model_of(&process_model(&whole, step)));
    assert!(first != last && last != model_of(Path::new(base())));
    let updates: f64 = metrics(&whole)[1..].iter().map(|line| number(line, "prime/updates")).sum();
    assert_eq!(state(&whole, 4)["process_optimizer"]["updates"].as_f64(), Some(updates));
    assert_eq!(updates, 8.0, "four prompts a step, in minibatches of three and of one");
    // Neither passes nor threads show.
    let sets = [&sets[..], &["memory.micro_batch_tokens=11"]].concat();
    assert_same_results(&whole, &bench.run("other", &sets, &["--threads", "3"]));
}

fn model_of(dir: &Path) -> Vec<u8> {
    fs::read(dir.join("model.safetensors")).unwrap()
}

#[test]
fn before_it_has_learnt_a_process_model_adds_nothing() {
    let bench = Bench::train();
    let sets = ["run.steps=2", "eval.every=0", "prime.order=after", "lab.record_tokens=1000000"];
    let out = bench.run("run", &with(&sets), &[]);
    let [_, first, second] = &metrics(&out)[..] else { panic!("two steps") };
    assert_eq!(number(first, "prime/process_share"), 0.0);
    // The second of the two minibatches meets a model that has learnt from the first.
    assert!((number(first, "prime/loss") - std::f64::consts::LN_2).abs() < 0.1);
    assert!(number(second, "prime/process_share") > 0.01);
    let advantages = |step: u64| -> Vec<bool> {
        let file = fs::read_to_string(out.join(format!("tokens/step-{step:06}.jsonl"))).unwrap();
        let lines = parse_lines(&file).into_iter();
        lines.filter_map(|line| Some(line.get("advantages")?.is_array())).collect()
    };
    let (first, second) = (advantages(1), advantages(2));
    assert!(
        !first.is_empty() && !first.contains(&true),
        "one number where all tokens have the same"
    );
    assert!(second.contains(&true), "an array where they differ");
    let page = bench.scratch.path("page.html");
    stdout_of(&mut isentrope(&["inspect", &text(&out), "--step", "2", "--out", &page]));
    assert!(fs::read_to_string(page).unwrap().len() > 1000);

    let before = bench.run("before", &with(&["run.steps=1", "eval.every=0"]), &[]);
    assert!(
        number(&metrics(&before)[1], "prime/process_share") > 0.01,
        "it has learnt before it scores"
    );
}

/// Everything that reads advantages, and everything that the gradient is made of.
#[test]
fn prime_goes_with_every_other_setting() {
    let bench = Bench::train();
    let mut all = Vec::new();
    let cases: [&[&str]; 10] = [
        &["prime.order=after"],
        &["prime.process_scale=none", "prime.beta=1.0"],
        &["prime.outcome_weight=0"],
        &["reward.mask_truncated=true", "rollout.max_tokens=10", "rollout.filter=false"],
        &["objective.covariance={method=\"clip-cov\", fraction=0.1, low=0.0, high=100.0}"],
        &["objective.covariance={method=\"kl-cov\", target_entropy={fraction_of_initial=0.8}}"],
        &["objective.reference_kl={coefficient=0.1}"],
        &["rollout.top_p=0.8", "rollout.temperature=1.3"],
        &["objective.loss=gspo", "update.epochs=1", "rollout.filter=false"],
        &["lab.track_theory=true", "objective.entropy_mask_fraction=0.5"],
    ];
    for (i, sets) in cases.iter().enumerate() {
        let sets = with(&[&["run.steps=2", "eval.every=0", "rollout.prompts=6"], *sets].concat());
        let out = bench.run(&format!("run-{i}"), &sets, &[]);
        for line in metrics(&out) {
            for (name, value) in line.as_object().unwrap() {
                assert!(value.is_number(), "{sets:?}: {name} is {value} in step {}", line["step"]);
            }
        }
        let last = metrics(&out).pop().unwrap();
        assert_eq!(
            last.get("kl/reference").is_some(),
            sets.iter().any(|set| set.contains("reference_kl"))
        );
        all.push(weights(&out, 2));
    }
    for (i, a) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|b| a != b), "{:?} has changed nothing", cases[i]);
    }
}

#[test]
fn a_process_model_that_was_trained_elsewhere_is_begun_with() {
    let bench = Bench::train();
    let sets = ["run.steps=2", "eval.every=0", "prime.order=after"];
    let first = bench.run("first", &with(&sets), &[]);
    let model = process_model(&first, 2);
    let set = format!("prime.model={model:?}");
    let second = bench.run("second", &with(&[&sets[..], &[&set]].concat()), &[]);
    assert!(
        number(&metrics(&second)[1], "prime/process_share") > 0.01,
        "it knows something already"
    );
    // It is a model like any other, and a policy may begin with it too.
    let generated =
        isentrope(&["generate", &text(&model), "--prompt", "1 2 3>6:", "--max-tokens", "4"])
            .output()
            .unwrap();
    assert!(generated.status.success());
    let tiny = crate::text_model::text_model(&bench.scratch, "other");
    let set = format!("prime.model={tiny:?}");
    let parts = ["prime.model", "config.json is another than the policy's"];
    failure_last(&mut bench.command("refused", &with(&[&set]), &[]), &parts);
}

#[test]
fn a_run_without_a_process_model_does_not_go_on_with_one() {
    let bench = Bench::train();
    bench.run("run", &["run.steps=2", "eval.every=0"], &[]);
    let parts =
        ["objective.advantage is \"prime\"", "the checkpoint has no process model", "model.path"];
    failure_last(&mut bench.command("run", &with(&["run.steps=4"]), &["--resume"]), &parts);
}

#[test]
fn a_process_model_is_not_lost_on_resuming_without_it() {
    let bench = Bench::train();
    let sets = with(&["run.steps=2", "eval.every=0"]);
    let out = bench.run("run", &sets, &[]);
    let sets = with(&["run.steps=4", "eval.every=0", "objective.advantage=rloo"]);
    let parts =
        ["objective.advantage was \"prime\" until there", "the run's process model would be lost"];
    failure_last(&mut bench.command("run", &sets, &["--resume"]), &parts);
    assert!(process_model(&out, 2).is_dir());
}

/// For every estimator.
#[test]
fn the_filter_keeps_prompts_within_a_band_of_accuracy() {
    let bench = Bench::train();
    for advantage in ["grpo", "prime"] {
        let set = format!("objective.advantage={advantage}");
        let sets = ["run.steps=2", "eval.every=0", "rollout.accuracy_band=[0.25, 0.5]", &set];
        let out = bench.run(advantage, &sets, &[]);
        let responses = rollouts(&out, 1);
        let passes = |group: &&[Value]| {
            let correct = group.iter().filter(|response| response["verdict"] == "correct").count();
            (1..=2).contains(&correct)
        };
        let groups = responses.chunks(4);
        let (all, passing) = (groups.len(), groups.filter(passes).count());
        assert!(4 <= passing && passing < all, "{passing} of {all}");
        assert_eq!(number(&metrics(&out)[2], "rollout/carried"), (passing - 4) as f64);
    }
    let sets = ["rollout.accuracy_band=[0.26, 0.49]", "rollout.max_batches=2"];
    failure_last(
        &mut bench.command("none", &sets, &[]),
        &["the filter left 0 of 4", "widen rollout.accuracy_band"],
    );
}
