//! Judging while others are still being sampled: the same responses, whenever verdicts come.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_data::{Problem, Prompt};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_reward::{Item, Judgement, Overlong, Verdict, Verifier, VerifierError};
use isentrope_rollout::{
    Error, Groups, Interrupt, Judge, JudgeQueue, Keep, Key, Limits, PartialResponse, Phase,
    Progress, ProgressObserver, Request, Responded, Response, ResponseId, Result, Sampler,
    Sampling, SamplingRun, Unfinished, respond,
};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// For what must happen. Nothing is waited for that does not.
const PATIENCE: Duration = Duration::from_secs(60);

const REQUESTS: usize = 12;
const SAMPLES: usize = 3;
const ALL: usize = REQUESTS * SAMPLES;

/// The state that the verifier and the observer share.
#[derive(Clone, Default)]
struct Signs(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    asked: usize,
    sampled: usize,
    /// Responses that were asked about before all were sampled.
    asked_meanwhile: usize,
    released: bool,
}

impl Signs {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.0.0.lock().unwrap())
    }

    fn wait(&self, what: &str, until: impl Fn(&State) -> bool) {
        let state = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(state, PATIENCE, |state| !until(state)).unwrap().1;
        assert!(!waited.timed_out(), "in vain: {what}");
    }
}

/// A verifier's act before it judges, given the count of the response, from 1.
type Act = Box<dyn Fn(usize, &str) -> Result<(), VerifierError> + Send + Sync>;

struct Acting {
    workers: usize,
    signs: Signs,
    act: Act,
}

impl Verifier for Acting {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let judge = |(item, response): &(Item<'_>, &str)| {
            let mut number = 0;
            self.signs.change(|state| {
                state.asked += 1;
                state.asked_meanwhile += usize::from(state.sampled < ALL);
                number = state.asked;
            });
            (self.act)(number, response)?;
            let verdict = if response.len() % 2 == 0 { Verdict::Correct } else { Verdict::Wrong };
            Ok(Judgement::new(verdict, Some((*response).to_owned()), item.data_source))
        };
        batch.iter().map(judge).collect()
    }

    fn workers(&self) -> usize {
        self.workers
    }
}

/// Tells how much is sampled, and does what a test wants done then in the thread that samples.
struct Watching<'a> {
    signs: Signs,
    progress: &'a dyn Fn(usize),
    stop: &'a dyn Fn() -> bool,
}

impl ProgressObserver for Watching<'_> {
    fn stop_requested(&self) -> bool {
        (self.stop)()
    }

    fn progress(&mut self, progress: Progress) {
        assert_eq!(progress.total, ALL);
        self.signs.change(|state| state.sampled = progress.done);
        (self.progress)(progress.done);
    }

    fn note(&mut self, _: &str) {}
}

struct Bench {
    signs: Signs,
    workers: usize,
    act: Act,
    batch: usize,
    interrupt: Interrupt,
}

impl Bench {
    fn new(workers: usize) -> Self {
        let act: Act = Box::new(|_, _| Ok(()));
        Self { signs: Signs::default(), workers, act, batch: 1, interrupt: Interrupt::Never }
    }

    /// The responses to each request that is complete, by its number.
    fn run(
        self,
        progress: &dyn Fn(usize),
        stop: &dyn Fn() -> bool,
    ) -> (Result<Responded>, BTreeMap<usize, Vec<Response>>) {
        let mut groups = BTreeMap::new();
        let mut open = Groups::new(REQUESTS, SAMPLES);
        let keep = &mut |id: ResponseId, response| {
            let Some(responses) = open.add(id, response) else { return Ok(()) };
            let earlier = groups.insert(id.request, responses);
            assert_eq!(earlier, None, "request {} is complete twice", id.request);
            Ok(())
        };
        let mut observer = Watching { signs: self.signs.clone(), progress, stop };
        let responded = self.respond(0..REQUESTS, None, keep, &mut observer);
        (responded, groups)
    }

