//! The parts of a set that have numbers of their own: its problems by source, or a built-in task's
//! by size.

use super::outcome::Outcome;
use super::statistic::Statistic;
use isentrope_data::problem_size;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most parts that a set is divided into: a column with a value of its own for every problem
/// divides nothing.
const MOST: usize = 32;

/// Longest name of a part, in characters, without the suffix that makes it unique.
const LONGEST: usize = 40;

/// A policy's results on a part of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// As in the metrics' names.
    pub name: String,
    /// Mean over problems of the share of correct responses.
    pub mean: Option<f64>,
    /// pass@k, with k the number of responses to each problem.
    pub pass: Option<f64>,
    /// Mean over responses of the mean entropy of their tokens, in nats.
    pub entropy: Option<f64>,
    /// Mean length, in tokens.
    pub length: Option<f64>,
}

impl Part {
    /// Sums up the outcomes of the responses to each of the part's problems.
    pub(super) fn of(name: String, samples: usize, problems: &[Vec<Outcome>]) -> Self {
        let [mean, pass, entropy, length] =
            Self::statistics(samples).map(|(_, of)| of.value(problems));
        Self { name, mean, pass, entropy, length }
    }

    /// The measurements of a part, and its name.
    pub(crate) fn statistics(samples: usize) -> [(String, Statistic); 4] {
        [
            (format!("mean@{samples}"), Statistic::Mean),
            (format!("pass@{samples}"), Statistic::Pass(samples)),
            ("entropy".into(), Statistic::Entropy),
            ("length_mean".into(), Statistic::Length),
        ]
    }

    /// The part's numbers, keyed by the names that follow the set's: `sum/mean@8`.
    pub(super) fn numbers(&self, samples: usize) -> Vec<(String, f64)> {
        let Self { name, mean, pass, entropy, length } = self;
        let names = Self::statistics(samples).map(|(what, _)| format!("{name}/{what}"));
        names
            .into_iter()
            .zip([mean, pass, entropy, length])
            .filter_map(|(n, v)| Some((n, (*v)?)))
            .collect()
    }
}

/// The keys that divide a set's problems, with the places of the problems of each.
enum Division<'a> {
    /// Two sources or more.
    Sources(BTreeMap<&'a str, Vec<usize>>),
    /// Sizes of problems of the built-in tasks; empty if a problem is of no such task.
    Sizes(BTreeMap<(usize, &'static str), Vec<usize>>),
}

/// The parts of a set, given by the source and the ground truth of each problem: their names, and
/// the places of their problems. None unless there are 2 to 32. Problems without a source belong to
/// no part if others have a source.
pub(crate) fn parts<'a>(
    problems: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
) -> Vec<(String, Vec<usize>)> {
    match division(problems) {
        Division::Sources(sources) if sources.len() <= MOST => {
            safe_names(sources.keys().copied()).into_iter().zip(sources.into_values()).collect()
        }
        Division::Sizes(sizes) if (2..=MOST).contains(&sizes.len()) => {
            sizes.into_iter().map(|((size, unit), its)| (format!("{size}_{unit}"), its)).collect()
        }
        _ => Vec::new(),
    }
}

/// The reason why a set has no parts although its problems differ, if so.
pub(crate) fn undivided<'a>(
    problems: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
) -> Option<String> {
    let (count, of) = match division(problems) {
        Division::Sources(sources) => (sources.len(), "values of data_source"),
        Division::Sizes(sizes) => (sizes.len(), "sizes"),
    };
    (count > MOST).then(|| {
        format!(
            "its problems have {count} different {of}, more than the {MOST} whose numbers are \
                 told apart, so none are"
        )
    })
}

fn division<'a>(problems: impl Iterator<Item = (&'a str, &'a Value)> + Clone) -> Division<'a> {
    let mut sources: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, (source, _)) in
        problems.clone().enumerate().filter(|(_, (source, _))| !source.is_empty())
    {
        sources.entry(source).or_default().push(place);
    }
    if sources.len() > 1 {
        return Division::Sources(sources);
    }
    let mut sizes: BTreeMap<(usize, &'static str), Vec<usize>> = BTreeMap::new();
    for (place, (_, ground_truth)) in problems.enumerate() {
        match problem_size(ground_truth) {
            Some(size) => sizes.entry(size).or_default().push(place),
            None => return Division::Sizes(BTreeMap::new()),
        }
    }
    Division::Sizes(sizes)
}

