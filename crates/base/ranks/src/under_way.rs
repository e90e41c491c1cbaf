//! The moves of an engine that have not ended, by ticket.

use crate::engine::Ticket;
use crate::error::{Error, Result};
use std::collections::HashMap;

/// Hands out tickets, and keeps what each stands for until it has ended.
pub(crate) struct UnderWay<T> {
    tickets: u64,
    started: HashMap<Ticket, T>,
}

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self { tickets: 0, started: HashMap::new() }
    }
}

impl<T> UnderWay<T> {
    /// Keeps what was started, under a new ticket.
    pub fn add(&mut self, started: T) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.started.insert(ticket, started);
        ticket
    }

    /// Takes out what a ticket stands for.
    ///
    /// # Errors
    /// When it has ended before.
    pub fn take(&mut self, ticket: Ticket) -> Result<T> {
        let started = self.started.remove(&ticket);
        started.ok_or_else(|| Error::Engine("nothing of this ticket is under way".into()))
    }

    /// Puts back what has not ended yet.
    pub fn put_back(&mut self, ticket: Ticket, started: T) {
        self.started.insert(ticket, started);
    }

    /// Whether everything has ended.
    pub fn is_empty(&self) -> bool {
        self.started.is_empty()
    }
}
