//! The programs, and what their first lines say of them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use isentrope_code::Report;

use crate::bait::STYLES;

/// The protocol, for programs that speak for themselves.
const PROTOCOL: &str = include_str!("common/protocol.py");

/// A hostile program.
pub struct Fixture {
    pub name: String,
    pub program: String,
    /// How many programs it is.
    pub variants: usize,
    pub forms: Vec<Form>,
    /// Whether it gets what it wants outside of a jail.
    pub unprotected: bool,
    /// Whether it takes all of the machine that it can.
    pub greedy: bool,
}

/// A form of tests that it is judged by, and what must come of it.
pub struct Form {
    pub style: &'static str,
    pub verdicts: String,
}

impl Form {
    pub fn expects(&self, report: &Report) -> bool {
        self.verdicts.split(" or ").any(|verdict| {
            let (name, reason) = verdict.split_once(": ").unwrap_or((verdict, ""));
            report.verdict.name() == name && report.reason().contains(reason)
        })
    }
}

/// All of them, in the order of their names.
pub fn all() -> Vec<Fixture> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    paths.sort();
    paths.iter().map(read).collect()
}

fn read(path: &PathBuf) -> Fixture {
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let said = |key: &str| head.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    assert!(
        head.first().is_some_and(|line| line.starts_with("Tries: ")),
        "{name} does not say what it tries"
    );
    let mut forms = Vec::new();
    for (key, styles) in [
        ("Scripts", &["scripts"][..]),
        ("Calls", &["calls"]),
        ("Assertions", &["check"]),
        ("Assertions about a method", &["method"]),
        ("Assertions in every style", &STYLES),
    ] {
        if let Some(verdicts) = said(key) {
            forms.extend(styles.iter().map(|style| Form { style, verdicts: verdicts.to_owned() }));
        }
    }
    assert!(!forms.is_empty(), "{name} does not say what must come of it");
    let variants = said("Variants").map_or(1, |number| number.parse().unwrap());
    let (unprotected, greedy) = (said("Unprotected").is_some(), said("Greedy").is_some());
    let program = text.replace("from protocol import *\n", PROTOCOL);
    Fixture { name, program, variants, forms, unprotected, greedy }
}

/// The output of a program that is not in a jail.
pub fn run_unprotected(program: &str, number: u32) -> String {
    let mut python = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(number.to_string().as_bytes()).unwrap();
    String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap()
}