/// Names for sources, in their order, that are different and safe as part of a metric's name: a
/// source is any text that somebody has put into a file.
fn safe_names<'a>(sources: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let is_safe = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let safe = |source: &str| -> String {
        source.chars().take(LONGEST).map(|c| if is_safe(c) { c } else { '_' }).collect()
    };
    // Sources that are valid names are kept, whatever the others are.
    let mut taken: BTreeSet<String> =
        sources.clone().filter(|source| safe(source) == *source).map(str::to_owned).collect();
    let name = |source: &str| {
        let name = safe(source);
        if name == source {
            return name;
        }
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        let free = free.unwrap_or_default(); // there are fewer sources than numbers
        taken.insert(free.clone());
        free
    };
    sources.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(count: usize) -> Value {
        json!({"numbers": vec![1; count], "target": count})
    }

    /// The parts of problems by source and ground truth, or why the set is not divided.
    fn divided(problems: &[(&str, Value)]) -> (Vec<(String, Vec<usize>)>, Option<String>) {
        let problems = || problems.iter().map(|(source, ground_truth)| (*source, ground_truth));
        (parts(problems()), undivided(problems()))
    }

    fn part(name: &str, places: &[usize]) -> (String, Vec<usize>) {
        (name.to_owned(), places.to_vec())
    }

    #[test]
    fn problems_are_told_apart_by_source_or_else_by_size() {
        let of_sources = |sources: &[&str]| {
            divided(&sources.iter().map(|source| (*source, json!("7"))).collect::<Vec<_>>())
        };
        let several = of_sources(&["sum", "product", "", "sum"]);
        assert_eq!(several, (vec![part("product", &[1]), part("sum", &[0, 3])], None));
        for none in [&["sum", "sum", ""][..], &[]] {
            assert_eq!(of_sources(none), (vec![], None));
        }
        let many: Vec<String> = (0..33).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (none, why) = of_sources(&many);
        assert!(
            none.is_empty() && why.unwrap().contains("33 different values of data_source, more")
        );
        assert_eq!(of_sources(&many[..32]).0.len(), 32);

        let of_sizes = |sizes: &[usize]| {
            divided(&sizes.iter().map(|size| ("countdown", of(*size))).collect::<Vec<_>>())
        };
        let (none, why) = of_sizes(&(1..34).collect::<Vec<_>>());
        assert!(none.is_empty() && why.unwrap().contains("33 different sizes"));
        let ten = vec![part("3_numbers", &[1]), part("10_numbers", &[0, 2])];
        assert_eq!(of_sizes(&[10, 3, 10]).0, ten);
        assert_eq!(of_sizes(&[3, 3]).0, []);
        assert_eq!(divided(&[("", of(3)), ("", of(4)), ("", json!("7"))]).0, []);
        let sources = divided(&[("a", of(3)), ("b", of(3)), ("b", of(4))]).0;
        assert_eq!(sources, [part("a", &[0]), part("b", &[1, 2])]);
    }

    #[test]
    fn names_of_sources_are_safe_short_and_different() {
        let names = |sources: &[&str]| safe_names(sources.iter().copied());
        assert_eq!(names(&["a b", "a/b", "a_b", "数学"]), ["a_b_2", "a_b_3", "a_b", "数学"]);
        assert_eq!(
            names(&["\u{1b}[31m", "..", "\u{202e}x", "mean@8"]),
            ["__31m", "..", "_x", "mean_8"]
        );
        let long = ["x".repeat(1000) + "1", "x".repeat(1000) + "2"];
        let cut = names(&[&long[0], &long[1]]);
        assert_eq!(cut, ["x".repeat(40), "x".repeat(40) + "_2"]);
    }
}
