//! Standard error and standard output that are closed, full or gone, and what is hidden in text
//! that is shown.

use crate::program::{
    Scratch, failure, fixture, isentrope, lines_of, parse_lines, skipped, stderr, text, token_model,
};
use crate::text_model::text_model;
use crate::training::{Bench, assert_same_results, base, checkpoint};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Standard error as it is when things go wrong.
fn bad_stderrs() -> Vec<(&'static str, Stdio)> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    vec![("a pipe that nobody reads", writer.into()), ("a full disk", full.into())]
}

#[test]
fn a_run_does_not_depend_on_who_hears_it() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = ["run.steps=2", "eval.every=2"];
        let whole = bench.run("whole", &sets, &[]);
        for (i, (what, stderr)) in bad_stderrs().into_iter().enumerate() {
            let name = format!("bad-{i}");
            let status = bench.command(&name, &sets, &[]).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(0), "{what}");
            assert_same_results(&whole, &bench.out(&name));
        }
        // `2>&1 | head -3`
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = bench.command("head", &sets, &[]);
        let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
        drop(command); // it has the pipe's other end too
        assert_eq!(BufReader::new(reader).lines().take(3).count(), 3);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_same_results(&whole, &bench.out("head"));
        // A closed one.
        let mut command = Command::new("sh");
        let run = bench.command("closed", &sets, &[]);
        command.args(["-c", "exec \"$0\" \"$@\" 2>&-"]).arg(run.get_program()).args(run.get_args());
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
        assert_same_results(&whole, &bench.out("closed"));
    }
}

#[test]
fn a_log_that_reaches_its_limit_ends_no_run() {
    let bench = Bench::sft();
    let whole = bench.run("whole", &["run.steps=1", "checkpoint.every=0"], &[]);
    let run = bench.command("limited", &["run.steps=1", "checkpoint.every=0"], &[]);
    // Standard error is a file that is longer already than a file may be, as far as it matters.
    let log = bench.scratch.file("log", vec![b'x'; 4 << 20]);
    let mut command = Command::new("sh");
    let limited = "ulimit -f 4096; exec \"$0\" \"$@\" 2>>'LOG'".replace("LOG", &log);
    command.args(["-c", &limited]).arg(run.get_program()).args(run.get_args());
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    assert_same_results(&whole, &bench.out("limited"));
}

#[test]
fn every_command_works_when_nobody_hears_it() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let tokens = scratch.lines("tokens.jsonl", &vec![json!({"tokens": [1, 2, 3]}); 3]);
    let answers = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "\\boxed{1}"})]);
    let problems = scratch.lines("problems.jsonl", &[json!({"problem": "1 2>3:", "answer": "3"})]);
    let (bench, results) = (format!("mine={problems}"), scratch.path("results"));
    let arguments: [&[&str]; 5] = [
        &["generate", &model, "--prompts", &tokens],
        &["score", &model, "--in", &tokens],
        &["grade", "--in", &answers],
        &["eval", base(), "--bench", &bench, "--out", &results, "-n", "2", "--max-tokens", "4"],
        &["doctor", "--json"],
    ];
    for arguments in arguments {
        for (what, stderr) in bad_stderrs() {
            let output = isentrope(arguments).stderr(stderr).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {what}");
            assert!(!output.stdout.is_empty(), "{arguments:?}: {what}");
        }
        // Its errors have their code too.
        for (what, stderr) in bad_stderrs() {
            let status =
                isentrope(&[arguments[0], "--no-such-flag"]).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(2), "{what}");
        }
    }
    for (what, stderr) in bad_stderrs() {
        let status =
            isentrope(&["generate", "/absent", "--prompts", &tokens]).stderr(stderr).status();
        assert_eq!(status.unwrap().code(), Some(1), "{what}");
    }
}

/// `>&-`: nothing that was asked for could be printed.
fn with_closed_output(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let run = isentrope(arguments);
    command.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(run.get_program()).args(run.get_args());
    command.stdin(Stdio::null());
    command
}

