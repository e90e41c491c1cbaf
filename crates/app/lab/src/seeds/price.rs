//! The price of kept entropy: the loss of accuracy that the law of the control's run predicts for
//! the higher entropy at which a run of the same seed ends, beside the measured loss.

use super::measure::{Measure, Range, Unit};
use super::section::Section;
use super::student::Mean;
use super::{Row, Seeded};
use crate::law::Point;
use std::collections::BTreeSet;

/// The law of a run on one set, and the run's last evaluation of it.
pub(super) struct SetLaw {
    /// The set's name, and the metric of its accuracy.
    pub set: String,
    pub accuracy: String,
    /// The accuracy that exp(H) costs, whether the law is refused or not.
    pub a: f64,
    pub end: Point,
}

/// Two rows for each set: the price, a (exp(H) - exp(H of the control)), and the price less the
/// measured loss (the control's accuracy less the run's, both at the end), over the seeds that both
/// have.
pub(super) fn rows(groups: &[Vec<Seeded<'_>>], controls: &[Option<usize>]) -> Vec<Row> {
    let laws = groups.iter().flatten().flat_map(|(_, run)| &run.laws);
    let sets: BTreeSet<(&str, &str)> = laws.map(|law| (&*law.set, &*law.accuracy)).collect();
    let both = sets.into_iter().flat_map(|(set, accuracy)| {
        let row = |taken: &str, title: &str, number: fn(&SetLaw, &SetLaw) -> f64| {
            let unit = Unit { range: Range::Any, ..Unit::of_change(accuracy) };
            let measure = Measure {
                metric: accuracy.to_owned(),
                taken: taken.to_owned(),
                section: Section::Price,
                title: format!("{set}: {title}{}", unit.name),
                unit,
            };
            let mean = |(group, control): (&Vec<Seeded<'_>>, &Option<usize>)| {
                let control = &groups[(*control)?];
                Mean::of(
                    pairs(control, group, accuracy).map(|(old, new)| number(old, new)).collect(),
                )
            };
            Row {
                means: groups.iter().zip(controls).map(mean).collect(),
                against: vec![None; groups.len()],
                measure,
            }
        };
        [
            row("law-price", "price", price),
            row("law-price-less-paid", "price less paid", |old, new| {
                price(old, new) - paid(old, new)
            }),
        ]
    });
    both.filter(|row| row.means.iter().any(Option::is_some)).collect()
}

fn price(control: &SetLaw, own: &SetLaw) -> f64 {
    control.a * (own.end.entropy.exp() - control.end.entropy.exp())
}

fn paid(control: &SetLaw, own: &SetLaw) -> f64 {
    control.end.accuracy - own.end.accuracy
}

/// The laws of both groups' runs of each seed that both have.
fn pairs<'a>(
    control: &'a [Seeded<'_>],
    group: &'a [Seeded<'_>],
    accuracy: &'a str,
) -> impl Iterator<Item = (&'a SetLaw, &'a SetLaw)> {
    let of = move |(seed, run): &'a Seeded<'_>| {
        Some(((*seed)?, run.laws.iter().find(|law| law.accuracy == accuracy)?))
    };
    group.iter().filter_map(of).filter_map(move |(seed, own)| {
        let mut of_control = control.iter().filter_map(of);
        of_control.find(|(other, _)| *other == seed).map(|(_, old)| (old, own))
    })
}
