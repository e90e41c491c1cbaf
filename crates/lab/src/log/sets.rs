//! Metrics of evaluation sets: `eval/<set>/<what>`. Names of sets may have slashes, and what is measured has none.

/// A metric's name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMetric<'a> {
    /// The set.
    pub set: &'a str,
    /// What was measured of it: `mean@8`, `entropy`.
    pub what: &'a str,
}

impl<'a> SetMetric<'a> {
    /// None if the metric is of no set.
    pub fn of(name: &'a str) -> Option<Self> {
        let (set, what) = name.strip_prefix("eval/")?.rsplit_once('/')?;
        (!set.is_empty() && !what.is_empty()).then_some(Self { set, what })
    }

    /// k of `mean@<k>`, the share of correct ones among k responses.
    pub fn samples(&self) -> Option<u64> {
        let k = self.what.strip_prefix("mean@")?;
        if k.bytes().all(|byte| byte.is_ascii_digit()) { k.parse().ok() } else { None }
    }

    /// Whether it is one by which a set is known: every trainer measures one of these.
    pub(super) fn is_usual(&self) -> bool {
        self.samples().is_some() || matches!(self.what, "score" | "entropy")
    }
}

/// The name of a set's metric.
pub fn of_set(set: &str, what: &str) -> String {
    format!("eval/{set}/{what}")
}
