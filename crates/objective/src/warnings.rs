//! Settings that are allowed but hardly meant.

use crate::{
    Aggregation, ControllerSettings, Estimator, FractionOfInitial, Loss, Method, ObjectiveSettings,
    TargetEntropy,
};

/// From here on a fraction of tokens looks like a percentage.
const SUSPICIOUS_FRACTION: f64 = 0.05;
/// From here on a clip range is not one for GSPO, whose published ranges are 3e-4 and 4e-4.
const SUSPICIOUS_GSPO_RANGE: f64 = 0.05;

impl ObjectiveSettings {
    /// Sentences about settings that are without effect or probably mistaken, given the number of optimizer updates
    /// per rollout, and whether a rollout may hold responses that were carried over from an earlier one.
    pub fn warnings(&self, updates_per_rollout: usize, carries_over: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let on_policy = updates_per_rollout == 1 && !carries_over;
        self.warn_of_covariance(updates_per_rollout, carries_over, &mut warnings);
        self.warn_of_clipping(&mut warnings);
        if self.loss == Loss::Gspo && self.aggregation != Aggregation::SeqMeanTokenMean {
            warnings.push(
                "objective.loss = \"gspo\" is defined with objective.aggregation = \"seq-mean-token-mean\": other \
                 aggregations weigh responses by their length."
                    .into(),
            );
        }
        if self.loss == Loss::PolicyGradient && !on_policy {
            let (why, remedy) = if updates_per_rollout > 1 {
                (format!("there are {updates_per_rollout} updates per rollout"), "use one")
            } else {
                ("the filter carries samples over from one rollout to the next".into(), "switch it off")
            };
            warnings.push(format!(
                "objective.loss = \"policy-gradient\" does not correct for samples growing old, and {why}: {remedy}, or use the \
                 loss \"clip\"."
            ));
        }
        warnings
    }

    fn warn_of_covariance(&self, updates_per_rollout: usize, carries_over: bool, warnings: &mut Vec<String>) {
        let covariance = &self.covariance;
        match covariance.fraction {
            Some(fraction) if covariance.method == Method::None => warnings.push(format!(
                "objective.covariance.fraction = {fraction} has no effect: objective.covariance.method is \"none\"."
            )),
            Some(fraction) if fraction >= SUSPICIOUS_FRACTION => warnings.push(format!(
                "objective.covariance.fraction = {fraction} picks {} % of all tokens. It is a fraction, not a \
                 percentage: the paper's values are 0.0002 for clip-cov, and 0.002 (7B) or 0.0002 (32B) for kl-cov.",
                100.0 * fraction
            )),
            _ => {}
        }
        match covariance.scope_responses {
            Some(_) if covariance.method == Method::None => warnings
                .push("objective.covariance.scope_responses has no effect: objective.covariance.method is \"none\".".into()),
            Some(1) if self.advantage != Estimator::Prime => warnings.push(
                "objective.covariance.scope_responses = 1: all tokens of a response have one advantage, so that within it every \
                 covariance is 0: kl-cov picks any tokens then, and clip-cov none."
                    .into(),
            ),
            _ => {}
        }
        if covariance.target_entropy.is_none() && covariance.controller != ControllerSettings::default() {
            warnings.push(
                "objective.covariance.controller has no effect: objective.covariance.target_entropy is not set.".into(),
            );
        }
        if let Some(TargetEntropy::OfInitial(FractionOfInitial { fraction_of_initial: fraction })) =
            covariance.target_entropy
            && fraction > 1.0
            && covariance.method == Method::KlCov
        {
            warnings.push(format!(
                "objective.covariance.target_entropy.fraction_of_initial = {fraction} is above 1: KL-Cov can hold entropy, not \
                 raise it. objective.covariance.method = \"clip-cov\" may."
            ));
        }
        if covariance.method == Method::KlCov && covariance.kl.is_flat_at_zero() && updates_per_rollout == 1 {
            let but = if carries_over { ", but for responses carried over from an earlier one," } else { "" };
            warnings.push(format!(
                "objective.covariance.method = \"kl-cov\" has no effect with one update per rollout{but}: its penalty has \
                 no gradient while the policy is the one that sampled. Use several updates per rollout, or \"clip-cov\"."
            ));
        }
    }

    fn warn_of_clipping(&self, warnings: &mut Vec<String>) {
        let defaults = ObjectiveSettings::default();
        if let Some(bound) = self.dual_clip
            && self.loss != Loss::Clip
        {
            warnings.push(format!(
                "objective.dual_clip = {bound} has no effect: only objective.loss = \"clip\" uses it."
            ));
        }
        match self.loss {
            loss if !loss.clips() => {
                for (key, value, default) in
                    [("clip_low", self.clip_low, defaults.clip_low), ("clip_high", self.clip_high, defaults.clip_high)]
                {
                    if value != default {
                        warnings.push(format!(
                            "objective.{key} = {value} has no effect: objective.loss is one without clipping."
                        ));
                    }
                }
            }
            Loss::Gspo if self.clip_low.max(self.clip_high) >= SUSPICIOUS_GSPO_RANGE => warnings.push(format!(
                "objective.clip_low = {} and objective.clip_high = {} hardly ever clip with objective.loss = \"gspo\", \
                 whose ratios are means over a response: the paper's values are 0.0003 and 0.0004.",
                self.clip_low, self.clip_high
            )),
            _ => {}
        }
    }
}
