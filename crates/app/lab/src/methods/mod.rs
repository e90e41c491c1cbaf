//! The effect that other losses and entropy methods would have had on a step's recorded tokens.
//!
//! The program's own objective gives each token its coefficient, d(loss) / d(log-prob); no formula
//! stands here again. `view.rs` holds one objective against the first of a list, token by token;
//! [`MethodMap`] holds all of a list against each other (`picture.rs` draws it).

mod batch;
mod picture;
mod view;

pub use batch::NamedObjective;

use crate::inspect::Inspection;
use crate::table::{Table, cell};
use crate::terminal::wrapped;
use crate::{Error, Result};
use batch::{Effect, RECORDS_ALL, RecordedBatch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A coefficient differs if it does by more than this share of the largest.
const TOLERANCE: f64 = 1e-9;
/// Objectives are of a family if their changes have at least this cosine with one another.
const FAMILY: f64 = 0.8;

/// Objectives side by side on a step's recorded tokens. The first is what the others are compared
/// with.
#[derive(Clone, Debug)]
pub struct MethodMap {
    batch: RecordedBatch,
    effects: Vec<Effect>,
    /// Every objective beside the first.
    pub comparisons: Vec<Comparison>,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
}

/// An objective in numbers, beside the first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The objective's name.
    pub name: String,
    /// Share of the tokens whose coefficient it changes.
    pub touched: f64,
    /// Norm of the vector of coefficients, the first's being 1.
    pub norm: f64,
    /// Cosine of the coefficients and the first's.
    pub cosine: Option<f64>,
    /// First-order change of the mean entropy, in nats per unit of the step.
    pub entropy_change: Option<f64>,
    /// Its difference from the first's if the coefficients had the same norm, and the standard
    /// error of that difference over responses, in nats; of the first its own change.
    pub entropy_difference: Option<[f64; 2]>,
    /// Cosines of the coefficients with each objective's; none where one is 0.
    pub cosines: Vec<Option<f64>>,
    /// Cosines of the changes of coefficients from the first's; none where one changes nothing.
    pub change_cosines: Vec<Option<f64>>,
}

impl MethodMap {
    /// Computes every objective on the records of a step.
    ///
    /// # Errors
    /// When there are no objectives, or the records cannot be used.
    pub fn of(inspection: &Inspection, objectives: &[NamedObjective]) -> Result<Self> {
        let batch = RecordedBatch::of(inspection, false)?;
        let Some(first) = objectives.first() else {
            return Err(Error::Refused("there are no objectives to compare".into()));
        };
        let mut notes = batch.notes.clone();
        let (mut served, mut left_out) = (Vec::new(), BTreeMap::<_, Vec<&str>>::new());
        for named in objectives {
            match batch.lacks(named, &first.settings) {
                None => served.push(named),
                Some(what) => left_out.entry(what).or_default().push(&named.name),
            }
        }
        for (what, names) in left_out {
            let names = names.join(", ");
            notes.push(format!("{names}: left out, for want of {what}. {RECORDS_ALL}"));
        }
        let effects: Vec<Effect> = served
            .into_iter()
            .map(|named| batch.effect(named, &first.settings))
            .collect::<Result<_>>()?;
        let by_entropy: Vec<&str> =
            effects.iter().filter(|e| e.acts_by_entropy).map(|e| e.name.as_str()).collect();
        if !by_entropy.is_empty() {
            notes.push(acts_by_entropy(&by_entropy.join(", "), "it is left as the first here"));
        }
        let comparisons = comparisons(&batch, &effects);
        Ok(Self { batch, effects, comparisons, notes })
    }

