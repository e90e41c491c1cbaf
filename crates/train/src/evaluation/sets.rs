//! Sets of problems to measure on.

use super::{PROBLEMS, Settings};
use crate::collect::Judge;
use crate::error::{Error, Result};
use crate::problems::check;
use crate::prompts::Prompter;
use isentrope_data::benchmark::{Benchmark, Choice, Decoding, Place, choose_files};
use isentrope_data::{FileHash, Finding, Problem, Report};
use isentrope_model::hub;
use isentrope_reward::{Overlong, VerifierSettings};
use std::cell::RefCell;
use std::path::PathBuf;

/// Held-out problems, with their prompts' tokens.
pub struct EvaluationSet {
    /// As in the metrics' names.
    pub name: String,
    /// The problems.
    pub problems: Vec<(Problem, Vec<u32>)>,
    /// How responses are drawn.
    pub decoding: Decoding,
    /// Judges responses; none leaves it to whoever evaluates.
    pub judge: Option<Judge>,
}

impl EvaluationSet {
    /// Renders the problems' prompts. Those that cannot be are left out, and are among the bad rows of the report.
    ///
    /// # Errors
    /// When none is left.
    pub fn new(
        name: &str,
        problems: Vec<Problem>,
        report: &mut Report,
        decoding: Decoding,
        verifier: Option<&VerifierSettings>,
        prompter: &Prompter,
    ) -> Result<Self> {
        let mut rendered = Vec::new();
        for problem in problems {
            match prompter.prompt_tokens(&problem.prompt) {
                Ok(tokens) => {
                    report.lossy.extend(prompter.loss(&problem.origin));
                    rendered.push((problem, tokens));
                }
                Err(what) => report.reject(problem.origin, what),
            }
        }
        if let (true, Some(Finding { origin, problem })) = (rendered.is_empty(), report.bad.last()) {
            return Err(Error::Run(format!("{name}: no problem is left to measure on; {origin}: {problem}")));
        }
        let judge = match verifier {
            Some(verifier) => {
                let overlong = Overlong::default();
                Some(Judge { verifier: verifier.build()?, overlong, max_tokens: decoding.max_tokens })
            }
            None => None,
        };
        Ok(Self { name: name.to_owned(), problems: rendered, decoding, judge })
    }

    /// What was found in the set's files, a paragraph each. Where not all of their usable rows are asked, characters that
    /// the tokenizer lacks were looked for in those asked alone.
    pub fn findings(&self, report: &Report) -> Vec<String> {
        let asked = self.problems.len();
        match report.lossy.first() {
            Some(Finding { origin, problem }) if asked < report.usable => {
                let all = Report { lossy: Vec::new(), ..report.clone() };
                let lossy = format!(
                    "of the {asked} problems that are asked, {} with characters that the tokenizer lacks; the first is \
                     {origin}: {problem}",
                    report.lossy.len()
                );
                vec![all.to_string(), lossy]
            }
            _ => vec![report.to_string()],
        }
    }

    /// Tokens of the longest prompt that fits a context.
    pub fn longest_prompt(&self, context: usize) -> usize {
        self.problems.iter().map(|(_, tokens)| tokens.len()).filter(|&len| len < context).max().unwrap_or(0)
    }

    /// Problems whose prompts leave no room in a context for a response.
    pub fn too_long(&self, context: usize) -> usize {
        self.problems.iter().filter(|(_, tokens)| tokens.len() >= context).count()
    }
}

/// A benchmark whose files are here.
#[derive(Clone, Debug)]
pub struct BenchmarkFiles {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Its files.
    pub files: Vec<PathBuf>,
}

impl BenchmarkFiles {
    /// Finds the files of a benchmark, downloading those that are on the hub.
    ///
    /// # Errors
    /// When the hub does not deliver them.
    pub fn find(choice: Choice, progress: &dyn hub::Progress) -> Result<Self> {
        let Choice { benchmark, place } = choice;
        let files = match place {
            Place::File(path) => vec![path.into()],
            Place::Hub { id, files } => {
                let select = |names: &[String]| choose_files(files.as_deref(), names);
                let name = &benchmark.name;
                hub::dataset_files(&id, &select, progress).map_err(|e| {
                    Error::Run(format!("benchmark {name}: {e}; a file of it can be given as {name}=FILE"))
                })?
            }
        };
        Ok(Self { benchmark, files })
    }

    /// The first `n` problems, and what was found in the files.
    ///
    /// # Errors
    /// When a file cannot be read or has no usable row.
    pub fn problems(&self, n: usize, verifier: &VerifierSettings) -> Result<(Vec<Problem>, Report)> {
        let name = &self.benchmark.name;
        let (problems, report) = self
            .benchmark
            .problems(&self.files, n, verifier)
            .map_err(|e| Error::Run(format!("benchmark {name}: {}", plainly(&e))))?;
        problems.iter().try_for_each(|problem| check(problem, verifier))?;
        Ok((problems, report))
    }

    /// What is in the files now.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn hashes(&self) -> Result<Vec<FileHash>> {
        let hash = |path: &PathBuf| {
            let sha256 = isentrope_files::sha256_of_file(path)?;
            Ok(FileHash { path: path.clone(), sha256 })
        };
        self.files.iter().map(hash).collect()
    }
}

/// A failure to read data, without the keys of the recipe, which say what is trained on.
fn plainly(error: &isentrope_data::Error) -> String {
    match error {
        isentrope_data::Error::Io { path, source } => format!("{} cannot be read: {source}", path.display()),
        isentrope_data::Error::NoUsableRow { path, problem } => format!("{}: {problem}", path.display()),
        other => other.to_string(),
    }
}

