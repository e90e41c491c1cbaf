//! Standard error that is closed, full or gone; terminals of some width, and what is hidden in text
//! that is shown.

use crate::program::{
    Scratch, failure, fixture, isentrope, lines_of, outcome, skipped, spoken, text, token_model,
};
use crate::text_model::text_model;
use crate::training::{Bench, assert_same_results, base, checkpoint, problems};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Broken standard errors.
fn bad_stderrs() -> [(&'static str, Stdio); 2] {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    [("a pipe that nobody reads", writer.into()), ("a full disk", full.into())]
}

/// The command in a shell that redirects its messages.
fn redirected(script: &str, run: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(run.get_program()).args(run.get_args());
    command.stdout(Stdio::null());
    command
}

#[test]
fn a_run_does_not_depend_on_who_hears_it() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = "run.steps=2 eval.every=2";
        let whole = bench.run("whole", sets, "");
        for (i, (what, stderr)) in bad_stderrs().into_iter().enumerate() {
            let name = format!("bad-{i}");
            let mut command = bench.command(&name, sets, "");
            let status = command.stdout(Stdio::null()).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(0), "{what}");
            assert_same_results(&whole, &bench.out(&name));
        }
        // `2>&1 | head -3`
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = bench.command("head", sets, "");
        let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
        drop(command); // it has the pipe's other end too
        assert_eq!(BufReader::new(reader).lines().take(3).count(), 3);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_same_results(&whole, &bench.out("head"));
        let closed = "exec \"$0\" \"$@\" 2>&-";
        assert!(redirected(closed, &bench.command("closed", sets, "")).status().unwrap().success());
        assert_same_results(&whole, &bench.out("closed"));
    }
}

/// A log that is longer already than a file may be, as far as it matters; and a summary that cannot
/// be printed.
#[test]
fn a_run_whose_log_or_summary_cannot_be_written_is_complete() {
    let bench = Bench::sft();
    let run = bench.command("limited", "run.steps=1", "");
    let log = bench.scratch.file("log", vec![b'x'; 4 << 20]);
    let limited = "ulimit -f 4096; exec \"$0\" \"$@\" 2>>'LOG'".replace("LOG", &log);
    assert_eq!(redirected(&limited, &run).status().unwrap().code(), Some(0));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (output, said) = outcome(bench.command("full", "run.steps=1", "").stdout(full));
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("error: standard output: No space left"), "{said}");
    for out in ["limited", "full"] {
        assert!(checkpoint(&bench.out(out), 1).is_dir());
    }
}

#[test]
fn every_command_works_when_nobody_hears_it() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let tokens = scratch.lines("tokens.jsonl", &vec![json!({"tokens": [1, 2, 3]}); 3]);
    let answers = scratch.lines("answers.jsonl", &[json!({"gold": "1", "response": "1"})]);
    let problems = scratch.lines("problems.jsonl", &[json!({"problem": "1 2>3:", "answer": "3"})]);
    let measured = format!("--bench mine={problems} --out {} -n 2", scratch.path("results"));
    for (line, code) in [
        (format!("generate {model} --prompts {tokens}"), 0),
        (format!("score {model} --in {tokens}"), 0),
        (format!("grade --in {answers}"), 0),
        (format!("eval {} {measured} --max-tokens 4", base()), 0),
        // Errors have their code too.
        (format!("generate /absent --prompts {tokens}"), 1),
        ("score --no-such-flag".into(), 2),
    ] {
        for (what, stderr) in bad_stderrs() {
            let output = isentrope(&line).stderr(stderr).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{line}: {what}");
            assert_eq!(output.stdout.is_empty(), code > 0, "{line}: {what}");
        }
    }
}

/// Names and texts that would clear a terminal, move its cursor or turn what follows round.
const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7f}\r";

#[test]
fn what_is_hidden_in_names_and_texts_is_shown_escaped() {
    let scratch = Scratch::new();
    let model = token_model("qwen3");
    let named = scratch.file(&format!("{HOSTILE}.jsonl"), "no JSON\n");
    let keys = scratch.lines("keys.jsonl", &[json!({HOSTILE: 1})]);
    let unjudged = json!({"gold": HOSTILE, "response": HOSTILE});
    let unjudged = scratch.lines("unjudged.jsonl", &[unjudged]);
    let recipe = scratch.file("recipe.toml", "[model]\npath = \"x\"\n\"a\\u001b[2J\\u202e\" = 1\n");
    let family = scratch.copy(&fixture("models/qwen3"), "family");
    fs::write(family.join("config.json"), json!({"model_type": HOSTILE}).to_string()).unwrap();
    let family = text(&family);
    for arguments in [
        &["generate", &model, "--prompts", &named][..],
        &["generate", HOSTILE, "--prompts", &keys],
        &["generate", &model, "--prompts", &keys, HOSTILE],
        &["score", &model, "--in", &keys],
        &["grade", "--in", &unjudged],
        &["train", &recipe],
        &["generate", &family, "--prompts", &keys],
    ] {
        let (_, said) = outcome(isentrope(&arguments.to_vec()));
        let hidden = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}".contains(c);
        assert!(!said.is_empty() && !said.contains(hidden), "{said:?}");
    }
}

