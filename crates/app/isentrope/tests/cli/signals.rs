//! Signals that ask a program to end: what a scheduler, a closed terminal or a user sends.
//! `interrupt.rs` has Ctrl-C.

use crate::processes::{send, start_heard, wait_until};
use crate::program::{Scratch, assert_parts, isentrope, names, parse_lines, stderr, token_model};
use crate::training::{Bench, assert_same_results, lines, metrics, succeed};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const ASKING: [&str; 3] = ["TERM", "HUP", "USR1"];

#[test]
fn a_run_finishes_its_step_saves_and_goes_on_later() {
    let (train, sft) = (Bench::train(), Bench::sft());
    for (bench, signals) in [(&train, &["TERM"][..]), (&sft, &["HUP", "USR1"])] {
        let sets = ["run.steps=14", "eval.every=0", "checkpoint.every=0", "checkpoint.keep=1"];
        let whole = bench.run("whole", &sets, &[]);
        for signal in signals {
            let out = bench.out(signal);
            let mut child = start_heard(bench.command(signal, &sets, &[]));
            wait_until(PATIENCE, &mut child, || lines(&out) > 1);
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(130), "{signal}: {said}");
            let told = format!(
                "SIG{signal}: finishing the current step; SIGINT or another SIGTERM ends at once"
            );
            assert_parts(&said, &[&told, "error: interrupted: step "]);
            let last = metrics(&out).last().unwrap()["step"].as_u64().unwrap();
            assert_eq!(names(&out.join("checkpoints")), [format!("step-{last:06}")]);
            succeed(&mut bench.command(signal, &sets, &["--resume"]));
            assert_same_results(&whole, &out);
        }
    }
}

