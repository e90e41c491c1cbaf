//! The recipe's table `[reward]`.

use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::VerifierSettings;

/// How responses are rewarded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSettings {
    /// Which verifier judges responses.
    pub verifier: VerifierSettings,
    /// Leaves responses that were cut off, at the longest length or at `environment.max_turns`, out
    /// of the loss. They count in advantages all the same.
    pub mask_truncated: bool,
    /// Penalty of responses that come close to the longest length (DAPO, arXiv:2503.14476, equation
    /// 13): 0 up to the buffer, then falling in a straight line to -factor.
    pub overlong: Overlong,
}

/// Soft punishment of overlong responses (DAPO, arXiv 2503.14476, equation 13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overlong {
    /// Tokens before the longest length over which the penalty grows; 0 is no penalty. The longest
    /// length is `rollout.max_tokens`, or what the prompt leaves of the model's context if that is
    /// less.
    pub buffer: usize,
    /// Penalty of a response of the longest length.
    #[schemars(range(min = 0.0))]
    pub factor: f64,
}

impl Default for Overlong {
    fn default() -> Self {
        Self { buffer: 0, factor: 1.0 }
    }
}

impl RewardSettings {
    /// Checks every setting against the longest response, in tokens.
    ///
    /// # Errors
    /// [`Error`] naming the first that is out of range.
    pub fn check(&self, max_tokens: usize) -> Result<(), Error> {
        isentrope_settings::check("reward", self)?;
        self.verifier.check()?;
        let Overlong { buffer, .. } = self.overlong;
        if buffer > max_tokens {
            return Err(Error {
                key: "reward.overlong.buffer".into(),
                value: buffer.to_string(),
                expected: format!("it must be at most the longest response, {max_tokens} tokens"),
            });
        }
        Ok(())
    }
}

/// Penalty that is added to the score of a response of `length` tokens: 0 up to `max_tokens -
/// buffer`, then falling in a straight line to `-factor` at `max_tokens` and beyond (DAPO, arXiv
/// 2503.14476, equation 13). Without a buffer, 0.
pub fn overlong_penalty(length: usize, max_tokens: usize, buffer: usize, factor: f64) -> f64 {
    if buffer == 0 {
        return 0.0;
    }
    let beyond = (length + buffer).saturating_sub(max_tokens).min(buffer);
    -(beyond as f64 / buffer as f64 * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, VerifierName};
    use serde_json::json;

    #[test]
    fn the_penalty_is_a_ramp_over_the_buffer() {
        // Settings of the DAPO paper: 16384 tokens expected, 4096 more as buffer.
        let penalty = |length| overlong_penalty(length, 20480, 4096, 1.0);
        assert_eq!(
            [penalty(0), penalty(16384), penalty(18432), penalty(20480)],
            [0.0, 0.0, -0.5, -1.0]
        );
        assert_eq!(penalty(30000), -1.0, "evaluations may sample longer responses than training");
        assert_eq!(overlong_penalty(18432, 20480, 4096, 3.0), -1.5);
        assert_eq!(overlong_penalty(20480, 20480, 0, 1.0), 0.0);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let with = |buffer, factor| RewardSettings {
            overlong: Overlong { buffer, factor },
            ..RewardSettings::default()
        };
        assert_eq!(RewardSettings::default().check(1), Ok(()));
        assert_eq!(with(8, 1.0).check(8), Ok(()));
        assert_eq!(with(9, 1.0).check(8).unwrap_err().key, "reward.overlong.buffer");
        for factor in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(with(0, factor).check(8).unwrap_err().key, "reward.overlong.factor");
        }
    }

    #[test]
    fn names_are_what_recipes_write() {
        assert_eq!(serde_json::to_value(VerifierName::Countdown).unwrap(), "countdown");
        assert_eq!(serde_json::to_value(Verdict::TimedOut).unwrap(), "timed-out");
        let settings: RewardSettings =
            serde_json::from_value(json!({"overlong": {"buffer": 4}})).unwrap();
        assert_eq!(settings.overlong, Overlong { buffer: 4, factor: 1.0 });
        assert!(serde_json::from_value::<RewardSettings>(json!({"overlongs": 1})).is_err());
    }
}
