//! The recipe's table `[environment]`.

use isentrope_reward::{VerifierError, place_and_name};
use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Environment;
use crate::processes::Processes;
use crate::tools::Tools;

/// Responses of several turns: an environment answers each turn of the model until the episode
/// ends. docs/guides/turns.md has an example of each kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EnvironmentSettings {
    /// The model calls tools. The episode ends at a turn without a call, whose text the recipe's
    /// verifier judges.
    Tools(ToolsSettings),
    /// A Python class of your own.
    Python(PythonSettings),
    /// A program of your own that speaks JSON lines.
    Command(CommandSettings),
}

/// Limits of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EpisodeLimits {
    /// Most turns of the model. An episode that needs more is cut off there, and counts as
    /// truncated.
    #[schemars(range(min = 1, max = 1024))]
    pub max_turns: usize,
    /// Most tokens of the environment's messages between two turns. The rest of the text is cut,
    /// and a note in the text says so.
    #[schemars(range(min = 16, max = 1048576))]
    pub max_given_tokens: usize,
    /// Longest time of a step of the environment, or of a call of a tool, in seconds.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub timeout_s: f64,
}

impl Default for EpisodeLimits {
    fn default() -> Self {
        Self { max_turns: 8, max_given_tokens: 512, timeout_s: 10.0 }
    }
}

/// A tool that the model may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolName {
    /// Exact arithmetic: `+ - * / // % **` and parentheses, on fractions of whole numbers.
    Calculator,
    /// A Python interpreter in a sandbox, whose names live as long as the episode.
    Python,
}

/// Tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsSettings {
    /// The tools, at least one.
    pub tools: Vec<ToolName>,
    /// The Python of the tool `python`, 3.8 or newer. Unset: `python3` or `python` of the search
    /// path, the first that works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<std::path::PathBuf>,
    /// Memory of a call of `python`, in MiB.
    #[serde(default = "default_memory")]
    #[schemars(range(min = 32, max = 1048576))]
    pub memory_mib: u64,
    /// Limits of an episode.
    #[serde(flatten)]
    pub limits: EpisodeLimits,
}

fn default_memory() -> u64 {
    512
}

/// The processes that an environment of your own runs in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessSettings {
    /// Whether `reset` answers with messages, which open the episode behind the data's prompt.
    pub opens: bool,
    /// Processes. Each has many episodes, and answers one of them at a time.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: usize,
    /// Time that a fresh process may take beyond `timeout_s` for what it loads, in seconds.
    #[schemars(range(min = 0.0, max = 86400.0))]
    pub startup_s: f64,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { opens: false, workers: 2, startup_s: 20.0 }
    }
}

/// A Python class of your own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonSettings {
    /// The file and the class in it, such as "guess.py:Environment". Paths are relative to the
    /// current directory.
    pub python: String,
    /// The Python that runs it, 3.8 or later: the name of a program, or its path, such as
    /// ".venv/bin/python".
    #[serde(default = "default_interpreter")]
    pub interpreter: String,
    /// Runs the class in a sandbox, which needs Linux: it sees the directory of its file and
    /// Python's own files, and has no network. Where no sandbox can be had, nothing starts.
    #[serde(default)]
    pub sandbox: bool,
    /// The processes.
    #[serde(flatten)]
    pub processes: ProcessSettings,
    /// Limits of an episode.
    #[serde(flatten)]
    pub limits: EpisodeLimits,
}

fn default_interpreter() -> String {
    "python3".into()
}

/// A program of your own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments, such as `["node", "guess.js"]`. Paths are relative to the
    /// current directory.
    pub command: Vec<String>,
    /// The processes.
    #[serde(flatten)]
    pub processes: ProcessSettings,
    /// Limits of an episode.
    #[serde(flatten)]
    pub limits: EpisodeLimits,
}

impl EnvironmentSettings {
    /// Limits of an episode.
    pub fn limits(&self) -> &EpisodeLimits {
        match self {
            Self::Tools(settings) => &settings.limits,
            Self::Python(settings) => &settings.limits,
            Self::Command(settings) => &settings.limits,
        }
    }

    /// These settings without those on which no answer depends: the number of processes, and their
    /// time, because an episode that runs out of it has failed. A tool's limit is an answer.
    #[must_use]
    pub fn of_answers(&self) -> Self {
        let mut settings = self.clone();
        let of_process = match &mut settings {
            Self::Tools(_) => None,
            Self::Python(settings) => Some((&mut settings.processes, &mut settings.limits)),
            Self::Command(settings) => Some((&mut settings.processes, &mut settings.limits)),
        };
        if let Some((processes, limits)) = of_process {
            *processes = ProcessSettings { opens: processes.opens, ..ProcessSettings::default() };
            limits.timeout_s = EpisodeLimits::default().timeout_s;
        }
        settings
    }

    /// Names in the settings that may be files on which answers depend: the arguments of a command,
    /// the file of a class.
    pub fn files(&self) -> Vec<String> {
        match self {
            Self::Tools(_) => Vec::new(),
            Self::Python(settings) => {
                settings.parts().map(|(file, _)| file.to_owned()).into_iter().collect()
            }
            Self::Command(settings) => settings.command.clone(),
        }
    }