    /// The comparisons as a table, and the families, for a terminal of `width` columns.
    pub fn text(&self, width: usize) -> String {
        let all = &self.comparisons;
        let first = self.batch.entropy_changes(&self.effects[0].coefficients);
        let moved = first.map_or(0.0, |changes| changes.iter().map(|x| x.abs()).sum());
        let mut text = table(all, moved).text(width);
        let heading = format!("Families: changes of coefficients with cosines from {FAMILY}");
        let _ = writeln!(text, "\n{}", wrapped(&heading, width).join("\n"));
        let (families, alone): (Vec<_>, Vec<_>) =
            families(all).into_iter().partition(|family| family.len() > 1);
        let alone = format!("alone: {}", alone.concat().join(", "));
        for line in families.iter().map(|family| family.join(", ")).chain([alone]) {
            for line in wrapped(&line, width.saturating_sub(2)) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }

    /// A picture: cosines, and each objective's weights of tokens by log-prob and advantage; SVG.
    pub fn picture(&self) -> String {
        picture::draw(&self.batch, &self.effects, &self.comparisons)
    }
}

/// Every objective beside the first.
fn comparisons(batch: &RecordedBatch, effects: &[Effect]) -> Vec<Comparison> {
    let first = &effects[0].coefficients;
    let changes: Vec<Vec<f64>> =
        effects.iter().map(|effect| change(&effect.coefficients, first)).collect();
    let first_changes = batch.entropy_changes(first);
    let compare = |(at, effect): (usize, &Effect)| {
        let coefficients = &effect.coefficients;
        let norm_ratio = norm(coefficients) / norm(first);
        let entropy = batch.entropy_changes(coefficients);
        let difference = entropy.as_ref().zip(first_changes.as_ref()).map(|(own, first)| {
            let from = |first: f64| if at == 0 { 0.0 } else { first };
            let each = own.iter().zip(first);
            let each: Vec<f64> = each.map(|(own, &f)| own / norm_ratio - from(f)).collect();
            batch.sum_with_error(&each).into()
        });
        let touched = changes[at].iter().filter(|&&change| change != 0.0).count();
        Comparison {
            name: effect.name.clone(),
            touched: touched as f64 / batch.len() as f64,
            norm: norm_ratio,
            cosine: cosine(coefficients, first),
            entropy_change: entropy.map(|changes| changes.iter().sum()),
            entropy_difference: difference,
            cosines: effects
                .iter()
                .map(|other| cosine(coefficients, &other.coefficients))
                .collect(),
            change_cosines: changes.iter().map(|other| cosine(&changes[at], other)).collect(),
        }
    };
    effects.iter().enumerate().map(compare).collect()
}

/// The note on objectives that tables of coefficients cannot show; `shown` is what they do instead.
fn acts_by_entropy(names: &str, shown: &str) -> String {
    format!(
        "{names} acts by the derivative of the entropy itself, which is no coefficient of a \
         log-prob: {shown}."
    )
}

/// The numbers of all objectives. `moved` is the sum of the sizes of the first's changes of entropy
/// over tokens, in nats.
fn table(all: &[Comparison], moved: f64) -> Table {
    let row = |c: &Comparison| {
        let [difference, error] =
            [0, 1].map(|at| cell(c.entropy_difference.map(|both| 100.0 * both[at] / moved), 2));
        let touched = cell(Some(100.0 * c.touched), 1);
        let cells = vec![touched, cell(Some(c.norm), 3), cell(c.cosine, 3), difference, error];
        (c.name.clone(), cells)
    };
    Table {
        title: "Coefficients d(loss)/d(log-prob) of the recorded tokens".into(),
        columns: ["touched %", "norm", "cosine", "entropy %", "error %"].map(Into::into).to_vec(),
        rows: all.iter().map(row).collect(),
        note: format!(
            "Beside {0}: share of tokens with another coefficient; norm of the vector of \
             coefficients, {0}'s being 1; its cosine with {0}'s; difference of the first-order \
             change of the entropy from {0}'s at equal norm ({0}: its own change), in percent of \
             the sizes of {0}'s changes summed over tokens; its standard error over responses.",
            all[0].name
        ),
    }
}

/// The objectives by families: each joins the first whose members all do the same to the tokens.
/// The first objective, and those that change nothing, are in none.
fn families(all: &[Comparison]) -> Vec<Vec<&str>> {
    let mut families: Vec<Vec<usize>> = Vec::new();
    for at in (1..all.len()).filter(|&at| all[at].touched > 0.0) {
        let is_like =
            |&other: &usize| all[at].change_cosines[other].is_some_and(|cosine| cosine >= FAMILY);
        match families.iter_mut().find(|family| family.iter().all(is_like)) {
            Some(family) => family.push(at),
            None => families.push(vec![at]),
        }
    }
    let names = |family: Vec<usize>| family.into_iter().map(|at| all[at].name.as_str()).collect();
    families.into_iter().map(names).collect()
}

/// The change of each coefficient from the first objective's; 0 for a difference of rounding.
fn change(coefficients: &[f64], first: &[f64]) -> Vec<f64> {
    let largest = first.iter().fold(0.0, |largest: f64, c| largest.max(c.abs()));
    let change = |(c, first): (&f64, &f64)| {
        let change = c - first;
        if change.abs() <= TOLERANCE * largest { 0.0 } else { change }
    };
    coefficients.iter().zip(first).map(change).collect()
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The cosine of two vectors; none if one is 0.
fn cosine(a: &[f64], b: &[f64]) -> Option<f64> {
    let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let norms = norm(a) * norm(b);
    (norms > 0.0).then(|| (product / norms).clamp(-1.0, 1.0))
}
