//! `isentrope chat`: a conversation in the terminal.

use crate::interrupt;
use crate::loaded_model::{Loaded, ModelArguments};
use crate::messages;
use crate::sampling_flags::{SamplingFlags, of_model};
use crate::standard_output::{allows_colors, draw, print};
use crate::template_flags::TemplateFlags;
use crate::visible::visible;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use isentrope_data::DataSettings;
use isentrope_model::KvCache;
use isentrope_rollout::{Engine, Error, Event, Key, Limits, Prompter, Request, Sampling};
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal, stdin, stdout};
use std::sync::Arc;

/// The entropies, in nats, from which a token has each colour of the 256 of terminals: green,
/// yellow, orange, red. Below all of them it has the terminal's own.
const COLOURS: [(f32, u8); 4] = [(0.2, 71), (0.7, 178), (1.4, 208), (2.1, 196)];

const HELP: &str = "/reset begins anew, /exit or Ctrl-D ends, Ctrl-C stops an answer";

/// Converse with a model in the terminal
///
/// Reads a message from each line, and streams the answer. /reset begins a new conversation; /exit
/// or Ctrl-D ends. Ctrl-C ends the current answer, which stays in the conversation as far as it
/// went. Lines may come from a pipe.
///
/// Every turn renders the whole conversation by the model's chat template, and reads it anew.
/// Sampling settings that are not given come from the model's generation_config.json where it asks
/// for sampling (do_sample), else temperature 1 without truncation.
#[derive(Args)]
pub struct Chat {
    #[command(flatten)]
    model: ModelArguments,
    /// System message
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Longest answer, in tokens [default: what the model's context has room for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    #[command(flatten)]
    drawing: SamplingFlags,
    /// Colours each token by the entropy of its distribution (green, yellow, orange and red from
    /// 0.2, 0.7, 1.4 and 2.1 nats), unless NO_COLOR is set, and says an answer's mean entropy
    #[arg(long)]
    entropy: bool,
    #[command(flatten)]
    template_flags: TemplateFlags,
}

/// A conversation.
struct Conversation<'a> {
    chat: &'a Chat,
    prompter: Prompter,
    sampling: Sampling,
    engine: Engine<'a>,
    /// Most tokens of a prompt and its response together.
    context: usize,
    messages: Vec<Value>,
    /// Answers so far, those before a reset included, so that none repeats another's draws.
    answers: u64,
    is_coloured: bool,
}

impl Chat {
    pub fn run(self) -> Result<()> {
        self.model.run(|loaded| self.converse(loaded))
    }

    fn converse(&self, loaded: &Loaded) -> Result<()> {
        loaded.chat_template(self.template_flags.date)?; // or says that there is none
        let settings =
            DataSettings { system: self.system.clone(), ..self.template_flags.settings() };
        let prompter = loaded.prompter(&settings)?;
        let sampling = self.sampling(loaded, &prompter)?;
        let page = KvCache::page_bytes(&loaded.model);
        let whole = KvCache::pages_for(&loaded.model, loaded.model.context()).saturating_mul(page);
        let limits = Limits {
            cache_bytes: loaded.cache_bytes(self.drawing.kv_memory)?.min(whole),
            ..Limits::default()
        };
        let pages = limits.cache_bytes / page;
        let mut conversation = Conversation {
            chat: self,
            prompter,
            sampling,
            engine: Engine::new(&loaded.model, loaded.tokenizer.as_deref(), limits)?,
            context: loaded.model.context().min(pages * loaded.model.backend.page_positions()),
            messages: Vec::new(),
            answers: 0,
            is_coloured: self.entropy && stdout().is_terminal() && allows_colors(),
        };
        let asks = stdin().is_terminal() && stdout().is_terminal();
        if asks {
            messages::say(&format!(
                "{}, seed {}; {HELP}",
                conversation.sampling.decoding(),
                self.drawing.seed
            ));
            if conversation.is_coloured {
                let colour =
                    |(from, colour): &(f32, u8)| format!("\x1b[38;5;{colour}m{from}\x1b[0m");
                let colours: Vec<String> = COLOURS.iter().map(colour).collect();
                draw(&format!("entropy in nats, from {}\n", colours.join(", ")))?;
            }
        }
        interrupt::converse();
        loop {
            if asks {
                draw("> ")?;
            }
            let mut line = Vec::new();
            if stdin().lock().read_until(b'\n', &mut line).context("standard input")? == 0 {
                return if asks { draw("\n") } else { Ok(()) };
            }
            match str::from_utf8(&line).map(str::trim) {
                Err(_) => messages::warning("the line is not UTF-8, and is left out"),
                Ok("") => {}
                Ok("/exit" | "/quit") => return Ok(()),
                Ok("/help") => messages::say(HELP),
                Ok("/reset") => conversation.messages.clear(),
                Ok(line) if is_command(line) => {
                    messages::warning(&format!("there is no {line}: {HELP}"));
                }
                Ok(message) => conversation.turn(message)?,
            }
        }
    }

