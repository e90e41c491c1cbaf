//! Runs the program and reads what it says.

use isentrope_reward::{VerifierName, VerifierSettings};
use serde_json::Value;
use std::borrow::BorrowMut;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Says what is not tried here, past the capture of what a test that passes prints.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Words of a command line: one text with spaces between them, where '...' encloses a word that
/// has spaces, or a list of words.
pub trait Words {
    fn words(&self) -> Vec<String>;
}

impl Words for &str {
    fn words(&self) -> Vec<String> {
        let part = |(place, part): (usize, &str)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        self.split('\'').enumerate().flat_map(part).collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl Words for &String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<S: AsRef<str>> Words for &[S] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<str>, const N: usize> Words for &[S; N] {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<S: AsRef<str>> Words for &Vec<S> {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl Words for Vec<String> {
    fn words(&self) -> Vec<String> {
        self.clone()
    }
}

/// A command of the program, with an environment that does not depend on where the test runs.
pub fn isentrope(line: impl Words) -> Command {
    let mut command = command_of(Path::new(env!("CARGO_BIN_EXE_isentrope")), line);
    command.env("ISENTROPE_DEVICE", "cpu"); // also where there is a GPU
    command
}

/// A command of the program with an emulated GPU, which it finds by itself.
pub fn emulated(line: impl Words) -> Command {
    let program =
        Path::new(env!("CARGO_BIN_EXE_isentrope")).with_file_name("examples").join("emulated");
    assert!(program.is_file(), "tests need `cargo build -p isentrope --example emulated` first");
    command_of(&program, line)
}

fn command_of(program: &Path, line: impl Words) -> Command {
    let mut command = Command::new(program);
    command.args(line.words());
    for name in [
        "ISENTROPE_ISA",
        "ISENTROPE_THREADS",
        "ISENTROPE_DEVICE",
        "ISENTROPE_EMULATED_GPUS",
        "ISENTROPE_EMULATED_MEMORY",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "RUST_BACKTRACE",
    ] {
        command.env_remove(name);
    }
    command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", "no-such-cache").stdin(Stdio::null());
    command
}

/// A command's output, and its standard error as text.
pub fn outcome(mut command: impl BorrowMut<Command>) -> (Output, String) {
    let output = command.borrow_mut().output().unwrap();
    let said = stderr(&output);
    (output, said)
}

/// Runs a command with this text as its standard input.
pub fn output_for(input: &str, mut command: impl BorrowMut<Command>) -> Output {
    let pipes = command.borrow_mut().stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a command that must succeed: what it prints, and what it says on standard error. A dry
/// run's comments, which it breaks between words, are whole.
pub fn spoken(mut command: impl BorrowMut<Command>) -> (String, String) {
    let is_dry = command.borrow_mut().get_args().any(|argument| argument == "--dry-run");
    let (output, said) = outcome(command);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    (if is_dry { printed.replace("\n#   ", " ") } else { printed }, said)
}

/// Runs a command that must succeed; its standard output as JSON lines.
pub fn lines_of(command: impl BorrowMut<Command>) -> Vec<Value> {
    parse_lines(&stdout_of(command))
}

/// Runs a command that must succeed; its standard output.
pub fn stdout_of(command: impl BorrowMut<Command>) -> String {
    let (printed, said) = spoken(command);
    assert!(!said.contains("error"), "{said}");
    printed
}

pub fn parse_lines(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is not whole: {text:?}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Runs a command that must fail with exit code 1 and one sentence, which is returned.
pub fn failure(mut command: impl BorrowMut<Command>) -> String {
    let command = command.borrow_mut();
    let (output, message) = outcome(&mut *command);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{command:?}: {message}");
    assert!(
        output.stdout.is_empty(),
        "{command:?} printed {:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    let sentence = message.strip_prefix("error: ").and_then(|m| m.strip_suffix('\n'));
    let sentence = sentence.unwrap_or_else(|| panic!("{command:?}: {message}"));
    for word in ["panicked", "unwrap", "Some(", "Error {", "os error 0", "RUST_BACKTRACE"] {
        assert!(!sentence.contains(word), "{command:?}: {message}");
    }
    sentence.to_owned()
}

/// The message of a failure, which must contain every one of `parts`.
pub fn failure_saying(command: impl BorrowMut<Command>, parts: &[&str]) {
    assert_parts(&failure(command), parts);
}

/// The last line of a command that must fail with exit code 1, and may say other things before.
pub fn failure_last(command: impl BorrowMut<Command>, parts: &[&str]) -> String {
    let (output, message) = outcome(command);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let last = message.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && !message.contains("panicked"), "{message}");
    assert_parts(last, parts);
    last.to_owned()
}

/// A text has all of these parts.
pub fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// Lines of a file of JSON lines.
pub fn json_lines(path: &Path) -> Vec<Value> {
    parse_lines(&fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Whether there is Python; where not, the test says what it leaves out.
pub fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        skipped("there is no python3 here: functions and scripts are not tested");
    }
    found
}

/// A file of JSON.
pub fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether programs can be run safely here and judged. Where not, it says so and why; a test of
/// them is then left out.
pub fn can_judge_programs() -> bool {
    let started = VerifierSettings::from(VerifierName::Code).build();
    if let Err(why) = &started {
        let _ = writeln!(std::io::stderr(), "a test of programs is left out: {why}");
    }
    started.is_ok()
}

/// A file or directory among the fixtures of the model crate.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../compute/model/tests/fixtures")
        .join(path)
        .canonicalize()
        .unwrap()
}

/// A tiny model without a tokenizer, as an argument.
pub fn token_model(name: &str) -> String {
    text(&fixture("models").join(name))
}

/// A path as an argument.
pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A directory for one test.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        text(&self.0.path().join(name))
    }

    /// Writes a file; its path as an argument.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.0.path().join(name), contents).unwrap();
        self.path(name)
    }

    /// Writes JSON lines; the path as an argument.
    pub fn lines(&self, name: &str, values: &[Value]) -> String {
        self.file(name, values.iter().map(|v| format!("{v}\n")).collect::<String>())
    }

    /// A copy of a directory without its subdirectories.
    pub fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.0.path().join(name);
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|e| e.path().is_file())
        {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    }

    /// The bytes of the file that a command is writing here, under a name of its own.
    pub fn growing(&self) -> u64 {
        growing(self.0.path())
    }

    /// Names of everything in it, hidden files too, sorted.
    pub fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

/// The bytes of the file that a command is writing in a directory, under a name of its own.
pub fn growing(dir: &Path) -> u64 {
    let name = names(dir).into_iter().find(|name| name.starts_with(".isentrope-"));
    name.and_then(|name| fs::metadata(dir.join(name)).ok()).map_or(0, |file| file.len())
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The numbers under a key, as the bits of the f32 they stand for.
pub fn bits(line: &Value, key: &str) -> Vec<u32> {
    floats(line, key).into_iter().map(f32::to_bits).collect()
}

pub fn floats(line: &Value, key: &str) -> Vec<f32> {
    array(line, key).iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

pub fn array<'a>(line: &'a Value, key: &str) -> &'a [Value] {
    line[key].as_array().unwrap_or_else(|| panic!("no list {key:?} in {line}"))
}

/// Files with this extension below a directory of the repository, by their paths.
pub fn files_below(directory: &str, extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let (mut files, mut open) = (Vec::new(), vec![root.join(directory)]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The page of this name.
pub fn page(name: &str) -> String {
    let pages = files_below("docs", "md");
    let found = pages.iter().find(|path| path.ends_with(name));
    fs::read_to_string(found.unwrap_or_else(|| panic!("there is no page {name}"))).unwrap()
}

/// All pages, one after the other.
pub fn all_pages() -> String {
    files_below("docs", "md").iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}
