//! Estimates a run's time before it starts: counted work over the measured speed of the model's own
//! products.
//!
//! An estimate, for two reasons. How long responses get is not known: they are counted as long as
//! they may be. And norms, attention and draws are slower per operation than products, on small
//! models above all.

mod limit;

pub use limit::{Cost, Limit, Peak, StepCost};

use crate::error::Result;
use isentrope_kernels::{Backend, Buffer, Kind, Linear, Role};
use isentrope_model::{Layout, Tokens};
use std::fmt;
use std::time::{Duration, Instant};

/// Bytes of weights that a measurement goes through: more than fits the caches, if the model is
/// larger than they are.
const MEASURED_BYTES: usize = 64 << 20;
/// Rows of an update's product: enough that loading the weights takes little of its time.
const UPDATE_ROWS: usize = 256;
/// Time of a measurement, unless a single pass takes longer. Tests start programs by the hundred,
/// and none needs an exact speed.
const MEASURED_FOR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2 } else { 40 });

/// The amount of computation of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workload {
    /// The number of ranks that share the work; 0 counts as one.
    pub ranks: usize,
    /// Steps of the run.
    pub steps: u64,
    /// Tokens that a step samples; none for SFT.
    pub sampled: Tokens,
    /// Prompt tokens among them.
    pub prefilled: Tokens,
    /// And the responses.
    pub decoded: Tokens,
    /// Updates of a step.
    pub updates: f64,
    /// Responses sampled at a time.
    pub sampled_at_a_time: usize,
    /// Tokens that a step's updates go through, counted once.
    pub trained: Tokens,
    /// Forward passes of updates over a trained token, and backward passes.
    pub passes: (f64, f64),
    /// Number of forward passes that are left out if all activations were kept from sampling.
    pub spared: f64,
    /// Tokens that an evaluation samples.
    pub evaluated: Tokens,
    /// Tokens that an evaluation scores without sampling.
    pub held_out: Tokens,
    /// Evaluations of the run.
    pub evaluations: u64,
    /// The longest response that is counted, in tokens.
    pub longest: usize,
    /// Whether an environment answers between turns. Neither its time nor the passes that several
    /// turns take are counted.
    pub has_turns: bool,
}

/// The shares of activations that memory can keep for backward passes.
#[derive(Clone, Copy, Debug)]
pub struct KeptShares {
    /// The part of sampling's activations.
    pub of_sampling: f64,
    /// The part of the blocks whose activations forward passes keep. The other blocks are computed
    /// again.
    pub of_passes: f64,
}

/// Speed of a device with the products of a model, in floating-point operations per second.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Seconds of a sampling step with a row for each concurrent response.
    pub sampling: f64,
    /// Seconds of a pass with the rows of an update.
    pub updates: f64,
}

/// How long a run will take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// A step without its evaluation.
    pub step: Duration,
    /// An evaluation.
    pub evaluation: Duration,
    /// The whole run.
    pub run: Duration,
    speed: Speed,
    workload: Workload,
}

impl Workload {
    /// The work with `passes` passes of a teacher over `scored` tokens in each step, and in each of
    /// them its head `heads` times more, counted by their operations as a part of the policy's
    /// forward passes.
    pub fn with_scoring_by(
        self,
        teacher: &Layout,
        policy: &Layout,
        scored: Tokens,
        [passes, heads]: [f64; 2],
    ) -> Self {
        let of_policy = policy.forward_flops(self.trained).max(1.0);
        let whole = teacher.forward_flops(scored);
        let head = whole - teacher.forward_flops(Tokens { scored: 0.0, ..scored });
        let (forward, backward) = self.passes;
        Self { passes: (forward + passes * (whole + heads * head) / of_policy, backward), ..self }
    }

    /// How often updates go forward and backward. Where the memory does not keep activations, they
    /// go forward once more.
    fn update_passes(&self, memory: KeptShares) -> [f64; 2] {
        let (forward, backward) = self.passes;
        [forward + (1.0 - memory.of_passes) * backward, backward]
    }

