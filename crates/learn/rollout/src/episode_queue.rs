//! Episodes: the messages before the first turn of the model and between its turns, asked of an
//! environment while others are sampled.
//!
//! Threads, as many as the environment answers at a time, hand it the turns that have ended. Its
//! messages become tokens, and the response goes on behind them. No bit of a response depends on
//! when the environment answers.

use crate::between_turns::{Conversation, GivenTokens};
use crate::engine::Request;
use crate::error::Result;
use crate::prompter::Prompter;
use crate::questions::{CloseOnDrop, Questions};
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
    seed: u64,
    /// None for the messages that open the episode.
    turn: Option<EndedTurn>,
    episode: OpenEpisode,
}

/// A turn that has ended.
struct EndedTurn {
    /// Its text without special tokens but a mark of a call at its beginning, up to a stop string.
    text: String,
    /// The token that has ended it; none at a stop string.
    end_token: Option<u32>,
    completion: Completion,
}

struct Answer {
    id: ResponseId,
    /// The response so far; none before its first turn.
    completion: Option<Completion>,
    episode: OpenEpisode,
    /// Or the panic of the thread that asked.
    next: thread::Result<Next>,
}

/// The state that the threads share with the queue.
struct Shared<'env> {
    turns: Turns<'env>,
    /// The problem of each request.
    problems: &'env [&'env Problem],
    questions: Arc<Questions<Question>>,
}

impl<'scope, 'env> EpisodeQueue<'scope, 'env> {
    /// A queue without turns. `problems` has the problem of each request. An environment that opens
    /// its episodes is asked to open all of them.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        turns: Option<Turns<'env>>,
        problems: &'env [&'env Problem],
        requests: &[Request],
    ) -> Self {
        let (questions, incoming) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let open = CloseOnDrop(Questions::new(incoming));
        let questions_of_threads = open.0.clone();
        let shared = turns
            .map(|turns| Arc::new(Shared { turns, problems, questions: questions_of_threads }));
        let drawn = requests.iter().map(|request| (request.key, request.sampling.clone()));
        let mut queue = Self {
            scope,
            shared,
            _open: open,
            drawn: drawn.collect(),
            threads: 0,
            questions,
            answers,
            answer,
            open: HashMap::new(),
            asked: 0,
            note: None,
        };
        if turns.is_some_and(|turns| turns.environment.opens()) {
            for (request, Request { samples, .. }) in requests.iter().enumerate() {
                for &sample in samples {
                    queue.ask(ResponseId { request, sample }, None, OpenEpisode::default());
                }
            }
        }
        queue
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
        let shared = shared.clone();
        for (id, completion) in sampled {
            let episode = self.open.remove(&id).unwrap_or_default();
            let stops = completion.finish_reason == FinishReason::Stop;
            if stops && episode.outcome.fault.is_none() {
                let turn = shared.turns.ended_turn(&self.drawn[id.request].1, completion);
                self.ask(id, Some(turn), episode);
                continue;
            }
            if stops {
                run.end(id)?; // the environment failed to open the episode
            }
            ended.push((id, shared.turns.complete(completion, episode)?));
        }
        Ok(ended)
    }

    /// Asks the environment what follows a turn that has ended, or opens an episode.
    fn ask(&mut self, id: ResponseId, turn: Option<EndedTurn>, episode: OpenEpisode) {
        let Some(shared) = &self.shared else { return };
        let seed = self.drawn[id.request].0.environment_seed(id.sample as u64);
        let question = Question { id, seed, turn, episode };
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
        let Answer { id, completion, episode, next } = answer;
        let next = next.unwrap_or_else(|panic| resume_unwind(panic));
        let Some(mut completion) = completion else {
            self.opened(run, id, episode, next)?;
            return Ok(None);
        };
        match next {
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
        let longest = run.longest(id);
        if given.len() >= longest {
            episode.outcome.fault = Some(format!(
                "it opens the episode with {} tokens, and the response has room for {longest}",
                given.len()
            ));
            given.clear();
        }
        self.open.insert(id, episode);
        run.open(id, &given)
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
        let Question { id, seed, turn, mut episode } = question;
        let problem = self.problems[id.request];
        let ask = || match &turn {
            Some(EndedTurn { text, end_token, .. }) => {
                self.turns.follow(problem, seed, &mut episode, text, *end_token)
            }
            None => self.turns.open(problem, seed, &mut episode),
        };
        let next = catch_unwind(AssertUnwindSafe(ask)).map(|next| {
            next.unwrap_or_else(|Fault(fault)| {
                episode.outcome.fault = Some(fault);
                Next::End
            })
        });
        Answer { id, completion: turn.map(|turn| turn.completion), episode, next }
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
        let given = text(self.follow(problem, 0, &mut open, MADE_UP, end_token))?;
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

    /// A turn that has ended, for the environment.
    fn ended_turn(&self, sampling: &Sampling, completion: Completion) -> EndedTurn {
        let turn = &completion.tokens[completion.given.last_turn()..];
        let end_token = turn.last().copied().filter(|&last| sampling.ends(last));
        let text = completion.text.as_deref().unwrap_or_default();
        let marks = self.environment.call_marks();
        let text = marked_text(&self.prompter.tokenizer, marks, turn, text);
        EndedTurn { text, end_token, completion }
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
