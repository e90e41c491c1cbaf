//! Runs the shim in a jail that shows the directory of the function's file and Python's own files.

use std::env::join_paths;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use isentrope_sandbox::{Limits, Program, Sandbox};
use serde::Deserialize;

use super::super::command::{Launch, interpreter_failed};

/// Code by which an interpreter outside of the jail prints its paths.
const WHERE: &str = "
import json, os, sys
modules = [os.path.abspath(place) for place in sys.path if place and os.path.exists(place)]
prefixes = [sys.prefix, sys.base_prefix]
print(json.dumps({'program': sys.executable, 'prefixes': prefixes, 'modules': modules}))
";

/// The files of an interpreter.
#[derive(Deserialize)]
struct Interpreter {
    /// Its own file.
    program: PathBuf,
    /// Its `sys.prefix` and `sys.base_prefix`.
    prefixes: [PathBuf; 2],
    /// The folders in which the interpreter finds modules.
    modules: Vec<PathBuf>,
}

/// Prefixes that hold more than an interpreter. A jail shows their libraries anyway.
const SHARED: [&str; 3] = ["/", "/usr", "/usr/local"];

/// A function's limits: enough for NumPy or PyTorch, which reserve far more addresses than memory.
const LIMITS: Limits = Limits {
    memory_bytes: 4 << 30,
    address_space_bytes: 64 << 30,
    processes: 256,
    open_files: 1024,
    temporary_bytes: 256 << 20,
    temporary_files: 16384,
    file_bytes: 256 << 20,
    cpu_s: None,
};

/// The launch of an interpreter in a jail with these arguments, for a function or class in `file`,
/// an absolute path, or in a module.
///
/// # Errors
/// When there is no sandbox or no such interpreter, as a sentence without a full stop.
pub fn launch(
    interpreter: &str,
    arguments: &[&str],
    file: Option<&Path>,
) -> Result<Launch, String> {
    let sandbox = Sandbox::find().map_err(|e| e.to_string())?;
    let Interpreter { program, prefixes, modules } = ask(interpreter)?;
    let own = prefixes
        .into_iter()
        .filter(|prefix| SHARED.iter().all(|shared| prefix != Path::new(shared)));
    let beside = file.and_then(Path::parent).map(Path::to_owned);
    let readable = own.chain(modules.iter().cloned()).chain(beside).collect();
    // A jail has no environment and no home by which the interpreter would find these folders.
    let modules =
        join_paths(&modules).map_err(|e| format!("the interpreter {interpreter:?} has {e}"))?;
    let environment = vec![("PYTHONPATH".into(), modules), ("PYTHONUNBUFFERED".into(), "1".into())];
    let arguments = arguments.iter().map(OsString::from).collect();
    let program = Program { program, arguments, environment, readable, limits: LIMITS };
    Ok(Launch::JailedShim(sandbox, Box::new(program)))
}

fn ask(interpreter: &str) -> Result<Interpreter, String> {
    let mut command = Command::new(interpreter);
    command.args(["-c", WHERE]).stdin(Stdio::null());
    let output = command.output().map_err(|e| interpreter_failed(interpreter, &e))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("it wrote nothing to standard error");
        format!(
            "{interpreter:?} is no Python 3.8 or later: asked where it is, it ended ({}): {said}",
            output.status
        )
    })
}
