//! The problems of a run: to train on, and held out.

use crate::error::{Error, Result};
use crate::rl::Recipe;
use crate::teacher::{TEACHER_PROMPT, taught_prompt};
use isentrope_data::{Finding, Findings, Longest, Problem, Record, Records, Report, Source, Split};
use isentrope_evaluation::{
    EvaluationSet, EvaluationSettings, check_held_out_files, held_out_sets,
};
use isentrope_hub as hub;
use isentrope_reward::VerifierSettings;
use isentrope_rollout::{Prompter, check_problem};

/// Number of the built-in task's problems that are read to find its longest prompt.
const MEASURED: u64 = 1000;

/// Everything read from the data.
pub(crate) struct Problems {
    pub train: Source,
    pub sets: Vec<EvaluationSet>,
    /// Tokens of the longest prompt that is trained on.
    pub longest_prompt: usize,
    /// Mean tokens of the prompts that are trained on.
    pub mean_prompt: f64,
    /// Tokens of the longest prompt that a teacher is shown: the policy's, unless the recipe has
    /// another for it.
    pub longest_taught: usize,
    /// Mean tokens of the prompts that a teacher is shown.
    pub mean_taught: f64,
    /// Defects that the user should know of.
    pub notes: Vec<String>,
}

impl Problems {
    pub(crate) fn open(
        recipe: &Recipe,
        prompter: &Prompter,
        context: usize,
        teacher_context: usize,
        progress: &dyn hub::Progress,
    ) -> Result<Self> {
        let Recipe { data, eval, run, reward, rollout, .. } = recipe;
        let (seed, verifier) = (run.seed, &reward.verifier);
        let question = recipe.teacher_prompt();
        let found = data.found(Split::Train, progress)?;
        let (mut train, mut report) = Source::open(&found, seed, verifier)?;
        let longest = longest(data.max_prompt_tokens, "data.max_prompt_tokens", context);
        let (mut longest_prompt, mut kept_prompts, mut prompt_tokens) = (0, 0_usize, 0_usize);
        let (mut longest_taught, mut taught_tokens) = (0, 0_usize);
        let mut unjudged = Ok(());
        let mut lossy = Findings::default();
        let mut measure = |problem: &Problem| {
            if let (Ok(()), Err(e)) = (&unjudged, check_problem(problem, verifier)) {
                unjudged = Err(e);
            }
            if !problem.prompt.may_fit(longest.tokens) {
                return Ok(usize::MAX);
            }
            let tokens = prompter.prompt_tokens(&problem.prompt)?.len();
            let fits = tokens <= longest.tokens;
            let taught = match question {
                Some(question) if fits => taught_prompt(question, problem).and_then(|prompt| {
                    if !prompt.may_fit(teacher_context) {
                        return Err(format!(
                            "{TEACHER_PROMPT} comes to {} bytes, too many for the teacher's \
                             context of {teacher_context} tokens",
                            prompt.bytes()
                        ));
                    }
                    Ok(prompter.prompt_tokens(&prompt)?.len())
                }),
                _ => Ok(tokens),
            };
            // Taken whatever came of it, so that it is not reported for the next problem.
            let loss = prompter.loss(&problem.origin);
            let taught = taught?;
            if fits {
                let response = rollout.max_tokens.min(context - tokens);
                if question.is_some() && taught + response > teacher_context {
                    return Err(format!(
                        "{TEACHER_PROMPT} comes to {taught} tokens, behind which the teacher's \
                         context of {teacher_context} has no room for a response of {response} \
                         (rollout.max_tokens)"
                    ));
                }
                longest_taught = longest_taught.max(taught);
                taught_tokens += taught;
                lossy.extend(loss);
                longest_prompt = longest_prompt.max(tokens);
                kept_prompts += 1;
                prompt_tokens += tokens;
            }
            Ok(tokens)
        };
        let kept = if train.len().is_some() {
            train.retain(&mut report, &longest, measure).map_err(Error::from)
        } else {
            (0..MEASURED).map(|position| train.problem(position)).try_for_each(|problem| {
                let tokens = measure(&problem)
                    .map_err(|what| Error::Run(format!("{}: {what}", problem.origin)))?;
                if tokens <= longest.tokens {
                    Ok(())
                } else {
                    Err(task_does_not_fit(tokens, &longest))
                }
            })
        };
        unjudged?; // first: it may be why no problem was kept
        kept?;
        report.lossy = lossy;
        let mut notes: Vec<String> = note("training data", &report).into_iter().collect();
        if report.too_long > 0 {
            let Longest { tokens, allowed_by } = longest;
            let dropped = report.too_long;
            notes.push(format!(
                "{dropped} prompts are longer than {tokens} tokens, all that {allowed_by} allows, \
                 and left out"
            ));
        }
        let eval = (eval, rollout.max_tokens);
        let sets = held_out_sets(data, eval, verifier, prompter, context, &mut notes, progress)?;
        notes.extend(trained_on(&train, &sets));
        let mean = |tokens: usize| tokens as f64 / kept_prompts.max(1) as f64;
        let (mean_prompt, mean_taught) = (mean(prompt_tokens), mean(taught_tokens));
        Ok(Self { train, sets, longest_prompt, mean_prompt, longest_taught, mean_taught, notes })
    }
}

