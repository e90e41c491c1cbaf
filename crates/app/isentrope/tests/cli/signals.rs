//! Signals that ask a program to end: Ctrl-C, and what a scheduler or a closed terminal sends.

use crate::processes::{heeds_interrupts, send, start, start_heard, until, wait_until};
use crate::program::{
    Scratch, assert_parts, isentrope, json_lines, lines_of, names, stderr, token_model,
};
use crate::training::{Bench, assert_same_results, lines, metrics, succeed};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the time in which a further signal says the same once more.
const PAUSE: Duration = Duration::from_millis(200);

#[test]
fn a_run_finishes_its_step_saves_and_goes_on_later() {
    let (train, sft) = (Bench::train(), Bench::sft());
    for (bench, signals) in [(&train, &["TERM", "INT"][..]), (&sft, &["HUP", "USR1"])] {
        let sets = "run.steps=14 eval.every=1 checkpoint.every=0 checkpoint.keep=1";
        let whole = bench.run("whole", sets, "");
        for signal in signals {
            let out = bench.out(signal);
            let mut child = start_heard(bench.command(signal, sets, ""));
            wait_until(PATIENCE, &mut child, || lines(&out) > 1);
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(130), "{signal}: {said}");
            let told = match *signal {
                "INT" => "finishing the current step, about ".to_owned(),
                _ => format!("SIG{signal}: finishing the current step, about "),
            };
            let at_once = match *signal {
                "INT" => "; Ctrl-C again ends at once and loses all steps\n",
                _ => "; SIGINT or another SIGTERM ends at once and loses all steps\n",
            };
            assert_parts(&said, &[&told, at_once, "error: interrupted: step ", "--resume goes on"]);
            let last = metrics(&out).last().unwrap()["step"].as_u64().unwrap();
            assert_eq!(names(&out.join("checkpoints")), [format!("step-{last:06}")]);
            succeed(bench.command(signal, sets, "--resume"));
            assert_same_results(&whole, &out);
        }
    }
}

/// Starts a program with these signals ignored, as `nohup` does.
fn ignoring(signals: &str, run: &Command) -> Child {
    let mut command = Command::new("sh");
    let line = format!("trap '' {signals}; exec \"$0\" \"$@\"");
    command.args(["-c", &line]).arg(run.get_program()).args(run.get_args());
    start(command)
}