#[test]
fn without_a_standard_output_what_goes_there_fails() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let tokens = scratch.lines("tokens.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let answers = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "\\boxed{1}"})]);
    let arguments: [&[&str]; 8] = [
        &["generate", &model, "--prompts", &tokens],
        &["generate", &model, "--prompts", &tokens, "--out", "-"],
        &["score", &model, "--in", &tokens],
        &["grade", "--in", &answers],
        &["grade", "--explain", "1", "1"],
        &["--help"],
        &["--version"],
        &["train", "--keys"],
    ];
    for arguments in arguments {
        let sentence = failure(&mut with_closed_output(arguments));
        assert!(sentence.contains("standard output is closed"), "{arguments:?}: {sentence}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = isentrope(arguments).stdout(full).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output: No space left"), "{arguments:?}: {said}");
    }
    // Output to a file does not need it, and an output that is thrown away is none that is missing.
    let out = scratch.path("out.jsonl");
    let to_file = ["generate", &model, "--prompts", &tokens, "--out", &out];
    assert!(with_closed_output(&to_file).status().unwrap().success());
    assert!(isentrope(&["--help"]).stdout(Stdio::null()).status().unwrap().success());
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    assert!(isentrope(&["--help"]).stdout(null).status().unwrap().success());
}

#[test]
fn a_run_whose_summary_cannot_be_printed_is_complete_all_the_same() {
    let bench = Bench::sft();
    let sets = ["run.steps=1", "eval.every=0"];
    let whole = bench.run("whole", &sets, &[]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = bench.command("full", &sets, &[]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("error: standard output: No space left"),
        "{}",
        stderr(&output)
    );
    assert!(checkpoint(&bench.out("full"), 1).is_dir());
    assert_same_results(&whole, &bench.out("full"));
}

#[test]
fn a_dash_is_standard_output_and_messages_go_elsewhere() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let tokens = scratch.lines("tokens.jsonl", &vec![json!({"tokens": [1, 2, 3]}); 2]);
    let answers =
        scratch.lines("answers.jsonl", &vec![json!({"gold": "1", "response": "\\boxed{1}"}); 2]);
    let here = scratch.path(".");
    let arguments: [&[&str]; 3] = [
        &["generate", &model, "--prompts", &tokens],
        &["score", &model, "--in", &tokens],
        &["grade", "--in", &answers],
    ];
    for arguments in arguments {
        let output = |more: &[&str]| {
            isentrope(&[arguments, more].concat()).current_dir(&here).output().unwrap()
        };
        let (plain, dashed) = (output(&[]), output(&["--out", "-"]));
        assert!(dashed.status.success(), "{}", stderr(&dashed));
        assert_eq!(plain.stdout, dashed.stdout);
        assert_eq!(parse_lines(&String::from_utf8(dashed.stdout).unwrap()).len(), 2);
    }
    assert_eq!(scratch.names(), ["answers.jsonl", "tokens.jsonl"]);
    let bench =
        format!("mine={}", scratch.lines("p.jsonl", &[json!({"problem": "1:", "answer": "3"})]));
    let sentence =
        failure(isentrope(&["eval", base(), "--bench", &bench, "--out", "-"]).current_dir(&here));
    assert!(sentence.contains("--out") && sentence.contains("directory"), "{sentence}");
    let run = Bench::sft();
    let sentence = failure(run.command("x", &["run.out=\"-\""], &[]).current_dir(&here));
    assert!(sentence.contains("run.out") && sentence.contains("directory"), "{sentence}");
    assert!(!scratch.names().contains(&"-".to_owned()));
}

/// Names and texts that would clear a terminal, move its cursor or turn what follows round.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7f}\r";

fn assert_harmless(said: &str) {
    let hidden =
        |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}\u{200e}\u{2066}".contains(c);
    assert!(!said.contains(hidden), "{said:?}");
}

