//! One objective beside another, token by token, for `isentrope inspect --method`.

use super::{NamedObjective, RecordedBatch, acts_by_entropy, change};
use crate::Result;
use crate::inspect::{Inspection, MethodView, Quadrant, Token, quoted};
use crate::table::{Table, cell};
use std::collections::HashMap;
use std::ops::Range;

/// Tokens that the table of the largest changes names.
const NAMED: usize = 15;

impl Inspection {
    /// Shows another objective on these tokens too, beside the plain one.
    ///
    /// # Errors
    /// When the records lack the numbers that it needs.
    pub fn add_method(&mut self, method: &NamedObjective, plain: &NamedObjective) -> Result<()> {
        let batch = RecordedBatch::of(self, method.compares_anew(&plain.settings))?;
        let made = batch.effect(method, &plain.settings)?;
        let first = batch.effect(plain, &plain.settings)?;
        let mut notes = batch.notes.clone();
        if made.acts_by_entropy {
            notes.push(acts_by_entropy(&made.name, "the tables do not show it"));
        }
        let places: HashMap<usize, Range<usize>> =
            batch.records.iter().copied().zip(batch.responses()).collect();
        let all = self.tokens();
        let tokens: Vec<&Token<'_>> =
            all.iter().filter(|token| places.contains_key(&token.record)).collect();
        let coefficients = [made.coefficients, first.coefficients];
        let names = [made.name, first.name];
        let mut tables = vec![sums(&batch, &names, &coefficients, &tokens)];
        let largest = largest(&names, &coefficients, &tokens);
        match largest.rows.is_empty() {
            true => notes.push(format!("{} treats no token otherwise than {}", names[0], names[1])),
            false => tables.push(largest),
        }
        self.notes.extend(notes);
        self.method = Some(MethodView { names, coefficients, places, tables });
        Ok(())
    }
}

/// Sums by quadrant.
fn sums(
    batch: &RecordedBatch,
    [method, plain]: &[String; 2],
    [made, first]: &[Vec<f64>; 2],
    tokens: &[&Token<'_>],
) -> Table {
    let changes = change(made, first);
    let [made_entropy, first_entropy] = [made, first].map(|of| batch.entropy_changes(of));
    let moved = first_entropy.as_ref().map(|of| of.iter().map(|x| x.abs()).sum::<f64>());
    let row = |name: &str, quadrant: Option<Quadrant>| {
        let own: Vec<usize> = (0..tokens.len())
            .filter(|&t| quadrant.is_none() || tokens[t].quadrant == quadrant)
            .collect();
        let size = |of: &[f64]| own.iter().map(|&t| of[t].abs()).sum::<f64>();
        let touched = own.iter().filter(|&&t| changes[t] != 0.0).count();
        let entropy = |of: &Option<Vec<f64>>| {
            let sum = of.as_ref().map(|of| own.iter().map(|&t| of[t]).sum::<f64>());
            cell(sum.zip(moved).map(|(sum, moved)| 100.0 * sum / moved), 2)
        };
        let share = 100.0 * touched as f64 / own.len() as f64;
        let cells = vec![
            own.len().to_string(),
            cell(Some(share), 1),
            cell(Some(size(made) / size(first)), 3),
            entropy(&first_entropy),
            entropy(&made_entropy),
        ];
        (name.to_owned(), cells)
    };
    let quadrants = Quadrant::ALL.iter().map(|&quadrant| row(quadrant.name(), Some(quadrant)));
    Table {
        title: format!("What {method} would have done"),
        columns: ["tokens", "touched", "weight", "before", "after"].map(Into::into).to_vec(),
        rows: std::iter::once(row("all", None)).chain(quadrants).collect(),
        note: format!(
            "In a further update on these responses, by the policy as it is after the step: \
             percent of tokens whose coefficient d(loss)/d(log-prob) is another than {plain}'s; \
             sizes of coefficients, {plain}'s being 1; first-order change of the entropy by \
             {plain} before and {method} after, in percent of the sizes of {plain}'s changes \
             summed over tokens."
        ),
    }
}

/// The tokens whose coefficients change most.
fn largest(
    [method, plain]: &[String; 2],
    [made, first]: &[Vec<f64>; 2],
    tokens: &[&Token<'_>],
) -> Table {
    let changes = change(made, first);
    let mut order: Vec<usize> = (0..tokens.len()).filter(|&t| changes[t] != 0.0).collect();
    order.sort_by(|&a, &b| changes[b].abs().total_cmp(&changes[a].abs()).then(a.cmp(&b)));
    order.truncate(NAMED);
    let row = |&t: &usize| {
        let token = tokens[t];
        let numbers = [token.logprob, token.entropy, token.advantage, first[t], made[t]];
        let cells = numbers.map(|number| cell(Some(number), 3)).to_vec();
        (quoted(token.piece, token.id), cells)
    };
    Table {
        title: format!("Tokens that {method} treats most differently"),
        columns: ["log-prob", "entropy", "advantage", "before", "after"].map(Into::into).to_vec(),
        rows: order.iter().map(row).collect(),
        note: format!(
            "Log-prob and entropy when sampled; coefficients times the number of tokens, by \
             {plain} before and {method} after."
        ),
    }
}