    /// The settings of every answer, but for its greatest length.
    fn sampling(&self, loaded: &Loaded, prompter: &Prompter) -> Result<Sampling> {
        let flags = &self.drawing;
        let (defaults, _) = of_model(loaded)?;
        let tokenizer = loaded.tokenizer.as_deref();
        let sampling = flags.over(defaults).ending_at(&prompter.eos_tokens, &flags.stop, tokenizer);
        sampling.check().map_err(|e| anyhow!("--{e}"))?;
        Ok(sampling)
    }
}

/// Whether a line is a word behind a slash, as commands are: not a path, nor a sentence. `/think`
/// is the model's, Qwen3's switch, as `/no_think` is.
fn is_command(line: &str) -> bool {
    let word = line.strip_prefix('/').filter(|word| *word != "think");
    word.is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric()))
}

impl Conversation<'_> {
    /// Answers a message. A message that has no room in the context is refused and forgotten.
    fn turn(&mut self, message: &str) -> Result<()> {
        let user = json!({"role": "user", "content": message});
        let mut messages = self.messages.clone();
        messages.push(user.clone());
        self.prompter.add_system(&mut messages);
        let rendered = self.prompter.apply_template(&messages, &[], true);
        let text = rendered.map_err(|what| anyhow!("the chat template: {what}"))?;
        let prompt = self.prompter.tokenizer.encode(&text, false)?;
        if let Some(lost) = self.prompter.tokenizer.take_dropped() {
            messages::warning(&lost);
        }
        let room = self.context.saturating_sub(prompt.len());
        if room == 0 {
            let remedy = match self.messages[..] {
                [] => "a shorter message leaves room for an answer",
                _ => "/reset begins anew",
            };
            messages::warning(&format!(
                "the conversation has {} tokens, and the context {}: {remedy}",
                prompt.len(),
                self.context
            ));
            return Ok(());
        }
        let max_tokens = self.chat.max_tokens.map_or(room, |most| room.min(most as usize));
        let answer = self.answer(prompt, max_tokens)?;
        self.messages.extend([user, json!({"role": "assistant", "content": answer})]);
        Ok(())
    }

    /// Streams an answer, until it ends or Ctrl-C ends it.
    fn answer(&mut self, prompt: Vec<u32>, max_tokens: usize) -> Result<String> {
        let sampling = Arc::new(Sampling { max_tokens, ..self.sampling.clone() });
        let key = Key { seed: self.chat.drawing.seed, step: 0, prompt: self.answers };
        let samples = vec![0];
        let request = Request { key, prompt, samples, sampling, cache_activations: false };
        let request = self.engine.submit(request)?;
        self.answers += 1;
        let (mut answer, mut tokens, mut entropy) = (String::new(), 0, 0.0);
        interrupt::set_answering(true);
        while !self.engine.is_idle() && interrupt::may_answer() {
            for event in self.engine.step()? {
                match event {
                    Event::NotFinite { position, .. } => bail!(Error::NotFinite { position }),
                    Event::Token { drawn, text, .. } => {
                        tokens += 1;
                        entropy += f64::from(drawn.entropy);
                        let text = text.unwrap_or_default();
                        self.show(&text, drawn.entropy)?;
                        answer.push_str(&text);
                    }
                    Event::Finished { completion, .. } => {
                        let text = completion.text.unwrap_or_default();
                        print(text.get(answer.len()..).unwrap_or_default())?;
                        answer = text;
                    }
                }
            }
        }
        interrupt::set_answering(false);
        self.engine.withdraw(request, 0); // if Ctrl-C has ended it
        print("\n")?;
        if self.chat.entropy {
            messages::say(&format!(
                "{}, mean entropy {:.4} nats",
                messages::counted(tokens, "token"),
                entropy / f64::from(tokens.max(1))
            ));
        }
        Ok(answer)
    }

    /// Prints text that a token of this entropy has completed.
    fn show(&self, text: &str, entropy: f32) -> Result<()> {
        let colour = COLOURS.iter().rev().find(|(from, _)| entropy >= *from);
        match colour.filter(|_| self.is_coloured && !text.is_empty()) {
            None => print(text),
            Some((_, colour)) => draw(&format!("\x1b[38;5;{colour}m{}\x1b[0m", visible(text))),
        }
    }
}
