//! PRIME's part of a step (docs/prime.md): the process model learns from the rollout and scores it, and its scores become
//! advantages of tokens.

mod settings;

pub use settings::{Order, PrimeSettings};

use crate::advantage::{by_group, compared, outcomes};
use crate::error::Result;
use crate::group::Group;
use crate::learner::Learner;
use crate::observer::{Phase, Progress};
use crate::process_model::ProcessBatch;
use crate::trainer::LearnContext;
use isentrope_kernels::Backend;
use isentrope_lab::tokens::Advantages;
use isentrope_model::Model;
use isentrope_objective::{Discernment, Estimator, Scored, prime_advantages};
use isentrope_reward::Verdict;
use isentrope_rollout::Response;

/// What is learnt from in a step.
#[derive(Clone, Copy)]
pub(super) struct Rollout<'a> {
    pub groups: &'a [Group],
    /// Whether truncated responses are left out of what phi learns from, as they are of what the policy does.
    pub mask_truncated: bool,
    /// Groups of one update of phi.
    pub minibatch: usize,
    pub temperature: f32,
    /// Phi's, in this step.
    pub learning_rate: f64,
}

/// Has the process model learn from the rollout and score it. The advantages of its responses, as
/// [`group_advantages`](crate::advantage::group_advantages) has them.
///
/// # Errors
/// As [`Learner::step`].
///
/// # Panics
/// When the context has no process model or no reference.
pub(super) fn advantages<B: Backend>(
    settings: &PrimeSettings,
    rollout: Rollout<'_>,
    context: &mut LearnContext<'_, B>,
) -> Result<Vec<Vec<Option<Advantages>>>> {
    let LearnContext { process_model, reference, record, observer, .. } = context;
    let phi = process_model.as_deref_mut().expect("PRIME is made ready with a process model");
    let reference = reference.expect("PRIME is made ready with a reference");
    let Rollout { groups, temperature, .. } = rollout;
    let responses: Vec<(usize, &Group, &Response)> = compared(Estimator::Prime, groups).collect();
    let clock = &mut record.clock;
    let mut work =
        |done| observer.progress(Progress { phase: Phase::ProcessModel, done, total: 3, tokens: 0 });
    work(0);
    let batch = clock.time("process_model", || batch(&responses, reference, phi, temperature));
    work(1);
    let skipped_before = phi.optimizer.progress.skipped;
    let (scores, learnt) = match settings.order {
        Order::Before => {
            let learnt = clock.time("process_model", || learn(settings, rollout, &responses, &batch, phi))?;
            work(2);
            (clock.time("process_model", || batch.log_ratios(phi, temperature)), learnt)
        }
        Order::After => {
            let scores = clock.time("process_model", || batch.log_ratios(phi, temperature));
            work(2);
            (scores, clock.time("process_model", || learn(settings, rollout, &responses, &batch, phi))?)
        }
    };
    work(3);
    clock.count("process_model", batch.all_tokens());

    let metrics = &mut record.metrics;
    let seen: Vec<Scored<'_>> = learnt
        .seen
        .iter()
        .map(|(place, log_ratios)| {
            let (group, _, response) = responses[*place];
            Scored { group, correct: is_correct(response), log_ratios }
        })
        .collect();
    for (name, value) in Discernment::of(settings.beta, &seen).iter().flat_map(Discernment::metrics) {
        metrics.set(name, value);
    }
    let rows: Vec<&[f64]> = scores.iter().map(Vec::as_slice).collect();
    let prime = prime_advantages(&settings.parts(), &outcomes(Estimator::Prime, groups), &rows);
    metrics.set("prime/process_share", prime.process_share);
    metrics.set("prime/updates", learnt.norms.len() as f64);
    if !learnt.norms.is_empty() {
        metrics.set("prime/grad_norm", learnt.norms.iter().sum::<f64>() / learnt.norms.len() as f64);
    }
    metrics.set("prime/learning_rate", rollout.learning_rate);
    let skipped = phi.optimizer.progress.skipped;
    metrics.set("prime/skipped", f64::from(skipped));
    if skipped > skipped_before {
        let left_out = skipped - skipped_before;
        observer.note(&format!(
            "{left_out} of the process model's updates left out of this step: the gradient is not finite"
        ));
    }
    Ok(by_group(Estimator::Prime, groups, prime.advantages.into_iter().map(Advantages::Each)))
}

fn batch<B: Backend>(
    responses: &[(usize, &Group, &Response)],
    reference: &Model<B>,
    phi: &Learner<B>,
    temperature: f32,
) -> ProcessBatch {
    let parts =
        responses.iter().map(|&(_, group, response)| (&group.prompt[..], response, is_correct(response)));
    ProcessBatch::new(parts, reference, phi, temperature)
}

fn is_correct(response: &Response) -> bool {
    response.judgement.verdict == Verdict::Correct
}

/// What came of the process model's updates.
struct Learnt {
    /// The places of the responses that it has learnt from, and their log-ratios before it had: what it says of what it has not
    /// seen.
    seen: Vec<(usize, Vec<f64>)>,
    /// Of each update, the norm of its gradient.
    norms: Vec<f64>,
}

/// One update of the process model per minibatch.
fn learn<B: Backend>(
    settings: &PrimeSettings,
    rollout: Rollout<'_>,
    responses: &[(usize, &Group, &Response)],
    batch: &ProcessBatch,
    phi: &mut Learner<B>,
) -> Result<Learnt> {
    let Rollout { mask_truncated, minibatch, temperature, learning_rate, .. } = rollout;
    let mut learnt = Learnt { seen: Vec::new(), norms: Vec::new() };
    let places: Vec<usize> =
        (0..responses.len()).filter(|&place| !(mask_truncated && responses[place].2.truncated)).collect();
    let of_update = |place: usize| responses[place].0 / minibatch;
    for places in places.chunk_by(|&a, &b| of_update(a) == of_update(b)) {
        let log_ratios = batch.accumulate(places, phi, settings.beta, temperature);
        learnt.seen.extend(places.iter().copied().zip(log_ratios));
        learnt.norms.push(phi.step(learning_rate)?.norm);
    }
    Ok(learnt)
}
