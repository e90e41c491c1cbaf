//! The memory plan, made before any memory is taken.

mod host;
mod least;
mod parameter_sets;
mod refusal;
mod teacher;

pub use parameter_sets::{MOMENTS, ParameterSets, Shard, moments_of_rank, waiting_sums};
pub use teacher::TeacherBytes;

use crate::error::{Error, Result};
use crate::pass_limits::PassLimits;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{Layout, TapeKind};
use isentrope_rollout::Limits;
use least::{Least, Updates, least_scored, scoring};
use refusal::{ADAPTERS, Refusal, most_budget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Tokens that a pass has if they fit, also where its activations are computed again.
const FEW_TOKENS: usize = 2048;
/// Concurrent responses beyond which decoding gets no faster per token.
const ENOUGH_SEQUENCES: usize = 1024;
/// Bytes per token of a loss over a whole minibatch: log-probs, entropies and log-masses from
/// sampling and from training, in single and in double precision, ratios, covariances, the picked
/// tokens, derivatives.
const LOSS_BYTES: usize = 240;
/// Bytes per token of a process model's scores: texts, log-probs, log-ratios before and after an
/// update, the parts of the advantage.
const PROCESS_BYTES: usize = 100;
/// Captured decode steps may use at most one part in `STEPS_PART` of the spare memory.
const STEPS_PART: usize = 8;
/// Bytes of the program itself: tokenizer, data, code; on a GPU, of short uploads.
pub const OVERHEAD: usize = 64 << 20;

/// Memory that the run may use. Nothing here changes a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemorySettings {
    /// Memory in GiB that the run may take in all. Unset: nine tenths of what is free at the start.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub budget_gib: Option<f64>,
    /// Most tokens in one pass through the model, more only where a single sequence is longer, or
    /// the responses to one prompt that share its computation are (up to 1024 tokens). Unset:
    /// chosen from the budget.
    #[schemars(range(min = 1))]
    pub micro_batch_tokens: Option<usize>,
    /// Keeps AdamW's moments, 8 bytes a weight, in the host's memory instead of a GPU's, and brings
    /// them there in pieces for each update, which takes longer. Without effect on a CPU, whose
    /// memory is the host's.
    pub offload_moments: bool,
}

/// The sizes of a run that decide its memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// Longest prompt and response that are sampled, together, in tokens.
    pub longest_sampled: usize,
    /// Concurrent responses; 0 if nothing is sampled.
    pub sampled: usize,
    /// Longest sequence that is trained on, in tokens.
    pub longest_trained: usize,
    /// Sequences of one update.
    pub trained: usize,
    /// Most tokens of an update that go forward on a rank before the loss. 0 if all responses are
    /// on-policy, or the loss's derivatives are constants.
    pub waiting_tokens: usize,
    /// Tokens of one update whose loss is computed together; 0 if its derivatives are constants.
    pub loss_tokens: usize,
    /// Most tokens whose activations an update could take from sampling. A larger activation cache
    /// would be of no use.
    pub activation_slots: usize,
    /// Most bytes for the sets of tokens that truncated sampling keeps, which are stored until the
    /// update; 0 if sampling is not truncated, or the sets have no bound.
    pub kept_tokens: usize,
    /// Longest sequence that is scored and not trained on, in tokens; 0 if there is none.
    pub scored: usize,
    /// The sets of weights, gradients and moments that the run holds.
    pub sets: ParameterSets,
    /// Response tokens of a rollout that a process model scores; 0 without a process model.
    pub process_tokens: usize,
    /// The memory of a teacher; nothing without one.
    pub teacher: TeacherBytes,
    /// Whether the loss has the exact divergence from the teacher.
    pub is_taught: bool,
}

