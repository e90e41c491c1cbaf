//! The list of the metrics of runs.

use crate::number::number;
use crate::run::Run;
use crate::terminal::{GAP, Look, shown_width, table, wrapped};
use unicode_width::UnicodeWidthStr;

/// A list per run, side by side: name, first and last value, and the last value's step.
pub fn lines(runs: &[Run], look: &Look) -> Vec<String> {
    let blocks: Vec<Vec<String>> =
        runs.iter().map(|run| of_run(run, runs.len() > 1, look)).collect();
    look.beside(&blocks)
}

fn of_run(run: &Run, is_named: bool, look: &Look) -> Vec<String> {
    let names: Vec<String> = run.log.all().map(|(name, _)| look.clean(name)).collect();
    let rows: Vec<Vec<String>> = run
        .log
        .all()
        .map(|(_, series)| match (series.iter().next(), series.last()) {
            (Some((_, first)), Some((step, last))) => {
                vec![number(first), number(last), step.to_string()]
            }
            _ => ["never finite", "-", "-"].map(str::to_owned).into(),
        })
        .collect();
    let widest = names.iter().map(|name| name.width()).max().unwrap_or(0).max("metric".len());
    let numbers = table(look, &["first", "last", "step"].map(str::to_owned), &rows);
    let mut lines = Vec::new();
    if is_named {
        lines.extend(look.heading(&run.name));
    }
    if rows.is_empty() {
        lines.push("nothing measured yet".into());
        return lines;
    }
    let wide = numbers.iter().map(|line| shown_width(line)).max().unwrap_or(0);
    let is_narrow = widest + GAP + wide > look.width;
    for (name, numbers) in std::iter::once("metric".to_owned()).chain(names).zip(numbers) {
        if is_narrow {
            lines.extend(wrapped(&name, look.width));
            lines.push(format!("  {numbers}"));
        } else {
            let space = widest.saturating_sub(name.width()) + GAP;
            lines.push(format!("{name}{:space$}{numbers}", ""));
        }
    }
    lines
}
