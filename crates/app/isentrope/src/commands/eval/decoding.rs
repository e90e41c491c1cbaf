//! Sampling flags that override a benchmark's own decoding.

use crate::sampling_flags::SamplingFlags;
use anyhow::{Result, anyhow};
use isentrope_data::benchmark::Decoding;
use isentrope_model::generation_config::GenerationConfig;
use isentrope_rollout::Sampling;
use serde_json::{Map, Value, json};
use std::path::Path;

impl SamplingFlags {
    /// The temperature of the flag, else the benchmark's.
    pub fn temperature(&self, benchmark: &Decoding) -> f32 {
        self.temperature.unwrap_or(benchmark.temperature)
    }

    /// How the responses to a benchmark are drawn at a temperature.
    pub fn sampling(&self, temperature: f32) -> Result<Sampling> {
        let sampling = Sampling { temperature, ..self.truncation() };
        sampling.check().map_err(|e| anyhow!("--{e}"))?;
        Ok(sampling)
    }

    /// The settings that are the same for all benchmarks.
    pub fn truncation(&self) -> Sampling {
        let temperature = Sampling::default().temperature;
        Sampling { temperature, ..self.over(Sampling::default()) }
    }

    /// These settings in a manifest. A setting that is off is left out, as in manifests from before
    /// the flags.
    pub fn settings(&self) -> Map<String, Value> {
        let Sampling { top_k, top_p, min_p, .. } = self.truncation();
        let all = [
            ("top_k", top_k > 0, json!(top_k)),
            ("top_p", top_p < 1.0, json!(top_p)),
            ("min_p", min_p > 0.0, json!(min_p)),
        ];
        all.into_iter()
            .filter(|(_, on, _)| *on)
            .map(|(key, _, value)| (key.to_owned(), value))
            .collect()
    }

    /// Flags that have no effect on greedy responses, if any is given.
    pub fn without_effect_if_greedy(&self) -> Option<String> {
        let given = [
            ("--top-p", self.top_p.is_some_and(|p| p < 1.0)),
            ("--top-k", self.top_k.is_some_and(|k| k > 0)),
            ("--min-p", self.min_p.is_some_and(|p| p > 0.0)),
        ];
        let names: Vec<&str> =
            given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// A note that the model's authors recommend another decoding, with its flags; none if a flag
    /// is given.
    pub fn recommended(&self, dir: &Path) -> Result<Option<String>> {
        let Self { temperature, top_p, top_k, min_p, .. } = self;
        if temperature.is_some() || top_p.is_some() || top_k.is_some() || min_p.is_some() {
            return Ok(None);
        }
        let GenerationConfig { do_sample, temperature, top_p, top_k, min_p, .. } =
            GenerationConfig::read(dir)?;
        let flags = [
            // Temperature 1 alone is plain sampling, not a recommendation.
            temperature.map(|t| format!("--temperature {t}")),
            top_p.filter(|&p| p < 1.0).map(|p| format!("--top-p {p}")),
            top_k.filter(|&k| k > 0).map(|k| format!("--top-k {k}")),
            min_p.filter(|&p| p > 0.0).map(|p| format!("--min-p {p}")),
        ];
        let flags: Vec<String> = flags.into_iter().flatten().collect();
        let plain = flags.is_empty() || flags == ["--temperature 1"];
        Ok((do_sample == Some(true) && !plain).then(|| {
            format!(
                "benchmarks are decoded as they define it; the model's generation_config.json \
                 recommends {}",
                flags.join(" ")
            )
        }))
    }
}
