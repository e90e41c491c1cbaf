//! Responses of several turns: their bits depend on nothing but weights, prompts, seeds and the
//! environment's answers, and nothing is lost when an environment fails.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_data::{DataSettings, Problem, Prompt};
use isentrope_environment::{Environment, EnvironmentSettings, Episode, Fault, Reply};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{ActivationCache, KvCache, Model, Packed, Sequence};
use isentrope_reward::{Item, Judgement, Overlong, Verdict, Verifier, VerifierError};
use isentrope_rollout::{
    BegunEpisodes, Completion, Engine, Error, Event, Groups, Interrupt, Judge, Key, Limits, Phase,
    PlayedTurn, Progress, ProgressObserver, Prompter, Request, Response, ResponseEvent, ResponseId,
    Sampler, Sampling, Turns, respond,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REQUESTS: usize = 8;
const SAMPLES: usize = 3;
const LONGEST: usize = 40;
/// A part of the vocabulary: turns are short.
const END: std::ops::Range<u32> = 3..10;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures")
}

fn model(threads: usize) -> Model {
    let cpu = Arc::new(Cpu::new(Isa::available()[0], threads).unwrap());
    Model::load(&fixtures().join("models/qwen3"), cpu).unwrap()
}

/// Renders turns as `a` and `b`, which the tokenizer of characters has.
fn prompter() -> Prompter {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixtures().join("tokenizer/character").join(name), dir.path().join(name)).unwrap();
    }
    let template = "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }};\n{% endfor %}\
                    {% if add_generation_prompt %}a:{% endif %}";
    fs::write(dir.path().join("chat_template.jinja"), template).unwrap();
    fs::copy(fixtures().join("models/qwen3/config.json"), dir.path().join("config.json")).unwrap();
    Prompter::read(dir.path(), 61, &DataSettings::default()).unwrap()
}

/// The behaviour of an environment.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Answers twice, and rewards the third turn.
    Counts,
    /// Does the same, and its answer to the second turn is another one.
    CountsOtherwise,
    /// Does the same, and its metrics are other ones.
    CountsByHalves,
    /// Does the same, and has its answers from a session of Python.
    Interprets,
    /// Does the same, and answers a first turn once another episode has had its first.
    AwaitsAnother,
    /// Answers for ever, and gives no reward.
    Endless,
    /// Answers with a text that leaves no room.
    Long,
    /// Is silent after the first turn.
    Silent,
    /// Fails at the second turn, or at the first, or to begin.
    Fails(usize),
    /// Is a program with a mistake.
    Panics,
    /// Opens with a text that leaves no room.
    OpensLong,
    /// Fails to open.
    OpensNot,
}

struct Counting {
    /// The manner for each problem.
    manner: fn(usize) -> Manner,
    workers: usize,
    /// Whether some answers are slow.
    is_slow: bool,
    opens: bool,
}

struct Counter {
    manner: Manner,
    seed: u64,
    turns: usize,
    is_slow: bool,
    session: Option<Box<dyn Episode>>,
}

