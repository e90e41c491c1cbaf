//! The recipe's table `[reward]`.

use isentrope_code::Tests;
use isentrope_grader::GroundTruth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::countdown::{Challenge, Countdown};
use crate::math::Math;
use crate::{Item, Judgement, Verdict, Verifier, VerifierSettings};

/// How responses are rewarded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSettings {
    /// Which verifier judges responses.
    pub verifier: VerifierSettings,
    /// Leaves responses that were cut off at the longest length out of the loss. They count in advantages all the same.
    pub mask_truncated: bool,
    /// Penalty of responses that come close to the longest length (DAPO, arXiv:2503.14476, equation 13): 0 up to the
    /// buffer, then falling in a straight line to -factor.
    pub overlong: Overlong,
}

/// A built-in verifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifierName {
    /// By each problem's ground truth: `countdown` where it has numbers and a target, `code` where it is the tests of a program,
    /// else `math`.
    #[default]
    Auto,
    /// Exact arithmetic on the steps of the built-in task.
    Countdown,
    /// Mathematical answers: the content of the last `\boxed{}`, else what is stated as the answer, the last formula or the
    /// last number, compared by value with the ground truth. docs/guides/data-and-rewards.md has the rules.
    Math,
    /// Python programs: the last code block is run in a sandbox and held against the tests that are the ground truth.
    /// docs/guides/data-and-rewards.md has their forms.
    Code,
}

/// Judges what can be judged in this process. Programs are a fault here: they need the sandboxes of
/// [`VerifierSettings::build`].
impl Verifier for VerifierName {
    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement {
        match self.of(item.ground_truth) {
            Self::Countdown => Countdown.verify(item, response),
            Self::Code => Judgement::new(Verdict::Fault, None, "programs are judged in sandboxes alone"),
            Self::Math | Self::Auto => Math::default().verify(item, response),
        }
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        match self.of(item.ground_truth) {
            Self::Countdown => Countdown.same_answer(item, a, b),
            Self::Code => a == b,
            Self::Math | Self::Auto => Math::default().same_answer(item, a, b),
        }
    }
}

impl VerifierName {
    /// Which verifier judges a problem with this ground truth: never `auto`.
    pub(crate) fn of(self, ground_truth: &Value) -> Self {
        match self {
            Self::Auto if Challenge::is_form_of(ground_truth) => Self::Countdown,
            Self::Auto if Tests::is_form_of(ground_truth) => Self::Code,
            Self::Auto => Self::Math,
            named => named,
        }
    }

    /// Whether the verifier can use a ground truth.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub(crate) fn check(self, ground_truth: &Value) -> Result<(), String> {
        match self.of(ground_truth) {
            Self::Countdown => Challenge::from_value(ground_truth).map(drop),
            Self::Code => Tests::from_value(ground_truth).map(drop),
            Self::Math | Self::Auto if Tests::is_form_of(ground_truth) => {
                Err("the ground truth is the tests of a program, which only the verifier code runs".into())
            }
            Self::Math | Self::Auto => GroundTruth::from_value(ground_truth).map(drop),
        }
    }

    /// What keeps right responses to a problem from being judged right; see [`VerifierSettings::concern`].
    pub(crate) fn concern(self, item: &Item<'_>) -> Option<String> {
        match self.of(item.ground_truth) {
            Self::Countdown | Self::Code => None,
            Self::Math | Self::Auto => Math::default().concern(item),
        }
    }
}

/// Soft punishment of overlong responses (DAPO, arXiv 2503.14476, equation 13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overlong {
    /// Tokens before the longest length over which the penalty grows; 0 is no penalty. The longest length is
    /// `rollout.max_tokens`, or what the prompt leaves of the model's context if that is less.
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

/// A setting of `[reward]` is out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("reward.{key} is {value}: {expected}")]
pub struct Error {
    /// The setting, below `reward`.
    pub key: String,
    /// What it is.
    pub value: String,
    /// What it must be.
    pub expected: String,
}

