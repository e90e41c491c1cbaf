//! Spans of work.

use crate::event::{Argument, Kind};
use crate::recorder::{Reserved, is_on, push, reserve, this_thread};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Work on this thread, which ends when this is dropped.
#[must_use = "a span ends when it is dropped: `let _span = ...`"]
pub struct Span {
    event: Option<Reserved>,
    /// A span ends on the thread on which it began.
    _thread: PhantomData<*const ()>,
}

/// Starts a part of a step.
#[inline]
pub fn span(name: &'static str) -> Span {
    Span::of(Kind::Phase, name)
}

/// Starts an operation of a pass through a model. Operations are many, so a full trace drops them
/// first.
#[inline]
pub fn operation(name: &'static str) -> Span {
    Span::of(Kind::Operation, name)
}

/// Starts a call to the device.
#[inline]
pub fn call(name: &'static str) -> Span {
    Span::of(Kind::Call, name)
}

impl Span {
    #[inline]
    fn of(kind: Kind, name: &'static str) -> Self {
        let event = if is_on() { begin(kind, name) } else { None };
        Self { event, _thread: PhantomData }
    }

    /// Adds a number. A span has room for two details.
    #[inline]
    pub fn with(mut self, key: &'static str, value: usize) -> Self {
        self.add_detail(key, Argument::Number(value as u64));
        self
    }

    /// Adds a name.
    #[inline]
    pub fn named(mut self, key: &'static str, value: &'static str) -> Self {
        self.add_detail(key, Argument::Name(value));
        self
    }

    #[inline]
    fn add_detail(&mut self, key: &'static str, value: Argument) {
        if let Some(event) = &mut self.event
            && let Some(empty) = event.arguments.iter_mut().find(|argument| argument.is_none())
        {
            *empty = Some((key, value));
        }
    }
}

#[cold]
fn begin(kind: Kind, name: &'static str) -> Option<Reserved> {
    let began = Instant::now();
    let recording = reserve(kind, began)?;
    let (thread, took, arguments) = (this_thread(), Duration::ZERO, [None; 2]);
    Some(Reserved { recording, kind, name, thread, began, took, arguments })
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.took = event.began.elapsed();
            push(event);
        }
    }
}
