//! How much is drawn, so that a page stays small enough to be mailed.

/// Most bytes of a page.
pub(super) const MAX_BYTES: usize = 5_000_000;

/// Limits of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Points of all curves over steps. With the digits that they have, 240,000 mostly come to less
    /// than 2 MB when packed.
    pub points: usize,
    /// Metrics of a chart.
    pub metrics: usize,
    /// Evaluations of a run beside its law.
    pub evaluations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { points: 240_000, metrics: 400, evaluations: 400 }
    }
}

impl Limits {
    /// Half as much, with all metrics as long as their curves still have a shape; none where there
    /// is nothing left to leave out.
    pub fn tighter(self) -> Option<Self> {
        let metrics = if self.points > 60_000 { self.metrics } else { (self.metrics / 2).max(4) };
        let next = Self {
            points: (self.points / 2).max(1000),
            metrics,
            evaluations: (self.evaluations / 2).max(20),
        };
        (next != self).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_tighten_until_little_is_left() {
        let all: Vec<Limits> =
            std::iter::successors(Some(Limits::default()), |limits| limits.tighter()).collect();
        assert!(all.len() < 12, "{all:?}");
        assert_eq!(all[2], Limits { points: 60_000, metrics: 400, evaluations: 100 });
        assert_eq!(all.last(), Some(&Limits { points: 1000, metrics: 4, evaluations: 20 }));
    }
}
