//! Metrics of evaluation sets: `eval/<set>/<what>`. A set's name may have slashes, `<what>` has
//! none. A part of a set, `eval/<set>/<part>/<what>`, looks like a set whose name begins with the
//! whole set's and a slash.

/// A metric's name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMetric<'a> {
    /// The set.
    pub set: &'a str,
    /// The quantity: `mean@8`, `entropy`.
    pub what: &'a str,
}

impl<'a> SetMetric<'a> {
    /// Splits a metric's name; None if the metric belongs to no set.
    pub fn of(name: &'a str) -> Option<Self> {
        let (set, what) = name.strip_prefix("eval/")?.rsplit_once('/')?;
        (!set.is_empty() && !what.is_empty()).then_some(Self { set, what })
    }

    /// k of `mean@<k>`, the share of correct ones among k responses.
    pub fn samples(&self) -> Option<u64> {
        let k = self.what.strip_prefix("mean@")?;
        if k.bytes().all(|byte| byte.is_ascii_digit()) { k.parse().ok() } else { None }
    }

    /// Whether the metric identifies an evaluation set: every trainer measures one of these.
    pub(super) fn is_usual(&self) -> bool {
        self.samples().is_some() || matches!(self.what, "score" | "entropy")
    }
}

/// The nearest known set that a set is a part of, and the part's own name: `test` and `sum` of
/// `test/sum`. None if the set is no part.
pub fn part_of(set: &str, is_known: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let splits = set.rmatch_indices('/').map(|(slash, _)| (&set[..slash], &set[slash + 1..]));
    splits.filter(|(_, part)| !part.is_empty()).find(|(whole, _)| is_known(whole))
}

/// The name of a set's metric.
pub fn of_set(set: &str, what: &str) -> String {
    format!("eval/{set}/{what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_after_a_known_set() {
        let known = |set: &str| ["test", "openai/gsm8k", "a", "a/b"].contains(&set);
        for (set, found) in [
            ("test/sum", Some(("test", "sum"))),
            ("openai/gsm8k", None),
            ("openai/gsm8k/easy", Some(("openai/gsm8k", "easy"))),
            ("a/b/c", Some(("a/b", "c"))),
            ("a/b", Some(("a", "b"))),
            ("a/c/d", Some(("a", "c/d"))),
            ("test", None),
            ("test/", None),
            ("tests/sum", None),
            ("", None),
        ] {
            assert_eq!(part_of(set, known), found, "{set}");
        }
    }
}
