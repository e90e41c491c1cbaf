//! Decoding steps that are launched as one graph, and their draws.
//!
//! A step is recorded, not launched ([`Stream`](crate::stream::Stream)). If an earlier one launched
//! the very same (kernels, grids and arguments, addresses among them), it has become a graph, and
//! the graph is launched in its stead: so a graph never runs but in the place of launches that code
//! which has their memory has just asked for. What makes steps the same is not needed for their
//! bits: memory that a step finds where the one before it did, uploads in one place, and numbers of
//! rows and tiles that are rounded up ([`rounded_up`]).

use crate::cuda::Cuda;
use crate::device::{Device, Graph};
use crate::operation::{Operation, carry_out};
use crate::rounding::rounded_up;
use crate::stream::{capture, replay};
use isentrope_kernels::{Linear, ReplayKey};
use isentrope_trace::count;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most graphs that are kept; the least recently used one goes first.
const MOST: usize = 128;
/// Bytes of device memory that a driver takes for each kernel of a graph. No driver reports it:
/// this is the order of magnitude that others have measured.
const KERNEL_BYTES: usize = 64 << 10;
/// Most kernels of a layer in a step, of a linear layer's adapter, and of the draws and everything
/// around the layers (`tests/launches.rs` counts them). A layer has nine, and two more with a
/// library of products, for the gate and for a bias; two more if branches end with a norm. A hybrid
/// model's layers have ten and a half on average. An adapter's first product is in the
/// layer's own launch, but not with a library.
const KERNELS: [usize; 3] = [13, 2, 7];

/// Counts of decoding steps by how they were launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// Graphs that have been made.
    pub captured: usize,
    /// Steps that were launched as one.
    pub replayed: usize,
    /// Steps whose operations were launched one by one.
    pub launched: usize,
    /// The first reason why the device refused to capture a step or to launch it as a graph, if it
    /// did.
    pub refused: Option<String>,
}

impl Replays {
    /// Shows the counts so far in a trace.
    fn count(&self) {
        count("steps captured", self.captured as u64);
        count("steps launched as one", self.replayed as u64);
        count("steps launched one by one", self.launched as u64);
    }
}

pub(crate) struct Graphs(Mutex<Known>);

struct Known {
    /// Steps, in order of their last use.
    steps: Vec<Step>,
    replays: Replays,
}

/// The key that launches are compared by: only launches with equal keys can be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The launches of a step.
    Step(ReplayKey),
    /// The launches of its draws, from `rows` rows.
    Draws { shape: Linear, rows: usize, draws: usize },
}

struct Step {
    key: Key,
    operations: Vec<Operation>,
    state: State,
}

/// How a step is launched.
enum State {
    /// The step occurred once.
    Seen,
    /// The step is launched as one graph.
    Captured(Graph),
    /// The step is launched one by one, because the device does not take it as one. Other steps may
    /// still be captured.
    Refused,
}

impl Graphs {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Known { steps: Vec::new(), replays: Replays::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all steps.
    pub(crate) fn clear(&self) {
        self.lock().steps.clear();
    }
}

impl Known {
    /// Makes the launches of a step: as one graph, if the same step occurred before.
    fn launch(&mut self, device: &dyn Device, key: Key, operations: Vec<Operation>) {
        let same = |step: &Step| step.key == key && step.operations == operations;
        let Some(at) = self.steps.iter().rposition(same) else {
            carry_out(device, &operations);
            self.replays.launched += 1;
            self.put_by(Step { key, operations, state: State::Seen });
            return;
        };
        let mut step = self.steps.remove(at);
        if let State::Seen = step.state {
            step.state = match capture(device, &step.operations) {
                Ok(graph) => {
                    self.replays.captured += 1;
                    State::Captured(graph)
                }
                Err(why) => self.refuse(why),
            };
        }
        let replayed = match &step.state {
            State::Captured(graph) => replay(device, graph),
            State::Seen | State::Refused => Ok(()),
        };
        if let Err(why) = replayed {
            // The step's memory belongs to another owner from now on.
            step.state = self.refuse(why);
        }
        if let State::Captured(_) = step.state {
            self.replays.replayed += 1;
        } else {
            carry_out(device, &step.operations);
            self.replays.launched += 1;
        }
        self.steps.push(step);
    }

    fn refuse(&mut self, why: String) -> State {
        self.replays.refused.get_or_insert(why);
        State::Refused
    }

    /// Keeps a new step. Among the steps seen once, only the last one of each key is kept.
    fn put_by(&mut self, step: Step) {
        self.steps.retain(|known| known.key != step.key || !matches!(known.state, State::Seen));
        if self.steps.len() == MOST {
            self.steps.remove(0);
        }
        self.steps.push(step);
    }
}

impl Cuda {
    /// Launches decoding steps one by one, to the same bits.
    pub fn without_replay(self) -> Self {
        Self { replays: false, ..self }
    }

    /// Counts of decoding steps so far.
    pub fn replays(&self) -> Replays {
        self.graphs.lock().replays.clone()
    }

    /// Estimates the bytes of the device's memory that the graphs of a model take, by the number of
    /// its layers and of its linear layers with an adapter.
    pub(crate) fn steps_bytes(&self, layers: usize, adapters: usize) -> usize {
        let [of_layer, of_adapter, around] = KERNELS;
        let kernels = layers
            .saturating_mul(of_layer)
            .saturating_add(adapters.saturating_mul(of_adapter))
            .saturating_add(around);
        // A step and its draws have a graph each.
        if self.replays { kernels.saturating_mul(MOST / 2 * KERNEL_BYTES) } else { 0 }
    }

    /// The rows of a step, rounded up if steps are replayed.
    pub(crate) fn rounded_rows(&self, rows: usize) -> usize {
        if self.replays { rounded_up(rows) } else { rows }
    }

    /// Makes a step, or its draws.
    pub(crate) fn step<R>(&self, key: Key, f: impl FnOnce() -> R) -> R {
        let recorded = if self.replays { self.device.record() } else { None };
        let Some(recorded) = recorded else { return f() };
        let result = f();
        if let Some(operations) = recorded.finish() {
            let mut graphs = self.graphs.lock();
            graphs.launch(&**self.device.device(), key, operations);
            graphs.replays.count();
        }
        result
    }
}
