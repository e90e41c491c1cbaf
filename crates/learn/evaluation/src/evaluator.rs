//! Samples and judges the responses to sets of held-out problems.

use crate::error::Result;
use crate::sets::EvaluationSet;
use crate::statistics::cast_votes;
use isentrope_data::benchmark::Decoding;
use isentrope_model::Model;
use isentrope_random::Purpose;
use isentrope_reward::{Judgement, Verdict};
use isentrope_rollout::{
    Groups, Interrupt, Judge, Key, Limits, Phase, ProgressObserver, Prompter, Request, Response,
    ResponseEvent, ResponseId, Sampler, Sampling, Turns, respond, settle_failures, verifier_item,
};
use isentrope_run::tokens::GivenRanges;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Everything that an evaluation needs besides the model and the problems.
pub struct Evaluator<'a> {
    /// How responses are drawn. A set's decoding overrides its own settings.
    pub sampling: Sampling,
    /// Seed of the random numbers. Every evaluation draws the same numbers, so that differences
    /// come from the policy.
    pub seed: u64,
    /// Turns text into tokens and back.
    pub prompter: &'a Prompter,
    /// Judges the responses to sets that have no judge of their own.
    pub judge: &'a Judge,
    /// Memory of sampling.
    pub limits: Limits,
    /// The environment that answers the model's turns, if responses have several.
    pub turns: Option<Turns<'a>>,
}

