//! Two directories of evaluations side by side.

use super::manifest::read_manifest;
use super::response_log::{read_lines, responses};
use super::setting_changes::of_benchmark;
use crate::error::{Error, Result};
use crate::statistics::{Outcome, PairedTest, accuracy, is_graded, mean_score};
use isentrope_files::write_json;
use isentrope_settings::differences;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

/// A new directory's results against an old one's.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparisons {
    /// What differs beside the model: seed, version and settings of the compared benchmarks, such as
    /// `math500.max_tokens 4096 -> 8192`.
    pub settings: Vec<String>,
    /// The benchmarks by name, in the order of the new directory.
    pub benchmarks: Vec<(String, BenchmarkComparison)>,
}

/// A benchmark that both directories have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchmarkComparison {
    /// By the share of correct responses to each problem.
    #[serde(flatten)]
    pub accuracy: PairedTest,
    /// By the mean score of the responses to each problem; only if some score is neither 0 nor 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<PairedTest>,
}

impl Comparisons {
    /// Compares the benchmarks that are complete in both directories, on the problems that are in both: those with the same
    /// prompt and ground truth.
    ///
    /// # Errors
    /// When one holds no results, or no benchmark is complete in both.
    pub fn of(old: &Path, new: &Path) -> Result<Self> {
        let manifest = |dir: &Path| {
            read_manifest(dir)?
                .ok_or_else(|| Error::Refused(format!("{} holds no results of an evaluation", dir.display())))
        };
        let (old_manifest, new_manifest) = (manifest(old)?, manifest(new)?);
        let (mut settings, mut benchmarks) = (Vec::new(), Vec::new());
        for key in ["isentrope", "seed"] {
            differences(key, &old_manifest[key], &new_manifest[key], &mut settings);
        }
        for (name, after) in new_manifest["benchmarks"].as_object().into_iter().flatten() {
            let Some(before) = old_manifest["benchmarks"].get(name) else { continue };
            let (old, new) = (responses(old, name), responses(new, name));
            if old.exists()
                && new.exists()
                && let Some(compared) = BenchmarkComparison::of(name, &problems(&old)?, &problems(&new)?)
            {
                of_benchmark(name, before, after, &mut settings);
                benchmarks.push((name.clone(), compared));
            }
        }
        if benchmarks.is_empty() {
            let (old, new) = (old.display(), new.display());
            return Err(Error::Refused(format!(
                "{old} and {new} have no problem in common that both have finished"
            )));
        }
        Ok(Self { settings, benchmarks })
    }

    /// Writes comparison.json into `new`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, old: &Path, new: &Path) -> Result<()> {
        let benchmarks: Map<String, Value> =
            self.benchmarks.iter().map(|(name, compared)| (name.clone(), json!(compared))).collect();
        let against = old.display().to_string();
        let value = json!({ "against": against, "settings": self.settings, "benchmarks": benchmarks });
        Ok(write_json(&new.join("comparison.json"), &value)?)
    }
}

impl BenchmarkComparison {
    fn of(name: &str, old: &[Asked], new: &[Asked]) -> Option<Self> {
        let pairs = paired(old, new);
        let by = |number: fn(&[Outcome]) -> Option<f64>| {
            let numbers = pairs.iter().filter_map(|(old, new)| Some((number(old)?, number(new)?)));
            PairedTest::of(name, &numbers.collect::<Vec<_>>())
        };
        let graded = pairs.iter().any(|(old, new)| is_graded(*old) || is_graded(*new));
        Some(Self { accuracy: by(accuracy)?, score: by(mean_score).filter(|_| graded) })
    }
}

/// A problem's identity, and the responses to it.
type Asked = (String, Vec<Outcome>);

/// The problems of a complete file, in order.
fn problems(path: &Path) -> Result<Vec<Asked>> {
    let mut problems: BTreeMap<usize, Asked> = BTreeMap::new();
    read_lines(path, &mut |line| {
        let identity = || (json!([line.prompt, line.ground_truth]).to_string(), Vec::new());
        problems.entry(line.problem).or_insert_with(identity).1.push(line.outcome);
    })?;
    Ok(problems.into_values().collect())
}

