//! Episodes: the messages before the first turn of the model and between its turns, asked of an
//! environment while others are sampled.
//!
//! Threads, as many as the environment answers at a time, hand it the turns that have ended. Its
//! messages become tokens, and the response goes on behind them. No bit of a response depends on
//! when the environment answers.

use crate::between_turns::{Conversation, GivenTokens};
use crate::engine::Request;
use crate::error::Result;
use crate::partial_response::PartialResponse;
use crate::played_turn::{BegunEpisodes, PlayedTurn, Replay};
use crate::prompter::Prompter;
use crate::questions::{CloseOnDrop, Questions};
use crate::random::Key;
use crate::respond::{ResponseEvent, ResponseId};
use crate::sampling::Sampling;
use crate::sampling_run::SamplingRun;
use crate::sequence::{Completion, FinishReason};
use isentrope_data::Problem;
use isentrope_environment::{Environment, Episode, EpisodeLimits, Fault, Reply};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_reward::{Judgement, Verdict};
use isentrope_trace::{name_thread, span};
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};
use std::time::Duration;

/// How long a step waits for an environment when there is nothing to sample, before the observer is
/// asked whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An environment that answers the turns of the model, and the limits of its episodes.
#[derive(Clone, Copy)]
pub struct Turns<'a> {
    /// Answers the turns.
    pub environment: &'a dyn Environment,
    /// Turns the answers into tokens.
    pub prompter: &'a Prompter,
    /// Most turns of the model. An episode that has not ended with the last is cut off there, and
    /// counts as truncated.
    pub max_turns: usize,
    /// Most tokens of an answer's messages.
    pub max_given_tokens: usize,
    /// Episodes that another process has begun. The environment is given their turns again, and
    /// they go on from where its answers end or its messages differ.
    pub begun: Option<&'a BegunEpisodes>,
}

/// The beginning of an episode whose turn is made up, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodePreview {
    /// The prompt, and the environment's messages behind it if it opens its episodes.
    pub prompt: String,
    /// In place of the model's first turn, with its end token.
    pub turn: String,
    /// The text that the model is given behind it; none if the environment ends the episode there.
    pub given: Option<String>,
}

/// Stands for a turn of the model that nobody has sampled.
const MADE_UP: &str = "(a turn of the model)";

/// How a complete episode went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeOutcome {
    /// The last turn's text without special tokens, up to a stop string.
    pub last_turn: String,
    /// The environment's reward so far, if it gives one.
    pub reward: Option<f64>,
    /// The environment's metrics; of several values the last.
    pub metrics: BTreeMap<String, f64>,
    /// Why the environment failed, if it did.
    pub fault: Option<String>,
    /// Whether it was cut off because no turns were left.
    pub out_of_turns: bool,
    /// The ranges of the characters of the whole text that the model was given.
    pub given_text: Vec<[usize; 2]>,
}

impl EpisodeOutcome {
    /// The environment's judgement; none if a verifier is to judge.
    pub(crate) fn judgement(&self) -> Option<Judgement> {
        if let Some(fault) = &self.fault {
            // Were it left out, a policy would learn to write what an environment fails at.
            return Some(Judgement::failed(format!("the environment failed: {fault}")));
        }
        let score = self.reward?;
        let verdict = if score >= 1.0 { Verdict::Correct } else { Verdict::Wrong };
        Some(Judgement { score, ..Judgement::new(verdict, None, "the environment's reward") })
    }
}

/// Takes responses whose turns have ended, and goes on with them. Without turns, all it does is to
/// pass on what ends.
pub struct EpisodeQueue<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// None without turns.
    shared: Option<Arc<Shared<'env>>>,
    _open: CloseOnDrop<Question>,
    threads: usize,
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    /// Cloned for each thread.
    answer: Sender<Answer>,
    /// Episodes whose next turn is being sampled.
    open: HashMap<ResponseId, OpenEpisode>,
    /// Questions that have no answer yet.
    asked: usize,
    events: Vec<(ResponseId, ResponseEvent)>,
    /// A warning about tokens between turns.
    note: Option<String>,
}

/// An episode between two turns.
#[derive(Default)]
struct OpenEpisode {
    /// None before it is opened or has its first turn.
    episode: Option<Box<dyn Episode>>,
    /// All messages so far, from the prompt's on; none before it is opened or has its first turn.
    conversation: Option<Conversation>,
    turns: usize,
    outcome: EpisodeOutcome,
}

