//! Settings that are allowed but hardly meant.

use crate::{
    Aggregation, Archer, Estimator, FractionOfInitial, KlEstimator, Loss, Method,
    ObjectiveSettings, Pick, RepoR, TargetEntropy,
};
use std::fmt::Display;

const NO_ADVANTAGES: &str = "the teacher has a term of the loss, and all advantages are 0";

/// A fraction of tokens from here on looks like a percentage.
const SUSPICIOUS_FRACTION: f64 = 0.05;
/// A clip range from here on is too wide for GSPO, whose published ranges are 3e-4 and 4e-4.
const SUSPICIOUS_GSPO_RANGE: f64 = 0.05;

impl ObjectiveSettings {
    /// Sentences about settings that are without effect or probably mistaken, given the number of
    /// optimizer updates per rollout, and whether a rollout may hold responses that were carried
    /// over from an earlier one.
    pub fn warnings(&self, updates_per_rollout: usize, carries_over: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let on_policy = updates_per_rollout == 1 && !carries_over;
        warnings.extend(self.unread());
        self.warn_of_covariance(updates_per_rollout, carries_over, &mut warnings);
        warnings.extend(self.methods.warnings(self.loss.clips(), on_policy));
        if self.loss.weighs_responses_alike() && self.aggregation != Aggregation::SeqMeanTokenMean {
            warnings.push(format!(
                "{} is defined with objective.aggregation = \"seq-mean-token-mean\": other \
                 aggregations weigh responses by their length.",
                self.loss.about().setting
            ));
        }
        if self.loss == Loss::Gspo && self.clip_low.max(self.clip_high) >= SUSPICIOUS_GSPO_RANGE {
            warnings.push(format!(
                "objective.clip_low = {} and objective.clip_high = {} hardly ever clip with \
                 objective.loss = \"gspo\", whose ratios are means over a response: the paper's \
                 values are 0.0003 and 0.0004.",
                self.clip_low, self.clip_high
            ));
        }
        if matches!(self.loss, Loss::Clip | Loss::Gspo | Loss::Gmpo)
            && self.clip_low.max(self.clip_high) == 0.0
            && updates_per_rollout > 1
        {
            warnings.push(format!(
                "objective.clip_low = 0 and objective.clip_high = 0 take the gradient of every \
                 token that has moved as its advantage has it: of {updates_per_rollout} updates \
                 per rollout next to the first alone learns."
            ));
        }
        if self.needs_reference() && self.reference_kl.estimator == KlEstimator::K1 {
            warnings.push(
                "objective.reference_kl.estimator = \"k1\" penalises nothing: its gradient does \
                 not depend on how far the policy has gone, and over responses that the policy has \
                 drawn it comes to 0 in the mean. \"k2\" has the gradient of the divergence, and \
                 \"k3\" is GRPO's."
                    .into(),
            );
        }
        if self.loss == Loss::PolicyGradient && !on_policy {
            let (why, remedy) = if updates_per_rollout > 1 {
                (format!("there are {updates_per_rollout} updates per rollout"), "use one")
            } else {
                (
                    "the filter carries samples over from one rollout to the next".into(),
                    "switch it off",
                )
            };
            warnings.push(format!(
                "objective.loss = \"policy-gradient\" does not correct for samples growing old, \
                 and {why}: {remedy}, or use the loss \"clip\"."
            ));
        }
        warnings
    }

