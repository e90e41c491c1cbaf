//! The problems of a run: to train on, and held out.

use crate::error::{Error, Result};
use crate::evaluation::{self, EvaluationSet, sets};
use crate::prompts::Prompter;
use isentrope_data::{Problem, Report, Source};
use isentrope_reward::VerifierSettings;

/// Problems of the built-in task whose prompts are measured, to know how long they get.
const MEASURED: u64 = 1000;

/// Everything read from the data.
pub(crate) struct Problems {
    pub train: Source,
    pub sets: Vec<EvaluationSet>,
    /// Tokens of the longest prompt that is trained on.
    pub longest_prompt: usize,
    /// Defects that the user should know of.
    pub notes: Vec<String>,
}

impl Problems {
    pub(crate) fn open(
        data: &isentrope_data::Settings,
        eval: (&evaluation::Settings, usize),
        seed: u64,
        prompter: &Prompter,
        context: usize,
        verifier: &VerifierSettings,
    ) -> Result<Self> {
        let (mut train, report) = Source::open(data, seed, verifier)?;
        let mut notes: Vec<String> = note("training data", &report).into_iter().collect();
        let mut longest_prompt = 0;
        let mut failed = Ok(());
        // One token of the context at least is the response's.
        let longest_allowed = data.max_prompt_tokens.unwrap_or(usize::MAX).min(context.saturating_sub(1));
        let tokens = |problem: &Problem| {
            check(problem, verifier)?;
            prompter.tokens(problem)
        };
        let mut fits = |problem: &Problem| match tokens(problem) {
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
        let (eval, max_tokens) = eval;
        let sets = sets::of_run(data, eval, max_tokens, verifier, prompter, context, &mut notes)?;
        Ok(Self { train, sets, longest_prompt, notes })
    }
}

/// What of a problem is not in its row alone: whether it has a verifier, and of a task whether that is the right one.
pub(crate) fn check(problem: &Problem, verifier: &VerifierSettings) -> Result<()> {
    let Problem { ground_truth, data_source, origin, .. } = problem;
    let wrong = |what: String| Error::Run(format!("{origin}: {what}"));
    verifier.check_data_source(data_source).map_err(wrong)?;
    verifier
        .check_ground_truth(ground_truth, data_source)
        .map_err(|what| wrong(format!("{what}; choose another reward.verifier")))
}

/// What sampling the responses to some sets takes: the longest prompt and response together, in tokens, and the most
/// responses at a time.
pub(crate) fn demand(sets: &[EvaluationSet], context: usize) -> (usize, usize) {
    let longest = |set: &EvaluationSet| {
        set.longest_prompt(context).saturating_add(set.decoding.max_tokens).min(context)
    };
    let responses = |set: &EvaluationSet| set.problems.len().saturating_mul(set.decoding.samples);
    (sets.iter().map(longest).max().unwrap_or(0), sets.iter().map(responses).max().unwrap_or(0))
}

/// What the linter found in `what`, if there is anything to say.
pub(crate) fn note(what: &str, report: &Report) -> Option<String> {
    (report.rows > 0).then(|| format!("{what}: {report}"))
}
