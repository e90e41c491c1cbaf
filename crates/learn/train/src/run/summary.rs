//! The summary that the user is told when a run ends.

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
    /// The best evaluated checkpoint, if it is still there: step and mean accuracy.
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
    /// The phases that it was spent on, and speeds.
    pub timings: Metrics,
}

/// Longest prompt, in bytes, that is worth typing.
const LONGEST: usize = 120;

/// A prompt, and what else decides how `isentrope generate` puts it to the model, so that it is as
/// the run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    prompt: String,
    system: Option<String>,
    template: Template,
    /// `NAME=VALUE` of each of the template's variables that the recipe sets.
    variables: Vec<String>,
    /// The day that the template is told, where it asks for one.
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
        let mut flags = format!("--prompt {}", quoted(prompt));
        match template {
            Template::Auto => {}
            Template::Chat => flags += " --template chat",
            Template::None => flags += " --template none",
        }
        system.iter().for_each(|text| flags += &format!(" --system {}", quoted(text)));
        variables.iter().for_each(|set| flags += &format!(" --template-variable {}", quoted(set)));
        date.iter().for_each(|date| flags += &format!(" --date {date}"));
        stop.iter().for_each(|text| flags += &format!(" --stop {}", quoted(text)));
        if *max_tokens > GENERATED {
            flags += &format!(" --max-tokens {max_tokens}");
        }
        flags
    }
}

/// The default of `isentrope generate --max-tokens`.
const GENERATED: usize = 256;

/// The question of a prompt and its system message; none where it has other messages beside these.
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

/// A text as one word of a shell; with control characters as bash and zsh write them.
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
        let example = |template, system: Option<&str>, max_tokens| Example {
            prompt: "3 5 7>22:".into(),
            system: system.map(str::to_owned),
            template,
            variables: Vec::new(),
            date: None,
            stop: Vec::new(),
            max_tokens,
        };
        assert_eq!(example(Template::Auto, None, 256).flags(), "--prompt '3 5 7>22:'");
        assert_eq!(
            example(Template::Chat, Some("Don't."), 1024).flags(),
            r"--prompt '3 5 7>22:' --template chat --system 'Don'\''t.' --max-tokens 1024"
        );
        let thoughtless = Example {
            variables: vec!["enable_thinking=false".into()],
            ..example(Template::Auto, None, 9)
        };
        assert_eq!(
            thoughtless.flags(),
            "--prompt '3 5 7>22:' --template-variable 'enable_thinking=false'"
        );
        let dated = Example { date: "2024-07-09".parse().ok(), ..example(Template::Auto, None, 9) };
        assert_eq!(dated.flags(), "--prompt '3 5 7>22:' --date 2024-07-09");
        let stopping = Example { stop: vec!["\n".into()], ..example(Template::None, None, 9) };
        assert_eq!(stopping.flags(), r"--prompt '3 5 7>22:' --template none --stop $'\n'");
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
