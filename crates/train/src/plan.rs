//! Where the memory goes, before any of it is taken.

use crate::error::{Error, Result};
use crate::learner::PassLimits;
use crate::settings::MemorySettings;
use isentrope_kernels::PAGE;
use isentrope_model::{Keep, Layout};
use isentrope_rollout::Limits;
use std::fmt;

/// Tokens in one pass beyond which nothing gets faster.
const ENOUGH_TOKENS: usize = 2048;
/// Responses decoded at a time beyond which nothing gets faster.
const ENOUGH_SEQUENCES: usize = 1024;
/// Logits that the sampler holds at a time, at most.
const LOGITS_BYTES: usize = 128 << 20;
/// What the program itself takes: tokenizer, data, code.
const OVERHEAD: usize = 64 << 20;

/// What a run will do, as far as its memory is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Longest prompt and response that are sampled, together, in tokens.
    pub longest_sampled: usize,
    /// Responses sampled at a time; 0 where nothing is.
    pub sampled: usize,
    /// Longest sequence that is trained on, in tokens.
    pub longest_trained: usize,
    /// Sequences of one update.
    pub trained: usize,
    /// Whether a second, frozen model is kept.
    pub reference: bool,
}

/// Bytes by purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Weights of the model and of the reference, where there is one.
    pub weights: usize,
    /// The gradient.
    pub gradient: usize,
    /// AdamW's moments.
    pub moments: usize,
    /// Keys and values while sampling.
    pub cache: usize,
    /// Logits while sampling.
    pub logits: usize,
    /// What forward passes keep for the backward passes, at most.
    pub tape: usize,
    /// One pass's working memory.
    pub working: usize,
    /// Tokens in one pass.
    pub micro_batch_tokens: usize,
    /// What the run may take in all.
    pub budget: usize,
    sampled: usize,
}

impl Plan {
    /// Divides the budget.
    ///
    /// # Errors
    /// [`Error::Run`] with the knobs that would make it fit.
    pub fn new(layout: &Layout, demand: Demand, settings: &MemorySettings, available: usize) -> Result<Self> {
        let budget = match settings.budget_gib {
            Some(gib) => (gib * (1u64 << 30) as f64) as usize,
            None => available / 10 * 9,
        };
        let set = layout.parameter_bytes();
        let weights = if demand.reference { 2 * set } else { set };
        let fixed = OVERHEAD + weights + set + 2 * set;
        let logits = (demand.sampled.min(ENOUGH_SEQUENCES) * layout.logits_bytes()).min(LOGITS_BYTES);
        let pages = demand.longest_sampled.div_ceil(PAGE) + 1;
        let cache_of_one = pages * layout.cache_page_bytes();
        let working_per_token = layout.working_bytes_per_token();
        let least_tape = layout.tape_bytes_per_token(Keep::BlockInputs);

        // What is the least that works: one response at a time, one sequence in a pass.
        let least_pass = demand.longest_trained * (working_per_token + least_tape);
        let least_sampling = if demand.sampled > 0 { cache_of_one + logits } else { 0 };
        let (one, longest) =
            (least_pass, demand.longest_trained).max((least_sampling, demand.longest_sampled));
        let least = fixed + one;
        if least > budget {
            let reference = demand.reference;
            return Err(Error::Run(does_not_fit(least, budget, weights, set, (one, longest), reference)));
        }
        let free = budget - fixed;
        let cache = demand.sampled.saturating_mul(cache_of_one).min(free - logits.min(free));
        let trained = demand.trained.saturating_mul(demand.longest_trained);
        let micro_batch_tokens = settings.micro_batch_tokens.unwrap_or_else(|| {
            let fitting = free / 2 / (working_per_token + least_tape);
            fitting.clamp(demand.longest_trained.min(ENOUGH_TOKENS), ENOUGH_TOKENS)
        });
        let pass = micro_batch_tokens.max(demand.longest_trained).min(trained);
        let working = pass * working_per_token;
        let tape = (free.saturating_sub(working))
            .min(trained.saturating_mul(layout.tape_bytes_per_token(Keep::Activations)));
        Ok(Self {
            weights,
            gradient: set,
            moments: 2 * set,
            cache: if demand.sampled > 0 { cache } else { 0 },
            logits: if demand.sampled > 0 { logits } else { 0 },
            tape,
            working,
            micro_batch_tokens,
            budget,
            sampled: demand.sampled,
        })
    }

