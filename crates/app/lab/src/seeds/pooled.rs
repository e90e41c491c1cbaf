//! Differences from the first group with one error for all groups: where each has few seeds, the
//! spread of all together is known better than that of one pair of groups.
//!
//! A number is taken as group + seed + error, with errors of one spread in all groups: a two-way
//! layout with one number per cell (Snedecor and Cochran, Statistical Methods, randomized blocks).

use super::show::{signed, table};
use super::student::{ROUNDING, quantile, within};
use super::{Group, Mean, Measure, Row, Summary};
use serde::Serialize;

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
    /// One for each group but the first.
    pub differences: Vec<PooledDifference>,
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
    /// The differences in each compared measure. A group that lacks a seed of the smallest group of
    /// several seeds is left out; fewer than three groups have none, nor numbers without a spread.
    pub fn pooled(&self) -> Vec<Pooled> {
        let is_compared = |row: &&Row| row.against.iter().any(Option::is_some);
        self.rows.iter().filter(is_compared).filter_map(|row| self.pooled_row(row)).collect()
    }

    fn pooled_row(&self, row: &Row) -> Option<Pooled> {
        let by_group = || self.groups.iter().zip(&row.means);
        let several = by_group().filter(|(group, _)| group.seeds.len() > 1);
        let smallest = several.min_by_key(|(group, _)| group.seeds.len())?.0;
        let seeds: Vec<u64> = smallest.seeds.iter().copied().collect::<Option<_>>()?;
        let of = |(group, mean): (&Group, &Option<Mean>)| {
            let of_seed = |seed: &u64| {
                let place = group.seeds.iter().position(|of| *of == Some(*seed))?;
                // Without a number of each run it is not known whose the numbers are.
                let runs = mean.as_ref().map(|mean| &mean.runs)?;
                (runs.len() == group.seeds.len()).then(|| runs[place])
            };
            let numbers: Option<Vec<f64>> = seeds.iter().map(of_seed).collect();
            Some((group.name.clone(), numbers?))
        };
        let mut groups = by_group();
        let (control, first) = of(groups.next()?)?;
        let (names, others): (Vec<String>, Vec<Vec<f64>>) = groups.filter_map(of).unzip();
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
        })
    }
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

/// A Markdown table of differences: a line for each group, a column for each measure.
pub fn pooled(found: &[Pooled]) -> String {
    let mut text = String::from(
        "## Differences with one error for all groups\n\nA number is taken as group + seed + \
         error, with errors of one spread in all groups. Bold: p below 0.05 by Holm's procedure \
         over the groups.\n\n",
    );
    // Pages are narrow, and measures may have other groups.
    for of in found {
        let Pooled { measure, control, seeds, degrees, half_width, differences } = of;
        let half = signed(measure, *half_width).replace('+', "");
        let head = format!("{}, each ± {half}", measure.title);
        let line = |PooledDifference { group, value, p, p_holm }: &PooledDifference| {
            let value = signed(measure, *value);
            let value = if *p_holm < 0.05 { format!("**{value}**") } else { value };
            vec![group.clone(), value, format!("{p:.4}"), format!("{p_holm:.3}")]
        };
        let lines: Vec<Vec<String>> = differences.iter().map(line).collect();
        let heads = [head, "p".to_owned(), "by Holm".to_owned()];
        let first = format!("less {control}, {} seeds, {degrees} degrees", seeds.len());
        text += &table(&first, &heads, &lines);
    }
    text
}
