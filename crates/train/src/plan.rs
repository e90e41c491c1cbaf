//! Where the memory goes, before any of it is taken.

use crate::error::{Error, Result};
use crate::learner::PassLimits;
use crate::settings::MemorySettings;
use isentrope_kernels::PAGE;
use isentrope_model::{Keep, Layout, SHARING_TOKENS};
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
    /// Those of them that must all have gone forward before the loss is known; 0 where log-probs or the loss's derivatives are
    /// known beforehand.
    pub forward_first: usize,
    /// Tokens whose activations an update could take from sampling, at most.
    pub recorded: usize,
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
    /// What sampling keeps for the backward passes, at most.
    pub recording: usize,
    /// One pass's working memory.
    pub working: usize,
    /// Tokens in one pass.
    pub micro_batch_tokens: usize,
    /// What the run may take in all.
    pub budget: usize,
    sampled: usize,
    recorded_tokens: usize,
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

        // What is the least that works: one response at a time, and in a pass one sequence, or those that share a prompt.
        let trained = demand.trained.saturating_mul(demand.longest_trained);
        let least_tokens = demand.longest_trained.max(SHARING_TOKENS.min(trained));
        let least_pass = least_tokens * (working_per_token + least_tape);
        let least_sampling = if demand.sampled > 0 { cache_of_one + logits } else { 0 };
        let (one, longest) = (least_pass, least_tokens).max((least_sampling, demand.longest_sampled));
        let least = fixed + one;
        if least > budget {
            let reference = demand.reference;
            return Err(Error::Run(does_not_fit(least, budget, weights, set, (one, longest), reference)));
        }
        let free = budget - fixed;
        let cache = demand.sampled.saturating_mul(cache_of_one).min(free - logits.min(free));
        let micro_batch_tokens = settings.micro_batch_tokens.unwrap_or_else(|| {
            let fitting = free / 2 / (working_per_token + least_tape);
            fitting.clamp(least_tokens.min(ENOUGH_TOKENS), ENOUGH_TOKENS)
        });
        let pass = micro_batch_tokens.max(least_tokens).min(trained);
        let working = pass * working_per_token;
        let kept = demand.forward_first.saturating_mul(demand.longest_trained).max(pass);
        let tape = (free.saturating_sub(working))
            .min(kept.saturating_mul(layout.tape_bytes_per_token(Keep::Activations)));
        // What is left: a forward pass saved is worth less than any of the above.
        let left = free - (cache + logits).max(tape + working).min(free);
        let recorded_tokens = demand.recorded.min(left / layout.recording_bytes_per_slot());
        Ok(Self {
            weights,
            gradient: set,
            moments: 2 * set,
            cache: if demand.sampled > 0 { cache } else { 0 },
            logits: if demand.sampled > 0 { logits } else { 0 },
            tape,
            recording: recorded_tokens * layout.recording_bytes_per_slot(),
            working,
            micro_batch_tokens,
            budget,
            sampled: demand.sampled,
            recorded_tokens,
        })
    }

    /// The most that is taken at a time: sampling and updates take turns.
    pub fn peak(&self) -> usize {
        let fixed = OVERHEAD + self.weights + self.gradient + self.moments + self.recording;
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
        PassLimits {
            micro_batch_tokens: self.micro_batch_tokens,
            tape_bytes: self.tape,
            recorded_tokens: self.recorded_tokens,
        }
    }
}

/// `one` is what the least that can be worked on takes, and its tokens.
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
        "the run needs at least {} of memory and has {}: weights {}, gradient {}, moments {}, and {} to work on {} \
         tokens at a time; a smaller model, a smaller rollout.max_tokens and data.max_prompt_tokens{reference} would \
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
            write!(f, "sampling: keys and values {}, logits {}", human(self.cache), human(self.logits))?;
            if self.recording > 0 {
                write!(f, ", activations kept for the update up to {}", human(self.recording))?;
            }
            write!(f, "; ")?;
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
        let demand = Demand {
            longest_sampled: 100,
            sampled: 1,
            longest_trained: 100,
            trained: 1,
            forward_first: 1,
            recorded: 0,
            reference: false,
        };
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
        assert!(refused.contains("work on 100000 tokens"), "{refused}");
        plan(demand, OVERHEAD + cache).unwrap();
    }

    #[test]
    fn activations_are_kept_from_sampling_where_all_else_has_its_place() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models/qwen3");
        let layout = Layout::new(&ModelConfig::read(&dir).unwrap());
        let plan_of = |forward_first, recorded, bytes: usize| {
            let demand = Demand {
                longest_sampled: 100,
                sampled: 8,
                longest_trained: 100,
                trained: 800,
                forward_first,
                recorded,
                reference: false,
            };
            let settings =
                MemorySettings { budget_gib: Some(bytes as f64 / (1u64 << 30) as f64), ..Default::default() };
            Plan::new(&layout, demand, &settings, 0).unwrap()
        };
        let plan = |recorded, bytes| plan_of(800, recorded, bytes);
        let (without, slot) = (plan(0, 1 << 30), layout.recording_bytes_per_slot());
        assert!(!without.to_string().contains("kept for the update"), "{without}");
        let peak = without.peak();
        for (spare, recorded) in
            [(0, 0), (slot - 1, 0), (10 * slot, 10), (800 * slot, 800), (900 * slot, 800)]
        {
            let plan = plan(800, peak + spare);
            assert_eq!((plan.passes().recorded_tokens, plan.recording), (recorded, recorded * slot));
            assert_eq!(plan.peak(), peak + plan.recording);
            let others = |plan: &Plan| (plan.cache, plan.logits, plan.tape, plan.working);
            assert_eq!(others(&plan), others(&without), "nothing else gives way");
        }
        let told = plan(800, 1 << 30).to_string();
        assert!(told.contains("activations kept for the update up to"), "{told}");

        // Where no pass waits for another, what is kept for the others is free for this.
        let one_pass =
            |passes: &Plan| passes.micro_batch_tokens * layout.tape_bytes_per_token(Keep::Activations);
        assert!(without.tape > one_pass(&without));
        let alone = plan_of(0, 800, peak);
        assert!(alone.tape <= one_pass(&alone) && alone.recording > 0, "{alone}");
    }
}
