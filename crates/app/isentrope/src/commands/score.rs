//! `isentrope score`: log-probs and entropies of given texts.

use crate::interrupt;
use crate::lines::{self, Line};
use crate::loaded_model::{Loaded, ModelArguments, warn_of_losses};
use crate::messages;
use crate::output::Output;
use crate::progress::Work;
use crate::template_flags::TemplateFlags;
use anyhow::{Result, bail};
use clap::Args;
use isentrope_data::DataSettings;
use isentrope_model::chat_template::{ChatTemplate, Date};
use isentrope_model::{Packed, Scores, Sequence};
use isentrope_rollout::template_variables;
use isentrope_run::tokens::GivenRanges;
use serde::Serialize;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

/// Tokens that go through the model together. Results do not depend on it.
const BATCH_TOKENS: usize = 2048;
/// The temperatures that a model can be scored at.
const TEMPERATURES: RangeInclusive<f32> = 0.01..=100.0;
/// The ratio of probabilities that trainers commonly clip or alarm at.
const RATIO_TOLERANCE: f64 = 0.1;

/// Log-probs and entropies of texts under a model
///
/// Each input line is {"tokens": [ids]}, {"prompt": text, "response": text} or {"messages": [...]}.
/// Each output line has "tokens", "logprobs" and "entropies" (in nats); entry i belongs to
/// tokens[i+1] given tokens[..=i]. With prompt and response, and where a tokens line says
/// {"prompt_tokens": K}, only the response's entries are given; "prompt_tokens" then counts the
/// tokens before it, or is a list of them, which "tokens" then lacks (as `generate` writes it), and
/// {"given": [[FROM, TO], ...]} names tokens of the response that the model was given between its
/// turns: they are scored and count in no mean. A line may say at which temperature: the token
/// records of a run (RUN/tokens) do, so that they are scored as they were sampled.
///
/// If a line carries another engine's "logprobs", one per entry, the output adds "mismatch": mean
/// and max |difference|, and the share of probability ratios outside [0.9, 1.1]; a total follows at
/// the end.
#[derive(Args)]
#[allow(rustdoc::broken_intra_doc_links, reason = "this is the help on the terminal, not Markdown")]
pub struct Score {
    #[command(flatten)]
    model: ModelArguments,
    /// JSON lines to score, or another data file with these columns; - is standard input
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// File of the JSON lines; - is standard output, the default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    template_flags: TemplateFlags,
    /// Divisor of the logits [default: the "temperature" of each line, else 1]
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
}

/// A line, understood.
struct Item {
    id: Value,
    tokens: Vec<u32>,
    /// First token that is scored.
    from: usize,
    /// Whether the line has prompt and response apart.
    split: bool,
    /// Divisor of the logits.
    temperature: f32,
    theirs: Option<Vec<f32>>,
    /// Scored tokens that a model was given between its turns: they count in no mean.
    given: GivenRanges,
}

#[derive(Serialize)]
struct Record<'a> {
    id: &'a Value,
    tokens: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<usize>,
    logprobs: &'a [f32],
    entropies: &'a [f32],
    #[serde(skip_serializing_if = "Option::is_none")]
    mismatch: Option<MismatchRecord>,
}

#[derive(Serialize)]
struct MismatchRecord {
    mean: f64,
    max: f64,
    outside: f64,
}

/// How another engine's log-probs differ from ours.
#[derive(Default)]
struct Mismatch {
    count: usize,
    sum: f64,
    max: f64,
    outside: usize,
}

impl Mismatch {
    fn of(ours: &[f32], theirs: &[f32], given: &GivenRanges) -> Self {
        let mut mismatch = Self::default();
        for (&ours, &theirs) in given.sampled(ours.len()).map(|at| (&ours[at], &theirs[at])) {
            let difference = f64::from(theirs) - f64::from(ours);
            mismatch.count += 1;
            mismatch.sum += difference.abs();
            mismatch.max = mismatch.max.max(difference.abs());
            mismatch.outside += usize::from((difference.exp() - 1.0).abs() > RATIO_TOLERANCE);
        }
        mismatch
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.outside += other.outside;
    }

    fn record(&self) -> MismatchRecord {
        let count = self.count.max(1) as f64;
        MismatchRecord {
            mean: self.sum / count,
            max: self.max,
            outside: self.outside as f64 / count,
        }
    }
}

impl Score {
    pub fn run(self) -> Result<()> {
        if let Some(temperature) = self.temperature.filter(|t| !TEMPERATURES.contains(t)) {
            bail!("--temperature is {temperature}: it must be from 0.01 to 100");
        }
        let lines = lines::read(&self.input)?;
        let output = Output::create(self.out.as_deref())?;
        self.model.run(|loaded| self.score(&lines, output, loaded))
    }

