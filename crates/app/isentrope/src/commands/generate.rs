//! `isentrope generate`: sample responses.

mod prompts;

use crate::interrupt::{self, Interrupted};
use crate::loaded_model::{Loaded, ModelArguments};
use crate::messages;
use crate::output::Output;
use crate::progress::Work;
use crate::sampling_flags::{SamplingFlags, of_model};
use crate::standard_output::print;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use isentrope_model::KvCache;
use isentrope_model::generation_config::eos_tokens;
use isentrope_rollout::{Completion, Engine, Error, Event, Key, Limits, Request, Sampling};
use prompts::{NamedPrompt, PromptArguments, PromptSource};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Sample responses from a model
///
/// One prompt's response streams to the terminal; otherwise results are JSON lines with id, sample,
/// text, prompt_tokens, tokens, temperature, logprobs, entropies (in nats) and finish_reason
/// ("stop" or "length"); `isentrope score` reads them as they are. A prompts line is {"prompt":
/// text or list of messages}, {"messages": [...]} or {"tokens": [ids]}, with an optional "id"; data
/// sets may also call the prompt problem or question.
///
/// Sampling settings that are not given come from the model's generation_config.json where it asks
/// for sampling (do_sample), else temperature 1 without truncation. A response depends on the
/// weights, its prompt, the seed, the prompt's place in the file and its own number, and on nothing
/// else: not on what is sampled beside it, nor on threads or memory.
///
/// Prompts are put to the model as training puts them: through its chat template if it has one,
/// unless --template says otherwise.
#[derive(Args)]
#[allow(rustdoc::broken_intra_doc_links, reason = "this is the help on the terminal, not Markdown")]
pub struct Generate {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    prompts: PromptArguments,
    /// Responses per prompt
    #[arg(short, long = "samples", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    n: u32,
    /// Longest response, in tokens
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    #[command(flatten)]
    drawing: SamplingFlags,
    /// Divides the positive logits of tokens that have occurred, multiplies the negative ones
    #[arg(long, value_name = "R")]
    repetition_penalty: Option<f32>,
    /// Ends a response after this token (repeatable)
    #[arg(long, value_name = "ID")]
    stop_token: Vec<u32>,
    /// Continues after end-of-sequence tokens
    #[arg(long)]
    ignore_eos: bool,
    /// File of the JSON lines; - is standard output, the default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Record<'a> {
    id: &'a Value,
    sample: usize,
    text: &'a Option<String>,
    prompt_tokens: &'a [u32],
    tokens: &'a [u32],
    /// The temperature of the log-probs: 1 of greedy responses.
    temperature: f32,
    logprobs: &'a [f32],
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_logprobs: &'a Option<Vec<f32>>,
    entropies: &'a [f32],
    finish_reason: &'static str,
}

/// How results reach the user.
enum Display {
    /// Text of the only response, printed token by token.
    Stream { shown: usize },
    /// Text of each response, under a heading.
    Headed,
    /// JSON lines, in the order of prompts and samples.
    Lines(Output),
}

impl Generate {
    pub fn run(self) -> Result<()> {
        // All defects of the input are found before the model is loaded, or before it runs.
        let source = self.prompts.read()?;
        let single = source.count() == 1 && self.n == 1;
        let display = match (&self.out, stdout().is_terminal()) {
            (None, true) if single => Display::Stream { shown: 0 },
            (None, true) => Display::Headed,
            (out, _) => Display::Lines(Output::create(out.as_deref())?),
        };
        self.model.run(|loaded| self.sample(&source, display, loaded))
    }

