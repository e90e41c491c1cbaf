//! Settings of problems and worked examples.

use isentrope_reward::countdown::Operation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The recipe's table `[data.countdown]`: what problems of the built-in task are like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CountdownSettings {
    /// How many numbers problems may have.
    #[schemars(inner(range(min = 3, max = 6)))]
    pub numbers: Vec<usize>,
    /// How likely each entry of `numbers` is, in proportion; as many entries as `numbers`.
    pub weights: Vec<f64>,
    /// The given numbers are from 1 to this; at most 99.
    #[schemars(range(min = 1, max = 99))]
    pub largest_number: u64,
    /// Results of steps, targets included, are from 1 to this in some solution; at most 9999.
    pub largest_intermediate: u64,
    /// The operations that solutions are made of.
    pub operations: Vec<Operation>,
    /// Worked examples, which SFT on the task imitates: attempts that fail, then one that succeeds
    /// or a sign of giving up. All arithmetic in them is right.
    pub demonstrations: Demonstrations,
}

/// The recipe's table `[data.countdown.demonstrations]`: what worked examples of the built-in task
/// are like.
///
/// The number of attempts is geometric. All attempts but the last fail; the last succeeds with
/// probability `success`, else it fails too and the response gives up. So after each failed attempt
/// the chances of success, of another attempt and of giving up are always the same, whatever was
/// tried before: who gives up less, solves more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Demonstrations {
    /// Probability that the response ends in success.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub success: f64,
    /// Mean of the geometric distribution that the number of attempts is drawn from, before it is
    /// cut at `max_attempts`.
    #[schemars(range(min = 1.0))]
    pub attempts: f64,
    /// Largest number of attempts.
    #[schemars(range(min = 1))]
    pub max_attempts: usize,
    /// Probability that a failed attempt is abandoned before its last step.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub abandon: f64,
}

impl Default for CountdownSettings {
    fn default() -> Self {
        Self {
            numbers: vec![3, 4],
            weights: vec![0.7, 0.3],
            largest_number: 9,
            largest_intermediate: 99,
            operations: Operation::ALL.to_vec(),
            demonstrations: Demonstrations::default(),
        }
    }
}

impl Default for Demonstrations {
    fn default() -> Self {
        Self { success: 0.5, attempts: 2.0, max_attempts: 8, abandon: 0.1 }
    }
}

impl CountdownSettings {
    pub(super) fn check(&self) -> Result<()> {
        isentrope_settings::check("data.countdown", self)?;
        let numbers = format!("{:?}", self.numbers);
        if self.numbers.is_empty() {
            return Err(Error::setting(
                "data.countdown.numbers",
                numbers,
                "it must list numbers from 3 to 6",
            ));
        }
        let sum: f64 = self.weights.iter().sum();
        if self.weights.len() != self.numbers.len()
            || self.weights.iter().any(|&weight| weight.is_nan() || weight < 0.0)
            || !(sum > 0.0 && sum.is_finite())
        {
            return Err(Error::setting(
                "data.countdown.weights",
                format!("{:?}", self.weights),
                format!(
                    "it must have one entry per entry of data.countdown.numbers ({numbers}), none \
                     negative"
                ),
            ));
        }
        if !(self.largest_number..=9999).contains(&self.largest_intermediate) {
            return Err(Error::setting(
                "data.countdown.largest_intermediate",
                self.largest_intermediate,
                "it must be from data.countdown.largest_number to 9999",
            ));
        }
        if self.operations.is_empty() {
            let key = "data.countdown.operations";
            return Err(Error::setting(
                key,
                "[]",
                "it must list some of \"+\", \"-\", \"*\", \"/\"",
            ));
        }
        Ok(())
    }
}
