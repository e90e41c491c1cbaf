//! Sampling on several ranks: each samples as a single process does, and a rank that has run out of
//! work takes over responses of the others. No bit of a response depends on who samples it.

use super::share_out::{Move, Offer, Shares, share_out};
use crate::error::{Error, Result};
use crate::observer::Progress;
use crate::ranks::TrainingRanks;
use isentrope_data::Problem;
use isentrope_rollout::{
    EpisodeQueue, Interrupt, Judge, JudgeQueue, PartialResponse, ProgressObserver, Request,
    RespondOutcome, ResponseEvent, ResponseId, ResponseSink, Sampler, SamplingRun, Unfinished,
};
use serde::{Deserialize, Serialize};
use std::mem;
use std::ops::ControlFlow;
use std::thread;

/// Like [`isentrope_rollout::respond`], on all ranks. Each has the same list of questions, and
/// begins with the samples that its own requests name. A response is judged where it ends. Also
/// returns how many responses went from one rank to another.
pub(super) fn respond_with_ranks(
    ranks: &TrainingRanks,
    sampler: Sampler<'_>,
    questions: Vec<(&Problem, Request)>,
    judge: &Judge,
    batch: usize,
    keep: ResponseSink<'_, Error>,
    observer: &mut dyn ProgressObserver,
) -> Result<(RespondOutcome, usize)> {
    let (problems, requests): (Vec<&Problem>, Vec<Request>) = questions.into_iter().unzip();
    // A group is judged by one rank, so none of its responses goes to another. Episodes that their
    // environment opens have all begun.
    let opens = sampler.turns.is_some_and(|turns| turns.environment.opens());
    let is_over = judge.verifier.judges_groups() || opens;
    let mut exchange = Exchange { ranks, moved: 0, is_over };
    let responded = thread::scope(|scope| {
        let mut queue = JudgeQueue::new(scope, judge, &problems, &requests, batch);
        let mut episodes = EpisodeQueue::new(scope, sampler.turns, &problems, &requests);
        let among = (&mut exchange, &mut episodes, &mut queue);
        let sampled = sample(sampler, &requests, among, keep, observer);
        drop(episodes); // the threads of what was broken off end
        queue.finish(sampled, Interrupt::Never, keep, observer)
    })?;
    Ok((responded, exchange.moved))
}

/// Samples until no rank has a response that could move.
fn sample(
    sampler: Sampler<'_>,
    requests: &[Request],
    (exchange, episodes, queue): (
        &mut Exchange<'_>,
        &mut EpisodeQueue<'_, '_>,
        &mut JudgeQueue<'_, '_>,
    ),
    keep: ResponseSink<'_, Error>,
    observer: &mut dyn ProgressObserver,
) -> Result<ControlFlow<()>> {
    let mut run = SamplingRun::begin(sampler, requests.to_vec())?;
    let mut taken = Vec::new();
    observer.progress(run.progress());
    loop {
        while !episodes.are_over(&run) {
            queue.ask(episodes.step(&mut run)?)?;
            for (id, event) in episodes.take_events() {
                keep(id, event)?;
            }
            while let Some((id, response)) = queue.next_judged()? {
                keep(id, ResponseEvent::Judged(response))?;
            }
            // Also where all that is left waits for the environment: the others wait meanwhile.
            if !episodes.are_over(&run) && exchange.is_called() {
                taken.extend(exchange.meet(&mut run)?);
            }
            episodes.take_note().iter().for_each(|note| observer.note(note));
            observer.progress(run.progress());
        }
        if taken.is_empty() {
            if exchange.is_over {
                return Ok(ControlFlow::Continue(()));
            }
            queue.judge_incomplete_batch()?;
            while let Some((id, response)) = queue.next_judged()? {
                keep(id, ResponseEvent::Judged(response))?;
            }
            taken.extend(exchange.meet(&mut run)?);
            observer.progress(run.progress());
        }
        if !taken.is_empty() {
            run = run.take_over(mem::take(&mut taken), requests)?;
        }
    }
}

/// The meetings in which ranks share out the responses that are left. Every meeting has all ranks:
/// a rank with nothing left comes and waits, and a busy rank comes when another waits.
struct Exchange<'a> {
    ranks: &'a TrainingRanks,
    /// Responses that have gone from one rank to another.
    moved: usize,
    /// Whether there are no more meetings: each rank samples its remaining responses to the end.
    is_over: bool,
}

/// A response on its way to another rank.
#[derive(Serialize, Deserialize)]
struct MovedResponse {
    to: usize,
    request: usize,
    sample: usize,
    response: PartialResponse,
}

impl Exchange<'_> {
    /// Whether another rank waits. It is asked often, between two steps of an engine.
    fn is_called(&self) -> bool {
        !self.is_over && self.ranks.is_called()
    }

    /// Meets the other ranks. Responses that others take over leave the run. Returns the responses
    /// that this rank takes over: none while it has responses of its own.
    fn meet(&mut self, run: &mut SamplingRun<'_>) -> Result<Vec<(ResponseId, PartialResponse)>> {
        let Progress { total, done, .. } = run.progress();
        let movable = run.unfinished().into_iter();
        let movable = movable.map(|Unfinished { id, tokens }| (id.request, id.sample, tokens));
        let offers = self.ranks.balance(&Offer::of(movable.collect(), total - done))?;
        let Shares { moves, is_last } = share_out(&offers);
        self.moved += moves.len();
        self.is_over = is_last;
        let mut given = Vec::new();
        for &Move { to, request, sample, .. } in
            moves.iter().filter(|m| m.from == self.ranks.rank())
        {
            let Some(response) = run.withdraw(ResponseId { request, sample }) else {
                let what =
                    format!("response {sample} to request {request} is not there to be given away");
                return Err(Error::Run(what));
            };
            given.push(MovedResponse { to, request, sample, response });
        }
        self.receive(&moves, given)
    }

    /// Sends the responses that this rank gives away; returns those that it takes over.
    fn receive(
        &self,
        moves: &[Move],
        given: Vec<MovedResponse>,
    ) -> Result<Vec<(ResponseId, PartialResponse)>> {
        let own = self.ranks.rank();
        let of_move = |m: &Move| ResponseId { request: m.request, sample: m.sample };
        let mut expected: Vec<ResponseId> =
            moves.iter().filter(|m| m.to == own).map(of_move).collect();
        if moves.iter().all(|m| m.tokens == 0) {
            return Ok(expected.into_iter().map(|id| (id, PartialResponse::default())).collect());
        }
        let all = self.ranks.gather(given)?.into_iter().filter(|moved| moved.to == own);
        let id = |m: &MovedResponse| ResponseId { request: m.request, sample: m.sample };
        let taken: Vec<(ResponseId, PartialResponse)> =
            all.map(|moved| (id(&moved), moved.response)).collect();
        let mut ids: Vec<ResponseId> = taken.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        if ids != expected {
            let what = "another rank has not sent the responses that it was to give away";
            return Err(Error::Run(what.into()));
        }
        Ok(taken)
    }
}
