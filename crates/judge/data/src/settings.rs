//! The recipe's table `[data]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isentrope_hub as hub;
use isentrope_model::chat_template::Date;
/// Value of a variable of the chat template.
pub use isentrope_reward::Argument as TemplateVariable;
use isentrope_reward::VerifierName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::location::{DataLocation, Split};
use crate::tasks::countdown::{Countdown, CountdownSettings};
use crate::tasks::programs::{Programs, ProgramsSettings};
use crate::tasks::{Task, TaskKind, tasks};
use crate::{Error, Result};

/// Makes [`DataSettings`] and [`TaskName`] from the list of built-in tasks.
macro_rules! make_settings {
    ($($task:ident: $Task:ident, $Settings:ident, $meaning:literal, $table:literal;)*) => {
        /// Where problems and examples come from, and how prompts are made of them.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct DataSettings {
            /// A built-in task, instead of `files`.
            pub task: Option<TaskName>,
            /// Data files, read one after the other: .parquet; .jsonl, .json with an array of rows,
            /// .csv or .tsv, also compressed (.gz, .zst). "data/*.jsonl" is all files that match,
            /// in order; `org/name[@revision][:CONFIG][:SPLIT]` a data set on the hub, such as
            /// "openai/gsm8k:main". Write "hf:" before it if a path has the same name;
            /// "hf://datasets/org/name/FILES" is all its files whose names begin with FILES.
            pub files: Vec<PathBuf>,
            /// Which columns of the files to read, where they have other than the usual names. A
            /// dot reaches into a column: "extra_info.question".
            pub columns: Columns,
            /// Text put before every prompt; in a chat, before the user's last message (SFT: the
            /// last that has an answer).
            pub prompt_prefix: String,
            /// Text put after every prompt; in a chat, after the user's last message (SFT: the
            /// last that has an answer).
            pub prompt_suffix: String,
            /// Whether prompts go through the model's chat template.
            pub template: Template,
            /// Variables that the chat template knows beside the messages, such as {
            /// enable_thinking = false } for Qwen3: texts, numbers, true or false, or arrays of
            /// texts.
            pub template_variables: BTreeMap<String, TemplateVariable>,
            /// The date for chat templates that ask for it, such as "2026-11-26". Unset: the day on
            /// which the run begins, which the run's own recipe then states.
            #[schemars(with = "Option<String>")]
            pub date: Option<Date>,
            /// System message of prompts, and of chats to imitate, that go through the chat
            /// template and have none of their own.
            pub system: Option<String>,
            /// Keeps only the first of the rows that ask the same (for SFT: that ask and answer the
            /// same).
            pub deduplicate: bool,
            /// Leaves out problems of `files` whose prompt has more tokens. Prompts that do not fit
            /// the model's context are left out in any case. A prompt of `task` that has more is
            /// an error. Without effect for SFT, see `sft.max_tokens`.
            #[schemars(range(min = 1))]
            pub max_prompt_tokens: Option<usize>,
            /// Takes the rows in a new random order every epoch; otherwise in the order of the
            /// files.
            pub shuffle: bool,
            /// Uses only the first N usable rows that are not too long. Unset: all.
            #[schemars(range(min = 1))]
            pub limit: Option<usize>,
            $(
                #[doc = $table]
                pub $task: $Settings,
            )*
        }

        impl Default for DataSettings {
            fn default() -> Self {
                Self {
                    task: None,
                    files: Vec::new(),
                    columns: Columns::default(),
                    prompt_prefix: String::new(),
                    prompt_suffix: String::new(),
                    template: Template::Auto,
                    template_variables: BTreeMap::new(),
                    date: None,
                    system: None,
                    deduplicate: true,
                    max_prompt_tokens: None,
                    shuffle: true,
                    limit: None,
                    $($task: $Settings::default(),)*
                }
            }
        }

        impl DataSettings {
            /// The table of each task that differs from its default.
            pub(crate) fn changed_tables(&self) -> impl Iterator<Item = TaskName> + use<> {
                let default = Self::default();
                let tables = [$((TaskName::$Task, self.$task != default.$task)),*];
                tables.into_iter().filter(|(_, is_changed)| *is_changed).map(|(task, _)| task)
            }
        }

        /// A built-in task.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum TaskName {
            $(#[doc = $meaning] $Task,)*
        }

        impl TaskName {
            /// All built-in tasks.
            pub(crate) const ALL: &[Self] = &[$(Self::$Task),*];

            /// The name in recipes and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Task => stringify!($task),)*
                }
            }

            /// Judge of responses to its problems.
            pub(crate) fn verifier(self) -> VerifierName {
                match self {
                    $(Self::$Task => $Task::VERIFIER,)*
                }
            }

            /// The size of a problem ([`TaskKind::size`]).
            pub(crate) fn size(self, ground_truth: &Value) -> Option<(usize, &'static str)> {
                match self {
                    $(Self::$Task => $Task::size(ground_truth),)*
                }
            }

            fn open(self, settings: &DataSettings) -> Result<Box<dyn Task>> {
                Ok(match self {
                    $(Self::$Task => Box::new(<$Task as TaskKind>::new(&settings.$task)?),)*
                })
            }
        }
    };
}

tasks!(make_settings);

/// Whether prompts go through the model's chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Template {
    /// Chats do, and so do texts if the model has a template.
    #[default]
    Auto,
    /// All do; a text becomes a message of the user.
    Chat,
    /// None does; a chat must then be a single message, whose text is the prompt, and none can be
    /// imitated.
    None,
}

