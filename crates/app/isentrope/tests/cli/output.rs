//! Where results go, and what happens when they cannot.

use crate::program::{Scratch, failure, failure_saying, isentrope, names, skipped, token_model};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn with_input(scratch: &Scratch) -> String {
    scratch.lines("input.jsonl", &[json!({"tokens": [1, 2, 3]}), json!({"tokens": [4]})])
}

#[test]
fn places_that_cannot_be_written_are_named_before_the_model_is_loaded() {
    let scratch = Scratch::new();
    let input = with_input(&scratch);
    let file = scratch.file("file", "x");
    fs::create_dir(scratch.path("directory")).unwrap();
    for (out, parts) in [
        (
            scratch.path("absent/out.jsonl"),
            [&scratch.path("absent")[..], "No such file or directory"],
        ),
        (format!("{file}/out.jsonl"), [&file, "Not a directory"]),
        (scratch.path("directory"), [&scratch.path("directory"), "is a directory"]),
        ("/proc/out.jsonl".into(), ["/proc", "cannot write there"]),
        ("/".into(), ["/", "is a directory"]),
    ] {
        for command in [["generate", "--prompts"], ["score", "--in"]] {
            // A model that is not there would be the error otherwise.
            let arguments = [command[0], "/absent/model", command[1], &input, "--out", &out];
            let sentence = failure(&mut isentrope(&arguments));
            assert!(
                parts.iter().all(|p| sentence.contains(p)) && !sentence.contains(".isentrope-"),
                "{sentence}"
            );
        }
    }
    assert_eq!(scratch.names(), ["directory", "file", "input.jsonl"]);
    assert!(names(Path::new(&scratch.path("directory"))).is_empty());
}

#[test]
fn a_file_is_replaced_as_a_whole_with_its_permissions() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    let out = scratch.path("out.jsonl");
    let generate = ["generate", &model, "--prompts", &input, "--out", &out];
    assert!(isentrope(&generate).status().unwrap().success());
    // As any new file here, whatever the umask.
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&out), mode(&input));
    // As the older file that it takes the place of.
    fs::write(&out, "older").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o600)).unwrap();
    failure_saying(&mut isentrope(&[&generate[..], &["--top-p", "7"]].concat()), &["--top-p"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "older");
    assert!(isentrope(&generate).status().unwrap().success());
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2);
    assert_eq!(mode(&out) & 0o777, 0o600);
    // A name without a directory is in the current one.
    let mut command = isentrope(&["score", &model, "--in", &input, "--out", "scores.jsonl"]);
    let here = Path::new(&input).parent().unwrap();
    assert!(command.current_dir(here).status().unwrap().success());
    assert_eq!(scratch.names(), ["input.jsonl", "out.jsonl", "scores.jsonl"]);
}

#[test]
fn a_pipe_or_device_is_written_to_and_never_replaced() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = isentrope(&["score", &model, "--in", &input, "--out", &pipe]).spawn().unwrap();
    let read = BufReader::new(fs::File::open(&pipe).unwrap()).lines().count();
    assert!(child.wait().unwrap().success());
    assert_eq!(read, 2);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(scratch.names(), ["input.jsonl", "pipe"]);
}

#[test]
fn a_link_stays_and_the_file_it_leads_to_is_replaced() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    fs::create_dir(scratch.path("elsewhere")).unwrap();
    let (file, link) = (scratch.file("elsewhere/out.jsonl", "older"), scratch.path("link.jsonl"));
    symlink(&file, &link).unwrap();
    assert!(
        isentrope(&["score", &model, "--in", &input, "--out", &link]).status().unwrap().success()
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let scratch = Scratch::new();
    let lines = vec![json!({"tokens": [1, 2, 3]}); 400];
    let (input, model) = (scratch.lines("input.jsonl", &lines), token_model("llama-mha"));
    for arguments in [
        &[
            "generate",
            &model,
            "--prompts",
            &input,
            "-n",
            "5",
            "--max-tokens",
            "100",
            "--ignore-eos",
        ][..],
        &["score", &model, "--in", &input],
        &["generate", "--help"],
    ] {
        let mut child =
            isentrope(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        assert_eq!(BufReader::new(stdout).lines().take(1).count(), 1);
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && !message.contains("error"),
            "{arguments:?}: {:?} {message}",
            output.status
        );
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    }
}

#[test]
fn a_full_standard_output_is_one_sentence() {
    let scratch = Scratch::new();
    let (input, model) = (with_input(&scratch), token_model("qwen3"));
    for arguments in
        [&["generate", &model, "--prompts", &input][..], &["score", &model, "--in", &input]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        failure_saying(isentrope(arguments).stdout(full), &["standard output", "No space left"]);
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
    let out = format!("{}/out.jsonl", disk.0);
    let sampled = ["-n", "50", "--ignore-eos", "--max-tokens", "50", "--out", &out];
    let arguments = [&["generate", &model, "--prompts", &input], &sampled[..]].concat();
    failure_saying(&mut isentrope(&arguments), &["out.jsonl: ", "No space left"]);
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

    pub fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options, &self.0]).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
