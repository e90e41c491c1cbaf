//! The numbers of an evaluation's directory, with their intervals.

use super::manifest::decoding_of;
use super::response_log::{AnsweredProblem, problems, responses};
use crate::error::Result;
use crate::statistics::of_verifier::Sums;
use crate::statistics::{
    Estimate, Outcome, Part, Statistic, is_graded, ks, of_verifier, parts, resampled,
};
use isentrope_reward::{ByMetric, Verdict};
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
    /// How the responses were drawn, such as "temperature 0.6, top-p 0.95"; none if the manifest
    /// does not say.
    pub decoding: Option<String>,
    /// Names as in docs/guides/evaluate.md, with 95 % intervals.
    pub estimates: BTreeMap<String, Estimate>,
    /// Whether some score is neither 0 nor 1.
    pub is_graded: bool,
    /// Responses by verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// The verifier's other metrics: the mean of each over the judged responses that have it, with
    /// 95 % intervals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Estimate>,
    /// A note if the verifier has more metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The numbers of all complete benchmarks of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Benchmarks by name, in the order in which they were first asked for.
    pub benchmarks: Vec<(String, BenchmarkSummary)>,
    /// Mean of the benchmarks' mean@k: every benchmark has the same weight.
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
        let mean_of_benchmarks =
            (benchmarks.len() > 1 && means.len() == benchmarks.len()).then(|| {
                let count = means.len() as f64;
                let value = means.iter().map(|(value, _)| value).sum::<f64>() / count;
                let drawn = (0..means[0].1.len())
                    .map(|i| means.iter().map(|(_, drawn)| drawn[i]).sum::<f64>() / count);
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

/// A benchmark's numbers, and its mean@k with its values in the resampled sets.
fn summarize(
    name: &str,
    problems: Vec<AnsweredProblem>,
) -> (BenchmarkSummary, Option<(f64, Vec<f64>)>) {
    let parts_of_set = parts(problems.iter().map(|of| (&*of.data_source, &of.ground_truth)));
    let problems: Vec<Vec<Outcome>> = problems.into_iter().map(|of| of.outcomes).collect();
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
    let any_failed = Statistic::Failed.value(problems).is_some_and(|share| share > 0.0);
    named.extend(any_failed.then(|| ("failed".into(), Statistic::Failed)));
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
    for (part, places) in parts_of_set {
        let its: Vec<Vec<Outcome>> =
            places.into_iter().map(|place| problems[place].clone()).collect();
        let statistics = Part::statistics(samples);
        let sums = |statistic: Statistic| its.iter().map(|problem| statistic.of(problem)).collect();
        let sums: Vec<Vec<(f64, f64)>> =
            statistics.iter().map(|(_, statistic)| sums(*statistic)).collect();
        let drawn = resampled(&format!("{name} {part}"), &sums);
        for ((what, statistic), drawn) in statistics.into_iter().zip(drawn) {
            let value = statistic.value(&its).map(|value| Estimate::new(value, drawn));
            estimates.extend(value.map(|estimate| (format!("{part}/{what}"), estimate)));
        }
    }
    let of_verifier = of_verifier::sums(problems);
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
            metrics: metrics(name, &of_verifier),
            note: of_verifier.note(),
        },
        mean,
    )
}

/// The means of the verifier's metrics with their intervals.
fn metrics(set: &str, of_verifier: &ByMetric<Sums>) -> BTreeMap<String, Estimate> {
    let (names, sums): (Vec<&str>, Vec<Sums>) =
        of_verifier.iter().map(|(name, sums)| (name, sums.clone())).unzip();
    let drawn = resampled(set, &sums);
    let estimates =
        sums.iter().zip(drawn).map(|(sums, drawn)| Estimate::new(of_verifier::mean(sums), drawn));
    names.into_iter().map(str::to_owned).zip(estimates).collect()
}
