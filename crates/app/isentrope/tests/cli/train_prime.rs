//! PRIME: runs with a process model beside the policy. `crates/learn/objective/tests/prime.rs` and
//! `crates/learn/train/tests/process_model.rs` compare the numbers with PyTorch's.

use crate::processes::{kill, start, until_reached};
use crate::program::{failure_last, isentrope, lines_of, text};
use crate::train_objectives::assert_all_differ;
use crate::training::{
    Bench, assert_same_results, base, checkpoint, lines, metrics, results, rollouts, state,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const PRIME: &str = "objective.advantage=prime objective.entropy_bonus={} \
                     prime.optimizer={learning_rate=2e-3,weight_decay=0.1} prime.prompts=3";

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} is {} in {line}", line[name]))
}

fn process_model(out: &Path, step: u64) -> PathBuf {
    checkpoint(out, step).join("trainer/process_model")
}

#[test]
fn a_run_that_is_killed_ends_with_the_same_bytes() {
    let bench = Bench::train();
    let sets = format!("{PRIME} run.steps=4 checkpoint.every=1 rollout.accuracy_band=[0.25,0.75]");
    let whole = bench.run("whole", &sets, "");
    let killed = bench.out("killed");
    for step in [1, 2] {
        let mut child = start(bench.command("killed", &sets, "--resume"));
        until_reached(&mut child, || lines(&killed) > step);
        kill(&mut child);
    }
    assert_same_results(&whole, &bench.run("killed", &sets, "--resume"));
    // The process model is a part of them: a model of its own, that its own optimizer has moved.
    let moments = "checkpoints/step-000004/trainer/process_model/moments/model.safetensors";
    assert!(results(&whole).contains_key(moments));
    let model = |dir: &Path| fs::read(dir.join("model.safetensors")).unwrap();
    let [first, last] = [3, 4].map(|step| model(&process_model(&whole, step)));
    assert!(first != last && last != model(base().as_ref()));
    let updates: f64 = metrics(&whole)[1..].iter().map(|line| number(line, "prime/updates")).sum();
    assert_eq!(state(&whole, 4)["process_optimizer"]["updates"].as_f64(), Some(updates));
    assert_eq!(updates, 8.0, "four prompts a step, in minibatches of three and of one");
    // Neither passes nor threads show.
    let other = format!("{sets} memory.micro_batch_tokens=11");
    assert_same_results(&whole, &bench.run("other", other, "--threads 3"));
}

#[test]
fn before_it_has_learnt_a_process_model_adds_nothing() {
    let bench = Bench::train();
    let sets = format!("{PRIME} run.steps=2 eval.every=0 prime.order=after");
    let out = bench.run("run", &sets, "");
    let [_, first, second] = &metrics(&out)[..] else { panic!("two steps") };
    assert_eq!(number(first, "prime/process_share"), 0.0);
    // The second of the two minibatches meets a model that has learnt from the first.
    assert!((number(first, "prime/loss") - std::f64::consts::LN_2).abs() < 0.1);
    assert!(number(second, "prime/process_share") > 0.01);

    // A process model that was trained elsewhere knows something already.
    let model = process_model(&out, 2);
    let second = bench.run("second", format!("{sets} prime.model={}", text(&model)), "");
    assert!(number(&metrics(&second)[1], "prime/process_share") > 0.01);
    // It is a model like any other, and a policy may begin with it too.
    let line = format!("generate {} --prompt '1 2 3>6:' --max-tokens 4", text(&model));
    assert_eq!(lines_of(isentrope(line)).len(), 1);
    let tiny = text(&crate::text_model::text_model(&bench.scratch, "other"));
    let parts = ["prime.model", "config.json is another than the policy's"];
    failure_last(bench.command("refused", format!("{PRIME} prime.model={tiny}"), ""), &parts);

    // It is neither lost nor made up on resuming.
    let without = "run.steps=4 eval.every=0 objective.advantage=rloo";
    let parts = ["objective.advantage was \"prime\" until there", "process model would be lost"];
    failure_last(bench.command("run", without, "--resume"), &parts);
    assert!(process_model(&out, 2).is_dir());
    bench.copy_of_run("plain", "run.steps=1");
    let parts = ["objective.advantage is \"prime\"", "the checkpoint has no process model"];
    failure_last(bench.command("plain", format!("{PRIME} run.steps=4"), "--resume"), &parts);
}

/// Everything that reads advantages, and everything that the gradient is made of.
#[test]
fn prime_goes_with_every_other_setting() {
    let all = [
        "prime.process_scale=none prime.beta=1.0",
        "prime.outcome_weight=0",
        "reward.mask_truncated=true rollout.max_tokens=10 rollout.filter=false",
        "objective.covariance={method=\"clip-cov\",fraction=0.1,low=0.0,high=100.0}",
        "objective.covariance={method=\"kl-cov\",target_entropy={fraction_of_initial=0.8}} \
         objective.reference_kl={coefficient=0.1}",
        "rollout.top_p=0.8 rollout.temperature=1.3",
        "objective.loss=gspo update.epochs=1 rollout.filter=false",
        "lab.track_theory=true objective.entropy_mask_fraction=0.5",
    ];
    let common = format!("{PRIME} run.steps=2 eval.every=0 rollout.prompts=6");
    assert_all_differ(&Bench::train(), &common, &all.map(str::to_owned));
}

/// For every estimator.
#[test]
fn the_filter_keeps_prompts_within_a_band_of_accuracy() {
    let bench = Bench::train();
    for advantage in ["grpo", "prime"] {
        let sets = "run.steps=2 eval.every=0 rollout.accuracy_band=[0.25,0.5]";
        let out = bench.run(advantage, format!("{sets} objective.advantage={advantage}"), "");
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
    let sets = "rollout.accuracy_band=[0.26,0.49] rollout.max_batches=2";
    let parts = ["the filter left 0 of 4", "widen rollout.accuracy_band"];
    failure_last(bench.command("none", sets, ""), &parts);
}
