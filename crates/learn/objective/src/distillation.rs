//! On-policy distillation: the log-probs of a teacher, a frozen model that scores the student's own
//! responses, give each token an advantage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On-policy distillation from a teacher (arXiv:2306.08543, section 2.2; arXiv:2306.13649;
/// thinkingmachines.ai/blog/on-policy-distillation).
///
/// Its expected gradient, over tokens that the policy draws from its whole distribution, is that of
/// -coefficient KL(pi || pi_teacher) in each token's place, the reverse KL. The responses that led
/// there are held fixed: a token is not rewarded for the places that follow it, as with a discount
/// of 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Distillation {
    /// The teacher: a Hugging Face model directory, such as another run's checkpoint, or a hub id.
    /// Any size and family, with the tokens of the policy's tokenizer. Unset: there is none.
    pub teacher: Option<String>,
    /// The advantage of each token is raised by this times log pi_teacher - log pi_old, in nats,
    /// both at `rollout.temperature`; above 0.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e6))]
    pub coefficient: f64,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { teacher: None, coefficient: 1.0 }
    }
}

impl Distillation {
    /// The advantage of a token whose outcome has the advantage `outcome`: `student` and `teacher`
    /// are its log-probs under the policy that sampled it and under the teacher, in nats.
    pub fn advantage(&self, outcome: f64, student: f64, teacher: f64) -> f64 {
        outcome + self.coefficient * (teacher - student)
    }
}
