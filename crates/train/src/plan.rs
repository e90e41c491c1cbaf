//! Where the memory goes, before any of it is taken.

mod parameter_sets;

pub use parameter_sets::ParameterSets;

use crate::error::{Error, Result};
use crate::passes::PassLimits;
use crate::settings::MemorySettings;
use isentrope_kernels::Backend;
use isentrope_model::{Keep, Layout, SHARING_TOKENS};
use isentrope_rollout::Limits;
use std::fmt;

/// Tokens in one pass beyond which nothing gets faster.
const ENOUGH_TOKENS: usize = 2048;
/// Responses decoded at a time beyond which nothing gets faster.
const ENOUGH_SEQUENCES: usize = 1024;
/// What a loss over a whole minibatch holds per token: log-probs, entropies and log-masses from sampling and from training, in
/// single and in double precision, ratios, covariances, what is picked by them, derivatives.
const LOSS_BYTES: usize = 240;
/// What a process model's scores hold per token of a rollout's responses: texts, log-probs, log-ratios before and after an
/// update, the parts of the advantage.
const PROCESS_BYTES: usize = 100;
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
    /// How many of these must have gone forward before the loss can be computed. 0 where that can do without: all responses are
    /// on-policy, or the loss's derivatives are constants.
    pub forward_first: usize,
    /// Tokens of one update whose loss is computed together; 0 where its derivatives are constants.
    pub loss_tokens: usize,
    /// Tokens whose activations an update could take from sampling, at most: the most that the activation cache is of use for.
    pub activation_slots: usize,
    /// Bytes of the tokens that truncated sampling keeps, remembered until they have been learnt from, at most; 0 where it keeps
    /// all, or nothing bounds them.
    pub kept_tokens: usize,
    /// Longest sequence that is scored where nothing is trained, in tokens; 0 where none is.
    pub scored: usize,
    /// Weights, gradients and moments that are held all along.
    pub sets: ParameterSets,
    /// Response tokens of a rollout that a process model scores; 0 where none is trained.
    pub process_tokens: usize,
}

/// Bytes by purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Weights of the model, and of the reference and the process model, where there are such.
    pub weights: usize,
    /// The gradients of what is trained, and the sums of shards that wait to be added: while there are updates.
    pub gradient: usize,
    /// AdamW's moments of what is trained.
    pub moments: usize,
    /// What truncated sampling has kept, at most.
    pub kept_tokens: usize,
    /// Keys and values while sampling.
    pub kv_cache: usize,
    /// Logits while sampling.
    pub logits: usize,
    /// Tapes: what forward passes keep for the backward passes, at most.
    pub tape: usize,
    /// Activations kept from sampling for the backward passes, at most.
    pub activation_cache: usize,
    /// What else an update takes: a pass's working memory, the head's logits, the loss, the embedding's gradient.
    pub working: usize,
    /// What a pass takes that scores what is not trained on.
    pub scoring: usize,
    /// Tokens in one pass.
    pub micro_batch_tokens: usize,
    /// What the run may take in all.
    pub budget: usize,
    sampled: usize,
    activation_slots: usize,
}

