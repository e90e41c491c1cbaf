//! A minibatch's loss and its derivatives.

use crate::policy_loss;
use crate::selection::{Covariances, Selection};
use crate::statistics::share;
use crate::treatment::{Tokens, Treatment};
use crate::{DrawKey, Method, ObjectiveSettings, Statistics, Strength};
use std::borrow::Cow;

/// One optimizer minibatch: responses end to end, only tokens that count. Log-probs and entropies
/// are in nats.
#[derive(Clone, Copy, Debug)]
pub struct Minibatch<'a> {
    /// Tokens of each response, `[responses]`.
    pub lengths: &'a [usize],
    /// log pi of each token under the policy in training, `[tokens]`.
    pub logprobs: &'a [f64],
    /// log pi of each token under the policy that sampled it, `[tokens]`.
    pub old_logprobs: &'a [f64],
    /// The tokens that truncated sampling kept, if it was truncated.
    pub truncation: Option<Truncation<'a>>,
    /// Entropy of the whole policy in training in each token's place, `[tokens]`.
    pub entropies: &'a [f64],
    /// Entropy of the whole policy that sampled in each token's place, `[tokens]`.
    pub old_entropies: &'a [f64],
    /// Advantage of each token, `[tokens]`.
    pub advantages: &'a [f64],
    /// The inputs besides the responses.
    pub terms: LossTerms<'a>,
}

/// The inputs of a loss that are not the responses' own: they change from update to update.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossTerms<'a> {
    /// log pi of each token under the reference model, `[tokens]`; needed if
    /// [`ObjectiveSettings::needs_reference`], and not read otherwise.
    pub reference_logprobs: Option<&'a [f64]>,
    /// Slope of the entropy in each token's place along the gradient of the token's log-prob,
    /// before the step's first update, in nats, `[tokens]`; needed if
    /// [`ObjectiveSettings::needs_entropy_slopes`], and not read otherwise.
    pub entropy_slopes: Option<&'a [f64]>,
    /// Weight of the entropy bonus in this update.
    pub entropy_coefficient: f64,
    /// How strongly the covariance method acts, where a controller steers it; else as the settings
    /// say.
    pub steered: Option<Strength>,
    /// Coordinates of Clip-Cov's random draws.
    pub key: DrawKey,
    /// The run's state, for methods that read it.
    pub run: RunState,
}

/// The numbers of a run that methods read besides the minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunState {
    /// Sum over the run's updates before this one of [`Entropic::error`](crate::Entropic::error),
    /// in nats; read by that method only.
    pub entropy_error: f64,
    /// Share of the run's steps before this one, from 0 to 1; read by
    /// [`FlexibleClip`](crate::FlexibleClip) only.
    pub progress: f64,
    /// The answer of [`FlexibleClip::raises_entropy`](crate::FlexibleClip::raises_entropy) for this
    /// step.
    pub raises_entropy: bool,
    /// The zeta of this step, where [`RepoR`](crate::RepoR) has a target.
    pub repo_zeta: Option<f64>,
}

/// The set K of tokens that top-k, top-p and min-p kept of the distribution that each token was
/// drawn from. The policy at the time of sampling has chosen K, which is held fixed since.
///
/// The policy that acts is then pi(a | K) = pi(a) / pi(K), and so it is the policy that learns: its
/// ratio to the one that has sampled is that of the truncated distributions, exp((log pi - log
/// pi(K)) - (log old - log old(K))), which is 1 as long as the weights are the same. ("Keep
/// sampling mask", DeepSeek-V3.2, arXiv:2512.02556, section 3.1.)
#[derive(Clone, Copy, Debug)]
pub struct Truncation<'a> {
    /// log pi(K) under the policy in training, `[tokens]`.
    pub log_masses: &'a [f64],
    /// log pi(K) under the policy that sampled, `[tokens]`.
    pub old_log_masses: &'a [f64],
}

