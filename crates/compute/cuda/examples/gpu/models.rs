//! Whole models of the shapes of Qwen2.5-0.5B and Qwen2.5-7B with random weights drawn on the
//! device. Checks that sampling has the bits of training, and measures tokens a second of both.

use crate::Scale;
use crate::peak::most_taken;
use crate::qwen2::{HALF, Qwen2, SEVEN};
use crate::report::{Pace, Report, median};
use isentrope_cuda::{Cuda, Device, Dtype};
use isentrope_kernels::{Backend, Draw, Kind};
use isentrope_model::{Derivatives, Gradient, KvCache, Model, Packed, Sequence, Step, TapeKind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Models, and sequences of each that are sampled together.
pub const MODELS: [(Qwen2, usize); 2] = [(HALF, 64), (SEVEN, 16)];
/// Tokens of a prompt, and tokens that are sampled after it.
const PROMPT: usize = 256;
const SAMPLED: usize = 64;
/// Repetitions of a timing; the median counts.
pub const REPEATS: usize = 3;
/// Most responses to a prompt.
const GROUP: usize = 8;

/// The sizes at which a model is measured, here and by opponents.
pub struct Sizes {
    pub name: String,
    /// Its config.json.
    pub config: Value,
    pub sequences: usize,
    /// Tokens of each.
    pub prompt: usize,
    pub sampled: usize,
}

impl Sizes {
    /// The sizes of a model. In miniature it has one layer and a few short sequences.
    pub fn of((whole, sequences): &(Qwen2, usize), scale: Scale) -> Self {
        let name = format!("Qwen2.5-{}", whole.name);
        let mut config = whole.config();
        config["head_dim"] = json!(whole.hidden / whole.heads);
        if scale.divisor == 1 {
            return Self { name, config, sequences: *sequences, prompt: PROMPT, sampled: SAMPLED };
        }
        for (key, number) in [
            ("hidden_size", whole.hidden),
            ("intermediate_size", whole.intermediate),
            ("vocab_size", whole.vocabulary),
        ] {
            config[key] = json!((number / scale.divisor).next_multiple_of(16));
        }
        config["num_hidden_layers"] = json!(1);
        config["head_dim"] = json!(16);
        Self { name, config, sequences: 2, prompt: 5, sampled: 3 }
    }

    /// Responses to a prompt.
    pub fn group(&self) -> usize {
        GROUP.min(self.sequences)
    }

    /// Prompts of a step: sequences divided by the group size.
    pub fn prompts(&self) -> usize {
        self.sequences / self.group()
    }

    /// Name of a step of GRPO.
    pub fn step(&self) -> String {
        format!("{}, GRPO step, {} x {} responses", self.name, self.prompts(), self.group())
    }
}

/// Both models, one after the other.
pub fn models(device: &Arc<dyn Device>, scale: Scale, report: &mut Report) {
    for model in &MODELS {
        let sizes = Sizes::of(model, scale);
        let free = device.memory_info().free;
        match build(device, Dtype::Bf16, &sizes.config) {
            Ok((model, _)) => measure(&**device, &sizes, &model, free, report),
            Err(error) => report.remark("models", &sizes.name, &format!("not measured: {error}")),
        }
    }
}

/// A model with random weights, which are drawn on the device.
///
/// # Errors
/// When there is no memory for it.
pub fn build(
    device: &Arc<dyn Device>,
    dtype: Dtype,
    config: &Value,
) -> isentrope_model::Result<(Model, Arc<Cuda>)> {
    let directory = tempfile::tempdir().expect("a directory for a file of a kilobyte");
    std::fs::write(directory.path().join("config.json"), config.to_string()).expect("a kilobyte");
    let cuda = Arc::new(Cuda::new(device.clone(), dtype));
    let mut model = Model::zeros(directory.path(), cuda.clone())?;
    draw_weights(&mut model, &cuda);
    Ok((model, cuda))
}

fn draw_weights(model: &mut Model, cuda: &Cuda) {
    let kinds: Vec<_> = model.layout.parameters.iter().map(|parameter| parameter.kind).collect();
    for (seed, (kind, buffer)) in
        (1..).zip(kinds.into_iter().zip(model.trained_mut().buffers_mut()))
    {
        match kind {
            Kind::Matrix(shape) => {
                cuda.draw_weight(buffer, seed << 40, (3.0 / shape.inputs as f32).sqrt());
            }
            Kind::Vector(_) => cuda.fill(buffer, 1.0),
        }
    }
}

fn measure(device: &dyn Device, sizes: &Sizes, model: &Model, free: usize, report: &mut Report) {
    let Sizes { name, sequences, prompt, sampled, .. } = sizes;
    let (sequences, prompt, sampled) = (*sequences, *prompt, *sampled);
    let numbers: usize = model.layout.parameters.numbers(&*model.backend).sum();
    let pace = |seconds, tokens, passes: f64, memory| {
        let flop = passes * 2.0 * numbers as f64 * tokens as f64;
        Pace { seconds, tokens, flop, memory }
    };
    // The first sampling warms up and measures memory. Asking for free memory takes the driver's
    // time, so the second is timed without it.
    let (warm, memory) = most_taken(device, free, || sample(device, sizes, model).map(drop));
    let again =
        |()| (0..REPEATS).map(|_| sample(device, sizes, model)).collect::<Result<Vec<_>, _>>();
    let mut samplings = match warm.and_then(again) {
        Ok(samplings) => samplings,
        Err(error) => return report.remark("models", name, &format!("not measured: {error}")),
    };
    let of =
        |phase: usize| median(samplings.iter().map(|sampling| sampling.seconds[phase]).collect());
    let (prefill, decoding) = (of(0), of(1));
    let Sampled { texts, logprobs, .. } = samplings.remove(0);
    report.pace(
        "models",
        &format!("{name}, prefill"),
        pace(prefill, sequences * prompt, 1.0, memory),
        "",
    );
    let decoded = pace(decoding, sequences * (sampled - 1), 1.0, memory);
    report.pace("models", &format!("{name}, decoding {sequences} sequences"), decoded, "");

    let packed = |texts: &[Vec<u32>]| {
        let sequences: Vec<_> =
            texts.iter().map(|tokens| Sequence { tokens, score_from: prompt }).collect();
        Packed::new(&sequences)
    };
    let scored = model.score(&packed(&texts), 1.0);
    let bits: Vec<u32> = scored.logprobs.iter().map(|logprob| logprob.to_bits()).collect();
    let verdict = if bits == logprobs.concat() {
        Ok(format!("{} tokens have the bits with which they were drawn", bits.len()))
    } else {
        Err("scores of tokens are not those with which they were drawn".to_owned())
    };
    report.verdict("models", &format!("{name}, sampling against training"), verdict);

    let mut gradient = match Gradient::zeros(model) {
        Ok(gradient) => gradient,
        Err(error) => return report.remark("models", name, &format!("no training: {error}")),
    };
    let coefficients = vec![1.0; bits.len()];
    let mut pass = || {
        let started = Instant::now();
        let (_, tape) = model.forward(packed(&texts), 1.0, TapeKind::BlockInputs);
        model.backward(tape, Derivatives::of(&coefficients, &coefficients), &mut gradient);
        device.synchronize();
        started.elapsed().as_secs_f64()
    };
    let (_, memory) = most_taken(device, free, &mut pass);
    let seconds = median((0..REPEATS).map(|_| pass()).collect());
    // One pass forward, another for activations that are not kept, and the backward pass by inputs
    // and by weights.
    let pace = pace(seconds, sequences * (prompt + sampled), 4.0, memory);
    let kept = "inputs of blocks are kept, the rest is computed again";
    report.pace("models", &format!("{name}, forward and backward"), pace, kept);
}

/// Sequences that were sampled.
struct Sampled {
    /// With their prompts.
    texts: Vec<Vec<u32>>,
    /// The bits of each token's log-prob.
    logprobs: Vec<Vec<u32>>,
    /// Seconds of the prefill, and of everything after it.
    seconds: [f64; 2],
}

fn sample(device: &dyn Device, sizes: &Sizes, model: &Model) -> isentrope_model::Result<Sampled> {
    let Sizes { sequences, prompt, sampled, .. } = *sizes;
    let vocabulary = model.config.vocab_size as u32;
    let mut texts: Vec<Vec<u32>> = (0..sequences as u32)
        .map(|s| (0..prompt as u32).map(|i| (s * 7919 + i * 104_729) % vocabulary).collect())
        .collect();
    let pages_each = KvCache::pages_for(model, prompt + sampled);
    let mut cache = KvCache::new(model, sequences * pages_each)?;
    let pages: Vec<Vec<u32>> = (0..sequences)
        .map(|_| (0..pages_each).map(|_| cache.take().expect("as many as there are")).collect())
        .collect();
    let mut seconds = [0.0; 2];
    let mut logprobs = vec![Vec::new(); sequences];
    let mut read = |texts: &mut [Vec<u32>], drawing| {
        for (row, drawn) in model.drawn(drawing).into_iter().enumerate() {
            let drawn = drawn.expect("finite logits");
            texts[row].push(drawn.token);
            logprobs[row].push(drawn.logprob.to_bits());
        }
    };
    // Like the sampler, reads draws after the next step has been asked for.
    let mut behind = None;
    for number in 0..sampled {
        let started = Instant::now();
        let mut step = Step::default();
        for (row, (text, pages)) in texts.iter().zip(&pages).enumerate() {
            match behind {
                None => step.push(text, 0, pages, true),
                Some(_) => step.push_drawn(row, prompt + number - 1, pages),
            }
        }
        let draws: Vec<Draw> = (0..sequences)
            .map(|row| {
                Draw::at_temperature(1.0, row, ((row * 31 + number * 17) % 97) as f64 / 97.0)
            })
            .collect();
        let (tokens, before) = behind.unzip();
        let hidden = model.step_after(tokens.as_ref(), &step, &mut cache, None);
        drop(tokens);
        behind = Some(model.begin_draw(&hidden, &draws));
        if let Some(before) = before {
            read(&mut texts, before);
        }
        if number == 0 || number + 1 == sampled {
            device.synchronize();
        }
        seconds[usize::from(number > 0)] += started.elapsed().as_secs_f64();
    }
    if let Some((_, last)) = behind {
        read(&mut texts, last);
    }
    Ok(Sampled { texts, logprobs, seconds })
}
