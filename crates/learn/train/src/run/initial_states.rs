//! Entropy on the same states all along a run (`lab.track_states`). The states are the tokens of
//! the responses that the evaluation before the first step has sampled; each evaluation scores
//! them again under the policy of its step.
//!
//! Their file has a JSON line per response. A checkpoint has its SHA-256, so that a run that goes
//! on measures on these states or on none.

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::metrics::Metrics;
use crate::ranks::TrainingRanks;
use isentrope_evaluation::EvaluationSet;
use isentrope_evaluation::statistics::{ENTROPY_INITIAL_STATES, KL_INITIAL};
use isentrope_files::{AtomicFile, open_regular, partial, remove, sha256_of_file};
use isentrope_model::{ModelConfig, Sequence};
use isentrope_rollout::Response;
use isentrope_run::run_files::INITIAL_STATES;
use isentrope_run::tokens::InitialState;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Tokens that are read and scored at a time, unless a single response has more. No result depends
/// on it.
const CHUNK_TOKENS: usize = 1 << 16;
/// Longest line that is read, in bytes: a response of a million tokens.
const MAX_LINE: u64 = 64 << 20;

/// The states of a run, in its directory.
pub(crate) struct InitialStates {
    path: PathBuf,
    /// Whether the recipe asks for them.
    is_tracked: bool,
    /// The file's hash, once the file is complete. The hash is kept while `track_states` is off, so
    /// that it can be turned on again.
    sha256: Option<String>,
    /// The file while it is made.
    unfinished: Option<AtomicFile>,
}

impl InitialStates {
    /// Opens the initial states of a run in `dir`. `kept` is their hash in the checkpoint, if the
    /// run goes on from one. If the states were never kept, `note` gets a message.
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
                    "lab.track_states has no effect: the states of the start were not kept, since \
                     the run began without the key or under a version that did not know it, and no \
                     others take their place",
                ),
            }
        }
        Ok(states)
    }

    /// The SHA-256 of the file, if it is complete.
    pub fn sha256(&self) -> Option<&String> {
        self.sha256.as_ref()
    }

    /// Removes earlier files, for a run that begins anew.
    pub fn remove(&self) -> Result<()> {
        Ok(remove(&self.path)?)
    }

    /// Keeps the responses to a set's problems, if they are from before the first step. Only rank 0
    /// writes. [`complete`](Self::complete) follows the last set.
    pub fn keep(
        &mut self,
        step: u64,
        set: &EvaluationSet,
        problems: &[Vec<Response>],
        ranks: &TrainingRanks,
    ) -> Result<()> {
        if !self.is_tracked || step > 0 || set.is_further || !ranks.is_first() {
            return Ok(());
        }
        let mut file = match self.unfinished.take() {
            Some(file) => file,
            None => AtomicFile::create_as(&self.path, partial(&self.path))?,
        };
        // Greedy responses have the log-probs of temperature 1.
        let temperature =
            if set.decoding.temperature == 0.0 { 1.0 } else { set.decoding.temperature };
        for (problem, ((_, prompt), responses)) in set.problems.iter().zip(problems).enumerate() {
            for (sample, response) in responses.iter().enumerate() {
                file.json_line(&InitialState {
                    set: set.name.clone(),
                    problem,
                    sample,
                    temperature,
                    prompt_tokens: prompt.len(),
                    tokens: [&prompt[..], &response.tokens].concat(),
                    given: response.given.clone(),
                    logprobs: response.logprobs.clone(),
                })?;
            }
        }
        self.unfinished = Some(file);
        Ok(())
    }

    /// Completes the file, if one was begun, and passes its hash to all ranks.
    pub fn complete(&mut self, ranks: &TrainingRanks) -> Result<()> {
        if let Some(file) = self.unfinished.take() {
            file.commit()?;
            self.sha256 = Some(sha256_of_file(&self.path)?);
        }
        self.sha256 = ranks.broadcast(self.sha256.take())?;
        Ok(())
    }

    /// Whether there are states to measure on.
    pub fn are_measured(&self) -> bool {
        self.is_tracked && self.sha256.is_some()
    }

    /// Scores the states under the present policy: `eval/<set>/entropy_initial_states` and
    /// `eval/<set>/kl_initial`.
    pub fn measure(&self, learner: &Learner, metrics: &mut Metrics) -> Result<()> {
        self.check()?;
        let (mut sets, mut chunk, mut tokens) = (Vec::new(), Vec::<InitialState>::new(), 0);
        let mut lines = BufReader::new(open_regular(&self.path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            if read.map_err(|e| Error::io(&self.path, e))? == 0 {
                break;
            }
            let state = state_of(&line, &learner.model.config)
                .map_err(|what| Error::invalid(&self.path, what))?;
            let is_alike = chunk.last().is_none_or(|last| last.temperature == state.temperature);
            if !is_alike || tokens + state.tokens.len() > CHUNK_TOKENS {
                score(learner, &mut chunk, &mut sets)?;
                tokens = 0;
            }
            tokens += state.tokens.len();
            chunk.push(state);
        }
        score(learner, &mut chunk, &mut sets)?;
        sets.iter().for_each(|set| set.record(metrics));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let what = if !self.path.exists() {
            "is gone, and has the states that the run measures its entropy on"
        } else if self.sha256.as_ref() != Some(&sha256_of_file(&self.path)?) {
            "was changed since the run made it: its SHA-256 is another"
        } else {
            return Ok(());
        };
        let remedy = "put it back, or go on without: --set lab.track_states=false";
        Err(Error::invalid(&self.path, format!("{what}; {remedy}")))
    }
}

