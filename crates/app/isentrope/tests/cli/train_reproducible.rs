//! One recipe, one result: whatever the threads, the memory and the instruction set.

use crate::program::{outcome, spoken};
use crate::training::{
    Bench, assert_resumes, assert_same_results, differences, metrics, results, state, succeed,
};
use isentrope_kernels::Isa;
use serde_json::Value;

#[test]
fn one_seed_is_one_result_and_another_is_another() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = "run.steps=2 eval.every=2";
        let first = bench.run("first", sets, "");
        assert_same_results(&first, &bench.run("second", sets, ""));
        let other = bench.run("other", format!("{sets} run.seed=4"), "");
        let other = differences(&results(&first), &results(&other));
        let model = "checkpoints/step-000002/model.safetensors";
        for file in ["metrics.jsonl", model, "evaluations/step-000002-"] {
            assert!(other.iter().any(|name| name.starts_with(file)), "{file} is the same");
        }
    }
}

/// The states that runs are compared by hold what the tests of resumption are about.
#[test]
fn a_run_of_the_tests_has_surplus_groups_a_moving_coefficient_and_several_updates() {
    let bench = Bench::train();
    let out = bench.run("run", "checkpoint.every=1 checkpoint.keep=9", "");
    let metrics = metrics(&out);
    assert_eq!(metrics.len(), 7, "a line before the first step and one for each");
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap_or(0.0);
    for line in &metrics[1..] {
        assert_eq!(number(line, "update/count"), 4.0, "{line}");
        assert!(number(line, "cov/selected") >= 4.0, "{line}");
    }
    assert!(metrics.iter().any(|line| number(line, "rollout/carried") > 0.0), "{metrics:?}");
    let trainer = |step| state(&out, step)["trainer"].clone();
    let coefficient = |step| number(&trainer(step)["entropy_control"], "bonus_coefficient");
    assert!((2..=6).any(|step| coefficient(step) != coefficient(1)));
    let surplus = |step| trainer(step)["surplus"].as_array().unwrap().len();
    assert!((1..=6).any(|step| surplus(step) > 0), "no checkpoint has groups left over");
}

/// The least budget, in GiB, with which a run of these settings is not refused, or a little more.
fn tight_budget(bench: &Bench, sets: &str) -> f64 {
    let (mut small, mut large) = (0.0, 0.1);
    while large - small > 2e-5 {
        let middle = (small + large) / 2.0;
        let set = format!("{sets} memory.budget_gib={middle}");
        let (dry, said) = outcome(bench.command("dry", set, "--dry-run"));
        let fits = dry.status.success();
        assert!(fits || said.contains("needs at least"), "{said}");
        if fits { large = middle } else { small = middle }
    }
    assert!(large < 0.09, "nothing fits");
    large
}

/// From where nothing can be kept for the backward passes, and no activations from sampling, to
/// where everything can. Methods read the whole minibatch: STEER divides by its largest Omega,
/// Clip_B and Clip_V by its deviation, and the mask takes its quantile.
#[test]
fn memory_settings_change_nothing() {
    let on_policy =
        "run.steps=2 eval.every=0 rollout.filter=false update.epochs=1 update.prompts=4";
    let methods = "run.steps=3 eval.every=3 objective.loss=clip \
                   objective.entropy_mask_fraction=0.8 \
                   objective.methods={repo_r={zeta=0.5},steer={weight_min=0.1},\
                   erc={low=0.9,high=1.1},clip_b={mu=1.0},clip_v={mu=0.2,max_fraction=0.5},\
                   archer={high_entropy_clip_low=0.0,high_entropy_clip_high=0.0}}";
    for (bench, sets, is_cached) in [
        (Bench::train(), methods, false),
        (Bench::sft(), "run.steps=3 eval.every=3", false),
        (Bench::train(), on_policy, true),
    ] {
        let whole = bench.run("whole", sets, "");
        if sets == methods {
            let lines = metrics(&whole);
            for name in ["repo_r", "steer", "erc", "clip_b", "clip_v", "archer", "entropy_mask"] {
                let metric = format!("method/{name}");
                let acts = |line: &Value| line[&metric].as_f64() > Some(0.0);
                assert!(lines[1..].iter().any(acts), "{name} touches no token");
            }
        }
        for tokens in [17, 4096] {
            let set = format!("{sets} memory.micro_batch_tokens={tokens}");
            assert_same_results(&whole, &bench.run(&format!("tokens-{tokens}"), set, ""));
        }
        let are_cached = |sets: &str| {
            spoken(bench.command("dry", sets, "--dry-run")).0.contains("kept for the update")
        };
        assert!(!is_cached || are_cached(sets), "there is memory for them");
        let least = tight_budget(&bench, sets);
        for (i, more) in [0.0, 2e-3].into_iter().enumerate() {
            let tight = format!("{sets} memory.budget_gib={}", least + more);
            assert!(!is_cached || i > 0 || !are_cached(&tight), "there is no memory for them");
            assert_same_results(&whole, &bench.run(&format!("budget-{i}"), tight, ""));
        }
    }
}

#[test]
fn threads_and_instruction_sets_change_nothing() {
    let others = Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar);
    let available: Vec<String> = others.map(|isa| isa.to_string()).collect();
    let is_known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    assert!(!available.is_empty() || !is_known);
    for bench in [Bench::train(), Bench::sft()] {
        let one = bench.run("one", "run.steps=2", "--threads 1");
        let sets = "run.steps=2 memory.micro_batch_tokens=40";
        assert_same_results(&one, &bench.run("five", sets, "--threads 5"));
        for isa in available.iter().map(String::as_str).chain(["scalar"]) {
            succeed(bench.command(isa, "run.steps=2", "").env("ISENTROPE_ISA", isa));
            assert_same_results(&one, &bench.out(isa));
        }
    }
}

/// The tokens that were kept go through checkpoints with the groups that are left over, and into
/// whatever passes there are.
#[test]
fn truncated_rollouts_are_as_reproducible() {
    let bench = Bench::train();
    let sets = "rollout.top_p=0.8 rollout.temperature=1.5 checkpoint.every=1 checkpoint.keep=9";
    let whole = assert_resumes(&bench, "whole", sets, 2, 3);
    let surplus = |step| state(&whole, step)["trainer"]["surplus"].as_array().unwrap().len();
    assert!((1..=2).any(|step| surplus(step) > 0));
    let more = "run.steps=3 optimizer.schedule=constant eval.every=2 memory.micro_batch_tokens=17";
    assert_same_results(&whole, &bench.run("tokens", format!("{sets} {more}"), ""));
}
