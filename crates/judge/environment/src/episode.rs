//! Episodes: responses of several turns, between which an environment answers.

use std::collections::BTreeMap;

use isentrope_data::Problem;
use serde_json::Value;

/// Gives an episode for each response to a problem. Any number of threads may ask it at the same
/// time.
pub trait Environment: Send + Sync {
    /// Begins the episode of one response. `seed` follows from the response's place in the run
    /// alone.
    ///
    /// # Errors
    /// [`Fault`].
    fn begin(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>, Fault>;

    /// How many episodes may be asked at the same time; more would wait for each other.
    fn workers(&self) -> usize;

    /// Whether its messages open each episode, behind the problem's prompt.
    fn opens(&self) -> bool {
        false
    }

    /// Tools for the chat template's variable `tools`, as transformers takes them; empty: none.
    fn tools(&self) -> &[Value];

    /// Special tokens that mark a call: a turn's text keeps one that it begins with.
    fn call_marks(&self) -> &[&str] {
        &[]
    }

    /// Notes for users before it is asked, as sentences without a full stop.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One response under way.
pub trait Episode: Send {
    /// The messages before the model's first turn, objects with `role` (system, user or tool) and
    /// `content` (a text). Asked once, before any turn, if the environment
    /// [opens](Environment::opens) its episodes.
    ///
    /// # Errors
    /// [`Fault`]: the episode is over.
    fn open(&mut self) -> Result<Vec<Value>, Fault> {
        Ok(Vec::new())
    }

    /// Answers the model's turn. `text` is the turn without special tokens, but for a
    /// [mark](Environment::call_marks) at its beginning.
    ///
    /// # Errors
    /// [`Fault`]: the episode is over.
    fn step(&mut self, text: &str) -> Result<Reply, Fault>;
}

/// The environment's answer to a turn of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Messages for the model, objects with `role` (user or tool) and `content` (a text). Empty if
    /// and only if the episode has ended.
    pub messages: Vec<Value>,
    /// Whether the episode has ended.
    pub done: bool,
    /// The episode's reward so far, if the environment gives one. Without one the recipe's verifier
    /// judges the last turn.
    pub reward: Option<f64>,
    /// Numbers that the environment measures; a later one replaces an earlier one of its name.
    pub metrics: BTreeMap<String, f64>,
}

/// The environment failed. The response scores as one at which a verifier fails
/// ([`Judgement::failed`](isentrope_reward::Judgement::failed)). The text follows "the environment
/// failed: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);