#[test]
fn what_is_ignored_stays_ignored() {
    let bench = Bench::sft();
    let sets = "run.steps=12 eval.every=0";
    let out = bench.out("ignoring");
    let mut child = ignoring("HUP TERM USR1", &bench.command("ignoring", sets, ""));
    wait_until(PATIENCE, &mut child, || lines(&out) > 1);
    for signal in ["TERM", "HUP", "USR1"] {
        send(signal, &child);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines(&out), 13);
    // Who sends SIGINT means it, though shells have programs in the background ignore it.
    let mut child = ignoring("HUP INT", &bench.command("int", "run.steps=100000", ""));
    wait_until(PATIENCE, &mut child, || lines(&bench.out("int")) > 2);
    send("HUP", &child);
    sleep(PAUSE);
    assert_eq!(child.try_wait().unwrap(), None);
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A command with a verifier that never answers, so that the step or line it is asked about is
/// never finished.
fn hanging(scratch: &Scratch, command: impl Fn(&str) -> Command) -> Child {
    let asked = scratch.path("asked");
    let _ = std::fs::remove_file(&asked);
    let script = scratch.file("hang.sh", "read -r line; echo > $1; sleep 1000");
    let verifier = format!("{{command=[\"sh\",{script:?},{asked:?}],timeout_s=1000}}");
    let mut child = start_heard(command(&verifier));
    wait_until(PATIENCE, &mut child, || Path::new(&asked).exists());
    child
}

/// There is nothing to save yet, and the evaluation before the first step may take hours.
#[test]
fn before_the_first_step_a_run_ends_at_once() {
    let bench = Bench::train();
    for signal in ["INT", "TERM"] {
        let mut child = hanging(&bench.scratch, |verifier| {
            bench.command(signal, format!("reward.verifier={verifier}"), "")
        });
        send(signal, &child);
        until(PATIENCE, "it goes on", || child.try_wait().unwrap().is_some());
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert_parts(&said, &["error: interrupted before the first step: nothing is lost"]);
        assert!(!said.contains("finishing the current step"), "{said}");
    }
}

/// Only SIGINT after another signal, or SIGTERM again, ends a run at once. A session that ends says
/// so several times, and so does `timeout`; a scheduler warns before it ends a job.
#[test]
fn a_second_signal_ends_at_once_and_one_cause_is_one_signal() {
    let bench = Bench::train();
    for (i, (together, later, last)) in [
        (&["TERM"][..], &[][..], "TERM"),
        (&["HUP", "HUP", "HUP"], &["HUP", "TERM"], "INT"),
        (&["USR1"], &["USR1", "HUP", "TERM"], "INT"),
        (&["INT", "INT"], &["TERM"], "INT"),
        (&["TERM", "TERM"], &["HUP"], "INT"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut child = hanging(&bench.scratch, |verifier| {
            let set = format!("reward.verifier={verifier} eval.every=0");
            bench.command(&format!("run-{i}"), set, "")
        });
        // As one process, so that they come within the echo on a busy machine too.
        let sent: Vec<String> =
            together.iter().map(|signal| format!("kill -{signal} {}", child.id())).collect();
        assert!(Command::new("sh").args(["-c", &sent.join("; ")]).status().unwrap().success());
        sleep(PAUSE);
        for signal in later {
            send(signal, &child);
            sleep(PAUSE);
        }
        assert_eq!(child.try_wait().unwrap(), None, "{together:?} {later:?}: the first finishes");
        let started = Instant::now();
        send(last, &child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(started.elapsed() < Duration::from_secs(10), "{together:?}");
    }
}

#[test]
fn commands_keep_what_they_have() {
    let scratch = Scratch::new();
    let model = token_model("llama-mha");
    let prompts = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 1000]);
    let texts = scratch.lines("texts.jsonl", &vec![json!({"tokens": vec![1; 60]}); 100_000]);
    let out = scratch.path("out.jsonl");
    for (signal, line) in [
        ("INT", format!("generate {model} --prompts {prompts} -n 200 --kv-memory 1 --out {out}")),
        ("TERM", format!("score {model} --in {texts} --out {out}")),
    ] {
        let mut child = start_heard(isentrope(&line));
        wait_until(PATIENCE, &mut child, || scratch.growing() > 0);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{line}: {said}");
        assert_parts(&said, &["so far are in", "out.jsonl.partial"]);
        let kept = json_lines(format!("{out}.partial").as_ref());
        assert!(!kept.is_empty());
        std::fs::remove_file(format!("{out}.partial")).unwrap();
        assert_eq!(scratch.names(), ["prompts.jsonl", "texts.jsonl"]);
        if signal == "TERM" {
            continue;
        }
        assert_parts(&said, &["Ctrl-C again"]);
        // A response is the same whatever is sampled beside it, so a shorter run holds the first
        // prompt's to compare.
        let short = scratch.lines("short.jsonl", &[json!({"tokens": [5, 24, 43]})]);
        let whole = lines_of(isentrope(format!("generate {model} --prompts {short} -n 200")));
        let first: Vec<&Value> = kept.iter().filter(|line| line["id"] == 0).collect();
        assert!(!first.is_empty() && first.iter().all(|line| whole.contains(line)));
        std::fs::remove_file(short).unwrap();
    }
}

/// Nobody may ever write the next line.
#[test]
fn a_command_that_waits_for_its_input_keeps_what_it_has() {
    let scratch = Scratch::new();
    let out = scratch.path("out.jsonl");
    let mut command = isentrope(format!("grade --in - --threads 1 --out {out}"));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"gold\": \"1\", \"response\": \"1\"}\n".repeat(3).as_slice()).unwrap();
    sleep(Duration::from_millis(800));
    send("TERM", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let kept = json_lines(format!("{out}.partial").as_ref());
    assert!(!kept.is_empty() && kept.iter().all(|line| line["verdict"] == "correct"), "{kept:?}");
}

#[test]
fn a_second_ctrl_c_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let input = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    std::fs::create_dir(scratch.path("out")).unwrap();
    let out = scratch.path("out");
    let mut child = hanging(&scratch, |verifier| {
        isentrope(format!("grade --in {input} --verifier {verifier} --out {out}/out.jsonl"))
    });
    send("INT", &child);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C again") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended before it said that it would");
    }
    sleep(PAUSE); // sooner it would count as the same one
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "it did not end at once");
    assert_eq!(names(out.as_ref()), [""; 0]);
}

#[test]
fn a_blocked_reader_does_not_block_the_second() {
    let scratch = Scratch::new();
    let input = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 100]);
    let model = token_model("llama-mha");
    let mut command = isentrope(format!("generate {model} --prompts {input} -n 100"));
    // Nobody reads standard output, so the program waits in the middle of a step once the pipe is
    // full.
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::with_capacity(1, child.stdout.take().unwrap());
    printed.read_line(&mut String::new()).unwrap();
    sleep(Duration::from_millis(800));
    send("INT", &child);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("Ctrl-C again")));
    sleep(PAUSE);
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn before_the_work_begins_the_first_ends_at_once() {
    let scratch = Scratch::new();
    let (model, out) = (token_model("qwen3"), scratch.path("out.jsonl"));
    let mut command = isentrope(format!("generate {model} --prompts - --out {out}"));
    // It waits for somebody to write prompts. To wait for a child closes what it reads, so that end
    // is held here until then.
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let _prompts = child.stdin.take();
    let process = child.id();
    wait_until(PATIENCE, &mut child, || heeds_interrupts(process));
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names(), [""; 0]);
}