/// The continuation of an episode behind a turn.
enum Next {
    /// Tokens to go on behind, and a warning about them, if there is one.
    Given { tokens: Vec<u32>, warning: Option<String> },
    /// Nothing: the episode has ended.
    End,
    /// Nothing: the episode has not ended, and has no turns left.
    Cut,
}

/// Asks what an episode goes on with.
struct Question {
    id: ResponseId,
    /// The response, whose last turn has ended. None for an episode that is to be opened, or
    /// replayed if another process has begun it.
    completion: Option<Completion>,
    episode: OpenEpisode,
}

/// A turn that has ended, for the environment.
struct EndedTurn {
    /// Its text without special tokens but a mark of a call at its beginning, up to a stop string.
    text: String,
    /// The token that has ended it; none at a stop string.
    end_token: Option<u32>,
}

struct Answer {
    id: ResponseId,
    response: PlayedResponse,
    episode: OpenEpisode,
    /// Or the panic of the thread that asked.
    next: thread::Result<Next>,
}

/// A response so far.
enum PlayedResponse {
    /// It has stopped in the engine.
    Stopped(Completion),
    /// It is to be opened; its turns, if there are any, were replayed.
    Replayed(Replay),
}

/// The state that the threads share with the queue.
struct Shared<'env> {
    turns: Turns<'env>,
    /// How each request is drawn.
    drawn: Vec<(Key, Arc<Sampling>)>,
    /// The problem of each request.
    problems: &'env [&'env Problem],
    questions: Arc<Questions<Question>>,
}

