//! Keys and values of sequences in the making, in pages that sequences can share.

use crate::model::Model;
use isentrope_kernels::{Backend, PAGE};

/// A fixed number of pages, each with [`PAGE`] positions of every layer.
pub struct KvCache<B: Backend> {
    /// One per layer: `[pages, page]`.
    pub(crate) layers: Vec<B::Buffer>,
    page_len: usize,
    free: Vec<u32>,
    /// How many sequences hold each page.
    holders: Vec<u32>,
}

impl<B: Backend> KvCache<B> {
    /// Bytes of one page over all layers.
    pub fn page_bytes(model: &Model<B>) -> usize {
        model.layout.cache_page_bytes()
    }

    /// An empty cache of `pages` pages.
    pub fn new(model: &Model<B>, pages: usize) -> Self {
        let len = model.layer_cache_len(pages);
        Self {
            layers: (0..model.config.layers).map(|_| model.backend.buffer(len)).collect(),
            page_len: model.layer_cache_len(1),
            free: (0..pages as u32).rev().collect(),
            holders: vec![0; pages],
        }
    }

    /// Pages that nobody holds.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// Pages that `positions` positions take.
    pub fn pages_for(positions: usize) -> usize {
        positions.div_ceil(PAGE)
    }

    /// Takes a free page, with one holder.
    pub fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.holders[page as usize] = 1;
        Some(page)
    }

    /// Adds a holder to a page that has one. What it holds must not change from now on.
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

    /// Copies the contents of a page, in every layer.
    pub fn copy(&mut self, backend: &B, from: u32, to: u32) {
        // By way of a page of its own, since a backend copies between distinct buffers.
        let mut page = backend.buffer(self.page_len);
        for layer in &mut self.layers {
            backend.copy(layer, from as usize * self.page_len, &mut page, 0, self.page_len);
            backend.copy(&page, 0, layer, to as usize * self.page_len, self.page_len);
        }
    }
}
