//! Times batched sampling, a forward pass, or one forward and backward, of a checkpoint: the work
//! that bench/run.py gives to both sides. Prints one JSON line per measurement; seconds are the
//! median over the repeats, after one warm-up.
#![allow(clippy::print_stdout, reason = "the terminal is what it is for")]

use anyhow::Result;
use clap::Parser;
use isentrope_kernels::{Cpu, Isa, thread_count};
use isentrope_model::{Derivatives, Gradient, KvCache, Model, Packed, Sequence, TapeKind};
use isentrope_rollout::{Engine, Event, Key, Limits, Request, Sampling};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(Parser)]
struct Arguments {
    model: PathBuf,
    /// Only one of the jobs: generate, score or train
    #[arg(long)]
    only: Option<String>,
    #[arg(long, default_value_t = 32)]
    prompts: usize,
    #[arg(long, default_value_t = 8)]
    group: usize,
    #[arg(long, default_value_t = 16)]
    prompt_tokens: usize,
    #[arg(long, default_value_t = 64)]
    new_tokens: usize,
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    #[arg(long)]
    threads: Option<usize>,
    /// Input tokens of a micro-batch
    #[arg(long, default_value_t = 640)]
    micro_batch_tokens: usize,
    /// Computes blocks again on the way back instead of keeping their activations
    #[arg(long)]
    recompute: bool,
}

fn main() -> Result<()> {
    let a = Arguments::parse();
    let isa = Isa::from_env().map_err(anyhow::Error::msg)?;
    let cpu = Cpu::new(isa, thread_count(a.threads).map_err(anyhow::Error::msg)?)
        .map_err(anyhow::Error::msg)?;
    let model = Model::load(&a.model, Arc::new(cpu))?;
    let vocabulary = model.config.vocab_size as u32;
    // Token ids that are not special and below 50, the range from which the opponent draws prompts.
    let prompts: Vec<Vec<u32>> = (0..a.prompts as u32)
        .map(|p| {
            (0..a.prompt_tokens as u32)
                .map(|i| 3 + (p * 31 + i * 17) % (vocabulary.min(50) - 3))
                .collect()
        })
        .collect();
    let sequences = a.prompts * a.group;
    let wanted = |job: &str| a.only.as_deref().is_none_or(|only| only == job);

    if wanted("generate") {
        let seconds = median(a.repeats, || generate(&model, &a, &prompts).map(drop))?;
        let new_tokens = sequences * a.new_tokens;
        println!(
            "{}",
            json!({"tool": "isentrope", "what": "generate", "sequences": sequences,
                   "seconds": seconds, "new_tokens_per_s": new_tokens as f64 / seconds})
        );
    }
    let tokens: Vec<Vec<u32>> = (0..sequences)
        .map(|s| {
            let response =
                (0..a.new_tokens as u32).map(|i| (i * 7919 + s as u32 * 104_729) % vocabulary);
            prompts[s / a.group].iter().copied().chain(response).collect()
        })
        .collect();
    let sequences_of_pass = (a.micro_batch_tokens / (a.prompt_tokens + a.new_tokens)).max(1);
    let micro_batches: Vec<Packed> = tokens
        .chunks(sequences_of_pass)
        .map(|batch| {
            let sequences: Vec<Sequence<'_>> =
                batch.iter().map(|t| Sequence { tokens: t, score_from: a.prompt_tokens }).collect();
            Packed::new(&sequences)
        })
        .collect();
    let report = |what: &str, seconds: f64| {
        let all = sequences * (a.prompt_tokens + a.new_tokens - 1);
        println!(
            "{}",
            json!({"tool": "isentrope", "what": what, "sequences": sequences, "seconds": seconds,
                   "tokens_per_s": all as f64 / seconds})
        );
    };
    if wanted("score") {
        let seconds = median(a.repeats, || {
            micro_batches.iter().for_each(|packed| drop(model.score(packed, 1.0)));
            Ok(())
        })?;
        report("forward", seconds);
    }
    if wanted("train") {
        let keep = if a.recompute { TapeKind::BlockInputs } else { TapeKind::Activations };
        let mut gradient = Gradient::zeros(&model)?;
        let seconds = median(a.repeats, || {
            gradient.reset(&*model.backend);
            for packed in &micro_batches {
                let targets = packed.target_count();
                let (_, tape) = model.forward(packed.clone(), 1.0, keep);
                let coefficient = vec![-1.0 / (sequences * a.new_tokens) as f32; targets];
                model.backward(
                    tape,
                    Derivatives::of(&coefficient, &vec![0.0; targets]),
                    &mut gradient,
                );
            }
            gradient.finish(&model);
            Ok(())
        })?;
        report("forward+backward", seconds);
    }
    Ok(())
}

fn generate(model: &Model, a: &Arguments, prompts: &[Vec<u32>]) -> Result<usize> {
    let sampling =
        Arc::new(Sampling { max_tokens: a.new_tokens, ignore_eos: true, ..Sampling::default() });
    let of_sequence =
        model.layout.pages_of_sequence(&*model.backend, a.prompt_tokens + a.new_tokens);
    let pages = a.prompts * a.group * of_sequence;
    let limits = Limits { cache_bytes: pages * KvCache::page_bytes(model), ..Limits::default() };
    let mut engine = Engine::new(model, None, limits)?;
    for (i, prompt) in prompts.iter().enumerate() {
        let key = Key { prompt: i as u64, ..Key::default() };
        engine.submit(Request {
            key,
            prompt: prompt.clone(),
            samples: (0..a.group).collect(),
            sampling: sampling.clone(),
            cache_activations: false,
        })?;
    }
    let mut tokens = 0;
    while !engine.is_idle() {
        tokens += engine.step()?.iter().filter(|e| matches!(e, Event::Token { .. })).count();
    }
    anyhow::ensure!(
        tokens == prompts.len() * a.group * a.new_tokens,
        "not every token was sampled"
    );
    Ok(tokens)
}

fn median(repeats: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    run()?;
    let mut seconds = Vec::new();
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}
