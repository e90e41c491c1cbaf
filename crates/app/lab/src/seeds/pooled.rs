//! Differences from the first group with one error for all groups: where each has few seeds, the
//! spread of all together is known better than that of one pair of groups.
//!
//! A number is taken as group + seed + error, with errors of one spread in all groups: a two-way
//! layout with one number per cell (Snedecor and Cochran, Statistical Methods, randomized blocks).

use super::show::{p_value, signed, table};
use super::student::{ROUNDING, quantile, within};
use super::{Group, Mean, Measure, Row, Summary};
use serde::Serialize;
use std::collections::BTreeMap;

/// Differences in one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// The measure.
    pub measure: Measure,
    /// The first group's name.
    pub control: String,
    /// The seeds that all of these groups have.
    pub seeds: Vec<u64>,
    /// Degrees of freedom of the error.
    pub degrees: usize,
    /// Half of each difference's 95 % interval.
    pub half_width: f64,
    /// One for each group but the first and those left out.
    pub differences: Vec<PooledDifference>,
    /// The names of groups left out, which lack a number of one of the seeds.
    pub left_out: Vec<String>,
}

/// A group's mean less the first group's, over the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PooledDifference {
    /// The group's name.
    pub group: String,
    /// The difference.
    pub value: f64,
    /// Its two-sided p-value.
    pub p: f64,
    /// The p-value by Holm's procedure (1979) over all differences in this measure.
    pub p_holm: f64,
}

impl Summary {
    /// The differences in each compared measure, over the seeds of the smallest group that has
    /// numbers of several, all of them seeds of the first. A group that lacks one of them is left
    /// out. Fewer than three groups have no differences, nor numbers without a spread.
    pub fn pooled(&self) -> Vec<Pooled> {
        let is_compared = |row: &&Row| row.against.iter().any(Option::is_some);
        self.rows.iter().filter(is_compared).filter_map(|row| self.pooled_row(row)).collect()
    }