    /// Estimates the time of the work at this speed.
    pub fn estimate(self, layout: &Layout, memory: KeptShares, speed: Speed) -> Estimate {
        let seconds = |flops: f64, speed: f64| {
            let each = flops / self.ranks.max(1) as f64;
            Duration::try_from_secs_f64(each / speed.max(1.0)).unwrap_or(Duration::MAX)
        };
        let sampling = seconds(layout.forward_flops(self.sampled), speed.sampling);
        let [forward, backward] = self.update_passes(memory);
        let once = layout.forward_flops(self.trained);
        // A pass with kept activations still goes through the head.
        let spared = self.spared
            * memory.of_sampling
            * layout.forward_flops(Tokens { scored: 0.0, ..self.trained });
        let back = backward * layout.backward_flops(self.trained);
        let updates = seconds(forward * once + back - spared, speed.updates);
        let evaluation = seconds(layout.forward_flops(self.evaluated), speed.sampling)
            .saturating_add(seconds(layout.forward_flops(self.held_out), speed.updates));
        let step = sampling.saturating_add(updates);
        let times = |each: Duration, count: u64| {
            Duration::try_from_secs_f64(each.as_secs_f64() * count as f64).unwrap_or(Duration::MAX)
        };
        let run = times(step, self.steps).saturating_add(times(evaluation, self.evaluations));
        Estimate { step, evaluation, run, speed, workload: self }
    }
}

impl Speed {
    /// Measures products with the model's own shapes, for a tenth of a second or so.
    pub fn measure(
        backend: &dyn Backend,
        layout: &Layout,
        sampled_at_a_time: usize,
    ) -> Result<Self> {
        let mut products = products(backend, layout, UPDATE_ROWS)?;
        Ok(Self {
            sampling: speed(&mut products, backend, sampling_rows(sampled_at_a_time)),
            updates: speed(&mut products, backend, UPDATE_ROWS),
        })
    }
}

/// Speeds of one device, each measured once. If several runs measured anew, other load on the
/// machine would make equal runs look different.
#[derive(Clone, Debug, Default)]
pub struct Speeds(Vec<(Vec<Linear>, usize, Speed)>);

impl Speeds {
    /// The speed with a model's products, with `sampled_at_a_time` responses sampled at a time.
    pub fn of(
        &mut self,
        backend: &dyn Backend,
        layout: &Layout,
        sampled_at_a_time: usize,
    ) -> Result<Speed> {
        let (shapes, rows) = (measured(layout), sampling_rows(sampled_at_a_time));
        let is_it = |known: &&(Vec<Linear>, usize, Speed)| known.0 == shapes && known.1 == rows;
        if let Some((_, _, speed)) = self.0.iter().find(is_it) {
            return Ok(*speed);
        }
        let speed = Speed::measure(backend, layout, sampled_at_a_time)?;
        self.0.push((shapes, rows, speed));
        Ok(speed)
    }
}

/// Rows of a product of sampling.
fn sampling_rows(sampled_at_a_time: usize) -> usize {
    sampled_at_a_time.clamp(1, UPDATE_ROWS)
}

/// Shapes of the products that are measured: the first that a model's blocks have, up to
/// [`MEASURED_BYTES`] of weights.
fn measured(layout: &Layout) -> Vec<Linear> {
    let mut left = MEASURED_BYTES / size_of::<f32>();
    let mut shapes = Vec::new();
    // The first, the embedding, is left out: a token reads only one of its rows.
    for parameter in layout.parameters.iter().skip(1) {
        let Kind::Matrix(shape) = parameter.kind else { continue };
        let outputs = shape.outputs.min(left / shape.inputs.max(1));
        if outputs == 0 {
            break;
        }
        left -= shape.inputs * outputs;
        shapes.push(Linear { outputs, ..shape });
    }
    shapes
}

