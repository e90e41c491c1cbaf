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
    assert_made_by("recipes/countdown-base.toml", "assets/countdown-base", None, Some(1500));
}

#[cfg(not(debug_assertions))]
#[test]
#[ignore = "trains for a minute in release mode"]
fn the_base_of_programs_is_made_by_its_recipe() {
    assert_made_by("recipes/programs-base.toml", "assets/programs-base", None, Some(200));
}

#[cfg(not(debug_assertions))]
#[test]
#[ignore = "trains for a minute in release mode, on examples that Python makes"]
fn the_base_of_the_guessing_game_is_made_by_its_recipe() {
    let script = ["examples/guess/make.py", "data/guess-plays.jsonl"];
    let made = Command::new("python3").current_dir(root()).args(script).status();
    assert!(made.unwrap().success());
    assert_made_by("examples/guess/base.toml", "assets/guess-base", None, None);
}

/// It starts from a directory with everything but weights.
#[test]
#[ignore = "deep: trains 799 steps"]
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
        None,
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Trains by the recipe, without its evaluations, which change nothing, then for the last of
/// `steps` steps as its comment says, and compares the weights.
fn assert_made_by(recipe: &str, model: &str, start: Option<&Path>, steps: Option<u64>) {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("run");
    let train = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isentrope"));
        command.current_dir(root()).env("ISENTROPE_DEVICE", "cpu").args(["sft", recipe]);
        command.args(["--set", "eval.every=0", "--set", &format!("run.out={}", out.display())]);
        if let Some(start) = start {
            command.args(["--set", &format!("model.path={}", start.display())]);
        }
        assert!(command.args(more).status().unwrap().success());
    };
    train(&[]);
    if let Some(steps) = steps {
        let (steps, rate) = (format!("run.steps={steps}"), "0.00015000000000000001");
        let rate = format!("optimizer.learning_rate={rate}");
        let constant = "optimizer.schedule=constant";
        train(&["--resume", "--set", &steps, "--set", &rate, "--set", constant]);
    }
    let mut checkpoints: Vec<_> =
        fs::read_dir(out.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let made = fs::read(checkpoints.last().unwrap().join("model.safetensors")).unwrap();
    let kept = fs::read(root().join(model).join("model.safetensors")).unwrap();
    assert!(made == kept, "the recipe makes another model than {model} has");
}
