//! Ctrl-C.

use crate::processes::{heeds_interrupts, send, start_heard, wait_until};
use crate::program::{Scratch, isentrope, names, parse_lines, token_model};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `done`, while the child runs.
fn hidden_file(dir: &Path) -> Option<u64> {
    let name = names(dir).into_iter().find(|name| name.starts_with(".isentrope-"))?;
    fs::metadata(dir.join(name)).ok().map(|m| m.len())
}

fn by_place(lines: Vec<Value>) -> BTreeMap<(u64, u64), Value> {
    lines
        .into_iter()
        .map(|l| ((l["id"].as_u64().unwrap(), l["sample"].as_u64().unwrap()), l))
        .collect()
}

#[test]
fn the_first_keeps_what_has_finished() {
    let scratch = Scratch::new();
    let model = token_model("llama-mha");
    let input = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 1000]);
    fs::create_dir(scratch.path("out")).unwrap();
    let out = scratch.path("out/out.jsonl");
    let dir = Path::new(&out).parent().unwrap();
    let arguments =
        ["generate", &model, "--prompts", &input, "-n", "200", "--kv-memory", "1", "--out", &out];
    let mut child = start_heard(isentrope(&arguments));
    wait_until(PATIENCE, &mut child, || hidden_file(dir).is_some_and(|len| len > 0));
    send("INT", &child);
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(
        message.contains("Ctrl-C again") && message.contains("error: interrupted: "),
        "{message}"
    );
    assert!(message.contains("out.jsonl.partial"), "{message}");
    assert_eq!(names(dir), ["out.jsonl.partial"]);

    let kept = by_place(parse_lines(&fs::read_to_string(format!("{out}.partial")).unwrap()));
    assert!(!kept.is_empty());
    // A response is the same whatever is sampled beside it, so a shorter run holds the first
    // prompt's to compare.
    let short = scratch.lines("short.jsonl", &[json!({"tokens": [5, 24, 43]})]);
    let whole =
        isentrope(&["generate", &model, "--prompts", &short, "-n", "200"]).output().unwrap();
    let whole = by_place(parse_lines(&String::from_utf8(whole.stdout).unwrap()));
    let common: Vec<_> = kept.iter().filter(|(place, _)| whole.contains_key(place)).collect();
    assert!(!common.is_empty());
    for (place, line) in common {
        assert_eq!(line, &whole[place]);
    }
}

#[test]
fn the_second_ends_at_once() {
    let scratch = Scratch::new();
    let input = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    fs::create_dir(scratch.path("out")).unwrap();
    let (out, asked) = (scratch.path("out/out.jsonl"), scratch.path("asked"));
    let parent = Path::new(&out).parent().unwrap();
    // A verifier that never answers, so that the lines under way are never finished.
    let script = format!("read -r line; echo > '{asked}'; sleep 1000");
    let verifier = format!("{{ command = [\"sh\", \"-c\", {script:?}], timeout_s = 1000 }}");
    let arguments = ["grade", "--in", &input, "--verifier", &verifier, "--out", &out];
    let mut child = start_heard(isentrope(&arguments));
    wait_until(PATIENCE, &mut child, || Path::new(&asked).exists());
    assert!(hidden_file(parent).is_some());
    send("INT", &child);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C again") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended before it said that it would");
    }
    std::thread::sleep(Duration::from_millis(150)); // sooner it would count as the same one
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "it did not end at once");
    assert_eq!(names(parent), [""; 0]);
}

#[test]
fn a_blocked_reader_does_not_block_the_second() {
    let scratch = Scratch::new();
    let model = token_model("llama-mha");
    let input = scratch.lines("prompts.jsonl", &vec![json!({"tokens": [5, 24, 43]}); 100]);
    let arguments = ["generate", &model, "--prompts", &input, "-n", "100"];
    // Nobody reads standard output, so the program waits in the middle of a step once the pipe is
    // full.
    let mut child =
        isentrope(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::with_capacity(1, child.stdout.take().unwrap());
    printed.read_line(&mut String::new()).unwrap();
    std::thread::sleep(Duration::from_millis(800));
    send("INT", &child);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("Ctrl-C again")));
    std::thread::sleep(Duration::from_millis(150));
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn before_the_work_begins_the_first_ends_at_once() {
    let scratch = Scratch::new();
    let arguments =
        ["generate", &token_model("qwen3"), "--prompts", "-", "--out", &scratch.path("out.jsonl")];
    // It waits for somebody to write prompts. To wait for a child closes what it reads, so that end
    // is held here until then.
    let mut child = isentrope(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let _prompts = child.stdin.take();
    let process = child.id();
    wait_until(PATIENCE, &mut child, || heeds_interrupts(process));
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names(), [""; 0]);
}
