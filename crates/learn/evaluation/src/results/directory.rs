//! The directory of an evaluation: what was asked, every response, and the numbers.
//!
//! - `manifest.json`: model, seed and the settings of each benchmark; the day, where the chat
//!   template asks for one, and the arithmetic, where it is not f32.
//! - `responses/NAME.jsonl`: every response to a benchmark, in the order of problems. Until all are
//!   there the name ends in `.partial`, and they are in the order in which they became ready.
//! - `results.json`: the numbers of all complete benchmarks.
//! - `comparison.json`: the comparison with another directory.
//!
//! A directory holds any number of benchmarks, of one model, seed, day and arithmetic.

use super::manifest::{MANIFEST, date_of, merged, read_manifest};
use super::report::Report;
use super::response_log::{ResponseLog, reopen, responses};
use crate::error::{Error, Result};
use isentrope_files::{Lock, lock_directory, names, write_json};
use isentrope_model::chat_template::Date;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A results directory that this process writes to.
pub struct Results {
    dir: PathBuf,
    manifest: Value,
    _lock: Lock,
}

impl Results {
    /// The date in the prompts of a directory's results, which later evaluations there keep. None
    /// without results, or if the chat template asks for no date.
    ///
    /// # Errors
    /// When its manifest cannot be read.
    pub fn date(dir: &Path) -> Result<Option<Date>> {
        date_of(dir)
    }

