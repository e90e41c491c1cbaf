//! Judging while others are still being sampled: the same responses, whenever verdicts come.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_data::{Problem, Prompt};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_reward::{Item, Judgement, Overlong, Verdict, Verifier, VerifierError};
use isentrope_rollout::{
    Error, Groups, Interrupt, Judge, Key, Limits, Phase, Progress, ProgressObserver, Request,
    RespondOutcome, Response, ResponseEvent, ResponseId, Result, Sampler, Sampling, respond,
};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
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
    /// Verdicts asked for while sampling was still going on.
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
    /// Whether it judges groups: the answer that it finds is then all texts of the group.
    groups: bool,
    signs: Signs,
    act: Act,
}

impl Verifier for Acting {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
        let judge = |(item, response): &(Item<'_>, &str)| {
            assert!(!self.groups || item.data_source == batch[0].0.data_source, "a mixed group");
            let mut number = 0;
            self.signs.change(|state| {
                state.asked += 1;
                state.asked_meanwhile += usize::from(state.sampled < ALL);
                number = state.asked;
            });
            (self.act)(number, response)?;
            let verdict = if response.len() % 2 == 0 { Verdict::Correct } else { Verdict::Wrong };
            let found = if self.groups { texts.join("|") } else { (*response).to_owned() };
            Ok(Judgement::new(verdict, Some(found), item.data_source))
        };
        batch.iter().map(judge).collect()
    }

    fn judges_groups(&self) -> bool {
        self.groups
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

struct Trial {
    signs: Signs,
    workers: usize,
    groups: bool,
    act: Act,
    batch: usize,
    interrupt: Interrupt,
}

impl Trial {
    fn new(workers: usize) -> Self {
        let act: Act = Box::new(|_, _| Ok(()));
        let (signs, interrupt) = (Signs::default(), Interrupt::Never);
        Self { signs, workers, groups: false, act, batch: 1, interrupt }
    }

    /// The responses to each request that is complete, by its number.
    fn run(
        self,
        progress: &dyn Fn(usize),
        stop: &dyn Fn() -> bool,
    ) -> (Result<RespondOutcome>, BTreeMap<usize, Vec<Response>>) {
        let mut groups = BTreeMap::new();
        let mut open = Groups::new(REQUESTS, SAMPLES);
        let keep = &mut |id: ResponseId, event| {
            let ResponseEvent::Judged(response) = event else { panic!("it has no turns") };
            let Some(responses) = open.add(id, response) else { return Ok(()) };
            let earlier = groups.insert(id.request, responses);
            assert_eq!(earlier, None, "request {} is complete twice", id.request);
            Ok(())
        };
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
                hint: None,
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
            let samples = (0..SAMPLES).collect();
            (problem, Request { key, prompt, samples, sampling, cache_activations: false })
        };
        let Self { workers, groups: judges_groups, act, .. } = self;
        let verifier = Acting { workers, groups: judges_groups, signs: self.signs.clone(), act };
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
            turns: None,
        };
        let questions: Vec<_> =
            problems.iter().enumerate().map(|(i, problem)| question((i, problem))).collect();
        let mut observer = Watching { signs: self.signs, progress, stop };
        let responded = respond(sampler, questions, &judge, self.batch, keep, &mut observer);
        (responded, groups)
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
    let expected = Trial::new(0).complete();
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
        assert_eq!(Trial { batch, ..Trial::new(0) }.complete(), expected, "batches of {batch}");
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
                Trial { act, ..Trial::new(workers) }.complete(),
                expected,
                "{workers} workers"
            );
        }
    }
}

/// Responses of a group end at different times, and groups end in any order.
#[test]
fn groups_are_judged_whole_and_alone() {
    let expected = Trial::new(0).complete();
    for workers in [1, 2, 7] {
        let act: Act = Box::new(|number, response| {
            thread::sleep(Duration::from_millis((number * response.len() % 3) as u64));
            Ok(())
        });
        let judged = Trial { groups: true, act, ..Trial::new(workers) }.complete();
        for (request, responses) in judged {
            let of = |responses: &[Response]| -> Vec<String> {
                responses.iter().map(|response| response.text.clone()).collect()
            };
            assert_eq!(of(&responses), of(&expected[&request]), "request {request}");
            for response in &responses {
                let whole = of(&responses).join("|");
                assert_eq!(response.judgement.extracted, Some(whole), "request {request}");
            }
        }
    }
}

/// Sampling goes on only when the first response has been asked about, and nobody answers before
/// everything is sampled.
#[test]
fn verdicts_and_sampling_do_not_wait_for_each_other() {
    for workers in [1, 3] {
        let mut trial = Trial { batch: usize::MAX, ..Trial::new(workers) };
        let (sampler, verifier) = (trial.signs.clone(), trial.signs.clone());
        trial.act = Box::new(move |_, _| {
            verifier.wait("a worker has nothing to do", |state| state.asked >= workers);
            verifier.wait("sampling waits for a verdict", |state| state.sampled == ALL);
            Ok(())
        });
        let (responded, groups) = trial.run(
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
    let trial = Trial { batch: usize::MAX, ..Trial::new(0) };
    let signs = trial.signs.clone();
    trial.complete();
    signs.read(|state| assert_eq!((state.asked, state.asked_meanwhile), (ALL, 0)));
}

fn broken() -> VerifierError {
    let (key, problem) = ("reward.verifier.command".to_owned(), "it broke".to_owned());
    VerifierError { key, value: "sh".into(), problem, stderr: Some("why".into()) }
}

#[test]
fn a_verifier_that_fails_ends_it_with_its_own_words() {
    for (workers, fails_at) in [(0, 5), (1, 1), (1, 20), (1, ALL), (4, 5), (1000, 9)] {
        let mut trial = Trial::new(workers);
        let signs = trial.signs.clone();
        trial.act =
            Box::new(move |number, _| if number == fails_at { Err(broken()) } else { Ok(()) });
        let (responded, groups) = trial.run(&|_| (), &|| false);
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
        let mut trial = Trial::new(workers);
        trial.act = Box::new(|number, _| {
            assert!(number != 7, "at response seven");
            Ok(())
        });
        let caught = catch_unwind(AssertUnwindSafe(|| trial.run(&|_| (), &|| false)));
        let Err(panic) = caught else { panic!("it is lost") };
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"at response seven"));
    }
}

/// Everything is sampled, and verdicts do not come: who interrupts does not wait for all of them.
#[test]
fn what_is_judged_is_kept_when_waiting_for_verdicts_is_interrupted() {
    let expected = Trial::new(0).complete();
    let (workers, at_once) = (2, 25);
    let mut trial = Trial { interrupt: Interrupt::WhenAsked, ..Trial::new(workers) };
    let signs = trial.signs.clone();
    trial.act = Box::new(move |number, _| {
        if number > at_once {
            signs.wait("the interruption", |state| state.released);
        }
        Ok(())
    });
    let signs = trial.signs.clone();
    let times_asked_to_stop = Cell::new(0);
    let (responded, groups) = trial.run(&|_| (), &|| {
        let all_wait = signs.read(|state| state.sampled == ALL && state.asked == at_once + workers);
        if times_asked_to_stop.get() > 0 {
            signs.change(|state| state.released = true); // the verifier may answer now
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
