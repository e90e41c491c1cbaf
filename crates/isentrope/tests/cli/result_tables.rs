//! `experiments/tables.py` on what docs/paper/results keeps of the experiments: the tables of
//! docs/paper/results.md can be made.

use crate::program::{names, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether there is a Python that knows the script's words; says so where there is none.
fn has_python() -> bool {
    let is_older = "import sys; sys.exit(sys.version_info < (3, 9))";
    let has = Command::new("python3").args(["-c", is_older]).status().is_ok_and(|status| status.success());
    if !has {
        skipped("there is no python3 of 3.9 or newer here: no table is made");
    }
    has
}

/// What the script prints.
fn table(arguments: &[&str]) -> String {
    let made = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("experiments/tables.py")
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{arguments:?}: {error}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.starts_with("| ") && said.lines().count() > 2, "{arguments:?}: {said}");
    said
}

#[test]
#[ignore = "deep: runs the script of the experiments"]
fn every_command_of_its_help_makes_a_table() {
    let script = fs::read_to_string(root().join("experiments/tables.py")).unwrap();
    let shown: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("    python3 experiments/tables.py ")).collect();
    assert!(shown.len() > 8, "{shown:?}");
    if has_python() {
        for command in shown {
            table(&command.split(' ').collect::<Vec<_>>());
        }
    }
}

#[test]
#[ignore = "deep: runs the script of the experiments"]
fn what_is_kept_of_each_experiment_has_ends() {
    if has_python() {
        for file in names(&root().join("docs/paper/results")) {
            let said = table(&["ends", &format!("docs/paper/results/{file}")]);
            assert!(said.contains("| before | "), "{file}: {said}");
        }
    }
}
