//! Sampling with judging: from requests to judged responses.

use crate::beside::judge_beside;
use crate::engine::Request;
use crate::error::Error;
use crate::judge::Judge;
use crate::observer::ProgressObserver;
use crate::peers::{Peers, Place};
use crate::response::Response;
use crate::sample::{Sampled, Sampler, Work};
use crate::sequence::Completion;
use isentrope_data::Problem;
use std::mem;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How sampling and judging went.
#[derive(Clone, Copy, Debug)]
pub struct Responded {
    /// Whether it was broken off.
    pub ended: ControlFlow<()>,
    /// Time for which nothing was left to do but wait for verdicts.
    pub waited: Duration,
    /// Time that all verdicts took, added up over the verifier's workers.
    pub verdicts: Duration,
}

/// Samples responses and judges them, each by the problem that stands with its request. `each` gets the number of a request, the
/// number of a sample, and the response to it once it is judged; which is the first is not fixed.
///
/// A verifier with workers is asked about a response as soon as that is sampled, while others still are. Any other computes in
/// this thread or in threads of its own, where sampling computes, and is asked once `batch` responses are there, and at the end.
/// Either way each judgement is the same.
///
/// Where there are peers, all have the same list of questions, and each request asks for the responses that this one begins
/// with. It may take over others and give some away, and judges what has ended here.
///
/// If it is broken off, what is judged by then is given to `each`.
///
/// # Errors
/// As [`Engine::submit`](crate::Engine::submit) and [`Engine::step`](crate::Engine::step), [`Error::Verifier`] when the verifier
/// can judge nothing any more; and what `each` and the peers return.
pub fn respond<E: From<Error>>(
    sampler: Sampler<'_>,
    questions: Vec<(&Problem, Request)>,
    peers: Option<&mut dyn Peers<E>>,
    judge: &Judge,
    batch: usize,
    each: &mut dyn FnMut(usize, usize, Response) -> Result<(), E>,
    observer: &mut dyn ProgressObserver,
) -> Result<Responded, E> {
    let (problems, requests): (Vec<&Problem>, Vec<Request>) = questions.into_iter().unzip();
    let work = Work { requests, peers };
    let mut taker = Taker { judged: 0, each };
    match judge.verifier.workers() {
        0 => judge_in_batches(sampler, work, &problems, judge, batch, &mut taker, observer),
        workers => judge_beside(sampler, work, &problems, (judge, workers), &mut taker, observer),
    }
}

/// Who takes what is judged.
pub(crate) struct Taker<'a, E> {
    /// How many responses have been taken.
    pub judged: usize,
    each: &'a mut dyn FnMut(usize, usize, Response) -> Result<(), E>,
}

impl<E> Taker<'_, E> {
    pub fn take(&mut self, place: Place, response: Response) -> Result<(), E> {
        self.judged += 1;
        (self.each)(place.request, place.sample, response)
    }
}

/// The responses to each request, of so many samples each, until all of a request's are there.
pub struct Groups(Vec<Vec<Option<Response>>>);

impl Groups {
    /// None is there.
    pub fn new(requests: usize, samples: usize) -> Self {
        Self(vec![vec![None; samples]; requests])
    }

    /// Takes a response. If it was the last of its request, that one's are returned, in the order of samples.
    pub fn add(&mut self, request: usize, sample: usize, response: Response) -> Option<Vec<Response>> {
        let samples = &mut self.0[request];
        samples[sample] = Some(response);
        samples.iter().all(Option::is_some).then(|| mem::take(samples).into_iter().flatten().collect())
    }
}

fn judge_in_batches<E: From<Error>>(
    sampler: Sampler<'_>,
    work: Work<'_, E>,
    problems: &[&Problem],
    judge: &Judge,
    batch: usize,
    taker: &mut Taker<'_, E>,
    observer: &mut dyn ProgressObserver,
) -> Result<Responded, E> {
    let (mut places, mut sampled) = (Vec::new(), Vec::new());
    let (mut verdicts, mut waited) = (Duration::ZERO, Duration::ZERO);
    let mut judge = |places: &mut Vec<Place>, sampled: &mut Vec<(_, Completion)>| {
        let begun = Instant::now();
        let responses = judge.responses(mem::take(sampled))?;
        let took = begun.elapsed();
        verdicts += took;
        places.drain(..).zip(responses).try_for_each(|(place, response)| taker.take(place, response))?;
        Ok::<_, E>(took)
    };
    let each = &mut |ended: Sampled| -> Result<(), E> {
        let Some((place, completion)) = ended else {
            waited += judge(&mut places, &mut sampled)?;
            return Ok(());
        };
        places.push(place);
        sampled.push((problems[place.request], completion));
        if places.len() >= batch {
            judge(&mut places, &mut sampled)?;
        }
        Ok(())
    };
    let ended = sampler.sample(work, each, observer);
    // Also where the others cannot go on: what is judged need not be sampled again.
    let judged = judge(&mut places, &mut sampled);
    let ended = ended?;
    waited += judged?;
    Ok(Responded { ended, waited, verdicts })
}