    /// The command's work, once there is a model.
    fn score(&self, lines: &[Line], mut output: Output, loaded: &Loaded) -> Result<()> {
        let items = understand(loaded, lines, &self.template_flags.settings(), self.temperature)?;

        interrupt::wind_up_first("keeping the lines scored so far");
        let started = Instant::now();
        let tokens: usize = items.iter().map(|i| i.tokens.len()).sum();
        let mut work = Work::new("tokens", Some(tokens as u64), false);
        let (mut total, mut done, mut scored, mut entropy) = (Mismatch::default(), 0, 0, 0.0);
        let mut rest = &items[..];
        while !rest.is_empty() {
            if interrupt::requested() {
                return Err(output.interrupted("the lines scored so far")?);
            }
            let (batch, after) = rest.split_at(batch_len(rest));
            rest = after;
            let sequences: Vec<Sequence<'_>> =
                batch.iter().map(|i| Sequence { tokens: &i.tokens, score_from: i.from }).collect();
            let Scores { logprobs, entropies, .. } =
                loaded.model.score(&Packed::new(&sequences), batch[0].temperature);
            let mut at = 0;
            for item in batch {
                let count = item.tokens.len() - item.from;
                let (lp, h) = (&logprobs[at..at + count], &entropies[at..at + count]);
                at += count;
                if lp.iter().chain(h).any(|x| !x.is_finite()) {
                    bail!(
                        "the model's log-probs are not finite: its weights or its configuration \
                         are damaged"
                    );
                }
                let mismatch =
                    item.theirs.as_ref().map(|theirs| Mismatch::of(lp, theirs, &item.given));
                if let Some(mismatch) = &mismatch {
                    total.add(mismatch);
                }
                output.line(&Record {
                    id: &item.id,
                    tokens: &item.tokens,
                    prompt_tokens: item.split.then_some(item.from),
                    logprobs: lp,
                    entropies: h,
                    mismatch: mismatch.map(|m| m.record()),
                })?;
                scored += count - item.given.count();
                entropy += item.given.sampled(count).map(|at| f64::from(h[at])).sum::<f64>();
                done += item.tokens.len();
            }
            let speed = done as f64 / started.elapsed().as_secs_f64();
            work.advance(done as u64, &format!("{speed:.0} tokens/s"));
        }
        work.finish();
        output.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        messages::say(&format!(
            "scored {} of {} in {seconds:.1} s ({:.0} tokens/s), mean entropy {:.4} nats",
            messages::counted(scored, "token"),
            messages::counted(items.len(), "line"),
            done as f64 / seconds,
            entropy / (scored.max(1)) as f64,
        ));
        if total.count > 0 {
            let MismatchRecord { mean, max, outside } = total.record();
            messages::say(&format!(
                "mismatch over {}: mean |difference| {mean:.3e}, max {max:.3e}, ratios outside \
                 [0.9, 1.1] {:.3} %",
                messages::counted(total.count, "token"),
                100.0 * outside
            ));
        }
        Ok(())
    }
}

/// The number of items, from the first, that one pass scores: all of one temperature, at least one.
fn batch_len(items: &[Item]) -> usize {
    let (mut tokens, temperature) = (0, items[0].temperature);
    items
        .iter()
        .position(|item| {
            tokens += item.tokens.len();
            tokens > BATCH_TOKENS || item.temperature != temperature
        })
        .map_or(items.len(), |first_too_many| first_too_many.max(1))
}

/// How chats become text. The template is read when first needed: other lines need none.
struct Chats {
    variables: Map<String, Value>,
    date: Option<Date>,
    template: Option<ChatTemplate>,
}

fn understand(
    loaded: &Loaded,
    lines: &[Line],
    settings: &DataSettings,
    temperature: Option<f32>,
) -> Result<Vec<Item>> {
    let mut chats =
        Chats { variables: template_variables(settings), date: settings.date, template: None };
    let mut losses = Vec::new();
    let items = lines
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let item = item(loaded, line, i, temperature, &mut chats)?;
            losses.extend(loaded.take_dropped().map(|lost| line.error(lost)));
            Ok(item)
        })
        .collect::<Result<_>>()?;
    warn_of_losses(losses);
    Ok(items)
}