/// Bytes by purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Weights of the model, and of the reference, the process model and the teacher if the run has
    /// them. Of a model whose weights ranks share, the rank's slice.
    pub weights: usize,
    /// That slice; 0 if ranks do not share weights.
    pub slice: usize,
    /// Weights beside that slice while no update learns; 0 if ranks do not share weights.
    pub whole: usize,
    /// The memory to load, save and change such weights, beside what is whole.
    pub changing: usize,
    /// Gradients of the trained models, and sums of shards that wait to be added; only during
    /// updates. Also the layers of weights that passes are in, if ranks share weights.
    pub gradient: usize,
    /// The part of `gradient` that is sums of shards.
    pub sums: usize,
    /// AdamW's moments of the trained models, as far as they are in the device's memory.
    pub moments: usize,
    /// Moments in the host's memory, if the device has its own memory.
    pub host_moments: usize,
    /// Most bytes of the host's memory for the inputs of blocks, which forward passes keep there
    /// for backward passes; 0 if they wait on the device.
    pub host_inputs: usize,
    /// Most bytes of the host's memory for the program, the loss, the sets of tokens that truncated
    /// sampling keeps, and a tensor that is saved; 0 if the device's memory is the host's.
    pub host_program: usize,
    /// Most bytes for the sets of tokens that truncated sampling keeps.
    pub kept_tokens: usize,
    /// Most bytes that attention and linear layers take beside their buffers, in any phase.
    pub blocks: usize,
    /// Keys and values while sampling.
    pub kv_cache: usize,
    /// Logits while sampling.
    pub logits: usize,
    /// Captured decode steps: an estimate. They are freed when anything else lacks memory.
    pub steps: usize,
    /// Most bytes for tapes, which forward passes keep for backward passes.
    pub tape: usize,
    /// Most tokens whose tapes exist at once.
    pub tape_tokens: usize,
    /// Most bytes for activations that are kept from sampling for backward passes.
    pub activation_cache: usize,
    /// The other memory of an update: a pass's buffers, the head's logits, the loss, the
    /// embedding's gradient.
    pub working: usize,
    /// The memory of a pass of the teacher, beside the gradient and before an update's passes.
    pub teacher_pass: usize,
    /// The memory of a pass that only scores.
    pub scoring: usize,
    /// Tokens in one pass.
    pub micro_batch_tokens: usize,
    /// The budget of the run.
    pub budget: usize,
    /// Whether gradients are complete layer by layer, because ranks share them.
    pub by_layer: bool,
    sampled: usize,
    activation_slots: usize,
}

impl Plan {
    /// Divides the budget of a run on a device.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the knobs that would make it fit;
    /// [`Error::Setting`] when `memory.micro_batch_tokens` is what
    /// does not.
    pub fn new(
        backend: &dyn Backend,
        layout: &Layout,
        demand: Demand,
        settings: &MemorySettings,
        available: usize,
    ) -> Result<Self> {
        if demand.sets.goes_by_layer() && !demand.sets.may_go_by_layer(layout) {
            let what =
                "wants gradients in slices, which needs a rank for each shard of an update where \
                 the head is the embedding: use as many ranks as shards, or leave it out"
                    .to_owned();
            return Err(Error::Setting { key: "ranks.shard", what });
        }
        if demand.sets.shares_weights() && !demand.sets.may_share_weights(layout) {
            let what = "is \"weights\", which is for training all weights of one model without \
                        experts: \"gradients\" is for adapters, experts and a process model too"
                .to_owned();
            return Err(Error::Setting { key: "ranks.shard", what });
        }
        let budget = budget(settings, available);
        let choices = demand.sets.choices(backend, layout).into_iter();
        let choices = choices.map(|sets| Demand { sets, ..demand });
        let choices = choices.map(|demand| (demand, Least::of(backend, layout, demand)));
        let (fitting, others): (Vec<_>, Vec<_>) =
            choices.partition(|(_, least)| least.bytes() <= budget);
        let mut made: Option<(usize, Result<Self>)> = None;
        for (demand, least) in fitting {
            // By layer all tapes must exist at once, and be made again block by block.
            let is_better =
                |(before, plan): &(usize, Result<Self>)| plan.is_err() && least.bytes() < *before;
            if made.as_ref().is_none_or(is_better) {
                let plan = Self::within(backend, layout, demand, least, settings, budget);
                made = Some((least.bytes(), plan));
            }
        }
        if let Some((_, plan)) = made {
            return plan;
        }
        let least = others.into_iter().map(|(_, least)| least).min_by_key(Least::bytes);
        let least = least.expect("there is a first choice");
        let most = most_budget(backend, available, budget);
        let refusal = Refusal { backend, layout, demand, least, budget, most };
        Err(Error::TooLarge(refusal.to_string()))
    }