    /// Begins with the responses to some of the requests. A partner knows all requests, and may
    /// take responses over.
    fn respond(
        self,
        own: Range<usize>,
        partner: Option<&mut Partner>,
        keep: Keep<'_, Error>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Responded> {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures");
        let cpu = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
        let model = Model::load(&fixtures.join("models/qwen3"), cpu).unwrap();
        let tokenizer = Tokenizer::read(&fixtures.join("tokenizer/character")).unwrap().unwrap();
        let problems: Vec<Problem> = (0..REQUESTS)
            .map(|i| Problem {
                prompt: Prompt::Text("?".into()),
                ground_truth: Value::Null,
                data_source: i.to_string(),
                extra_info: Value::Null,
                columns: isentrope_data::Row::new(),
                origin: "made up".into(),
            })
            .collect();
        let sampling = Arc::new(Sampling {
            max_tokens: 24,
            eos_tokens: (10..20).collect(),
            ..Sampling::default()
        });
        let question = |(i, problem)| {
            let prompt = vec![3 + i as u32, 4, 5];
            let key = Key { seed: 11, step: 3, prompt: i as u64 };
            let sampling = sampling.clone();
            let samples = if own.contains(&i) { (0..SAMPLES).collect() } else { Vec::new() };
            (problem, Request { key, prompt, samples, sampling, cache_activations: false })
        };
        let verifier = Acting { workers: self.workers, signs: self.signs.clone(), act: self.act };
        let judge =
            Judge { verifier: Box::new(verifier), overlong: Overlong::default(), max_tokens: 24 };
        let sampler = Sampler {
            model: &model,
            activation_cache: None,
            tokenizer: &tokenizer,
            // Fewer than there are, so that some begin when others have ended.
            limits: Limits { cache_bytes: 32 << 20, sequences: 10, prefill_tokens: 16 },
            phase: Phase::Rollout,
            interrupt: self.interrupt,
        };
        let questions: Vec<_> =
            problems.iter().enumerate().map(|(i, problem)| question((i, problem))).collect();
        match partner {
            None => respond(sampler, questions, &judge, self.batch, keep, observer),
            Some(partner) => {
                partner.respond(sampler, questions, &judge, self.batch, keep, observer)
            }
        }
    }

    fn complete(self) -> BTreeMap<usize, Vec<Response>> {
        let (responded, groups) = self.run(&|_| (), &|| false);
        assert_eq!(responded.unwrap().ended, ControlFlow::Continue(()));
        assert_eq!(groups.len(), REQUESTS);
        groups
    }
}

#[test]
fn responses_do_not_depend_on_when_they_are_judged() {
    let expected = Bench::new(0).complete();
    let lengths: Vec<usize> =
        expected.values().flatten().map(|response| response.tokens.len()).collect();
    assert!(
        lengths.iter().max() > lengths.iter().min(),
        "they must end at different times: {lengths:?}"
    );
    for (request, responses) in &expected {
        for response in responses {
            assert_eq!(response.judgement.extracted.as_ref(), Some(&response.text));
            assert_eq!(response.judgement.reason, request.to_string(), "judged by its own problem");
        }
    }
    for batch in [5, usize::MAX] {
        assert_eq!(Bench { batch, ..Bench::new(0) }.complete(), expected, "batches of {batch}");
    }
    for workers in [1, 2, 7, 1000] {
        // Some are slow, and which depends on the response, on the order of asking, or on both.
        for turn in 0..3 {
            let act: Act = Box::new(move |number, response| {
                let slow = [number, response.len(), number * response.len()][turn] % 4;
                thread::sleep(Duration::from_millis(slow as u64));
                Ok(())
            });
            assert_eq!(
                Bench { act, ..Bench::new(workers) }.complete(),
                expected,
                "{workers} workers"
            );
        }
    }
}

/// Sampling goes on only when the first response has been asked about, and nobody answers before
/// everything is sampled.
#[test]
fn verdicts_and_sampling_do_not_wait_for_each_other() {
    for workers in [1, 3] {
        let mut bench = Bench { batch: usize::MAX, ..Bench::new(workers) };
        let (sampler, verifier) = (bench.signs.clone(), bench.signs.clone());
        bench.act = Box::new(move |_, _| {
            verifier.wait("sampling waits for a verdict", |state| state.sampled == ALL);
            Ok(())
        });
        let (responded, groups) = bench.run(
            &|done| {
                if done > 0 {
                    sampler.wait("nobody is asked while sampling goes on", |state| state.asked > 0);
                }
            },
            &|| false,
        );
        assert_eq!((responded.unwrap().ended, groups.len()), (ControlFlow::Continue(()), REQUESTS));
        sampler.read(|state| assert!(state.asked == ALL && state.asked_meanwhile > 0));
    }
    // A verifier without workers computes where sampling does. It is asked at the end if it is to
    // be.
    let bench = Bench { batch: usize::MAX, ..Bench::new(0) };
    let signs = bench.signs.clone();
    bench.complete();
    signs.read(|state| assert_eq!((state.asked, state.asked_meanwhile), (ALL, 0)));
}

