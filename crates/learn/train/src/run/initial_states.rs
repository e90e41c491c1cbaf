//! Entropy on the same states all along a run (`lab.track_states`): the tokens of the responses
//! that the evaluation before the first step has sampled, scored again under the policy as it is at
//! that evaluation and at each later one.
//!
//! `initial_states/file.rs` has the file that keeps them. A checkpoint has its SHA-256, so that a
//! run that goes on measures on these states or on none.

mod file;

use self::file::{StatesFile, read};
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::ranks::Ranks;
use isentrope_evaluation::EvaluationSet;
use isentrope_evaluation::statistics::{ENTROPY_INITIAL_STATES, KL_INITIAL};
use isentrope_files::{remove, sha256_of_file};
use isentrope_model::Sequence;
use isentrope_rollout::Response;
use isentrope_run::run_files::INITIAL_STATES;
use isentrope_run::tokens::InitialState;
use std::path::{Path, PathBuf};

/// Tokens that are read and scored at a time, more only where a single response has more. No result
/// depends on it.
const CHUNK_TOKENS: usize = 1 << 16;

/// The states of a run, in its directory.
pub(crate) struct InitialStates {
    path: PathBuf,
    /// Whether the recipe asks for them.
    is_tracked: bool,
    /// The file's hash, once it is complete. It is kept while the recipe does not ask, so that it
    /// may ask again.
    sha256: Option<String>,
    /// The file while it is made.
    unfinished: Option<StatesFile>,
}

impl InitialStates {
    /// Opens the initial states of a run in `dir`. `kept` is their hash in the checkpoint, if the
    /// run goes on from one. `note` is told if they cannot be known any more.
    ///
    /// # Errors
    /// [`Invalid`](isentrope_evaluation::Error::Invalid) when the file is not the one that the run
    /// has made.
    pub fn open(
        dir: &Path,
        is_tracked: bool,
        kept: Option<Option<String>>,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let goes_on = kept.is_some();
        let states = Self {
            path: dir.join(INITIAL_STATES),
            is_tracked,
            sha256: kept.flatten(),
            unfinished: None,
        };
        if is_tracked && goes_on {
            match &states.sha256 {
                Some(_) => states.check()?,
                None => note(
                    "lab.track_states has no effect: the states of the start were not kept, since the run began without the \
                     key or under a version that did not know it, and no others take their place",
                ),
            }
        }
        Ok(states)
    }

    /// The SHA-256 of the file, if it is complete.
    pub fn sha256(&self) -> Option<&String> {
        self.sha256.as_ref()
    }

    /// Removes what is there, for a run that begins anew.
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io).
    pub fn remove(&self) -> Result<()> {
        Ok(remove(&self.path)?)
    }

    /// Keeps the responses to a set's problems, if they are from before the first step: on the
    /// first rank, for all. After the last set follows [`complete`](Self::complete).
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io).
    pub fn keep(
        &mut self,
        step: u64,
        set: &EvaluationSet,
        problems: &[Vec<Response>],
        ranks: &Ranks,
    ) -> Result<()> {
        if !self.is_tracked || step > 0 || set.is_further || !ranks.is_first() {
            return Ok(());
        }
        let file = match &mut self.unfinished {
            Some(file) => file,
            None => self.unfinished.insert(StatesFile::create(&self.path)?),
        };
        file.add(set, problems)
    }

    /// Completes the file, if one was begun, and lets all ranks know of it.
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io); when another rank has failed.
    pub fn complete(&mut self, ranks: &Ranks) -> Result<()> {
        if let Some(file) = self.unfinished.take() {
            file.finish()?;
            self.sha256 = Some(sha256_of_file(&self.path)?);
        }
        self.sha256 = ranks.first_says(self.sha256.take())?;
        Ok(())
    }

    /// Whether there is something to measure on.
    pub fn are_measured(&self) -> bool {
        self.is_tracked && self.sha256.is_some()
    }

    /// Scores the states under the policy as it is: `eval/<set>/entropy_initial_states` and
    /// `eval/<set>/kl_initial`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn measure(&self, learner: &Learner, metrics: &mut Metrics) -> Result<()> {
        self.check()?;
        let config = &learner.model.config;
        let (mut sets, mut chunk, mut tokens) = (Vec::new(), Vec::<InitialState>::new(), 0);
        read(&self.path, (config.vocab_size, config.context()), &mut |state| {
            let is_alike = chunk.last().is_none_or(|last| last.temperature == state.temperature);
            if !is_alike || tokens + state.tokens.len() > CHUNK_TOKENS {
                score(learner, &mut chunk, &mut sets)?;
                tokens = 0;
            }
            tokens += state.tokens.len();
            chunk.push(state);
            Ok(())
        })?;
        score(learner, &mut chunk, &mut sets)?;
        sets.iter().for_each(|set| set.record(metrics));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let remedy = "put it back, or go on without: --set lab.track_states=false";
        if !self.path.exists() {
            let what = format!(
                "is gone, and has the states that the run measures its entropy on; {remedy}"
            );
            return Err(Error::invalid(&self.path, what));
        }
        if self.sha256.as_ref() != Some(&sha256_of_file(&self.path)?) {
            let what =
                format!("was changed since the run made it: its SHA-256 is another; {remedy}");
            return Err(Error::invalid(&self.path, what));
        }
        Ok(())
    }
}

