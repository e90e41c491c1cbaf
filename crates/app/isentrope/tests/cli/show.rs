//! `show`, `report`, `law` and `inspect`: what only their processes show. `crates/app/lab` tests
//! what is drawn and computed.

use crate::program::{
    Scratch, assert_parts, failure, isentrope, json_lines, lines_of, names, skipped, spoken,
    stdout_of, text,
};
use crate::terminal::on_terminal;
use crate::training::{Bench, base, checkpoint, differences, metrics, results, rollouts};
use isentrope_files::{Lock, lock_directory};
use isentrope_lab::law::{Point, SEED, Study};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A run that this process trains, as far as others can tell.
struct Training {
    dir: PathBuf,
    lock: Option<Lock>,
}

impl Training {
    fn begin(scratch: &Scratch, name: &str, steps: u64) -> Self {
        let dir = PathBuf::from(scratch.path(name));
        fs::create_dir_all(&dir).unwrap();
        let lock = lock_directory(&dir, "training").unwrap();
        let recipe = json!({"run": {"steps": steps, "seed": 0}, "model": {"path": "m"}});
        fs::write(dir.join(".recipe.json"), recipe.to_string()).unwrap();
        fs::write(dir.join("metrics.jsonl"), "").unwrap();
        Self { dir, lock: Some(lock) }
    }

    fn step(&self, step: u64) {
        let entropy = 1.0 / (1.0 + step as f64);
        let mut row =
            json!({"step": step, "policy/entropy": entropy, "reward/mean": 0.125 * step as f64});
        if step.is_multiple_of(2) {
            row["eval/set/mean@1"] = json!(0.25);
            row["eval/set/entropy"] = json!(entropy);
        }
        self.write(&format!("{row}\n"));
    }