    /// The plan of a demand that leaves nothing to choose, and whose least fits.
    fn within(
        backend: &dyn Backend,
        layout: &Layout,
        demand: Demand,
        least: Least,
        settings: &MemorySettings,
        budget: usize,
    ) -> Result<Self> {
        let [weights, gradient, moments] = least.sets;
        let whole = least.whole;
        let logits = layout.draw_bytes(backend, demand.sampled.min(ENOUGH_SEQUENCES));
        let updates = Updates::new(backend, layout, demand);
        let (trained, least_tokens) = (updates.tokens, updates.least_tokens);
        let least_of = |pass: usize| updates.least_of(pass);
        // Tokens of an update's pass and of a scoring pass, if `wanted` tokens are asked for.
        let passes = |wanted: usize| {
            (wanted.max(least_tokens).min(trained), wanted.max(least_scored(demand)))
        };
        // Captured decode steps may use a part of the spare memory.
        let requested = settings.micro_batch_tokens.map(passes).map_or(0, |(pass, scored)| {
            (gradient + least_of(pass)).max(whole + scoring(backend, layout, demand, scored))
        });
        let needed = least.bytes().max(least.fixed.saturating_add(requested));
        let steps = if demand.sampled > 0 { layout.steps_bytes(backend) } else { 0 };
        let steps = steps.min(budget.saturating_sub(needed) / STEPS_PART);
        // Sampling and scoring may use the gradient's memory, because no update runs meanwhile.
        let free = budget - least.fixed - steps;
        let of_updates = free.saturating_sub(gradient);
        let pages = layout.pages_of_sequence(backend, demand.longest_sampled);
        let pages = demand.sampled.saturating_mul(pages).max(layout.least_pages(backend));
        let kv_cache = pages.saturating_mul(layout.cache_page_bytes(backend));
        let of_sampling = free.saturating_sub(whole);
        let kv_cache = kv_cache.min(of_sampling.saturating_sub(logits));
        let micro_batch_tokens = settings.micro_batch_tokens.unwrap_or_else(|| {
            // Tokens, at most `enough`, that fit into `room` with this tape.
            let together = updates.together.saturating_mul(updates.least_tape);
            let fitting = |room: usize, tape: usize, enough: usize| {
                // The tapes of all passes are not this pass's alone.
                let tape = if together > 0 { updates.input(1) } else { tape };
                let room = room
                    .saturating_sub(together)
                    .saturating_sub(updates.head(enough))
                    .saturating_sub(updates.whole);
                let rows = updates.rows(1);
                let fitting = room / (layout.working_bytes_per_token(backend) + tape + rows);
                // The teacher of an exact divergence has its passes beside the update's tapes.
                let of_teacher = match demand.is_taught {
                    true => demand.teacher.most_tokens(room, tape + rows),
                    false => demand.teacher.most_tokens(of_updates, 0),
                };
                fitting.min(of_teacher).min(enough)
            };
            let few = fitting(of_updates / 2, updates.least_tape, FEW_TOKENS);
            // More only if a pass keeps all its activations: computing them again would cost more
            // than a larger pass gains.
            let all = layout.tape_bytes_per_token(backend, TapeKind::Activations);
            let more = fitting(of_updates, all, backend.enough_rows());
            few.max(least_tokens.min(FEW_TOKENS)).max(more)
        });
        let (pass, scored) = passes(micro_batch_tokens);
        let scoring = scoring(backend, layout, demand, scored);
        for (tokens, needed, free, beside) in [
            (pass, least_of(pass), of_updates, "weights, gradient and moments"),
            (scored, scoring, of_sampling, "weights and moments"),
        ] {
            if needed > free {
                let what = format!(
                    "is too large: a pass of {tokens} tokens needs {} beside {beside}, and {} are \
                     left; lower it, or leave it out to have it chosen",
                    human(needed),
                    human(free)
                );
                return Err(Error::Setting { key: "memory.micro_batch_tokens", what });
            }
        }
        let working = updates.working(pass);
        let tape_tokens = match updates.together {
            0 => demand.waiting_tokens.max(pass),
            together => together.max(pass),
        };
        let most_kind = match updates.least_kind {
            TapeKind::OffloadedBlockInputs => TapeKind::OffloadedBlockInputs,
            _ => TapeKind::Activations,
        };
        let most_tape = layout.tape_bytes_per_token(backend, most_kind);
        let tape = of_updates.saturating_sub(working).min(tape_tokens.saturating_mul(most_tape));
        // The activation cache gets the rest, because everything else saves more time than its
        // forward pass.
        let teacher_pass = demand.teacher.pass(pass);
        let update = gradient + (tape + working).max(teacher_pass);
        let left = free - (whole + (kv_cache + logits).max(scoring)).max(update).min(free);
        let slot = layout.activation_bytes_per_slot(backend);
        // The head of a cached pass would have to be there before its blocks.
        let (slice, wanted) = match demand.sets.shares_weights() {
            true => (demand.sets.slice_bytes(backend, layout), 0),
            false => (0, demand.activation_slots),
        };
        let activation_slots = wanted.min(left / slot);
        Ok(Self {
            weights,
            slice,
            whole,
            changing: least.changing,
            gradient,
            sums: demand.sets.sum_bytes(backend, layout),
            moments,
            host_moments: demand.sets.host_bytes(backend, layout),
            host_inputs: updates.offloaded(pass),
            host_program: if has_own_memory(backend) {
                on_host(demand).saturating_add(
                    layout.saving_bytes().max(layout.loading_bytes()).max(demand.teacher.loading),
                )
            } else {
                0
            },
            kept_tokens: demand.kept_tokens,
            blocks: least.of_blocks,
            kv_cache: if demand.sampled > 0 { kv_cache } else { 0 },
            logits: if demand.sampled > 0 { logits } else { 0 },
            steps,
            tape,
            tape_tokens,
            activation_cache: activation_slots * slot,
            working,
            teacher_pass,
            scoring,
            micro_batch_tokens,
            budget,
            sampled: demand.sampled,
            activation_slots,
            by_layer: demand.sets.goes_by_layer(),
        })
    }