impl<'scope, 'env> EpisodeQueue<'scope, 'env> {
    /// A queue without turns. `problems` has the problem of each request. An environment that opens
    /// its episodes is asked to open all of them; begun ones are replayed.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        turns: Option<Turns<'env>>,
        problems: &'env [&'env Problem],
        requests: &[Request],
    ) -> Self {
        let (questions, incoming) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let open = CloseOnDrop(Questions::new(incoming));
        let shared = turns.map(|turns| {
            let drawn = requests.iter().map(|request| (request.key, request.sampling.clone()));
            let (drawn, questions) = (drawn.collect(), open.0.clone());
            Arc::new(Shared { turns, drawn, problems, questions })
        });
        let mut queue = Self {
            scope,
            shared,
            _open: open,
            threads: 0,
            questions,
            answers,
            answer,
            open: HashMap::new(),
            asked: 0,
            events: Vec::new(),
            note: None,
        };
        for (request, Request { samples, .. }) in requests.iter().enumerate() {
            for id in samples.iter().map(|&sample| ResponseId { request, sample }) {
                if turns.is_some_and(|turns| turns.is_asked_first(id)) {
                    queue.ask(id, None, OpenEpisode::default());
                }
            }
        }
        queue
    }

    /// Whether all responses have ended.
    pub fn are_over(&self, run: &SamplingRun<'_>) -> bool {
        self.asked == 0 && run.is_idle()
    }

    /// New events of episodes.
    pub fn take_events(&mut self) -> Vec<(ResponseId, ResponseEvent)> {
        mem::take(&mut self.events)
    }

    /// A warning about the tokens between turns, if there is a new one.
    pub fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Advances every running response by a token, and goes on with those that the environment has
    /// answered. Returns the responses that have ended. If all wait for the environment, or for the
    /// memory of those that do, so does this, for a moment.
    pub fn step(&mut self, run: &mut SamplingRun<'_>) -> Result<Vec<(ResponseId, Completion)>> {
        let mut ended = Vec::new();
        if self.asked > 0 && run.must_wait() {
            let _span = span("wait for environments");
            if let Ok(answer) = self.answers.recv_timeout(STOP_POLL_INTERVAL) {
                ended.extend(self.answered(run, answer)?);
            }
        }
        while let Ok(answer) = self.answers.try_recv() {
            ended.extend(self.answered(run, answer)?);
        }
        if run.is_idle() {
            return Ok(ended);
        }
        let sampled = run.step()?;
        let Some(shared) = &self.shared else { return Ok(sampled) };
        let shared = shared.clone();
        for (id, completion) in sampled {
            let episode = self.open.remove(&id).unwrap_or_default();
            let stops = completion.finish_reason == FinishReason::Stop;
            if episode.outcome.fault.is_none() {
                let turn = PlayedTurn::last_of(&completion, &episode.outcome);
                self.events.push((id, ResponseEvent::Turn(turn)));
                if stops {
                    self.ask(id, Some(completion), episode);
                    continue;
                }
            }
            if stops {
                run.end(id)?; // the environment failed to open the episode
            }
            ended.push((id, shared.turns.complete(completion, episode)?));
        }
        Ok(ended)
    }

    /// Asks the environment what follows a turn that has ended, or opens or replays an episode.
    fn ask(&mut self, id: ResponseId, completion: Option<Completion>, episode: OpenEpisode) {
        let Some(shared) = &self.shared else { return };
        let question = Question { id, completion, episode };
        if self.threads < shared.turns.environment.workers().max(1) {
            let (shared, answer) = (shared.clone(), self.answer.clone());
            self.scope.spawn(move || shared.step_all(&answer));
            self.threads += 1;
        }
        self.asked += 1;
        let _ = self.questions.send(question); // its receiver is in `shared`
    }

    /// Goes on with a response, or returns it if it has ended.
    fn answered(
        &mut self,
        run: &mut SamplingRun<'_>,
        answer: Answer,
    ) -> Result<Option<(ResponseId, Completion)>> {
        self.asked -= 1;
        let Some(shared) = self.shared.clone() else { return Ok(None) };
        let Answer { id, response, episode, next } = answer;
        let next = next.unwrap_or_else(|panic| resume_unwind(panic));
        if let PlayedResponse::Replayed(replay) = &response {
            if !shared.turns.begun(id).is_empty() {
                let Replay { turns, outcome_differs, .. } = *replay;
                self.events.push((id, ResponseEvent::Replayed { turns, outcome_differs }));
            }
            if replay.turns == 0 {
                self.opened(run, id, episode, next)?;
                return Ok(None);
            }
        }
        let (before, room) = match &response {
            PlayedResponse::Stopped(completion) => (completion.tokens.len(), completion.room),
            PlayedResponse::Replayed(replay) => (replay.response.tokens.len(), run.room(id)),
        };
        let finish_reason = match next {
            Next::End => FinishReason::Stop,
            Next::Cut => FinishReason::Length,
            Next::Given { tokens, warning } => {
                self.note = self.note.take().or(warning);
                let longest = shared.drawn[id.request].1.max_tokens.min(room);
                if before + tokens.len() < longest {
                    match response {
                        PlayedResponse::Stopped(_) => run.go_on(id, &tokens)?,
                        PlayedResponse::Replayed(replay) => {
                            run.open(id, replay.response, &tokens)?;
                        }
                    }
                    self.open.insert(id, episode);
                    return Ok(None);
                }
                FinishReason::Length // they leave no room for a turn
            }
        };
        run.end(id)?;
        let completion = match response {
            PlayedResponse::Stopped(completion) => Completion { finish_reason, ..completion },
            PlayedResponse::Replayed(Replay { response, text, .. }) => {
                response.into_completion(text, finish_reason, room)
            }
        };
        Ok(Some((id, shared.turns.complete(completion, episode)?)))
    }

    /// Begins a response whose episode has been opened. One that the environment has failed to open
    /// has a turn behind the prompt all the same, since a response has sampled tokens.
    fn opened(
        &mut self,
        run: &mut SamplingRun<'_>,
        id: ResponseId,
        mut episode: OpenEpisode,
        next: Next,
    ) -> Result<()> {
        let mut given = match next {
            Next::Given { tokens, .. } => tokens,
            Next::End | Next::Cut => Vec::new(),
        };
        let max_tokens = self.shared.as_ref().map_or(0, |of| of.drawn[id.request].1.max_tokens);
        let longest = max_tokens.min(run.room(id));
        if given.len() >= longest {
            episode.outcome.fault = Some(format!(
                "it opens the episode with {} tokens, and the response has room for {longest}",
                given.len()
            ));
            given.clear();
        }
        self.open.insert(id, episode);
        run.open(id, PartialResponse::default(), &given)
    }
}

