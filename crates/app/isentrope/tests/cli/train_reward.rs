//! Rewards of the user's own: commands that judge, during whole runs.

use crate::processes::{runs, send_to, until};
use crate::program::{Scratch, assert_parts, failure_last, isentrope, skipped, stderr, text};
use crate::training::{Bench, assert_same_results, checkpoint, metrics, rollouts, state, succeed};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Rewards responses of an even number of characters. Before the first answer, a worker writes its
/// number into `pids`.
pub fn worker(scratch: &Scratch, before_each: &str) -> String {
    let pids = scratch.path("pids");
    let text = format!(
        r#"
while read -r line; do
    [ -n "$known" ] || echo $$ >> '{pids}'; known=1
    {before_each}
    id=${{line#*:}}; id=${{id%%,*}}
    response=${{line#*'"response":"'}}; response=${{response%%'"'*}}
    echo "{{\"id\":$id,\"score\":$(( (${{#response}} + 1) % 2 )),\"metrics\":{{\"length\":${{#response}}}}}}"
done
"#
    );
    scratch.file("worker.sh", text)
}

pub fn command(script: &str, more: &str) -> String {
    format!("reward.verifier={{ command = [\"sh\", {script:?}]{more} }}")
}

fn pids(scratch: &Scratch) -> Vec<String> {
    fs::read_to_string(scratch.path("pids"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn assert_nothing_is_left(scratch: &Scratch) {
    let all = pids(scratch);
    assert!(!all.is_empty(), "no worker has been asked anything");
    until(PATIENCE, "a worker is left", || !all.iter().any(|pid| runs(pid)));
}

#[test]
fn a_run_does_not_depend_on_how_many_workers_judge_it() {
    let bench = Bench::train();
    let script = worker(&bench.scratch, "case $line in *'=2'*) sleep 0.02;; esac");
    let run = |out: &str, workers: &str| {
        let sets = [&command(&script, workers)[..], "rollout.filter=false", "run.steps=2"];
        bench.run(out, &sets, &[])
    };
    let (one, three) = (run("one", ", workers = 1"), run("three", ", workers = 3"));
    assert_same_results(&one, &three);
    assert_nothing_is_left(&bench.scratch);

    let lines = metrics(&one);
    for (step, line) in lines.iter().enumerate().skip(1) {
        let responses = rollouts(&one, step as u64);
        let mean = |value: &dyn Fn(&Value) -> f64| {
            responses.iter().map(value).sum::<f64>() / responses.len() as f64
        };
        let length = |r: &Value| r["metrics"]["length"].as_f64().unwrap();
        assert!((line["reward/length"].as_f64().unwrap() - mean(&length)).abs() < 1e-9);
        let score = mean(&|r| f64::from(u8::from(length(r) % 2.0 == 0.0)));
        assert!((line["reward/score"].as_f64().unwrap() - score).abs() < 1e-9);
        assert_eq!(line["verdict/fault"], 0.0);
    }
}

#[test]
#[ignore = "deep: kills workers again and again"]
fn workers_killed_at_random_cost_their_responses_and_nothing_else() {
    let bench = Bench::train();
    let script = worker(&bench.scratch, "sleep 0.01");
    let done = AtomicBool::new(false);
    let out = thread::scope(|scope| {
        scope.spawn(|| {
            let mut killed = 0;
            while !done.load(Ordering::Relaxed) {
                // The workers that have been asked something: before that, a death is the command's
                // own.
                let all = pids(&bench.scratch);
                if let Some(pid) = all.get(killed) {
                    killed += 1;
                    let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
                }
                thread::sleep(Duration::from_millis(40));
            }
        });
        let out = bench.run("out", &[&command(&script, ", workers = 3")], &[]);
        done.store(true, Ordering::Relaxed);
        out
    });
    assert_nothing_is_left(&bench.scratch);
    let lines = metrics(&out);
    assert_eq!(lines.len(), 7, "the evaluation before the first step, and six steps");
    let mut faults = 0;
    for (step, line) in lines.iter().enumerate().skip(1) {
        let responses = rollouts(&out, step as u64);
        let faulted: Vec<&Value> = responses.iter().filter(|r| r["verdict"] == "fault").collect();
        faults += faulted.len();
        let share = faulted.len() as f64 / responses.len() as f64;
        assert!((line["verdict/fault"].as_f64().unwrap() - share).abs() < 1e-9);
        for response in faulted {
            assert_eq!(response["reason"], "the worker ended (signal: 9 (SIGKILL))");
        }
        // Judged responses are rewarded as ever.
        for response in responses.iter().filter(|r| r["verdict"] != "fault") {
            let even = response["metrics"]["length"].as_f64().unwrap() % 2.0 == 0.0;
            assert_eq!(response["reward"], f64::from(u8::from(even)));
        }
    }
    assert!(faults > 0, "nobody was killed in time");
}

#[test]
fn a_command_that_cannot_work_ends_the_run_with_what_it_said() {
    let bench = Bench::train();
    let message = failure_of(&bench, &command("no/such/reward.sh", ""));
    let before = ["before it was asked anything", "standard error ends with"];
    assert_parts(
        &message,
        &[&["reward.verifier.command", "no/such/reward.sh"], &before[..]].concat(),
    );
    assert!(!bench.out("out").exists(), "something was written");
    let message = failure_of(&bench, "reward.verifier={ command = [\"no-such-program\"] }");
    assert!(
        message.contains(
            "reward.verifier.command = [\"no-such-program\"]: the command cannot be started"
        ),
        "{message}"
    );

    let script = worker(&bench.scratch, "echo 'KeyError: numbers' >&2; exit 1");
    let message = failure_of(&bench, &command(&script, ""));
    assert!(
        message.contains("fresh workers in a row failed")
            && message.contains("\n  KeyError: numbers\n"),
        "{message}"
    );
    assert_nothing_is_left(&bench.scratch);
}

#[test]
fn a_command_that_fails_in_mid_run_costs_no_step_that_was_made() {
    let bench = Bench::train();
    let sets = ["eval.every=0", "checkpoint.every=0", "run.steps=9", "checkpoint.keep=9"];
    let run = |out: &str, script: &str, flags: &[&str]| {
        let judged = command(script, ", workers = 1");
        bench.command(out, &[&sets[..], &[&judged]].concat(), flags)
    };
    let works = worker(&bench.scratch, "");
    succeed(&mut run("whole", &works, &[]));
    let whole = bench.out("whole");
    // The first step that takes groups over from the one before is the first that nobody judges.
    let lines = metrics(&whole);
    let takes_over =
        |line: &&Value| line["rollout/carried"].as_f64().is_some_and(|groups| groups > 0.0);
    let step = lines.iter().find(takes_over).expect("no step has left groups over")["step"]
        .as_u64()
        .unwrap();
    let judged: usize = (1..step).map(|step| rollouts(&whole, step).len()).sum();
    let (asked, mended) = (bench.scratch.path("asked"), bench.scratch.path("mended"));
    let failing = format!(
        "printf x >> '{asked}'; [ -e '{mended}' ] || [ $(wc -c < '{asked}') -le {judged} ] || exit 1"
    );
    let fails = worker(&bench.scratch, &failing);

    let output = run("out", &fails, &[]).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let out = bench.out("out");
    let saved = checkpoint(&out, step - 1);
    for part in [
        "fresh workers in a row failed",
        &format!("step {} is saved in {}", step - 1, text(&saved)),
    ] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
    assert_eq!(metrics(&out).last().unwrap()["step"], step - 1);
    assert!(!state(&out, step - 1)["trainer"]["surplus"].as_array().unwrap().is_empty());

    fs::write(mended, "").unwrap();
    let said = succeed(&mut run("out", &fails, &["--resume"]));
    assert!(said.contains(&format!("resuming after step {}", step - 1)), "{said}");
    fs::remove_dir_all(saved).unwrap(); // the one that nobody asked for
    assert_same_results(&whole, &out);
    assert_nothing_is_left(&bench.scratch);
}

#[test]
fn a_command_that_fails_in_an_evaluation_costs_no_step_that_was_made() {
    let bench = Bench::train();
    let sets = ["eval.every=3", "checkpoint.keep=1", "run.steps=4"];
    let (asked, limit) = (bench.scratch.path("asked"), bench.scratch.path("limit"));
    let count = || fs::metadata(&asked).map_or(0, |file| file.len() as usize);
    let check =
        format!("printf x >> '{asked}'; [ $(wc -c < '{asked}') -le $(cat '{limit}') ] || exit 1");
    let judged = command(&worker(&bench.scratch, &check), ", workers = 1");
    let evaluated = 12; // responses: 2 to each of 6 problems
    for every in ["checkpoint.every=0", "checkpoint.every=2"] {
        let run = |out: &str, more: usize, flags: &[&str]| {
            fs::write(&limit, (count() + more).to_string()).unwrap();
            bench.command(out, &[&sets[..], &[every, &judged]].concat(), flags)
        };
        let whole = format!("whole-{every}");
        succeed(&mut run(&whole, 1 << 30, &[]));
        let whole = bench.out(&whole);
        let sampled: usize = (1..=3).map(|step| rollouts(&whole, step).len()).sum();

        let (name, flags) = (format!("out-{every}"), ["--resume"]);
        let out = bench.out(&name);
        let fails = |more: usize, recorded: u64| {
            let output = run(&name, more, &flags).output().unwrap();
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains("fresh workers in a row failed"), "{message}");
            assert_eq!(metrics(&out).last().unwrap()["step"], recorded, "{message}");
            assert!(checkpoint(&out, 3).is_dir(), "{message}");
            message
        };
        let message = fails(evaluated + sampled, 2);
        assert!(
            message.contains(&format!("step 3 is saved in {}", text(&checkpoint(&out, 3)))),
            "{message}"
        );
        assert_eq!(
            checkpoint(&out, 2).is_dir(),
            every == "checkpoint.every=2",
            "it is removed for this one"
        );
        assert!(fails(0, 2).contains("resuming after step 3"));
        fails(evaluated, 3); // in the step after
        succeed(&mut run(&name, 1 << 30, &flags));
        assert_same_results(&whole, &out);
    }
    assert_nothing_is_left(&bench.scratch);
}

/// The last words of a run that must fail.
fn failure_of(bench: &Bench, set: &str) -> String {
    failure_of_sets(bench, &[set])
}

fn failure_of_sets(bench: &Bench, sets: &[&str]) -> String {
    let output = bench.command("out", sets, &[]).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let start = message.find("error: ").unwrap_or_else(|| panic!("{message}"));
    message[start..].to_owned()
}

/// The terminal's Ctrl-C goes to the program's whole process group, of which workers are no part.
#[test]
fn the_step_that_ctrl_c_finishes_is_still_judged() {
    let bench = Bench::train();
    let script = worker(&bench.scratch, "sleep 0.01");
    let sets = [command(&script, ""), "run.steps=100000".to_owned(), "eval.every=0".to_owned()];
    let mut command = bench.command("out", &[&sets[0], &sets[1], &sets[2]], &[]);
    let mut child = command.process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    until(PATIENCE, "no step was made", || {
        bench.out("out").join("rollouts/step-000002.jsonl").exists()
    });
    send_to("INT", &format!("-{}", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_nothing_is_left(&bench.scratch);
    let lines = metrics(&bench.out("out"));
    assert!(lines.iter().skip(1).all(|line| line["verdict/fault"] == 0.0));
    assert!(fs::read_dir(bench.out("out").join("checkpoints")).unwrap().next().is_some());
}

#[test]
fn a_data_source_without_a_verifier_is_named() {
    let bench = Bench::train();
    let problem =
        |text: &str, source: &str| json!({"problem": text, "answer": "6", "data_source": source});
    let file =
        bench.scratch.lines("sources.jsonl", &[problem("1 2 3>6:", "a"), problem("1 1 4>6:", "b")]);
    let files = format!("data.files=[{file:?}]");
    let sets =
        [&files[..], "eval.every=0", "reward.verifier={ by_data_source = { a = \"math\" } }"];
    let unnamed = "sources.jsonl line 2: its data source \"b\" has no verifier";
    failure_last(&mut bench.command("strict", &sets, &[]), &[unnamed, "reward.verifier.otherwise"]);
}

#[test]
fn a_verifier_of_another_task_is_refused_before_the_first_step() {
    let bench = Bench::train();
    let set = ["data.files=[]", "eval.files=[]", "data.task=countdown", "reward.verifier=math"];
    let message = failure_of_sets(&bench, &set);
    assert!(
        message.contains("countdown train 0: the ground truth")
            && message.contains("reward.verifier"),
        "{message}"
    );
}

/// docs/guides/data-and-rewards.md says that the example learns; that it runs is tested where there
/// is Python.
#[test]
fn the_example_runs_where_there_is_python() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("there is no python3 here: the example is not run");
        return;
    }
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let out = scratch.path("out");
    let set = format!("run.out={out}");
    let sets = ["--set", &set, "--set", "run.steps=1", "--set", "eval.problems=2"];
    let arguments = [&["train", "examples/own-reward/recipe.toml"], &sets[..]].concat();
    succeed(isentrope(&arguments).current_dir(&root).env("ISENTROPE_THREADS", "1"));
    let lines = metrics(Path::new(&out));
    for line in &lines[1..] {
        assert_eq!(
            (&line["verdict/fault"], &line["verdict/timed_out"]),
            (&json!(0.0), &json!(0.0))
        );
        assert!(line["reward/attempts"].as_f64().unwrap() >= 1.0);
        let score = line["reward/score"].as_f64().unwrap();
        assert!(score > 0.05 && score < 1.0, "{score}");
    }

    // Equal rewards by functions make equal steps.
    for (function, called) in [
        ("compute_score", "verl, with data_source, solution_str, ground_truth, extra_info"),
        ("largest", "TRL, with prompts, completions, the data's columns (answer, extra_info)"),
    ] {
        let file = "examples/own-reward/functions.py";
        let set = format!("reward.verifier={{ python = \"{file}:{function}\" }}");
        let said = succeed(
            isentrope(&[&arguments[..], &["--overwrite", "--set", &set]].concat())
                .current_dir(&root)
                .env("ISENTROPE_THREADS", "1"),
        );
        let note = format!("reward.verifier.python: {function} of {file} is called as by {called}");
        assert!(said.contains(&note), "{said}");
        for (line, same) in lines.iter().zip(metrics(Path::new(&out))).skip(1) {
            for name in ["reward/score", "policy/entropy", "verdict/fault"] {
                assert_eq!(line[name], same[name], "{function}: {name}");
            }
            assert_eq!(same.get("reward/attempts").is_some(), function == "compute_score");
        }
    }
}
