//! `isentrope lab theory`, and runs that track the theory.

use crate::program::{
    Scratch, failure_saying, isentrope, lines_of, parse_lines, stderr, stdout_of, text,
};
use crate::training::{
    Bench, assert_resumes, assert_same_results, base, checkpoint, differences, metrics, results,
    succeed,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

#[test]
fn the_theory_holds_and_is_shown() {
    let text = stdout_of(&mut isentrope(&["lab", "theory"]));
    for part in [
        "Lemma 1",
        "Theorem 1",
        "Theorem 2",
        "one token",
        "step^2.0",
        "all 4 statements hold on 32",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("NOT") && !text.contains('\u{1b}'), "{text}");
    let json = |arguments: &[&str]| {
        let text = stdout_of(&mut isentrope(&[&["lab", "theory", "--json"], arguments].concat()));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let found = json(&[]);
    assert_eq!((&found["holds"], &found["policies"]), (&true.into(), &32.into()));
    let claims = found["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 4);
    for claim in claims {
        let near_2 = |power: &Value| (power.as_f64().unwrap() - 2.0).abs() < 0.1;
        assert!(near_2(&claim["slope"]), "{claim}");
        let steps = claim["steps"].as_array().unwrap();
        assert!(steps.len() > 5 && steps[1..].iter().all(|step| near_2(&step["power"])), "{claim}");
    }
    assert_eq!(found, json(&[]));
    let small = json(&["--seed", "3", "--policies", "2", "--actions", "5", "--states", "2"]);
    assert_eq!(small["policies"], 4);
    assert_ne!(small["claims"], found["claims"]);
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for arguments in [&["--actions", "1"][..], &["--policies", "0"], &["run", "--seed", "1"]] {
        let output = isentrope(&[&["lab", "theory"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

#[test]
fn more_policies_than_there_is_time_for_are_refused() {
    let arguments =
        ["lab", "theory", "--policies", "10000", "--actions", "10000", "--states", "1000"];
    failure_saying(&mut isentrope(&arguments), &["--policies 10000", "at most 10000000"]);
}

/// Metrics of a run, a line per step.
type Metrics = Vec<Map<String, Value>>;

/// The metrics of the theory, and the others.
fn parted(out: &Path) -> (Metrics, Metrics) {
    let part = |line: Value| {
        let Value::Object(line) = line else { panic!("{line}") };
        line.into_iter().partition(|(name, _)| name.starts_with("theory/"))
    };
    metrics(out).into_iter().map(part).unzip()
}

const TRACKED: &str = "lab.track_theory=true";

/// Several updates per rollout, a filter with groups carried over; then also truncated sampling;
/// then one update on the policy that has sampled, from its own activations.
#[test]
fn tracking_changes_nothing_else() {
    let bench = Bench::train();
    let settings: [(&str, &[&str]); 2] = [
        ("truncated", &["rollout.top_p=0.8", "rollout.temperature=1.5", "run.steps=3"]),
        (
            "on-policy",
            &["rollout.filter=false", "update.epochs=1", "update.prompts=4", "run.steps=2"],
        ),
    ];
    for (name, sets) in settings {
        let plain = bench.run(name, sets, &[]);
        let tracked = bench.run(&format!("{name}-tracked"), &[sets, &[TRACKED]].concat(), &[]);
        let ((none, want), (theory, got)) = (parted(&plain), parted(&tracked));
        assert_eq!(got, want, "{name}");
        assert!(none.iter().all(Map::is_empty) && theory[0].is_empty(), "{name}");
        let but_metrics = |out| {
            let mut files = results(out);
            files.remove("metrics.jsonl");
            files
        };
        assert_eq!(differences(&but_metrics(&tracked), &but_metrics(&plain)), [""; 0]);

        let timings = parse_lines(&fs::read_to_string(tracked.join("timings.jsonl")).unwrap());
        assert!(timings[1..].iter().all(|line| line["time/theory_s"].as_f64().unwrap() > 0.0));
        for line in &theory[1..] {
            for metric in
                ["entropy_change", "entropy_change_token_mean", "exact", "token_covariance"]
            {
                let value = line[&format!("theory/{metric}")].as_f64().unwrap();
                assert!(value != 0.0 && value.abs() < 5.0, "{name}: {metric} is {value}");
            }
        }
    }
}

#[test]
fn what_is_tracked_depends_on_the_recipe_alone() {
    let bench = Bench::train();
    let sets = [TRACKED, "rollout.top_p=0.9", "checkpoint.every=1", "eval.every=0"];
    let whole = assert_resumes(&bench, "whole", &sets, 1, 3);
    let more = ["run.steps=3", "optimizer.schedule=constant", "memory.micro_batch_tokens=17"];
    let threads = bench.run("threads", &[&sets[..], &more].concat(), &["--threads", "3"]);
    assert_same_results(&whole, &threads);
}

/// Mean over responses of the mean entropy over their tokens.
fn entropy_of(model: &str, texts: &str) -> f64 {
    let scored = lines_of(isentrope(&["score", model, "--in", texts, "--temperature", "0.9"]));
    let mean = |line: &Value| {
        let entropies: Vec<f32> = serde_json::from_value(line["entropies"].clone()).unwrap();
        entropies.iter().map(|&h| f64::from(h)).sum::<f64>() / entropies.len() as f64
    };
    scored.iter().map(mean).sum::<f64>() / scored.len() as f64
}

/// The first step's change is the difference of the entropies before and after it, as `score` sees
/// them.
#[test]
fn a_change_of_entropy_is_that_of_the_same_responses_scored_before_and_after() {
    let bench = Bench::train();
    let sets = [
        TRACKED,
        "rollout.filter=false",
        "rollout.temperature=0.9",
        "run.steps=1",
        "optimizer.warmup_steps=0",
        "optimizer.schedule=\"constant\"",
        "checkpoint.dtype=\"float32\"",
    ];
    let out = bench.run("run", &sets, &[]);
    let line = &metrics(&out)[1];
    // The responses' tokens: those of their texts, and of those that ended by themselves the token
    // that ends them.
    let rollout = parse_lines(&fs::read_to_string(out.join("rollouts/step-000001.jsonl")).unwrap());
    assert_eq!(rollout.len(), 16);
    let texts: Vec<Value> =
        rollout.iter().map(|r| json!({"prompt": r["prompt"], "response": r["response"]})).collect();
    let texts = bench.scratch.lines("texts.jsonl", &texts);
    let config = fs::read(Path::new(base()).join("generation_config.json")).unwrap();
    let end = serde_json::from_slice::<Value>(&config).unwrap()["eos_token_id"].clone();
    let mut encoded = lines_of(isentrope(&["score", base(), "--in", &texts]));
    for (line, response) in encoded.iter_mut().zip(&rollout) {
        let tokens = line["tokens"].as_array_mut().unwrap();
        if response["truncated"] == false {
            tokens.push(end.clone());
        }
        let count = tokens.len() as u64 - line["prompt_tokens"].as_u64().unwrap();
        assert_eq!(response["tokens"], count);
        *line = json!({"tokens": line["tokens"], "prompt_tokens": line["prompt_tokens"]});
    }
    let tokens = bench.scratch.lines("tokens.jsonl", &encoded);
    let before = entropy_of(base(), &tokens);
    assert!((before - line["policy/entropy"].as_f64().unwrap()).abs() < 1e-9);
    let after = entropy_of(&text(&checkpoint(&out, 1)), &tokens);
    let change = line["theory/entropy_change"].as_f64().unwrap();
    assert!(
        change != 0.0 && (change - (after - before)).abs() < 1e-9,
        "{change} of {before} to {after}"
    );
}

#[test]
fn the_end_of_a_tracked_run_and_the_command_say_how_well_it_was_foreseen() {
    let bench = Bench::train();
    let mut command = bench.command("run", &[TRACKED], &[]);
    let said = stdout_of(&mut command);
    let out = bench.scratch.path("run");
    for part in
        ["theory of covariance", "in 6 steps", "exact, token by token", "isentrope lab theory"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let text = stdout_of(&mut isentrope(&["lab", "theory", &out]));
    for part in [
        "correlation, 95 %",
        "the same at each step",
        "Cov(log pi, pi A) in groups",
        "share of correct responses",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = stdout_of(&mut isentrope(&["lab", "theory", &out, "--json"]));
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (found[0]["steps"].as_u64(), found[0]["predictions"].as_array().unwrap().len()),
        (Some(6), 4)
    );
    assert!(!found[0]["buckets"].as_array().unwrap().is_empty());

    succeed(&mut bench.command("plain", &["run.steps=1"], &[]));
    let plain = isentrope(&["lab", "theory", &bench.scratch.path("plain")]).output().unwrap();
    assert_eq!(plain.status.code(), Some(1));
    assert!(stderr(&plain).contains("--set lab.track_theory=true"), "{}", stderr(&plain));
    let nothing = isentrope(&["lab", "theory", &Scratch::new().path("nothing")]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("nothing"), "{}", stderr(&nothing));
}