impl Shared<'_> {
    /// The work of a thread: answers one turn after another until there are no more.
    fn step_all(&self, answer: &Sender<Answer>) {
        name_thread("environment");
        while let Some(question) = self.questions.next() {
            if answer.send(self.step(question)).is_err() {
                return;
            }
        }
    }

    fn step(&self, question: Question) -> Answer {
        let _span = span("environment");
        let Question { id, completion, mut episode } = question;
        let (problem, (key, sampling)) = (self.problems[id.request], &self.drawn[id.request]);
        let seed = key.environment_seed(id.sample as u64);
        let mut replay = Replay::default();
        let ask = || match &completion {
            Some(completion) => {
                let Completion { tokens, given, text, .. } = completion;
                let (tokens, text) = (&tokens[given.last_turn()..], text.as_deref());
                let turn = self.turns.ended_turn(sampling, tokens, text.unwrap_or_default());
                self.turns.follow(problem, seed, &mut episode, &turn)
            }
            None => {
                let begun = self.turns.begun(id);
                self.turns.replay(problem, seed, sampling, &mut episode, begun, &mut replay)
            }
        };
        let next = catch_unwind(AssertUnwindSafe(ask)).map(|next| {
            next.unwrap_or_else(|Fault(fault)| {
                episode.outcome.fault = Some(fault);
                Next::End
            })
        });
        let response = match completion {
            Some(completion) => PlayedResponse::Stopped(completion),
            None => PlayedResponse::Replayed(replay),
        };
        Answer { id, response, episode, next }
    }
}

impl<'a> Turns<'a> {
    /// The turns of an environment's episodes with these limits.
    pub fn new(
        environment: &'a dyn Environment,
        limits: &EpisodeLimits,
        prompter: &'a Prompter,
    ) -> Self {
        let EpisodeLimits { max_turns, max_given_tokens, .. } = *limits;
        Self { environment, prompter, max_turns, max_given_tokens, begun: None }
    }

    /// The turns of a response's episode that another process has played.
    fn begun(&self, id: ResponseId) -> &'a [PlayedTurn] {
        self.begun.and_then(|begun| begun.get(&id)).map_or(&[], Vec::as_slice)
    }

    /// Whether the environment is asked about a response before it is sampled.
    pub(crate) fn is_asked_first(&self, id: ResponseId) -> bool {
        self.environment.opens() || !self.begun(id).is_empty()
    }
}

