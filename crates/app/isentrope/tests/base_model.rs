//! The repository's base models are what their recipes make, to the last bit. The models in assets/
//! need release mode and some minutes:
//!
//! ```sh
//! cargo test --release -p isentrope --test base_model -- --ignored
//! ```
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(not(debug_assertions))]
#[test]
#[ignore = "trains for minutes in release mode"]
fn the_base_of_countdown_is_made_by_its_recipe() {
    assert_made_by("recipes/countdown-base.toml", "assets/countdown-base", None);
}

#[cfg(not(debug_assertions))]
#[test]
#[ignore = "trains for a minute in release mode"]
fn the_base_of_programs_is_made_by_its_recipe() {
    assert_made_by("recipes/programs-base.toml", "assets/programs-base", None);
}

/// It starts from a directory with everything but weights.
#[test]
#[ignore = "deep: trains 800 steps"]
fn the_fixture_of_the_tests_is_made_by_its_recipe() {
    let temporary = tempfile::tempdir().unwrap();
    let model = "crates/app/isentrope/tests/fixtures/base-model";
    for entry in fs::read_dir(root().join(model)).unwrap().map(Result::unwrap) {
        if entry.file_name() != "model.safetensors" {
            fs::copy(entry.path(), temporary.path().join(entry.file_name())).unwrap();
        }
    }
    assert_made_by(
        "crates/app/isentrope/tests/fixtures/base-model.toml",
        model,
        Some(temporary.path()),
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Trains by the recipe, without its evaluations, which change nothing, and compares the weights.
fn assert_made_by(recipe: &str, model: &str, start: Option<&Path>) {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isentrope"));
    command.current_dir(root()).env("ISENTROPE_DEVICE", "cpu").args([
        "sft",
        recipe,
        "--set",
        "eval.every=0",
    ]);
    command.args(["--set", &format!("run.out={}", out.display())]);
    if let Some(start) = start {
        command.args(["--set", &format!("model.path={}", start.display())]);
    }
    assert!(command.status().unwrap().success());
    let mut checkpoints: Vec<_> =
        fs::read_dir(out.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let made = fs::read(checkpoints.last().unwrap().join("model.safetensors")).unwrap();
    let kept = fs::read(root().join(model).join("model.safetensors")).unwrap();
    assert!(made == kept, "the recipe makes another model than {model} has");
}
