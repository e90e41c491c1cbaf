//! The problems of a run: to train on, and held out.

use crate::error::{Error, Result};
use crate::evaluation::{self, EvaluationSet};
use crate::prompts::Prompter;
use isentrope_data::{Report, Source};

/// Problems of the built-in task whose prompts are measured, to know how long they get.
const MEASURED: u64 = 1000;

/// Everything read from the data.
pub(crate) struct Problems {
    pub train: Source,
    pub sets: Vec<EvaluationSet>,
    /// Tokens of the longest prompt.
    pub longest_prompt: usize,
    /// Defects that the user should know of.
    pub notes: Vec<String>,
}

impl Problems {
    pub(crate) fn open(
        data: &isentrope_data::Settings,
        eval: &evaluation::Settings,
        seed: u64,
        prompter: &Prompter,
        context: usize,
    ) -> Result<Self> {
        let (mut train, report) = Source::open(data, seed)?;
        let mut notes: Vec<String> = note(&report).into_iter().collect();
        let mut longest_prompt = 0;
        let mut failed = Ok(());
        // One token of the context at least is the response's.
        let longest_allowed = data.max_prompt_tokens.unwrap_or(usize::MAX).min(context.saturating_sub(1));
        let mut fits = |problem: &isentrope_data::Problem| match prompter.tokens(problem) {
            Ok(tokens) if tokens.len() <= longest_allowed => {
                longest_prompt = longest_prompt.max(tokens.len());
                true
            }
            Ok(_) => false,
            Err(e) => {
                if failed.is_ok() {
                    failed = Err(e);
                }
                false
            }
        };
        let dropped = if train.len().is_some() {
            train.retain(&mut fits)
        } else {
            for position in 0..MEASURED {
                fits(&train.problem(position));
            }
            Ok(0)
        };
        failed?; // before what it led to
        let dropped = dropped?;
        if dropped > 0 {
            notes.push(format!("{dropped} prompts are longer than {longest_allowed} tokens and left out"));
        }
        let sets = evaluation_sets(data, eval, prompter, context, &mut notes)?;
        let longest_prompt = longest_prompt.max(longest(&sets));
        Ok(Self { train, sets, longest_prompt, notes })
    }
}

/// Tokens of the longest prompt of any set.
pub(crate) fn longest(sets: &[EvaluationSet]) -> usize {
    sets.iter().flat_map(|s| &s.problems).map(|(_, tokens)| tokens.len()).max().unwrap_or(0)
}

/// Problems of the largest set.
pub(crate) fn largest(sets: &[EvaluationSet]) -> usize {
    sets.iter().map(|set| set.problems.len()).max().unwrap_or(0)
}

/// What the linter found, if there is anything to say.
pub(crate) fn note(report: &Report) -> Option<String> {
    (report.rows > 0).then(|| report.to_string())
}

/// The held-out sets: files, or the built-in task's test problems.
pub(crate) fn evaluation_sets(
    data: &isentrope_data::Settings,
    eval: &evaluation::Settings,
    prompter: &Prompter,
    context: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<EvaluationSet>> {
    if eval.every == 0 {
        return Ok(Vec::new());
    }
    let mut sets: Vec<EvaluationSet> = Vec::new();
    let mut add = |name: &str, settings: &isentrope_data::Settings| -> Result<()> {
        if sets.iter().any(|set| set.name == name) {
            let what = format!("has two files named {name}, by which metrics tell them apart: rename one");
            return Err(Error::setting("eval.files", what));
        }
        let (problems, report) = isentrope_data::evaluation_set(settings, eval.problems)?;
        notes.extend(note(&report));
        let set = EvaluationSet::new(name, problems, prompter)?;
        if let Some((problem, tokens)) = set.problems.iter().find(|(_, tokens)| tokens.len() >= context) {
            return Err(Error::Run(format!(
                "{}: the prompt has {} tokens and does not fit the model's context of {context}; take it out of \
                 eval.files, or set eval.problems to as many as come before it",
                problem.origin,
                tokens.len()
            )));
        }
        sets.push(set);
        Ok(())
    };
    for file in &eval.files {
        let settings =
            isentrope_data::Settings { task: None, files: vec![file.clone()], limit: None, ..data.clone() };
        add(&file.file_stem().unwrap_or_default().to_string_lossy(), &settings)?;
    }
    if let (true, Some(task)) = (eval.files.is_empty(), data.task) {
        add(task.name(), data)?;
    }
    Ok(sets)
}