/// A minibatch's loss, and its derivatives for the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// The loss.
    pub loss: f64,
    /// Derivative of the loss by each token's log-prob, `[tokens]`.
    pub d_logprobs: Vec<f64>,
    /// Derivative of the loss by each token's entropy, `[tokens]`.
    pub d_entropies: Vec<f64>,
    /// Derivative of the loss by each token's log pi(K), `[tokens]`; none where nothing was
    /// truncated.
    pub d_log_masses: Vec<f64>,
    /// Derivative of the loss by the reverse KL to the teacher in each token's place, `[tokens]`;
    /// none where that is no term. The loss knows of the term by
    /// [`add_divergences`](Self::add_divergences).
    pub d_divergences: Vec<f64>,
    /// Covariance of each token's log-prob and advantage, centred over the minibatch, in nats,
    /// `[tokens]`.
    pub covariances: Vec<f64>,
    /// Mean log-prob of the tokens, in nats, which covariances are centred with; not a number
    /// without tokens.
    pub mean_logprob: f64,
    /// Mean advantage of the tokens, likewise.
    pub mean_advantage: f64,
    /// Mean entropy of the tokens, in nats, likewise.
    pub mean_entropy: f64,
    /// The tokens that the covariance method picked, ascending.
    pub selected: Vec<usize>,
    /// The tokens whose ratio was clipped, ascending.
    pub clipped: Vec<usize>,
    /// Measurements.
    pub statistics: Statistics,
}

