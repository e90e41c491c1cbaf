//! The objective of reinforcement learning: two derivatives per token for the network, three if
//! sampling was truncated.
//!
//! Rewards become advantages ([`advantages`]); then, for every optimizer minibatch, [`objective`]
//! takes per-token log-probs, entropies and advantages and returns the loss, its derivatives by
//! each token's log-prob and entropy (and by the log-mass of what truncated sampling has kept), and
//! [`Statistics`]. Everything is a pure function of its arguments in f64, knows no network, and
//! sums in a fixed order, so that the same numbers in give the same bits out.
//!
//! The loss of a minibatch is
//!
//! ```text
//! sum_t w_t ( m_t policy_t + beta kl(log pi_t - log old_t) [t selected by KL-Cov]
//!             + reference_kl.coefficient kl(log pi_t - log ref_t) - entropy_coefficient H_t )
//! ```
//!
//! with the weights w of the [`Aggregation`], the policy term of the [`Loss`], and weights m_t,
//! which are 0 for tokens that Clip-Cov detaches or the entropy mask leaves out, and 1 else.
//!
//! Other entropy methods act before the loss is computed. Each reads the tokens' log-probs, ratios
//! and entropies, and changes some of five numbers of a token, its `Treatment`: the advantage, the
//! weight m_t, the clip range, the weight of its KL term to the reference, and a term to add. So a
//! method is a function of the whole minibatch in one file, `methods/NAME.rs`, and combines with
//! every loss. Ratio clipping, covariance terms, the entropy bonus, the KL term, the entropy mask
//! and methods are independent of one another and combine freely. [`catalogue()`] lists them all.
//!
//! If sampling was truncated by top-k, top-p or min-p, the policy and the covariance term are of
//! the truncated policy, see [`Truncation`]; the entropy, the KL to the reference and the
//! covariances are always of the whole one.
//!
//! Formulas follow the functions of the trainer verl to the small constants in its denominators;
//! where the reference code and a paper differ, the item's documentation says so.
//!
//! Read the code in this order: `settings`, `advantage`, `objective`, then what it calls:
//! `treatment` and `methods`, `policy_loss`, `covariance` and `selection`, `kl`, `entropy_mask`,
//! `aggregation`, `statistics`;
//! then what holds an entropy from step to step, `target_entropy`, `controller` with `descent`, and
//! `entropy_bonus`; `prime` and `process_model`, a second model that gives tokens rewards, and
//! `distillation`, a teacher that gives them advantages; last
//! `warnings`, `alarms` and `saturation`.

mod advantage;
mod aggregation;
mod alarms;
mod catalogue;
mod controller;
mod covariance;
mod descent;
mod distillation;
mod entropy_bonus;
mod entropy_mask;
mod error;
mod kl;
mod methods;
mod objective;
mod policy_loss;
mod prime;
mod process_model;
mod qae;
mod saturation;
mod selection;
mod settings;
mod statistics;
mod target_entropy;
mod treatment;
mod warnings;

pub use advantage::{Baseline, Estimator, Outcome, advantages};
pub use aggregation::Aggregation;
pub use alarms::Alarms;
pub use catalogue::{About, Kind, catalogue};
pub use controller::{Controller, ControllerSettings, Steer};
pub use covariance::{Covariance, Method, Pick, Strength};
pub use distillation::{Distillation, SelfTeacher, TeacherDivergence};
pub use entropy_bonus::EntropyBonus;
pub use kl::{KlEstimator, ReferenceKl};
pub use methods::{
    Archer, Bapo, ClipB, ClipSchedule, ClipV, Entropic, EntropyAdvantage, Erc, FlexibleClip,
    Methods, RepoR, SteerWeights, WReinforce,
};
pub use objective::{LossTerms, Minibatch, Objective, RunState, Truncation, objective};
pub use policy_loss::{CeGppo, Divergence, Dppo, Loss, Sapo, Vespo};
pub use prime::{Prime, PrimeAdvantages, ProcessScale, prime_advantages};
pub use process_model::{Discernment, ProcessLoss, ScoredResponse, process_loss};
pub use qae::Qae;
pub use saturation::{ControlledStep, Saturation};
pub use selection::DrawKey;
pub use settings::ObjectiveSettings;
pub use statistics::{QUADRANTS, Statistics, larger};
pub use target_entropy::{FractionOfInitial, Schedule, TargetEntropy};
