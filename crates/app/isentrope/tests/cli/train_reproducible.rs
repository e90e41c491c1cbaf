//! One recipe, one result: whatever the threads, the memory and the instruction set.

use crate::program::stderr;
use crate::training::{
    Bench, assert_resumes, assert_same_results, differences, metrics, results, state,
};
use isentrope_kernels::Isa;

#[test]
fn one_seed_is_one_result_and_another_is_another() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = ["run.steps=2", "eval.every=2"];
        let first = bench.run("first", &sets, &[]);
        assert_same_results(&first, &bench.run("second", &sets, &[]));
        let other = bench.run("other", &[sets[0], sets[1], "run.seed=4"], &[]);
        let other = differences(&results(&first), &results(&other));
        for file in [
            "metrics.jsonl",
            "checkpoints/step-000002/model.safetensors",
            "evaluations/step-000002-",
        ] {
            assert!(
                other.iter().any(|name| name.starts_with(file)),
                "{file} is the same with another seed"
            );
        }
    }
}

/// The states that runs are compared by hold what the tests of resumption are about.
#[test]
fn a_run_of_the_tests_has_surplus_groups_a_moving_coefficient_and_several_updates() {
    let bench = Bench::train();
    let out = bench.run("run", &["checkpoint.every=1", "checkpoint.keep=9"], &[]);
    let metrics = metrics(&out);
    assert_eq!(metrics.len(), 7, "a line before the first step and one for each");
    assert!(metrics[1..].iter().all(|m| m["update/count"] == 4.0), "{metrics:?}");
    assert!(metrics[1..].iter().all(|m| m["cov/selected"].as_f64().unwrap() >= 4.0), "{metrics:?}");
    assert!(
        metrics.iter().any(|m| m["rollout/carried"].as_f64().unwrap_or(0.0) > 0.0),
        "{metrics:?}"
    );
    let trainer = |step| state(&out, step)["trainer"].clone();
    let coefficient =
        |step| trainer(step)["entropy_control"]["bonus_coefficient"].as_f64().unwrap();
    assert!((2..=6).any(|step| coefficient(step) != coefficient(1)));
    let surplus = |step| trainer(step)["surplus"].as_array().unwrap().len();
    assert!((1..=6).any(|step| surplus(step) > 0), "no checkpoint has groups left over");
}

/// The least budget, in GiB, with which a run of these settings is not refused, and a little more
/// than it.
fn tight_budget(bench: &Bench, sets: &[&str]) -> f64 {
    let (mut small, mut large) = (0.0, 0.1);
    while large - small > 1e-5 {
        let middle = (small + large) / 2.0;
        let set = format!("memory.budget_gib={middle}");
        let dry =
            bench.command("dry", &[sets, &[&*set]].concat(), &["--dry-run"]).output().unwrap();
        let fits = dry.status.success();
        assert!(fits || stderr(&dry).contains("needs at least"), "{}", stderr(&dry));
        if fits { large = middle } else { small = middle }
    }
    assert!(large < 0.09, "nothing fits");
    large
}

#[test]
fn memory_settings_change_nothing() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = ["run.steps=3", "eval.every=3"];
        let run = |out: &str, set: &str| bench.run(out, &[sets[0], sets[1], set], &[]);
        let whole = run("whole", "run.seed=3");
        for tokens in [17, 4096] {
            let set = format!("memory.micro_batch_tokens={tokens}");
            assert_same_results(&whole, &run(&format!("tokens-{tokens}"), &set));
        }
        // From where nothing can be kept for the backward passes to where everything can.
        let least = tight_budget(&bench, &sets);
        for (i, more) in [0.0, 1e-4, 2e-3].into_iter().enumerate() {
            let set = format!("memory.budget_gib={}", least + more);
            assert_same_results(&whole, &run(&format!("budget-{i}"), &set));
        }
    }
}

#[test]
fn activations_kept_from_sampling_change_nothing() {
    let bench = Bench::train();
    let on_policy = [
        "rollout.filter=false",
        "update.epochs=1",
        "update.prompts=4",
        "run.steps=2",
        "eval.every=0",
    ];
    let half_on_policy = ["rollout.filter=false", "update.epochs=1", "run.steps=2", "eval.every=0"];
    for (name, sets) in [("whole", &on_policy[..]), ("half", &half_on_policy)] {
        let are_kept = |sets: &[&str]| {
            let output = bench.command("dry", sets, &["--dry-run"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().contains("kept for the update")
        };
        assert!(are_kept(sets), "there is memory for them");
        let whole = bench.run(name, sets, &[]);
        let least = tight_budget(&bench, sets);
        for (i, more) in [0.0, 5e-4, 2e-3].into_iter().enumerate() {
            let budget = format!("memory.budget_gib={}", least + more);
            let tight = [sets, &[&*budget]].concat();
            assert!(i > 0 || !are_kept(&tight), "there is no memory for them");
            assert_same_results(&whole, &bench.run(&format!("{name}-{i}"), &tight, &[]));
        }
    }
}

#[test]
fn threads_change_nothing() {
    for bench in [Bench::train(), Bench::sft()] {
        let one = bench.run("one", &["run.steps=3"], &["--threads", "1"]);
        let sets = ["run.steps=3", "memory.micro_batch_tokens=40"];
        assert_same_results(&one, &bench.run("five", &sets, &["--threads", "5"]));
    }
}

#[test]
fn the_instruction_set_changes_nothing() {
    let others = Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar);
    let available: Vec<String> = others.map(|isa| isa.to_string()).collect();
    assert!(
        !available.is_empty() || cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64")))
    );
    for bench in [Bench::train(), Bench::sft()] {
        let run = |isa: &str| {
            crate::training::succeed(
                bench.command(isa, &["run.steps=1", "eval.every=0"], &[]).env("ISENTROPE_ISA", isa),
            );
            bench.out(isa)
        };
        let scalar = run("scalar");
        for isa in &available {
            assert_same_results(&scalar, &run(isa));
        }
    }
}

/// The tokens that were kept go through checkpoints with the groups that are left over, and into
/// whatever passes there are.
#[test]
fn truncated_rollouts_are_as_reproducible() {
    let bench = Bench::train();
    let sets =
        ["rollout.top_p=0.8", "rollout.temperature=1.5", "checkpoint.every=1", "checkpoint.keep=9"];
    let whole = assert_resumes(&bench, "whole", &sets, 2, 4);
    assert!(
        (1..=3)
            .any(|step| !state(&whole, step)["trainer"]["surplus"].as_array().unwrap().is_empty())
    );
    let more = ["run.steps=4", "optimizer.schedule=constant", "memory.micro_batch_tokens=17"];
    assert_same_results(&whole, &bench.run("tokens", &[&sets[..], &more].concat(), &[]));
}
