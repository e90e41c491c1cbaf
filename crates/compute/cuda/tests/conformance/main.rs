//! The backend keeps the contract with both types, on the emulated device or on a GPU.

#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod bf16;
mod device;
mod f32;
#[path = "../on_gpu.rs"]
mod on_gpu;

use isentrope_conformance::{run, tests};
use std::process::ExitCode;

/// The properties that the fast tier runs on the emulator: whole models against transformers.
const FAST: [&str; 1] = ["oracles::"];

fn main() -> ExitCode {
    let bf16 = tests("bf16", || Box::new(bf16::Blocks::new()));
    let all = bf16.into_iter().chain(tests("f32", || Box::new(f32::Chains::new())));
    // The emulator takes minutes for all properties; a GPU takes seconds.
    let is_deep = |name: &str| !on_gpu::asked_for() && !FAST.iter().any(|fast| name.contains(fast));
    run(all
        .map(|test| {
            let deep = is_deep(test.name());
            test.with_ignored_flag(deep)
        })
        .collect())
}