/// Scores states of one temperature, and adds what comes out to their sets.
fn score(learner: &Learner, chunk: &mut Vec<InitialState>, sets: &mut Vec<OfSet>) -> Result<()> {
    let Some(temperature) = chunk.first().map(|state| state.temperature) else { return Ok(()) };
    let sequence = |state: &InitialState| state.prompt_tokens < state.tokens.len();
    let sequences: Vec<Sequence<'_>> = chunk
        .iter()
        .filter(|state| sequence(state))
        .map(|state| Sequence { tokens: &state.tokens, score_from: state.prompt_tokens })
        .collect();
    let scores = learner.score(&sequences, temperature)?;
    let mut at = 0;
    for state in chunk.iter() {
        let place = sets.iter().position(|set| set.name == state.set).unwrap_or_else(|| {
            sets.push(OfSet { name: state.set.clone(), ..OfSet::default() });
            sets.len() - 1
        });
        let of_response = at..at + state.logprobs.len();
        at = of_response.end;
        let (entropies, now) =
            (&scores.entropies[of_response.clone()], &scores.logprobs[of_response]);
        sets[place].add(entropies, &state.logprobs, now);
    }
    chunk.clear();
    Ok(())
}

/// Sums over the states of a set.
#[derive(Default)]
struct OfSet {
    name: String,
    /// Responses that have tokens.
    responses: usize,
    tokens: usize,
    /// The sum of the responses' mean entropies.
    entropy: f64,
    /// The sum of log pi_initial - log pi over all tokens.
    log_ratio: f64,
}

impl OfSet {
    /// Takes in a response, added up as an evaluation does, to the same bits.
    fn add(&mut self, entropies: &[f32], initial: &[f32], now: &[f32]) {
        if entropies.is_empty() {
            return;
        }
        self.responses += 1;
        self.tokens += entropies.len();
        self.entropy +=
            entropies.iter().map(|&h| f64::from(h)).sum::<f64>() / entropies.len() as f64;
        self.log_ratio +=
            initial.iter().zip(now).map(|(&a, &b)| f64::from(a) - f64::from(b)).sum::<f64>();
    }

    fn record(&self, metrics: &mut Metrics) {
        let Self { name, responses, tokens, entropy, log_ratio } = self;
        metrics.set_mean(format!("eval/{name}/{ENTROPY_INITIAL_STATES}"), *entropy, *responses);
        metrics.set_mean(format!("eval/{name}/{KL_INITIAL}"), *log_ratio, *tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies_are_averaged_over_responses_and_log_ratios_over_tokens() {
        let mut set = OfSet { name: "s".into(), ..OfSet::default() };
        set.add(&[1.0, 2.0], &[-1.0, -2.0], &[-1.5, -1.0]);
        set.add(&[0.5], &[-3.0], &[-5.5]);
        set.add(&[], &[], &[]);
        let mut metrics = Metrics::default();
        set.record(&mut metrics);
        assert_eq!(metrics.get("eval/s/entropy_initial_states"), Some(1.0));
        assert_eq!(metrics.get("eval/s/kl_initial"), Some((0.5 - 1.0 + 2.5) / 3.0));
        let mut empty = OfSet { name: "e".into(), ..OfSet::default() };
        empty.add(&[], &[], &[]);
        empty.record(&mut metrics);
        assert_eq!(metrics.get("eval/e/entropy_initial_states"), None);
        assert_eq!(metrics.get("eval/e/kl_initial"), None);
    }
}