/// Reads the training problems and evaluation files that are on this machine, as far as possible
/// without a model. Returns notes for the user.
pub(crate) fn check_files(
    data: &isentrope_data::DataSettings,
    eval: &EvaluationSettings,
    seed: u64,
    verifier: &VerifierSettings,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    if let Some(local) = data.local() {
        let (mut train, report) = Source::open(&local.found(Split::Train, &())?, seed, verifier)?;
        let count = train.len().map_or(MEASURED, |len| len as u64);
        (0..count).try_for_each(|position| check_problem(&train.problem(position), verifier))?;
        notes.extend(note("training data", &report));
    }
    notes.extend(check_held_out_files(data, eval, verifier)?);
    Ok(notes)
}

/// A task has a problem at every position, so none can be left out for its length.
fn task_does_not_fit(tokens: usize, longest: &Longest) -> Error {
    let Longest { tokens: most, allowed_by } = longest;
    let what = format!(
        "has prompts of {tokens} tokens, and {allowed_by} allows {most}: only of files are any \
         left out"
    );
    Error::setting("data.task", what)
}

/// The longest prompt that a setting and the context allow. At least one token of the context is
/// the response's.
fn longest(setting: Option<usize>, key: &'static str, context: usize) -> Longest {
    match setting {
        Some(tokens) if tokens < context => Longest { tokens, allowed_by: key },
        _ => Longest { tokens: context.saturating_sub(1), allowed_by: "the model's context" },
    }
}

/// Notes on sets that share problems with the training data.
pub(crate) fn trained_on<T: Record>(train: &Records<T>, sets: &[EvaluationSet]) -> Vec<String> {
    if sets.is_empty() {
        return Vec::new(); // the rows may be many
    }
    let trained = train.prompts();
    sets.iter().filter_map(|set| set.trained_on_note(&trained)).collect()
}

/// A note if there are fewer rows than a step takes.
pub(crate) fn repeated(rows: Option<usize>, what: &str, key: &str, taken: usize) -> Option<String> {
    let rows = rows.filter(|&rows| rows < taken)?;
    let (what, are) = if rows == 1 { (what.trim_end_matches('s'), "is") } else { (what, "are") };
    Some(format!(
        "{rows} {what} {are} fewer than {key}, {taken}: every step takes some more than once"
    ))
}

/// The linter's findings in `what`, if there are any.
pub(crate) fn note(what: &str, report: &Report) -> Option<String> {
    if report.rows > 0 {
        return Some(format!("{what}: {report}"));
    }
    let Finding { origin, problem } = report.lossy.first().first()?; // of a task, which has no rows
    let count = report.lossy.count();
    Some(format!(
        "{what}: {count} of the first {MEASURED} with characters that the tokenizer lacks; the \
         first, {origin}: {problem}"
    ))
}
