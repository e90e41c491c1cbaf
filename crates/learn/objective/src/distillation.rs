//! On-policy distillation: the log-probs of a teacher, which scores the student's own responses,
//! give each token an advantage; or its whole distributions a term of the loss, the exact reverse
//! KL. The teacher is a frozen model, or the student itself, shown more.

use crate::error::{Result, refuse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On-policy distillation from a teacher (arXiv:2306.08543, section 2.2; arXiv:2306.13649;
/// thinkingmachines.ai/blog/on-policy-distillation), which in self-distillation is the model itself
/// with another prompt (OPSD, arXiv:2601.18734; SDFT, arXiv:2601.19897).
///
/// By sampled tokens the expected gradient, over tokens that the policy draws from its whole
/// distribution, is that of -coefficient KL(pi || pi_teacher) in each token's place, the reverse
/// KL; by the exact divergence this is the gradient itself. The responses that led there are held
/// fixed: a token is not rewarded for the places that follow it, as with a discount of 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Distillation {
    /// The teacher: a Hugging Face model directory, such as another run's checkpoint, or a hub id.
    /// Any size and family, with the tokens of the policy's tokenizer. Unset: there is none.
    pub teacher: Option<String>,
    /// In place of `teacher`, the policy's own model as the teacher of self-distillation.
    pub self_teacher: Option<SelfTeacher>,
    /// The question that the teacher is shown in place of the policy's: in it `{prompt}` is the
    /// policy's, `{answer}` the problem's ground truth, and `{hint}` the text in the column that
    /// `data.columns.hint` names. System message and chat template stay. Unset: what the policy is
    /// shown.
    pub teacher_prompt: Option<String>,
    /// The advantage of each token is raised by this times log pi_teacher - log pi_old, in nats,
    /// both at `rollout.temperature`; with `divergence = "reverse-kl"` it is the weight of that
    /// term. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1e6))]
    pub coefficient: f64,
    /// How the reverse KL to the teacher is lowered: by an estimate or exactly.
    pub divergence: TeacherDivergence,
}

/// The form of the reverse KL, KL(pi || pi_teacher).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeacherDivergence {
    /// By the advantages of the sampled tokens, whose expected gradient is the divergence's.
    #[default]
    SampledToken,
    /// As a term of the loss, coefficient * KL in each token's place, over the whole vocabulary,
    /// both at `rollout.temperature`; also where top-k, top-p or min-p drew from a part of it. The
    /// gradient has no noise from sampling the token. The teacher goes forward in each update.
    ReverseKl,
}

/// The weights of a policy that is its own teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SelfTeacher {
    /// The weights that training starts from, kept beside the policy's: as OPSD recommends.
    Base,
    /// The weights that sampled the rollout: the teacher learns with the policy.
    Live,
}

impl Default for Distillation {
    fn default() -> Self {
        Self {
            teacher: None,
            self_teacher: None,
            teacher_prompt: None,
            coefficient: 1.0,
            divergence: TeacherDivergence::default(),
        }
    }
}

impl Distillation {
    pub(crate) fn check(&self) -> Result<()> {
        if let (Some(teacher), Some(_)) = (&self.teacher, self.self_teacher) {
            return refuse(
                "objective.distillation.teacher",
                format!("{teacher:?}"),
                "objective.distillation.self_teacher is set too, and there is one teacher; leave \
                 one of them out",
            );
        }
        let key = "objective.distillation.teacher_prompt";
        let Some(prompt) = &self.teacher_prompt else {
            return match self.self_teacher {
                Some(SelfTeacher::Live) => refuse(
                    "objective.distillation.self_teacher",
                    "\"live\"",
                    &format!(
                        "the weights that sampled a response score it as they did, and the teacher \
                         has nothing to say: show it more by {key}"
                    ),
                ),
                _ => Ok(()),
            };
        };
        let has = |part: &str| prompt.contains(part);
        if has("{prompt}") && (has("{answer}") || has("{hint}")) {
            return Ok(());
        }
        refuse(
            key,
            format!("{prompt:?}"),
            "it must have {prompt}, the policy's question, and {answer} or {hint}, what the \
             teacher is shown besides",
        )
    }

    /// The advantage of a token whose outcome has the advantage `outcome`: `student` and `teacher`
    /// are its log-probs under the policy that sampled it and under the teacher, in nats.
    pub fn advantage(&self, outcome: f64, student: f64, teacher: f64) -> f64 {
        outcome + self.coefficient * (teacher - student)
    }
}
