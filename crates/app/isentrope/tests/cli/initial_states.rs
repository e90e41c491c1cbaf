//! Entropy on the same states all along a run.

use crate::program::{failure_last, isentrope, lines_of, parse_lines, stderr, text};
use crate::training::{
    Bench, assert_same_results, checkpoint, differences, metrics, results, succeed,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const TRACKED: &str = "lab.track_states=true";
const FILE: &str = "initial-states.jsonl";

fn is_of_states(name: &str) -> bool {
    name.ends_with("/entropy_initial_states") || name.ends_with("/kl_initial")
}

/// Metrics of a run, a line per step.
type Metrics = Vec<Map<String, Value>>;

/// The metrics of the states, and the others.
fn parted(out: &Path) -> (Metrics, Metrics) {
    let part = |line: Value| {
        let Value::Object(line) = line else { panic!("{line}") };
        line.into_iter().partition(|(name, _)| is_of_states(name))
    };
    metrics(out).into_iter().map(part).unzip()
}

/// Everything that the recipe decides but what tracking adds: the file, the metrics, its hash in
/// checkpoints.
fn others(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = results(out);
    files.retain(|name, _| {
        !["metrics.jsonl", FILE].contains(&&name[..])
            && !["trainer/state.json", "trainer/files.json"].iter().any(|end| name.ends_with(end))
    });
    assert!(files.keys().any(|name| name.ends_with("model.safetensors")), "{:?}", files.keys());
    files
}

fn states(out: &Path) -> Vec<Value> {
    parse_lines(&fs::read_to_string(out.join(FILE)).unwrap())
}

#[test]
fn tracking_begins_at_the_evaluations_own_entropy_and_changes_nothing_else() {
    let bench = Bench::train();
    let settings: [(&str, &[&str]); 2] = [
        ("truncated", &["eval.top_p=0.8", "eval.temperature=1.5", "run.steps=4"]),
        ("greedy", &["eval.temperature=0", "eval.samples=1", "run.steps=4"]),
    ];
    for (name, sets) in settings {
        let plain = bench.run(name, sets, &[]);
        let tracked = bench.run(&format!("{name}-tracked"), &[sets, &[TRACKED]].concat(), &[]);
        let ((none, want), (of_states, got)) = (parted(&plain), parted(&tracked));
        assert_eq!(got, want, "{name}");
        assert!(none.iter().all(Map::is_empty) && !plain.join(FILE).exists());
        assert_eq!(differences(&others(&tracked), &others(&plain)), [""; 0], "{name}");

        for (step, line) in of_states.iter().enumerate() {
            assert_eq!(
                line.len(),
                if step % 2 == 0 { 2 } else { 0 },
                "{name}: step {step}, evaluated at even ones"
            );
        }
        let get = |step: usize, what: &str| {
            of_states[step][&format!("eval/problems/{what}")].as_f64().unwrap()
        };
        assert_eq!(
            get(0, "entropy_initial_states").to_bits(),
            got[0]["eval/problems/entropy"].as_f64().unwrap().to_bits(),
            "{name}: the same tokens, the same policy"
        );
        assert_eq!(get(0, "kl_initial"), 0.0, "{name}");
        for step in [2, 4] {
            let (entropy, kl) = (get(step, "entropy_initial_states"), get(step, "kl_initial"));
            assert!(
                entropy > 0.0 && entropy != get(0, "entropy_initial_states") && kl != 0.0,
                "{name}"
            );
            assert_ne!(entropy, got[step]["eval/problems/entropy"].as_f64().unwrap(), "{name}");
        }
        let timings = parse_lines(&fs::read_to_string(tracked.join("timings.jsonl")).unwrap());
        assert!(
            timings[2]["time/states_s"].as_f64().unwrap() > 0.0
                && timings[1]["time/states_s"].is_null()
        );
    }
}

/// Mean over responses of the mean entropy, and mean over tokens of the log-ratio, as `score` sees
/// them in the run's own file.
#[test]
fn the_numbers_are_those_of_the_file_scored_by_another_command() {
    let bench = Bench::train();
    let sets = [TRACKED, "eval.temperature=0.9", "checkpoint.dtype=\"float32\"", "run.steps=2"];
    let out = bench.run("run", &sets, &[]);
    let states = states(&out);
    assert_eq!(states.len(), 12, "two responses to each of six problems");
    let scored = lines_of(isentrope(&[
        "score",
        &text(&checkpoint(&out, 2)),
        "--in",
        &text(&out.join(FILE)),
        "--temperature",
        "0.9",
    ]));
    let numbers = |line: &Value, key: &str| -> Vec<f64> {
        serde_json::from_value::<Vec<f32>>(line[key].clone())
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect()
    };
    let (mut entropy, mut log_ratio, mut tokens) = (0.0, 0.0, 0);
    for (state, scored) in states.iter().zip(&scored) {
        let (entropies, now) = (numbers(scored, "entropies"), numbers(scored, "logprobs"));
        let initial = numbers(state, "logprobs");
        assert_eq!(initial.len(), now.len());
        entropy += entropies.iter().sum::<f64>() / entropies.len() as f64;
        log_ratio += initial.iter().zip(&now).map(|(a, b)| a - b).sum::<f64>();
        tokens += now.len();
    }
    let line = &metrics(&out)[2];
    let near = |name: &str, want: f64| {
        let got = line[name].as_f64().unwrap();
        assert!((got - want).abs() < 1e-12, "{name} is {got}, not {want}");
    };
    near("eval/problems/entropy_initial_states", entropy / 12.0);
    near("eval/problems/kl_initial", log_ratio / tokens as f64);
}

#[test]
fn states_depend_on_the_recipe_alone_and_outlast_interruptions() {
    let bench = Bench::train();
    let more = bench.scratch.lines("more.jsonl", &crate::training::problems()[..5]);
    let files = format!("eval.files=[{:?}, {more:?}]", bench.scratch.path("problems.jsonl"));
    let sets = [
        TRACKED,
        &files,
        "optimizer.schedule=\"constant\"",
        "eval.top_p=0.9",
        "eval.every=1",
        "run.steps=3",
    ];
    let whole = bench.run("whole", &sets, &[]);
    assert!(metrics(&whole)[3]["eval/more/kl_initial"].is_number());
    let threads = [&sets[..], &["memory.micro_batch_tokens=17"]].concat();
    assert_same_results(&whole, &bench.run("threads", &threads, &["--threads", "3"]));
    bench.run("stopped", &[&sets[..], &["run.steps=1"]].concat(), &[]);
    assert_same_results(&whole, &bench.run("stopped", &sets, &["--resume"]));

    // Switched off and on again, the states are still those of the start.
    bench.run("off", &[&sets[..], &["run.steps=1"]].concat(), &[]);
    bench.run(
        "off",
        &[&sets[..], &["run.steps=2", "lab.track_states=false"]].concat(),
        &["--resume"],
    );
    let off = bench.run("off", &sets, &["--resume"]);
    let (want, got) = (parted(&whole).0, parted(&off).0);
    assert_eq!((&got[1], &got[3]), (&want[1], &want[3]));
    assert!(got[2].is_empty());
    // A run that begins anew leaves nothing of them.
    bench.run("off", &["run.steps=1"], &["--overwrite"]);
    assert!(!off.join(FILE).exists());
}

#[test]
fn states_that_are_not_those_of_the_start_are_measured_by_nobody() {
    let bench = Bench::train();
    let (two, four) = (["run.steps=2"], ["run.steps=4", TRACKED]);
    let tracked = [&two[..], &[TRACKED]].concat();
    let out = bench.run("run", &tracked, &[]);
    let whole = fs::read(out.join(FILE)).unwrap();
    let refuses = |part: &str| {
        let metrics = fs::read(out.join("metrics.jsonl")).unwrap();
        let parts = [FILE, part, "lab.track_states=false"];
        failure_last(&mut bench.command("run", &four, &["--resume"]), &parts);
        assert_eq!(
            fs::read(out.join("metrics.jsonl")).unwrap(),
            metrics,
            "a run that cannot start changes nothing"
        );
    };
    for damaged in [whole[..whole.len() - 1].to_vec(), Vec::new(), whole.to_ascii_uppercase()] {
        fs::write(out.join(FILE), damaged).unwrap();
        refuses("its SHA-256 is another");
    }
    fs::remove_file(out.join(FILE)).unwrap();
    refuses("is gone");
    fs::create_dir(out.join(FILE)).unwrap();
    failure_last(&mut bench.command("run", &four, &["--resume"]), &[FILE, "a directory"]);
    fs::remove_dir(out.join(FILE)).unwrap();
    fs::write(out.join(FILE), &whole).unwrap();
    bench.run("run", &four, &["--resume"]);
    assert!(metrics(&out)[4]["eval/problems/kl_initial"].is_number());

    // Switched on too late: a sentence, and no numbers.
    let late = bench.run("late", &two, &[]);
    let said = succeed(&mut bench.command("late", &four, &["--resume"]));
    assert!(said.contains("the states of the start were not kept"), "{said}");
    assert!(parted(&late).0.iter().all(Map::is_empty) && !late.join(FILE).exists());
    // Its cost is told beforehand.
    let planned = |sets: &[&str]| {
        let output = bench.command("planned", sets, &["--dry-run"]).output().unwrap();
        assert!(output.status.success());
        stderr(&output) + &String::from_utf8(output.stdout).unwrap()
    };
    assert!(
        planned(&four).contains("scoring of the initial states")
            && !planned(&two).contains("initial states")
    );
    // Without evaluations there is nothing to measure on.
    let said = succeed(&mut bench.command("never", &[TRACKED, "eval.every=0", "run.steps=1"], &[]));
    assert!(said.contains("lab.track_states has no effect: there are no evaluations"), "{said}");
}

/// A fault in the middle costs no step that was made.
#[cfg(unix)]
#[test]
fn a_file_that_goes_in_mid_run_ends_the_run_after_its_step() {
    let bench = Bench::train();
    // The worker that judges takes the file away once a rollout is under way.
    let file = PathBuf::from(bench.scratch.path("run")).join(FILE);
    let script = format!(
        "while read -r line; do [ -d {dir:?} ] && [ -e {dir:?}/step-000001.jsonl ] && rm -f {file:?}; id=${{line#*:}}; \
         id=${{id%%,*}}; echo \"{{\\\"id\\\":$id,\\\"score\\\":$(( id % 2 ))}}\"; done",
        dir = file.with_file_name("rollouts"),
    );
    let script = bench.scratch.file("worker.sh", script);
    let verifier = format!("reward.verifier={{ command = [\"sh\", {script:?}], workers = 1 }}");
    let sets = [TRACKED, &verifier, "rollout.filter=false"];
    failure_last(&mut bench.command("run", &sets, &[]), &["is gone", FILE]);
    let out = bench.out("run");
    assert!(checkpoint(&out, 2).exists(), "the step is saved");
    let more = [&sets[..], &["lab.track_states=false", "run.steps=3"]].concat();
    bench.run("run", &more, &["--resume"]);
    assert_eq!(metrics(&out).len(), 4);
}