    fn pooled_row(&self, row: &Row) -> Option<Pooled> {
        let all: Vec<BTreeMap<u64, f64>> =
            self.groups.iter().zip(&row.means).map(|(group, mean)| by_seed(group, mean)).collect();
        // A group with a seed that the first lacks has no differences, and chooses no seeds.
        let several = all.iter().filter(|numbers| {
            numbers.len() > 1 && numbers.keys().all(|seed| all[0].contains_key(seed))
        });
        let seeds: Vec<u64> =
            several.min_by_key(|numbers| numbers.len())?.keys().copied().collect();
        let of = |numbers: &BTreeMap<u64, f64>| -> Option<Vec<f64>> {
            seeds.iter().map(|seed| numbers.get(seed).copied()).collect()
        };
        let control = self.groups.first()?.name.clone();
        let first = of(&all[0])?;
        let (mut names, mut others, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (group, numbers) in self.groups.iter().zip(&all).skip(1) {
            match of(numbers) {
                Some(numbers) => {
                    names.push(group.name.clone());
                    others.push(numbers);
                }
                None => left_out.push(group.name.clone()),
            }
        }
        if others.len() < 2 {
            return None;
        }
        let cells: Vec<&[f64]> = [&first].into_iter().chain(&others).map(Vec::as_slice).collect();
        let (error, degrees) = error(&cells);
        let size = cells.iter().copied().flatten().fold(0.0, |size: f64, x| size.max(x.abs()));
        if error.sqrt() <= ROUNDING * size {
            return None;
        }
        // A difference of two means has twice the variance of one.
        let standard = (2.0 * error / seeds.len() as f64).sqrt();
        let values: Vec<f64> = others.iter().map(|of| mean(of) - mean(&first)).collect();
        let p: Vec<f64> =
            values.iter().map(|value| 1.0 - within(value.abs() / standard, degrees)).collect();
        let all = names.into_iter().zip(values).zip(p.iter().zip(holm(&p)));
        let difference = |((group, value), (p, p_holm)): ((_, _), (&f64, _))| PooledDifference {
            group,
            value,
            p: *p,
            p_holm,
        };
        Some(Pooled {
            measure: row.measure.clone(),
            control,
            seeds,
            degrees,
            half_width: quantile(0.975, degrees) * standard,
            differences: all.map(difference).collect(),
            left_out,
        })
    }
}

/// A group's numbers by seed. Empty if a run has no seed or no number: without a number of each run
/// it is not known whose the numbers are.
fn by_seed(group: &Group, mean: &Option<Mean>) -> BTreeMap<u64, f64> {
    let runs = mean.as_ref().map(|mean| &mean.runs[..]).unwrap_or_default();
    let numbers = group.seeds.iter().zip(runs).map(|(seed, number)| Some(((*seed)?, *number)));
    let is_known = runs.len() == group.seeds.len();
    numbers.collect::<Option<_>>().filter(|_| is_known).unwrap_or_default()
}

/// The mean square of `[groups, seeds]` numbers less their group's and their seed's effect, and its
/// degrees of freedom.
fn error(cells: &[&[f64]]) -> (f64, usize) {
    let seeds = cells[0].len();
    let of_group: Vec<f64> = cells.iter().map(|of| mean(of)).collect();
    let of_seed = |seed| mean(&cells.iter().map(|of: &&[f64]| of[seed]).collect::<Vec<f64>>());
    let of_seed: Vec<f64> = (0..seeds).map(of_seed).collect();
    let all = mean(&of_group);
    let squares: f64 = cells
        .iter()
        .zip(&of_group)
        .flat_map(|(of, group)| {
            of.iter().zip(&of_seed).map(move |(x, seed)| (x - group - seed + all).powi(2))
        })
        .sum();
    let degrees = (cells.len() - 1) * (seeds - 1);
    (squares / degrees as f64, degrees)
}

/// The p-values by Holm's procedure: the k-th least of m times m - k + 1, at least those before.
fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut adjusted, mut most) = (vec![0.0; p.len()], 0.0f64);
    for (before, place) in order.into_iter().enumerate() {
        most = most.max(p[place] * (p.len() - before) as f64).min(1.0);
        adjusted[place] = most;
    }
    adjusted
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// A Markdown table of differences for each measure, with a line for each group.
pub fn pooled(found: &[Pooled]) -> String {
    let mut text = String::from(
        "## Differences with one error for all groups\n\nA number is taken as group + seed + \
         error, with errors of one spread in all groups. Bold: p below 0.05 by Holm's procedure \
         over the groups.\n\n",
    );
    if found.is_empty() {
        text += "Nothing to compare: no measure has numbers with a spread of the first group and \
                 of two others over the same two seeds or more.\n";
    }
    // Pages are narrow, and measures may have other groups.
    let mut before = String::new();
    for of in found {
        let Pooled { measure, control, seeds, degrees, half_width, differences, left_out } = of;
        let seeds_named = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let mut over = format!("Seeds: {seeds_named}.");
        if !left_out.is_empty() {
            over += &format!(" Left out, for want of one of them: {}.", left_out.join(", "));
        }
        if over != before {
            text += &format!("{over}\n\n");
            before = over;
        }
        let half = signed(measure, *half_width).replace('+', "");
        let head = format!("{}, each ± {half}", measure.title);
        let line = |PooledDifference { group, value, p, p_holm }: &PooledDifference| {
            let value = signed(measure, *value);
            let value = if *p_holm < 0.05 { format!("**{value}**") } else { value };
            vec![group.clone(), value, p_value(*p), p_value(*p_holm)]
        };
        let lines: Vec<Vec<String>> = differences.iter().map(line).collect();
        let heads = [head, "p".to_owned(), "by Holm".to_owned()];
        let first = format!("less {control}, {} seeds, {degrees} degrees", seeds.len());
        text += &table(&first, &heads, &lines);
    }
    text
}
