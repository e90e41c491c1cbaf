//! On-policy distillation's part of a step (docs/guides/train.md): the teacher scores the rollout,
//! and its log-probs become part of the tokens' advantages. Or the loss has the exact reverse KL to
//! it, and each update asks the teacher.

use super::Recipe;
use crate::advantage::is_masked;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::learner::Learner;
use crate::observer::{Phase, Progress};
use crate::teacher::{TEACHER_PROMPT, damaged, taught_prompt};
use crate::trainer::LearnContext;
use isentrope_model::{Model, Sequence};
use isentrope_objective::{Distillation, SelfTeacher};
use isentrope_rollout::{Prompter, Response};
use isentrope_run::tokens::Advantages;

/// Adds the teacher's advantages to the outcomes' advantages, `[groups][responses]`, and records
/// the reverse KL. Without such a teacher nothing changes. Responses that have no advantage, or are
/// masked because they were truncated, are not trained on and not scored.
pub(super) fn add_teaching(
    recipe: &Recipe,
    groups: &[Group],
    advantages: &mut [Vec<Option<Advantages>>],
    context: &mut LearnContext<'_>,
) -> Result<()> {
    if !recipe.objective.has_teacher() || recipe.objective.has_reverse_kl() {
        return Ok(());
    }
    let frozen = frozen_teacher(recipe, context);
    let LearnContext { learner, prompter, is_tight, record, observer, .. } = context;
    let learner: &Learner = learner;
    let teacher = frozen.unwrap_or(&learner.model);
    let (temperature, prompts) = (recipe.rollout.temperature, recipe.prompts_per_update());
    let (mut reverse_kl, mut targets, mut tokens) = (0.0, 0, 0);
    let total = groups.len().div_ceil(prompts);
    let minibatches = groups.chunks(prompts).zip(advantages.chunks_mut(prompts));
    for (done, (groups, advantages)) in minibatches.enumerate() {
        observer.progress(Progress { phase: Phase::Teacher, done, total, tokens });
        let taught = trained(groups, advantages, recipe.reward.mask_truncated);
        if taught.is_empty() {
            continue;
        }
        let shown: Vec<Vec<u32>> =
            groups.iter().map(|group| shown(recipe, group, prompter)).collect::<Result<_>>()?;
        let texts: Vec<Vec<u32>> = taught
            .iter()
            .map(|taught| [&shown[taught.group][..], &taught.response.tokens].concat())
            .collect();
        check_context(texts.iter().map(Vec::len).max(), teacher)?;
        let sequences: Vec<Sequence<'_>> = texts
            .iter()
            .zip(&taught)
            .map(|(tokens, taught)| Sequence { tokens, score_from: shown[taught.group].len() })
            .collect();
        let score = || match recipe.objective.distillation.self_teacher {
            Some(SelfTeacher::Live) => learner.score(&sequences, temperature),
            _ => learner.score_with(teacher, &sequences, temperature),
        };
        let scores = record.clock.time("teacher", score)?;
        if scores.logprobs.iter().any(|logprob| !logprob.is_finite()) {
            return Err(damaged("the log-probs of the teacher", &recipe.objective.distillation));
        }
        let mut rest = &scores.logprobs[..];
        for taught in taught {
            let (own, others) = rest.split_at(taught.response.tokens.len());
            rest = others;
            targets += taught.response.sampled_tokens();
            reverse_kl += taught.learn(&recipe.objective.distillation, own);
        }
        tokens += texts.iter().map(Vec::len).sum::<usize>();
    }
    if *is_tight {
        teacher.backend.trim(); // the update's buffers have other sizes than the teacher's
    }
    record.clock.count("teacher", tokens);
    record.metrics.set_mean("kl/teacher", reverse_kl, targets);
    Ok(())
}

/// The teacher that stays as it is; none if it is the model in training.
pub(super) fn frozen_teacher<'a>(recipe: &Recipe, context: &LearnContext<'a>) -> Option<&'a Model> {
    match recipe.objective.distillation.self_teacher {
        None => context.teacher,
        Some(SelfTeacher::Base) => context.reference,
        Some(SelfTeacher::Live) => None,
    }
}

