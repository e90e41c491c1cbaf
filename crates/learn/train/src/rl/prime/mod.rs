//! PRIME's part of a step (docs/concepts/entropy.md): the process model learns from the rollout and
//! scores it, and its scores become advantages of tokens.

mod settings;

pub use settings::{Order, PrimeSettings};

use super::Recipe;
use crate::advantage::{ComparedResponse, by_group, compared, is_masked, outcomes};
use crate::collect::RolloutSettings;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::observer::{Phase, Progress};
use crate::process_model::ProcessBatch;
use crate::trainer::LearnContext;
use isentrope_model::Model;
use isentrope_objective::{Discernment, Estimator, ScoredResponse, prime_advantages};
use isentrope_reward::Verdict;
use isentrope_rollout::Response;
use isentrope_run::tokens::Advantages;

/// The responses that phi learns from in a step.
struct Rollout<'a> {
    /// The responses that are judged and compared.
    responses: Vec<ComparedResponse<'a>>,
    batch: ProcessBatch,
}

/// Lets the process model learn from the rollout and score it. Returns advantages in the form of
/// [`group_advantages`](crate::advantage::group_advantages).
///
/// # Panics
/// When the context has no process model or no reference.
pub(super) fn advantages(
    recipe: &Recipe,
    groups: &[Group],
    context: &mut LearnContext<'_>,
) -> Result<Vec<Vec<Option<Advantages>>>> {
    let LearnContext { step, process_model, reference, record, observer, .. } = context;
    let phi = process_model.as_deref_mut().expect("PRIME is made ready with a process model");
    let reference = reference.expect("PRIME is made ready with a reference");
    let Recipe { prime: settings, run, rollout: RolloutSettings { temperature, .. }, .. } = recipe;
    let learning_rate = settings.optimizer.rate(*step, run.steps);
    let clock = &mut record.clock;
    let mut work = |done| {
        observer.progress(Progress { phase: Phase::ProcessModel, done, total: 3, tokens: 0 });
    };
    work(0);
    let rollout =
        clock.time("process_model", || Rollout::new(groups, reference, phi, *temperature))?;
    work(1);
    let skipped_before = phi.optimizer.progress.skipped;
    let (scores, learnt) = match settings.order {
        Order::Before => {
            let learnt =
                clock.time("process_model", || rollout.learn(recipe, learning_rate, phi))?;
            work(2);
            (clock.time("process_model", || rollout.batch.log_ratios(phi, *temperature))?, learnt)
        }
        Order::After => {
            let scores =
                clock.time("process_model", || rollout.batch.log_ratios(phi, *temperature))?;
            work(2);
            (scores, clock.time("process_model", || rollout.learn(recipe, learning_rate, phi))?)
        }
    };
    work(3);
    clock.count("process_model", rollout.batch.all_tokens());

    if scores.iter().flatten().any(|ratio| !ratio.is_finite()) {
        let key = phi.optimizer.table;
        let what = format!(
            "the log-probs of the process model are not finite: lower {key}.learning_rate and go \
             on from an earlier checkpoint, or look for damaged weights"
        );
        return Err(Error::Run(what));
    }
    let rows: Vec<&[f64]> = scores.iter().map(Vec::as_slice).collect();
    let prime = prime_advantages(&settings.parts(), &outcomes(Estimator::Prime, groups), &rows);
    let metrics = &mut record.metrics;
    rollout.measure(settings.beta, &learnt, metrics);
    metrics.set("prime/process_share", prime.process_share);
    metrics.set("prime/learning_rate", learning_rate);
    let skipped = phi.optimizer.progress.skipped;
    metrics.set("prime/skipped", f64::from(skipped));
    if let Some(note) = phi.optimizer.skipped_since(skipped_before, "of the process model ") {
        observer.note(&note);
    }
    let of_tokens = |(each, compared): (Vec<f64>, &ComparedResponse<'_>)| {
        let Response { given, tokens, .. } = compared.response;
        Advantages::Each(given.spread(tokens.len(), each, 0.0))
    };
    let advantages = prime.advantages.into_iter().zip(&rollout.responses).map(of_tokens);
    Ok(by_group(Estimator::Prime, groups, advantages))
}

fn is_correct(response: &Response) -> bool {
    response.judgement.verdict == Verdict::Correct
}

/// The results of the process model's updates.
struct ProcessUpdates {
    /// The places of the responses that phi has learnt from, and their log-ratios before it did:
    /// its verdicts on unseen responses.
    seen: Vec<(usize, Vec<f64>)>,
    /// The norm of each update's gradient.
    norms: Vec<f64>,
}

impl<'a> Rollout<'a> {
    /// The responses that are compared, with their log-probs under the reference.
    fn new(
        groups: &'a [Group],
        reference: &Model,
        phi: &Learner,
        temperature: f32,
    ) -> Result<Self> {
        let responses: Vec<_> = compared(Estimator::Prime, groups).collect();
        let parts = responses.iter().map(|&ComparedResponse { group, response, .. }| {
            (&group.prompt[..], response, is_correct(response))
        });
        let batch = ProcessBatch::new(parts, reference, phi, temperature)?;
        Ok(Self { responses, batch })
    }

    /// One update of the process model per minibatch. It learns from the responses that the policy
    /// learns from.
    fn learn(
        &self,
        recipe: &Recipe,
        learning_rate: f64,
        phi: &mut Learner,
    ) -> Result<ProcessUpdates> {
        let mut learnt = ProcessUpdates { seen: Vec::new(), norms: Vec::new() };
        let learns = |place: &usize| {
            !is_masked(self.responses[*place].response, recipe.reward.mask_truncated)
        };
        let places: Vec<usize> = (0..self.responses.len()).filter(learns).collect();
        let minibatch = recipe.prompts_per_process_update();
        let of_update = |place: usize| self.responses[place].place.0 / minibatch;
        for places in places.chunk_by(|&a, &b| of_update(a) == of_update(b)) {
            let (beta, temperature) = (recipe.prime.beta, recipe.rollout.temperature);
            let log_ratios = self.batch.accumulate(places, phi, beta, temperature)?;
            learnt.seen.extend(places.iter().copied().zip(log_ratios));
            learnt.norms.push(phi.step(learning_rate)?);
        }
        Ok(learnt)
    }

    /// Records how well phi's rewards on unseen responses agree with the verdicts, and its updates.
    fn measure(&self, beta: f64, learnt: &ProcessUpdates, metrics: &mut Metrics) {
        let seen: Vec<ScoredResponse<'_>> = learnt
            .seen
            .iter()
            .map(|(place, log_ratios)| {
                let ComparedResponse { place: (group, _), response, .. } = self.responses[*place];
                ScoredResponse { group, correct: is_correct(response), log_ratios }
            })
            .collect();
        for (name, value) in Discernment::of(beta, &seen).iter().flat_map(Discernment::metrics) {
            metrics.set(name, value);
        }
        let updates = learnt.norms.len() as f64;
        metrics.set("prime/updates", updates);
        if updates > 0.0 {
            metrics.set("prime/grad_norm", learnt.norms.iter().sum::<f64>() / updates);
        }
    }
}
