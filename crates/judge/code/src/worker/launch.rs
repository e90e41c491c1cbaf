//! The interpreter of a jail, and the Python modules that it is given.

use isentrope_sandbox::{Limits, Program};
use serde_json::{Value, json};

use super::WorkerLimits;
use crate::Python;

/// The interpreter's first code.
const LOADER: &str = include_str!("../../python/loader.py");

/// The Python modules of both jails. Each stands after the modules that it imports.
const MODULES: [(&str, &str); 6] = [
    ("frames", include_str!("../../python/frames.py")),
    ("values", include_str!("../../python/values.py")),
    ("run_process", include_str!("../../python/run_process.py")),
    ("prelude", include_str!("../../python/prelude.py")),
    ("program", include_str!("../../python/program.py")),
    ("server", include_str!("../../python/server.py")),
];

/// Python modules of the jail for tests alone.
const TEST_MODULES: [(&str, &str); 3] = [
    ("pytest_names", include_str!("../../python/pytest_names.py")),
    ("assertions", include_str!("../../python/assertions.py")),
    ("checker", include_str!("../../python/checker.py")),
];

/// The purpose of a jail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Runs programs.
    Programs,
    /// Runs assertion code.
    Tests,
}

/// The interpreter, waiting for its first frame.
pub fn program(python: &Python, limits: &WorkerLimits) -> Program {
    let variables = [
        // Programs must hash alike in every run.
        ("PYTHONHASHSEED", "0"),
        ("PYTHONUTF8", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "1"),
    ];
    Program {
        program: python.program().to_owned(),
        arguments: ["-s", "-B", "-c", LOADER].map(Into::into).into(),
        environment: variables.map(|(name, value)| (name.into(), value.into())).into(),
        readable: python.readable().to_vec(),
        limits: Limits {
            memory_bytes: limits.memory_bytes,
            address_space_bytes: limits.memory_bytes.saturating_add(1 << 30),
            processes: limits.processes,
            temporary_bytes: limits.temporary_bytes,
            file_bytes: limits.temporary_bytes,
            ..Limits::default()
        },
    }
}

/// The first frame: the role of the interpreter and its settings.
pub fn first_frame(role: Role) -> Value {
    let (role, modules) = match role {
        Role::Programs => ("programs", MODULES.to_vec()),
        Role::Tests => ("tests", [&MODULES[..], &TEST_MODULES[..]].concat()),
    };
    json!({"modules": modules, "role": role})
}
