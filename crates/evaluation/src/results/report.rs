//! The numbers of an evaluation's directory, with their intervals.

use super::manifest::decoding_of;
use super::response_log::{problems, responses};
use crate::error::Result;
use crate::statistics::{Estimate, Outcome, Statistic, by_size, is_graded, ks, name_of_size, resampled};
use isentrope_reward::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A benchmark's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSummary {
    /// Problems that were asked.
    pub problems: usize,
    /// Responses to each.
    pub samples: usize,
    /// How they were drawn, such as "temperature 0.6, top-p 0.95"; none where the manifest does not tell.
    pub decoding: Option<String>,
    /// Names as in docs/evaluation.md, with 95 % intervals.
    pub estimates: BTreeMap<String, Estimate>,
    /// Whether some score is neither 0 nor 1.
    pub is_graded: bool,
    /// Responses by verdict.
    pub verdicts: BTreeMap<String, usize>,
}

/// The numbers of all complete benchmarks of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// By name, in the order in which they were first asked for.
    pub benchmarks: Vec<(String, BenchmarkSummary)>,
    /// Mean of the benchmarks' mean@k: each weighs the same, whatever its size.
    pub mean_of_benchmarks: Option<Estimate>,
}

impl Report {
    /// Sums up the benchmarks of a manifest that are complete in a directory.
    pub(super) fn of(dir: &Path, manifest: &Value) -> Result<Self> {
        let mut benchmarks = Vec::new();
        let mut means: Vec<(f64, Vec<f64>)> = Vec::new();
        for (name, settings) in manifest["benchmarks"].as_object().into_iter().flatten() {
            let path = responses(dir, name);
            if path.exists() {
                let (mut summary, mean) = summarize(name, problems(&path)?);
                summary.decoding = decoding_of(settings);
                benchmarks.push((name.clone(), summary));
                means.extend(mean);
            }
        }
        let mean_of_benchmarks = (benchmarks.len() > 1 && means.len() == benchmarks.len()).then(|| {
            let count = means.len() as f64;
            let value = means.iter().map(|(value, _)| value).sum::<f64>() / count;
            let drawn =
                (0..means[0].1.len()).map(|i| means.iter().map(|(_, drawn)| drawn[i]).sum::<f64>() / count);
            Estimate::new(value, drawn.collect())
        });
        Ok(Self { benchmarks, mean_of_benchmarks })
    }

    /// As results.json has it.
    pub(super) fn to_json(&self) -> Value {
        let benchmarks: Map<String, Value> =
            self.benchmarks.iter().map(|(name, summary)| (name.clone(), json!(summary))).collect();
        json!({
            "benchmarks": benchmarks,
            "mean_of_benchmarks": self.mean_of_benchmarks,
            "intervals": "95 %, percentile bootstrap over problems, 2000 resamples",
        })
    }
}

/// A benchmark's numbers, and its mean@k with the values that it takes in the resampled sets.
fn summarize(
    name: &str,
    problems: Vec<(Value, Vec<Outcome>)>,
) -> (BenchmarkSummary, Option<(f64, Vec<f64>)>) {
    let (ground_truths, problems): (Vec<Value>, Vec<Vec<Outcome>>) = problems.into_iter().unzip();
    let sizes = by_size(ground_truths.iter());
    let problems = &problems[..];
    let samples = problems.iter().map(Vec::len).max().unwrap_or(0);
    let mut named = vec![(format!("mean@{samples}"), Statistic::Mean)];
    named.extend(ks(samples).into_iter().map(|k| (format!("pass@{k}"), Statistic::Pass(k))));
    named.push((format!("maj@{samples}"), Statistic::Majority));
    named.push(("score".into(), Statistic::Score));
    named.push(("truncated".into(), Statistic::Truncated));
    named.push(("length_mean".into(), Statistic::Length));
    named.push(("entropy".into(), Statistic::Entropy));
    named.push(("faults".into(), Statistic::Faults));
    let valued: Vec<(String, Statistic, f64)> = named
        .into_iter()
        .filter_map(|(name, statistic)| Some((name, statistic, statistic.value(problems)?)))
        .collect();
    let parts: Vec<Vec<(f64, f64)>> = valued
        .iter()
        .map(|(_, statistic, _)| problems.iter().map(|problem| statistic.of(problem)).collect())
        .collect();
    let mut mean = None;
    let mut estimates = BTreeMap::new();
    for ((name, statistic, value), drawn) in valued.into_iter().zip(resampled(name, &parts)) {
        if statistic == Statistic::Mean {
            mean = Some((value, drawn.clone()));
        }
        estimates.insert(name, Estimate::new(value, drawn));
    }
    for (size, places) in sizes {
        let its: Vec<Vec<Outcome>> = places.into_iter().map(|place| problems[place].clone()).collect();
        let key = name_of_size(samples, size);
        let parts = its.iter().map(|problem| Statistic::Mean.of(problem)).collect();
        if let (Some(value), Some(drawn)) =
            (Statistic::Mean.value(&its), resampled(&format!("{name} {key}"), &[parts]).pop())
        {
            estimates.insert(key, Estimate::new(value, drawn));
        }
    }
    let mut verdicts: BTreeMap<String, usize> =
        Verdict::ALL.iter().map(|verdict| (verdict.name().to_owned(), 0)).collect();
    for outcome in problems.iter().flatten() {
        *verdicts.entry(outcome.verdict.name().to_owned()).or_default() += 1;
    }
    (
        BenchmarkSummary {
            problems: problems.len(),
            samples,
            decoding: None,
            estimates,
            is_graded: is_graded(problems.iter().flatten()),
            verdicts,
        },
        mean,
    )
}
