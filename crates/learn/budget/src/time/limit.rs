//! Computes the least time of a step: counted work over the peaks of a device, by the roofline
//! model (Williams et al. 2009).
//!
//! A phase takes as long as its arithmetic does at the peak of products, or as its bytes do at the
//! peak of the memory, whichever is longer. Counted are weights, keys and values, gradients and
//! moments; activations are not, nor what caches spare. No device runs at its peaks all along, so
//! this is what can be hoped for, not what will be.

use super::{KeptShares, Speed, Workload, human};
use crate::error::Result;
use crate::memory::Plan;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{Layout, Tokens};
use std::fmt;
use std::time::{Duration, Instant};

/// Numbers to copy when memory bandwidth is measured: far more than caches hold.
const COPIED: usize = 16 << 20;

/// The peak rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Floating-point operations of products, per second.
    pub flops: f64,
    /// Bytes read or written, per second.
    pub bandwidth: f64,
}

/// The cost of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes that are read or written.
    pub bytes: f64,
}

/// The cost of a step on each rank, without its evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Prompts, once for each group.
    pub prefill: Cost,
    /// Responses, token by token.
    pub decode: Cost,
    /// Forward and backward passes.
    pub updates: Cost,
    /// AdamW.
    pub optimizer: Cost,
}

/// The least time of a step.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    cost: StepCost,
    peak: Peak,
}

impl Peak {
    /// Measures the peaks: of products as in a model's updates, and of copies in memory.
    pub fn measure(backend: &dyn Backend, speed: Speed) -> Result<Self> {
        let role = Role::Exact(1, COPIED);
        let allocate = || backend.allocate(role).map_err(isentrope_model::Error::from);
        let (mut from, mut to) = (allocate()?, allocate()?);
        // Pages that were never written are all the same page of zeros, which stays in the cache.
        backend.fill(&mut from, 0.5);
        backend.fill(&mut to, 0.5);
        let (begun, mut fastest) = (Instant::now(), f64::INFINITY);
        while fastest.is_infinite() || begun.elapsed() < super::MEASURED_FOR {
            let started = Instant::now();
            backend.copy_first_rows(&from, &mut to, 1);
            backend.read_elements(&to, 0, &mut [0.0]); // whatever the host reads is finished
            fastest = fastest.min(started.elapsed().as_secs_f64());
        }
        let bandwidth = 2.0 * backend.bytes(role) as f64 / fastest.max(1e-9);
        Ok(Self { flops: speed.updates.max(speed.sampling), bandwidth })
    }
}

impl Cost {
    /// How long it takes at least.
    pub fn at(self, peak: Peak) -> Duration {
        let seconds = (self.flops / peak.flops.max(1.0)).max(self.bytes / peak.bandwidth.max(1.0));
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The resource that limits it.
    fn bound(self, peak: Peak) -> &'static str {
        let by_memory = self.bytes / peak.bandwidth.max(1.0) > self.flops / peak.flops.max(1.0);
        if by_memory { "memory" } else { "arithmetic" }
    }
}

impl Workload {
    /// The cost of a step on each rank.
    pub fn cost(
        self,
        backend: &dyn Backend,
        layout: &Layout,
        memory: KeptShares,
        plan: &Plan,
    ) -> StepCost {
        let ranks = self.ranks.max(1) as f64;
        let flops = |of: Tokens| layout.forward_flops(of) / ranks;
        // The weights that passes over all these tokens read.
        let weights = |of: Tokens, passes: f64| {
            passes * layout.read_bytes(backend, of.tokens / ranks / passes.max(1.0))
        };
        let position = layout.cache_bytes_per_position(backend);
        // A step reads a sequence's keys and values; its recurrent state it reads and writes.
        let state = 2.0 * layout.state_bytes(backend) as f64;
        let remembered = |of: Tokens| (of.visible * position + of.tokens * state) / ranks;
        // Each pass reads the weights once, however many tokens it has.
        let limits = plan.sampling();
        let prefills = (self.prefilled.tokens / ranks / limits.prefill_tokens as f64).ceil();
        let prefill =
            Cost { flops: flops(self.prefilled), bytes: weights(self.prefilled, prefills) };
        let in_turn = self.longest.saturating_sub(1) as f64;
        let decodes = in_turn.max(self.decoded.tokens / ranks / limits.sequences as f64);
        let read = weights(self.decoded, decodes);
        let decode = Cost { flops: flops(self.decoded), bytes: read + remembered(self.decoded) };

        let passes = self.trained.tokens / ranks / plan.micro_batch_tokens.max(1) as f64;
        let [forward, backward] = self.update_passes(memory);
        let gradient = layout.trained().bytes(backend, Role::Gradient) as f64;
        let blocks = Tokens { scored: 0.0, ..self.trained };
        let updates = Cost {
            flops: forward * flops(self.trained)
                + backward * layout.backward_flops(self.trained) / ranks
                - self.spared * memory.of_sampling * flops(blocks),
            bytes: (forward + backward) * weights(self.trained, passes)
                + passes * 2.0 * backward * gradient,
        };
        // Each rank updates a part. Moments in the host's memory are not this memory's bytes.
        let moment = |kind| Role::Moment(backend.element_count(kind));
        let moments = if plan.moments > 0 {
            2.0 * layout.trained().bytes(backend, moment) as f64
        } else {
            0.0
        };
        let of_weights = layout.trained().bytes(backend, Role::Weight) as f64;
        let each = 2.0 * of_weights + gradient + 2.0 * moments;
        let optimizer = Cost { flops: 0.0, bytes: self.updates * each / ranks };
        StepCost { prefill, decode, updates, optimizer }
    }
}

impl Limit {
    /// At these peaks.
    pub fn new(cost: StepCost, peak: Peak) -> Self {
        Self { cost, peak }
    }

    /// A step without its evaluation.
    pub fn step(&self) -> Duration {
        let StepCost { prefill, decode, updates, optimizer } = self.cost;
        [prefill, decode, updates, optimizer].iter().map(|cost| cost.at(self.peak)).sum()
    }
}

/// `at least 1.2 s a step (...)`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cost: StepCost { prefill, decode, updates, optimizer }, peak } = *self;
        write!(f, "at least {} a step (", shown(self.step()))?;
        let parts = [
            ("prefill", prefill),
            ("decoding", decode),
            ("updates", updates),
            ("AdamW", optimizer),
        ];
        let taken = parts.into_iter().filter(|(_, cost)| !cost.at(peak).is_zero());
        for (number, (name, cost)) in taken.enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{name} {} by its {}", shown(cost.at(peak)), cost.bound(peak))?;
        }
        write!(f, ")")
    }
}

/// A time for people, with one digit more than an estimate if it is in seconds.
fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.001 => format!("{:.0} us", 1e6 * s),
        s if s < 0.01 => format!("{:.1} ms", 1e3 * s),
        s if (0.095..9.95).contains(&s) => format!("{s:.1} s"),
        _ => human(time),
    }
}