/// The responses to the problems that are in both. Of repeated problems the first is paired with the first, the second with
/// the second.
fn paired<'a>(old: &'a [Asked], new: &'a [Asked]) -> Vec<(&'a [Outcome], &'a [Outcome])> {
    let mut known: HashMap<&str, VecDeque<&[Outcome]>> = HashMap::new();
    for (identity, responses) in old {
        known.entry(identity).or_default().push_back(responses);
    }
    new.iter()
        .filter_map(|(identity, after)| {
            Some((known.get_mut(identity.as_str())?.pop_front()?, after.as_slice()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::directory::Results;
    use super::super::directory::tests::{fill, manifest};
    use super::*;
    use isentrope_reward::Verdict;
    use std::fs;

    fn outcomes(scores: &[Option<f64>]) -> Vec<Outcome> {
        let outcome = |score: &Option<f64>| Outcome {
            verdict: match score {
                Some(score) if *score >= 1.0 => Verdict::Correct,
                Some(_) => Verdict::Wrong,
                None => Verdict::Fault,
            },
            score: score.unwrap_or(0.0),
            extracted: None,
            vote: None,
            tokens: 1,
            truncated: false,
            entropy: 0.0,
        };
        scores.iter().map(outcome).collect()
    }

    fn asked(identity: &str, scores: &[Option<f64>]) -> Asked {
        (identity.to_owned(), outcomes(scores))
    }

    #[test]
    fn repeated_problems_are_paired_in_their_order() {
        let (no, yes) = (Some(0.0), Some(1.0));
        let old = [asked("x", &[no]), asked("x", &[no, yes]), asked("y", &[None]), asked("z", &[yes])];
        let new = [asked("x", &[yes]), asked("w", &[yes]), asked("y", &[yes]), asked("x", &[None, yes])];
        let pairs: Vec<_> =
            paired(&old, &new).iter().map(|(old, new)| (accuracy(old), accuracy(new))).collect();
        assert_eq!(pairs, [(no, yes), (None, yes), (Some(0.5), yes)]);
        let BenchmarkComparison { accuracy, score } = BenchmarkComparison::of("set", &old, &new).unwrap();
        assert_eq!((accuracy.problems, accuracy.old, accuracy.new), (2, 0.25, 1.0), "y was not judged");
        assert_eq!(score, None, "no score is graded");
        assert_eq!(BenchmarkComparison::of("set", &old[2..3], &new), None);
    }

    /// Scores can differ where verdicts do not.
    #[test]
    fn graded_scores_are_compared_too() {
        let old = [asked("a", &[Some(0.0), Some(0.0)]), asked("b", &[Some(0.0), Some(1.0)])];
        let new = [asked("a", &[Some(0.25), None]), asked("b", &[Some(0.75), Some(1.0)])];
        for (old, new, sign) in [(&old, &new, 1.0), (&new, &old, -1.0)] {
            let BenchmarkComparison { accuracy, score } = BenchmarkComparison::of("set", old, new).unwrap();
            assert_eq!((accuracy.difference.value, accuracy.p), (0.0, 1.0));
            let score = score.unwrap();
            assert_eq!((score.problems, score.difference.value), (2, sign * (0.25 + 0.375) / 2.0));
            assert_eq!((score.better + score.worse, score.p), (2, 0.5), "of four assignments two are as far");
        }
    }

    #[test]
    fn directories_are_compared_on_what_they_share() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        for (dir, order) in [(&old, &[0, 1, 2, 3][..]), (&new, &[2, 3, 4, 5])] {
            fill(&Results::open(dir, manifest(&["a"], 0)).unwrap(), "a", order);
        }
        let comparisons = Comparisons::of(&old, &new).unwrap();
        let (name, comparison) = &comparisons.benchmarks[0];
        assert_eq!((name.as_str(), comparison.accuracy.problems), ("a", 2));
        assert_eq!((comparison.accuracy.difference.value, comparison.accuracy.p), (0.0, 1.0));
        assert_eq!(comparisons.settings, [""; 0]);
        let error = Comparisons::of(&old, dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds no results"), "{error}");
    }

    #[test]
    fn settings_that_differ_are_told_of_what_is_compared() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let mut settings = manifest(&["a", "b"], 0);
        settings["benchmarks"]["a"]["verifier"] = json!({"by_data_source": {"x": "math", "y": "math"}});
        fill(&Results::open(&old, settings.clone()).unwrap(), "a", &[0, 1]);
        settings["seed"] = json!(1);
        settings["model"]["sha256"]["w"] = json!("2");
        settings["benchmarks"]["a"]["samples"] = json!(4);
        settings["benchmarks"]["a"]["verifier"] = json!({"by_data_source": {"x": "math"}});
        settings["benchmarks"]["b"]["samples"] = json!(4);
        fill(&Results::open(&new, settings).unwrap(), "a", &[0, 1]);
        let comparisons = Comparisons::of(&old, &new).unwrap();
        let expected = ["seed 0 -> 1", "a.samples 2 -> 4", "a.verifier.by_data_source.y \"math\" -> null"];
        assert_eq!(comparisons.settings, expected);
        comparisons.write(&old, &new).unwrap();
        let written: Value = serde_json::from_slice(&fs::read(new.join("comparison.json")).unwrap()).unwrap();
        assert_eq!(written["settings"], json!(expected));
    }
}