impl RewardSettings {
    /// Checks every setting against the longest response, in tokens.
    ///
    /// # Errors
    /// [`Error`] naming the first that is out of range.
    pub fn check(&self, max_tokens: usize) -> Result<(), Error> {
        isentrope_settings::check("", self)?;
        self.verifier.check("verifier")?;
        let Overlong { buffer, .. } = self.overlong;
        if buffer > max_tokens {
            return Err(Error {
                key: "overlong.buffer".into(),
                value: buffer.to_string(),
                expected: format!("it must be at most the longest response, {max_tokens} tokens"),
            });
        }
        Ok(())
    }
}

impl From<isentrope_settings::Error> for Error {
    fn from(isentrope_settings::Error { key, value, expected }: isentrope_settings::Error) -> Self {
        Self { key, value, expected }
    }
}

/// What is added to the score of a response of `length` tokens: 0 up to `max_tokens - buffer`, then falling in a
/// straight line to `-factor` at `max_tokens` and beyond (DAPO, arXiv 2503.14476, equation 13). Without a buffer, 0.
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
    use serde_json::json;

    #[test]
    fn the_penalty_is_a_ramp_over_the_buffer() {
        // Settings of the DAPO paper: 16384 tokens expected, 4096 more as buffer.
        let penalty = |length| overlong_penalty(length, 20480, 4096, 1.0);
        assert_eq!([penalty(0), penalty(16384), penalty(18432), penalty(20480)], [0.0, 0.0, -0.5, -1.0]);
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
        assert_eq!(with(9, 1.0).check(8).unwrap_err().key, "overlong.buffer");
        for factor in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(with(0, factor).check(8).unwrap_err().key, "overlong.factor");
        }
    }

    #[test]
    fn auto_goes_by_the_ground_truth() {
        let verify = |ground_truth: &Value, response: &str| {
            let item = Item { ground_truth, ..Item::default() };
            VerifierName::Auto.verify(&item, response).verdict
        };
        let challenge = json!({"numbers": [1, 2], "target": 3});
        assert_eq!(verify(&challenge, "1+2=3!"), Verdict::Correct);
        assert_eq!(verify(&challenge, "It is 3"), Verdict::Unparseable);
        assert_eq!(verify(&json!("3"), "It is 3"), Verdict::Correct);
        assert_eq!(verify(&json!(null), "It is 3"), Verdict::Fault);
        let tests = json!({"inputs": ["1"], "outputs": ["2"]});
        assert_eq!(verify(&tests, "print(2)"), Verdict::Fault, "programs are not run without a sandbox");
        for tests in [tests.clone(), json!(tests.to_string()), json!(["assert f(1) == 2"])] {
            assert!(VerifierName::Auto.check(&tests).is_ok(), "{tests}");
            assert!(VerifierName::Code.check(&tests).is_ok(), "{tests}");
            assert!(
                VerifierName::Math.check(&tests).unwrap_err().contains("the tests of a program"),
                "{tests}"
            );
        }
        assert!(VerifierName::Auto.check(&json!({"inputs": ["1"], "outputs": []})).is_err());
        assert!(VerifierName::Code.check(&json!("3")).is_err());
        assert!(VerifierName::Auto.check(&json!({"numbers": [], "target": 3})).is_err());
        assert!(VerifierName::Auto.check(&json!("")).is_err());
        assert!(VerifierName::Auto.check(&challenge).is_ok());
    }

    #[test]
    fn names_are_what_recipes_write() {
        assert_eq!(serde_json::to_value(VerifierName::Countdown).unwrap(), "countdown");
        assert_eq!(serde_json::to_value(Verdict::TimedOut).unwrap(), "timed-out");
        let settings: RewardSettings = serde_json::from_value(json!({"overlong": {"buffer": 4}})).unwrap();
        assert_eq!(settings.overlong, Overlong { buffer: 4, factor: 1.0 });
        assert!(serde_json::from_value::<RewardSettings>(json!({"overlongs": 1})).is_err());
    }
}