/// Starts a program as `nohup` does, or a shell that has been told to.
fn ignoring(signals: &str, run: &Command) -> Command {
    let mut command = Command::new("sh");
    let line = format!("trap '' {signals}; exec \"$0\" \"$@\"");
    command.args(["-c", &line]).arg(run.get_program()).args(run.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn what_is_ignored_stays_ignored() {
    let bench = Bench::sft();
    let sets = ["run.steps=12", "eval.every=0"];
    let whole = bench.run("whole", &sets, &[]);
    let out = bench.out("ignoring");
    let mut child =
        ignoring("HUP TERM USR1", &bench.command("ignoring", &sets, &[])).spawn().unwrap();
    wait_until(PATIENCE, &mut child, || lines(&out) > 1);
    for signal in ASKING {
        send(signal, &child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_same_results(&whole, &out);
    // Who sends SIGINT means it, though shells have programs in the background ignore it.
    let mut child =
        ignoring("HUP INT", &bench.command("int", &["run.steps=100000"], &[])).spawn().unwrap();
    wait_until(PATIENCE, &mut child, || lines(&bench.out("int")) > 2);
    send("HUP", &child);
    sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None);
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A verifier that never answers, so that the step it is asked in is never finished.
fn hanging(bench: &Bench, name: &str) -> (Child, String) {
    let asked = bench.scratch.path(&format!("asked-{name}"));
    let script = format!("read -r line; echo > '{asked}'; sleep 1000");
    let set =
        format!("reward.verifier={{ command = [\"sh\", \"-c\", {script:?}], timeout_s = 1000 }}");
    let mut command = bench.command(name, &[&set, "eval.every=0"], &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(PATIENCE, &mut child, || Path::new(&asked).exists());
    (child, asked)
}

#[test]
fn a_second_signal_ends_at_once() {
    let bench = Bench::train();
    for (i, (first, second)) in
        [("TERM", "TERM"), ("HUP", "INT"), ("INT", "INT")].into_iter().enumerate()
    {
        let (mut child, _) = hanging(&bench, &format!("run-{i}"));
        send(first, &child);
        sleep(Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap(), None, "the first finishes the step");
        send(second, &child);
        let started = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(started.elapsed() < Duration::from_secs(10), "{first}, {second}");
    }
}

/// A session that ends says so several times, and so does `timeout`; a scheduler warns before it
/// ends a job.
#[test]
fn one_cause_is_one_signal() {
    let bench = Bench::train();
    let pause = || sleep(Duration::from_millis(300));
    for (i, (together, later)) in [
        (&["HUP", "HUP", "HUP"][..], &["HUP", "TERM"][..]),
        (&["USR1"], &["USR1", "HUP", "TERM"]),
        (&["INT", "INT"], &["TERM"]),
        (&["TERM", "TERM"], &["HUP"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut child, _) = hanging(&bench, &format!("run-{i}"));
        // As one process, so that they come within the echo on a busy machine too.
        let sent: Vec<String> =
            together.iter().map(|signal| format!("kill -{signal} {}", child.id())).collect();
        assert!(Command::new("sh").args(["-c", &sent.join("; ")]).status().unwrap().success());
        pause();
        for signal in later {
            send(signal, &child);
            pause();
        }
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "{together:?} {later:?} was taken for a second one"
        );
        send("INT", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn the_other_commands_keep_what_they_have() {
    let signal = "TERM";
    let scratch = Scratch::new();
    let model = token_model("llama-mha");
    let prompts = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 1000]);
    let texts = scratch.lines("texts.jsonl", &vec![json!({"tokens": vec![1; 60]}); 100_000]);
    let out = scratch.path("out.jsonl");
    for arguments in [
        &[
            "generate",
            &model,
            "--prompts",
            &prompts,
            "-n",
            "200",
            "--kv-memory",
            "1",
            "--out",
            &out,
        ][..],
        &["score", &model, "--in", &texts, "--out", &out],
    ] {
        let mut child = isentrope(arguments).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(PATIENCE, &mut child, || {
            let dir = Path::new(&out).parent().unwrap();
            let growing = names(dir).into_iter().find(|name| name.starts_with(".isentrope-"));
            growing
                .and_then(|name| fs::metadata(dir.join(name)).ok())
                .is_some_and(|file| file.len() > 0)
        });
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{signal} {arguments:?}: {said}");
        assert!(said.contains("so far are in"), "{said}");
        let kept = fs::read_to_string(format!("{out}.partial")).unwrap();
        assert!(!parse_lines(&kept).is_empty());
        assert!(!Path::new(&out).exists());
        fs::remove_file(format!("{out}.partial")).unwrap();
        assert_eq!(scratch.names(), ["prompts.jsonl", "texts.jsonl"]);
    }
}

/// Nobody may ever write the next line.
#[test]
fn a_command_that_waits_for_its_input_keeps_what_it_has() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let out = scratch.path("out.jsonl");
        let arguments = ["grade", "--in", "-", "--threads", "1", "--out", &out];
        let mut child =
            isentrope(&arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..3 {
            stdin.write_all(b"{\"gold\": \"1\", \"response\": \"\\\\boxed{1}\"}\n").unwrap();
        }
        sleep(Duration::from_millis(800));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        let kept = parse_lines(&fs::read_to_string(format!("{out}.partial")).unwrap());
        assert!(
            !kept.is_empty() && kept.iter().all(|line| line["verdict"] == "correct"),
            "{kept:?}"
        );
        drop(stdin);
    }
}

/// A kill leaves the file that was being written, and the next command removes it. What is still
/// being written stays.
#[test]
fn what_a_killed_command_was_writing_goes_with_the_next() {
    let scratch = Scratch::new();
    let model = token_model("llama-mha");
    let prompts = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 1000]);
    let few = scratch.lines("few.jsonl", &[json!({"tokens": [5, 24, 43]})]);
    let start = |name: &str| {
        let sampled = ["-n", "200", "--kv-memory", "1", "--out", &scratch.path(name)];
        crate::processes::start(isentrope(
            &[&["generate", &model, "--prompts", &prompts], &sampled[..]].concat(),
        ))
    };
    let hidden =
        || scratch.names().into_iter().filter(|name| name.starts_with(".isentrope-")).count();
    let mut killed = start("killed.jsonl");
    wait_until(PATIENCE, &mut killed, || hidden() == 1);
    let mut running = start("running.jsonl");
    wait_until(PATIENCE, &mut running, || hidden() == 2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(hidden(), 2);
    let out = scratch.path("out.jsonl");
    assert!(
        isentrope(&["generate", &model, "--prompts", &few, "--out", &out])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(hidden(), 1, "{:?}", scratch.names());
    send("TERM", &running);
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert_eq!(
        scratch.names(),
        ["few.jsonl", "out.jsonl", "prompts.jsonl", "running.jsonl.partial"]
    );
}