    /// The command's work, once there is a model.
    fn sample(
        &self,
        source: &PromptSource<'_>,
        mut display: Display,
        loaded: &Loaded,
    ) -> Result<()> {
        let (sampling, origin) = self.sampling(loaded)?;
        let sampling = Arc::new(sampling);
        let prompts = source.tokens(loaded)?;

        let limits = self.limits(loaded, &prompts, &sampling)?;
        let mut engine = Engine::new(&loaded.model, loaded.tokenizer.as_deref(), limits)?;
        for (i, prompt) in prompts.iter().enumerate() {
            let request = Request {
                key: Key { seed: self.drawing.seed, step: 0, prompt: i as u64 },
                prompt: prompt.tokens.clone(),
                samples: (0..self.n as usize).collect(),
                sampling: sampling.clone(),
                cache_activations: false,
            };
            engine.submit(request).map_err(|e| source.error(i, e))?;
        }
        interrupt::wind_up_first("keeping the finished responses");
        let asked = Asked { prompts: &prompts, samples: self.n as usize, sampling: &sampling };
        let summary = drive(&mut engine, asked, &mut display)?;
        if let Display::Lines(output) = display {
            output.finish()?;
        }
        messages::say(&format!("{summary}, {}{origin}", sampling.decoding()));
        Ok(())
    }

    /// The given settings, or else the model's own; and a note on their origin, if the model's own
    /// are among them.
    fn sampling(&self, loaded: &Loaded) -> Result<(Sampling, &'static str)> {
        let (of_model, its) = of_model(loaded)?;
        let (vocabulary, tokenizer) = (loaded.model.config.vocab_size, loaded.tokenizer.as_deref());
        let eos_tokens = eos_tokens(&loaded.dir, vocabulary, tokenizer)?;
        let used = [
            self.drawing.temperature.is_none() && its.temperature.is_some(),
            self.drawing.top_k.is_none() && its.top_k.is_some(),
            self.drawing.top_p.is_none() && its.top_p.is_some(),
            self.drawing.min_p.is_none() && its.min_p.is_some(),
            self.repetition_penalty.is_none() && its.repetition_penalty.is_some(),
        ];
        let source = if used.contains(&true) {
            " (of the model's generation_config.json where no flag says)"
        } else {
            ""
        };
        let sampling = Sampling {
            repetition_penalty: self.repetition_penalty.unwrap_or(of_model.repetition_penalty),
            max_tokens: self.max_tokens,
            stop_tokens: self.stop_token.clone(),
            ignore_eos: self.ignore_eos,
            ..self.drawing.over(of_model)
        };
        let sampling = sampling.ending_at(&eos_tokens, &self.drawing.stop, tokenizer);
        sampling.check().map_err(|e| anyhow!("--{e}"))?;
        if let Some(token) = self.stop_token.iter().find(|&&t| t as usize >= vocabulary) {
            bail!("--stop-token: token {token} is outside the model's vocabulary of {vocabulary}");
        }
        Ok((sampling, source))
    }

    fn limits(
        &self,
        loaded: &Loaded,
        prompts: &[NamedPrompt],
        sampling: &Sampling,
    ) -> Result<Limits> {
        let budget = loaded.cache_bytes(self.drawing.kv_memory)?;
        let model = &loaded.model;
        // The cache needs no more than all requests at once would take.
        let most: usize = prompts
            .iter()
            .map(|p| {
                let positions = p.tokens.len().saturating_add(sampling.max_tokens);
                model.layout.pages_of_sequence(&*model.backend, positions)
            })
            .fold(0, |sum: usize, pages| sum.saturating_add(pages.saturating_mul(self.n as usize)));
        Ok(Limits {
            cache_bytes: budget.min(most.saturating_mul(KvCache::page_bytes(model))),
            ..Limits::default()
        })
    }
}

/// The request, as records show it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    prompts: &'a [NamedPrompt],
    samples: usize,
    sampling: &'a Sampling,
}

