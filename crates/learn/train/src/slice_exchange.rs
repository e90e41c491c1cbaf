//! Adds gradients over ranks while passes go on: the gradient of a finished group of parameters
//! travels on a thread of its own, and the passes go through the next group.
//!
//! One group travels at a time, and the groups travel in the order in which they are finished,
//! which is the same on all ranks. Until a group is [back](SliceExchange::end), the rank exchanges
//! nothing else.

use crate::error::{Error, Result};
use crate::gradient_slice::GradientSlice;
use crate::ranks::TrainingRanks;
use isentrope_kernels::{Backend, Buffer};
use isentrope_model::{PanicReport, contain};
use isentrope_trace::{name_thread, span};
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// A group, and the buffers of its gradient.
type GroupGradient = (usize, Vec<Buffer>);

/// The thread, which ends when this is dropped.
pub(crate) struct SliceExchange<'scope> {
    backend: &'scope dyn Backend,
    /// Each group with the device that its exchange uses, beside the passes.
    begun: Sender<(&'scope dyn Backend, GroupGradient)>,
    ended: Receiver<Result<GroupGradient>>,
    /// There until it has panicked.
    thread: Option<ScopedJoinHandle<'scope, Result<(), PanicReport>>>,
    is_under_way: bool,
}

impl<'scope> SliceExchange<'scope> {
    /// Starts the thread, which [adds groups over the ranks](GradientSlice::add_over_ranks).
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        backend: &'scope dyn Backend,
        ranks: &'scope TrainingRanks,
        slice: &'scope mut GradientSlice,
    ) -> Result<Self> {
        let (begun, groups) = channel::<(&dyn Backend, GroupGradient)>();
        let (back, ended) = channel();
        let exchange = move || {
            name_thread("exchange");
            for (beside, (group, mut gradient)) in groups {
                let added = slice.add_over_ranks(beside, ranks, group, &mut gradient);
                beside.finish();
                // Nobody waits for it if the passes have failed.
                let _ = back.send(added.map(|()| (group, gradient)));
            }
            Ok(())
        };
        let contained = move || contain(exchange, |report| report);
        let thread = Builder::new().name("exchange".into()).spawn_scoped(scope, contained);
        let thread = thread.map_err(|error| {
            Error::Run(format!("no thread can be started to add gradients over ranks: {error}"))
        })?;
        Ok(Self { backend, begun, ended, thread: Some(thread), is_under_way: false })
    }

    /// Begins to add the gradient of a group over ranks. The group before is back.
    pub fn begin(&mut self, group: usize, gradient: Vec<Buffer>) {
        assert!(!self.is_under_way, "one group travels at a time");
        self.is_under_way = true;
        // Where the thread has ended, the wait for it says why.
        let _ = self.begun.send((self.backend.beside(), (group, gradient)));
    }

    /// Waits for the group that was begun last, and returns it with its buffers. None if it is back
    /// already.
    ///
    /// # Errors
    /// As [`GradientSlice::add_over_ranks`].
    ///
    /// # Panics
    /// When the thread has.
    pub fn end(&mut self) -> Result<Option<GroupGradient>> {
        if !mem::take(&mut self.is_under_way) {
            return Ok(None);
        }
        let _span = span("wait for the layer above");
        if let Ok(back) = self.ended.recv() {
            return back.map(Some);
        }
        match self.thread.take().map(ScopedJoinHandle::join) {
            Some(Ok(Err(report))) => report.resume(),
            _ => unreachable!("the thread ends by a panic, or when this is dropped"),
        }
    }
}