    /// The least budget for which a plan exists, in bytes.
    pub fn least(backend: &dyn Backend, layout: &Layout, demand: Demand) -> usize {
        let least = |sets| Least::of(backend, layout, Demand { sets, ..demand }).bytes();
        let choices = demand.sets.choices(backend, layout).into_iter();
        choices.map(least).min().expect("there is a first choice")
    }

    /// Checks that weights, gradient and moments alone fit, before the data are known.
    pub fn check_model(
        backend: &dyn Backend,
        layout: &Layout,
        has: ParameterSets,
        settings: &MemorySettings,
        available: usize,
    ) -> Result<()> {
        let budget = budget(settings, available);
        let of_all = |sets: [usize; 3]| sets.into_iter().fold(OVERHEAD, usize::saturating_add);
        let choices = has.choices(backend, layout).into_iter();
        let sets = choices.map(|has| {
            let [weights, gradient, moments] = has.bytes(backend, layout);
            // Whole weights and the gradient take turns.
            let whole = has.whole_bytes(backend, layout);
            let whole = whole.saturating_add(has.changing_bytes(backend, layout));
            let more = whole.saturating_sub(gradient);
            [weights.saturating_add(more), gradient, moments]
        });
        let sets = sets.min_by_key(|sets| of_all(*sets)).expect("there is one");
        let needed = of_all(sets);
        if needed <= budget {
            return Ok(());
        }
        let with_adapter = adapted(layout, has).map(|layout| has.bytes(backend, &layout));
        let adapter = with_adapter.filter(|sets| of_all(*sets) <= budget);
        let adapter = adapter.map(|_| ADAPTERS.to_owned());
        let others = has.remedies(backend).into_iter().map(|(remedy, _)| remedy);
        // How much the rest needs is not known yet.
        let most = most_budget(backend, available, budget);
        let gib = (most as f64 / f64::from(1 << 30) * 10.0).floor() / 10.0;
        let larger = (most > budget).then(|| format!("; memory.budget_gib may be up to {gib}"));
        Err(Error::TooLarge(format!(
            "the run needs at least {} of memory, for the model alone, and has {}: {}; {}{}{}",
            human(needed),
            human(budget),
            listed(sets),
            match budget > OVERHEAD {
                true => "a smaller model would fit",
                false => "no model would fit",
            },
            adapter
                .into_iter()
                .chain(others)
                .map(|remedy| format!(", or {remedy} if the rest does"))
                .collect::<String>(),
            larger.unwrap_or_default(),
        )))
    }

    /// The peak use of memory, which texts of full length reach. In a tight plan sampling, updates
    /// and scoring take turns; else sampling keeps its memory while the others run.
    pub fn peak(&self) -> usize {
        let passes = (self.tape + self.working).max(self.teacher_pass);
        let sampling = self.kv_cache + self.logits;
        let phases = match self.is_tight() {
            true => (self.whole + sampling.max(self.scoring).max(self.changing))
                .max(self.gradient + passes),
            false => {
                let others = passes.max(self.scoring).max(self.changing);
                self.whole + sampling + self.gradient + others
            }
        };
        self.always() + phases
    }