impl Asked<'_> {
    /// Writes the line of a response by its place in the order of prompts and samples.
    fn write(self, output: &mut Output, place: usize, c: &Completion) -> Result<()> {
        let prompt = &self.prompts[place / self.samples];
        let temperature = self.sampling.temperature;
        output.line(&Record {
            id: &prompt.id,
            sample: place % self.samples,
            text: &c.text,
            prompt_tokens: &prompt.tokens,
            tokens: &c.tokens,
            temperature: if temperature == 0.0 { 1.0 } else { temperature },
            logprobs: &c.logprobs,
            sampling_logprobs: &c.sampling_logprobs,
            entropies: &c.entropies,
            finish_reason: c.finish_reason.name(),
        })
    }
}

/// Runs the engine to the end, showing what happens.
fn drive(engine: &mut Engine<'_>, asked: Asked<'_>, display: &mut Display) -> Result<String> {
    let started = Instant::now();
    let total = asked.prompts.len() * asked.samples;
    // The bar is hidden if text goes to the same terminal, because they would overwrite each
    // other.
    let is_hidden = !matches!(display, Display::Lines(_));
    let mut work = Work::new("responses", Some(total as u64), is_hidden);
    // Finished responses that wait for an earlier one, since lines go out in order.
    let mut waiting = BTreeMap::new();
    let (mut next, mut finished, mut tokens, mut entropy) = (0, 0u64, 0usize, 0.0f64);
    while !engine.is_idle() {
        if interrupt::requested() {
            work.finish();
            return Err(interrupted(display, asked, waiting)?);
        }
        for event in engine.step()? {
            match event {
                Event::NotFinite { position, .. } => bail!(Error::NotFinite { position }),
                Event::Token { drawn, text, .. } => {
                    tokens += 1;
                    entropy += f64::from(drawn.entropy);
                    if let (Display::Stream { shown }, Some(text)) = (&mut *display, text) {
                        *shown += text.len();
                        print(&text)?;
                    }
                }
                Event::Finished { request, sample, completion } => {
                    finished += 1;
                    match display {
                        Display::Stream { shown } => {
                            let rest = completion.text.as_deref().and_then(|t| t.get(*shown..));
                            print(&format!("{}\n", rest.unwrap_or_default()))?;
                        }
                        Display::Headed => {
                            let heading = format!(
                                "── {} · sample {sample} · {} tokens, {} ──",
                                name(&asked.prompts[request].id),
                                completion.tokens.len(),
                                completion.finish_reason.name()
                            );
                            print(&format!("{heading}\n{}\n", shown_text(&completion)))?;
                        }
                        Display::Lines(output) => {
                            waiting.insert(request * asked.samples + sample, completion);
                            while let Some(completion) = waiting.remove(&next) {
                                asked.write(output, next, &completion)?;
                                next += 1;
                            }
                        }
                    }
                }
            }
        }
        let speed = tokens as f64 / started.elapsed().as_secs_f64();
        work.advance(finished, &format!("{} running, {speed:.0} tokens/s", engine.running()));
    }
    work.finish();
    let seconds = started.elapsed().as_secs_f64();
    Ok(format!(
        "{}, {} in {seconds:.1} s ({:.0} tokens/s), mean entropy {:.4} nats",
        messages::counted(total, "response"),
        messages::counted(tokens, "token"),
        tokens as f64 / seconds,
        entropy / tokens.max(1) as f64
    ))
}

/// Keeps the finished responses, and returns the interrupted command's error.
fn interrupted(
    display: &mut Display,
    asked: Asked<'_>,
    waiting: BTreeMap<usize, Completion>,
) -> Result<anyhow::Error> {
    let Display::Lines(mut output) = std::mem::replace(display, Display::Headed) else {
        return Ok(Interrupted { kept: "what was sampled so far has been printed".into() }.into());
    };
    for (index, completion) in &waiting {
        asked.write(&mut output, *index, completion)?;
    }
    output.interrupted("the responses finished so far")
}

/// The text, or the tokens if there is no tokenizer.
fn shown_text(completion: &Completion) -> String {
    completion.text.clone().unwrap_or_else(|| format!("{:?}", completion.tokens))
}

fn name(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        other => format!("prompt {other}"),
    }
}
