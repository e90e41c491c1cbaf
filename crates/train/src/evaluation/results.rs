//! The directory of an evaluation: what was asked, every response, and the numbers.
//!
//! `manifest.json` (under what it was made), `responses/NAME.jsonl` (every response to a benchmark, in the order of
//! problems; with the ending .partial until all are there, in the order in which they were ready), `results.json` (the
//! numbers of all complete benchmarks), `comparison.json` (with another directory). A directory holds any number of benchmarks, of one model and seed.

use super::bootstrap::{Estimate, Resamples};
use super::paired::Comparison;
use super::summary::{Outcome, Statistic, accuracy, ks};
use crate::error::{Error, Result};
use crate::group::Response;
use crate::run_directory::{differences, lock, names, response_line, write_json};
use isentrope_data::Problem;
use isentrope_reward::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";

/// A results directory that this process writes to.
pub struct Results {
    dir: PathBuf,
    manifest: Value,
    _lock: Option<File>,
}

/// What a benchmark came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Problems that were asked.
    pub problems: usize,
    /// Responses to each.
    pub samples: usize,
    /// Names as in docs/evaluation.md, with 95 % intervals.
    pub estimates: BTreeMap<String, Estimate>,
    /// Responses by verdict.
    pub verdicts: BTreeMap<String, usize>,
}

/// The numbers of all complete benchmarks of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// By name, in the order in which they were first asked for.
    pub benchmarks: Vec<(String, Summary)>,
    /// Mean of the benchmarks' mean@k: each weighs the same, whatever its size.
    pub mean_of_benchmarks: Option<Estimate>,
}

impl Results {
    /// Opens a directory to continue in it, or makes it. `manifest` has `model`, `seed` and `benchmarks` by name; a
    /// benchmark that the directory has beside these is kept.
    ///
    /// # Errors
    /// [`Error::Run`] when it holds something else, or results of another model, seed or settings, naming each
    /// difference; [`Error::Io`].
    pub fn open(dir: &Path, manifest: Value) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        let lock = lock(dir, "writing")?;
        let before = read_manifest(dir)?;
        if before.is_none() && names(dir)?.iter().any(|name| !name.to_string_lossy().starts_with("manifest."))
        {
            let what =
                format!("{} has files in it and holds no results; name another directory", dir.display());
            return Err(Error::Run(what));
        }
        let manifest = match before {
            Some(before) => merged(dir, before, manifest)?,
            None => manifest,
        };
        let responses = dir.join("responses");
        fs::create_dir_all(&responses).map_err(|e| Error::io(&responses, e))?;
        write_json(&dir.join(MANIFEST), &manifest)?;
        Ok(Self { dir: dir.to_owned(), manifest, _lock: lock })
    }

    /// What a benchmark still lacks; none when it is complete.
    ///
    /// # Errors
    /// When what is there cannot be read.
    pub fn log(&self, name: &str, problems: usize, samples: usize) -> Result<Option<ResponseLog>> {
        let complete = responses(&self.dir, name);
        let partial = complete.with_extension("jsonl.partial");
        if complete.exists() {
            let _ = fs::remove_file(&partial); // a kill may have left it beside the complete file
            return Ok(None);
        }
        ResponseLog::open(complete, partial, problems, samples).map(Some)
    }

    /// Sums up all complete benchmarks, and writes results.json.
    ///
    /// # Errors
    /// When responses cannot be read, or the file cannot be written.
    pub fn report(&self) -> Result<Report> {
        let report = report(&self.dir, &self.manifest)?;
        write_json(&self.dir.join("results.json"), &report.to_json())?;
        Ok(report)
    }
}

/// The manifest of a directory that holds results.
fn read_manifest(dir: &Path) -> Result<Option<Value>> {
    let path = dir.join(MANIFEST);
    match fs::read(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&path, e)),
        Ok(text) => match serde_json::from_slice::<Value>(&text) {
            Ok(value) if value["benchmarks"].is_object() => Ok(Some(value)),
            _ => {
                Err(Error::invalid(&path, "it is not the manifest of an evaluation; name another directory"))
            }
        },
    }
}

/// The manifest that is there with what is new, if the two agree.
fn merged(dir: &Path, mut before: Value, now: Value) -> Result<Value> {
    let mut changes = Vec::new();
    for (key, value) in now.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            // The place may differ where the contents do not.
            ("model", model) => {
                differences("model", &before["model"]["sha256"], &model["sha256"], &mut changes);
            }
            ("benchmarks", Value::Object(benchmarks)) => {
                for (name, settings) in benchmarks {
                    match before["benchmarks"].get(name) {
                        Some(known) => differences(name, known, settings, &mut changes),
                        None => before["benchmarks"][name] = settings.clone(),
                    }
                }
            }
            _ => differences(key, &before[key], value, &mut changes),
        }
    }
    if changes.is_empty() {
        return Ok(before);
    }
    Err(Error::Run(format!(
        "{} holds results of another model or other settings: {}; name another directory with --out, or remove it",
        dir.display(),
        changes.join(", ")
    )))
}