/// The loss of a minibatch, its derivatives and statistics. Which tokens are picked by covariance
/// or entropy, what methods make of tokens, and what a loss holds constant (CISPO's weight), does
/// not contribute to the derivatives.
///
/// # Panics
/// When the arrays' lengths disagree, or the reference model's log-probs or the slopes of the
/// entropy are needed and missing.
pub fn objective(settings: &ObjectiveSettings, batch: &Minibatch) -> Objective {
    let tokens = batch.lengths.iter().sum::<usize>();
    let reference = settings.needs_reference().then(|| {
        batch.terms.reference_logprobs.expect("the KL term needs the reference model's log-probs")
    });
    let slopes = settings
        .needs_entropy_slopes()
        .then(|| batch.terms.entropy_slopes.expect("Clip_V needs the slopes of the entropy"));
    let arrays = [
        batch.logprobs,
        batch.old_logprobs,
        batch.entropies,
        batch.old_entropies,
        batch.advantages,
    ];
    let masses =
        batch.truncation.map(|truncation| [truncation.log_masses, truncation.old_log_masses]);
    for array in
        arrays.into_iter().chain(reference).chain(slopes).chain(masses.into_iter().flatten())
    {
        assert_eq!(array.len(), tokens, "every array has one number per token");
    }
    // Log-probs of the policy now and when it sampled: among the kept tokens, if sampling was
    // truncated.
    let [truncated, old] = match masses {
        None => [Cow::from(batch.logprobs), Cow::from(batch.old_logprobs)],
        Some([new, old]) => {
            [difference(batch.logprobs, new).into(), difference(batch.old_logprobs, old).into()]
        }
    };
    let log_ratios = difference(&truncated, &old);
    let view = Tokens {
        lengths: batch.lengths,
        logprobs: batch.logprobs,
        acting_logprobs: &truncated,
        log_ratios: &log_ratios,
        entropies: batch.entropies,
        old_entropies: batch.old_entropies,
        entropy_slopes: slopes.unwrap_or_default(),
        run: batch.terms.run,
    };
    let mut treatment = Treatment::plain(settings, &view, batch.advantages);
    let plain_terms = policy_loss::terms(settings, &view, &treatment);
    let mut measured = settings.methods.apply(&view, &mut treatment);
    let has_methods = !measured.is_empty();
    measured.append(&mut treatment.measured);
    let terms = if has_methods {
        policy_loss::terms(settings, &view, &treatment)
    } else {
        plain_terms.clone()
    };
    let silenced: Vec<bool> = terms
        .iter()
        .zip(&treatment.weights)
        .map(|(term, &weight)| weight == 0.0 || term.is_silenced())
        .collect();

    let scores = Covariances::of(batch.logprobs, batch.advantages);
    let Strength { fraction, coefficient } =
        batch.terms.steered.unwrap_or_else(|| settings.covariance.strength());
    let selection = Selection::of(&settings.covariance, fraction, batch, &scores, &silenced);

    let entropy_coefficient = batch.terms.entropy_coefficient;
    let mut statistics =
        Statistics { tokens, entropy_coefficient, methods: measured, ..Default::default() };
    statistics.measure_ratios(&log_ratios, &terms);
    statistics.measure_covariances(&scores, &selection);

    let mut reference_sum = 0.0;
    // The covariance method's part of the gradient, and the part of all other terms.
    let (mut moved, mut rest) = (0.0, 0.0);
    // The gradient without methods, and their change of it.
    let (mut plain, mut changed) = (0.0, 0.0);
    let mut is_selected = vec![false; tokens];
    for &t in &selection.tokens {
        is_selected[t] = true;
    }
    let weights = settings.aggregation.weights(batch.lengths);
    let mut loss = 0.0;
    let mut d_logprobs = Vec::with_capacity(tokens);
    let mut d_log_masses = Vec::with_capacity(if masses.is_some() { tokens } else { 0 });
    for t in 0..tokens {
        let (weight, term) = (weights[t], terms[t]);
        let is_detached = is_selected[t] && settings.covariance.method == Method::ClipCov;
        let (mut value, mut slope) =
            if is_detached { (0.0, 0.0) } else { (term.value, term.slope) };
        plain += weight * plain_terms[t].slope.abs();
        changed += weight * (term.slope - plain_terms[t].slope).abs();
        // The part by the truncated policy's log-prob.
        let mut acting_slope = slope;
        if let Some(reference) = reference {
            let kl = &settings.reference_kl;
            let (estimate, derivative) =
                kl.estimator.value_and_slope(batch.logprobs[t] - reference[t]);
            let coefficient = kl.coefficient * treatment.reference_weights[t];
            value += coefficient * estimate;
            slope += coefficient * derivative;
            changed += weight * ((coefficient - kl.coefficient) * derivative).abs();
            reference_sum += estimate;
        }
        rest += weight * slope.abs();
        if is_detached {
            moved += weight * term.slope.abs();
        } else if is_selected[t] {
            let (estimate, derivative) = settings.covariance.kl.value_and_slope(log_ratios[t]);
            let scale =
                if settings.covariance.by_advantage { batch.advantages[t].abs() } else { 1.0 };
            let coefficient = scale * coefficient;
            value += coefficient * estimate;
            slope += coefficient * derivative;
            acting_slope += coefficient * derivative;
            moved += weight * (coefficient * derivative).abs();
        }
        loss += weight * (value - entropy_coefficient * batch.entropies[t]);
        d_logprobs.push(weight * slope);
        if masses.is_some() {
            d_log_masses.push(-weight * acting_slope);
        }
    }
    statistics.loss = loss;
    statistics.cov_gradient_share = share(moved, rest);
    statistics.method_gradient_share = has_methods.then(|| share(changed, plain));
    statistics.kl_reference = reference.map(|_| reference_sum / tokens.max(1) as f64);
    let share = settings.distillation.coefficient;
    let taught = weights.iter().filter(|_| settings.has_reverse_kl());
    let d_divergences = taught.map(|weight| share * weight).collect();
    let d_entropies = weights.iter().map(|weight| -entropy_coefficient * weight).collect();
    let Covariances { values: covariances, mean_logprob, mean_advantage, .. } = scores;
    Objective {
        loss,
        d_logprobs,
        d_entropies,
        d_log_masses,
        d_divergences,
        covariances,
        mean_logprob,
        mean_advantage,
        mean_entropy: batch.entropies.iter().sum::<f64>() / tokens as f64,
        selected: selection.tokens,
        clipped: (0..tokens).filter(|&t| terms[t].clipped.is_some()).collect(),
        statistics,
    }
}

impl Objective {
    /// Adds the term of the exact reverse KL to the loss. `divergences` has the KL in each token's
    /// place under the policy in training, in nats, `[tokens]`. The passes that go backward compute
    /// it, so it is known behind the derivatives, which do not depend on it.
    pub fn add_divergences(&mut self, divergences: &[f64]) {
        assert_eq!(divergences.len(), self.d_divergences.len(), "one divergence per token");
        let of_tokens = self.d_divergences.iter().zip(divergences);
        let term: f64 = of_tokens.map(|(slope, divergence)| slope * divergence).sum();
        self.loss += term;
        self.statistics.loss += term;
        let count = divergences.len().max(1) as f64;
        self.statistics.kl_teacher = Some(divergences.iter().sum::<f64>() / count);
    }
}

/// Token by token.
fn difference(from: &[f64], what: &[f64]) -> Vec<f64> {
    from.iter().zip(what).map(|(from, what)| from - what).collect()
}