impl Evaluator<'_> {
    /// Samples and judges all responses to consecutive problems of a set: `[problems][samples]`.
    /// [`tell_faults`](Self::tell_faults) reports responses that could not be judged.
    ///
    /// # Errors
    /// As sampling's and judging's.
    pub fn responses(
        &self,
        model: &Model,
        set: &EvaluationSet,
        problems: Range<usize>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Vec<Vec<Response>>> {
        let first = problems.start;
        let mut all = vec![Vec::new(); problems.len()];
        let problems: Vec<usize> = problems.collect();
        let keep = &mut |problem: usize, responses| {
            all[problem - first] = responses;
            Ok(())
        };
        let _: ControlFlow<()> =
            self.sample(model, set, &problems, Interrupt::Never, keep, observer)?;
        Ok(all)
    }

    /// Reports to the observer the number of a set's responses that could not be judged, and why
    /// the first could not.
    pub fn tell_faults(
        &self,
        set: &EvaluationSet,
        all: &[Vec<Response>],
        observer: &mut dyn ProgressObserver,
    ) {
        let mut faults = Faults::default();
        all.iter().enumerate().for_each(|(problem, responses)| faults.add(problem, responses));
        faults.tell(set, observer);
    }

    /// Samples and judges the responses to some of a set's problems, given by their places in the
    /// set. `each` gets a problem's place and its responses as soon as all are complete. A response
    /// depends on the weights, its prompt, the seed, the problem's place and its own number, and on
    /// nothing else. The observer hears how many responses could not be judged, and why the first
    /// could not. Sampling breaks off if `interrupt` allows it and the observer asks for it.
    ///
    /// # Errors
    /// As sampling's and judging's; and what `each` returns.
    pub fn respond(
        &self,
        model: &Model,
        set: &EvaluationSet,
        problems: &[usize],
        interrupt: Interrupt,
        each: &mut dyn FnMut(usize, Vec<Response>) -> Result<()>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>> {
        let mut faults = Faults::default();
        let counted = &mut |problem: usize, responses: Vec<Response>| {
            faults.add(problem, &responses);
            each(problem, responses)
        };
        let ended = self.sample(model, set, problems, interrupt, counted, observer)?;
        faults.tell(set, observer);
        Ok(ended)
    }

    /// Like [`respond`](Self::respond), but does not report responses that could not be judged.
    fn sample(
        &self,
        model: &Model,
        set: &EvaluationSet,
        problems: &[usize],
        interrupt: Interrupt,
        each: &mut dyn FnMut(usize, Vec<Response>) -> Result<()>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>> {
        let Decoding { samples, temperature, max_tokens } = set.decoding;
        let sampling = Arc::new(Sampling { temperature, max_tokens, ..self.sampling.clone() });
        let context = model.context();
        let (fitting, too_long): (Vec<usize>, Vec<usize>) =
            problems.iter().partition(|&&problem| set.problems[problem].1.len() < context);
        for problem in too_long {
            each(problem, vec![unanswered(set.problems[problem].1.len(), context); samples])?;
        }
        let question = |&problem: &usize| {
            let (asked, prompt) = &set.problems[problem];
            let request = Request {
                key: Key {
                    seed: self.seed,
                    step: Purpose::Evaluation.word(),
                    prompt: problem as u64,
                },
                prompt: prompt.clone(),
                samples: (0..set.decoding.sampled()).collect(),
                sampling: sampling.clone(),
                cache_activations: false,
            };
            (asked, request)
        };
        let questions = fitting.iter().map(question).collect();
        let mut groups = Groups::new(fitting.len(), set.decoding.sampled());
        let judge = set.judge.as_deref().unwrap_or(self.judge);
        let keep = &mut |id: ResponseId, event: ResponseEvent| {
            let ResponseEvent::Judged(response) = event else { return Ok(()) };
            let Some(mut responses) = groups.add(id, response) else { return Ok(()) };
            settle_failures(&mut responses.iter_mut().collect::<Vec<_>>());
            // A greedy one stands for all.
            if let [one] = &responses[..] {
                responses = vec![one.clone(); samples];
            }
            let problem = fitting[id.request];
            cast_votes(&*judge.verifier, &verifier_item(&set.problems[problem].0), &mut responses);
            each(problem, responses)
        };
        let sampler = Sampler {
            model,
            activation_cache: None,
            tokenizer: &self.prompter.tokenizer,
            limits: self.limits,
            phase: Phase::Evaluation,
            interrupt,
            turns: self.turns,
        };
        // One request at a time, so that a problem is written as soon as it is sampled.
        let responded = respond(sampler, questions, judge, 1, keep, observer)?;
        Ok(responded.ended)
    }
}

/// Responses that could not be judged, and those at which the verifier failed.
#[derive(Default)]
struct Faults {
    /// Responses altogether.
    of: usize,
    unjudged: Count,
    failed: Count,
}

/// Responses of a kind.
#[derive(Default)]
struct Count {
    count: usize,
    /// The first in the order of problems: the problem's place, and why.
    first: Option<(usize, String)>,
}

impl Count {
    fn add(&mut self, problem: usize, response: &Response) {
        self.count += 1;
        if self.first.as_ref().is_none_or(|(known, _)| problem < *known) {
            self.first = Some((problem, response.judgement.reason.clone()));
        }
    }
}

impl Faults {
    fn add(&mut self, problem: usize, responses: &[Response]) {
        self.of += responses.len();
        for response in responses {
            if !response.is_judged() {
                self.unjudged.add(problem, response);
            } else if response.judgement.failed {
                self.failed.add(problem, response);
            }
        }
    }

    fn tell(&self, set: &EvaluationSet, observer: &mut dyn ProgressObserver) {
        let Self { of, unjudged, failed } = self;
        for (Count { count, first }, what) in
            [(unjudged, "could not be judged"), (failed, "failed to be judged, and count as wrong")]
        {
            let Some((problem, reason)) = first else { continue };
            let (name, origin) = (&set.name, &set.problems[*problem].0.origin);
            observer.note(&format!(
                "{name}: {count} of {of} responses {what}; the first ({origin}): {reason}"
            ));
        }
    }
}

/// An empty response, for a prompt of `prompt` tokens that leaves no room in the context.
fn unanswered(prompt: usize, context: usize) -> Response {
    let reason =
        format!("the prompt has {prompt} tokens and does not fit the model's context of {context}");
    Response {
        text: String::new(),
        tokens: Vec::new(),
        given: GivenRanges::default(),
        logprobs: Vec::new(),
        entropies: Vec::new(),
        masks: None,
        truncated: true,
        given_text: Vec::new(),
        out_of_turns: false,
        judgement: Judgement::new(Verdict::Unparseable, None, reason),
        reward: 0.0,
        activation_slots: None,
        vote: None,
    }
}