#[test]
fn a_very_long_name_is_cut_short() {
    let scratch = Scratch::new();
    let long = "x".repeat(200 << 10);
    let recipe = scratch.file("recipe.toml", format!("[model]\n{long} = 1\n"));
    let said = failure(isentrope(format!("train {recipe}")));
    assert!(said.len() < 12_000, "{} bytes", said.len());
    assert!(said.contains("xxx…xxx") && said.contains("unknown key"), "{said}");
}

/// Runs a command on a terminal with `columns` columns and returns what it shows there. None
/// without util-linux's `script`.
pub fn on_terminal(columns: u16, command: &Command) -> Option<String> {
    typed_on_terminal(columns, command, "")
}

/// Does the same, and types `input`.
fn typed_on_terminal(columns: u16, command: &Command, input: &str) -> Option<String> {
    let quoted =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let line = format!("stty cols {columns} rows 40; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let mut child = script.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let mut shown = String::new();
    child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    child.wait().unwrap();
    Some(shown)
}

#[test]
fn messages_are_wrapped_and_rows_keep_their_columns_on_a_terminal() {
    let bench = Bench::train();
    for (columns, name) in [(100, "wide"), (60, "narrow")] {
        let run = bench.command(name, "run.steps=2", "");
        let Some(shown) = on_terminal(columns, &run) else {
            skipped("there is no program `script` here");
            return;
        };
        let heads: Vec<&str> = shown.lines().filter(|line| line.contains("reward ")).collect();
        assert!(shown.lines().any(|line| line.contains("/2 ")) && heads.len() == 1, "{shown:?}");
        assert_eq!(heads[0].contains("update tok/s"), columns == 100, "{shown:?}");
    }
    let shown = on_terminal(60, &bench.command("wide", "run.steps=3", "")).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("error: ")).unwrap();
    assert!(lines.len() > at + 1, "{shown:?}");
    assert!(lines[at + 1..].iter().all(|line| line.starts_with("  ")), "{shown:?}");
    let fits = |line: &&str| line.chars().count() <= 60 || !line.trim().contains(' ');
    assert!(lines.iter().all(fits), "{shown:?}");
    let (results, rows) =
        (bench.scratch.path("results"), bench.scratch.lines("rows.jsonl", &problems()));
    let measured = format!("eval {} --bench mine={rows} --out {results} --limit 2", base());
    spoken(isentrope(format!("{measured} --max-tokens 4 -n 2 --temperature 1")));
    for line in [
        format!("eval --against {results} --out {results}"),
        format!("inspect {}", text(&bench.out("wide"))),
    ] {
        let shown = on_terminal(60, &isentrope(line)).unwrap();
        assert!(shown.lines().count() > 10 && shown.lines().all(|line| fits(&line)), "{shown}");
    }
}

#[test]
fn a_terminal_is_asked_for_a_prompt() {
    let scratch = Scratch::new();
    let generate = format!("generate {} --max-tokens 5", text(&text_model(&scratch, "model")));
    for (input, said) in [("ab\n", "1 response, "), ("\n", "error: the prompt is empty")] {
        let Some(shown) = typed_on_terminal(80, &isentrope(&generate), input) else {
            skipped("there is no program `script` here");
            return;
        };
        assert!(shown.contains("prompt (end it with Enter):") && shown.contains(said), "{shown:?}");
    }
}

/// Whatever a command prints to a terminal goes through one sanitiser.
#[test]
fn text_of_files_cannot_drive_a_terminal() {
    let scratch = Scratch::new();
    // JSON itself escapes none of these.
    let hostile = "a\u{9b}31m\u{85}\u{202e}b\u{200b}";
    let answers = [json!({"gold": hostile, "response": hostile, hostile: 1})];
    let answers = scratch.lines("answers.jsonl", &answers);
    let explain = ["grade", "--explain", "1", &format!("\\boxed{{\\text{{{hostile}}}}}")];
    let (grade, explain) = (isentrope(format!("grade --in {answers}")), isentrope(&explain));
    for (command, part) in [(grade, "\\u{9b}"), (explain, "Wrong: ")] {
        let Some(shown) = on_terminal(80, &command) else {
            skipped("there is no program `script` here");
            return;
        };
        let is_hidden = |c: char| "\u{9b}\u{85}\u{202e}\u{200b}".contains(c);
        assert!(shown.contains(part) && !shown.contains(is_hidden), "{shown:?}");
    }
}

#[test]
fn generated_text_cannot_drive_a_terminal() {
    let scratch = Scratch::new();
    // Random tokens are bytes, and some are control characters.
    let model = text(&text_model(&scratch, "model"));
    let line = format!("generate {model} --prompt ab --max-tokens 200 --ignore-eos");
    let lines = lines_of(isentrope(format!("{line} --out -")));
    let is_hidden = |c: char| c.is_control() && !"\n\t".contains(c);
    assert!(lines[0]["text"].as_str().unwrap().contains(is_hidden), "{lines:?}");
    for more in ["", "-n 2"] {
        let Some(shown) = on_terminal(80, &isentrope(format!("{line} {more}"))) else {
            skipped("there is no program `script` here");
            return;
        };
        // The terminal itself puts a \r before each line's end.
        let shown = shown.replace("\r\n", "\n");
        assert!(shown.contains("\\u{") && !shown.contains(is_hidden), "{shown:?}");
    }
}
