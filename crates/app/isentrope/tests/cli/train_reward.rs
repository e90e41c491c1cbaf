//! Rewards of the user's own: commands that judge, during whole runs, and how they end.
//! `crates/judge/reward` tests what workers are asked and what becomes of their answers.

use crate::processes::{runs, send, send_to, until};
use crate::program::{Scratch, assert_parts, has_python, isentrope, outcome, text};
use crate::training::{Bench, assert_same_results, checkpoint, metrics, rollouts, state, succeed};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
    format!("reward.verifier={{command=[\"sh\",{script:?}]{more}}}")
}

fn pids(scratch: &Scratch) -> Vec<String> {
    let text = fs::read_to_string(scratch.path("pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn assert_nothing_is_left(scratch: &Scratch) {
    let all = pids(scratch);
    assert!(!all.is_empty(), "no worker has been asked anything");
    until(PATIENCE, "a worker is left", || !all.iter().any(|pid| runs(pid)));
}

#[test]
fn a_verifier_that_cannot_work_ends_the_run_with_why() {
    let bench = Bench::train();
    let refused = |sets: String, parts: &[&str]| {
        let (output, said) = outcome(bench.command("out", sets, ""));
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_parts(&said[said.find("error: ").unwrap()..], parts);
    };
    let before = ["before it was asked anything", "standard error ends with", "no/such/reward.sh"];
    refused(command("no/such/reward.sh", ""), &before);
    let start = "reward.verifier.command = [\"no-such-program\"]: the command cannot be started";
    refused("reward.verifier={command=[\"no-such-program\"]}".into(), &[start]);
    let task = "data.files=[] eval.files=[] data.task=countdown reward.verifier=math";
    refused(task.into(), &["countdown train 0: the ground truth", "reward.verifier"]);
    let row =
        |text: &str, source: &str| json!({"problem": text, "answer": "6", "data_source": source});
    let rows = [row("1 2 3>6:", "a"), row("1 1 4>6:", "b")];
    let file = bench.scratch.lines("sources.jsonl", &rows);
    let sources =
        format!("data.files={file} eval.every=0 reward.verifier={{by_data_source={{a=\"math\"}}}}");
    let unnamed = "sources.jsonl line 2: its data source \"b\" has no verifier";
    refused(sources, &[unnamed, "reward.verifier.otherwise"]);
    assert!(!bench.out("out").exists(), "something was written");
    let script = worker(&bench.scratch, "echo 'KeyError: numbers' >&2; exit 1");
    let failed = ["fresh workers in a row failed", "\n  KeyError: numbers\n"];
    refused(command(&script, ""), &failed);
    assert_nothing_is_left(&bench.scratch);
}

#[test]
fn a_command_that_fails_in_mid_run_costs_no_step_that_was_made() {
    let bench = Bench::train();
    let run = |out: &str, script: &str, flags: &str| {
        let judged = command(script, ",workers=1");
        let sets = "eval.every=0 checkpoint.every=0 run.steps=9 checkpoint.keep=9";
        bench.command(out, format!("{sets} {judged}"), flags)
    };
    let works = worker(&bench.scratch, "");
    succeed(run("whole", &works, ""));
    let whole = bench.out("whole");
    // The first step that takes groups over from the one before is the first that nobody judges.
    let lines = metrics(&whole);
    let takes_over =
        |line: &&Value| line["rollout/carried"].as_f64().is_some_and(|groups| groups > 0.0);
    let step = lines.iter().find(takes_over).expect("no step has left groups over");
    let step = step["step"].as_u64().unwrap();
    let judged: usize = (1..step).map(|step| rollouts(&whole, step).len()).sum();
    let (asked, mended) = (bench.scratch.path("asked"), bench.scratch.path("mended"));
    let fails = worker(
        &bench.scratch,
        &format!(
            "printf x >> '{asked}'; \
             [ -e '{mended}' ] || [ $(wc -c < '{asked}') -le {judged} ] || exit 1"
        ),
    );
    let (output, message) = outcome(run("out", &fails, ""));
    assert_eq!(output.status.code(), Some(1), "{message}");
    let out = bench.out("out");
    let saved = checkpoint(&out, step - 1);
    let told = format!("step {} is saved in {}", step - 1, text(&saved));
    assert_parts(&message, &["fresh workers in a row failed", &told]);
    assert_eq!(metrics(&out).last().unwrap()["step"], step - 1);
    // A journal of the first step would say that there never was a checkpoint.
    assert!(!out.join("rollouts/step-000001.rank-0.journal").exists());
    assert!(!state(&out, step - 1)["trainer"]["surplus"].as_array().unwrap().is_empty());

    fs::write(mended, "").unwrap();
    let said = succeed(run("out", &fails, "--resume"));
    assert_parts(&said, &[&format!("resuming after step {}", step - 1)]);
    fs::remove_dir_all(saved).unwrap(); // the one that nobody asked for
    assert_same_results(&whole, &out);
}

#[test]
#[ignore = "deep: waits for time limits"]
fn a_command_that_fails_in_an_evaluation_costs_no_step_that_was_made() {
    let bench = Bench::train();
    let (asked, limit) = (bench.scratch.path("asked"), bench.scratch.path("limit"));
    let count = || fs::metadata(&asked).map_or(0, |file| file.len() as usize);
    let check =
        format!("printf x >> '{asked}'; [ $(wc -c < '{asked}') -le $(cat '{limit}') ] || exit 1");
    let judged = command(&worker(&bench.scratch, &check), ",workers=1");
    let evaluated = 12; // responses: 2 to each of 6 problems
    let run = |out: &str, more: usize, flags: &str| {
        fs::write(&limit, (count() + more).to_string()).unwrap();
        let sets = "eval.every=3 checkpoint.every=2 checkpoint.keep=1 run.steps=4";
        bench.command(out, format!("{sets} {judged}"), flags)
    };
    succeed(run("whole", 1 << 30, ""));
    let whole = bench.out("whole");
    let sampled: usize = (1..=3).map(|step| rollouts(&whole, step).len()).sum();
    let out = bench.out("out");
    let fails = |more: usize, recorded: u64| {
        let (output, message) = outcome(run("out", more, "--resume"));
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert_parts(&message, &["fresh workers in a row failed"]);
        assert_eq!(metrics(&out).last().unwrap()["step"], recorded, "{message}");
        assert!(checkpoint(&out, 3).is_dir(), "{message}");
        message
    };
    let saved = format!("step 3 is saved in {}", text(&checkpoint(&out, 3)));
    assert_parts(&fails(evaluated + sampled, 2), &[&saved]);
    assert_parts(&fails(0, 2), &["resuming after step 3"]);
    fails(evaluated, 3); // in the step after
    succeed(run("out", 1 << 30, "--resume"));
    assert_same_results(&whole, &out);
    assert_nothing_is_left(&bench.scratch);
}

/// The terminal's Ctrl-C goes to the program's process group, which workers have left.
#[test]
fn the_step_that_ctrl_c_finishes_is_still_judged() {
    let bench = Bench::train();
    let judged = command(&worker(&bench.scratch, "sleep 0.01"), "");
    let sets = format!("{judged} run.steps=100000 eval.every=0");
    let mut command = bench.command("out", sets, "");
    let mut child = command.process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    let second = bench.out("out").join("rollouts/step-000002.jsonl");
    until(PATIENCE, "no step was made", || second.exists());
    send_to("INT", &format!("-{}", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_nothing_is_left(&bench.scratch);
    let lines = metrics(&bench.out("out"));
    assert!(lines.iter().skip(1).all(|line| line["verdict/fault"] == 0.0));
    assert!(fs::read_dir(bench.out("out").join("checkpoints")).unwrap().next().is_some());
}

/// The metrics of the first step of a recipe of the repository.
fn first_step(recipe: &str) -> Value {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    let small = format!("--set run.steps=1 --set eval.problems=2 --set run.out={out}");
    let mut command = isentrope(format!("train {recipe} {small}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    succeed(command.current_dir(root).env("ISENTROPE_THREADS", "1"));
    metrics(Path::new(&out)).remove(1)
}

/// docs/guides/data-and-rewards.md says that the example learns; that it runs is tested where there
/// is Python.
#[test]
fn the_example_runs_where_there_is_python() {
    if !has_python() {
        return;
    }
    let run = |more: &str| {
        first_step(&format!("examples/own-reward/recipe.toml --set rollout.prompts=8 {more}"))
    };
    let line = run("");
    assert_eq!((&line["verdict/fault"], &line["verdict/timed_out"]), (&json!(0.0), &json!(0.0)));
    assert!(line["reward/attempts"].as_f64().unwrap() >= 1.0);
    let score = line["reward/score"].as_f64().unwrap();
    assert!(score > 0.05 && score < 1.0, "{score}");
    // Equal rewards by functions of verl and of TRL make equal steps.
    for function in ["compute_score", "largest"] {
        let verifier = format!("{{python=\"examples/own-reward/functions.py:{function}\"}}");
        let same = run(&format!("--set reward.verifier={verifier}"));
        for name in ["reward/score", "policy/entropy", "verdict/fault"] {
            assert_eq!(line[name], same[name], "{function}: {name}");
        }
    }
}

/// recipes/guess.toml shows several turns; docs/guides/turns.md names it.
#[test]
fn the_guessing_game_runs_where_there_is_python() {
    if !has_python() {
        return;
    }
    let line = first_step("recipes/guess.toml --set rollout.prompts=16");
    assert_eq!(line["verdict/fault"], 0.0);
    let number = |name: &str| line[name].as_f64().unwrap();
    assert!(number("response/turns_mean") > 2.0 && number("reward/guesses") <= 6.0, "{line}");
    assert!(number("reward/score") > 0.1 && number("reward/score") < 1.0, "{line}");
}

/// A run whose worker, and all that it has started in sessions of their own, one an orphan, are
/// there and wait. Then the worker does what `then` says with each line.
fn hanging(bench: &Bench, then: &str) -> Child {
    let pids_file = bench.scratch.path("pids");
    let text = format!(
        r#"
sh -c 'echo $$ >> "{pids_file}"; exec setsid sh -c "echo \$\$ >> \"{pids_file}\"; trap \"\" TERM HUP INT; sleep 1000"' &
(setsid sh -c 'echo $$ >> "{pids_file}"; sleep 1000 & echo $! >> "{pids_file}"; wait' > /dev/null 2>&1 < /dev/null &)
echo $$ > '{pids_file}.worker'
echo $$ >> '{pids_file}'
while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {then}; done
sleep 1000
"#
    );
    let judged = command(&bench.scratch.file("worker.sh", text), ",workers=1,timeout_s=1000");
    let sets = format!("{judged} eval.every=0 run.steps=100000");
    let mut command = bench.command("out", sets, "");
    let child =
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(PATIENCE, "the worker has not started", || pids(&bench.scratch).len() >= 5);
    child
}

#[test]
fn nothing_is_left_when_the_program_ends_or_is_killed() {
    for then in ["sleep 1000", r#"echo "{\"id\":$id,\"score\":1}""#] {
        let bench = Bench::train();
        let mut child = hanging(&bench, then);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert_nothing_is_left(&bench.scratch);
    }
    // A second signal ends it at once, and its workers before.
    let bench = Bench::train();
    let mut child = hanging(&bench, "sleep 1000");
    for _ in 0..2 {
        send("INT", &child);
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!pids(&bench.scratch).iter().any(|pid| runs(pid)));
    // The kernel ends a worker whose supervisor is killed.
    let bench = Bench::train();
    let mut child = hanging(&bench, "sleep 1000");
    let worker = fs::read_to_string(bench.scratch.path("pids.worker")).unwrap().trim().to_owned();
    let parent = Command::new("ps").args(["-o", "ppid=", "-p", &worker]).output().unwrap();
    let supervisor = String::from_utf8(parent.stdout).unwrap().trim().to_owned();
    assert_ne!(supervisor, child.id().to_string());
    send_to("KILL", &supervisor);
    until(PATIENCE, "the worker is left", || !runs(&worker));
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that had left the worker's session is out of anybody's reach by then.
    for pid in pids(&bench.scratch) {
        let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
    }
}

#[test]
fn how_a_worker_ended_is_said_as_it_was() {
    let scratch = Scratch::new();
    let answers = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    for (script, said) in [
        ("exec >&-; sleep 1000", "the worker closed its standard output"),
        ("exec >&-; sleep 0.1; exit 7", "the worker ended (exit status: 7)"),
        ("echo last words >&2; exit 3", "the worker ended (exit status: 3): last words"),
        ("kill -SEGV $$", "the worker ended (signal: 11 (SIGSEGV))"),
        ("kill -TERM $$", "the worker ended (signal: 15 (SIGTERM))"),
    ] {
        let script = scratch.file("ends.sh", format!("read -r line; {script}"));
        let verifier = format!("{{command=[\"sh\",{script:?}],workers=1}}");
        let (output, _) = outcome(isentrope(format!("grade --in {answers} --verifier {verifier}")));
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.starts_with(said) && !reason.contains("core dumped)("), "{reason}");
    }
}
