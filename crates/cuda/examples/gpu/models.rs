//! Whole models of the shapes of Qwen2.5-0.5B and Qwen2.5-7B with random weights that are drawn on the device: whether what is
//! sampled has the bits that training computes for it, and how many tokens a second are sampled and trained.

use crate::Scale;
use crate::qwen2::{HALF, Qwen2, SEVEN};
use crate::report::{Report, Work};
use isentrope_cuda::{Cuda, Device};
use isentrope_kernels::{Backend, Draw, Kind};
use isentrope_model::{Derivatives, Gradient, Keep, KvCache, Model, Packed, Sequence, Step};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Models, and sequences of each that are sampled together.
const MODELS: [(Qwen2, usize); 2] = [(HALF, 64), (SEVEN, 16)];
/// Tokens of a prompt, and tokens that are sampled after it.
const PROMPT: usize = 256;
const SAMPLED: usize = 64;

/// Both models, one after the other.
pub fn models<D: Device>(device: &Arc<D>, scale: Scale, report: &mut Report) {
    for (whole, sequences) in MODELS {
        let name = format!("Qwen2.5-{}", whole.name);
        // In miniature, one layer and a few short sequences.
        let is_small = scale.divisor > 1;
        let of = |number: usize| (number / scale.divisor).next_multiple_of(16);
        let (layers, sequences) = if is_small { (1, 2) } else { (whole.layers, sequences) };
        let (prompt, sampled) = if is_small { (5, 3) } else { (PROMPT, SAMPLED) };
        let Qwen2 { hidden, intermediate, vocabulary, .. } = whole;
        let [hidden, intermediate, vocabulary] = [hidden, intermediate, vocabulary].map(of);
        let mut config = Qwen2 { hidden, intermediate, vocabulary, layers, ..whole }.config();
        config["head_dim"] = json!(if is_small { 16 } else { whole.hidden / whole.heads });
        let directory = std::env::temp_dir().join(format!("gpu-models-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
        let backend = Arc::new(Cuda::new(device.clone(), isentrope_cuda::Dtype::Bf16));
        let model = Model::zeros(&directory, backend);
        std::fs::remove_dir_all(&directory).unwrap();
        let mut model = match model {
            Ok(model) => model,
            Err(error) => {
                report.verdict("models", &name, Ok(format!("not measured: {error}")));
                continue;
            }
        };
        draw_weights(&mut model);
        measure(&name, &model, [sequences, prompt, sampled], report);
    }
}

fn draw_weights<D: Device>(model: &mut Model<Cuda<D>>) {
    let kinds: Vec<_> = model.layout.parameters.iter().map(|parameter| parameter.kind).collect();
    for (seed, (kind, buffer)) in (1..).zip(kinds.into_iter().zip(model.weights.buffers_mut())) {
        match kind {
            Kind::Matrix(shape) => {
                model.backend.draw_weight(buffer, seed << 40, (3.0 / shape.inputs as f32).sqrt());
            }
            Kind::Vector(_) => model.backend.fill(buffer, 1.0),
        }
    }
}

fn measure<D: Device>(
    name: &str,
    model: &Model<Cuda<D>>,
    [sequences, prompt, sampled]: [usize; 3],
    report: &mut Report,
) {
    let numbers: usize = model.weights.buffers().iter().map(isentrope_cuda::CudaBuffer::numbers).sum();
    let flop = |tokens: usize| 2.0 * numbers as f64 * tokens as f64;
    let vocabulary = model.config.vocab_size as u32;
    let mut texts: Vec<Vec<u32>> = (0..sequences as u32)
        .map(|s| (0..prompt as u32).map(|i| (s * 7919 + i * 104_729) % vocabulary).collect())
        .collect();
    let pages_each = KvCache::<Cuda<D>>::pages_for(prompt + sampled);
    let mut cache = match KvCache::new(model, sequences * pages_each) {
        Ok(cache) => cache,
        Err(error) => return report.verdict("models", name, Ok(format!("not measured: {error}"))),
    };
    let pages: Vec<Vec<u32>> = (0..sequences)
        .map(|_| (0..pages_each).map(|_| cache.take().expect("as many as there are")).collect())
        .collect();
    let mut seconds = [0.0; 2];
    let mut drawn_logprobs = vec![Vec::new(); sequences];
    let mut read = |texts: &mut [Vec<u32>], drawing| {
        for (row, drawn) in model.drawn(drawing).into_iter().enumerate() {
            let drawn = drawn.expect("finite logits");
            texts[row].push(drawn.token);
            drawn_logprobs[row].push(drawn.logprob.to_bits());
        }
    };
    // As the sampler does: draws are read when the step behind them has been asked for.
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
            .map(|row| Draw::at_temperature(1.0, row, ((row * 31 + number * 17) % 97) as f64 / 97.0))
            .collect();
        let (tokens, before) = behind.unzip();
        let hidden = model.step_after(tokens.as_ref(), &step, &mut cache, None);
        drop(tokens);
        behind = Some(model.begin_draw(&hidden, &draws));
        if let Some(before) = before {
            read(&mut texts, before);
        }
        if number == 0 || number + 1 == sampled {
            model.backend.device().synchronize();
        }
        seconds[usize::from(number > 0)] += started.elapsed().as_secs_f64();
    }
    if let Some((_, last)) = behind {
        read(&mut texts, last);
    }
    let time = |report: &mut Report, what: &str, seconds: f64, tokens: usize, passes: f64| {
        let per_second = tokens as f64 / seconds;
        let what = format!("{name}, {what}: {per_second:.0} tokens a second");
        report.time("models", &what, seconds, Work { bytes: 0.0, flop: passes * flop(tokens) });
    };
    time(report, "prefill", seconds[0], sequences * prompt, 1.0);
    time(report, &format!("decoding {sequences} sequences"), seconds[1], sequences * (sampled - 1), 1.0);
    drop(cache);

    let packed = |texts: &[Vec<u32>]| {
        let sequences: Vec<_> = texts.iter().map(|tokens| Sequence { tokens, score_from: prompt }).collect();
        Packed::new(&sequences)
    };
    let scored = model.score(&packed(&texts), 1.0);
    let bits: Vec<u32> = scored.logprobs.iter().map(|logprob| logprob.to_bits()).collect();
    let verdict = if bits == drawn_logprobs.concat() {
        Ok(format!("{} tokens have the bits with which they were drawn", bits.len()))
    } else {
        Err("scores of tokens are not those with which they were drawn".to_owned())
    };
    report.verdict("models", &format!("{name}, sampling against training"), verdict);

    let mut gradient = match Gradient::zeros(model) {
        Ok(gradient) => gradient,
        Err(error) => return report.verdict("models", name, Ok(format!("no training: {error}"))),
    };
    let coefficients = vec![1.0; bits.len()];
    let mut pass = || {
        let started = Instant::now();
        let (_, tape) = model.forward(packed(&texts), 1.0, Keep::BlockInputs);
        model.backward(tape, Derivatives::of(&coefficients, &coefficients), &mut gradient);
        model.backend.device().synchronize();
        started.elapsed().as_secs_f64()
    };
    pass();
    let seconds = pass();
    // Forward, again for what is not kept, and back by inputs and weights.
    time(report, "forward and backward", seconds, sequences * (prompt + sampled), 4.0);
}