/// A product that is measured.
struct Product {
    shape: Linear,
    weights: Buffer,
    input: Buffer,
    output: Buffer,
}

fn products(backend: &dyn Backend, layout: &Layout, rows: usize) -> Result<Vec<Product>> {
    // Pages that were never written are all the same page of zeros, which stays in the cache.
    let filled = |mut buffer: Buffer| {
        backend.fill(&mut buffer, 0.5);
        buffer
    };
    let product = |shape: Linear| {
        let weights = backend.allocate(Role::Weight(Kind::Matrix(shape)));
        Ok(Product {
            shape,
            weights: filled(weights.map_err(isentrope_model::Error::from)?),
            input: filled(backend.buffer(Role::Activation(rows, shape.inputs))),
            output: filled(backend.buffer(Role::Activation(rows, shape.outputs))),
        })
    };
    measured(layout).into_iter().map(product).collect()
}

/// Floating-point operations per second with `rows` rows: the speed of the fastest pass, since
/// other work of the machine only slows passes.
fn speed(products: &mut [Product], backend: &dyn Backend, rows: usize) -> f64 {
    // The first pass includes one-time work, such as comparing a GPU's library with chains before
    // it is used.
    pass(products, backend, rows);
    let started = Instant::now();
    let mut fastest = f64::INFINITY;
    while fastest.is_infinite() || started.elapsed() < MEASURED_FOR {
        fastest = fastest.min(pass(products, backend, rows).as_secs_f64());
    }
    let weights: f64 =
        products.iter().map(|p| p.shape.inputs as f64 * p.shape.outputs as f64).sum();
    2.0 * weights * rows as f64 / fastest.max(1e-9)
}

/// How long all products take, once.
fn pass(products: &mut [Product], backend: &dyn Backend, rows: usize) -> Duration {
    let start = Instant::now();
    for Product { shape, weights, input, output } in &mut *products {
        backend.linear(*shape, input, weights, None, output, rows);
    }
    if let Some(Product { shape, output, .. }) = products.last() {
        let mut row = vec![0.0; shape.outputs];
        backend.read(output, 0, &mut row); // whatever the host reads is finished
    }
    start.elapsed()
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, evaluation, run, speed, workload } = self;
        write!(f, "time: about {} a step", human(*step))?;
        if workload.evaluations > 0 && !evaluation.is_zero() {
            write!(f, ", {} an evaluation", human(*evaluation))?;
        }
        write!(f, ", {} for the whole run", human(*run))?;
        if workload.longest > 0 {
            write!(f, ", if responses take all of their {} tokens", workload.longest)?;
        }
        let (updates, sampling) = (speed.updates / 1e9, speed.sampling / 1e9);
        write!(f, " (an estimate, from the work and the {updates:.0} GFLOP/s")?;
        if workload.longest > 0 {
            write!(f, " in updates and {sampling:.0} in sampling")?;
        }
        let verdicts = if workload.longest > 0 { ", without verdicts" } else { "" };
        write!(f, " measured here{verdicts})")?;
        if workload.has_turns {
            write!(f, "; the environment's time, and what several turns take longer, is left out")?;
        }
        Ok(())
    }
}

/// A time for people: two digits are more than an estimate deserves.
fn human(time: Duration) -> String {
    let (minute, hour, day) = (60.0, 3600.0, 86400.0);
    let year = 365.25 * day;
    match time.as_secs_f64() {
        s if s < 0.1 => format!("{:.0} ms", 1000.0 * s),
        s if s < 0.95 => format!("{s:.1} s"),
        s if s < 1.5 * minute => format!("{s:.0} s"),
        s if s < 1.5 * hour => format!("{:.0} min", s / minute),
        s if s < 2.0 * day => format!("{:.0} h", s / hour),
        s if s < 1000.0 * day => format!("{:.0} days", s / day),
        s if s < 1e6 * year => format!("{:.0} years", s / year),
        s => format!("{:.0e} years", s / year),
    }
}

#[cfg(test)]
mod tests;