impl Turns<'_> {
    /// Shows how an episode begins, without a model.
    ///
    /// # Errors
    /// The environment's fault.
    pub fn preview(&self, problem: &Problem) -> Result<EpisodePreview, String> {
        let mut prompt = self.prompter.text(problem).map_err(|error| error.to_string())?;
        let mut open = OpenEpisode::default();
        let text = |next: Result<Next, Fault>| match next.map_err(|Fault(fault)| fault)? {
            Next::Given { tokens, .. } => {
                let decoded = self.prompter.tokenizer.decode(&tokens, false);
                Ok::<_, String>(Some(decoded.map_err(|error| error.to_string())?))
            }
            Next::End | Next::Cut => Ok(None),
        };
        if self.environment.opens() {
            prompt.extend(text(self.open(problem, 0, &mut open))?);
        }
        let end_token = self.prompter.end_token();
        let turn = EndedTurn { text: MADE_UP.to_owned(), end_token };
        let given = text(self.follow(problem, 0, &mut open, &turn))?;
        let end = end_token.and_then(|token| self.prompter.tokenizer.special_text(token));
        Ok(EpisodePreview { prompt, turn: format!("{MADE_UP}{}", end.unwrap_or_default()), given })
    }

    /// Begins an episode with the environment's messages.
    fn open(&self, problem: &Problem, seed: u64, open: &mut OpenEpisode) -> Result<Next, Fault> {
        let episode = open.episode.insert(self.environment.begin(problem, seed)?);
        let messages = episode.open()?;
        let mut conversation = self.prompter.conversation(&problem.prompt);
        let opening = self.prompter.opening(&conversation, &problem.prompt, &messages);
        let GivenTokens { tokens, messages, warning } = opening.map_err(Fault)?;
        conversation.open(messages);
        open.conversation = Some(conversation);
        Ok(Next::Given { tokens, warning })
    }

    /// Gives the environment a begun episode's turns again, and takes each of them over into
    /// `replay` if the messages before it are the same as then. Returns what follows the last.
    fn replay(
        &self,
        problem: &Problem,
        seed: u64,
        sampling: &Sampling,
        open: &mut OpenEpisode,
        begun: &[PlayedTurn],
        replay: &mut Replay,
    ) -> Result<Next, Fault> {
        let mut next = match self.environment.opens() {
            true => self.open(problem, seed, open)?,
            false => Next::Given { tokens: Vec::new(), warning: None },
        };
        for turn in begun {
            let Next::Given { tokens, warning } = &mut next else { break };
            if !turn.follows(tokens) {
                break;
            }
            let earlier = warning.take();
            replay.take(turn, &open.outcome);
            if turn.is_cut() {
                return Ok(Next::Cut);
            }
            let ended = self.ended_turn(sampling, turn.sampled(), turn.text());
            next = self.follow(problem, seed, open, &ended)?;
            if let Next::Given { warning, .. } = &mut next {
                *warning = earlier.or(warning.take());
            }
        }
        Ok(next)
    }

    /// A turn that has ended, of these tokens and with this text.
    fn ended_turn(&self, sampling: &Sampling, tokens: &[u32], text: &str) -> EndedTurn {
        let end_token = tokens.last().copied().filter(|&last| sampling.ends(last));
        let marks = self.environment.call_marks();
        let text = marked_text(&self.prompter.tokenizer, marks, tokens, text);
        EndedTurn { text, end_token }
    }

    /// Asks the environment what follows a turn.
    fn follow(
        &self,
        problem: &Problem,
        seed: u64,
        open: &mut OpenEpisode,
        EndedTurn { text, end_token }: &EndedTurn,
    ) -> Result<Next, Fault> {
        let Self { environment, prompter, max_turns, max_given_tokens, .. } = *self;
        let OpenEpisode { episode, conversation, turns, outcome } = open;
        let episode = match episode {
            Some(episode) => episode,
            none => none.insert(environment.begin(problem, seed)?),
        };
        let Reply { messages, done, reward, metrics } = episode.step(text)?;
        *turns += 1;
        outcome.reward = reward;
        outcome.metrics.extend(metrics);
        if done {
            return Ok(Next::End);
        }
        if messages.is_empty() {
            return Err(Fault("it has neither ended the episode nor answered the turn".into()));
        }
        if *turns >= max_turns {
            outcome.out_of_turns = true;
            return Ok(Next::Cut);
        }
        let conversation =
            conversation.get_or_insert_with(|| prompter.conversation(&problem.prompt));
        let given =
            prompter.between_turns(conversation, text, *end_token, &messages, max_given_tokens);
        let GivenTokens { tokens, messages, warning } = given.map_err(Fault)?;
        conversation.extend(text, messages);
        Ok(Next::Given { tokens, warning })
    }

    /// A response that has ended, with the outcome of its episode. Its text becomes that of all
    /// turns.
    fn complete(&self, completion: Completion, episode: OpenEpisode) -> Result<Completion> {
        let text = self.prompter.tokenizer.decode(&completion.tokens, false)?;
        let given_text = self.given_text(&completion)?;
        let last_turn = completion.text.unwrap_or_default();
        let episode = EpisodeOutcome { last_turn, given_text, ..episode.outcome };
        Ok(Completion { text: Some(text), episode: Some(Box::new(episode)), ..completion })
    }

    /// The ranges of the given characters in the text of all tokens. A character whose tokens are
    /// not all there at a boundary counts as behind it.
    fn given_text(&self, completion: &Completion) -> Result<Vec<[usize; 2]>> {
        let Completion { tokens, given, .. } = completion;
        let mut stream = self.prompter.tokenizer.decode_stream(false);
        let (mut characters, mut read) = (0, 0);
        let mut ends = Vec::new();
        for end in given.ranges().flat_map(|range| [range.start, range.end]) {
            for &token in &tokens[read..end] {
                characters += stream.push(token)?.chars().count();
            }
            read = end;
            ends.push(characters);
        }
        Ok(ends.chunks_exact(2).map(|range| [range[0], range[1]]).collect())
    }
}

/// The text of a turn for its environment: without special tokens, but with a mark of a call that
/// the turn begins with.
fn marked_text(tokenizer: &Tokenizer, marks: &[&str], tokens: &[u32], text: &str) -> String {
    let first = tokens.first().and_then(|&token| tokenizer.special_text(token));
    let mark = first.filter(|first| marks.contains(&&**first));
    format!("{}{text}", mark.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_turn_keeps_the_mark_of_a_call_that_it_begins_with() {
        let fixture = "../../compute/model/tests/fixtures/tokenizer/byte-bpe";
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
        let tokenizer = Tokenizer::read(&dir).unwrap().unwrap();
        let tokens = |text: &str| tokenizer.encode(text, false).unwrap();
        let text = |turn: &str| marked_text(&tokenizer, &["<|im_start|>"], &tokens(turn), "1+1");
        assert_eq!(text("<|im_start|>1+1<|im_end|>"), "<|im_start|>1+1");
        assert_eq!(text("1+1<|im_start|>"), "1+1");
        assert_eq!(text("<|im_end|>1+1"), "1+1");
        assert_eq!(text(""), "1+1");
    }
}