    fn write(&self, text: &str) {
        let mut file = File::options().append(true).open(self.dir.join("metrics.jsonl")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn end(&mut self) {
        self.lock = None;
    }

    fn path(&self) -> String {
        text(&self.dir)
    }
}

fn show(arguments: &[&str]) -> Command {
    let mut command = isentrope(&[&["show"][..], arguments].concat());
    for name in ["NO_COLOR", "COLUMNS"] {
        command.env_remove(name);
    }
    command.env("LANG", "C.UTF-8").env("TERM", "xterm");
    command
}

#[test]
fn a_run_is_shown_after_it_has_been_trained_and_stopped() {
    let bench = Bench::train();
    let run = text(&bench.copy_of_run("run", "run.steps=3"));
    let shown = stdout_of(show(&[&run]).env("COLUMNS", "120"));
    let parts = [
        "run: finished, step 3 of 3, ",
        "● rollouts   ■ evaluation of problems",
        "evaluations problems\nstep  mean@2  entropy  length",
        "law problems\n",
        "last responses, step 3\n> ",
    ];
    assert_parts(&shown, &parts);
    assert!(!shown.contains('\x1b') && shown.lines().all(|line| line.chars().count() <= 120));
    // Metrics that are asked for come first.
    let asked = stdout_of(show(&[&run, "--metric", "cov/mean", "--responses", "0"]));
    assert!(asked.find("cov/mean") < asked.find("entropy, nats"), "{asked}");
    assert!(!asked.contains("last responses"));
    let list = stdout_of(show(&[&run, "--metrics"]));
    assert!(list.starts_with("metric "), "{list}");
    assert_parts(&list, &["\ncov/mean  ", "\ntime/step_s "]);
    let other = text(&bench.copy_of_run("other", "run.steps=1"));
    let both = stdout_of(show(&[&run, &other]).env("COLUMNS", "160"));
    assert_parts(&both, &["● run   ■ other", "other: finished, step 1 of 1"]);
}

#[test]
fn on_a_terminal_a_run_is_drawn_in_place() {
    let scratch = Scratch::new();
    let mut training = Training::begin(&scratch, "run", 3);
    training.step(0);
    let path = training.path();
    let grow = thread::spawn(move || {
        for step in 1..=3 {
            thread::sleep(Duration::from_millis(600));
            training.step(step);
        }
        training.end();
    });
    let shown = on_terminal(70, &show(&[&path, "--follow"]));
    grow.join().unwrap();
    let Some(shown) = shown else {
        skipped("there is no program `script` here");
        return;
    };
    let frames: Vec<&str> = shown.split("\x1b[H").skip(1).collect();
    assert!(frames.len() >= 3 && frames[0].contains("training"), "{shown:?}");
    let (last, drawn) = frames.split_last().unwrap();
    assert!(drawn.iter().all(|frame| frame.lines().count() <= 40), "{shown:?}");
    assert_parts(last, &["finished", ", step 3 of 3", "\x1b[36m"]);
    // It ends when it is asked to.
    let other = Training::begin(&scratch, "other", 3);
    other.step(0);
    let asked = show(&[&other.path(), "-f"]);
    let mut interrupted = Command::new("timeout");
    interrupted.args(["--foreground", "-s", "INT", "2"]).arg(asked.get_program());
    let shown = on_terminal(70, interrupted.args(asked.get_args()).env("TERM", "xterm")).unwrap();
    assert_parts(&shown, &["error: interrupted: the runs themselves go on as they were"]);
    // Colours can be refused, and a dumb terminal has neither colours nor a cursor.
    let plain = on_terminal(70, show(&[&path]).env("NO_COLOR", "1")).unwrap();
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let dumb = on_terminal(70, show(&[&path, "-f"]).env("TERM", "dumb")).unwrap();
    assert!(!dumb.contains('\x1b') && dumb.contains("--follow needs a terminal"), "{dumb:?}");
}

#[test]
fn the_report_is_in_the_run_or_here_or_where_it_is_asked_for() {
    let scratch = Scratch::new();
    let metrics = "{\"step\":1,\"policy/entropy\":1.5}\n{\"step\":2,\"policy/entropy\":1.25}\n";
    let [a, b] = ["above/a", "above/b"].map(|name| {
        fs::create_dir_all(scratch.path(name)).unwrap();
        scratch.file(&format!("{name}/metrics.jsonl"), metrics);
        scratch.file(&format!("{name}/.recipe.json"), r#"{"run":{"steps":2},"rollout":{}}"#);
        scratch.path(name)
    });
    let report = |line: String| {
        let mut command = isentrope(format!("report {line}"));
        command.current_dir(scratch.path(""));
        command
    };
    let (_, said) = spoken(report(a.clone()));
    assert_parts(&said, &["a/report.html: ", "open it in a browser"]);
    let page = fs::read_to_string(format!("{a}/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_parts(&page, &["went from 1.500 to <b>1.250</b> nats: two measurements do not tell"]);
    assert_eq!(stdout_of(report(format!("{a} --out -"))), page);
    for line in [format!("{a} {b}"), scratch.path("above")] {
        stdout_of(report(line));
        let page = fs::read_to_string(scratch.path("report.html")).unwrap();
        assert_parts(&page, &["Report on 2 runs"]);
        fs::remove_file(scratch.path("report.html")).unwrap();
    }
}

#[test]
fn a_run_has_a_law_a_prediction_and_a_plot() {
    let scratch = Scratch::new();
    let point = |i: u64| {
        let entropy = 0.15 + 1.05 * (-0.4 * i as f64).exp();
        let noise = [0.004, -0.003, 0.001, -0.004, 0.002][i as usize % 5];
        let accuracy = 0.8 - 0.17 * entropy.exp() + noise;
        json!({"step": 5 * i, "eval/test/mean@1": accuracy, "eval/test/entropy": entropy})
    };
    let run = scratch.lines("grpo.jsonl", &(0..12).map(point).collect::<Vec<_>>());
    let text = stdout_of(isentrope(format!("law {run}")));
    let parts = [
        "accuracy R is eval/test/mean@1, entropy H is eval/test/entropy",
        "R = -a exp(H) + b                    95 % interval",
        "the first 3 points (to step 10) predict the other 9",
    ];
    assert_parts(&text, &parts);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "no plot: {text}");
    // The bits of training, show and report.
    let report = |flags: &str| -> Value {
        let report = stdout_of(isentrope(format!("law --json {run} {flags}")));
        serde_json::from_str::<Value>(&report).unwrap()["runs"][0].clone()
    };
    let one = report("");
    let points: Vec<Point> = serde_json::from_value(one["points"].clone()).unwrap();
    assert_eq!(json!(Study::of(points, SEED).holds()), one["law"]);
    let other = report("--prefix 0.5 --seed 3");
    assert_eq!(other["prediction"]["prefix"], 6);
    assert_ne!(other["law"]["a"]["low"], one["law"]["a"]["low"]);
}

/// All responses of each step, and checkpoints to score them with.
const ALL: &str =
    "lab.record_tokens=1000000 checkpoint.every=1 checkpoint.keep=9 checkpoint.dtype=float32";

fn records(out: &Path, step: u64) -> Vec<Value> {
    json_lines(&out.join(format!("tokens/step-{step:06}.jsonl")))
}

#[test]
fn token_records_are_those_of_the_rollout_and_score_agrees_to_the_last_bit() {
    let bench = Bench::train();
    let sets = "rollout.temperature=0.7 run.steps=2 rollout.filter=false update.epochs=1 \
                update.prompts=4 lab.track_theory=true";
    let out = bench.run("run", format!("{ALL} {sets}"), "");
    let scored_alike = |model: &str, lines: &[Value]| {
        let input = bench.scratch.lines("records.jsonl", lines);
        for line in lines_of(isentrope(format!("score {model} --in {input}"))) {
            assert_eq!(
                line["mismatch"],
                json!({"mean": 0.0, "max": 0.0, "outside": 0.0}),
                "{line}"
            );
        }
    };
    for step in 1..=2 {
        let (lines, sampled) = (records(&out, step), rollouts(&out, step));
        assert_eq!(lines.len(), sampled.len(), "every response of the rollout");
        for (line, response) in lines.iter().zip(&sampled) {
            let pieces = line["pieces"].as_array().unwrap().iter();
            let text: String = pieces.map(|piece| piece.as_str().unwrap()).collect();
            assert_eq!(text, response["response"].as_str().unwrap());
            for key in ["origin", "sample", "verdict", "reward", "truncated"] {
                assert_eq!(line[key], response[key], "{key}");
            }
        }
        // The model that has sampled them, and the one that the step has made.
        let before = if step == 1 { base().to_owned() } else { text(&checkpoint(&out, step - 1)) };
        scored_alike(&before, &lines);
        let mut moved = lines.clone();
        moved.iter_mut().for_each(|line| line["logprobs"] = line["logprobs_after"].take());
        scored_alike(&text(&checkpoint(&out, step)), &moved);
        assert!(
            lines.iter().zip(&moved).any(|(line, moved)| line["logprobs"] != moved["logprobs"])
        );
        // A whole minibatch comes to its statistics.
        let values = lines.iter().flat_map(|line| line["covariances"].as_array().unwrap());
        let covariances: Vec<f64> = values.map(|value| value.as_f64().unwrap()).collect();
        let mean = covariances.iter().sum::<f64>() / covariances.len() as f64;
        let metrics = &metrics(&out)[step as usize];
        assert!((mean - metrics["cov/mean"].as_f64().unwrap()).abs() < 1e-5, "{mean}");
        let selected = lines.iter().filter_map(|line| line["selected"].as_array()).map(Vec::len);
        assert_eq!(selected.sum::<usize>() as f64, metrics["cov/selected"].as_f64().unwrap());
    }
}

#[test]
fn a_budget_of_records_is_kept_and_changes_nothing_else() {
    let bench = Bench::train();
    let [none, some, whole] = [0, 40, 1_000_000].map(|tokens| {
        let sets = format!("lab.record_tokens={tokens} run.steps=2 eval.every=0");
        bench.run(&tokens.to_string(), sets, "")
    });
    for other in [&some, &whole] {
        let differing = differences(&results(&none), &results(other));
        // Hashes of checkpoints' files do not depend on what is recorded either.
        assert!(differing.iter().all(|name| name.starts_with("tokens/")), "{differing:?}");
    }
    assert_eq!(names(&none.join("tokens")), [""; 0]);
    for step in 1..=2 {
        let lines = records(&some, step);
        let count = |line: &Value| line["pieces"].as_array().unwrap().len();
        assert!(!lines.is_empty() && lines.iter().map(count).sum::<usize>() <= 40);
        assert!(lines.iter().all(|line| line["advantages"].is_number()), "trained on");
        let all = records(&whole, step);
        assert!(lines.iter().all(|line| all.contains(line)));
    }
}

#[test]
fn a_step_is_shown_in_80_columns_and_on_a_page() {
    let bench = Bench::train();
    let out = bench.copy_of_run("run", "run.steps=3");
    let run = text(&out);
    let said = stdout_of(isentrope(format!("inspect {run}")));
    assert!(said.starts_with("run, step 3: ") && said.contains("5.654   3.112   1.385"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let page = fs::read_to_string(out.join("inspect-step-000003.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && !page.contains("://"), "it needs no network");
    let first = stdout_of(isentrope(format!("inspect {run} --step 1 --out -")));
    assert_parts(&first, &["tokens of step 1"]);
    let said = failure(isentrope(format!("inspect {run} --step 7")));
    assert_parts(&said, &["no token records of step 7; it has those of steps 1 to 3"]);
}

#[test]
fn methods_are_held_against_each_other_on_recorded_tokens() {
    let bench = Bench::train();
    let out = bench.run("run", "run.steps=1 eval.every=0 lab.track_theory=true", "");
    let (run, picture) = (text(&out), out.join("methods.svg"));
    let said = stdout_of(isentrope(format!("lab methods {run} --out {}", text(&picture))));
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert_parts(&said, &["  grpo ", "  w-reinforce, nsr\n"]);
    assert!(fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    let json = stdout_of(isentrope(format!("lab methods {run} --json")));
    let all: Vec<Value> = serde_json::from_str(&json).unwrap();
    for method in &all {
        assert!(method["entropy_change"].is_f64(), "{method}");
    }
    let said = stdout_of(isentrope(format!("inspect {run} --method steer")));
    assert_parts(&said, &["What steer would have done", "unlikely, worse respon"]);
    let said = failure(isentrope(format!("inspect {run} --method clipcov")));
    assert_parts(&said, &["there are grpo, ", "did you mean `clip-cov`?"]);
}
