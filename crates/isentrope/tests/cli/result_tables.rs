//! `experiments/tables.py` on what docs/results keeps of the experiments: the tables of docs/results.md can be made.

use crate::program::{names, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const NO_PYTHON: &str = "there is no python3 of 3.9 or newer here: no table is made";

/// What the script prints, or none where there is no Python that knows its words.
fn table(arguments: &[&str]) -> Option<String> {
    let is_older = "import sys; sys.exit(sys.version_info < (3, 9))";
    if !Command::new("python3").args(["-c", is_older]).status().is_ok_and(|status| status.success()) {
        return None;
    }
    let made = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("experiments/tables.py")
        .args(arguments)
        .current_dir(root())
        .output()
        .ok()?;
    let error = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{arguments:?}: {error}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.starts_with("| ") && said.lines().count() > 2, "{arguments:?}: {said}");
    Some(said)
}

#[test]
fn every_command_of_its_help_makes_a_table() {
    let script = fs::read_to_string(root().join("experiments/tables.py")).unwrap();
    let shown: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("    python3 experiments/tables.py ")).collect();
    assert!(shown.len() > 8, "{shown:?}");
    for command in shown {
        if table(&command.split(' ').collect::<Vec<_>>()).is_none() {
            return skipped(NO_PYTHON);
        }
    }
}

#[test]
fn what_is_kept_of_each_experiment_has_ends() {
    for file in names(&root().join("docs/results")) {
        let Some(said) = table(&["ends", &format!("docs/results/{file}")]) else {
            return skipped(NO_PYTHON);
        };
        assert!(said.contains("| before | "), "{file}: {said}");
    }
}