    /// Opens a directory to continue in it, or makes it. `manifest` has `model`, `seed` and
    /// `benchmarks` by name, and may have `date` and `arithmetic` (f32 by default). Other
    /// benchmarks in the directory are kept.
    ///
    /// # Errors
    /// [`Error::Refused`] when it holds something else, or results of another model, seed or
    /// settings, naming each difference; [`Error::File`].
    pub fn open(dir: &Path, manifest: Value) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        let lock = lock_directory(dir, "writing")?;
        let before = read_manifest(dir)?;
        if before.is_none()
            && names(dir)?.iter().any(|name| !name.to_string_lossy().starts_with("manifest."))
        {
            let what = format!(
                "{} has files in it and holds no results; name another directory",
                dir.display()
            );
            return Err(Error::Refused(what));
        }
        let manifest = match before {
            Some(before) => merged(dir, before, &manifest)?,
            None => manifest,
        };
        let responses = dir.join("responses");
        fs::create_dir_all(&responses).map_err(|e| Error::io(&responses, e))?;
        write_json(&dir.join(MANIFEST), &manifest)?;
        Ok(Self { dir: dir.to_owned(), manifest, _lock: lock })
    }

    /// The log of a benchmark that is not complete; none when it is. A benchmark is not complete
    /// while responses to it could not be judged; its numbers then leave results.json.
    ///
    /// # Errors
    /// When what is there cannot be read; [`Error::File`].
    pub fn log(&self, name: &str, problems: usize, samples: usize) -> Result<Option<ResponseLog>> {
        let complete = responses(&self.dir, name);
        let partial = complete.with_extension("jsonl.partial");
        if complete.exists() {
            let _ = fs::remove_file(&partial); // a kill may have left it beside the complete file
            if !reopen(&complete, &partial)? {
                return Ok(None);
            }
            self.report()?;
        }
        ResponseLog::open(complete, partial, problems, samples).map(Some)
    }

    /// Sums up all complete benchmarks, and writes results.json.
    ///
    /// # Errors
    /// When responses cannot be read, or the file cannot be written.
    pub fn report(&self) -> Result<Report> {
        let report = Report::of(&self.dir, &self.manifest)?;
        write_json(&self.dir.join("results.json"), &report.to_json())?;
        Ok(report)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use isentrope_data::{Problem, Prompt};
    use isentrope_reward::{Judgement, Verdict};
    use isentrope_rollout::Response;
    use isentrope_run::tokens::GivenRanges;
    use serde_json::{Map, json};

    fn problem(number: usize) -> Problem {
        Problem {
            prompt: Prompt::Text(format!("problem {number}")),
            ground_truth: json!(number),
            data_source: String::new(),
            extra_info: Value::Null,
            columns: isentrope_data::Row::new(),
            hint: None,
            origin: format!("a.jsonl line {number}"),
        }
    }

    fn response(verdict: Verdict, entropy: f32) -> Response {
        Response {
            text: "line\nbreak \u{2028} \"quote\"".into(),
            tokens: vec![1, 2, 3],
            given: GivenRanges::default(),
            logprobs: vec![-1.0; 3],
            entropies: vec![entropy; 3],
            masks: None,
            truncated: false,
            given_text: Vec::new(),
            out_of_turns: false,
            reward: f64::from(u8::from(verdict == Verdict::Correct)),
            judgement: Judgement::new(verdict, Some("7".into()), ""),
            activation_slots: None,
            vote: None,
        }
    }

    fn judged(number: usize) -> Vec<Response> {
        let verdict = |right| if right { Verdict::Correct } else { Verdict::Wrong };
        vec![
            response(verdict(number.is_multiple_of(2)), 0.1 + number as f32),
            response(verdict(number.is_multiple_of(3)), 0.3),
        ]
    }

    pub(in crate::results) fn manifest(names: &[&str], seed: u64) -> Value {
        let benchmarks: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"samples": 2}))).collect();
        json!({"model": {"path": "m", "sha256": {"w": "1"}}, "seed": seed, "benchmarks": benchmarks})
    }

    pub(in crate::results) fn fill(results: &Results, name: &str, order: &[usize]) {
        let mut log = results.log(name, 6, 2).unwrap().unwrap();
        for &number in order {
            log.add(number, &problem(number), &judged(number)).unwrap();
        }
        log.finish().unwrap();
    }

    #[test]
    fn lines_are_sorted_and_torn_ones_sampled_again() {
        let dir = tempfile::tempdir().unwrap();
        let (whole, torn) = (dir.path().join("whole"), dir.path().join("torn"));
        let results = Results::open(&whole, manifest(&["a"], 0)).unwrap();
        fill(&results, "a", &[0, 1, 2, 3, 4, 5]);
        let expected = fs::read(whole.join("responses/a.jsonl")).unwrap();

        let partial = torn.join("responses/a.jsonl.partial");
        let results = Results::open(&torn, manifest(&["a"], 0)).unwrap();
        let mut log = results.log("a", 6, 2).unwrap().unwrap();
        for number in [3, 0, 5] {
            log.add(number, &problem(number), &judged(number)).unwrap();
        }
        let full = fs::read(&partial).unwrap();
        for cut in 0..=full.len() {
            fs::write(&partial, &full[..cut]).unwrap();
            let mut log = results.log("a", 6, 2).unwrap().unwrap();
            let missing = log.missing();
            assert!((3..=6).contains(&missing.len()), "{cut}: {missing:?}");
            if cut % 97 == 0 || cut == full.len() {
                for number in missing {
                    log.add(number, &problem(number), &judged(number)).unwrap();
                }
                log.finish().unwrap();
                assert_eq!(fs::read(torn.join("responses/a.jsonl")).unwrap(), expected);
                fs::remove_file(torn.join("responses/a.jsonl")).unwrap();
            }
        }
    }

    #[test]
    fn what_could_not_be_judged_is_missing_when_the_directory_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (whole, again) = (dir.path().join("whole"), dir.path().join("again"));
        fill(&Results::open(&whole, manifest(&["a"], 0)).unwrap(), "a", &[0, 1, 2, 3, 4, 5]);
        let results = Results::open(&again, manifest(&["a"], 0)).unwrap();
        let mut log = results.log("a", 6, 2).unwrap().unwrap();
        for number in [4, 1, 0, 5, 2, 3] {
            let mut responses = judged(number);
            match number {
                1 => responses[0] = response(Verdict::Fault, 0.5),
                4 => responses.fill(response(Verdict::TimedOut, 0.5)),
                _ => {}
            }
            log.add(number, &problem(number), &responses).unwrap();
        }
        assert_eq!((log.missing(), log.unjudged()), (vec![], 0), "in this process it is done");
        log.finish().unwrap();
        assert_eq!(results.report().unwrap().benchmarks[0].1.verdicts["timed-out"], 2);

        drop(results.log("a", 6, 2).unwrap());
        let numbers = fs::read_to_string(again.join("results.json")).unwrap();
        assert!(!numbers.contains("verdicts"), "it is not complete: {numbers}");
        let mut log = results.log("a", 6, 2).unwrap().unwrap();
        assert_eq!((log.missing(), log.unjudged()), (vec![1, 4], 3));
        for number in [4, 1] {
            log.add(number, &problem(number), &judged(number)).unwrap();
        }
        drop(log);
        let log = results.log("a", 6, 2).unwrap().unwrap();
        assert_eq!((log.missing(), log.unjudged()), (vec![], 0), "the later lines count");
        log.finish().unwrap();
        let lines = |dir: &Path| fs::read(dir.join("responses/a.jsonl")).unwrap();
        assert_eq!(lines(&again), lines(&whole));
        assert!(results.log("a", 6, 2).unwrap().is_none());
    }

    #[test]
    fn numbers_come_from_the_lines_and_survive_a_second_look() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path(), manifest(&["a"], 0)).unwrap();
        fill(&results, "a", &[5, 4, 3, 2, 1, 0]);
        let report = results.report().unwrap();
        let (name, summary) = &report.benchmarks[0];
        assert_eq!((name.as_str(), summary.problems, summary.samples), ("a", 6, 2));
        let value = |name: &str| summary.estimates[name].value;
        assert!((value("mean@2") - 5.0 / 12.0).abs() < 1e-12);
        assert!((value("pass@2") - 4.0 / 6.0).abs() < 1e-12);
        assert!((value("score") - 5.0 / 12.0).abs() < 1e-12 && !summary.is_graded);
        assert_eq!((value("length_mean"), value("truncated")), (3.0, 0.0));
        assert_eq!((summary.verdicts["correct"], summary.verdicts["wrong"]), (5, 7));
        let mean = summary.estimates["mean@2"];
        assert!(
            mean.low < mean.value && mean.value < mean.high && report.mean_of_benchmarks.is_none()
        );
        drop(results);

        let results = Results::open(dir.path(), manifest(&["b"], 0)).unwrap();
        assert!(results.log("a", 6, 2).unwrap().is_none());
        fill(&results, "b", &[0, 2, 4]);
        let report = results.report().unwrap();
        assert_eq!(&report.benchmarks[0].1, summary);
        let means: Vec<f64> =
            report.benchmarks.iter().map(|(_, s)| s.estimates["mean@2"].value).collect();
        assert!(
            (report.mean_of_benchmarks.unwrap().value - (means[0] + means[1]) / 2.0).abs() < 1e-12
        );
    }

    #[test]
    fn other_settings_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        drop(Results::open(dir.path(), manifest(&["a"], 0)).unwrap());
        let mut other = manifest(&["a"], 1);
        other["benchmarks"]["a"]["samples"] = json!(4);
        other["model"]["sha256"]["w"] = json!("2");
        let error = Results::open(dir.path(), other).err().unwrap().to_string();
        for part in ["seed 0 -> 1", "a.samples 2 -> 4", "model.w \"1\" -> \"2\"", "--out"] {
            assert!(error.contains(part), "{error}");
        }
        // A key that only the older manifest has is a difference too.
        let begun = tempfile::tempdir().unwrap();
        let mut special = manifest(&["a"], 0);
        special["arithmetic"] = json!("bf16");
        special["date"] = json!("2026-11-26");
        drop(Results::open(begun.path(), special.clone()).unwrap());
        let error = Results::open(begun.path(), manifest(&["a"], 0)).err().unwrap().to_string();
        for part in ["arithmetic \"bf16\" -> \"f32\"", "date \"2026-11-26\" -> null"] {
            assert!(error.contains(part), "{error}");
        }
        drop(Results::open(begun.path(), special).unwrap());
        assert_eq!(Results::date(begun.path()).unwrap(), Some("2026-11-26".parse().unwrap()));
        let strange = tempfile::tempdir().unwrap();
        assert_eq!(Results::date(strange.path()).unwrap(), None);
        fs::write(strange.path().join("notes.txt"), "").unwrap();
        let error = Results::open(strange.path(), manifest(&["a"], 0)).err().unwrap().to_string();
        assert!(error.contains("holds no results"), "{error}");
        fs::write(strange.path().join(MANIFEST), "[]").unwrap();
        let error = Results::open(strange.path(), manifest(&["a"], 0)).err().unwrap().to_string();
        assert!(error.contains("not the manifest"), "{error}");
    }
}