/// Reads the state in a line. The hash shows that the file is the run's; still, each state is
/// checked to fit the model.
fn state_of(line: &[u8], config: &ModelConfig) -> Result<InitialState, String> {
    let state: InitialState = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let InitialState { prompt_tokens, tokens, given, logprobs, temperature, .. } = &state;
    let is_sound = *prompt_tokens > 0
        && tokens.len().checked_sub(*prompt_tokens) == Some(logprobs.len())
        // A response without tokens, for want of room, is only counted.
        && (logprobs.is_empty() || tokens.len() <= config.context())
        && tokens.iter().all(|&token| (token as usize) < config.vocab_size)
        && given.fits(logprobs.len())
        && *temperature > 0.0
        && temperature.is_finite();
    if is_sound { Ok(state) } else { Err("it has a line that is no response of this model".into()) }
}

/// Scores states of one temperature, and adds the scores to their sets.
fn score(learner: &Learner, chunk: &mut Vec<InitialState>, sets: &mut Vec<SetSums>) -> Result<()> {
    let Some(temperature) = chunk.first().map(|state| state.temperature) else { return Ok(()) };
    let sequences: Vec<Sequence<'_>> = chunk
        .iter()
        .filter(|state| !state.logprobs.is_empty())
        .map(|state| Sequence { tokens: &state.tokens, score_from: state.prompt_tokens })
        .collect();
    let scores = learner.score(&sequences, temperature)?;
    let mut at = 0;
    for state in chunk.iter() {
        let place = sets.iter().position(|set| set.name == state.set).unwrap_or_else(|| {
            sets.push(SetSums { name: state.set.clone(), ..SetSums::default() });
            sets.len() - 1
        });
        let of_response = at..at + state.logprobs.len();
        at = of_response.end;
        let (entropies, now) =
            (&scores.entropies[of_response.clone()], &scores.logprobs[of_response]);
        // Tokens that were given say nothing of a policy.
        let sampled =
            |of: &[f32]| state.given.sampled(of.len()).map(|at| of[at]).collect::<Vec<_>>();
        sets[place].add(&sampled(entropies), &sampled(&state.logprobs), &sampled(now));
    }
    chunk.clear();
    Ok(())
}

/// Sums over the states of a set.
#[derive(Default)]
struct SetSums {
    name: String,
    /// Responses that have tokens.
    responses: usize,
    tokens: usize,
    /// The sum of the responses' mean entropies.
    entropy: f64,
    /// The sum of log pi_initial - log pi over all tokens.
    log_ratio: f64,
}

impl SetSums {
    /// Adds a response, in an evaluation's order of additions, so that the bits are the same.
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
    use serde_json::{Value, json};

    #[test]
    fn a_line_that_is_no_response_of_the_model_is_refused() {
        let config = crate::test_support::config();
        let (context, vocabulary) = (config.context(), config.vocab_size);
        let read = |changes: Value| {
            let mut line = json!({
                "set": "s", "problem": 0, "sample": 1, "temperature": 0.6, "prompt_tokens": 2,
                "tokens": [1, 2, 3, 4], "logprobs": [-0.1, -1.0e-8]
            });
            for (key, value) in changes.as_object().unwrap() {
                line[key] = value.clone();
            }
            state_of(line.to_string().as_bytes(), &config)
        };
        let logprobs = read(json!({})).unwrap().logprobs;
        assert_eq!(logprobs, [-0.1, -1e-8], "to the bit");
        let long = vec![1; context + 1];
        read(json!({"prompt_tokens": context + 1, "tokens": long, "logprobs": []})).unwrap();
        let scores = vec![-1.0; context];
        for refused in [
            json!({"more": 1}),
            json!({"tokens": [1, 2, 3, vocabulary]}),
            json!({"tokens": [1, 2, 3]}),
            json!({"prompt_tokens": 0}),
            json!({"prompt_tokens": 7}),
            json!({"temperature": 0}),
            json!({"prompt_tokens": 1, "tokens": long, "logprobs": scores}),
        ] {
            read(refused.clone()).expect_err(&refused.to_string());
        }
        state_of(b"", &config).unwrap_err();
    }

    #[test]
    fn entropies_are_averaged_over_responses_and_log_ratios_over_tokens() {
        let mut set = SetSums { name: "s".into(), ..SetSums::default() };
        set.add(&[1.0, 2.0], &[-1.0, -2.0], &[-1.5, -1.0]);
        set.add(&[0.5], &[-3.0], &[-5.5]);
        set.add(&[], &[], &[]);
        let mut metrics = Metrics::default();
        set.record(&mut metrics);
        assert_eq!(metrics.get("eval/s/entropy_initial_states"), Some(1.0));
        assert_eq!(metrics.get("eval/s/kl_initial"), Some((0.5 - 1.0 + 2.5) / 3.0));
        SetSums { name: "e".into(), ..SetSums::default() }.record(&mut metrics);
        assert_eq!(metrics.get("eval/e/entropy_initial_states"), None);
        assert_eq!(metrics.get("eval/e/kl_initial"), None);
    }
}
