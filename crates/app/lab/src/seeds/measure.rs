//! Measures: numbers that runs have, with their names and units in tables.

use super::section::Section;
use serde::Serialize;

/// A number that runs have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Measure {
    /// The metric that the measure is taken from (docs/reference/metrics.md); for numbers of the
    /// law, their set's accuracy.
    pub metric: String,
    /// The kind of measure, by its name in table.json: `end`, `law-ceiling`.
    pub taken: String,
    /// Its table.
    pub section: Section,
    /// The measure's name in tables: `countdown: pass@8 at the end, %`.
    #[serde(skip)]
    pub title: String,
    #[serde(skip)]
    pub(super) unit: Unit,
}

/// The format and the range of a measure's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    /// The factor of shown numbers: 100 for shares.
    pub scale: u8,
    /// Digits after the point.
    pub digits: usize,
    /// The unit's name behind titles.
    pub name: &'static str,
    pub range: Range,
    /// Whether a number is a difference already, which is shown with its sign.
    pub is_signed: bool,
}

/// The range of numbers, and so of their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Range {
    Any,
    From0,
    Share,
    /// The difference of two shares.
    SharesApart,
}

impl Range {
    /// The least and the greatest number; infinite without a bound.
    pub fn ends(self) -> [f64; 2] {
        match self {
            Self::Any => [f64::NEG_INFINITY, f64::INFINITY],
            Self::From0 => [0.0, f64::INFINITY],
            Self::Share => [0.0, 1.0],
            Self::SharesApart => [-1.0, 1.0],
        }
    }
}

impl Unit {
    /// The unit of numbers without one.
    pub fn plain(digits: usize, range: Range) -> Self {
        Self { scale: 1, digits, name: "", range, is_signed: false }
    }

    /// The unit of a metric's values.
    pub fn of(metric: &str) -> Self {
        if is_of_shares(metric) {
            return Self { scale: 100, name: ", %", ..Self::plain(1, Range::Share) };
        }
        let name = last_part(metric);
        let is_size = ["entropy", "length", "loss"].iter().any(|of| name.starts_with(of));
        // A policy's loss and the theory's changes may be negative.
        let has_sign = ["policy/loss", "theory/"].iter().any(|of| metric.starts_with(of));
        let unit = match metric {
            _ if metric.contains("entropy") || metric.ends_with("loss") => ", nats",
            _ if metric.contains("length") => ", tokens",
            _ => "",
        };
        let digits = if name.starts_with("length") { 1 } else { 4 };
        let range = if is_size && !has_sign { Range::From0 } else { Range::Any };
        Self { name: unit, ..Self::plain(digits, range) }
    }

    /// The unit of changes of an accuracy.
    pub fn of_change(accuracy: &str) -> Self {
        let own = Self { is_signed: true, ..Self::of(accuracy) };
        match is_of_shares(accuracy) {
            true => Self { name: ", points", range: Range::SharesApart, ..own },
            false => Self { range: Range::Any, ..own },
        }
    }
}

/// The least and the greatest that a metric's numbers can be; infinite if there is no bound.
pub(crate) fn range_of(metric: &str) -> [f64; 2] {
    Unit::of(metric).range.ends()
}

pub(super) fn is_of_shares(metric: &str) -> bool {
    let shares = ["mean@", "pass@", "maj@", "mean_of_sets", "truncated"];
    shares.iter().any(|share| last_part(metric).starts_with(share))
}

fn last_part(metric: &str) -> &str {
    metric.rsplit('/').next().unwrap_or_default()
}

/// A metric's name in tables: `countdown: pass@8`.
pub(super) fn metric_title(metric: &str) -> String {
    match metric.strip_prefix("eval/").and_then(|rest| rest.rsplit_once('/')) {
        Some((set, name)) => format!("{set}: {name}"),
        None => metric.to_owned(),
    }
}

impl Measure {
    /// Whether each run's number is a count.
    pub(super) fn is_count(&self) -> bool {
        self.taken == "law-refused"
    }

    /// Whether groups are compared by this measure with a test. Main effects, which all runs have,
    /// are; best values, numbers of only some runs, parts and checks are not.
    pub(super) fn is_compared(&self) -> bool {
        self.section == Section::Main && self.taken != "best"
    }

    /// Whether the measure belongs in a short table. The others are parts or checks of these.
    pub(super) fn is_main(&self) -> bool {
        let is_part = self.metric.ends_with("_numbers") || self.metric.ends_with("/truncated");
        match &*self.taken {
            _ if self.section != Section::Main => false,
            "last-tenth" => self.metric == "sft/loss",
            _ => !is_part,
        }
    }
}
