//! Exchanges slices with other ranks while passes go on: groups of parameters travel on a thread of
//! their own. Of a group that the passes have left, the gradient is added over the ranks; of one
//! that they come to, the weights are gathered.
//!
//! One thing travels at a time, in the order in which they are begun, which is the same on all
//! ranks. Until all are back, the rank exchanges nothing else.

use crate::error::{Error, Result};
use crate::gradient_slice::GradientSlice;
use crate::ranks::TrainingRanks;
use crate::weight_slice::WeightSlice;
use isentrope_kernels::{Backend, Buffer};
use isentrope_model::{PanicReport, contain};
use isentrope_trace::{name_thread, span};
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// A group, and the buffers of its gradient or of its weights.
type GroupBuffers = (usize, Vec<Buffer>);

/// The kinds of a group's buffers.
#[derive(Clone, Copy)]
enum What {
    Gradient,
    Weights,
}

/// The thread, which ends when this is dropped.
pub(crate) struct SliceExchange<'scope> {
    backend: &'scope dyn Backend,
    /// Each group with the device that its exchange uses, beside the passes.
    begun: Sender<(&'scope dyn Backend, What, GroupBuffers)>,
    gradients: Lane,
    weights: Lane,
    /// There until it has panicked.
    thread: Option<ScopedJoinHandle<'scope, Result<(), PanicReport>>>,
}

/// Groups of one kind, on their way back.
struct Lane {
    ended: Receiver<Result<GroupBuffers>>,
    is_under_way: bool,
}

impl Lane {
    fn new() -> (Sender<Result<GroupBuffers>>, Self) {
        let (back, ended) = channel();
        (back, Self { ended, is_under_way: false })
    }
}

impl<'scope> SliceExchange<'scope> {
    /// Starts the thread, which [adds gradients over the ranks](GradientSlice::add_over_ranks) and
    /// [gathers weights](WeightSlice::gather).
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        backend: &'scope dyn Backend,
        ranks: &'scope TrainingRanks,
        mut gradient: Option<&'scope mut GradientSlice>,
        slice: Option<&'scope WeightSlice>,
    ) -> Result<Self> {
        let (begun, groups) = channel::<(&dyn Backend, What, GroupBuffers)>();
        let ((gradient_back, gradients), (weights_back, weights)) = (Lane::new(), Lane::new());
        let exchange = move || {
            name_thread("exchange");
            for (beside, what, (group, mut buffers)) in groups {
                let (moved, back) = match what {
                    What::Gradient => {
                        let gradient = gradient.as_mut().expect("a slice of the gradient");
                        let added = gradient.add_over_ranks(beside, ranks, group, &mut buffers);
                        (added, &gradient_back)
                    }
                    What::Weights => {
                        let slice = slice.expect("a slice of the weights");
                        (slice.gather(beside, ranks, group, &mut buffers), &weights_back)
                    }
                };
                beside.finish();
                // Nobody waits for it if the passes have failed.
                let _ = back.send(moved.map(|()| (group, buffers)));
            }
            Ok(())
        };
        let contained = move || contain(exchange, |report| report);
        let thread = Builder::new().name("exchange".into()).spawn_scoped(scope, contained);
        let thread = thread.map_err(|error| {
            Error::Run(format!("no thread can be started to exchange with other ranks: {error}"))
        })?;
        Ok(Self { backend, begun, gradients, weights, thread: Some(thread) })
    }

    /// Begins to add the gradient of a group over ranks. The one before is back.
    pub fn begin(&mut self, group: usize, gradient: Vec<Buffer>) {
        self.send(What::Gradient, (group, gradient));
    }

    /// Begins to gather the weights of a group. Those before are back.
    pub fn begin_gathering(&mut self, group: usize, weights: Vec<Buffer>) {
        self.send(What::Weights, (group, weights));
    }

    /// Waits for the gradient that was begun last, and returns it with its buffers. None if it is
    /// back already.
    ///
    /// # Errors
    /// As [`GradientSlice::add_over_ranks`].
    ///
    /// # Panics
    /// When the thread has.
    pub fn end(&mut self) -> Result<Option<GroupBuffers>> {
        self.receive(What::Gradient, "wait for the layer above")
    }

    /// Waits for the weights that were begun last. None if they are back already.
    ///
    /// # Errors
    /// As [`WeightSlice::gather`].
    ///
    /// # Panics
    /// When the thread has.
    pub fn gathered(&mut self) -> Result<Option<GroupBuffers>> {
        self.receive(What::Weights, "wait for the next layer's weights")
    }

    fn lane(&mut self, what: What) -> &mut Lane {
        match what {
            What::Gradient => &mut self.gradients,
            What::Weights => &mut self.weights,
        }
    }

    fn send(&mut self, what: What, group: GroupBuffers) {
        let before = mem::replace(&mut self.lane(what).is_under_way, true);
        assert!(!before, "the group before is back");
        // Where the thread has ended, the wait for it says why.
        let _ = self.begun.send((self.backend.beside(), what, group));
    }

    fn receive(&mut self, what: What, waits: &'static str) -> Result<Option<GroupBuffers>> {
        let lane = self.lane(what);
        if !mem::take(&mut lane.is_under_way) {
            return Ok(None);
        }
        let _span = span(waits);
        if let Ok(back) = lane.ended.recv() {
            return back.map(Some);
        }
        match self.thread.take().map(ScopedJoinHandle::join) {
            Some(Ok(Err(report))) => report.resume(),
            _ => unreachable!("the thread ends by a panic, or when this is dropped"),
        }
    }
}
