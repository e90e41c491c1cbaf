//! A softmax policy with a logit for each action in each state.

/// A policy over the same number of actions in every state.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Actions in a state.
    pub actions: usize,
    /// How often each state is met, adding up to 1, `[states]`.
    pub visits: Vec<f64>,
    /// `[states, actions]`.
    pub logits: Vec<f64>,
}

impl Policy {
    /// Natural logarithms of the probabilities, `[states, actions]`.
    pub fn logprobs(&self) -> Vec<f64> {
        let mut logprobs = Vec::with_capacity(self.logits.len());
        for logits in self.logits.chunks(self.actions) {
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|z| libm::exp(z - largest)).sum();
            let log_sum = largest + libm::log(sum);
            logprobs.extend(logits.iter().map(|z| z - log_sum));
        }
        logprobs
    }

    /// Probabilities, `[states, actions]`.
    pub fn probabilities(&self) -> Vec<f64> {
        self.logprobs().into_iter().map(libm::exp).collect()
    }

    /// Entropy in nats, mean over the states as often as they are visited.
    pub fn entropy(&self) -> f64 {
        -self.mean(&self.logprobs())
    }

    /// How the entropy changes when the logits move by `step` times a direction, `[states,
    /// actions]`. Of a small change as many digits are right as of a large one: it is no difference
    /// of two entropies, but a mean over the actions of `-((p'/p - 1) ln p + (p'/p) ln (p'/p))`,
    /// where `ln (p'/p) = dz - ln(1 + mean (e^dz - 1))`.
    pub fn entropy_change(&self, step: f64, direction: &[f64]) -> f64 {
        let logprobs = self.logprobs();
        self.mean_over_states(|_, probabilities, range| {
            let (logprobs, direction) = (&logprobs[range.clone()], &direction[range]);
            let mean_growth: f64 =
                probabilities.iter().zip(direction).map(|(p, d)| p * libm::expm1(step * d)).sum();
            let of_action = |(p, (logprob, d)): (&f64, (&f64, &f64))| {
                let change = step * d - libm::log1p(mean_growth);
                let growth = libm::expm1(change);
                -p * (growth * logprob + (1.0 + growth) * change)
            };
            probabilities.iter().zip(logprobs.iter().zip(direction)).map(of_action).sum()
        })
    }

    /// The policy whose logits have moved by `step` times a direction, `[states, actions]`.
    #[must_use]
    pub fn moved(&self, step: f64, direction: &[f64]) -> Self {
        let logits = self.logits.iter().zip(direction).map(|(z, d)| z + step * d).collect();
        Self { logits, ..self.clone() }
    }

    /// Mean of a quantity of states and actions, over the actions by the policy and over states by
    /// their visits.
    pub fn mean(&self, of: &[f64]) -> f64 {
        self.mean_over_states(|_, probabilities, range| {
            probabilities.iter().zip(&of[range]).map(|(p, x)| p * x).sum()
        })
    }

    /// Covariance of two quantities over the actions as the policy takes them, in each state, then
    /// the mean over states.
    pub fn covariance(&self, x: &[f64], y: &[f64]) -> f64 {
        self.mean_over_states(|_, probabilities, range| {
            let (x, y) = (&x[range.clone()], &y[range]);
            let mean =
                |of: &[f64]| -> f64 { probabilities.iter().zip(of).map(|(p, v)| p * v).sum() };
            let (mx, my) = (mean(x), mean(y));
            probabilities
                .iter()
                .zip(x.iter().zip(y))
                .map(|(p, (x, y))| p * (x - mx) * (y - my))
                .sum()
        })
    }

    /// Mean over states, by their visits, of a function of the state's number, its probabilities
    /// and their range among all.
    pub fn mean_over_states(
        &self,
        of: impl Fn(usize, &[f64], std::ops::Range<usize>) -> f64,
    ) -> f64 {
        let probabilities = self.probabilities();
        let states = self.visits.iter().enumerate();
        states
            .map(|(state, visits)| {
                let range = state * self.actions..(state + 1) * self.actions;
                visits * of(state, &probabilities[range.clone()], range)
            })
            .sum()
    }
}
