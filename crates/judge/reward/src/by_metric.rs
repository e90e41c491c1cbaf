//! Sums over many responses, by the metric's name.

use std::collections::BTreeMap;

/// Most names that are kept. Each answer may have this many new names; without a limit, hundreds of
/// thousands of metrics would be written and drawn.
const MOST: usize = 64;

/// A value for each of the first 64 names of a verifier's own metrics.
#[derive(Clone, Debug)]
pub struct ByMetric<T> {
    known: BTreeMap<String, T>,
    left_out: Option<String>,
}

impl<T> Default for ByMetric<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), left_out: None }
    }
}

impl<T> ByMetric<T> {
    /// The entry of a name, made by `new` at first; none beyond the limit.
    pub fn entry(&mut self, name: &str, new: impl FnOnce() -> T) -> Option<&mut T> {
        if !self.known.contains_key(name) {
            if self.known.len() == MOST {
                self.left_out.get_or_insert_with(|| name.to_owned());
                return None;
            }
            self.known.insert(name.to_owned(), new());
        }
        self.known.get_mut(name)
    }

    /// The names in order, with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.known.iter().map(|(name, of)| (name.as_str(), of))
    }

    /// A note if names were left out.
    pub fn note(&self) -> Option<String> {
        self.left_out.as_ref().map(|name| {
            format!(
                "the verifier names more than {MOST} metrics: the first {MOST} are kept, and \
                 others, such as {name}, are not; \
                 what differs from problem to problem is no name of a metric"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_names_the_first_are_kept() {
        let mut counts: ByMetric<usize> = ByMetric::default();
        for round in 0..2 {
            for i in 0..100 {
                let count = counts.entry(&format!("m{:02}", 99 - i), || 10);
                assert_eq!(count.is_some(), i < MOST);
                count.into_iter().for_each(|count| *count += 1);
                assert_eq!(counts.note().is_some(), round > 0 || i >= MOST);
            }
        }
        assert_eq!(counts.iter().collect::<Vec<_>>().len(), MOST);
        assert_eq!(counts.iter().next(), Some(("m36", &12)));
        assert!(counts.note().unwrap().contains("such as m35, are not"));
    }
}
