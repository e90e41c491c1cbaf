//! The recipe's `[objective]` table.

use crate::error::{Result, refuse, require};
use crate::{
    Aggregation, Baseline, CeGppo, Covariance, Distillation, Dppo, EntropyBonus, Estimator, Loss,
    Methods, Qae, ReferenceKl, Sapo, TargetEntropy, TeacherDivergence, Vespo,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objective of the policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectiveSettings {
    /// How the reward r of a response becomes the advantage of its tokens.
    pub advantage: Estimator,
    /// Settings of the advantage "qae".
    pub qae: Qae,
    /// The policy-gradient loss of a token with advantage A. rho = pi / pi_old is its probability
    /// ratio, and clip(rho) the ratio kept within 1 - clip_low and 1 + clip_high.
    pub loss: Loss,
    /// Lower clipping distance: probability ratios are clipped at 1 - clip_low. 0.2 is PPO's
    /// (arXiv:1707.06347); 1 or more switches this side off. GSPO needs far smaller values (3e-4).
    #[schemars(range(min = 0.0))]
    pub clip_low: f64,
    /// Upper clipping distance: probability ratios are clipped at 1 + clip_high. 0.2 is PPO's;
    /// clip-higher (arXiv:2503.14476) takes 0.28, the published Clip-Cov runs 1. GSPO needs far
    /// smaller values (4e-4).
    #[schemars(range(min = 0.0))]
    pub clip_high: f64,
    /// Bounds the loss of a token with negative advantage A by -A times this number, above 1
    /// (arXiv:1912.09729; 3 is usual). Unset: off. Only the loss `clip` uses it.
    pub dual_clip: Option<f64>,
    /// Settings of the loss "sapo".
    pub sapo: Sapo,
    /// Settings of the loss "dppo".
    pub dppo: Dppo,
    /// Settings of the loss "ce-gppo".
    pub ce_gppo: CeGppo,
    /// Settings of the loss "vespo".
    pub vespo: Vespo,
    /// How the losses of tokens become the loss of a minibatch.
    pub aggregation: Aggregation,
    /// Keeps entropy by restraining tokens whose log-prob and advantage covary most
    /// (arXiv:2505.22617, section 4): Cov_t = (log pi_t - mean log pi) (A_t - mean A).
    pub covariance: Covariance,
    /// Rewards entropy itself: a term -coefficient * H per token in the loss, H the exact entropy
    /// in nats.
    pub entropy_bonus: EntropyBonus,
    /// Penalises distance from the reference model, the one that training started from.
    pub reference_kl: ReferenceKl,
    /// On-policy distillation: a teacher, which is a second model or the policy shown more, scores
    /// the responses, and each token has an advantage or a term of the loss by it, beside
    /// `advantage` or, with `advantage = "distill"`, alone (docs/guides/train.md).
    pub distillation: Distillation,
    /// Weight of the load-balancing loss of a mixture of experts, which keeps its routers from
    /// sending all tokens to a few experts: N sum(f_i P_i) over N experts (arXiv:2101.03961), over
    /// all tokens of the minibatch's responses. 0: off. 0.001 in Qwen3-MoE's configuration, 0.01 in
    /// OLMoE's.
    #[schemars(range(min = 0.0))]
    pub router_aux_coefficient: f64,
    /// Only this fraction of the minibatch's tokens keeps its policy-gradient term, highest entropy
    /// first; 0.2 in arXiv:2506.01939; above 0, at most 1. Averages still divide by all tokens, and
    /// KL and entropy terms act on all. Unset: all tokens keep it.
    pub entropy_mask_fraction: Option<f64>,
    /// Entropy methods that change the advantages, weights or clip ranges of tokens; `isentrope
    /// objectives` lists them.
    pub methods: Methods,
}

impl Default for ObjectiveSettings {
    fn default() -> Self {
        Self {
            advantage: Estimator::default(),
            qae: Qae::default(),
            loss: Loss::default(),
            clip_low: 0.2,
            clip_high: 0.2,
            dual_clip: None,
            sapo: Sapo::default(),
            dppo: Dppo::default(),
            ce_gppo: CeGppo::default(),
            vespo: Vespo::default(),
            aggregation: Aggregation::default(),
            covariance: Covariance::default(),
            entropy_bonus: EntropyBonus::default(),
            reference_kl: ReferenceKl::default(),
            distillation: Distillation::default(),
            router_aux_coefficient: 0.0,
            entropy_mask_fraction: None,
            methods: Methods::default(),
        }
    }
}

impl ObjectiveSettings {
    /// Checks every setting.
    pub fn check(&self) -> Result<()> {
        isentrope_settings::check("objective", self)?;
        if let Some(bound) = self.dual_clip {
            require(
                bound.is_finite() && bound > 1.0,
                "objective.dual_clip",
                bound,
                "it must be above 1 (3 is usual); leave the key out to switch it off",
            )?;
        }
        if let Some(fraction) = self.entropy_mask_fraction {
            require(
                fraction > 0.0 && fraction <= 1.0,
                "objective.entropy_mask_fraction",
                fraction,
                "it must be a fraction above 0 and at most 1 (20 % is 0.2); leave the key out to \
                 keep all tokens",
            )?;
        }
        if self.advantage == Estimator::Distill && !self.has_teacher() {
            return refuse(
                "objective.advantage",
                "\"distill\"",
                "it learns from a teacher and not from rewards: name one in \
                 objective.distillation.teacher, or objective.distillation.self_teacher",
            );
        }
        self.distillation.check()?;
        self.methods.check()?;
        self.covariance.check()?;
        self.entropy_bonus.check()?;
        if let (Some(target), Some(_)) =
            (&self.covariance.target_entropy, &self.entropy_bonus.target)
        {
            return refuse(
                "objective.covariance.target_entropy",
                target,
                "objective.entropy_bonus.target is set too, and two controllers would work against \
                 each other; leave one of them out",
            );
        }
        let of_repo_r = self.repo_target();
        let entropic = self.methods.entropic.as_ref().map(|_| "objective.methods.entropic");
        let of_methods = [entropic, of_repo_r.map(|_| "objective.methods.repo_r.target_entropy")];
        let targets = [
            ("objective.covariance.target_entropy", self.covariance.target_entropy.as_ref()),
            ("objective.entropy_bonus.target", self.entropy_bonus.target.as_ref()),
            ("objective.methods.repo_r.target_entropy", of_repo_r),
        ];
        for (key, target) in targets {
            let other = of_methods.into_iter().flatten().find(|other| *other != key);
            if let (Some(target), Some(other)) = (target, other) {
                let expected = format!(
                    "{other} holds an entropy too, and two controllers would work against each \
                     other; leave one of them out"
                );
                return refuse(key, target, &expected);
            }
        }
        Ok(())
    }

    /// The entropy that REPO-R holds, if it holds one.
    pub fn repo_target(&self) -> Option<&TargetEntropy> {
        self.methods.repo_r.as_ref()?.target_entropy.as_ref()
    }

    /// Whether log-probs of the reference model are needed.
    pub fn needs_reference(&self) -> bool {
        self.reference_kl.coefficient != 0.0
    }

    /// Whether slopes of the entropy before the step's first update are needed.
    pub fn needs_entropy_slopes(&self) -> bool {
        self.methods.clip_v.is_some()
    }

    /// Whether a teacher scores the responses.
    pub fn has_teacher(&self) -> bool {
        self.distillation.teacher.is_some() || self.distillation.self_teacher.is_some()
    }

    /// Whether the exact reverse KL to a teacher is a term of the loss.
    pub fn has_reverse_kl(&self) -> bool {
        self.has_teacher() && self.distillation.divergence == TeacherDivergence::ReverseKl
    }

    /// Whether all advantages are 0, since a teacher alone teaches, by a term of the loss.
    pub(crate) fn has_no_advantages(&self) -> bool {
        self.advantage == Estimator::Distill && self.has_reverse_kl()
    }

    /// Whether advantages come from a process model too, which is trained beside the policy.
    pub fn is_prime(&self) -> bool {
        self.advantage == Estimator::Prime
    }

    /// Whether each prompt also needs the reward of its greedily decoded response.
    pub fn needs_greedy_baseline(&self) -> bool {
        self.advantage.baseline() == Baseline::Greedy
    }
}
