//! The table of steps. Its columns are chosen once, at its heading.

use isentrope_lab::show::duration;
use isentrope_train::metrics::Metrics;
use isentrope_train::observer::StepReport;
use std::fmt::Write;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Rows under one heading.
const HEADED: usize = 25;
/// The space between columns.
const GAP: usize = 2;
/// Stands for a number that a step has not measured.
const MISSING: &str = "-";

/// The rows of a run's steps.
#[derive(Default)]
pub struct Steps {
    columns: Vec<Column>,
    rows: usize,
}

/// A column. Values are right-aligned below its name.
#[derive(Clone)]
struct Column {
    name: &'static str,
    width: usize,
    value: Value,
    /// On a narrow terminal, columns of higher numbers are left out first.
    rank: u8,
}

/// The source of a column's values.
#[derive(Clone, Copy)]
enum Value {
    Step,
    Metric(&'static str, Format),
    Timing(&'static str, Format),
    Left,
}

#[derive(Clone, Copy)]
enum Format {
    Digits(usize),
    Scientific,
}

impl Steps {
    /// The lines of a step: a row, below a heading now and then. `terminal` is the width of the
    /// terminal, if it is one.
    pub fn lines(
        &mut self,
        step: &StepReport<'_>,
        left: Option<Duration>,
        terminal: Option<usize>,
    ) -> Vec<String> {
        if self.columns.is_empty() {
            self.columns = fitting(columns(step), terminal);
        }
        let mut lines = Vec::new();
        if self.rows.is_multiple_of(HEADED) {
            lines.push(row(self
                .columns
                .iter()
                .map(|column| (column.width, column.name.to_owned()))));
        }
        self.rows += 1;
        lines.push(row(self.columns.iter().map(|column| (column.width, column.cell(step, left)))));
        lines
    }
}

impl Column {
    fn cell(&self, step: &StepReport<'_>, left: Option<Duration>) -> String {
        let number = |metrics: &Metrics, name, format: Format| {
            metrics
                .get(name)
                .map_or_else(|| MISSING.to_owned(), |value| format.show(value, self.width))
        };
        match self.value {
            Value::Step => format!("{}/{}", step.step, step.steps),
            Value::Metric(name, format) => number(step.metrics, name, format),
            Value::Timing(name, format) => number(step.timings, name, format),
            Value::Left => {
                left.map_or_else(|| MISSING.to_owned(), |left| duration(left.as_secs_f64()))
            }
        }
    }
}

impl Format {
    /// The number, in scientific notation if it does not fit `width` columns.
    fn show(self, value: f64, width: usize) -> String {
        let text = match self {
            Self::Digits(digits) => format!("{value:.digits$}"),
            Self::Scientific => format!("{value:.1e}"),
        };
        if text.len() > width { format!("{value:.1e}") } else { text }
    }
}

/// All columns of a kind of training.
fn columns(step: &StepReport<'_>) -> Vec<Column> {
    let metric = |name, width, rank, key, format| Column {
        name,
        width,
        rank,
        value: Value::Metric(key, format),
    };
    let timing = |name, rank, key| Column {
        name,
        width: name.len(),
        rank,
        value: Value::Timing(key, Format::Digits(0)),
    };
    let counts = format!("{0}/{0}", step.steps).len().max(7);
    let mut columns = vec![Column { name: "step", width: counts, rank: 0, value: Value::Step }];
    let is_supervised = step.metrics.iter().any(|(name, _)| name.starts_with("sft/"));
    if is_supervised {
        columns.push(metric("loss", 8, 0, "sft/loss", Format::Digits(4)));
        columns.push(metric("entropy", 8, 2, "sft/entropy", Format::Digits(4)));
    } else {
        columns.push(metric("reward", 8, 0, "reward/mean", Format::Digits(3)));
        columns.push(metric("entropy", 8, 1, "policy/entropy", Format::Digits(4)));
        columns.push(metric("cov", 8, 5, "cov/mean", Format::Scientific));
        columns.push(metric("length", 8, 3, "response/length_mean", Format::Digits(1)));
    }
    columns.push(metric("grad", 8, 4, "grad/norm", Format::Digits(3)));
    if !is_supervised {
        columns.push(timing("rollout tok/s", 6, "throughput/rollout_tokens_per_s"));
    }
    columns.push(timing("update tok/s", 7, "throughput/update_tokens_per_s"));
    columns.push(Column { name: "left", width: 11, rank: 2, value: Value::Left });
    columns
}

/// The most important columns for which a terminal has room.
fn fitting(mut columns: Vec<Column>, terminal: Option<usize>) -> Vec<Column> {
    let Some(terminal) = terminal else { return columns };
    let width = |columns: &[Column]| {
        columns.iter().map(|c| c.width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    while width(&columns) > terminal && columns.len() > 1 {
        let last = (0..columns.len()).max_by_key(|&i| columns[i].rank).unwrap_or(0);
        columns.remove(last);
    }
    columns
}

fn row(cells: impl Iterator<Item = (usize, String)>) -> String {
    let mut line = String::new();
    for (i, (width, text)) in cells.enumerate() {
        let gap = if i > 0 { GAP } else { 0 };
        let space = gap + width.saturating_sub(text.width());
        let _ = write!(line, "{:space$}{text}", "");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(values: &[(&str, f64)]) -> Metrics {
        let mut metrics = Metrics::default();
        for (name, value) in values {
            metrics.set(*name, *value);
        }
        metrics
    }

    fn lines(
        steps: &mut Steps,
        number: u64,
        of: &[(&str, f64)],
        speed: &[(&str, f64)],
        wide: Option<usize>,
    ) -> Vec<String> {
        let (metrics, timings) = (metrics(of), metrics(speed));
        let report = StepReport {
            step: number,
            steps: 2000,
            metrics: &metrics,
            timings: &timings,
            remarks: &[],
        };
        steps.lines(&report, (number > 1).then(|| Duration::from_secs(90)), wide)
    }

    const FULL: [(&str, f64); 5] = [
        ("reward/mean", 0.5),
        ("policy/entropy", 1.25),
        ("cov/mean", -0.000_123),
        ("response/length_mean", 34.0),
        ("grad/norm", 123_456_789.0),
    ];

    #[test]
    fn a_row_has_every_column_of_its_heading_whatever_the_step_lacks() {
        let mut steps = Steps::default();
        // The first step lacks numbers that later steps have, and has others.
        let mut all = lines(&mut steps, 1, &FULL[..2], &[], None);
        all.extend(lines(
            &mut steps,
            2,
            &FULL,
            &[("throughput/rollout_tokens_per_s", 4321.0)],
            None,
        ));
        assert_eq!(
            all,
            [
                "     step    reward   entropy       cov    length      grad  rollout tok/s  update tok/s         left",
                "   1/2000     0.500    1.2500         -         -         -              -             -            -",
                "   2/2000     0.500    1.2500   -1.2e-4      34.0     1.2e8           4321             -         90 s",
            ]
        );
        let supervised = lines(&mut Steps::default(), 1, &[("sft/loss", 2.5)], &[], None);
        let names: Vec<&str> = supervised[0].split_whitespace().collect();
        assert_eq!(names, ["step", "loss", "entropy", "grad", "update", "tok/s", "left"]);
        assert_eq!(supervised[1].split_whitespace().count(), 6);
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_keeps_them() {
        for wide in 20..140 {
            let mut steps = Steps::default();
            let mut all = lines(&mut steps, 1, &FULL[..1], &[], Some(wide));
            for number in 2..60 {
                // A terminal that is made wider or narrower changes nothing below the heading.
                all.extend(lines(&mut steps, number, &FULL, &[], Some(200 - wide)));
            }
            assert_eq!(all.iter().filter(|line| line.contains("reward")).count(), 3);
            assert!(
                all.iter().all(|line| line.width() == all[0].width() && line.width() <= wide),
                "{all:#?}"
            );
        }
        let narrow = lines(&mut Steps::default(), 1, &FULL, &[], Some(40));
        assert_eq!(narrow[0].split_whitespace().collect::<Vec<_>>(), ["step", "reward", "entropy"]);
    }
}
