//! Numbers of rows, slots and tokens on the device.

use crate::kernels::Pointer;
use crate::uploaded::Uploaded;
use isentrope_kernels::NO_SLOT;
use std::collections::HashSet;
use std::sync::OnceLock;

/// Uploaded row numbers, slots or tokens, with a copy on the host.
pub struct CudaIndex {
    pub(crate) host: Vec<u32>,
    block: Uploaded,
    /// One more than the largest number besides [`NO_SLOT`].
    end: usize,
    /// Whether [`NO_SLOT`] is among the numbers.
    has_gaps: bool,
    distinct: OnceLock<bool>,
    groups: OnceLock<Groups>,
}

/// The positions of an index, grouped by the number at each.
pub(crate) struct Groups {
    pub len: usize,
    block: Uploaded,
    positions: usize,
}

impl Groups {
    /// The number that the positions of each group share.
    pub(crate) fn keys(&self) -> Pointer {
        self.block.at(0)
    }
    /// The start of each group in the order, and the end of the last one.
    pub(crate) fn starts(&self) -> Pointer {
        self.block.at(4 * self.len)
    }
    /// Positions, group after group, ascending within each.
    pub(crate) fn order(&self) -> Pointer {
        debug_assert!(self.positions >= self.len);
        self.block.at(4 * (2 * self.len + 1))
    }
}

impl CudaIndex {
    pub(crate) fn new(host: &[u32], upload: impl FnOnce(&[u32]) -> Uploaded) -> Self {
        let end = host.iter().filter(|&&n| n != NO_SLOT).max().map_or(0, |&n| n as usize + 1);
        let has_gaps = host.contains(&NO_SLOT);
        let block = upload(host);
        Self {
            host: host.to_vec(),
            block,
            end,
            has_gaps,
            distinct: OnceLock::new(),
            groups: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.host.len()
    }

    pub(crate) fn start(&self) -> Pointer {
        self.block.at(0)
    }

    /// Checks that all numbers are below a bound.
    ///
    /// # Panics
    /// When one is not.
    pub(crate) fn check(&self, bound: usize, what: &str) {
        assert!(!self.has_gaps, "{what} {NO_SLOT} of {bound}");
        self.check_slots(bound, what);
    }

    /// Checks that all numbers besides [`NO_SLOT`] are below a bound.
    ///
    /// # Panics
    /// When one is not.
    pub(crate) fn check_slots(&self, bound: usize, what: &str) {
        assert!(self.end <= bound, "{what} {} of {bound}", self.end.saturating_sub(1));
    }

    /// Whether no number occurs twice, besides [`NO_SLOT`].
    pub(crate) fn is_distinct(&self) -> bool {
        *self.distinct.get_or_init(|| {
            let mut seen = HashSet::with_capacity(self.host.len());
            self.host.iter().all(|&n| n == NO_SLOT || seen.insert(n))
        })
    }

    /// The index's positions, grouped by number. They are uploaded once.
    pub(crate) fn groups(&self, upload: impl FnOnce(&[u32]) -> Uploaded) -> &Groups {
        self.groups.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.host.len() as u32).collect();
            order.sort_by_key(|&place| self.host[place as usize]);
            let (mut keys, mut starts) = (Vec::new(), vec![0]);
            for group in order.chunk_by(|&a, &b| self.host[a as usize] == self.host[b as usize]) {
                keys.push(self.host[group[0] as usize]);
                starts.push(starts[starts.len() - 1] + group.len() as u32);
            }
            let (len, positions) = (keys.len(), order.len());
            Groups { len, block: upload(&[keys, starts, order].concat()), positions }
        })
    }
}
