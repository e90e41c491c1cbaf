//! The shipped base models are what their recipes make, to the last bit. Some minutes in release mode, so not part of the
//! default run:
//!
//! ```sh
//! cargo test --release -p isentrope --test base_model -- --ignored
//! ```
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "trains for minutes"]
fn the_base_of_countdown_is_made_by_its_recipe() {
    assert_made_by_its_recipe("countdown-base");
}

#[test]
#[ignore = "trains for a minute"]
fn the_base_of_programs_is_made_by_its_recipe() {
    assert_made_by_its_recipe("programs-base");
}

/// A recipe and the model in assets/ that it makes have the same name. Evaluations change nothing, and are left out.
fn assert_made_by_its_recipe(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("run");
    let status = Command::new(env!("CARGO_BIN_EXE_isentrope"))
        .current_dir(&root)
        .args(["sft", &format!("recipes/{name}.toml"), "--set", "eval.every=0", "--set"])
        .arg(format!("run.out={}", out.display()))
        .status()
        .unwrap();
    assert!(status.success());
    let mut checkpoints: Vec<_> =
        std::fs::read_dir(out.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let made = std::fs::read(checkpoints.last().unwrap().join("model.safetensors")).unwrap();
    let shipped = std::fs::read(root.join(format!("assets/{name}/model.safetensors"))).unwrap();
    assert!(made == shipped, "the recipe makes another model than assets/{name} has");
}