impl Plan {
    /// Divides the budget of a run on a device.
    ///
    /// # Errors
    /// [`Error::Run`] with the knobs that would make it fit; [`Setting`](isentrope_evaluation::Error::Setting) when
    /// `memory.micro_batch_tokens` is what does not.
    pub fn new<B: Backend>(
        backend: &B,
        layout: &Layout,
        demand: Demand,
        settings: &MemorySettings,
        available: usize,
    ) -> Result<Self> {
        let budget = budget(settings, available);
        let sets = demand.sets.bytes(backend, layout);
        let [weights, gradient, moments] = sets;
        let fixed = [weights, moments, demand.kept_tokens].into_iter().fold(OVERHEAD, usize::saturating_add);
        let logits = layout.draw_bytes(backend, demand.sampled.min(ENOUGH_SEQUENCES));
        let pages = demand.longest_sampled.div_ceil(B::PAGE) + 1;
        let kv_cache_of_one = pages.saturating_mul(layout.cache_page_bytes(backend));
        let trained = demand.trained.saturating_mul(demand.longest_trained);
        // What an update takes whatever its passes are; and what it takes in passes of so many tokens.
        let whole = demand
            .loss_tokens
            .saturating_mul(LOSS_BYTES)
            .saturating_add(demand.process_tokens.saturating_mul(PROCESS_BYTES))
            .saturating_add(layout.embedded_bytes(backend, trained).saturating_mul(demand.sets.trained()));
        let working = |pass: usize| layout.working_bytes(backend, pass).saturating_add(whole);
        let least_tape = layout.tape_bytes_per_token(backend, Keep::BlockInputs);
        let least_of = |pass: usize| working(pass).saturating_add(pass.saturating_mul(least_tape));

        // The least that works: one response sampled at a time, one sequence in a pass, or those that share a prompt.
        let least_tokens = demand.longest_trained.max(SHARING_TOKENS.min(trained));
        let least_pass = gradient.saturating_add(least_of(least_tokens));
        let least_sampling = if demand.sampled > 0 { kv_cache_of_one.saturating_add(logits) } else { 0 };
        let scoring =
            |tokens: usize| if demand.scored > 0 { layout.working_bytes(backend, tokens) } else { 0 };
        let least_scored = demand.scored.max(SHARING_TOKENS);
        let one = (least_pass, least_tokens, Phase::Update)
            .max((least_sampling, demand.longest_sampled, Phase::Sampling))
            .max((scoring(least_scored), least_scored, Phase::Scoring));
        let least = fixed.saturating_add(one.0);
        if least > budget {
            return Err(Error::Run(does_not_fit(least, budget, sets, one, demand)));
        }
        // Sampling and scoring have what the gradient leaves when there is no update.
        let free = budget - fixed;
        let of_updates = free.saturating_sub(gradient);
        let kv_cache = demand.sampled.saturating_mul(kv_cache_of_one).min(free - logits.min(free));
        let micro_batch_tokens = settings.micro_batch_tokens.unwrap_or_else(|| {
            let room = (of_updates / 2)
                .saturating_sub(layout.head_bytes(backend, ENOUGH_TOKENS))
                .saturating_sub(whole);
            let fitting = room / (layout.working_bytes_per_token(backend) + least_tape);
            fitting.clamp(least_tokens.min(ENOUGH_TOKENS), ENOUGH_TOKENS)
        });
        let pass = micro_batch_tokens.max(least_tokens).min(trained);
        if least_of(pass) > of_updates {
            return Err(Error::setting(
                "memory.micro_batch_tokens",
                pass_does_not_fit(pass, least_of(pass), of_updates, "weights, gradient and moments"),
            ));
        }
        let scored = micro_batch_tokens.max(least_scored);
        let scoring = scoring(scored);
        if scoring > free {
            return Err(Error::setting(
                "memory.micro_batch_tokens",
                pass_does_not_fit(scored, scoring, free, "weights and moments"),
            ));
        }
        let working = working(pass);
        let kept = demand.forward_first.saturating_mul(demand.longest_trained).max(pass);
        let tape = (of_updates.saturating_sub(working))
            .min(kept.saturating_mul(layout.tape_bytes_per_token(backend, Keep::Activations)));
        // Only what is left: all of the above saves more time than a forward pass.
        let left = free - (kv_cache + logits).max(gradient + tape + working).max(scoring).min(free);
        let slot = layout.activation_bytes_per_slot(backend);
        let activation_slots = demand.activation_slots.min(left / slot);
        Ok(Self {
            weights,
            gradient,
            moments,
            kept_tokens: demand.kept_tokens,
            kv_cache: if demand.sampled > 0 { kv_cache } else { 0 },
            logits: if demand.sampled > 0 { logits } else { 0 },
            tape,
            activation_cache: activation_slots * slot,
            working,
            scoring,
            micro_batch_tokens,
            budget,
            sampled: demand.sampled,
            activation_slots,
        })
    }

    /// Whether weights, gradient and moments alone would fit: what can be known of a model before there are data.
    ///
    /// # Errors
    /// [`Error::Run`] when they do not.
    pub fn check_model<B: Backend>(
        backend: &B,
        layout: &Layout,
        has: ParameterSets,
        settings: &MemorySettings,
        available: usize,
    ) -> Result<()> {
        let budget = budget(settings, available);
        let sets = has.bytes(backend, layout);
        let needed = sets.into_iter().fold(OVERHEAD, usize::saturating_add);
        if needed <= budget {
            return Ok(());
        }
        Err(Error::Run(format!(
            "the run needs at least {} of memory, for the model alone, and has {}: {}; a smaller model would fit{}",
            human(needed),
            human(budget),
            listed(sets),
            has.remedies().iter().map(|remedy| format!(", or {remedy} if the rest does")).collect::<String>(),
        )))
    }

