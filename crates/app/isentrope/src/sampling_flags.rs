//! Flags of `generate`, `chat` and `eval` that say how tokens are drawn.

use crate::loaded_model::Loaded;
use anyhow::{Context, Result};
use clap::Args;
use isentrope_model::generation_config::GenerationConfig;
use isentrope_rollout::Sampling;

/// How tokens are drawn, where responses end, and the memory that sampling may use.
#[derive(Args)]
pub struct SamplingFlags {
    /// Divisor of the logits; 0 takes the most likely token [default: the model's own;
    /// `eval`: the benchmark's]
    #[arg(long, value_name = "T")]
    pub temperature: Option<f32>,
    /// Samples among the most likely tokens that together have this probability [default: the
    /// model's own, else 1, all of them; `eval`: 1]
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Samples among this many most likely tokens; 0 is all [default: the model's own, else
    /// 0; `eval`: 0]
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Samples among tokens at least this many times as likely as the likeliest [default: the
    /// model's own, else 0, all of them; `eval`: 0]
    #[arg(long, value_name = "P")]
    pub min_p: Option<f32>,
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Ends a response where this text occurs, or this special token (repeatable)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Memory for keys and values, in MiB [default: half of what is available]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub kv_memory: Option<u64>,
}

impl SamplingFlags {
    /// Settings of sampling where the flags that are given stand in place of these.
    pub fn over(&self, settings: Sampling) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(settings.temperature),
            top_k: self.top_k.unwrap_or(settings.top_k),
            top_p: self.top_p.unwrap_or(settings.top_p),
            min_p: self.min_p.unwrap_or(settings.min_p),
            ..settings
        }
    }
}

/// The settings of sampling that a model's generation_config.json asks for, with defaults for all
/// others.
///
/// # Errors
/// When one of them is out of range.
pub fn of_model(loaded: &Loaded) -> Result<(Sampling, GenerationConfig)> {
    let config = loaded.generation_config()?;
    let defaults = Sampling::default();
    let sampling = Sampling {
        temperature: config.temperature.map_or(defaults.temperature, |t| t as f32),
        top_k: config.top_k.map_or(defaults.top_k, |k| k as usize),
        top_p: config.top_p.map_or(defaults.top_p, |p| p as f32),
        min_p: config.min_p.map_or(defaults.min_p, |p| p as f32),
        repetition_penalty: config
            .repetition_penalty
            .map_or(defaults.repetition_penalty, |r| r as f32),
        ..defaults
    };
    let file = || loaded.dir.join("generation_config.json").display().to_string();
    sampling.check().with_context(file)?;
    Ok((sampling, config))
}