/// Where the responses to a benchmark are once they are complete.
fn responses(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("responses/{name}.jsonl"))
}

/// What of a line says where it belongs.
#[derive(Deserialize)]
struct Position {
    problem: usize,
    sample: usize,
}

/// The responses to a benchmark, on their way to completeness.
pub struct ResponseLog {
    complete: PathBuf,
    partial: PathBuf,
    file: File,
    length: u64,
    problems: usize,
    /// Where the lines of each finished problem are: offset and length.
    places: BTreeMap<usize, (u64, u64)>,
}

impl ResponseLog {
    /// Takes up what an earlier process left. Its last line may be torn, and its last problem incomplete: these go.
    fn open(complete: PathBuf, partial: PathBuf, problems: usize, samples: usize) -> Result<Self> {
        let failed = |e| Error::io(&partial, e);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&partial);
        let file = file.map_err(failed)?;
        let mut reader = BufReader::new(&file);
        let (mut places, mut end, mut offset) = (BTreeMap::new(), 0, 0);
        let mut line = Vec::new();
        for number in 0.. {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(failed)?;
            let whole = line.last() == Some(&b'\n');
            let position: Option<Position> = serde_json::from_slice(&line).ok().filter(|_| whole);
            // Lines of a problem stand together, in the order of its samples.
            let Some(position) = position.filter(|p| p.sample == number % samples && p.problem < problems)
            else {
                break;
            };
            offset += read as u64;
            if position.sample + 1 == samples {
                places.insert(position.problem, (end, offset - end));
                end = offset;
            }
        }
        file.set_len(end).map_err(failed)?;
        let mut log = Self { complete, file, length: end, problems, places, partial };
        log.file.seek(SeekFrom::End(0)).map_err(|e| Error::io(&log.partial, e))?;
        Ok(log)
    }

    /// The problems that have no responses yet.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.problems).filter(|problem| !self.places.contains_key(problem)).collect()
    }

    /// Adds all responses to a problem.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn add(&mut self, place: usize, problem: &Problem, responses: &[Response]) -> Result<()> {
        let mut text = String::new();
        for (sample, response) in responses.iter().enumerate() {
            let mut line = Map::from_iter([("problem".to_owned(), json!(place))]);
            line.extend(response_line(problem, sample, response));
            text.push_str(&Value::Object(line).to_string());
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(|e| Error::io(&self.partial, e))?;
        self.places.insert(place, (self.length, text.len() as u64));
        self.length += text.len() as u64;
        Ok(())
    }

    /// Puts the lines in the order of problems, under the final name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        let failed = |e| Error::io(&self.complete, e);
        let temporary = self.complete.with_extension("jsonl.sorted");
        let mut sorted = BufWriter::new(File::create(&temporary).map_err(failed)?);
        for &(offset, length) in self.places.values() {
            self.file.seek(SeekFrom::Start(offset)).map_err(failed)?;
            std::io::copy(&mut (&self.file).take(length), &mut sorted).map_err(failed)?;
        }
        let sorted = sorted.into_inner().map_err(|e| failed(e.into_error()))?;
        sorted.sync_all().map_err(failed)?;
        fs::rename(&temporary, &self.complete).map_err(failed)?;
        fs::remove_file(&self.partial).map_err(failed)
    }
}

/// A line of a complete file of responses, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    problem: usize,
    prompt: Option<String>,
    ground_truth: Value,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Tells of every line of a complete file.
fn read_lines(path: &Path, each: &mut dyn FnMut(Line)) -> Result<()> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|e| Error::io(path, e))?;
        each(serde_json::from_str(&line).map_err(|e| {
            Error::invalid(
                path,
                format!("line {number} is no response ({e}); remove the file to sample anew"),
            )
        })?);
    }
    Ok(())
}

/// Responses to each problem.
fn outcomes(path: &Path) -> Result<Vec<Vec<Outcome>>> {
    let mut problems: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
    read_lines(path, &mut |line| problems.entry(line.problem).or_default().push(line.outcome))?;
    Ok(problems.into_values().collect())
}