    /// The most that is taken at a time: sampling, updates and scoring take turns.
    pub fn peak(&self) -> usize {
        let update = self.gradient + self.tape + self.working;
        self.always() + (self.kv_cache + self.logits).max(update).max(self.scoring)
    }

    /// What is taken all along.
    fn always(&self) -> usize {
        OVERHEAD + self.weights + self.moments + self.kept_tokens + self.activation_cache
    }

    /// Whether what one phase has freed must go back to the system before the next, the gradient with it. Where it need not, the
    /// gradient stays, and what two phases have taken waits to be used again.
    pub fn is_tight(&self) -> bool {
        let mut phases = [self.kv_cache + self.logits, self.tape + self.working, self.scoring];
        phases.sort_unstable();
        let waiting = phases[1].saturating_add(phases[2]);
        (self.always() + self.gradient).saturating_add(waiting) > self.budget
    }

    /// Limits of sampling.
    pub fn sampling(&self) -> Limits {
        Limits {
            cache_bytes: self.kv_cache,
            sequences: self.sampled.clamp(1, ENOUGH_SEQUENCES),
            ..Limits::default()
        }
    }

    /// Limits of training passes.
    pub fn passes(&self) -> PassLimits {
        PassLimits {
            micro_batch_tokens: self.micro_batch_tokens,
            tape_bytes: self.tape,
            activation_slots: self.activation_slots,
        }
    }
}

/// Bytes that a run may take in all.
fn budget(settings: &MemorySettings, available: usize) -> usize {
    match settings.budget_gib {
        Some(gib) => (gib * (1u64 << 30) as f64) as usize,
        None => available / 10 * 9,
    }
}

fn listed([weights, gradient, moments]: [usize; 3]) -> String {
    format!("weights {}, gradient {}, moments {}", human(weights), human(gradient), human(moments))
}

/// What is wrong with a micro-batch of so many tokens, which takes `needed` bytes of the `free` ones `beside` others.
fn pass_does_not_fit(tokens: usize, needed: usize, free: usize, beside: &str) -> String {
    format!(
        "is too large: a pass of {tokens} tokens needs {} beside {beside}, and {} are left; lower it, or leave it out to have it \
         chosen",
        human(needed),
        human(free)
    )
}

/// What takes turns with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Update,
    Sampling,
    Scoring,
}

/// `one` has the bytes and the tokens of the least that can be worked on, and when that is.
fn does_not_fit(
    least: usize,
    budget: usize,
    [weights, gradient, moments]: [usize; 3],
    (one, tokens, phase): (usize, usize, Phase),
    demand: Demand,
) -> String {
    let (kept, top_k) = match demand.kept_tokens {
        0 => (String::new(), ""),
        bytes => (format!(", tokens kept by top-k {}", human(bytes)), ", a smaller rollout.top_k"),
    };
    let states = if phase == Phase::Scoring { ", or lab.track_states = false" } else { "" };
    // The gradient is there while there are updates.
    let (sets, one) = match phase {
        Phase::Update => (listed([weights, gradient, moments]), one - gradient.min(one)),
        Phase::Sampling | Phase::Scoring => {
            (format!("weights {}, moments {}", human(weights), human(moments)), one)
        }
    };
    let fewer: String = demand.sets.remedies().iter().map(|remedy| format!(", or {remedy}")).collect();
    format!(
        "the run needs at least {} of memory and has {}: {}{kept}, and {} to work on {} tokens at a time; a smaller model, a \
         smaller rollout.max_tokens and data.max_prompt_tokens{top_k}{fewer}{states} would make it fit",
        human(least),
        human(budget),
        sets,
        human(one),
        tokens
    )
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory: weights {}, moments {}; ", human(self.weights), human(self.moments))?;
        if self.kept_tokens > 0 {
            write!(f, "tokens kept by truncated sampling up to {}; ", human(self.kept_tokens))?;
        }
        if self.sampled > 0 {
            write!(f, "sampling: keys and values {}, logits {}", human(self.kv_cache), human(self.logits))?;
            if self.activation_cache > 0 {
                write!(f, ", activations kept for the update up to {}", human(self.activation_cache))?;
            }
            write!(f, "; ")?;
        }
        if self.scoring > 0 {
            write!(f, "scoring of the initial states: {}; ", human(self.scoring))?;
        }
        write!(
            f,
            "updates: gradient {}, activations up to {}, {} in passes of {} tokens; peak {} of {}",
            human(self.gradient),
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
mod tests;