    /// The most that is taken at a time: sampling and updates take turns.
    pub fn peak(&self) -> usize {
        let fixed = OVERHEAD + self.weights + self.gradient + self.moments;
        fixed + (self.cache + self.logits).max(self.tape + self.working)
    }

    /// Whether what one phase has freed must go back to the system before the next.
    pub fn is_tight(&self) -> bool {
        self.peak() + (self.cache + self.logits).min(self.tape + self.working) > self.budget
    }

    /// Limits of sampling.
    pub fn sampling(&self) -> Limits {
        Limits {
            cache_bytes: self.cache,
            sequences: self.sampled.clamp(1, ENOUGH_SEQUENCES),
            ..Limits::default()
        }
    }

    /// Limits of training passes.
    pub fn passes(&self) -> PassLimits {
        PassLimits { micro_batch_tokens: self.micro_batch_tokens, tape_bytes: self.tape }
    }
}

/// `one` is what a single sequence takes, and its tokens.
fn does_not_fit(
    least: usize,
    budget: usize,
    weights: usize,
    set: usize,
    one: (usize, usize),
    reference: bool,
) -> String {
    let reference = if reference { ", or objective.reference_kl.coefficient = 0" } else { "" };
    format!(
        "the run needs at least {} of memory and has {}: weights {}, gradient {}, moments {}, and {} for one sequence \
         of {} tokens; a smaller model, a smaller rollout.max_tokens and data.max_prompt_tokens{reference} would \
         make it fit",
        human(least),
        human(budget),
        human(weights),
        human(set),
        human(2 * set),
        human(one.0),
        one.1
    )
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory: weights {}, gradient {}, moments {}; ",
            human(self.weights),
            human(self.gradient),
            human(self.moments)
        )?;
        if self.sampled > 0 {
            write!(f, "sampling: keys and values {}, logits {}; ", human(self.cache), human(self.logits))?;
        }
        write!(
            f,
            "updates: activations up to {}, {} in passes of {} tokens; peak {} of {}",
            human(self.tape),
            human(self.working),
            self.micro_batch_tokens,
            human(self.peak()),
            human(self.budget)
        )
    }
}

/// A number of bytes for people.
pub fn human(bytes: usize) -> String {
    let bytes = bytes as f64;
    let (kib, mib, gib) = (1024.0, 1024.0 * 1024.0, 1024.0 * 1024.0 * 1024.0);
    match bytes {
        b if b < mib => format!("{:.0} KiB", b / kib),
        b if b < 10.0 * gib => format!("{:.0} MiB", b / mib),
        b => format!("{:.1} GiB", b / gib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_model::ModelConfig;
    use std::path::Path;

    #[test]
    fn the_longest_evaluated_response_has_room_too() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models/qwen3");
        let layout = Layout::new(&ModelConfig::read(&dir).unwrap());
        let demand =
            Demand { longest_sampled: 100, sampled: 1, longest_trained: 100, trained: 1, reference: false };
        let plan = |demand, bytes: usize| {
            let settings =
                MemorySettings { budget_gib: Some(bytes as f64 / (1u64 << 30) as f64), ..Default::default() };
            Plan::new(&layout, demand, &settings, 0)
        };
        let long = Demand { longest_sampled: 100_000, ..demand };
        let cache = (100_000usize.div_ceil(PAGE) + 1) * layout.cache_page_bytes();
        let (short, roomy) = (plan(demand, 1 << 30).unwrap(), plan(long, 1 << 30).unwrap());
        assert_eq!(roomy.cache, cache);
        assert_eq!((roomy.tape, roomy.working), (short.tape, short.working), "training is as it was");
        let refused = plan(long, OVERHEAD + cache).unwrap_err().to_string();
        assert!(refused.contains("one sequence of 100000 tokens"), "{refused}");
        plan(demand, OVERHEAD + cache).unwrap();
    }
}
