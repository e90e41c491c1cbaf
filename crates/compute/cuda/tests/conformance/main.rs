//! The backend keeps the contract: with bf16 on the emulated device, with both types on a GPU.

#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod bf16;
mod device;
mod f32;
#[path = "../on_gpu.rs"]
mod on_gpu;

use isentrope_conformance::{run, tests};
use std::process::ExitCode;

/// The properties that the fast tier runs on the emulator: whole models against transformers.
const FAST: &str = "::oracles::";

fn main() -> ExitCode {
    let bf16 = tests("bf16", || Box::new(bf16::Blocks::new()));
    let f32 = tests("f32", || Box::new(f32::Chains::new()));
    if on_gpu::asked_for() {
        return run(bf16.into_iter().chain(f32).collect());
    }
    // All properties take the emulator minutes, and a GPU seconds. With f32 the emulator has the
    // CPU's bits (equal_to_cpu.rs), and the CPU the properties (tools/conformance/tests/cpu.rs).
    let is_fast = |name: &str| name.contains(FAST);
    let bf16 = bf16.into_iter().map(|test| {
        let is_deep = !is_fast(test.name());
        test.with_ignored_flag(is_deep)
    });
    run(bf16.chain(f32.into_iter().filter(|test| is_fast(test.name()))).collect())
}
