//! The parts of the objective, as `isentrope objectives` and docs/reference/objectives.md list
//! them.

use crate::{Estimator, Loss, Methods};
use std::fmt;

/// A part of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name in the field.
    pub name: &'static str,
    /// Its effect.
    pub kind: Kind,
    /// Its formula. rho = pi / pi_old; clip(rho) is within 1 - clip_low and 1 + clip_high; A is the
    /// advantage, r the reward, H the entropy of the policy in the token's place.
    pub equation: &'static str,
    /// Where the formula stands: an arXiv number, with the place in the paper or its code where it
    /// is known.
    pub source: &'static str,
    /// The setting that switches it on.
    pub setting: &'static str,
    /// Time and memory that it takes beside the loss `clip`.
    pub cost: &'static str,
}

/// The thing that a part of the objective changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The policy loss itself.
    Loss,
    /// The advantages of tokens.
    Advantage,
    /// The weights of tokens in the policy loss, 0 included.
    Weight,
    /// The range within which a token's ratio is not clipped.
    ClipRange,
    /// A term is added to the loss.
    Term,
    /// The strength of another part, from step to step.
    Controller,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loss => "loss",
            Self::Advantage => "advantage",
            Self::Weight => "weight",
            Self::ClipRange => "clip range",
            Self::Term => "term",
            Self::Controller => "controller",
        })
    }
}

/// No cost that could be measured: a few operations per token.
pub(crate) const FREE: &str = "none";

/// The parts that have tables of their own.
const OTHERS: [About; 10] = [
    About {
        name: "Clip-Cov",
        kind: Kind::Weight,
        equation: "no policy term for a fraction of the tokens with low < Cov < high, drawn at \
                   random; Cov = (log pi - mean log pi) (A - mean A)",
        source: "arXiv:2505.22617, section 4",
        setting: "objective.covariance.method = \"clip-cov\"",
        cost: FREE,
    },
    About {
        name: "KL-Cov",
        kind: Kind::Term,
        equation: "+ coefficient kl(log rho), by_advantage times |A|, for the fraction of the \
                   tokens with the largest Cov, or what pick says",
        source: "arXiv:2505.22617, section 4",
        setting: "objective.covariance.method = \"kl-cov\"",
        cost: FREE,
    },
    About {
        name: "Autopilot",
        kind: Kind::Controller,
        equation: "fraction of Clip-Cov or KL-Cov, or KL-Cov's coefficient, = start exp(gain e + \
                   I), e = ln H* - ln H (smoothed), I = sum of gain e / integral_steps",
        source: "docs/concepts/entropy.md",
        setting: "objective.covariance.target_entropy",
        cost: FREE,
    },
    About {
        name: "Top-entropy mask",
        kind: Kind::Weight,
        equation: "no policy term below the (1 - fraction) quantile of H in the minibatch",
        source: "arXiv:2506.01939",
        setting: "objective.entropy_mask_fraction",
        cost: FREE,
    },
    About {
        name: "Entropy bonus",
        kind: Kind::Term,
        equation: "- coefficient H",
        source: "arXiv:1602.01783",
        setting: "objective.entropy_bonus.coefficient",
        cost: "no response is skipped in the update",
    },
    About {
        name: "Adaptive entropy bonus",
        kind: Kind::Controller,
        equation: "coefficient += rate (H* - H) after each update, or +- delta after each step",
        source: "arXiv:2505.22312, section 3.2.5 (delta)",
        setting: "objective.entropy_bonus.target",
        cost: "no response is skipped in the update",
    },
    About {
        name: "KL to the reference",
        kind: Kind::Term,
        equation: "+ coefficient kl(log pi - log pi_ref)",
        source: "arXiv:2402.03300",
        setting: "objective.reference_kl.coefficient",
        cost: "a second model in memory, one forward pass a step",
    },
    About {
        name: "On-policy distillation",
        kind: Kind::Advantage,
        equation: "A + coefficient (log pi_teacher - log pi_old)",
        source: "arXiv:2306.13649; thinkingmachines.ai/blog/on-policy-distillation",
        setting: "objective.distillation.teacher",
        cost: "the teacher in memory, its forward pass a step, and no response is skipped in the \
               update",
    },
    About {
        name: "Exact reverse KL to the teacher",
        kind: Kind::Term,
        equation: "+ coefficient sum_v pi(v) (log pi(v) - log pi_teacher(v)), in place of the \
                   teacher's part of the advantage",
        source: "arXiv:2306.13649, section 3",
        setting: "objective.distillation.divergence = \"reverse-kl\"",
        cost: "the teacher's forward pass in each update, with its head twice, and its logits \
               beside the policy's",
    },
    About {
        name: "On-policy self-distillation",
        kind: Kind::Advantage,
        equation: "A + coefficient (log pi_self(. | teacher_prompt) - log pi_old), pi_self the \
                   model that training starts from, or the one that sampled",
        source: "arXiv:2601.18734; github.com/siyan-zhao/OPSD, `use_tinker_loss`",
        setting: "objective.distillation.self_teacher",
        cost: "one forward pass a step over the teacher's prompts and the responses, \"base\" the \
               reference in memory, and no response is skipped in the update",
    },
];

/// Every loss, advantage, method, term and controller, in this order.
pub fn catalogue() -> Vec<About> {
    let losses = Loss::ALL.map(Loss::about).into_iter();
    let advantages = Estimator::ALL.map(Estimator::about);
    losses.chain(advantages).chain(Methods::abouts()).chain(OTHERS).collect()
}