impl Environment for Counting {
    fn begin(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>, Fault> {
        let manner = (self.manner)(problem.data_source.parse().unwrap());
        if manner == Manner::Fails(0) {
            return Err(Fault("it does not begin".into()));
        }
        let session = (manner == Manner::Interprets).then(|| {
            let settings = json!({"kind": "tools", "tools": ["python"]});
            let settings: EnvironmentSettings = serde_json::from_value(settings).unwrap();
            settings.build().unwrap().begin(problem, seed).unwrap()
        });
        Ok(Box::new(Counter { manner, seed, turns: 0, is_slow: self.is_slow, session }))
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn opens(&self) -> bool {
        self.opens
    }

    fn tools(&self) -> &[Value] {
        &[]
    }
}

impl Episode for Counter {
    fn open(&mut self) -> Result<Vec<Value>, Fault> {
        assert_eq!(self.turns, 0, "it is asked before any turn");
        let text = match self.manner {
            Manner::OpensNot => return Err(Fault("it does not open".into())),
            Manner::OpensLong => "x".repeat(2 * LONGEST),
            _ => "y".repeat((self.seed % 3) as usize),
        };
        if self.is_slow {
            thread::sleep(Duration::from_millis(self.seed % 5));
        }
        Ok(vec![json!({"role": "user", "content": text})])
    }

    fn step(&mut self, text: &str) -> Result<Reply, Fault> {
        self.turns += 1;
        if self.is_slow {
            thread::sleep(Duration::from_millis((text.len() * self.turns % 5) as u64));
        }
        let (turns, manner) = (self.turns, self.manner);
        let answer = match manner {
            Manner::Fails(at) if at == turns => return Err(Fault(format!("turn {turns} fails"))),
            Manner::Silent => return Ok(Reply::default()),
            Manner::Panics => panic!("a mistake"),
            Manner::Long => "x".repeat(LONGEST),
            Manner::AwaitsAnother if turns == 1 && !is_another_there() => {
                return Err(Fault("no other episode has a turn".into()));
            }
            Manner::Interprets => {
                let code = format!("x = [*globals().get('x', []), {}]\nprint(*x)", text.len());
                let reply =
                    self.session.as_mut().unwrap().step(&format!("```python\n{code}\n```"))?;
                reply.messages[0]["content"].as_str().unwrap().trim().to_owned()
            }
            Manner::CountsOtherwise if turns == 2 => "another".to_owned(),
            _ => format!("{}", (self.seed + turns as u64 + text.len() as u64) % 100),
        };
        let ends = matches!(
            manner,
            Manner::Counts
                | Manner::CountsOtherwise
                | Manner::CountsByHalves
                | Manner::Interprets
                | Manner::AwaitsAnother
        );
        let unit = if manner == Manner::CountsByHalves { 0.5 } else { 1.0 };
        let done = ends && turns == 3;
        let message = json!({ "role": "user", "content": answer });
        Ok(Reply {
            messages: if done { Vec::new() } else { vec![message] },
            done,
            reward: done.then_some(0.25),
            metrics: BTreeMap::from([("asked".to_owned(), unit * turns as f64)]),
        })
    }
}

/// Counts an episode's first turn, and waits for that of another. Only one test may call it.
fn is_another_there() -> bool {
    static FIRST_TURNS: AtomicUsize = AtomicUsize::new(0);
    FIRST_TURNS.fetch_add(1, Ordering::SeqCst);
    let began = Instant::now();
    while FIRST_TURNS.load(Ordering::SeqCst) < 2 {
        if began.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Takes the last turn for the answer.
struct Echo;

impl Verifier for Echo {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let judge = |(_, text): &(Item<'_>, &str)| {
            Judgement::new(Verdict::Correct, Some((*text).to_owned()), "echo")
        };
        Ok(batch.iter().map(judge).collect())
    }
}

/// Expects no more steps than there are tokens and answers.
#[derive(Default)]
struct Watcher {
    steps: usize,
    sampled: usize,
    notes: Vec<String>,
}

impl ProgressObserver for Watcher {
    fn progress(&mut self, progress: Progress) {
        assert!(progress.total == REQUESTS * SAMPLES && progress.done <= progress.total);
        (self.steps, self.sampled) = (self.steps + 1, progress.tokens);
        assert!(self.steps <= 2 * REQUESTS * SAMPLES * LONGEST, "it steps in vain");
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// The results of a trial.
struct Played {
    /// `[requests][samples]`.
    responses: Vec<Vec<Response>>,
    /// Turns that have ended, in that order.
    turns: Vec<(ResponseId, PlayedTurn)>,
    /// Turns that were taken over from each begun episode.
    replayed: BTreeMap<ResponseId, usize>,
    /// Replayed episodes with another reward or other metrics.
    differing: usize,
    /// Tokens that the engine has sampled.
    sampled: usize,
    notes: Vec<String>,
}

struct Trial {
    threads: usize,
    limits: Limits,
    environment: Counting,
    max_turns: usize,
    /// Records what truncated sampling keeps.
    top_k: usize,
}

const ROOMY: Limits = Limits { cache_bytes: 32 << 20, sequences: 64, prefill_tokens: 512 };

impl Trial {
    fn new(manner: fn(usize) -> Manner) -> Self {
        let environment = Counting { manner, workers: 1, is_slow: false, opens: false };
        Self { threads: 1, limits: ROOMY, environment, max_turns: 5, top_k: 0 }
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            max_tokens: LONGEST + if self.environment.opens { 12 } else { 0 },
            eos_tokens: END.collect(),
            top_k: self.top_k,
            records_kept: self.top_k > 0,
            ..Sampling::default()
        }
    }

    fn prompt(request: usize) -> Vec<u32> {
        vec![3 + request as u32, 4, 5]
    }

    /// `[requests][samples]`. Nothing is to be said.
    fn run(&self) -> Vec<Vec<Response>> {
        let Played { responses, notes, .. } = self.play(&BegunEpisodes::new());
        assert!(notes.is_empty(), "{notes:?}");
        responses
    }

    /// Goes on with begun episodes, and begins the others.
    fn play(&self, begun: &BegunEpisodes) -> Played {
        let model = model(self.threads);
        let prompter = prompter().with_environment(&self.environment);
        let problem = |number: usize| Problem {
            prompt: Prompt::Text("q".into()),
            ground_truth: Value::Null,
            data_source: number.to_string(),
            extra_info: Value::Null,
            columns: isentrope_data::Row::new(),
            hint: None,
            origin: "made up".into(),
        };
        let problems: Vec<Problem> = (0..REQUESTS).map(problem).collect();
        let sampling = Arc::new(self.sampling());
        let request = |(number, problem)| {
            let request = Request {
                key: Key { seed: 11, step: 3, prompt: number as u64 },
                prompt: Self::prompt(number),
                samples: (0..SAMPLES).collect(),
                sampling: sampling.clone(),
                cache_activations: false,
            };
            (problem, request)
        };
        let questions = problems.iter().enumerate().map(request).collect();
        let overlong = Overlong::default();
        let judge = Judge { verifier: Box::new(Echo), overlong, max_tokens: LONGEST };
        let sampler = Sampler {
            model: &model,
            activation_cache: None,
            tokenizer: &prompter.tokenizer,
            limits: self.limits,
            phase: Phase::Rollout,
            interrupt: Interrupt::Never,
            turns: Some(Turns {
                environment: &self.environment,
                prompter: &prompter,
                max_turns: self.max_turns,
                max_given_tokens: 60,
                begun: Some(begun),
            }),
        };
        let mut groups = Groups::new(REQUESTS, SAMPLES);
        let mut all = vec![Vec::new(); REQUESTS];
        let (mut turns, mut replayed, mut differing) = (Vec::new(), BTreeMap::new(), 0);
        let keep = &mut |id: ResponseId, event| {
            match event {
                ResponseEvent::Turn(turn) => turns.push((id, turn)),
                ResponseEvent::Replayed { turns, outcome_differs } => {
                    assert!(replayed.insert(id, turns).is_none(), "each is replayed once");
                    differing += usize::from(outcome_differs);
                }
                ResponseEvent::Judged(response) => {
                    let masses = response.masks.as_ref().map(|masks| &masks.log_masses);
                    assert!(masses.is_none_or(|of| of.capacity() == of.len()), "room to grow");
                    if let Some(responses) = groups.add(id, response) {
                        all[id.request] = responses;
                    }
                }
            }
            Ok::<_, Error>(())
        };
        let mut watcher = Watcher::default();
        let responded = respond(sampler, questions, &judge, 4, keep, &mut watcher).unwrap();
        assert_eq!(responded.ended, ControlFlow::Continue(()));
        assert!(all.iter().all(|responses| responses.len() == SAMPLES), "some are lost");
        let Watcher { sampled, notes, .. } = watcher;
        Played { responses: all, turns, replayed, differing, sampled, notes }
    }
}

/// The turns of each episode as a journal has them, and of those the first that `count` says.
fn begun(
    turns: &[(ResponseId, PlayedTurn)],
    sampling: &Sampling,
    count: impl Fn(ResponseId) -> usize,
) -> BegunEpisodes {
    let mut begun = BegunEpisodes::new();
    for (id, turn) in turns {
        let turn = serde_json::from_str(&serde_json::to_string(turn).unwrap()).unwrap();
        begun.entry(*id).or_default().insert(0, turn); // in no good order
    }
    for (id, turns) in &mut begun {
        *turns = PlayedTurn::in_order(std::mem::take(turns), 61, sampling, usize::MAX);
        turns.truncate(count(*id));
    }
    begun.retain(|_, turns| !turns.is_empty());
    begun
}

fn sampled(begun: &BegunEpisodes) -> usize {
    begun.values().flatten().map(PlayedTurn::sampled_tokens).sum()
}

fn counts(_: usize) -> Manner {
    Manner::Counts
}

#[test]
fn episodes_do_not_depend_on_their_batch_threads_memory_or_the_environments_speed() {
    for (top_k, opens) in [(0, false), (7, false), (7, true)] {
        let trial = Trial { top_k, ..Trial::new(counts) };
        let environment = Counting { opens, ..trial.environment };
        let expected = Trial { environment, ..trial }.run();
        assert!(expected.iter().flatten().all(|response| response.given.contains(0) == opens));
        let turns: Vec<usize> = expected.iter().flatten().map(Response::turns).collect();
        assert!(turns.contains(&3) && turns.contains(&1), "{turns:?}");
        for (threads, sequences, prefill_tokens, workers, is_slow) in
            [(2, 64, 512, 1, false), (1, 2, 1, 3, true), (2, 7, 5, 100, true), (1, 1, 3, 1, false)]
        {
            let limits = Limits { cache_bytes: 1 << 20, sequences, prefill_tokens };
            let environment = Counting { manner: counts, workers, is_slow, opens };
            let trial = Trial { threads, limits, environment, top_k, ..Trial::new(counts) };
            assert!(trial.run() == expected, "{sequences} {prefill_tokens} {workers} {top_k}");
        }
    }
}

#[test]
fn begun_episodes_have_the_same_bits_and_their_turns_are_not_sampled_again() {
    for (top_k, opens) in [(0, false), (7, true)] {
        let environment = Counting { opens, ..Trial::new(counts).environment };
        let trial = Trial { top_k, environment, ..Trial::new(counts) };
        let whole = trial.play(&BegunEpisodes::new());
        assert!(whole.replayed.is_empty());
        let of_all: usize = whole.responses.iter().flatten().map(Response::turns).sum();
        assert_eq!(whole.turns.len(), of_all);
        // None, one, two or all turns of each; and all turns of all.
        for most in [|id: ResponseId| (id.request + id.sample) % 4, |_| usize::MAX] {
            let begun = begun(&whole.turns, &trial.sampling(), most);
            let environment = Counting { is_slow: true, workers: 3, ..trial.environment };
            let limits = Limits { cache_bytes: 1 << 20, sequences: 5, prefill_tokens: 7 };
            let part = Trial { environment, limits, threads: 2, ..trial }.play(&begun);
            assert!(part.responses == whole.responses, "{top_k} {opens}");
            let count: usize = begun.values().map(Vec::len).sum();
            assert!(begun.iter().all(|(id, turns)| part.replayed[id] == turns.len()));
            assert_eq!(part.turns.len(), of_all - count);
            assert_eq!(part.sampled, whole.sampled - sampled(&begun), "{top_k} {opens}");
            assert!(part.notes.is_empty() && part.differing == 0, "{:?}", part.notes);
        }
    }
}

#[test]
fn responses_that_begin_anew_do_not_wait_for_the_replays_of_their_group() {
    let whole = Trial::new(counts).play(&BegunEpisodes::new());
    let trial = Trial::new(|problem| match problem {
        0 => Manner::AwaitsAnother,
        _ => Manner::Counts,
    });
    let first = ResponseId { request: 0, sample: 0 };
    let begun = begun(&whole.turns, &trial.sampling(), |id| usize::from(id == first));
    assert_eq!(begun.len(), 1);
    // A response that ends makes room for the next, also where there is room for one.
    for cache_bytes in [ROOMY.cache_bytes, 4 * KvCache::page_bytes(&model(1))] {
        let limits = Limits { cache_bytes, ..ROOMY };
        let environment = Counting { workers: 2, ..trial.environment };
        let responses = Trial { limits, environment, ..trial }.play(&begun).responses;
        assert!(responses == whole.responses, "{cache_bytes}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_of_an_interpreter_is_rebuilt() {
    let trial = Trial::new(|problem| match problem {
        0 => Manner::Interprets,
        _ => Manner::Counts,
    });
    let whole = trial.play(&BegunEpisodes::new());
    let begun = begun(&whole.turns, &trial.sampling(), |_| 2);
    let part = trial.play(&begun);
    assert!(part.notes.is_empty() && part.responses == whole.responses, "{:?}", part.notes);
    let of_three = whole.responses[0].iter().filter(|response| response.turns() == 3);
    assert!(of_three.count() > 0 && part.replayed.values().any(|&turns| turns == 2));
}

/// Episodes go on behind the answer that differs, as if the environment had always given it.
#[test]
fn an_environment_that_does_not_repeat_itself_has_its_new_answers() {
    let turns = Trial::new(counts).play(&BegunEpisodes::new()).turns;
    let trial = Trial::new(|_| Manner::CountsOtherwise);
    let begun = begun(&turns, &trial.sampling(), |_| usize::MAX);
    let part = trial.play(&begun);
    let (twice, thrice): (Vec<_>, Vec<_>) = begun.iter().partition(|(_, turns)| turns.len() < 3);
    assert!(twice.iter().all(|(id, turns)| part.replayed[id] == turns.len()));
    assert!(!thrice.is_empty() && thrice.iter().all(|(id, _)| part.replayed[id] == 2));
    let whole = trial.play(&BegunEpisodes::new());
    assert!(part.responses == whole.responses);
    assert!(part.sampled < whole.sampled);
}

/// The tokens stay as before, and the metrics are the new ones.
#[test]
fn turns_before_which_only_a_metric_differs_are_not_sampled_again() {
    let before = Trial::new(counts).play(&BegunEpisodes::new());
    let trial = Trial::new(|_| Manner::CountsByHalves);
    let begun = begun(&before.turns, &trial.sampling(), |_| 2);
    let part = trial.play(&begun);
    assert!(begun.iter().all(|(id, turns)| part.replayed[id] == turns.len()));
    let twice = begun.values().filter(|turns| turns.len() == 2).count();
    assert!(twice > 0 && part.differing == twice, "nothing is measured before the first turn");
    assert_eq!(part.sampled, before.sampled - sampled(&begun));
    let tokens = |played: &Played| {
        let all = played.responses.iter().flatten();
        all.map(|response| response.tokens.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tokens(&part), tokens(&before));
    assert!(part.responses == trial.run() && part.responses != before.responses);
}

#[test]
fn responses_that_wait_for_memory_wait_for_the_environment() {
    let expected = Trial::new(counts).run();
    let cache_bytes = 4 * KvCache::page_bytes(&model(1)); // of one response
    let limits = Limits { cache_bytes, ..ROOMY };
    let environment = Counting { is_slow: true, ..Trial::new(counts).environment };
    assert!(Trial { limits, environment, ..Trial::new(counts) }.run() == expected);
}

#[test]
fn numbers_of_sampled_tokens_are_those_of_the_whole_sequence_to_the_bit() {
    let model = model(1);
    let opened = Counting { opens: true, ..Trial::new(counts).environment };
    let opened = Trial { environment: opened, ..Trial::new(counts) }.run();
    for (request, responses) in Trial::new(counts).run().iter().chain(&opened).enumerate() {
        let request = request % REQUESTS;
        for response in responses {
            let prompt = Trial::prompt(request);
            let tokens = [&prompt[..], &response.tokens].concat();
            let sequence = Sequence { tokens: &tokens, score_from: prompt.len() };
            let scores = model.score(&Packed::new(&[sequence]), 1.0);
            for place in 0..response.tokens.len() {
                let own = [response.logprobs[place], response.entropies[place]];
                let whole = match response.given.contains(place) {
                    true => [0.0, 0.0],
                    false => [scores.logprobs[place], scores.entropies[place]],
                };
                assert_eq!(own.map(f32::to_bits), whole.map(f32::to_bits), "{request} {place}");
            }
        }
    }
}

#[test]
fn an_episode_is_its_turns_with_the_templates_text_between_them() {
    let prompter = prompter();
    for response in Trial::new(counts).run().iter().flatten() {
        let Response { tokens, given, text, judgement, truncated, .. } = response;
        assert!(given.fits(tokens.len()));
        let turns: Vec<_> = given.turns(tokens.len()).collect();
        for (turn, next) in turns.iter().zip(&turns[1..]) {
            assert!(END.contains(&tokens[turn.end - 1]), "a turn ends with its end token");
            let between = prompter.tokenizer.decode(&tokens[turn.end..next.start], false).unwrap();
            assert!(between.starts_with(";\nu:") && between.ends_with(";\na:"), "{between:?}");
        }
        assert_eq!(*text, prompter.tokenizer.decode(tokens, false).unwrap());
        let last = &tokens[turns[turns.len() - 1].clone()];
        if *truncated {
            // The verifier has judged the last turn, since the environment gave no reward.
            let last = prompter.tokenizer.decode(last, true).unwrap();
            assert_eq!(judgement.extracted.as_deref(), Some(&*last));
            assert!(judgement.metrics.get("asked").copied().unwrap_or(0.0) < 3.0);
        } else {
            assert_eq!((judgement.score, judgement.verdict), (0.25, Verdict::Wrong));
            assert_eq!((judgement.metrics["asked"], turns.len()), (3.0, 3));
        }
    }
}

#[test]
fn limits_cut_an_episode_off_behind_a_turn_of_the_model() {
    fn manner(problem: usize) -> Manner {
        if problem.is_multiple_of(2) { Manner::Endless } else { Manner::Long }
    }
    let all = Trial { max_turns: 2, ..Trial::new(manner) }.run();
    for (problem, responses) in all.iter().enumerate() {
        for response in responses {
            let most = if manner(problem) == Manner::Endless { 2 } else { 1 };
            assert!(response.truncated && response.turns() <= most, "{}", response.turns());
            assert!(response.tokens.len() <= LONGEST);
            assert!(!response.given.contains(response.tokens.len() - 1));
            assert_eq!(response.judgement.verdict, Verdict::Correct, "the verifier's");
        }
    }
}

#[test]
fn an_environment_that_fails_costs_its_own_response_alone() {
    fn manner(problem: usize) -> Manner {
        match problem {
            4 => Manner::Silent,
            0 | 2 | 6 => Manner::Fails(problem / 2 % 3),
            _ => Manner::Counts,
        }
    }
    let (expected, found) = (Trial::new(counts).run(), Trial::new(manner).run());
    let mut faults = 0;
    for (problem, (responses, sound)) in found.iter().zip(&expected).enumerate() {
        if manner(problem) == Manner::Counts {
            assert_eq!(responses, sound, "problem {problem}");
            continue;
        }
        for (response, sound) in responses.iter().zip(sound) {
            // One whose first turn was cut off has not asked it.
            if response.judgement.verdict == Verdict::Correct {
                assert_eq!(response.tokens, sound.tokens);
                continue;
            }
            faults += 1;
            assert!(response.judgement.failed);
            let reason = &response.judgement.reason;
            assert!(reason.starts_with("the environment failed: "), "{reason}");
            assert!(sound.tokens.starts_with(&response.tokens), "what was sampled stays");
        }
    }
    assert!(faults > SAMPLES, "{faults}");
}

/// Group by group, prompts are shared and openings differ: the seed is each response's own.
#[test]
fn an_environment_opens_each_episode_with_its_own_messages() {
    fn manner(problem: usize) -> Manner {
        match problem {
            2 => Manner::OpensLong,
            4 => Manner::OpensNot,
            6 => Manner::Fails(0),
            _ => Manner::Counts,
        }
    }
    let prompter = prompter();
    let environment = Counting { manner, workers: 2, is_slow: false, opens: true };
    let mut openings = Vec::new();
    let all = Trial { environment, ..Trial::new(manner) }.run();
    for (problem, Response { tokens, given, given_text, text, judgement, .. }) in
        all.iter().enumerate().flat_map(|(problem, of)| of.iter().map(move |one| (problem, one)))
    {
        assert!(given.fits(tokens.len()));
        if manner(problem) != Manner::Counts {
            // A response has sampled tokens all the same.
            let why = ["opens the episode with", "it does not open", "it does not begin"];
            let reason = &judgement.reason;
            assert!(judgement.failed && given.is_empty(), "{reason}");
            assert!(reason.contains(why[problem / 2 - 1]), "{reason}");
            continue;
        }
        let opening = given.ranges().next().unwrap();
        assert_eq!((opening.start, given_text[0]), (0, [0, opening.end]), "one token a character");
        openings.push(prompter.tokenizer.decode(&tokens[opening], false).unwrap());
        assert!(text.starts_with(openings.last().unwrap()));
    }
    openings.sort();
    openings.dedup();
    assert_eq!(openings, ["u:;\na:", "u:y;\na:", "u:yy;\na:"]);
}

#[test]
#[should_panic(expected = "a mistake")]
fn a_panic_of_an_environment_ends_sampling() {
    Trial::new(|_| Manner::Panics).run();
}

/// The engine's own part, with draws that are read late and with a cache of activations.
#[test]
fn what_goes_on_is_the_same_however_draws_are_read_and_keeps_its_activations() {
    let model = model(2);
    let run = |behind: bool, slots: usize, sequences: usize| {
        let mut activations = (slots > 0).then(|| ActivationCache::new(&model, slots).unwrap());
        let limits = Limits { sequences, ..ROOMY };
        let mut engine = Engine::new(&model, None, limits)
            .unwrap()
            .drawing_behind(behind)
            .caching_activations(activations.as_mut())
            .keeping_stopped();
        let sampling = Arc::new(Trial::new(counts).sampling());
        for number in 0..REQUESTS {
            let request = Request {
                key: Key { seed: 5, step: 1, prompt: number as u64 },
                prompt: Trial::prompt(number),
                samples: (0..SAMPLES).collect(),
                sampling: sampling.clone(),
                cache_activations: true,
            };
            engine.submit(request).unwrap();
        }
        let mut ended: BTreeMap<(usize, usize), Completion> = BTreeMap::new();
        while !engine.is_idle() {
            for event in engine.step().unwrap() {
                let Event::Finished { request, sample, completion } = event else { continue };
                let given: Vec<u32> = (0..=(request as u32)).map(|token| 30 + token).collect();
                let fits = completion.tokens.len() + given.len() < LONGEST;
                if !sampling.eos_tokens.contains(completion.tokens.last().unwrap()) {
                    ended.insert((request, sample), completion);
                } else if fits && completion.given.turns(0).count() < 3 {
                    engine.go_on(request, sample, &given).unwrap();
                } else {
                    engine.release_stopped(request, sample).unwrap();
                    ended.insert((request, sample), completion);
                }
            }
        }
        let mut held = BTreeSet::new();
        for Completion { tokens, activation_slots, .. } in ended.values_mut() {
            let own = activation_slots.take();
            assert!(own.is_some() || slots < 4000, "there is room");
            assert!(own.iter().all(|own| own.len() == Trial::prompt(0).len() + tokens.len() - 1));
            held.extend(own.into_iter().flatten());
        }
        let free = activations.map_or(0, |activations| activations.free_slots());
        assert!(slots < 4000 || held.len() + free == slots, "only responses hold slots");
        ended
    };
    let expected = run(false, 0, 64);
    assert_eq!(expected.len(), REQUESTS * SAMPLES);
    assert!(expected.values().any(|completion| completion.given.turns(0).count() == 3));
    for (behind, slots, sequences) in
        [(true, 0, 64), (false, 4000, 5), (true, 30, 64), (true, 4000, 3)]
    {
        assert!(run(behind, slots, sequences) == expected, "{behind} {slots} {sequences}");
    }
    let mut engine = Engine::new(&model, None, ROOMY).unwrap().keeping_stopped();
    assert!(engine.go_on(0, 0, &[3]).unwrap_err().to_string().contains("has not stopped"));
    assert!(engine.release_stopped(0, 0).is_err());
}