fn report(dir: &Path, manifest: &Value) -> Result<Report> {
    let mut benchmarks = Vec::new();
    let mut means: Vec<(f64, Vec<f64>)> = Vec::new();
    for name in manifest["benchmarks"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let path = responses(dir, name);
        if path.exists() {
            let (summary, mean) = summarize(name, &outcomes(&path)?);
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
    Ok(Report { benchmarks, mean_of_benchmarks })
}

/// A benchmark's numbers, and its mean@k with what that comes to in the sets of problems that were drawn.
fn summarize(name: &str, problems: &[Vec<Outcome>]) -> (Summary, Option<(f64, Vec<f64>)>) {
    let samples = problems.iter().map(Vec::len).max().unwrap_or(0);
    let resamples = Resamples::new(name, problems.len());
    let drawn = |statistic: Statistic| -> Option<(f64, Vec<f64>)> {
        let parts: Vec<(f64, f64)> = problems.iter().map(|problem| statistic.of(problem)).collect();
        Some((statistic.value(problems)?, resamples.ratios(&parts)))
    };
    let mean = drawn(Statistic::Mean);
    let mut named = vec![(format!("mean@{samples}"), Statistic::Mean)];
    named.extend(ks(samples).into_iter().map(|k| (format!("pass@{k}"), Statistic::Pass(k))));
    named.push((format!("maj@{samples}"), Statistic::Majority));
    for (name, statistic) in [
        ("truncated", Statistic::Truncated),
        ("length_mean", Statistic::Length),
        ("entropy", Statistic::Entropy),
        ("faults", Statistic::Faults),
    ] {
        named.push((name.to_owned(), statistic));
    }
    let estimates = named
        .into_iter()
        .filter_map(|(name, statistic)| {
            drawn(statistic).map(|(value, drawn)| (name, Estimate::new(value, drawn)))
        })
        .collect();
    let mut verdicts: BTreeMap<String, usize> = VERDICTS.iter().map(|v| (v.1.to_owned(), 0)).collect();
    for outcome in problems.iter().flatten() {
        let name = VERDICTS.iter().find(|(verdict, _)| *verdict == outcome.verdict).map_or("fault", |v| v.1);
        *verdicts.entry(name.to_owned()).or_default() += 1;
    }
    (Summary { problems: problems.len(), samples, estimates, verdicts }, mean)
}

const VERDICTS: [(Verdict, &str); 5] = [
    (Verdict::Correct, "correct"),
    (Verdict::Wrong, "wrong"),
    (Verdict::Unparseable, "unparseable"),
    (Verdict::TimedOut, "timed-out"),
    (Verdict::Fault, "fault"),
];

impl Report {
    fn to_json(&self) -> Value {
        let benchmarks: Map<String, Value> =
            self.benchmarks.iter().map(|(name, summary)| (name.clone(), json!(summary))).collect();
        json!({
            "benchmarks": benchmarks,
            "mean_of_benchmarks": self.mean_of_benchmarks,
            "intervals": "95 %, percentile bootstrap over problems, 2000 resamples",
        })
    }
}

/// Compares the benchmarks that are complete in both directories, on the problems that are in both: those of one prompt
/// and ground truth. In the order of `new`.
///
/// # Errors
/// When one holds no results, or no benchmark is complete in both.
pub fn compare(old: &Path, new: &Path) -> Result<Vec<(String, Comparison)>> {
    let manifest = |dir: &Path| {
        read_manifest(dir)?
            .ok_or_else(|| Error::Run(format!("{} holds no results of an evaluation", dir.display())))
    };
    let (old_manifest, new_manifest) = (manifest(old)?, manifest(new)?);
    let mut comparisons = Vec::new();
    for name in new_manifest["benchmarks"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let (before, after) = (responses(old, name), responses(new, name));
        if old_manifest["benchmarks"].get(name).is_some() && before.exists() && after.exists() {
            let pairs = paired(&accuracies(&before)?, &accuracies(&after)?);
            comparisons.extend(Comparison::of(name, &pairs).map(|comparison| (name.clone(), comparison)));
        }
    }
    if comparisons.is_empty() {
        let (old, new) = (old.display(), new.display());
        return Err(Error::Run(format!("{old} and {new} have no problem in common that both have finished")));
    }
    Ok(comparisons)
}

/// Writes a comparison as comparison.json into `new`.
///
/// # Errors
/// [`Error::Io`].
pub fn write_comparison(comparisons: &[(String, Comparison)], old: &Path, new: &Path) -> Result<()> {
    let benchmarks: Map<String, Value> =
        comparisons.iter().map(|(name, comparison)| (name.clone(), json!(comparison))).collect();
    let value = json!({ "against": old.display().to_string(), "benchmarks": benchmarks });
    write_json(&new.join("comparison.json"), &value)
}

/// Each problem's identity and accuracy, in order.
fn accuracies(path: &Path) -> Result<Vec<(String, Option<f64>)>> {
    let mut problems: BTreeMap<usize, (String, Vec<Outcome>)> = BTreeMap::new();
    read_lines(path, &mut |line| {
        let identity = || (json!([line.prompt, line.ground_truth]).to_string(), Vec::new());
        problems.entry(line.problem).or_insert_with(identity).1.push(line.outcome);
    })?;
    Ok(problems.into_values().map(|(identity, responses)| (identity, accuracy(&responses))).collect())
}

/// Accuracies on what is in both; of repeated problems the first goes with the first, the second with the second.
fn paired(old: &[(String, Option<f64>)], new: &[(String, Option<f64>)]) -> Vec<(f64, f64)> {
    let mut known: HashMap<&str, std::collections::VecDeque<Option<f64>>> = HashMap::new();
    for (identity, accuracy) in old {
        known.entry(identity).or_default().push_back(*accuracy);
    }
    new.iter()
        .filter_map(|(identity, after)| Some((known.get_mut(identity.as_str())?.pop_front()??, (*after)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_data::Prompt;
    use isentrope_reward::Judgement;

    fn problem(number: usize) -> Problem {
        Problem {
            prompt: Prompt::Text(format!("problem {number}")),
            ground_truth: json!(number),
            data_source: String::new(),
            extra_info: Value::Null,
            origin: format!("a.jsonl line {number}"),
        }
    }

    fn response(verdict: Verdict, entropy: f32) -> Response {
        Response {
            text: "line\nbreak \u{2028} \"quote\"".into(),
            tokens: vec![1, 2, 3],
            logprobs: vec![-1.0; 3],
            entropies: vec![entropy; 3],
            truncated: false,
            judgement: Judgement::new(verdict, Some("7".into()), ""),
            reward: 0.0,
            slots: None,
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

    fn manifest(names: &[&str], seed: u64) -> Value {
        let benchmarks: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"samples": 2}))).collect();
        json!({"model": {"path": "m", "sha256": {"w": "1"}}, "seed": seed, "benchmarks": benchmarks})
    }

    fn fill(results: &Results, name: &str, order: &[usize]) {
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
        assert_eq!((value("length_mean"), value("truncated")), (3.0, 0.0));
        assert_eq!((summary.verdicts["correct"], summary.verdicts["wrong"]), (5, 7));
        let mean = summary.estimates["mean@2"];
        assert!(mean.low < mean.value && mean.value < mean.high && report.mean_of_benchmarks.is_none());
        drop(results);

        let results = Results::open(dir.path(), manifest(&["b"], 0)).unwrap();
        assert!(results.log("a", 6, 2).unwrap().is_none());
        fill(&results, "b", &[0, 2, 4]);
        let report = results.report().unwrap();
        assert_eq!(&report.benchmarks[0].1, summary);
        let means: Vec<f64> = report.benchmarks.iter().map(|(_, s)| s.estimates["mean@2"].value).collect();
        assert!((report.mean_of_benchmarks.unwrap().value - (means[0] + means[1]) / 2.0).abs() < 1e-12);
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
        let strange = tempfile::tempdir().unwrap();
        fs::write(strange.path().join("notes.txt"), "").unwrap();
        let error = Results::open(strange.path(), manifest(&["a"], 0)).err().unwrap().to_string();
        assert!(error.contains("holds no results"), "{error}");
        fs::write(strange.path().join(MANIFEST), "[]").unwrap();
        let error = Results::open(strange.path(), manifest(&["a"], 0)).err().unwrap().to_string();
        assert!(error.contains("not the manifest"), "{error}");
    }

    #[test]
    fn directories_are_compared_on_what_they_share() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        for (dir, order) in [(&old, &[0, 1, 2, 3][..]), (&new, &[2, 3, 4, 5])] {
            fill(&Results::open(dir, manifest(&["a"], 0)).unwrap(), "a", order);
        }
        let comparisons = compare(&old, &new).unwrap();
        assert_eq!((comparisons[0].0.as_str(), comparisons[0].1.problems), ("a", 2));
        assert_eq!((comparisons[0].1.difference.value, comparisons[0].1.p), (0.0, 1.0));
        let error = compare(&old, dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds no results"), "{error}");
        let pair = |text: &str, accuracy| (text.to_owned(), accuracy);
        let old = [pair("x", Some(0.0)), pair("x", Some(0.5)), pair("y", None), pair("z", Some(1.0))];
        let new = [pair("x", Some(1.0)), pair("w", Some(1.0)), pair("y", Some(1.0)), pair("x", Some(0.25))];
        assert_eq!(paired(&old, &new), [(0.0, 1.0), (0.5, 0.25)]);
    }
}
