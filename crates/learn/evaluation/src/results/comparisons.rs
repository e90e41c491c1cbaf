//! Compares two directories of evaluations.

use super::manifest::{decoding_of, read_manifest};
use super::response_log::{AnsweredProblem, problems, responses};
use super::setting_changes::{of_all_benchmarks, of_benchmark};
use crate::error::{Error, Result};
use crate::statistics::{
    Outcome, PairedTest, Statistic, accuracy, has_answers, is_graded, ks, mean_score,
};
use isentrope_files::write_json;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// A new directory's results against an old one's.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparisons {
    /// Whether both evaluated the same weights.
    pub has_same_weights: bool,
    /// Differences besides the model: seed, version, day, arithmetic and settings of the compared
    /// benchmarks, such as `math500.max_tokens 4096 -> 8192`.
    pub settings: Vec<String>,
    /// The benchmarks by name, in the order of the new directory.
    pub benchmarks: Vec<(String, BenchmarkComparison)>,
}

/// A benchmark that both directories have.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkComparison {
    /// How the responses were drawn, old and new, if the manifests say so: [`Sampling::decoding`].
    ///
    /// [`Sampling::decoding`]: isentrope_rollout::Sampling::decoding
    pub decoding: [Option<String>; 2],
    /// The test on each problem's share of correct responses.
    pub accuracy: PairedTest,
    /// The tests on each problem's pass@k, for every k above 1 that both have responses for, with
    /// its name: "pass@8".
    pub pass: Vec<(String, PairedTest)>,
    /// The test on whether each problem's most frequent answer is correct, with its name: "maj@8".
    /// Only if both have answers and the same number of responses, more than one.
    pub majority: Option<(String, PairedTest)>,
    /// The test on each problem's mean score; only if some score is neither 0 nor 1.
    pub score: Option<PairedTest>,
}

impl Comparisons {
    /// Compares the benchmarks that are complete in both directories, on the problems that are in
    /// both: those with the same prompt and ground truth.
    ///
    /// # Errors
    /// When one holds no results, or no benchmark is complete in both.
    pub fn of(old: &Path, new: &Path) -> Result<Self> {
        let manifest = |dir: &Path| {
            read_manifest(dir)?.ok_or_else(|| {
                Error::Refused(format!("{} holds no results of an evaluation", dir.display()))
            })
        };
        let (old_manifest, new_manifest) = (manifest(old)?, manifest(new)?);
        let (mut settings, mut benchmarks) = (Vec::new(), Vec::new());
        of_all_benchmarks(&old_manifest, &new_manifest, &mut settings);
        for (name, after) in new_manifest["benchmarks"].as_object().into_iter().flatten() {
            let Some(before) = old_manifest["benchmarks"].get(name) else { continue };
            let (old, new) = (responses(old, name), responses(new, name));
            if old.exists()
                && new.exists()
                && let Some(compared) =
                    BenchmarkComparison::of(name, &problems(&old)?, &problems(&new)?)
            {
                let decoding = [before, after].map(decoding_of);
                let compared = BenchmarkComparison { decoding, ..compared };
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
        let has_same_weights = has_same_weights(&old_manifest["model"], &new_manifest["model"]);
        Ok(Self { has_same_weights, settings, benchmarks })
    }

    /// Writes comparison.json into `new`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, old: &Path, new: &Path) -> Result<()> {
        let benchmarks: Map<String, Value> = self
            .benchmarks
            .iter()
            .map(|(name, compared)| (name.clone(), compared.to_json()))
            .collect();
        let against = old.display().to_string();
        let value = json!({
            "against": against,
            "same_weights": self.has_same_weights,
            "settings": self.settings,
            "benchmarks": benchmarks,
        });
        Ok(write_json(&new.join("comparison.json"), &value)?)
    }
}

impl BenchmarkComparison {
    fn of(name: &str, old: &[AnsweredProblem], new: &[AnsweredProblem]) -> Option<Self> {
        let pairs = paired(old, new);
        let by = |number: &dyn Fn(&[Outcome]) -> Option<f64>| {
            let numbers = pairs.iter().filter_map(|(old, new)| Some((number(old)?, number(new)?)));
            PairedTest::of(name, &numbers.collect::<Vec<_>>())
        };
        let graded = pairs.iter().any(|(old, new)| is_graded(*old) || is_graded(*new));
        let of_problem = |statistic: Statistic| {
            by(&move |responses| {
                let (value, count) = statistic.of(responses);
                (count > 0.0).then_some(value)
            })
        };
        // The count is over all problems, since pass@k and maj@k are named by it.
        let samples =
            |asked: &[AnsweredProblem]| asked.iter().map(|of| of.outcomes.len()).max().unwrap_or(0);
        let (before, after) = (samples(old), samples(new));
        let of_pass = |k: usize| Some((format!("pass@{k}"), of_problem(Statistic::Pass(k))?));
        let pass =
            ks(before.min(after)).into_iter().filter(|&k| k > 1).filter_map(of_pass).collect();
        let told =
            |asked: &[AnsweredProblem]| has_answers(asked.iter().flat_map(|of| &of.outcomes));
        let votes = before == after && after > 1 && told(old) && told(new);
        let of_majority = || Some((format!("maj@{after}"), of_problem(Statistic::Majority)?));
        Some(Self {
            decoding: [None, None],
            accuracy: by(&accuracy)?,
            pass,
            majority: if votes { of_majority() } else { None },
            score: by(&mean_score).filter(|_| graded),
        })
    }

