//! Keys and values of growing sequences, in pages that sequences can share; and in hybrid models a
//! recurrent state for each.

use crate::Result;
use crate::model::Model;
use isentrope_kernels::Buffer;

/// A fixed number of pages, each with [some positions](isentrope_kernels::Backend::page_positions)
/// of every layer.
pub struct KvCache {
    /// `[layers, pages]`.
    pub(crate) buffer: Buffer,
    free: Vec<u32>,
    /// How many sequences hold each page.
    holders: Vec<u32>,
    /// A buffer `[slots, state]` for each layer with a recurrent state.
    pub(crate) states: Vec<Buffer>,
    free_states: Vec<u32>,
}

impl KvCache {
    /// Bytes of one page over all layers, with the page's part of recurrent states.
    pub fn page_bytes(model: &Model) -> usize {
        model.layout.cache_page_bytes(&*model.backend)
    }

    /// Bytes of the smallest cache that any sequence can use.
    pub fn least_bytes(model: &Model) -> usize {
        model.layout.least_pages(&*model.backend).saturating_mul(Self::page_bytes(model))
    }

    /// An empty cache of `pages` pages, in one buffer, with the recurrent states that come with
    /// them. It takes that many times [`page_bytes`](Self::page_bytes) at most, unless there are
    /// fewer pages than [`least_bytes`](Self::least_bytes) has: two states are always there.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn new(model: &Model, pages: usize) -> Result<Self> {
        let states = model.layout.states_beside(&*model.backend, pages);
        Ok(Self {
            buffer: model
                .backend
                .allocate(model.layout.cache(model.layout.attention_layers(), pages))?,
            free: (0..pages as u32).rev().collect(),
            holders: vec![0; pages],
            states: (0..model.layout.state_layers())
                .map(|_| model.backend.allocate(model.layout.states(states)))
                .collect::<std::result::Result<_, _>>()?,
            free_states: (0..states as u32).rev().collect(),
        })
    }

    /// Whether sequences have recurrent states.
    pub fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Number of free states; more than can ever be needed in models without.
    pub fn free_states(&self) -> usize {
        if self.states.is_empty() { usize::MAX } else { self.free_states.len() }
    }

    /// Takes a state for a sequence that is to begin or to continue another; none in models
    /// without, or if none is free.
    pub fn take_state(&mut self) -> Option<u32> {
        self.free_states.pop()
    }

    /// Frees a state that was taken.
    pub fn release_state(&mut self, state: u32) {
        self.free_states.push(state);
    }

    /// Copies states, from the first of each pair to the second, in order.
    pub fn copy_states(&mut self, model: &Model, states: &[(u32, u32)]) {
        for buffer in &mut self.states {
            model.hybrid().copy_states(buffer, states);
        }
    }

    /// Pages, held and free.
    pub(crate) fn pages(&self) -> usize {
        self.holders.len()
    }

    /// Number of free pages.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// Pages that `positions` positions take.
    pub fn pages_for(model: &Model, positions: usize) -> usize {
        positions.div_ceil(model.backend.page_positions())
    }

    /// Takes a free page, with one holder.
    pub fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.holders[page as usize] = 1;
        Some(page)
    }

    /// Adds a holder to a page that has one. Its contents must not change from now on.
    ///
    /// # Panics
    /// When the page is free.
    pub fn share(&mut self, page: u32) {
        let holders = &mut self.holders[page as usize];
        assert!(*holders > 0, "page {page} is free");
        *holders += 1;
    }

    /// Removes a holder; the last one frees the page.
    ///
    /// # Panics
    /// When the page is free.
    pub fn release(&mut self, page: u32) {
        let holders = &mut self.holders[page as usize];
        assert!(*holders > 0, "page {page} is free");
        *holders -= 1;
        if *holders == 0 {
            self.free.push(page);
        }
    }

    /// Copies the contents of pages, from the first of each pair to the second, in every layer. No
    /// page may be copied to twice, or both from and to.
    pub fn copy(&mut self, model: &Model, pages: &[(u32, u32)]) {
        model.backend.copy_pages(model.layout.attention(), &mut self.buffer, pages);
    }
}