/// Warnings of downloads.
#[derive(Default)]
struct Warnings(RefCell<Vec<String>>);

impl hub::Progress for Warnings {
    fn advance(&self, _file: &str, _done: u64, _total: u64) {}

    fn warn(&self, message: &str) {
        self.0.borrow_mut().push(message.to_owned());
    }
}

/// A run's held-out sets: files, benchmarks, or the built-in task's test problems. `max_tokens` is the longest response
/// where the recipe's `[eval]` and a benchmark's definition do not say. Notes say what was found in the files.
pub(crate) fn of_run(
    data: &isentrope_data::Settings,
    eval: &Settings,
    max_tokens: usize,
    verifier: &VerifierSettings,
    prompter: &Prompter,
    context: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<EvaluationSet>> {
    if eval.every == 0 {
        return Ok(Vec::new());
    }
    let plain = eval.decoding(Decoding { samples: 4, temperature: 1.0, max_tokens });
    let problems = eval.problems.unwrap_or(PROBLEMS);
    let mut sets: Vec<EvaluationSet> = Vec::new();
    for file in &eval.files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let settings =
            isentrope_data::Settings { task: None, files: vec![file.clone()], limit: None, ..data.clone() };
        let (problems, mut report) =
            isentrope_data::evaluation_set(&settings, problems, verifier).map_err(|e| match e {
                isentrope_data::Error::Io { .. } => {
                    Error::setting("eval.files", format!("names a file that is not there: {}", plainly(&e)))
                }
                other => other.into(),
            })?;
        problems.iter().try_for_each(|problem| check(problem, verifier))?;
        let set = EvaluationSet::new(&name, problems, &mut report, plain, None, prompter)?;
        notes.extend(set.findings(&report).into_iter().map(|found| format!("{}: {found}", file.display())));
        if let Some((problem, tokens)) = set.problems.iter().find(|(_, tokens)| tokens.len() >= context) {
            return Err(Error::Run(format!(
                "{}: the prompt has {} tokens and does not fit the model's context of {context}; take it out of \
                 eval.files, or set eval.problems to as many as come before it",
                problem.origin,
                tokens.len()
            )));
        }
        add(&mut sets, set, "eval.files")?;
    }
    for text in &eval.bench {
        let choice =
            Choice::parse(text).map_err(|what| Error::setting("eval.bench", format!("names {what}")))?;
        let warnings = Warnings::default();
        let found = BenchmarkFiles::find(choice, &warnings)?;
        notes.extend(warnings.0.into_inner());
        let Benchmark { name, decoding, verifier: its, .. } = &found.benchmark;
        let its = its.map(VerifierSettings::from);
        let (problems, mut report) =
            found.problems(eval.problems.unwrap_or(usize::MAX), its.as_ref().unwrap_or(verifier))?;
        let resolved = eval.decoding(*decoding);
        let set = EvaluationSet::new(name, problems, &mut report, resolved, its.as_ref(), prompter)?;
        notes.extend(set.findings(&report).into_iter().map(|found| format!("benchmark {name}: {found}")));
        let changes = eval.changes(*decoding);
        if !changes.is_empty() {
            notes.push(format!("benchmark {name}: not as it is defined: {}", changes.join(", ")));
        }
        notes.extend(too_long(&set, context));
        add(&mut sets, set, "eval.bench")?;
    }
    if let (true, true, Some(task)) = (eval.files.is_empty(), eval.bench.is_empty(), data.task) {
        let (problems, mut report) = isentrope_data::evaluation_set(data, problems, verifier)?;
        problems.iter().try_for_each(|problem| check(problem, verifier))?;
        sets.push(EvaluationSet::new(task.name(), problems, &mut report, plain, None, prompter)?);
    }
    Ok(sets)
}

/// What to say of prompts that do not fit a context.
pub fn too_long(set: &EvaluationSet, context: usize) -> Option<String> {
    let count = set.too_long(context);
    (count > 0).then(|| {
        format!(
            "{}: {count} of {} prompts do not fit the model's context of {context} tokens and count as not answered",
            set.name,
            set.problems.len()
        )
    })
}

fn add(sets: &mut Vec<EvaluationSet>, set: EvaluationSet, key: &'static str) -> Result<()> {
    if sets.iter().any(|other| other.name == set.name) {
        let what = format!("has two sets named {}, by which metrics tell them apart: rename one", set.name);
        return Err(Error::setting(key, what));
    }
    sets.push(set);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_read_from_files_and_blamed_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.jsonl");
        std::fs::write(&path, "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n").unwrap();
        let found = |place: &str| {
            BenchmarkFiles::find(Choice::parse(&format!("math500={place}")).unwrap(), &()).unwrap()
        };
        let here = found(path.to_str().unwrap());
        let (problems, report) = here.problems(9, &VerifierSettings::default()).unwrap();
        assert_eq!((problems.len(), report.usable), (1, 1));
        assert!(problems[0].prompt.question().unwrap().starts_with("1+1?\nPlease reason step by step"));
        assert_eq!(here.hashes().unwrap()[0].sha256.len(), 64);
        let error = found("absent.jsonl").problems(9, &VerifierSettings::default()).unwrap_err().to_string();
        assert!(error.starts_with("benchmark math500: absent.jsonl cannot be read: "), "{error}");
    }
}
