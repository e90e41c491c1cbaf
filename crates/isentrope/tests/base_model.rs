//! The shipped base models are what their recipes make, to the last bit. Some minutes in release mode, so not part of the
//! default run:
//!
//! ```sh
//! cargo test --release -p isentrope --test base_model -- --ignored
//! ```
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::path::Path;
use std::process::Command;

/// Trains by the recipe of a name, and compares with the model in `assets/` of that name.
fn reproduced(name: &str) {
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
    let shipped = std::fs::read(root.join("assets").join(name).join("model.safetensors")).unwrap();
    assert!(made == shipped, "the recipe makes another model than assets/{name} has");
}

#[test]
#[ignore = "trains for minutes"]
fn the_recipe_reproduces_the_base_model_of_countdown() {
    reproduced("countdown-base");
}

#[test]
#[ignore = "trains for minutes"]
fn the_recipe_reproduces_the_base_model_of_programs() {
    reproduced("programs-base");
}