    /// The comparison for comparison.json: the test of accuracies, and in it each other test by its
    /// name.
    fn to_json(&self) -> Value {
        let mut value = json!(self.accuracy);
        for (name, test) in self.pass.iter().chain(&self.majority) {
            value[name] = json!(test);
        }
        if let Some(score) = &self.score {
            value["score"] = json!(score);
        }
        if let [Some(old), Some(new)] = &self.decoding {
            value["decoding"] = json!({ "old": old, "new": new });
        }
        value
    }
}

/// Whether two manifests' models have the same weights: by their checksums, or by the hashes of
/// their files if an older manifest has no checksum.
fn has_same_weights(old: &Value, new: &Value) -> bool {
    if let (Some(old), Some(new)) = (old["weights"].as_u64(), new["weights"].as_u64()) {
        return old == new;
    }
    let files = |model: &Value| -> Vec<(String, Value)> {
        let all = model["sha256"].as_object().into_iter().flatten();
        let weights = all.filter(|(name, _)| name.ends_with(".safetensors"));
        weights.map(|(name, hash)| (name.clone(), hash.clone())).collect()
    };
    !files(old).is_empty() && files(old) == files(new)
}

/// The responses to the problems that are in both. Repeated problems are paired in their order.
fn paired<'a>(
    old: &'a [AnsweredProblem],
    new: &'a [AnsweredProblem],
) -> Vec<(&'a [Outcome], &'a [Outcome])> {
    let identity = |asked: &AnsweredProblem| json!([asked.prompt, asked.ground_truth]).to_string();
    let mut known: HashMap<String, VecDeque<&[Outcome]>> = HashMap::new();
    for asked in old {
        known.entry(identity(asked)).or_default().push_back(&asked.outcomes);
    }
    let pair = |asked: &'a AnsweredProblem| {
        Some((known.get_mut(&identity(asked))?.pop_front()?, &asked.outcomes[..]))
    };
    new.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::super::directory::Results;
    use super::super::directory::tests::{fill, manifest};
    use super::*;
    use isentrope_reward::Verdict;
    use std::fs;

    fn asked(prompt: &str, scores: &[Option<f64>]) -> AnsweredProblem {
        let verdict = |score: &Option<f64>| match score {
            Some(score) if *score >= 1.0 => Verdict::Correct,
            Some(_) => Verdict::Wrong,
            None => Verdict::Fault,
        };
        let outcome = |score: &Option<f64>| Outcome {
            score: score.unwrap_or(0.0),
            ..Outcome::of_verdict(verdict(score))
        };
        let outcomes = scores.iter().map(outcome).collect();
        let (prompt, data_source) = (Some(prompt.to_owned()), String::new());
        AnsweredProblem { prompt, ground_truth: Value::Null, data_source, outcomes }
    }

    #[test]
    fn repeated_problems_are_paired_in_their_order() {
        let (no, yes) = (Some(0.0), Some(1.0));
        let old =
            [asked("x", &[no]), asked("x", &[no, yes]), asked("y", &[None]), asked("z", &[yes])];
        let new =
            [asked("x", &[yes]), asked("w", &[yes]), asked("y", &[yes]), asked("x", &[None, yes])];
        let pairs: Vec<_> =
            paired(&old, &new).iter().map(|(old, new)| (accuracy(old), accuracy(new))).collect();
        assert_eq!(pairs, [(no, yes), (None, yes), (Some(0.5), yes)]);
        let BenchmarkComparison { accuracy, score, .. } =
            BenchmarkComparison::of("set", &old, &new).unwrap();
        assert_eq!(
            (accuracy.problems, accuracy.old, accuracy.new),
            (2, 0.25, 1.0),
            "y was not judged"
        );
        assert_eq!(score, None, "no score is graded");
        assert_eq!(BenchmarkComparison::of("set", &old[2..3], &new), None);
    }

    /// Scores can differ where verdicts do not.
    #[test]
    fn graded_scores_are_compared_too() {
        let old = [asked("a", &[Some(0.0), Some(0.0)]), asked("b", &[Some(0.0), Some(1.0)])];
        let new = [asked("a", &[Some(0.25), None]), asked("b", &[Some(0.75), Some(1.0)])];
        for (old, new, sign) in [(&old, &new, 1.0), (&new, &old, -1.0)] {
            let BenchmarkComparison { accuracy, score, .. } =
                BenchmarkComparison::of("set", old, new).unwrap();
            assert_eq!((accuracy.difference.value, accuracy.p), (0.0, 1.0));
            let score = score.unwrap();
            assert_eq!((score.problems, score.difference.value), (2, sign * (0.25 + 0.375) / 2.0));
            assert_eq!(
                (score.better + score.worse, score.p),
                (2, 0.5),
                "of four assignments two are as far"
            );
        }
    }

    /// Each number is compared as results.json has it.
    #[test]
    fn pass_and_majority_are_compared_problem_by_problem() {
        let (no, yes) = (Some(0.0), Some(1.0));
        let answered = |name: &str, scores: &[Option<f64>], answers: [&str; 4]| {
            let mut asked = asked(name, scores);
            for (outcome, answer) in asked.outcomes.iter_mut().zip(answers) {
                outcome.extracted = Some(answer.to_owned());
            }
            asked
        };
        let old = [
            answered("a", &[no, no, no, yes], ["1", "1", "2", "3"]),
            answered("b", &[no, no, no, no], ["1", "1", "2", "2"]),
            answered("c", &[no, yes, None, no], ["1", "3", "3", "4"]),
        ];
        let new = [
            answered("a", &[yes, no, no, yes], ["3", "1", "2", "3"]),
            answered("b", &[no, no, yes, no], ["1", "1", "3", "2"]),
            answered("c", &[no, no, no, no], ["1", "2", "2", "4"]),
        ];
        let compared = BenchmarkComparison::of("set", &old, &new).unwrap();
        let names: Vec<&str> = compared.pass.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["pass@2", "pass@4"]);
        let [(_, pass2), (_, pass4)] = &compared.pass[..] else { panic!() };
        // Six pairs of four responses each; the third problem has three with a verdict.
        let (before, after) = ((0.5 + 0.0 + 2.0 / 3.0) / 3.0, (5.0 / 6.0 + 0.5 + 0.0) / 3.0);
        assert!(
            (pass2.old - before).abs() < 1e-12 && (pass2.new - after).abs() < 1e-12,
            "{pass2:?}"
        );
        assert_eq!((pass2.problems, pass2.better, pass2.worse), (3, 2, 1));
        // The third problem has but three verdicts. One problem of two differs: both assignments
        // are as far.
        assert_eq!((pass4.problems, pass4.old, pass4.new, pass4.p), (2, 0.5, 1.0, 1.0));
        let (name, majority) = compared.majority.as_ref().unwrap();
        assert_eq!(
            (name.as_str(), majority.old, majority.better, majority.worse),
            ("maj@4", 0.0, 1, 0)
        );
        let json = compared.to_json();
        assert_eq!(
            (&json["pass@2"]["better"], &json["maj@4"]["new"]),
            (&json!(2), &json!(majority.new))
        );
        assert_eq!((json["problems"].clone(), json.get("score")), (json!(3), None));

        // With other numbers of responses there is no majority to compare, and pass@k goes as far
        // as both.
        let mut fewer = new.to_vec();
        fewer.iter_mut().for_each(|asked| asked.outcomes.truncate(2));
        let compared = BenchmarkComparison::of("set", &old, &fewer).unwrap();
        assert_eq!(
            (compared.pass.len(), &compared.pass[0].0[..], compared.majority),
            (1, "pass@2", None)
        );
        // There is no majority either if the verifier extracts no answers.
        let untold = [asked("a", &[no, yes]), asked("b", &[yes, yes])];
        assert_eq!(BenchmarkComparison::of("set", &untold, &untold).unwrap().majority, None);
        let single = [asked("a", &[no])];
        assert_eq!(BenchmarkComparison::of("set", &single, &single).unwrap().pass, []);
    }

    /// A checkpoint of unchanged weights has other files than the model that it began with.
    #[test]
    fn weights_are_the_same_by_their_checksum_or_by_their_files() {
        let model = |file: &str, weights: Value| {
            let files = json!({"config.json": "1", "model.safetensors": file});
            json!({"sha256": files, "weights": weights})
        };
        for (old, new, expected) in [
            (model("a", json!(7)), model("b", json!(7)), true),
            (model("a", json!(7)), model("b", json!(8)), false),
            (model("a", Value::Null), model("a", json!(8)), true),
            (model("a", Value::Null), model("b", json!(8)), false),
            (json!({"sha256": {}}), json!({"sha256": {}}), false),
        ] {
            assert_eq!(has_same_weights(&old, &new), expected, "{old} {new}");
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
        settings["benchmarks"]["a"]["verifier"] =
            json!({"by_data_source": {"x": "math", "y": "math"}});
        fill(&Results::open(&old, settings.clone()).unwrap(), "a", &[0, 1]);
        settings["seed"] = json!(1);
        settings["date"] = json!("2026-11-26");
        settings["arithmetic"] = json!("bf16");
        settings["model"]["sha256"]["w"] = json!("2");
        settings["benchmarks"]["a"]["samples"] = json!(4);
        settings["benchmarks"]["a"]["verifier"] = json!({"by_data_source": {"x": "math"}});
        settings["benchmarks"]["b"]["samples"] = json!(4);
        fill(&Results::open(&new, settings).unwrap(), "a", &[0, 1]);
        let comparisons = Comparisons::of(&old, &new).unwrap();
        let expected = [
            "seed 0 -> 1",
            "date null -> \"2026-11-26\"",
            "arithmetic \"f32\" -> \"bf16\"",
            "a.samples 2 -> 4",
            "a.verifier.by_data_source.y \"math\" -> null",
        ];
        assert_eq!(comparisons.settings, expected);
        comparisons.write(&old, &new).unwrap();
        let written: Value =
            serde_json::from_slice(&fs::read(new.join("comparison.json")).unwrap()).unwrap();
        assert_eq!(written["settings"], json!(expected));
    }
}
