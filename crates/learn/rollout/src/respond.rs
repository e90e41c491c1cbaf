//! From requests to judged responses: sampling, and environments and judging beside it.

use crate::engine::Request;
use crate::episode_queue::EpisodeQueue;
use crate::error::Error;
use crate::judge::Judge;
use crate::judge_queue::JudgeQueue;
use crate::observer::ProgressObserver;
use crate::played_turn::PlayedTurn;
use crate::response::Response;
use crate::sampling_run::{Sampler, SamplingRun};
use isentrope_data::Problem;
use std::mem;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

/// Names a response: the number of its request, and its number among the samples of that request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResponseId {
    /// The request, from 0 in the order in which requests were given.
    pub request: usize,
    /// The response's number among those to the request.
    pub sample: usize,
}

/// Whether sampling may be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Sampling goes on to the end.
    Never,
    /// Sampling ends when the observer asks for it.
    WhenAsked,
}

/// An event in the making of a response.
#[allow(clippy::large_enum_variant, reason = "it is taken at once")]
pub enum ResponseEvent {
    /// Its begun episode was replayed. It comes before the response's other events.
    Replayed {
        /// The turns that were taken over. Those behind them are not, since the environment has
        /// answered with other messages.
        turns: usize,
        /// Whether the environment has given another reward or other metrics before one of them.
        outcome_differs: bool,
    },
    /// A turn of its episode has ended.
    Turn(PlayedTurn),
    /// It is judged.
    Judged(Response),
}

/// Takes the events of each response, in whatever order responses end and verdicts come.
pub type ResponseSink<'a, E> = &'a mut dyn FnMut(ResponseId, ResponseEvent) -> Result<(), E>;

/// How sampling and judging went.
#[derive(Clone, Copy, Debug)]
pub struct RespondOutcome {
    /// Whether it was broken off.
    pub ended: ControlFlow<()>,
    /// Time for which nothing was left to do but wait for verdicts.
    pub waited: Duration,
    /// Time that all verdicts took, added up over the verifier's workers.
    pub verdicts: Duration,
}

/// Samples responses and judges each by the problem beside its request. `keep` gets every response
/// once it is judged, also if sampling is broken off or fails.
///
/// A verifier without workers judges `batch` responses at a time ([`JudgeQueue`]).
pub fn respond<E: From<Error>>(
    sampler: Sampler<'_>,
    questions: Vec<(&Problem, Request)>,
    judge: &Judge,
    batch: usize,
    keep: ResponseSink<'_, E>,
    observer: &mut dyn ProgressObserver,
) -> Result<RespondOutcome, E> {
    let (problems, requests): (Vec<&Problem>, Vec<Request>) = questions.into_iter().unzip();
    let interrupt = sampler.interrupt;
    thread::scope(|scope| {
        let mut queue = JudgeQueue::new(scope, judge, &problems, &requests, batch);
        let mut episodes = EpisodeQueue::new(scope, sampler.turns, &problems, &requests);
        let sampled = sample(sampler, requests, &mut episodes, &mut queue, keep, observer);
        drop(episodes); // the threads of what was broken off end
        queue.finish(sampled, interrupt, keep, observer)
    })
}

/// Samples to the end, and passes on what is sampled and what is judged meanwhile.
fn sample<E: From<Error>>(
    sampler: Sampler<'_>,
    requests: Vec<Request>,
    episodes: &mut EpisodeQueue<'_, '_>,
    queue: &mut JudgeQueue<'_, '_>,
    keep: ResponseSink<'_, E>,
    observer: &mut dyn ProgressObserver,
) -> Result<ControlFlow<()>, E> {
    let interrupt = sampler.interrupt;
    let mut run = SamplingRun::begin(sampler, requests)?;
    observer.progress(run.progress());
    while !episodes.are_over(&run) {
        if interrupt == Interrupt::WhenAsked && observer.stop_requested() {
            return Ok(ControlFlow::Break(()));
        }
        queue.ask(episodes.step(&mut run)?)?;
        for (id, event) in episodes.take_events() {
            keep(id, event)?;
        }
        while let Some((id, response)) = queue.next_judged()? {
            keep(id, ResponseEvent::Judged(response))?;
        }
        episodes.take_note().iter().for_each(|note| observer.note(note));
        observer.progress(run.progress());
    }
    Ok(ControlFlow::Continue(()))
}

/// Collects the responses to each request until all its samples are there.
pub struct Groups(Vec<Vec<Option<Response>>>);

impl Groups {
    /// Empty groups, one per request, with room for `samples` samples each.
    pub fn new(requests: usize, samples: usize) -> Self {
        Self(vec![vec![None; samples]; requests])
    }

    /// Adds a response. If it is the last of its request, returns all of them in order.
    pub fn add(&mut self, id: ResponseId, response: Response) -> Option<Vec<Response>> {
        let samples = &mut self.0[id.request];
        samples[id.sample] = Some(response);
        samples
            .iter()
            .all(Option::is_some)
            .then(|| mem::take(samples).into_iter().flatten().collect())
    }
}