    fn warn_of_covariance(
        &self,
        updates_per_rollout: usize,
        carries_over: bool,
        warnings: &mut Vec<String>,
    ) {
        let covariance = &self.covariance;
        if let Some(fraction) = covariance.fraction
            && covariance.method != Method::None
            && fraction >= SUSPICIOUS_FRACTION
        {
            warnings.push(format!(
                "objective.covariance.fraction = {fraction} picks {} % of all tokens. It is a \
                 fraction, not a percentage: the paper's values are 0.0002 for clip-cov, and 0.002 \
                 (7B) or 0.0002 (32B) for kl-cov.",
                100.0 * fraction
            ));
        }
        if covariance.scope_responses == Some(1)
            && covariance.method != Method::None
            && covariance.pick != Pick::Random
            && self.advantage != Estimator::Prime
            && (!self.has_teacher() || self.has_reverse_kl())
        {
            warnings.push(
                "objective.covariance.scope_responses = 1: all tokens of a response have one \
                 advantage, so that within it every covariance is 0: kl-cov picks any tokens then, \
                 or none of a side, and clip-cov none."
                    .into(),
            );
        }
        if covariance.method == Method::KlCov && self.has_no_advantages() {
            let keys =
                [("pick", covariance.pick.is_side()), ("by_advantage", covariance.by_advantage)];
            warnings.extend(keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| {
                format!("objective.covariance.{key} leaves kl-cov without effect: {NO_ADVANTAGES}.")
            }));
        }
        if let Some(TargetEntropy::OfInitial(FractionOfInitial { fraction_of_initial: fraction })) =
            covariance.target_entropy
            && fraction > 1.0
            && covariance.method == Method::KlCov
        {
            warnings.push(format!(
                "objective.covariance.target_entropy.fraction_of_initial = {fraction} is above 1: \
                 KL-Cov can hold entropy, not raise it. objective.covariance.method = \"clip-cov\" \
                 may."
            ));
        }
        if covariance.method == Method::KlCov && covariance.kl == KlEstimator::K1 {
            warnings.push(
                "objective.covariance.kl = \"k1\" does not hold the picked tokens where they were: \
                 its gradient is the same wherever they have gone, so it makes them less likely in \
                 every update. It has broken training (docs/paper/results.md). \"abs\" is the \
                 published code's; \"k2\" and \"k3\" pull tokens back too."
                    .into(),
            );
        }
        if covariance.method == Method::KlCov
            && covariance.kl.is_flat_at_zero()
            && updates_per_rollout == 1
        {
            let but = if carries_over {
                ", but for responses carried over from an earlier one"
            } else {
                ""
            };
            warnings.push(format!(
                "objective.covariance.method = \"kl-cov\" has no effect with one update per \
                 rollout{but}: its penalty has no gradient while the policy is the one that \
                 sampled. Use several updates per rollout, or \"clip-cov\"."
            ));
        }
    }

    /// Sentences about keys that are set to something, and that nothing reads.
    fn unread(&self) -> impl Iterator<Item = String> {
        let Self { covariance, entropy_bonus, reference_kl, distillation, loss, methods, .. } =
            self;
        let its = Self::default();
        let method = covariance.method;
        let low = changed("covariance.low", covariance.low, its.covariance.low);
        let high = changed("covariance.high", covariance.high, its.covariance.high);
        let coefficient = covariance.coefficient;
        let coefficient =
            changed("covariance.coefficient", coefficient, its.covariance.coefficient);
        let kl = other("covariance.kl", covariance.kl != its.covariance.kl);
        let controller = covariance.controller != its.covariance.controller;
        let estimator = reference_kl.estimator != its.reference_kl.estimator;
        let its_share = its.distillation.coefficient;
        let teaching = changed("distillation.coefficient", distillation.coefficient, its_share);
        let its_repo_r = RepoR::default();
        let repo_r = methods.repo_r.as_ref().unwrap_or(&its_repo_r);
        let its_share_of_kl = Archer::default().high_entropy_kl;
        let share_of_kl =
            methods.archer.as_ref().map_or(its_share_of_kl, |archer| archer.high_entropy_kl);
        let has_prompt = distillation.teacher_prompt.is_some();
        let is_exact = distillation.divergence != its.distillation.divergence;
        let clip = vec![
            changed("clip_low", self.clip_low, its.clip_low),
            changed("clip_high", self.clip_high, its.clip_high),
        ];
        // Whether settings are read, why not, and which of them are set.
        [
            (loss.clips(), "objective.loss is one without clipping", clip.clone()),
            (
                !loss.clips() || methods.bapo.is_none(),
                "objective.methods.bapo sets the bounds",
                clip,
            ),
            (
                self.advantage == Estimator::Qae,
                "only objective.advantage = \"qae\" uses it",
                vec![other("qae", self.qae != its.qae)],
            ),
            (
                methods.bapo.is_none(),
                "objective.methods.bapo sets the bounds",
                vec![other("methods.flexible_clip", methods.flexible_clip.is_some())],
            ),
            (
                *loss == Loss::Sapo,
                "only objective.loss = \"sapo\" uses it",
                vec![other("sapo", self.sapo != its.sapo)],
            ),
            (
                *loss == Loss::Dppo,
                "only objective.loss = \"dppo\" uses it",
                vec![other("dppo", self.dppo != its.dppo)],
            ),
            (
                *loss == Loss::Vespo,
                "only objective.loss = \"vespo\" uses it",
                vec![other("vespo", self.vespo != its.vespo)],
            ),
            (
                *loss == Loss::CeGppo,
                "only objective.loss = \"ce-gppo\" uses it",
                vec![other("ce_gppo", self.ce_gppo != its.ce_gppo)],
            ),
            (
                *loss == Loss::Clip,
                "only objective.loss = \"clip\" uses it",
                vec![set("dual_clip", self.dual_clip)],
            ),
            (
                method != Method::None,
                "objective.covariance.method is \"none\"",
                vec![
                    set("covariance.fraction", covariance.fraction),
                    set("covariance.scope_responses", covariance.scope_responses),
                ],
            ),
            (
                method == Method::ClipCov,
                "only objective.covariance.method = \"clip-cov\" uses it",
                vec![low, high],
            ),
            (
                method == Method::KlCov,
                "only objective.covariance.method = \"kl-cov\" uses it",
                vec![
                    coefficient,
                    kl,
                    other("covariance.by_advantage", covariance.by_advantage),
                    other("covariance.pick", covariance.pick != Pick::Largest),
                ],
            ),
            (
                self.repo_target().is_some(),
                "objective.methods.repo_r.target_entropy is not set",
                vec![
                    changed("methods.repo_r.zeta_min", repo_r.zeta_min, its_repo_r.zeta_min),
                    changed("methods.repo_r.zeta_max", repo_r.zeta_max, its_repo_r.zeta_max),
                ],
            ),
            (
                covariance.target_entropy.is_some(),
                "objective.covariance.target_entropy is not set",
                vec![other("covariance.controller", controller)],
            ),
            (
                entropy_bonus.target.is_some(),
                "objective.entropy_bonus.target is not set",
                vec![changed("entropy_bonus.max", entropy_bonus.max, its.entropy_bonus.max)],
            ),
            (
                self.needs_reference(),
                "objective.reference_kl.coefficient is 0",
                vec![
                    other("reference_kl.estimator", estimator),
                    changed("methods.archer.high_entropy_kl", share_of_kl, its_share_of_kl),
                ],
            ),
            (
                self.has_teacher(),
                "objective.distillation.teacher is not set, and self_teacher neither",
                vec![
                    teaching,
                    other("distillation.teacher_prompt", has_prompt),
                    other("distillation.divergence", is_exact),
                ],
            ),
            (
                !self.has_no_advantages(),
                NO_ADVANTAGES,
                vec![other("covariance.method", method == Method::ClipCov)],
            ),
        ]
        .into_iter()
        .filter(|(is_read, ..)| !is_read)
        .flat_map(|(_, why, keys)| keys.into_iter().flatten().map(move |key| (key, why)))
        .map(|(key, why)| format!("objective.{key} has no effect: {why}."))
    }
}

/// A key that is set, as messages say it.
fn set(key: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("{key} = {value}"))
}

/// A key that is set to something else than its default.
fn changed(key: &str, value: f64, default: f64) -> Option<String> {
    set(key, (value != default).then_some(value))
}

/// A warning that does not name the value, where that says little.
fn other(key: &str, is_other: bool) -> Option<String> {
    is_other.then(|| key.to_owned())
}
