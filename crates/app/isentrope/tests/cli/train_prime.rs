//! PRIME: runs with a process model beside the policy. `crates/learn/objective/tests/prime.rs` and
//! `crates/learn/train/tests/process_model.rs` compare the numbers with PyTorch's.

use crate::program::{failure_last, isentrope, lines_of, text};
use crate::training::{Bench, assert_resumes, assert_same_results, base, checkpoint, metrics};
use crate::training::{rollouts, state};
use serde_json::Value;
use std::fs;
use std::path::Path;

const PRIME: &str = "objective.advantage=prime objective.entropy_bonus={} \
                     prime.optimizer={learning_rate=2e-3,weight_decay=0.1} prime.prompts=3";

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} is {} in {line}", line[name]))
}

#[test]
fn a_process_model_learns_goes_on_and_is_neither_lost_nor_made_up() {
    let bench = Bench::train();
    let sets = format!("{PRIME} checkpoint.keep=9");
    let whole = assert_resumes(&bench, "whole", &sets, 1, 2);
    let [_, first, second] = &metrics(&whole)[..] else { panic!("two steps") };
    assert_eq!(number(first, "prime/updates") + number(second, "prime/updates"), 4.0);
    assert_eq!(state(&whole, 2)["process_optimizer"]["updates"], 4);
    let process_model = checkpoint(&whole, 2).join("trainer/process_model");
    let bytes = |dir: &Path| fs::read(dir.join("model.safetensors")).unwrap();
    assert!(bytes(&process_model) != bytes(base().as_ref()), "its own optimizer has moved it");
    // Neither passes nor threads show.
    let other = format!(
        "{sets} memory.micro_batch_tokens=11 run.steps=2 eval.every=1 checkpoint.every=1 \
         optimizer.schedule=constant"
    );
    assert_same_results(&whole, &bench.run("other", other, "--threads 3"));
    // It is a model like any other; one that was trained elsewhere knows something already.
    let line = format!("generate {} --prompt '1 2 3>6:' --max-tokens 4", text(&process_model));
    assert_eq!(lines_of(isentrope(line)).len(), 1);
    let after = "run.steps=1 eval.every=0 prime.order=after";
    let fresh = bench.run("fresh", format!("{PRIME} {after}"), "");
    assert_eq!(number(&metrics(&fresh)[1], "prime/process_share"), 0.0);
    let model = format!("prime.model={}", text(&process_model));
    let begun = bench.run("begun", format!("{PRIME} {after} {model}"), "");
    assert!(number(&metrics(&begun)[1], "prime/process_share") > 0.01);
    let tiny = text(&crate::text_model::text_model(&bench.scratch, "tiny"));
    let parts = ["prime.model", "config.json is another than the policy's"];
    failure_last(bench.command("refused", format!("{PRIME} prime.model={tiny}"), ""), &parts);

    let without = "run.steps=4 eval.every=0 objective.advantage=rloo";
    let parts = ["objective.advantage was \"prime\" until there", "process model would be lost"];
    failure_last(bench.command("fresh", without, "--resume"), &parts);
    bench.copy_of_run("plain", "run.steps=1");
    let parts = ["objective.advantage is \"prime\"", "the checkpoint has no process model"];
    failure_last(bench.command("plain", format!("{PRIME} run.steps=4"), "--resume"), &parts);
}

#[test]
fn the_filter_keeps_prompts_within_a_band_of_accuracy() {
    let bench = Bench::train();
    let sets = "run.steps=2 eval.every=0 rollout.accuracy_band=[0.25,0.5]";
    let out = bench.run("band", sets, "");
    let responses = rollouts(&out, 1);
    let passes = |group: &&[Value]| {
        let correct = group.iter().filter(|response| response["verdict"] == "correct").count();
        (1..=2).contains(&correct)
    };
    let groups = responses.chunks(4);
    let (all, passing) = (groups.len(), groups.filter(passes).count());
    assert!(4 <= passing && passing < all, "{passing} of {all}");
    assert_eq!(number(&metrics(&out)[2], "rollout/carried"), (passing - 4) as f64);
    let sets = "rollout.accuracy_band=[0.26,0.49] rollout.max_batches=2";
    let parts = ["the filter left 0 of 4", "widen rollout.accuracy_band"];
    failure_last(bench.command("none", sets, ""), &parts);
}
