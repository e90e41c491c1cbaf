//! The Python interpreter that runs programs: its path, its version, and the files that a jail must
//! show it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::JudgeError;

/// Names of interpreters that are looked for in the search path.
const NAMES: [&str; 2] = ["python3", "python"];

/// The oldest version that works.
const OLDEST: (u32, u32) = (3, 8);

/// Code by which an interpreter describes itself.
const QUESTION: &str = include_str!("../python/about.py");

/// A Python interpreter, 3.8 or newer.
#[derive(Clone, Debug, PartialEq)]
pub struct Python {
    program: PathBuf,
    version: String,
    readable: Vec<PathBuf>,
}

/// The remedy at the end of an error about the interpreter.
const REMEDY: &str = "install Python 3.8 or newer, or say where it is: the key `python`, as in \
                      reward.verifier = { code = { python = \"...\" } }";

/// An interpreter's description of itself.
#[derive(Deserialize)]
struct Answer {
    program: PathBuf,
    version: (u32, u32, u32),
    readable: Vec<PathBuf>,
}

impl Python {
    /// Finds the interpreter: the named one, or the first of `python3` and `python` in the search
    /// path that works.
    pub fn find(named: Option<&Path>) -> Result<Self, JudgeError> {
        if let Some(named) = named {
            return Self::ask(named);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let candidates = NAMES
            .iter()
            .flat_map(|name| env::split_paths(&path).map(move |place| place.join(name)));
        let mut problem = None;
        for candidate in candidates.filter(|candidate| candidate.is_file()) {
            match Self::ask(&candidate) {
                Ok(python) => return Ok(python),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem.unwrap_or_else(|| {
            JudgeError(format!(
                "no Python was found (python3 or python of the search path): {REMEDY}"
            ))
        }))
    }

    /// Asks an interpreter to describe itself.
    fn ask(program: &Path) -> Result<Self, JudgeError> {
        let unusable = |problem: String| {
            let program = program.display();
            JudgeError(format!("the Python {program} cannot be used: {problem}; {REMEDY}"))
        };
        let output = Command::new(program)
            .args(["-s", "-B", "-c", QUESTION])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| unusable(error.to_string()))?;
        let says = String::from_utf8_lossy(&output.stderr);
        let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|error| {
            let last = says.lines().last().filter(|_| !output.status.success());
            unusable(
                last.map_or_else(|| format!("it says what it should not ({error})"), str::to_owned),
            )
        })?;
        let (major, minor, micro) = answer.version;
        let version = format!("{major}.{minor}.{micro}");
        if (major, minor) < OLDEST {
            let program = answer.program.display();
            return Err(JudgeError(format!(
                "the Python {program} is version {version}, and programs need 3.8 or newer: \
                 {REMEDY}"
            )));
        }
        Ok(Self { program: answer.program, version, readable: answer.readable })
    }

    /// The interpreter's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its version, such as `3.11.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The files and folders that a jail must show the interpreter.
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that is no Python interpreter, but prints this.
    fn pretender(directory: &Path, script: &str) -> PathBuf {
        let program = directory.join("python3");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn an_interpreter_says_what_it_needs() {
        let python = Python::find(None).unwrap();
        let version: Vec<u32> =
            python.version().split('.').map(|part| part.parse().unwrap()).collect();
        assert!(version.len() == 3 && (version[0], version[1]) >= OLDEST, "{}", python.version());
        assert!(python.program().is_absolute());
        let mut readable = python.readable().iter();
        assert!(readable.any(|path| path.join("json/decoder.py").is_file()), "{python:?}");
        assert!(python.readable().iter().all(|path| path.is_absolute() && path.exists()));
        // The path that was found finds the same interpreter.
        assert_eq!(Python::find(Some(python.program())), Ok(python));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let nothing = Python::find(Some(Path::new("/no/such/python"))).unwrap_err().to_string();
        assert!(nothing.starts_with("the Python /no/such/python cannot be used: No such file"));
        for (script, part) in [
            (
                "echo '{\"program\": \"/bin/old\", \"version\": [3, 7, 16], \"readable\": []}'",
                "the Python /bin/old is version 3.7.16, and programs need 3.8 or newer",
            ),
            (
                "echo pyenv: no version is set >&2; exit 127",
                "cannot be used: pyenv: no version is set",
            ),
            ("echo hello", "it says what it should not"),
        ] {
            let program = pretender(directory.path(), script);
            let said = Python::find(Some(&program)).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
