//! Entropy on the same states all along a run, and the changes that theory foresees. Tracking
//! either changes no other number.

use crate::program::{
    assert_parts, failure_last, isentrope, json_lines, json_of, lines_of, outcome, stdout_of, text,
};
use crate::training::{
    Bench, assert_resumes, base, checkpoint, differences, metrics, results, rollouts, succeed,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const TRACKED: &str = "lab.track_states=true lab.track_theory=true";
const FILE: &str = "initial-states.jsonl";

/// Metrics of a run, a line per step.
type Metrics = Vec<Map<String, Value>>;

/// The metrics of what is tracked, and the others.
fn parted(out: &Path) -> (Metrics, Metrics) {
    let is_tracked = |name: &String| {
        name.starts_with("theory/")
            || name.ends_with("/entropy_initial_states")
            || name.ends_with("/kl_initial")
    };
    let part = |line: Value| {
        let Value::Object(line) = line else { panic!("{line}") };
        line.into_iter().partition(|(name, _)| is_tracked(name))
    };
    metrics(out).into_iter().map(part).unzip()
}

/// Everything that the recipe decides but what tracking adds: the file, the metrics, its hash in
/// checkpoints, and token records of all tokens, which the theory is checked on.
fn others(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = results(out);
    files.retain(|name, _| {
        !["metrics.jsonl", FILE].contains(&&name[..])
            && !name.starts_with("tokens/")
            && !["trainer/state.json", "trainer/files.json"].iter().any(|end| name.ends_with(end))
    });
    assert!(files.keys().any(|name| name.ends_with("model.safetensors")), "{:?}", files.keys());
    files
}

#[test]
fn tracking_changes_nothing_else() {
    let bench = Bench::train();
    let sets = "eval.top_p=0.8 eval.temperature=1.5 rollout.top_p=0.8 run.steps=4";
    let plain = bench.run("plain", sets, "");
    let tracked = bench.run("tracked", format!("{sets} {TRACKED}"), "");
    let ((none, want), (of_lab, got)) = (parted(&plain), parted(&tracked));
    assert_eq!(got, want);
    assert!(none.iter().all(Map::is_empty) && !plain.join(FILE).exists());
    assert_eq!(differences(&others(&tracked), &others(&plain)), [""; 0]);
    let get = |step: usize, what: &str| of_lab[step][what].as_f64().unwrap();
    let entropy = "eval/problems/entropy_initial_states";
    let first = got[0]["eval/problems/entropy"].as_f64().unwrap();
    assert_eq!(get(0, entropy).to_bits(), first.to_bits(), "the same tokens and policy");
    assert_eq!(get(0, "eval/problems/kl_initial"), 0.0);
    assert_eq!(of_lab[1].get(entropy), None, "steps without an evaluation");
}

/// Mean over responses of the mean entropy over their tokens, and all log-probs, as `score` has
/// them.
fn scored(model: &str, input: &str) -> (f64, Vec<f64>) {
    let lines = lines_of(isentrope(format!("score {model} --in {input} --temperature 0.9")));
    let numbers = |line: &Value, key: &str| -> Vec<f64> {
        let numbers: Vec<f32> = serde_json::from_value(line[key].clone()).unwrap();
        numbers.into_iter().map(f64::from).collect()
    };
    let mean = |line: &Value| {
        let entropies = numbers(line, "entropies");
        entropies.iter().sum::<f64>() / entropies.len() as f64
    };
    let entropy = lines.iter().map(mean).sum::<f64>() / lines.len() as f64;
    (entropy, lines.iter().flat_map(|line| numbers(line, "logprobs")).collect())
}

/// `score` finds the same entropies and KL for the states in the run's file, and the first step's
/// change is the difference of the entropies before and after it.
#[test]
fn the_numbers_are_those_that_another_command_scores() {
    let bench = Bench::train();
    let sets = "rollout.filter=false rollout.temperature=0.9 eval.temperature=0.9 eval.every=1 \
                run.steps=1 optimizer.warmup_steps=0 optimizer.schedule=constant \
                checkpoint.dtype=float32";
    let out = bench.run("run", format!("{TRACKED} {sets}"), "");
    let (line, model) = (&metrics(&out)[1], text(&checkpoint(&out, 1)));
    let near = |name: &str, want: f64, within: f64| {
        let got = line[name].as_f64().unwrap();
        assert!((got - want).abs() < within, "{name} is {got}, not {want}");
    };
    let states = json_lines(&out.join(FILE));
    assert_eq!(states.len(), 12, "two responses to each of six problems");
    let (entropy, now) = scored(&model, &text(&out.join(FILE)));
    near("eval/problems/entropy_initial_states", entropy, 1e-12);
    let initial = states.iter().flat_map(|state| state["logprobs"].as_array().unwrap());
    let initial: Vec<f64> = initial.map(|lp| f64::from(lp.as_f64().unwrap() as f32)).collect();
    assert_eq!(initial.len(), now.len());
    let ratios = initial.iter().zip(&now).map(|(initial, now)| initial - now);
    near("eval/problems/kl_initial", ratios.sum::<f64>() / now.len() as f64, 1e-12);

    // The tokens of the responses' texts, and the end token of each response that ended by itself.
    let responses = rollouts(&out, 1);
    let part = |r: &Value| json!({"prompt": r["prompt"], "response": r["response"]});
    let texts = bench.scratch.lines("texts.jsonl", &responses.iter().map(part).collect::<Vec<_>>());
    let config = json_of(&Path::new(base()).join("generation_config.json"));
    let mut encoded = lines_of(isentrope(format!("score {} --in {texts}", base())));
    for (line, response) in encoded.iter_mut().zip(&responses) {
        let tokens = line["tokens"].as_array_mut().unwrap();
        if response["truncated"] == false {
            tokens.push(config["eos_token_id"].clone());
        }
        *line = json!({"tokens": line["tokens"], "prompt_tokens": line["prompt_tokens"]});
    }
    let tokens = bench.scratch.lines("tokens.jsonl", &encoded);
    let (before, after) = (scored(base(), &tokens).0, scored(&model, &tokens).0);
    near("policy/entropy", before, 1e-9);
    near("theory/entropy_change", after - before, 1e-9);
    assert!(after != before);
}

#[test]
fn what_is_tracked_depends_on_the_recipe_alone_and_outlasts_interruptions() {
    let bench = Bench::train();
    let sets = format!("{TRACKED} eval.top_p=0.9 rollout.top_p=0.9");
    let whole = assert_resumes(&bench, "whole", &sets, 1, 3);
    // After tracking was off for a step, the states are still the initial ones.
    let common = format!("{sets} eval.every=1 checkpoint.every=1 optimizer.schedule=constant");
    let off = bench.out("off");
    bench.run("off", format!("{common} run.steps=1"), "");
    bench.run("off", format!("{common} run.steps=2 lab.track_states=false"), "--resume");
    bench.run("off", format!("{common} run.steps=3"), "--resume");
    let (want, got) = (parted(&whole).0, parted(&off).0);
    assert_eq!((&got[1], &got[3]), (&want[1], &want[3]));
    assert!(!got[2].contains_key("eval/problems/kl_initial"));

    // Damaged or missing initial states are refused.
    let refuses = |part: &str| {
        let parts = [FILE, part, "lab.track_states=false"];
        failure_last(bench.command("off", format!("{common} run.steps=4"), "--resume"), &parts);
    };
    let states = fs::read(off.join(FILE)).unwrap();
    fs::write(off.join(FILE), &states[..states.len() - 1]).unwrap();
    refuses("its SHA-256 is another");
    fs::remove_file(off.join(FILE)).unwrap();
    refuses("is gone");
    // Switched on too late: a sentence, and no numbers.
    let late = bench.copy_of_run("late", "run.steps=1");
    let sets = "run.steps=2 lab.track_states=true";
    let said = succeed(bench.command("late", sets, "--resume"));
    assert_parts(&said, &["the states of the start were not kept"]);
    assert!(parted(&late).0.iter().all(Map::is_empty) && !late.join(FILE).exists());
}

/// `crates/app/lab` tests what theory is and how it is shown.
#[test]
fn runs_say_how_well_the_theory_foresaw_them() {
    let bench = Bench::train();
    let said = stdout_of(bench.command("run", "lab.track_theory=true", ""));
    assert_parts(&said, &["theory of covariance", "in 6 steps", "isentrope lab theory"]);
    let out = bench.scratch.path("run");
    let text = stdout_of(isentrope(format!("lab theory {out}")));
    assert_parts(&text, &["correlation, 95 %", "Cov(log pi, pi A) in groups"]);
    let plain = bench.copy_of_run("plain", "run.steps=1");
    let (output, said) = outcome(isentrope(format!("lab theory {}", plain.display())));
    assert_eq!(output.status.code(), Some(1));
    assert_parts(&said, &["--set lab.track_theory=true"]);
}
