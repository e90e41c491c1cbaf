//! Where results go, and what happens when they cannot. `crates/base/files` tests how files are
//! replaced.

use crate::program::{
    Scratch, failure_saying, isentrope, names, outcome, parse_lines, skipped, spoken, token_model,
};
use crate::training::succeed;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn with_input(scratch: &Scratch) -> String {
    scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]}), json!({"tokens": [4]})])
}

#[test]
fn a_file_is_replaced_as_a_whole_with_its_permissions() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    let out = scratch.path("out.jsonl");
    let generate = format!("generate {model} --prompts {input} --out {out}");
    succeed(isentrope(&generate));
    // As any new file here, whatever the umask.
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&out), mode(&input));
    // As the older file that it takes the place of.
    fs::write(&out, "older").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o600)).unwrap();
    failure_saying(isentrope(format!("{generate} --top-p 7")), &["--top-p"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "older");
    succeed(isentrope(&generate));
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2);
    assert_eq!(mode(&out) & 0o777, 0o600);
    // A link stays, and the file that it leads to is replaced; a name without a directory is in the
    // current one.
    let link = scratch.path("link.jsonl");
    symlink(&out, &link).unwrap();
    let score = format!("score {model} --in {input} --out");
    succeed(isentrope(format!("{score} link.jsonl")).current_dir(scratch.path("")));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2);
    assert_eq!(scratch.names(), ["input.jsonl", "link.jsonl", "out.jsonl"]);
}

#[test]
fn a_dash_is_standard_output_and_messages_go_elsewhere() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    let answers = scratch.lines("answers.jsonl", &vec![json!({"gold": "1", "response": "1"}); 2]);
    for line in [
        format!("generate {model} --prompts {input}"),
        format!("score {model} --in {input}"),
        format!("grade --in {answers}"),
    ] {
        let here = scratch.path("");
        let (plain, _) = spoken(isentrope(&line).current_dir(&here));
        let (dashed, _) = spoken(isentrope(format!("{line} --out -")).current_dir(&here));
        assert_eq!(plain, dashed);
        assert_eq!(parse_lines(&dashed).len(), 2);
    }
    assert_eq!(scratch.names(), ["answers.jsonl", "input.jsonl"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", &vec![json!({"tokens": [1, 2, 3]}); 400]);
    let model = token_model("llama-mha");
    for line in [
        format!("generate {model} --prompts {input} -n 5 --max-tokens 100 --ignore-eos"),
        format!("score {model} --in {input}"),
        "generate --help".into(),
    ] {
        let mut command = isentrope(&line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        assert_eq!(BufReader::new(stdout).lines().take(1).count(), 1);
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{line}: {:?} {message}", output.status);
        assert!(!message.contains("error") && !message.contains("panicked"), "{line}: {message}");
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    let generate = format!("generate {model} --prompts {input}");
    for line in [&generate, "grade --explain 1 1", "--help", "--version", "train --keys"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (output, said) = outcome(isentrope(line).stdout(full));
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("standard output: No space left"), "{line}: {said}");
    }
}

#[test]
fn a_full_disk_is_one_sentence_and_leaves_nothing() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let Some(disk) = SmallDisk::new(disk, "64k") else {
        skipped("mounting a small disk needs root");
        return;
    };
    let (input, model) = (with_input(&scratch), token_model("llama-mha"));
    let sampled = format!("-n 50 --ignore-eos --max-tokens 50 --out {}/out.jsonl", disk.0);
    let line = format!("generate {model} --prompts {input} {sampled}");
    failure_saying(isentrope(line), &["out.jsonl: ", "No space left"]);
    assert!(names(Path::new(&disk.0)).is_empty());
}

/// A file system of its own at a directory, until it is dropped.
pub struct SmallDisk(pub String);

impl SmallDisk {
    /// None where this user may not mount one, who is to say so.
    pub fn new(directory: String, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs", &directory])
            .output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