fn item(
    loaded: &Loaded,
    line: &Line,
    index: usize,
    temperature: Option<f32>,
    chats: &mut Chats,
) -> Result<Item> {
    refuse_responses_of_runs(line)?;
    let (tokens, from, split) = match line.one_of(&["tokens", "prompt", "messages"])? {
        "tokens" => {
            let tokens = line.tokens("tokens")?;
            match line.get("prompt_tokens") {
                None => (tokens, 1, false),
                Some(Value::Array(_)) => {
                    let prompt = line.tokens("prompt_tokens")?;
                    let from = prompt.len();
                    ([prompt, tokens].concat(), from, true)
                }
                Some(count) => {
                    let count = count.as_u64().filter(|&k| k >= 1 && k <= tokens.len() as u64);
                    let wrong = "\"prompt_tokens\" must be a whole number from 1 to the number of \
                                 tokens, or the prompt's tokens";
                    (tokens, count.ok_or_else(|| line.error(wrong))? as usize, true)
                }
            }
        }
        "prompt" => {
            let tokenizer = loaded.tokenizer()?;
            let prompt = line.text("prompt")?;
            let mut tokens = tokenizer.encode(prompt, true).map_err(|e| line.error(e))?;
            let from = tokens.len();
            let response = tokenizer.encode_after(prompt, line.text("response")?);
            tokens.extend(response.map_err(|e| line.error(e))?);
            (tokens, from, true)
        }
        _ => {
            let Chats { variables, date, template } = chats;
            let template = match template {
                Some(template) => template,
                none => none.insert(loaded.chat_template(*date)?),
            };
            let text = template
                .render(line.messages("messages")?, false, variables)
                .map_err(|e| line.error(e))?;
            (loaded.tokenizer()?.encode(&text, false).map_err(|e| line.error(e))?, 1, false)
        }
    };
    if from == 0 {
        let why = "the prompt is empty: the response's first token has nothing to follow";
        return Err(line.error(why));
    }
    if tokens.is_empty() {
        return Err(line.error("there are no tokens to score"));
    }
    loaded.model.check_tokens(&tokens).map_err(|e| line.error(e))?;
    let theirs = match line.get("logprobs") {
        None => None,
        Some(value) => Some(other_logprobs(line, value, tokens.len() - from)?),
    };
    let given = match line.get("given") {
        Some(ranges) if split => serde_json::from_value::<GivenRanges>(ranges.clone())
            .ok()
            .filter(|given| given.fits(tokens.len() - from))
            .ok_or_else(|| {
                line.error(
                    "\"given\" must be ranges of the response's tokens, such as [[12, 40]], with \
                     others before, between and behind them",
                )
            })?,
        _ => GivenRanges::default(),
    };
    let id = line.get("id").cloned().unwrap_or(index.into());
    let temperature = temperature.map_or_else(|| temperature_of(line), Ok)?;
    Ok(Item { id, tokens, from, split, temperature, theirs, given })
}

/// The responses that runs and evaluations keep lack tokens, and the prompt as the model has seen
/// it.
fn refuse_responses_of_runs(line: &Line) -> Result<()> {
    let is_count = line.get("tokens").is_some_and(Value::is_u64);
    if is_count && line.get("response").is_some() && line.get("verdict").is_some() {
        return Err(line.error(
            "is a response of a run or an evaluation, whose \"tokens\" is their number and whose \
             prompt is not the rendered \
             one; what can be scored are a run's token records, tokens/step-N.jsonl in its directory (lab.record_tokens in the \
             recipe says how many responses they are)",
        ));
    }
    Ok(())
}

/// The temperature at which a line is scored.
fn temperature_of(line: &Line) -> Result<f32> {
    let Some(value) = line.get("temperature") else { return Ok(1.0) };
    let temperature = value.as_f64().map(|t| t as f32).filter(|t| TEMPERATURES.contains(t));
    temperature.ok_or_else(|| {
        line.error(
            "\"temperature\" must be a number from 0.01 to 100; --temperature T scores every line \
             at T instead",
        )
    })
}

fn other_logprobs(line: &Line, value: &Value, expected: usize) -> Result<Vec<f32>> {
    // Temperatures are read as f32, in which engines compute, so that a file's few digits mean that
    // exact f32.
    let number = |value: &Value| {
        value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
    };
    let numbers: Option<Vec<f32>> = value.as_array().and_then(|a| a.iter().map(number).collect());
    match numbers {
        None => Err(line.error("\"logprobs\" must be a list of numbers")),
        Some(numbers) if numbers.len() != expected => Err(line.error(format_args!(
            "\"logprobs\" must have one number for each token scored, {expected} on this line, \
             and has {}",
            numbers.len()
        ))),
        Some(numbers) => Ok(numbers),
    }
}
