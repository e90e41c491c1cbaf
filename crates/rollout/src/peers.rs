//! Others who sample at the same time, and how work goes from one to another.

use crate::begun::Begun;

/// Which response: the number of its request, and its own among the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The request, from 0 in the order in which they were given.
    pub request: usize,
    /// The response's number among those to the request.
    pub sample: usize,
}

/// A response that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub place: Place,
    /// How many tokens it has; none, if it has not started.
    pub tokens: usize,
}

/// What has come of a meeting.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// Responses that are to be sampled here from now on, with what they have come to elsewhere.
    pub taken: Vec<(Place, Begun)>,
    /// Whether nobody meets again: what each has left, each samples to the end.
    pub is_last: bool,
}

/// Others who sample responses to the same requests at the same time. A response is sampled by one of them at a time, and has the
/// same bits whoever that is.
///
/// All meet, once for each time that one of them does. Who has nothing left goes to a meeting and waits there; who is at work
/// goes when somebody waits.
pub trait Peers<E> {
    /// Whether somebody waits. It is asked often, between two steps of an engine.
    fn are_waiting(&self) -> bool;

    /// Meets the others, and shares out with them what is left. `left` is left here; `withdraw` takes one of these out of its
    /// engine, for another to go on with. Who has something left takes nothing before that is sampled.
    ///
    /// # Errors
    /// Whatever keeps all from meeting.
    fn meet(&mut self, left: &[Left], withdraw: &mut dyn FnMut(Place) -> Option<Begun>) -> Result<Met, E>;
}
