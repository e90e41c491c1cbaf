//! The sets that the recipe's table `[eval]` asks for.

use super::benchmark_files::{BenchmarkFiles, plainly};
use super::evaluation_set::EvaluationSet;
use crate::error::{Error, Result};
use crate::settings::{EvaluationSettings, PROBLEMS};
use isentrope_data::benchmark::{Benchmark, Choice, Decoding};
use isentrope_data::{DataLocation, Problem, Report, Split};
use isentrope_hub as hub;
use isentrope_reward::VerifierSettings;
use isentrope_rollout::{Prompter, check_problem};
use std::path::PathBuf;

/// The sets named by `eval`: files and benchmarks, or else the built-in task's test problems. There
/// is one set per temperature, and none if `eval.every` is 0. `max_tokens` is the default limit of
/// responses. Notes on the files are added to `notes`; `progress` is notified of downloads.
///
/// # Errors
/// A missing file, two sets of one name, invalid data, a prompt longer than `context`.
pub fn held_out_sets(
    data: &isentrope_data::DataSettings,
    (eval, max_tokens): (&EvaluationSettings, usize),
    verifier: &VerifierSettings,
    prompter: &Prompter,
    context: usize,
    notes: &mut Vec<String>,
    progress: &dyn hub::Progress,
) -> Result<Vec<EvaluationSet>> {
    if eval.every == 0 {
        return Ok(Vec::new());
    }
    let plain = eval.decoding(Decoding { samples: 4, temperature: 1.0, max_tokens });
    let problems = eval.problems.unwrap_or(PROBLEMS);
    let mut sets: Vec<EvaluationSet> = Vec::new();
    for (name, files) in named_files(&eval.files, progress)? {
        let first = files[0].clone();
        let (problems, mut report) = read_files(files, data, problems, verifier)?;
        let set = EvaluationSet::new(&name, problems, &mut report, plain, None, prompter)?;
        notes.extend(
            set.findings(&report).into_iter().map(|found| format!("{}: {found}", first.display())),
        );
        if let Some((problem, tokens)) =
            set.problems.iter().find(|(_, tokens)| tokens.len() >= context)
        {
            return Err(Error::Refused(format!(
                "{}: the prompt has {} tokens and does not fit the model's context of {context}; \
                 take it out of eval.files, or set eval.problems to as many as come before it",
                problem.origin,
                tokens.len()
            )));
        }
        notes.extend(set.undivided_note());
        add(&mut sets, set, eval, "eval.files")?;
    }
    for text in &eval.bench {
        let choice = Choice::parse(text)
            .map_err(|what| Error::setting("eval.bench", format!("names {what}")))?;
        let found = BenchmarkFiles::find(choice, progress)?;
        let Benchmark { name, decoding, verifier: its, .. } = &found.benchmark;
        let its = its.map(VerifierSettings::from);
        let (problems, mut report) = found
            .problems(eval.problems.unwrap_or(usize::MAX), its.as_ref().unwrap_or(verifier))?;
        let resolved = eval.decoding(*decoding);
        let set =
            EvaluationSet::new(name, problems, &mut report, resolved, its.as_ref(), prompter)?;
        notes.extend(
            set.findings(&report).into_iter().map(|found| format!("benchmark {name}: {found}")),
        );
        let changes = eval.changes(*decoding);
        if !changes.is_empty() {
            notes.push(format!("benchmark {name}: not as it is defined: {}", changes.join(", ")));
        }
        notes.extend(set.too_long_note(context));
        notes.extend(set.undivided_note());
        add(&mut sets, set, eval, "eval.bench")?;
    }
    if let (true, true, Some(task)) = (eval.files.is_empty(), eval.bench.is_empty(), data.task) {
        let (problems, mut report) = isentrope_data::evaluation_set(data, problems, verifier)?;
        problems.iter().try_for_each(|problem| check_problem(problem, verifier))?;
        let set = EvaluationSet::new(task.name(), problems, &mut report, plain, None, prompter)?;
        notes.extend(set.undivided_note());
        add(&mut sets, set, eval, "data.task")?;
    }
    Ok(sets)
}

/// The files of each set, with its name: every file of a pattern is a set, and so is a data set on
/// the hub as a whole.
fn named_files(
    entries: &[PathBuf],
    progress: &dyn hub::Progress,
) -> Result<Vec<(String, Vec<PathBuf>)>> {
    let mut named = Vec::new();
    for place in entries.iter().map(|entry| DataLocation::of(entry)) {
        let files = place.files(Split::Test, progress).map_err(|e| {
            Error::setting("eval.files", format!("names a place without data: {}", plainly(&e)))
        })?;
        match place {
            DataLocation::Hub { .. } => named.push((place.name(), files)),
            _ => named.extend(
                files.into_iter().map(|file| (DataLocation::File(file.clone()).name(), vec![file])),
            ),
        }
    }
    Ok(named)
}

/// Reads the files of `eval` that are on this machine, as far as possible without a model. Returns
/// the reports on them.
///
/// # Errors
/// As [`held_out_sets`], for files.
pub fn check_held_out_files(
    data: &isentrope_data::DataSettings,
    eval: &EvaluationSettings,
    verifier: &VerifierSettings,
) -> Result<Vec<String>> {
    let is_local = |entry: &&PathBuf| DataLocation::of(entry).is_local();
    let entries: Vec<PathBuf> = eval.files_read().iter().filter(is_local).cloned().collect();
    let problems = eval.problems.unwrap_or(PROBLEMS);
    let found = |(_, files): (String, Vec<PathBuf>)| {
        let first = files[0].display().to_string();
        let (_, report) = read_files(files, data, problems, verifier)?;
        Ok(format!("{first}: {report}"))
    };
    named_files(&entries, &())?.into_iter().map(found).collect()
}

/// The first problems of the files of a set.
fn read_files(
    files: Vec<PathBuf>,
    data: &isentrope_data::DataSettings,
    problems: usize,
    verifier: &VerifierSettings,
) -> Result<(Vec<Problem>, Report)> {
    let settings = isentrope_data::DataSettings { task: None, files, limit: None, ..data.clone() };
    let (problems, report) = isentrope_data::evaluation_set(&settings, problems, verifier)
        .map_err(|e| match e {
            isentrope_data::Error::Io { .. } => Error::setting(
                "eval.files",
                format!("names a file that cannot be read: {}", plainly(&e)),
            ),
            other => other.into(),
        })?;
    problems.iter().try_for_each(|problem| check_problem(problem, verifier))?;
    Ok((problems, report))
}

/// Adds a set, at all temperatures. `key` is the recipe's key that names it.
fn add(
    sets: &mut Vec<EvaluationSet>,
    set: EvaluationSet,
    eval: &EvaluationSettings,
    key: &'static str,
) -> Result<()> {
    let further: Vec<EvaluationSet> =
        eval.further_temperatures().iter().map(|&temperature| set.at(temperature)).collect();
    for set in std::iter::once(set).chain(further) {
        if let Some(other) = sets.iter().find(|other| other.name == set.name) {
            let name = &set.name;
            let (key, what) = if set.is_further || other.is_further {
                let what = format!(
                    "makes a set {name} of one at a further temperature, and there is another set \
                     of this name: rename it"
                );
                ("eval.temperature", what)
            } else {
                (
                    key,
                    format!(
                        "has two sets named {name}, by which metrics tell them apart: rename one"
                    ),
                )
            };
            return Err(Error::setting(key, what));
        }
        sets.push(set);
    }
    Ok(())
}