/// Each of the first answers only when all workers have been asked.
#[test]
fn all_workers_judge_at_the_same_time() {
    let mut bench = Bench::new(4);
    let signs = bench.signs.clone();
    bench.act = Box::new(move |_, _| {
        signs.wait("a worker has nothing to do", |state| state.asked >= 4);
        Ok(())
    });
    bench.complete();
}

fn broken() -> VerifierError {
    let (key, problem) = ("reward.verifier.command".to_owned(), "it broke".to_owned());
    VerifierError { key, value: "sh".into(), problem, stderr: Some("why".into()) }
}

#[test]
fn a_verifier_that_fails_ends_it_with_its_own_words() {
    for (workers, fails_at) in [(0, 5), (1, 1), (1, 20), (1, ALL), (4, 5), (1000, 9)] {
        let mut bench = Bench::new(workers);
        let signs = bench.signs.clone();
        bench.act =
            Box::new(move |number, _| if number == fails_at { Err(broken()) } else { Ok(()) });
        let (responded, groups) = bench.run(&|_| (), &|| false);
        let error = responded.unwrap_err();
        assert!(matches!(error, Error::Verifier(_)));
        assert_eq!(error.to_string(), broken().to_string());
        assert!(groups.len() < REQUESTS);
        // With one worker, nobody is asked after the failure.
        signs.read(|state| assert!(workers > 1 || state.asked == fails_at, "{}", state.asked));
    }
}

#[test]
fn a_panic_of_a_verifier_is_carried_over() {
    for workers in [0, 1, 3] {
        let mut bench = Bench::new(workers);
        bench.act = Box::new(|number, _| {
            assert!(number != 7, "at response seven");
            Ok(())
        });
        let caught = catch_unwind(AssertUnwindSafe(|| bench.run(&|_| (), &|| false)));
        let Err(panic) = caught else { panic!("it is lost") };
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"at response seven"));
    }
}

/// Everything is sampled, and verdicts do not come: who interrupts does not wait for all of them.
#[test]
fn what_is_judged_is_kept_when_waiting_for_verdicts_is_interrupted() {
    let expected = Bench::new(0).complete();
    let (workers, at_once) = (2, 25);
    let mut bench = Bench { interrupt: Interrupt::WhenAsked, ..Bench::new(workers) };
    let signs = bench.signs.clone();
    bench.act = Box::new(move |number, _| {
        if number > at_once {
            signs.wait("the interruption", |state| state.released);
        }
        Ok(())
    });
    let signs = bench.signs.clone();
    let times_asked_to_stop = Cell::new(0);
    let (responded, groups) = bench.run(&|_| (), &|| {
        let all_wait = signs.read(|state| state.sampled == ALL && state.asked == at_once + workers);
        if times_asked_to_stop.get() > 0 {
            signs.change(|state| state.released = true); // it has been told: who has been asked may answer now
        }
        times_asked_to_stop.set(times_asked_to_stop.get() + usize::from(all_wait));
        times_asked_to_stop.get() > 0
    });
    assert_eq!(responded.unwrap().ended, ControlFlow::Break(()));
    signs.read(|state| assert_eq!(state.asked, at_once + workers, "the others are dropped"));
    assert!(groups.len() < REQUESTS);
    for (request, responses) in groups {
        assert_eq!(Some(&responses), expected.get(&request));
    }
}

/// One of two who sample together.
struct Partner {
    side: usize,
    table: Table,
    moved: usize,
}

/// Where the two meet: what each has left, and what lies there for each.
#[derive(Clone, Default)]
struct Table(Arc<(Mutex<[Seat; 2]>, Condvar)>);

#[derive(Default)]
struct Seat {
    left: Option<usize>,
    given: Option<Vec<(ResponseId, PartialResponse)>>,
}

impl Table {
    /// Changes what lies on the table, and waits for something there.
    fn turn<R>(
        &self,
        change: impl FnOnce(&mut [Seat; 2]),
        mut take: impl FnMut(&mut [Seat; 2]) -> Option<R>,
    ) -> R {
        let (seats, changed) = &*self.0;
        let mut seats = seats.lock().unwrap();
        change(&mut seats);
        changed.notify_all();
        loop {
            if let Some(taken) = take(&mut seats) {
                return taken;
            }
            let waited;
            (seats, waited) = changed.wait_timeout(seats, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "the other does not come");
        }
    }
}