/// The recipe's table `[data.columns]`. A dot reaches into a column: "extra_info.question".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Column of the prompt. Unset: the first there is of prompt, problem, question, Problem,
    /// Question, extra_info.question.
    pub prompt: Option<String>,
    /// Column of the answer. Its whole text is taken, or what follows a `####`. Unset: the first
    /// there is of reward_model.ground_truth, ground_truth, answer, final_answer, expected_answer,
    /// Answer, solution, extra_info.answer; for SFT, of response, completion, output, answer,
    /// solution, extra_info.answer.
    pub answer: Option<String>,
    /// Column of a text that only a teacher is shown, such as a worked solution: the `{hint}` of
    /// `objective.distillation.teacher_prompt`. The answer's column may be named again, whose whole
    /// text the hint then is.
    pub hint: Option<String>,
}

impl DataSettings {
    /// Checks every setting, but not what is in the files.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the first that is out of range or impossible together with others.
    pub fn check(&self) -> Result<()> {
        self.open_task().map(drop)
    }

    /// Replaces patterns and names of data sets by their files, which are downloaded. `split` is
    /// the split to read unless one is named.
    ///
    /// # Errors
    /// [`Error::Location`] when nothing matches, [`Error::Hub`] when the hub does not deliver.
    pub fn found(&self, split: Split, progress: &dyn hub::Progress) -> Result<Self> {
        let files = self.files.iter().map(|file| DataLocation::of(file).files(split, progress));
        Ok(Self { files: files.collect::<Result<Vec<_>>>()?.concat(), ..self.clone() })
    }

    /// Keeps the files that need no network, or the task; None if all files are on the hub.
    pub fn local(&self) -> Option<Self> {
        let files: Vec<PathBuf> =
            self.files.iter().filter(|file| DataLocation::of(file).is_local()).cloned().collect();
        (!files.is_empty() || self.files.is_empty()).then(|| Self { files, ..self.clone() })
    }

    /// Checks every setting and prepares the built-in task, if there is one instead of files.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn open_task(&self) -> Result<Option<Box<dyn Task>>> {
        let task = match (self.task, self.files.as_slice()) {
            (None, []) => {
                let tasks: Vec<String> =
                    TaskName::ALL.iter().map(|task| format!("{:?}", task.name())).collect();
                let expected = format!(
                    "name parquet or JSON files, or set data.task = {}",
                    tasks.join(" or ")
                );
                return Err(Error::setting("data.files", "[]", expected));
            }
            (Some(_), [_, ..]) => {
                let expected = "it excludes data.files; remove one of them";
                return Err(Error::setting("data.task", "set", expected));
            }
            (Some(task), []) => Some(task.open(self)?),
            (None, files) => {
                files.iter().try_for_each(|path| DataLocation::of(path).check())?;
                None
            }
        };
        for (name, variable) in &self.template_variables {
            let expected = match (name.as_str(), variable) {
                ("messages" | "add_generation_prompt" | "tools" | "documents", _) => {
                    "give it another name: the template's own"
                }
                (_, TemplateVariable::Number(x)) if !x.is_finite() => "it must be a finite number",
                _ => continue,
            };
            let key = format!("data.template_variables.{name}");
            return Err(Error::Setting {
                key,
                value: Value::from(variable).to_string(),
                expected: expected.into(),
            });
        }
        // Paths are left out of the check: they have no range and need not be UTF-8 (the hub's
        // cache is in a home directory).
        isentrope_settings::check("data", &Self { files: Vec::new(), ..self.clone() })?;
        Ok(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_need_not_be_utf_8() {
        use std::os::unix::ffi::OsStringExt;
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/home/\xff/a.parquet".to_vec()));
        let settings = DataSettings { files: vec![path], ..DataSettings::default() };
        settings.check().unwrap();
        let error = DataSettings { limit: Some(0), ..settings }.check().unwrap_err().to_string();
        assert!(error.starts_with("data.limit is 0: "), "{error}");
    }

    #[test]
    fn impossible_settings_are_named() {
        let file =
            |name: &str| DataSettings { files: vec![name.into()], ..DataSettings::default() };
        let task = DataSettings { task: Some(TaskName::Countdown), ..DataSettings::default() };
        assert!(
            file("a.jsonl").check().is_ok()
                && file("a.parquet").check().is_ok()
                && task.check().is_ok()
        );
        for (settings, says) in [
            (DataSettings::default(), "data.files is []"),
            (DataSettings { files: vec!["a.jsonl".into()], ..task.clone() }, "data.task"),
            (file("a.xlsx"), "a.xlsx"),
            (DataSettings { limit: Some(0), ..file("a.jsonl") }, "data.limit is 0"),
            (
                DataSettings { max_prompt_tokens: Some(0), ..task.clone() },
                "data.max_prompt_tokens is 0",
            ),
            (
                DataSettings {
                    template_variables: BTreeMap::from([(
                        "tools".into(),
                        TemplateVariable::Boolean(true),
                    )]),
                    ..task.clone()
                },
                "data.template_variables.tools is true",
            ),
            (
                DataSettings {
                    countdown: CountdownSettings { numbers: vec![], ..Default::default() },
                    ..task
                },
                "data.countdown.numbers is []",
            ),
            (
                DataSettings {
                    task: Some(TaskName::Programs),
                    programs: ProgramsSettings { steps: vec![], ..Default::default() },
                    ..DataSettings::default()
                },
                "data.programs.steps is []",
            ),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let error =
            serde_json::from_str::<DataSettings>(r#"{"task": "chess"}"#).unwrap_err().to_string();
        assert!(error.contains("countdown"), "{error}");
        assert!(serde_json::from_str::<DataSettings>(r#"{"file": []}"#).is_err());
    }
}
