//! Settings of sampling, and their limits.

use crate::{Error, Result};
use isentrope_kernels::Adjustments;
use isentrope_model::tokenizer::Tokenizer;
use serde::Serialize;

/// How responses are drawn and when they end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// Divisor of the logits; 0 takes the most likely token (the lowest id among equals).
    pub temperature: f32,
    /// Keeps this many most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens that together have this probability; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this many times as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Divides the positive logits, and multiplies the negative ones, of tokens that occur in the
    /// prompt or the response so far; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Longest response, in tokens.
    pub max_tokens: usize,
    /// Tokens that end a response and are part of it.
    pub stop_tokens: Vec<u32>,
    /// The model's own end-of-sequence tokens.
    pub eos_tokens: Vec<u32>,
    /// Goes on after an end-of-sequence token.
    pub ignore_eos: bool,
    /// Texts that end a response and are cut off its text.
    pub stop_strings: Vec<String>,
    /// Whether completions record which tokens top-k, top-p and min-p kept, which training on them
    /// needs.
    pub records_kept: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            max_tokens: 256,
            stop_tokens: Vec::new(),
            eos_tokens: Vec::new(),
            ignore_eos: false,
            stop_strings: Vec::new(),
            records_kept: false,
        }
    }
}

/// Checks the stop texts of a recipe.
///
/// # Errors
/// The rest of a sentence that begins with their key and says what is wrong.
pub fn check_stop_texts(texts: &[String]) -> Result<(), &'static str> {
    if texts.iter().any(String::is_empty) {
        return Err("holds an empty text, which would end every response");
    }
    Ok(())
}

impl Sampling {
    /// Ends responses at a model's end-of-sequence tokens and at stop texts. The text of a response
    /// has no special tokens, so a stop text that is one of these, such as `<|im_end|>`, becomes a
    /// stop token too.
    #[must_use]
    pub fn ending_at(
        mut self,
        eos_tokens: &[u32],
        stop_texts: &[String],
        tokenizer: Option<&Tokenizer>,
    ) -> Self {
        let special = |text: &String| tokenizer?.special_token(text);
        self.stop_tokens.extend(stop_texts.iter().filter_map(special));
        self.eos_tokens = eos_tokens.to_vec();
        self.stop_strings = stop_texts.to_vec();
        self
    }

    /// Checks every setting.
    pub fn check(&self) -> Result<()> {
        let Self { temperature, top_p, min_p, repetition_penalty: penalty, .. } = *self;
        let is_scale = |value: f32| (0.01..=100.0).contains(&value);
        let numbers = [
            (
                "temperature",
                temperature,
                temperature == 0.0 || is_scale(temperature),
                "it must be 0 (the most likely token) or from 0.01 to 100",
            ),
            ("top-p", top_p, top_p > 0.0 && top_p <= 1.0, "it must be above 0 and at most 1"),
            ("min-p", min_p, (0.0..=1.0).contains(&min_p), "it must be from 0 to 1"),
            ("repetition-penalty", penalty, is_scale(penalty), "it must be from 0.01 to 100"),
        ];
        if let Some((name, value, _, expected)) = numbers.into_iter().find(|(.., good, _)| !good) {
            return Err(Error::Setting { name, value: value.to_string(), expected });
        }
        if self.max_tokens == 0 {
            return Err(Error::Setting {
                name: "max-tokens",
                value: "0".into(),
                expected: "it must be at least 1",
            });
        }
        if check_stop_texts(&self.stop_strings).is_err() {
            return Err(Error::Setting {
                name: "stop",
                value: "an empty text".into(),
                expected: "it must hold at least one character",
            });
        }
        Ok(())
    }

    /// Whether some tokens are excluded from being drawn.
    pub fn truncates(&self) -> bool {
        self.temperature != 0.0 && self.adjustments().truncates()
    }

    /// Describes the drawing in words: "greedy", or "temperature 0.6, top-p 0.95, top-k 20".
    pub fn decoding(&self) -> String {
        let &Self { temperature, top_k, top_p, min_p, repetition_penalty, .. } = self;
        let mut words = match temperature {
            0.0 => vec!["greedy".to_owned()],
            _ => vec![format!("temperature {temperature}")],
        };
        if temperature != 0.0 {
            words.extend((top_p < 1.0).then(|| format!("top-p {top_p}")));
            words.extend((top_k > 0).then(|| format!("top-k {top_k}")));
            words.extend((min_p > 0.0).then(|| format!("min-p {min_p}")));
        }
        words.extend(
            (repetition_penalty != 1.0).then(|| format!("repetition penalty {repetition_penalty}")),
        );
        words.join(", ")
    }

    /// The settings of a single draw.
    pub(crate) fn adjustments(&self) -> Adjustments {
        let &Self { repetition_penalty, temperature, top_k, top_p, min_p, .. } = self;
        Adjustments { repetition_penalty, temperature, top_k, top_p, min_p }
    }

    pub(crate) fn ends(&self, token: u32) -> bool {
        self.stop_tokens.contains(&token) || (!self.ignore_eos && self.eos_tokens.contains(&token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_is_said_as_it_is() {
        let text = |temperature, top_p, top_k| {
            Sampling { temperature, top_p, top_k, ..Sampling::default() }.decoding()
        };
        assert_eq!(text(1.0, 1.0, 0), "temperature 1");
        assert_eq!(text(0.6, 0.95, 20), "temperature 0.6, top-p 0.95, top-k 20");
        assert_eq!(text(0.0, 0.95, 20), "greedy");
        let penalised = Sampling {
            temperature: 0.7,
            min_p: 0.1,
            repetition_penalty: 1.05,
            ..Sampling::default()
        };
        assert_eq!(penalised.decoding(), "temperature 0.7, min-p 0.1, repetition penalty 1.05");
    }
}