#[test]
fn what_is_hidden_in_names_and_texts_is_shown_escaped() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let named = scratch.file(&format!("{HOSTILE}.jsonl"), "no JSON\n");
    let keys = scratch.lines("keys.jsonl", &[json!({HOSTILE: 1})]);
    let unjudged =
        scratch.lines("unjudged.jsonl", &[json!({"gold": HOSTILE, "response": HOSTILE})]);
    let recipe = scratch.file("recipe.toml", "[model]\npath = \"x\"\n\"a\\u001b[2J\\u202e\" = 1\n");
    let template = scratch.copy(&fixture("models/qwen3"), "template");
    fs::write(template.join("config.json"), json!({"model_type": HOSTILE}).to_string()).unwrap();
    let template = text(&template);
    let arguments: [&[&str]; 8] = [
        &["generate", &model, "--prompts", &named],
        &["generate", HOSTILE, "--prompts", &keys],
        &["generate", &model, "--prompts", &keys, HOSTILE],
        &["score", &model, "--in", &keys],
        &["grade", "--in", &keys],
        &["grade", "--in", &unjudged],
        &["train", &recipe],
        &["generate", &template, "--prompts", &keys],
    ];
    for arguments in arguments {
        let said = stderr(&isentrope(arguments).output().unwrap());
        assert!(!said.is_empty());
        assert_harmless(&said);
    }
}

#[test]
fn a_very_long_name_is_cut_short() {
    let scratch = Scratch::new();
    let long = "x".repeat(200 << 10);
    let rows =
        scratch.lines("rows.jsonl", &[json!({"gold": "1", "response": "1", "expected": long})]);
    let recipe = scratch.file("recipe.toml", format!("[model]\n{long} = 1\n"));
    for arguments in [&["grade", "--in", &rows][..], &["train", &recipe]] {
        let said = failure(&mut isentrope(arguments));
        assert!(said.len() < 12_000, "{} bytes", said.len());
    }
    let said = failure(&mut isentrope(&["train", &recipe]));
    assert!(said.contains("xxx…xxx") && said.contains("unknown key"), "{said}");
}

/// Runs a command on a terminal of so many columns; all that it shows there. Needs `script` of
/// util-linux.
pub fn on_terminal(columns: u16, command: &Command) -> Option<String> {
    let quoted =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let line = format!("stty cols {columns} rows 40; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let mut child = script.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let mut shown = String::new();
    child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    child.wait().unwrap();
    Some(shown)
}

#[test]
fn messages_are_wrapped_and_rows_keep_their_columns_on_a_terminal() {
    let bench = Bench::train();
    for (columns, name) in [(100, "wide"), (60, "narrow")] {
        let run = bench.command(name, &["run.steps=3"], &[]);
        let Some(shown) = on_terminal(columns, &run) else {
            skipped("there is no program `script` here");
            return;
        };
        let rows: Vec<&str> = shown.lines().filter(|line| line.contains("/3 ")).collect();
        let heads: Vec<&str> = shown.lines().filter(|line| line.contains("reward")).collect();
        assert!(!rows.is_empty() && heads.len() == 1, "{shown:?}");
        assert_eq!(heads[0].contains("update tok/s"), columns == 100, "{shown:?}");
    }
    let error = bench.command("wide", &["run.steps=3"], &[]);
    let shown = on_terminal(60, &error).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("error: "))
        .unwrap_or_else(|| panic!("{shown:?}"));
    assert!(
        lines.len() > at + 1 && lines[at + 1..].iter().all(|line| line.starts_with("  ")),
        "{shown:?}"
    );
    assert!(
        lines.iter().all(|line| line.chars().count() <= 60 || !line.trim().contains(' ')),
        "{shown:?}"
    );
}

#[test]
fn generated_text_cannot_drive_a_terminal() {
    let scratch = Scratch::new();
    // Random tokens are bytes, and some are control characters.
    let model = text(&text_model(&scratch, "model"));
    let sampled = ["--prompt", "ab", "--max-tokens", "200", "--ignore-eos"];
    let arguments = [&["generate", &model][..], &sampled].concat();
    let lines = lines_of(isentrope(&[&arguments[..], &["--out", "-"]].concat()));
    let is_hidden = |c: char| c.is_control() && !"\n\t".contains(c);
    assert!(lines[0]["text"].as_str().unwrap().contains(is_hidden), "{lines:?}");
    for more in [&[][..], &["-n", "2"]] {
        let Some(shown) = on_terminal(80, &isentrope(&[&arguments[..], more].concat())) else {
            skipped("there is no program `script` here");
            return;
        };
        // The terminal itself puts a \r before each line's end.
        let shown = shown.replace("\r\n", "\n");
        assert!(shown.contains("\\u{") && !shown.contains(is_hidden), "{shown:?}");
    }
}
