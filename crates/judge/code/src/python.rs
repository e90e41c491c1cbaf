//! The Python interpreter that runs programs: found once, its version known, and what a jail must
//! let it read.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// The names that are looked for in the search path.
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

/// Why no interpreter can be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PythonError {
    /// There is none.
    #[error(
        "no Python was found (python3 or python of the search path): install Python 3.8 or newer, or say where it is: \
         reward.verifier = {{ code = {{ python = \"...\" }} }}"
    )]
    Missing,
    /// It cannot be run, or does not answer.
    #[error(
        "the Python {program} cannot be used: {problem}; install Python 3.8 or newer, or say where it is: \
         reward.verifier = {{ code = {{ python = \"...\" }} }}"
    )]
    Unusable {
        /// The interpreter.
        program: PathBuf,
        /// The problem.
        problem: String,
    },
    /// It is too old.
    #[error(
        "the Python {program} is version {version}, and programs need 3.8 or newer: install that, or say where one is: \
         reward.verifier = {{ code = {{ python = \"...\" }} }}"
    )]
    TooOld {
        /// The interpreter.
        program: PathBuf,
        /// Its version.
        version: String,
    },
}

/// An interpreter's description of itself.
#[derive(Deserialize)]
struct Answer {
    program: PathBuf,
    version: (u32, u32, u32),
    readable: Vec<PathBuf>,
}

impl Python {
    /// Finds the interpreter: the one named, otherwise `python3` or `python` of the search path,
    /// the first that works.
    ///
    /// # Errors
    /// [`PythonError`] when there is none, or none that can be used.
    pub fn find(named: Option<&Path>) -> Result<Self, PythonError> {
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
        Err(problem.unwrap_or(PythonError::Missing))
    }

    /// Asks an interpreter to describe itself.
    fn ask(program: &Path) -> Result<Self, PythonError> {
        let unusable =
            |problem: String| PythonError::Unusable { program: program.to_owned(), problem };
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
            return Err(PythonError::TooOld { program: answer.program, version });
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

    /// The files and folders that a jail must show it.
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that is no Python, but says this.
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
        assert!(
            python.readable().iter().any(|path| path.join("json/decoder.py").is_file()),
            "{:?}",
            python.readable()
        );
        assert!(python.readable().iter().all(|path| path.is_absolute() && path.exists()));
        // It is found again by its own name.
        assert_eq!(Python::find(Some(python.program())), Ok(python));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let says = |script: &str| {
            Python::find(Some(&pretender(directory.path(), script))).unwrap_err().to_string()
        };
        let nothing = Python::find(Some(Path::new("/no/such/python"))).unwrap_err().to_string();
        assert!(
            nothing.starts_with("the Python /no/such/python cannot be used: No such file"),
            "{nothing}"
        );
        let old =
            says("echo '{\"program\": \"/bin/old\", \"version\": [3, 7, 16], \"readable\": []}'");
        assert!(
            old.starts_with(
                "the Python /bin/old is version 3.7.16, and programs need 3.8 or newer"
            ),
            "{old}"
        );
        assert!(
            says("echo pyenv: no version is set >&2; exit 127")
                .contains("cannot be used: pyenv: no version is set")
        );
        assert!(says("echo hello").contains("it says what it should not"));
    }
}
