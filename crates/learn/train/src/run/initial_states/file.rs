//! The file of the states that a run has begun with: a JSON line per response.

use crate::error::{Error, Result};
use isentrope_evaluation::EvaluationSet;
use isentrope_files::{AtomicFile, open_regular, partial};
use isentrope_rollout::Response;
use isentrope_run::tokens::InitialState;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line that is read, in bytes: a response of a million tokens.
const MAX_LINE: u64 = 64 << 20;

/// The file while it is made.
pub(super) struct StatesFile(AtomicFile);

impl StatesFile {
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self(AtomicFile::create_as(path, partial(path))?))
    }

    /// Adds the responses to each problem of a set, with their log-probs.
    pub fn add(&mut self, set: &EvaluationSet, problems: &[Vec<Response>]) -> Result<()> {
        // Greedy responses have the log-probs of temperature 1.
        let temperature =
            if set.decoding.temperature == 0.0 { 1.0 } else { set.decoding.temperature };
        for (problem, ((_, prompt), responses)) in set.problems.iter().zip(problems).enumerate() {
            for (sample, response) in responses.iter().enumerate() {
                self.0.json_line(&InitialState {
                    set: set.name.clone(),
                    problem,
                    sample,
                    temperature,
                    prompt_tokens: prompt.len(),
                    tokens: [&prompt[..], &response.tokens].concat(),
                    logprobs: response.logprobs.clone(),
                })?;
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        Ok(self.0.commit()?)
    }
}

/// Gives `each` every response of a file, for a model with so many different tokens and a context
/// of so many.
///
/// # Errors
/// [`Invalid`](isentrope_evaluation::Error::Invalid) naming the first line that is no response for
/// this model; what `each` returns.
pub(super) fn read(
    path: &Path,
    (vocabulary, context): (usize, usize),
    each: &mut dyn FnMut(InitialState) -> Result<()>,
) -> Result<()> {
    let mut reader = BufReader::new(open_regular(path)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(|e| Error::io(path, e))? == 0 {
            break;
        }
        let invalid = |what: String| Error::invalid(path, format!("line {number}: {what}"));
        if line.last() != Some(&b'\n') {
            return Err(invalid(format!("has no end within {MAX_LINE} bytes")));
        }
        let state: InitialState =
            serde_json::from_slice(&line).map_err(|e| invalid(e.to_string()))?;
        check(&state, vocabulary, context).map_err(invalid)?;
        each(state)?;
    }
    Ok(())
}

fn check(state: &InitialState, vocabulary: usize, context: usize) -> Result<(), String> {
    let InitialState { prompt_tokens, tokens, logprobs, temperature, .. } = state;
    if *prompt_tokens == 0 || tokens.len().checked_sub(*prompt_tokens) != Some(logprobs.len()) {
        return Err(format!(
            "{} tokens, {prompt_tokens} of them the prompt's, and {} log-probs do not go together",
            tokens.len(),
            logprobs.len()
        ));
    }
    // A prompt that has left no room for a response is only counted.
    if !logprobs.is_empty() && tokens.len() > context {
        return Err(format!("{} tokens do not fit the model's context of {context}", tokens.len()));
    }
    if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
        return Err(format!("the model has {vocabulary} different tokens, and no token {token}"));
    }
    if !(*temperature > 0.0 && temperature.is_finite()) {
        return Err(format!("\"temperature\" is {temperature}: it must be above 0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;

    fn line() -> Value {
        json!({
            "set": "s", "problem": 0, "sample": 1, "temperature": 0.6, "prompt_tokens": 2, "tokens": [1, 2, 3, 4],
            "logprobs": [-0.1, -1.0e-8]
        })
    }

    fn read_lines(text: &str) -> Result<Vec<InitialState>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("states.jsonl");
        fs::write(&path, text).unwrap();
        let mut states = Vec::new();
        let read = read(&path, (5, 4), &mut |state| {
            states.push(state);
            Ok(())
        });
        read.map(|()| states).map_err(|e| e.to_string())
    }

    #[test]
    fn responses_are_read_with_their_bits() {
        let states = read_lines(&format!("{}\n{}\n", line(), line())).unwrap();
        assert_eq!((states.len(), &states[0]), (2, &states[1]));
        assert_eq!(
            states[0].logprobs.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
            [(-0.1f32).to_bits(), (-1e-8f32).to_bits()]
        );
        assert_eq!(read_lines("").unwrap(), []);
    }

    #[test]
    fn what_is_no_response_is_named_by_its_line() {
        let with = |key: &str, value: Value| {
            let mut line = line();
            line[key] = value;
            format!("{line}\n")
        };
        for (text, part) in [
            (line().to_string(), "line 1: has no end"),
            (format!("{}\n\n", line()), "line 2: EOF"),
            ("{}\n".into(), "line 1: missing field"),
            (with("more", json!(1)), "unknown field `more`"),
            (with("tokens", json!([1, 2, 3, 5])), "no token 5"),
            (with("tokens", json!([1, 2, 3])), "do not go together"),
            (with("tokens", json!([1, 2, 3, -4])), "invalid value"),
            (with("prompt_tokens", json!(0)), "do not go together"),
            (with("prompt_tokens", json!(7)), "do not go together"),
            (with("logprobs", json!([-1.0])), "do not go together"),
            (with("temperature", json!(0)), "must be above 0"),
        ] {
            let error = read_lines(&text).unwrap_err();
            assert!(
                error.contains("states.jsonl: line ") && error.contains(part),
                "{text}: {error}"
            );
        }
        let mut long = line();
        (long["tokens"], long["logprobs"]) = (json!([1, 2, 3, 4, 1]), json!([-1, -1, -1]));
        assert!(read_lines(&format!("{long}\n")).unwrap_err().contains("context of 4"));
        (long["prompt_tokens"], long["logprobs"]) = (json!(5), json!([]));
        assert_eq!(read_lines(&format!("{long}\n")).unwrap().len(), 1, "only counted");
    }
}
