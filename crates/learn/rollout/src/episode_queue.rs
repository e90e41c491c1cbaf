//! Episodes: what follows each turn of the model, asked of an environment while others are sampled.
//!
//! Threads, as many as the environment answers at a time, hand it the turns that have ended. Its
//! messages become tokens, and the response goes on behind them. No bit of a response depends on
//! when the environment answers.

use crate::between_turns::{Conversation, GivenTokens};
use crate::engine::Request;
use crate::error::Result;
use crate::prompter::Prompter;
use crate::random::Key;
use crate::respond::ResponseId;
use crate::sampling::Sampling;
use crate::sampling_run::SamplingRun;
use crate::sequence::{Completion, FinishReason};
use isentrope_data::Problem;
use isentrope_environment::{Environment, Episode, EpisodeLimits, Fault, Reply};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_reward::{Judgement, Verdict};
use isentrope_trace::{name_thread, span};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
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
}

/// The beginning of an episode whose turn is made up, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodePreview {
    /// The prompt.
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
    shared: Option<CloseOnDrop<'env>>,
    /// How each request is drawn.
    drawn: Vec<(Key, Arc<Sampling>)>,
    threads: usize,
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    /// Cloned for each thread.
    answer: Sender<Answer>,
    /// Episodes whose next turn is being sampled.
    open: HashMap<ResponseId, OpenEpisode>,
    /// Questions that have no answer yet.
    asked: usize,
    /// A warning about tokens between turns.
    note: Option<String>,
}

/// An episode between two turns.
#[derive(Default)]
struct OpenEpisode {
    /// None before its first turn.
    episode: Option<Box<dyn Episode>>,
    /// All messages so far, from the prompt's on; none before the first turn.
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

/// A turn that has ended.
struct Question {
    id: ResponseId,
    /// The turn's text without special tokens but a mark of a call at its beginning, up to a stop
    /// string.
    text: String,
    /// The token that has ended it; none at a stop string.
    end_token: Option<u32>,
    seed: u64,
    completion: Completion,
    episode: OpenEpisode,
}

struct Answer {
    id: ResponseId,
    completion: Completion,
    episode: OpenEpisode,
    /// Or the panic of the thread that asked.
    next: thread::Result<Next>,
}

/// The state that the threads share with the queue.
struct Shared<'env> {
    turns: Turns<'env>,
    /// The problem of each request.
    problems: &'env [&'env Problem],
    questions: Mutex<Receiver<Question>>,
    /// Set when no more answers are wanted: threads drop the questions that are left.
    closed: AtomicBool,
}

/// Closes the queue when it is dropped, so that its threads end after the turn they are at.
struct CloseOnDrop<'env>(Arc<Shared<'env>>);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}

impl<'scope, 'env> EpisodeQueue<'scope, 'env> {
    /// An empty queue. `problems` has the problem of each request.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        turns: Option<Turns<'env>>,
        problems: &'env [&'env Problem],
        requests: &[Request],
    ) -> Self {
        let (questions, incoming) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let shared = turns.map(|turns| {
            let (questions, closed) = (Mutex::new(incoming), AtomicBool::new(false));
            CloseOnDrop(Arc::new(Shared { turns, problems, questions, closed }))
        });
        let drawn = requests.iter().map(|request| (request.key, request.sampling.clone()));
        Self {
            scope,
            shared,
            drawn: drawn.collect(),
            threads: 0,
            questions,
            answers,
            answer,
            open: HashMap::new(),
            asked: 0,
            note: None,
        }
    }

    /// Whether all responses have ended.
    pub fn are_over(&self, run: &SamplingRun<'_>) -> bool {
        self.asked == 0 && run.is_idle()
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
        let shared = shared.0.clone();
        for (id, completion) in sampled {
            match completion.finish_reason {
                FinishReason::Stop => self.ask(&shared, id, completion),
                FinishReason::Length => {
                    let episode = self.open.remove(&id).unwrap_or_default();
                    ended.push((id, shared.turns.complete(completion, episode)?));
                }
            }
        }
        Ok(ended)
    }

    /// Hands a turn that has ended to the environment.
    fn ask(&mut self, shared: &Arc<Shared<'env>>, id: ResponseId, completion: Completion) {
        let (key, sampling) = &self.drawn[id.request];
        let turn = &completion.tokens[completion.given.last_turn()..];
        let end_token = turn.last().copied().filter(|&last| sampling.ends(last));
        let question = Question {
            id,
            text: marked_text(
                &shared.turns.prompter.tokenizer,
                shared.turns.environment.call_marks(),
                turn,
                completion.text.as_deref().unwrap_or_default(),
            ),
            end_token,
            seed: key.environment_seed(id.sample as u64),
            completion,
            episode: self.open.remove(&id).unwrap_or_default(),
        };
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
        let Answer { id, mut completion, episode, next } = answer;
        match next.unwrap_or_else(|panic| resume_unwind(panic)) {
            Next::End => {}
            Next::Cut => completion.finish_reason = FinishReason::Length,
            Next::Given { tokens, warning } => {
                self.note = self.note.take().or(warning);
                let longest = self.drawn[id.request].1.max_tokens.min(completion.room);
                if completion.tokens.len() + tokens.len() < longest {
                    run.go_on(id, &tokens)?;
                    self.open.insert(id, episode);
                    return Ok(None);
                }
                completion.finish_reason = FinishReason::Length; // they leave no room for a turn
            }
        }
        run.end(id)?;
        let Some(shared) = &self.shared else { return Ok(None) };
        Ok(Some((id, shared.0.turns.complete(completion, episode)?)))
    }
}

