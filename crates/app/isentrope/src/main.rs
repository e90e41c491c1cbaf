//! The program; `lib.rs` has it.

use std::process::ExitCode;

fn main() -> ExitCode {
    isentrope::main(Box::new(isentrope::gpus::NvidiaGpus))
}