/// The prompt of each group that the teacher of the exact reverse KL is shown, `[groups]`; none
/// without such a teacher. It is empty for a group of which no response is trained on.
pub(super) fn taught_prompts(
    recipe: &Recipe,
    groups: &[Group],
    learnt: &[Vec<Option<&Advantages>>],
    context: &LearnContext<'_>,
) -> Result<Option<Vec<Vec<u32>>>> {
    if !recipe.objective.has_reverse_kl() {
        return Ok(None);
    }
    let teacher = frozen_teacher(recipe, context).unwrap_or(&context.learner.model);
    let prompt = |(group, learnt): (&Group, &Vec<Option<&Advantages>>)| {
        let trained = group.responses.iter().zip(learnt).filter(|(_, learnt)| learnt.is_some());
        let Some(longest) = trained.map(|(response, _)| response.tokens.len()).max() else {
            return Ok(Vec::new());
        };
        let shown = shown(recipe, group, context.prompter)?;
        check_context(Some(shown.len() + longest), teacher)?;
        Ok(shown)
    };
    groups.iter().zip(learnt).map(prompt).collect::<Result<_>>().map(Some)
}

/// Checks that the longest response fits the teacher's context behind its prompt.
fn check_context(longest: Option<usize>, teacher: &Model) -> Result<()> {
    let context = teacher.config.context();
    let Some(longest) = longest.filter(|longest| *longest > context) else { return Ok(()) };
    let what = format!(
        "a response comes to {longest} tokens behind {TEACHER_PROMPT}, and the teacher's context \
         is {context}: lower rollout.max_tokens or shorten it"
    );
    Err(Error::Run(what))
}

/// The tokens of the prompt that the teacher is shown.
fn shown(recipe: &Recipe, group: &Group, prompter: &Prompter) -> Result<Vec<u32>> {
    let Some(question) = &recipe.objective.distillation.teacher_prompt else {
        return Ok(group.prompt.clone());
    };
    taught_prompt(question, &group.problem)
        .and_then(|prompt| prompter.prompt_tokens(&prompt))
        .map_err(|what| Error::Run(format!("{}: {what}", group.problem.origin)))
}

/// A response that is trained on.
struct TaughtResponse<'a> {
    /// The number of its group in the minibatch.
    group: usize,
    response: &'a Response,
    advantages: &'a mut Advantages,
}

impl TaughtResponse<'_> {
    /// Adds the teacher's part, by its log-prob of each token. Given tokens have none. Returns the
    /// sum over the others of log pi_old - log pi_teacher, nats.
    fn learn(self, distillation: &Distillation, teacher: &[f32]) -> f64 {
        let mut reverse_kl = 0.0;
        let of_token = |(token, (&student, &teacher)): (usize, (&f32, &f32))| {
            if self.response.given.contains(token) {
                return 0.0;
            }
            let (student, teacher) = (f64::from(student), f64::from(teacher));
            reverse_kl += student - teacher;
            distillation.advantage(self.advantages.at(token), student, teacher)
        };
        let each = self.response.logprobs.iter().zip(teacher).enumerate().map(of_token).collect();
        *self.advantages = Advantages::Each(each);
        reverse_kl
    }
}

/// The responses of these groups that are trained on.
fn trained<'a>(
    groups: &'a [Group],
    advantages: &'a mut [Vec<Option<Advantages>>],
    mask_truncated: bool,
) -> Vec<TaughtResponse<'a>> {
    let of_group =
        |(number, (group, advantages)): (usize, (&'a Group, &'a mut Vec<Option<Advantages>>))| {
            group.responses.iter().zip(advantages).filter_map(move |(response, advantages)| {
                let advantages =
                    advantages.as_mut().filter(|_| !is_masked(response, mask_truncated))?;
                Some(TaughtResponse { group: number, response, advantages })
            })
        };
    groups.iter().zip(advantages).enumerate().flat_map(of_group).collect()
}

#[cfg(test)]
mod tests;
