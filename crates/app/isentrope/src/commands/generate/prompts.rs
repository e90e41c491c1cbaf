//! The prompts of `isentrope generate`, made of texts and messages by the same code as in training.

use crate::lines::{self, Line};
use crate::loaded_model::{Loaded, warn_of_losses};
use crate::messages;
use crate::template_flags::PromptFlags;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::error::ErrorKind;
use isentrope_data::Prompt;
use isentrope_rollout::Prompter;
use serde_json::Value;
use std::cell::OnceCell;
use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

/// The prompts, and how they are presented to the model.
#[derive(Args)]
pub struct PromptArguments {
    /// The prompt [default: a terminal is asked for one]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "prompts")]
    prompt: Option<String>,
    /// Prompts: JSON lines, or whatever a recipe's data.files may name (.parquet, .json, .jsonl.gz,
    /// "data/*.jsonl", a hub id such as openai/gsm8k:main); - is standard input
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Column of the prompts, as a recipe's data.columns.prompt
    #[arg(long, value_name = "COLUMN", requires = "prompts", conflicts_with = "prompt")]
    prompt_column: Option<String>,
    #[command(flatten)]
    flags: PromptFlags,
    /// Text put before every prompt, as data.prompt_prefix; in a chat, before the user's last
    /// message
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    prompt_prefix: String,
    /// Text put after every prompt, as data.prompt_suffix: the instruction that the model was
    /// trained with
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    prompt_suffix: String,
}

/// A prompt that the model can be given.
pub struct NamedPrompt {
    /// Its id in the results.
    pub id: Value,
    pub tokens: Vec<u32>,
}

/// The prompts as read before the model is loaded.
pub struct PromptSource<'a> {
    arguments: &'a PromptArguments,
    prompts: Prompts,
}

enum Prompts {
    One(String),
    Lines(Vec<Line>),
}

impl PromptArguments {
    /// Reads the prompts; asks the terminal for one if no flag gives any.
    pub fn read(&self) -> Result<PromptSource<'_>> {
        let prompts = match (&self.prompts, &self.prompt) {
            (Some(file), _) => Prompts::Lines(lines::read_prompts(file)?),
            (None, Some(prompt)) => Prompts::One(prompt.clone()),
            (None, None) => Prompts::One(ask()?),
        };
        Ok(PromptSource { arguments: self, prompts })
    }
}

/// A prompt from the terminal.
fn ask() -> Result<String> {
    if !stdin().is_terminal() {
        let missing = "generate needs --prompt TEXT or --prompts FILE; only a terminal is asked\n";
        clap::Error::raw(ErrorKind::MissingRequiredArgument, missing).exit();
    }
    messages::say("prompt (end it with Enter):");
    let mut line = String::new();
    stdin().read_line(&mut line).context("standard input")?;
    let prompt = line.trim_end_matches(['\r', '\n']).to_owned();
    if prompt.is_empty() {
        bail!("the prompt is empty");
    }
    Ok(prompt)
}

impl PromptSource<'_> {
    /// How many prompts there are.
    pub fn count(&self) -> usize {
        match &self.prompts {
            Prompts::One(_) => 1,
            Prompts::Lines(lines) => lines.len(),
        }
    }

    /// The error of the prompt at this place.
    pub fn error(&self, place: usize, what: impl std::fmt::Display) -> anyhow::Error {
        match &self.prompts {
            Prompts::One(_) => anyhow!("--prompt: {what}"),
            Prompts::Lines(lines) => lines[place].error(what),
        }
    }

    /// The tokens of every prompt.
    pub fn tokens(&self, loaded: &Loaded) -> Result<Vec<NamedPrompt>> {
        // The prompter is made when first needed, because lines of tokens need none.
        let prompter: OnceCell<Prompter> = OnceCell::new();
        let mut losses = Vec::new();
        let mut tokens = |place: usize, mut prompt: Prompt| -> Result<Vec<u32>> {
            if prompter.get().is_none() {
                loaded.tokenizer().map_err(|e| self.error(place, e))?;
                let _ = prompter.set(loaded.prompter(&self.arguments.flags.settings())?);
            }
            let prompter = prompter.get().context("the tokenizer was read")?;
            prompt.surround(&self.arguments.prompt_prefix, &self.arguments.prompt_suffix);
            let tokens = prompter.prompt_tokens(&prompt).map_err(|e| self.error(place, e))?;
            losses.extend(prompter.tokenizer.take_dropped().map(|lost| self.error(place, lost)));
            Ok(tokens)
        };
        let text = |text: &str| Prompt::Text(text.to_owned());
        let prompts = match &self.prompts {
            Prompts::One(prompt) => {
                vec![NamedPrompt { id: 0.into(), tokens: tokens(0, text(prompt))? }]
            }
            Prompts::Lines(lines) => {
                let understand = |(place, line): (usize, &Line)| {
                    let tokens = match line.prompt(&self.arguments.prompt_column)? {
                        lines::Prompt::Text(prompt) => tokens(place, text(prompt))?,
                        lines::Prompt::Messages(messages) => {
                            tokens(place, Prompt::Chat(messages.to_vec()))?
                        }
                        lines::Prompt::Tokens(tokens) => tokens,
                    };
                    Ok(NamedPrompt { id: line.get("id").cloned().unwrap_or(place.into()), tokens })
                };
                lines.iter().enumerate().map(understand).collect::<Result<_>>()?
            }
        };
        warn_of_losses(losses);
        Ok(prompts)
    }
}