impl Shared<'_> {
    /// The work of a thread: answers one turn after another until there are no more.
    fn step_all(&self, answer: &Sender<Answer>) {
        name_thread("environment");
        loop {
            let next = self.questions.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(question) = next else { return };
            if self.closed.load(Ordering::Relaxed) {
                continue;
            }
            if answer.send(self.step(question)).is_err() {
                return;
            }
        }
    }

    fn step(&self, question: Question) -> Answer {
        let _span = span("environment");
        let Question { id, text, end_token, seed, completion, mut episode } = question;
        let problem = self.problems[id.request];
        let follow = || self.turns.follow(problem, seed, &mut episode, &text, end_token);
        let next = catch_unwind(AssertUnwindSafe(follow)).map(|next| {
            next.unwrap_or_else(|Fault(fault)| {
                episode.outcome.fault = Some(fault);
                Next::End
            })
        });
        Answer { id, completion, episode, next }
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
        Self { environment, prompter, max_turns, max_given_tokens }
    }
}

impl Turns<'_> {
    /// Shows how an episode begins, without a model.
    ///
    /// # Errors
    /// The environment's fault.
    pub fn preview(&self, problem: &Problem) -> Result<EpisodePreview, String> {
        let prompt = self.prompter.text(problem).map_err(|error| error.to_string())?;
        let mut open = OpenEpisode::default();
        let end_token = self.prompter.end_token();
        let next = self.follow(problem, 0, &mut open, MADE_UP, end_token);
        let given = match next.map_err(|Fault(fault)| fault)? {
            Next::Given { tokens, .. } => {
                let decoded = self.prompter.tokenizer.decode(&tokens, false);
                Some(decoded.map_err(|error| error.to_string())?)
            }
            Next::End | Next::Cut => None,
        };
        let end = end_token.and_then(|token| self.prompter.tokenizer.special_text(token));
        Ok(EpisodePreview { prompt, turn: format!("{MADE_UP}{}", end.unwrap_or_default()), given })
    }

    /// Asks the environment what follows a turn.
    fn follow(
        &self,
        problem: &Problem,
        seed: u64,
        open: &mut OpenEpisode,
        text: &str,
        end_token: Option<u32>,
    ) -> Result<Next, Fault> {
        let Self { environment, prompter, max_turns, max_given_tokens } = *self;
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
            prompter.between_turns(conversation, text, end_token, &messages, max_given_tokens);
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
        let mut ends = Vec::new(); // of turns, and of the given tokens between them
        for end in given.turns(tokens.len()).flat_map(|turn| [turn.start, turn.end]) {
            for &token in &tokens[read..end] {
                characters += stream.push(token)?.chars().count();
            }
            read = end;
            ends.push(characters);
        }
        // The first turn begins at 0, the last ends at the end.
        Ok(ends[1..].chunks_exact(2).map(|range| [range[0], range[1]]).collect())
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