    /// The memory that is taken in all phases.
    fn always(&self) -> usize {
        let kept = self.kept_tokens + self.activation_cache + self.steps;
        OVERHEAD + self.weights + self.moments + self.blocks + kept
    }

    /// Whether each phase must return its memory, and the gradient's, to the system before the
    /// next. If not, the gradient stays allocated, and freed memory is kept for the next use.
    pub fn is_tight(&self) -> bool {
        let (sampling, update) = (self.kv_cache + self.logits, self.tape + self.working);
        let mut phases = [sampling, update, self.scoring, self.teacher_pass, self.changing];
        phases.sort_unstable();
        let waiting = phases[3].saturating_add(phases[4]);
        (self.always() + self.whole + self.gradient).saturating_add(waiting) > self.budget
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
            by_layer: self.by_layer,
            offloads_inputs: self.host_inputs > 0,
            weights_in_slices: self.slice > 0,
        }
    }
}

/// Whether the device has memory of its own.
fn has_own_memory(backend: &dyn Backend) -> bool {
    backend.host_bytes(Role::OffloadedMoment(1)) > 0
}

/// Bytes that are in the host's memory, whatever computes. Plans count them against the device too,
/// also if it has memory of its own: the budget is one number, and the numbers that the device
/// uploads for a moment are of the same order. It errs on the safe side.
fn on_host(demand: Demand) -> usize {
    let loss = demand.loss_tokens.saturating_mul(LOSS_BYTES);
    let process = demand.process_tokens.saturating_mul(PROCESS_BYTES);
    [demand.kept_tokens, loss, process].into_iter().fold(OVERHEAD, usize::saturating_add)
}

/// Bytes that a run may take in all.
fn budget(settings: &MemorySettings, available: usize) -> usize {
    match settings.budget_gib {
        Some(gib) => (gib * (1u64 << 30) as f64) as usize,
        None => available / 10 * 9,
    }
}

fn listed([weights, gradient, moments]: [usize; 3]) -> String {
    let [program, weights, gradient, moments] = [OVERHEAD, weights, gradient, moments].map(human);
    format!("the program {program}, weights {weights}, gradient {gradient}, moments {moments}")
}

/// The layout with adapters, if all weights are trained and adapters could be.
fn adapted(layout: &Layout, sets: ParameterSets) -> Option<Layout> {
    (sets.may_adapt && layout.adapter.is_none()).then(|| layout.with_default_adapter())
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moments = match self.host_moments {
            0 => human(self.moments),
            bytes => format!("{} in the host's memory", human(bytes)),
        };
        let if_any = |before: &str, bytes: usize, after: &str| match bytes {
            0 => String::new(),
            bytes => format!("{before}{}{after}", human(bytes)),
        };
        let slice = if_any(" (of the model ", self.slice, " in slices while an update learns)");
        let weights = human(self.weights + self.whole);
        write!(f, "memory: weights {weights}{slice}, moments {moments}; ")?;
        f.write_str(&if_any("tokens kept by truncated sampling up to ", self.kept_tokens, "; "))?;
        if self.sampled > 0 {
            let (cache, logits) = (human(self.kv_cache), human(self.logits));
            write!(f, "sampling: keys and values {cache}, logits {logits}")?;
            f.write_str(&if_any(", steps that are launched as one about ", self.steps, ""))?;
            let kept = ", activations kept for the update up to ";
            f.write_str(&if_any(kept, self.activation_cache, ""))?;
            f.write_str("; ")?;
        }
        f.write_str(&if_any("scoring of the initial states: ", self.scoring, "; "))?;
        f.write_str(&if_any("scoring by the teacher: ", self.teacher_pass, "; "))?;
        write!(
            f,
            "updates: gradient{} {}{}, activations up to {}{}, {} in passes of {} tokens; peak {} \
             of {} if all texts are as long as they may be",
            match (self.by_layer, self.slice > 0) {
                (_, true) => " (the rank's slice, and a layer or two with their weights)",
                (true, _) => " (the rank's slice, and a layer or two)",
                _ => "",
            },
            human(self.gradient - self.sums),
            if_any(", sums of shards ", self.sums, ""),
            human(self.tape),
            if_any(" and ", self.host_inputs, " in the host's memory"),
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