impl Partner {
    /// Samples together with the other one.
    fn respond(
        &mut self,
        sampler: Sampler<'_>,
        questions: Vec<(&Problem, Request)>,
        judge: &Judge,
        batch: usize,
        keep: Keep<'_, Error>,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Responded> {
        let (problems, requests): (Vec<&Problem>, Vec<Request>) = questions.into_iter().unzip();
        thread::scope(|scope| {
            let mut queue = JudgeQueue::new(scope, judge, &problems, batch);
            let mut run = SamplingRun::begin(sampler, requests.clone())?;
            let mut is_last = false;
            while !is_last || !run.is_idle() {
                let mut taken = Vec::new();
                if !run.is_idle() {
                    queue.ask(run.step()?)?;
                } else {
                    queue.judge_incomplete_batch()?;
                }
                while let Some((id, response)) = queue.next_judged()? {
                    keep(id, response)?;
                }
                if !is_last && (run.is_idle() || self.is_waiting()) {
                    (taken, is_last) = self.meet(&mut run);
                }
                if !taken.is_empty() {
                    run = run.take_over(taken, &requests)?;
                }
                observer.progress(run.progress());
            }
            queue.finish(Ok(ControlFlow::Continue(())), Interrupt::Never, keep, observer)
        })
    }

    fn is_waiting(&self) -> bool {
        self.table.0.0.lock().unwrap()[1 - self.side].left.is_some()
    }

    /// Whoever has nothing left takes half of what the other has. Returns what is taken over, and
    /// whether the two meet no more.
    fn meet(&mut self, run: &mut SamplingRun<'_>) -> (Vec<(ResponseId, PartialResponse)>, bool) {
        let left = run.unfinished();
        let (own, other) = (self.side, 1 - self.side);
        let others =
            self.table.turn(|seats| seats[own].left = Some(left.len()), |seats| seats[other].left);
        let gives = others == 0 && left.len() > 1;
        let half = if gives { &left[..left.len() / 2] } else { &[] };
        let given: Vec<(ResponseId, PartialResponse)> = half
            .iter()
            .map(|&Unfinished { id, tokens }| {
                let response = run.withdraw(id).unwrap();
                assert_eq!(response.tokens.len(), tokens);
                assert!(run.withdraw(id).is_none(), "it has gone");
                (id, response)
            })
            .collect();
        self.moved += given.len();
        let taken = self
            .table
            .turn(|seats| seats[other].given = Some(given), |seats| seats[own].given.take());
        // The other has seen what is left here before it gave anything.
        self.table.turn(
            |seats| seats[other].left = None,
            |seats| seats[own].left.is_none().then_some(()),
        );
        (taken, left.len().max(others) <= 1)
    }
}

/// Takes no notice.
struct Unseen;

impl ProgressObserver for Unseen {
    fn stop_requested(&self) -> bool {
        false
    }
    fn progress(&mut self, progress: Progress) {
        assert!(progress.done <= progress.total);
    }
    fn note(&mut self, _: &str) {}
}

/// Two sample together, of whom the first begins with few of the requests or with none.
#[test]
fn responses_that_another_takes_over_are_judged_where_they_end() {
    let expected = Bench::new(0).complete();
    for (workers, first) in [(0, 0), (0, 3), (1, 0), (3, 5)] {
        let table = Table::default();
        let sample = |side: usize, own: Range<usize>| {
            let mut partner = Partner { side, table: table.clone(), moved: 0 };
            let mut judged = BTreeMap::new();
            let keep = &mut |id: ResponseId, response| {
                assert_eq!(judged.insert((id.request, id.sample), response), None, "judged twice");
                Ok(())
            };
            let bench = Bench { batch: 4, ..Bench::new(workers) };
            let responded = bench.respond(own, Some(&mut partner), keep, &mut Unseen).unwrap();
            assert_eq!(responded.ended, ControlFlow::Continue(()));
            (judged, partner.moved)
        };
        let ((mut judged, to_second), (others, to_first)) = thread::scope(|scope| {
            let second = scope.spawn(|| sample(1, first..REQUESTS));
            (sample(0, 0..first), second.join().unwrap())
        });
        assert!(to_second + to_first > 0, "nothing was tried");
        let all = judged.len() + others.len();
        judged.extend(others);
        assert_eq!((judged.len(), all), (ALL, ALL), "by one of them each");
        for ((request, sample), response) in judged {
            assert_eq!(response, expected[&request][sample], "request {request}, sample {sample}");
        }
    }
}
