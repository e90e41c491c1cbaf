//! A function of the user's own, written for verl or for TRL, as a verifier: the workers are Python
//! interpreters that run `shim.py`, which calls the function as those trainers call it.

mod jail;

use std::collections::BTreeMap;
use std::path::Path;

use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Spec;
use super::command::{CommandVerifier, Launch, QuestionBatch, WorkerSettings, Workers};
use crate::{Verifier, VerifierError};

/// Python code that stands before the programs that call functions and classes of the user: where
/// they read and write, and how they load a file.
pub const PYTHON_COMMON: &str = include_str!("common.py");

/// The workers' program.
const SHIM: &str = concat!(include_str!("common.py"), include_str!("shim.py"));

/// A Python function that judges responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonSettings {
    /// The file and the function in it, such as "reward.py:compute_score"; or a module that can be
    /// imported, such as "trl.rewards:think_format_reward". Paths are relative to the current
    /// directory.
    pub python: String,
    /// Further keyword arguments of the function, as verl's `reward_kwargs`: texts, numbers, true
    /// or false, or arrays of texts.
    #[serde(default)]
    pub arguments: BTreeMap<String, Argument>,
    /// The Python that runs it, 3.8 or later: the name of a program, or its path, such as
    /// ".venv/bin/python".
    #[serde(default = "default_interpreter")]
    pub interpreter: String,
    /// Runs the function in a sandbox, which needs Linux: it sees the directory of its file and
    /// Python's own files, and has no network. Each response has a process of its own there. Where
    /// no sandbox can be had, nothing starts.
    #[serde(default)]
    pub sandbox: bool,
    /// The processes.
    #[serde(flatten)]
    pub processes: WorkerSettings,
}

/// A keyword argument, or a variable of a chat template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Argument {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
}

impl From<&Argument> for Value {
    fn from(argument: &Argument) -> Self {
        match argument {
            Argument::Boolean(x) => (*x).into(),
            Argument::Integer(x) => (*x).into(),
            Argument::Number(x) => (*x).into(),
            Argument::Text(text) => text.as_str().into(),
            Argument::Texts(texts) => texts.as_slice().into(),
        }
    }
}

fn default_interpreter() -> String {
    "python3".into()
}

impl Spec for PythonSettings {
    fn build(&self, key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        let (place, function) = place_and_name(&self.python).unwrap_or((&self.python, ""));
        let arguments =
            serde_json::to_string(&self.arguments).expect("texts and numbers have a JSON form");
        let batch = match self.processes.batch {
            QuestionBatch::Response => "response",
            QuestionBatch::Group => "group",
        };
        let (key, value) = (format!("{key}.python"), format!("{:?}", self.python));
        let arguments = [function, &arguments, batch];
        match launch_shim(&self.interpreter, self.sandbox, SHIM, place, &arguments) {
            Ok(launch) => {
                let settings = self.processes.clone();
                let workers = Workers { key, value, launch, settings };
                Ok(Box::new(CommandVerifier::start(workers)?))
            }
            Err(problem) => Err(VerifierError { key, value, problem, stderr: None }),
        }
    }

    fn check(&self, key: &str) -> Result<(), Error> {
        let wrong = |name: &str, value: &str, expected: &str| {
            let (key, value) = (format!("{key}.{name}"), format!("{value:?}"));
            Err(Error { key, value, expected: expected.into() })
        };
        if place_and_name(&self.python).is_none() {
            let expected =
                "it must be a file and a function in it, such as \"reward.py:compute_score\"";
            return wrong("python", &self.python, expected);
        }
        if self.interpreter.is_empty() {
            return wrong("interpreter", "", "it must be a Python, such as \"python3\"");
        }
        Ok(())
    }

    fn workers(&self) -> Option<usize> {
        Some(self.processes.workers)
    }

    fn judges_groups(&self) -> bool {
        self.processes.batch == QuestionBatch::Group
    }

    fn files(&self) -> Vec<String> {
        let file = place_and_name(&self.python).filter(|(place, _)| is_file(place));
        file.map(|(file, _)| file.to_owned()).into_iter().collect()
    }

    fn takes_columns(&self) -> bool {
        true
    }
}

/// The place and the name of a function or class, as "reward.py:compute_score" has them. The place
/// is a file or a module.
pub fn place_and_name(text: &str) -> Option<(&str, &str)> {
    let is_name = |text: &str| {
        text.chars().all(|c| c.is_alphanumeric() || c == '_')
            && text.starts_with(|c: char| !c.is_ascii_digit())
    };
    let (place, name) = text.rsplit_once(':')?;
    let is_place = is_file(place) || place.split('.').all(is_name);
    (is_place && is_name(name)).then_some((place, name))
}

/// The launch of a Python that runs a shim in front of a function or class of the user, which is in
/// `place`. The shim gets the place and these arguments, and in a sandbox the word `apart` behind
/// them.
///
/// # Errors
/// When there is no such file, no sandbox or no such interpreter, as a sentence without a full
/// stop.
pub fn launch_shim(
    interpreter: &str,
    sandbox: bool,
    shim: &str,
    place: &str,
    arguments: &[&str],
) -> Result<Launch, String> {
    let file = is_file(place).then(|| Path::new(place));
    if file.is_some_and(|file| !file.is_file()) {
        let here = std::env::current_dir().unwrap_or_default();
        return Err(format!("there is no file {place} in {}", here.display()));
    }
    if !sandbox {
        let command = [&[interpreter, "-c", shim, place][..], arguments].concat();
        return Ok(Launch::Shim(command.into_iter().map(str::to_owned).collect()));
    }
    // In a jail the current directory is another one.
    let file = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
    let place = file.as_deref().map_or(place.into(), Path::to_string_lossy);
    let arguments = [&["-c", shim, &*place][..], arguments, &["apart"]].concat();
    jail::launch(interpreter, &arguments, file.as_deref())
}

fn is_file(place: &str) -> bool {
    place.len() > ".py".len() && place.ends_with(".py")
}