    /// Makes the environment, and its processes.
    ///
    /// # Errors
    /// When it cannot be used, with the reason.
    pub fn build(&self) -> Result<Box<dyn Environment>, VerifierError> {
        Ok(match self {
            Self::Tools(settings) => {
                Box::new(Tools::start(settings).map_err(|problem| VerifierError {
                    key: "environment.tools".into(),
                    value: format!("{:?}", settings.names()),
                    problem,
                    stderr: None,
                })?)
            }
            Self::Python(settings) => Box::new(Processes::of_class(settings)?),
            Self::Command(settings) => Box::new(Processes::of_command(settings)?),
        })
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error`] naming the first thing that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        isentrope_settings::check("environment", self)?;
        let wrong = |key: &str, value: String, expected: &str| {
            Err(Error { key: format!("environment.{key}"), value, expected: expected.into() })
        };
        match self {
            Self::Tools(settings) => {
                let tools = &settings.tools;
                let is_twice = |(i, tool)| tools[..i].contains(tool);
                if tools.is_empty() || tools.iter().enumerate().any(is_twice) {
                    let expected = "it must name tools, each once, such as [\"calculator\"]";
                    return wrong("tools", format!("{:?}", settings.names()), expected);
                }
            }
            Self::Python(settings) => {
                if settings.parts().is_none() {
                    let expected =
                        "it must be a file and a class in it, such as \"guess.py:Environment\"";
                    return wrong("python", format!("{:?}", settings.python), expected);
                }
                if settings.interpreter.is_empty() {
                    let expected = "it must be a Python, such as \"python3\"";
                    return wrong("interpreter", "\"\"".into(), expected);
                }
            }
            Self::Command(CommandSettings { command, .. }) => {
                if command.first().is_none_or(String::is_empty) {
                    let expected =
                        "it must be a program and its arguments, such as [\"node\", \"guess.js\"]";
                    return wrong("command", format!("{command:?}"), expected);
                }
            }
        }
        Ok(())
    }
}

impl ToolsSettings {
    /// The names of the tools.
    fn names(&self) -> Vec<&'static str> {
        self.tools.iter().map(|tool| tool.name()).collect()
    }
}

impl PythonSettings {
    /// The file, and the name of the class in it.
    pub(crate) fn parts(&self) -> Option<(&str, &str)> {
        place_and_name(&self.python).filter(|(place, _)| place.ends_with(".py"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn settings_are_what_recipes_write() {
        isentrope_settings::Shape::of::<EnvironmentSettings>(); // or it panics
        for value in [
            json!({
                "kind": "tools", "tools": ["calculator", "python"], "python": "p",
                "memory_mib": 64, "max_turns": 3, "max_given_tokens": 100, "timeout_s": 1.0
            }),
            json!({
                "kind": "python", "python": "a/b.py:C", "interpreter": "p", "sandbox": true,
                "opens": true, "workers": 3, "startup_s": 0.0, "max_turns": 3,
                "max_given_tokens": 100, "timeout_s": 1.0
            }),
            json!({
                "kind": "command", "command": ["a", "b"], "opens": false, "workers": 3,
                "startup_s": 0.0, "max_turns": 3, "max_given_tokens": 100, "timeout_s": 1.0
            }),
        ] {
            let settings: EnvironmentSettings = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(settings.check(), Ok(()));
            assert_eq!(serde_json::to_value(settings).unwrap(), value);
        }
    }

    #[test]
    fn keys_of_other_names_or_kinds_are_refused() {
        for (key, value) in [
            ("max_turn", json!({"kind": "tools", "tools": ["python"], "max_turn": 1})),
            ("workers", json!({"kind": "tools", "tools": ["python"], "workers": 1})),
            ("sandbox", json!({"kind": "command", "command": ["a"], "sandbox": true})),
            ("startup", json!({"kind": "python", "python": "a.py:B", "startup": 1})),
        ] {
            let error = serde_json::from_value::<EnvironmentSettings>(value).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let key = |value: Value| {
            let settings: EnvironmentSettings = serde_json::from_value(value).unwrap();
            settings.check().unwrap_err().key
        };
        for (name, value) in [
            ("tools", json!({"kind": "tools", "tools": []})),
            ("tools", json!({"kind": "tools", "tools": ["python", "python"]})),
            ("memory_mib", json!({"kind": "tools", "tools": ["python"], "memory_mib": 1})),
            ("max_turns", json!({"kind": "tools", "tools": ["python"], "max_turns": 0})),
            ("python", json!({"kind": "python", "python": "a.py"})),
            ("python", json!({"kind": "python", "python": "a.py:b c"})),
            ("python", json!({"kind": "python", "python": "a:B"})),
            ("interpreter", json!({"kind": "python", "python": "a.py:B", "interpreter": ""})),
            ("workers", json!({"kind": "python", "python": "a.py:B", "workers": 0})),
            ("command", json!({"kind": "command", "command": []})),
            ("command", json!({"kind": "command", "command": [""]})),
            ("timeout_s", json!({"kind": "command", "command": ["a"], "timeout_s": 0})),
        ] {
            assert_eq!(key(value.clone()), format!("environment.{name}"), "{value}");
        }
    }
}
