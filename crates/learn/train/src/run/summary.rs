//! The summary at the end of a run.

use crate::metrics::Metrics;
use isentrope_data::{Prompt, Template};
use isentrope_evaluation::{Evaluation, EvaluationSet, Evaluator};
use isentrope_model::chat_template::Date;
use std::path::PathBuf;
use std::time::Duration;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At its last step.
    Complete,
    /// Before, because it was asked to.
    Interrupted,
}

/// The summary of a run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// How it ended.
    pub ending: Ending,
    /// Steps made.
    pub step: u64,
    /// Evaluations before the first step and after the last evaluated one.
    pub first: Vec<Evaluation>,
    /// After the last evaluated step.
    pub last: Vec<Evaluation>,
    /// The last evaluated step.
    pub last_step: u64,
    /// The step and mean accuracy of the best evaluated checkpoint, if it still exists.
    pub best: Option<(u64, f64)>,
    /// The run's last checkpoint, if it has one: saved by this process, or the one that it went on
    /// from.
    pub checkpoint: Option<PathBuf>,
    /// The run's directory.
    pub directory: PathBuf,
    /// Sentences on the evaluations of each set.
    pub laws: Vec<String>,
    /// A held-out problem to try the model on.
    pub example: Option<Example>,
    /// Time of this process.
    pub elapsed: Duration,
    /// Seconds by phase, and speeds.
    pub timings: Metrics,
}

/// Longest prompt, in bytes, that is worth typing.
const LONGEST: usize = 120;

/// A prompt with the flags by which `isentrope generate` presents it to the model as the run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    prompt: String,
    system: Option<String>,
    template: Template,
    /// `NAME=VALUE` of each of the template's variables that the recipe sets.
    variables: Vec<String>,
    /// The date that the template writes, if it writes one.
    date: Option<Date>,
    stop: Vec<String>,
    max_tokens: usize,
}

impl Example {
    /// The first held-out problem that is short enough, if there is one.
    pub(crate) fn of(sets: &[EvaluationSet], evaluator: &Evaluator<'_>) -> Option<Self> {
        let (template, system) = evaluator.prompter.template();
        let (set, prompt, own_system) = sets
            .iter()
            .flat_map(|set| set.problems.iter().map(move |(problem, _)| (set, &problem.prompt)))
            .filter_map(|(set, prompt)| parts(prompt).map(|(prompt, system)| (set, prompt, system)))
            .find(|(_, prompt, _)| prompt.len() <= LONGEST)?;
        Some(Self {
            prompt: prompt.to_owned(),
            system: own_system.or(system).filter(|_| template != Template::None).map(str::to_owned),
            template,
            variables: evaluator
                .prompter
                .variables()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            date: evaluator.prompter.date().filter(|_| template != Template::None),
            stop: evaluator.sampling.stop_strings.clone(),
            max_tokens: set.decoding.max_tokens,
        })
    }

    /// Flags of `isentrope generate`, as a shell reads them.
    pub fn flags(&self) -> String {
        let Self { prompt, system, template, variables, date, stop, max_tokens } = self;
        let mut flags = vec![("prompt", quoted(prompt))];
        flags.extend(match template {
            Template::Auto => None,
            Template::Chat => Some(("template", "chat".to_owned())),
            Template::None => Some(("template", "none".to_owned())),
        });
        flags.extend(system.iter().map(|text| ("system", quoted(text))));
        flags.extend(variables.iter().map(|set| ("template-variable", quoted(set))));
        flags.extend(date.iter().map(|date| ("date", date.to_string())));
        flags.extend(stop.iter().map(|text| ("stop", quoted(text))));
        flags.extend((*max_tokens > GENERATED).then(|| ("max-tokens", max_tokens.to_string())));
        let flags: Vec<String> =
            flags.iter().map(|(name, value)| format!("--{name} {value}")).collect();
        flags.join(" ")
    }
}

/// The default of `isentrope generate --max-tokens`.
const GENERATED: usize = 256;

/// The question of a prompt and its system message; none if it has other messages.
fn parts(prompt: &Prompt) -> Option<(&str, Option<&str>)> {
    let is = |message: &serde_json::Value, role: &str| message["role"] == role;
    match prompt {
        Prompt::Text(text) | Prompt::Beginning(text) => Some((text, None)),
        Prompt::Chat(messages) => match &messages[..] {
            [user] if is(user, "user") => Some((user["content"].as_str()?, None)),
            [system, user] if is(system, "system") && is(user, "user") => {
                Some((user["content"].as_str()?, Some(system["content"].as_str()?)))
            }
            _ => None,
        },
    }
}

/// A path, or a setting with one, as one word of a shell.
pub fn word(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,@%=".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { quoted(path) }
}

/// A text as one word of a shell, with control characters escaped as in bash and zsh.
fn quoted(text: &str) -> String {
    if !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\n' => word += r"\n",
            '\t' => word += r"\t",
            '\\' | '\'' => word.extend(['\\', c]),
            c if c.is_control() => word += &format!("\\U{:08x}", u32::from(c)),
            c => word.push(c),
        }
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_are_words_of_a_shell() {
        let plain = Example {
            prompt: "3 5 7>22:".into(),
            system: None,
            template: Template::Auto,
            variables: Vec::new(),
            date: None,
            stop: Vec::new(),
            max_tokens: 256,
        };
        assert_eq!(plain.flags(), "--prompt '3 5 7>22:'");
        assert_eq!([word("runs/a-1.0"), word("runs/a b")], ["runs/a-1.0", "'runs/a b'"]);
        let full = Example {
            system: Some("Don't.".into()),
            template: Template::Chat,
            variables: vec!["enable_thinking=false".into()],
            date: "2024-07-09".parse().ok(),
            stop: vec!["\n".into()],
            max_tokens: 1024,
            ..plain
        };
        let expected = concat!(
            r"--prompt '3 5 7>22:' --template chat --system 'Don'\''t.' ",
            r"--template-variable 'enable_thinking=false' --date 2024-07-09 --stop $'\n' ",
            "--max-tokens 1024"
        );
        assert_eq!(full.flags(), expected);
        assert_eq!(quoted("a\n'b\\\u{1b}[0m"), r"$'a\n\'b\\\U0000001b[0m'");
    }

    #[test]
    fn a_chat_has_a_question_and_may_have_a_system_message() {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let (system, user) = (message("system", "s"), message("user", "u"));
        assert_eq!(parts(&Prompt::Text("t".into())), Some(("t", None)));
        assert_eq!(parts(&Prompt::Chat(vec![user.clone()])), Some(("u", None)));
        assert_eq!(
            parts(&Prompt::Chat(vec![system.clone(), user.clone()])),
            Some(("u", Some("s")))
        );
        assert_eq!(parts(&Prompt::Chat(vec![user.clone(), message("assistant", "a"), user])), None);
        assert_eq!(parts(&Prompt::Chat(vec![system])), None);
    }
}
