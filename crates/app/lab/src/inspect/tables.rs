//! Tables of a step's tokens: table 1 of arXiv:2505.22617, and the tokens of large covariance.

use super::token::{Quadrant, Token};
use super::{Inspection, Kind};
use crate::table::{Table, cell};
use crate::visible::visible;
use std::collections::HashMap;

/// The shares of top tokens in table 1, which has their mean covariances.
pub const TOP_FRACTIONS: [f64; 6] = [2e-4, 2e-3, 2e-2, 0.2, 0.5, 1.0];
/// Table 1 of arXiv:2505.22617: Qwen2.5-7B, first step, in nats.
pub const PAPER: [f64; 6] = [5.654, 3.112, 1.385, 0.351, 0.152, 0.003];
/// The metrics with the same numbers of a whole step.
pub(super) const METRICS: [&str; 6] = [
    "cov/top_0.02_percent",
    "cov/top_0.2_percent",
    "cov/top_2_percent",
    "cov/top_20_percent",
    "cov/top_50_percent",
    "cov/mean",
];
/// The shares that are looked at more closely, as places in [`TOP_FRACTIONS`].
const CLOSER: [usize; 4] = [1, 2, 3, 5];
/// The share of largest covariances whose tokens and positions are listed.
const TOP: f64 = 2e-2;
/// Most tokens that a table names.
const NAMED: usize = 15;
/// Characters of a token that are quoted.
const QUOTED: usize = 60;

/// All tables of a step, in the order in which they are shown.
pub fn tables(inspection: &Inspection) -> Vec<Table> {
    let tokens = inspection.tokens();
    let mut ranked: Vec<&Token<'_>> =
        tokens.iter().filter(|token| token.covariance.is_finite()).collect();
    ranked.sort_by(|a, b| b.covariance.total_cmp(&a.covariance));
    let mut tables =
        vec![covariances(inspection, &ranked), who(&ranked), positions(&ranked), by_token(&ranked)];
    tables.extend(inspection.method.iter().flat_map(|method| method.tables.clone()));
    tables
}

/// The number of tokens in a fraction of n: rounded down, at least one, at most all.
fn count(fraction: f64, n: usize) -> usize {
    ((fraction * n as f64) as usize).max(1).min(n)
}

fn percent(fraction: f64) -> String {
    format!("{} %", (fraction * 1e4).round() / 100.0)
}

/// The share of items for which `is` holds, in percent.
fn share<T>(of: &[T], is: impl Fn(&T) -> bool) -> String {
    match of.len() {
        0 => "-".into(),
        n => format!("{:.1}", 100.0 * of.iter().filter(|item| is(item)).count() as f64 / n as f64),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values.filter(|value| value.is_finite()) {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

fn covariances(inspection: &Inspection, ranked: &[&Token<'_>]) -> Table {
    let top = |fraction| &ranked[..count(fraction, ranked.len())];
    let recorded =
        TOP_FRACTIONS.map(|fraction| cell(mean(top(fraction).iter().map(|t| t.covariance)), 3));
    Table {
        title: "Mean covariance of the top tokens by covariance, in nats".into(),
        columns: TOP_FRACTIONS.map(percent).to_vec(),
        rows: vec![
            ("recorded tokens".into(), recorded.to_vec()),
            (
                "how many".into(),
                TOP_FRACTIONS.map(|fraction| top(fraction).len().to_string()).to_vec(),
            ),
            ("the whole step".into(), inspection.whole_step.map(|of| cell(of, 3)).to_vec()),
            ("Qwen2.5-7B, step 1".into(), PAPER.map(|value| cell(Some(value), 3)).to_vec()),
        ],
        note:
            "Covariance of a token: (log-prob - mean) (advantage - mean), means over its update; a \
             top share is rounded down, one token at least. The whole step is the mean over its \
             updates (cov/top_* in metrics.jsonl). Qwen2.5-7B: table 1 of arXiv:2505.22617."
                .into(),
    }
}

fn who(ranked: &[&Token<'_>]) -> Table {
    let tops = CLOSER.map(|at| &ranked[..count(TOP_FRACTIONS[at], ranked.len())]);
    let row = |name: &str, is: &dyn Fn(&Token<'_>) -> bool| {
        (name.to_owned(), tops.map(|top| share(top, |token| is(token))).to_vec())
    };
    let mut rows: Vec<_> =
        Quadrant::ALL.iter().map(|&q| row(q.name(), &|token| token.quadrant == Some(q))).collect();
    rows.extend(Kind::ALL.iter().map(|&kind| row(kind.name(), &|token| token.kind == kind)));
    rows.push(row("picked by the covariance method", &|token| token.selected));
    rows.push(row("ratio clipped", &|token| token.clipped));
    Table {
        title: "Who the top tokens are, in percent of them".into(),
        columns: CLOSER.map(|at| percent(TOP_FRACTIONS[at])).to_vec(),
        rows,
        note: "Unlikely: log-prob below the mean of the update; worse: advantage below the mean."
            .into(),
    }
}

fn positions(ranked: &[&Token<'_>]) -> Table {
    let top = &ranked[..count(TOP, ranked.len())];
    let row = |name: String, of: &[&Token<'_>]| {
        (name, (0..10).map(|tenth| share(of, |token| token.tenth() == tenth)).collect())
    };
    Table {
        title: "Where in the response they stand, in percent of them by tenths".into(),
        columns: (1..=10).map(|tenth| tenth.to_string()).collect(),
        rows: vec![row(format!("top {}", percent(TOP)), top), row("all".into(), ranked)],
        note: String::new(),
    }
}

/// Sums over the tokens of one text.
#[derive(Default)]
struct TextSums {
    count: usize,
    top: usize,
    covariance: f64,
    entropy: f64,
    change: Vec<f64>,
}

fn by_token(ranked: &[&Token<'_>]) -> Table {
    let top = count(TOP, ranked.len());
    let mut same: HashMap<(&str, u32), TextSums> = HashMap::new();
    for (rank, token) in ranked.iter().enumerate() {
        let of = same
            .entry((token.piece, if token.piece.is_empty() { token.id } else { 0 }))
            .or_default();
        of.count += 1;
        of.top += usize::from(rank < top);
        of.covariance += token.covariance;
        of.entropy += token.entropy;
        of.change.push(token.change);
    }
    let mut rows: Vec<_> = same.into_iter().filter(|(_, of)| of.top > 0).collect();
    rows.sort_by(|(a, x), (b, y)| {
        (y.top.cmp(&x.top)).then(y.covariance.total_cmp(&x.covariance)).then(a.cmp(b))
    });
    let others = rows.len().saturating_sub(NAMED);
    rows.truncate(NAMED);
    let cells = |of: &TextSums| {
        let n = of.count as f64;
        vec![
            of.top.to_string(),
            of.count.to_string(),
            cell(Some(of.covariance / n), 3),
            cell(Some(of.entropy / n), 3),
            cell(mean(of.change.iter().copied()), 3),
        ]
    };
    Table {
        title: format!("Most frequent tokens in the top {}", percent(TOP)),
        columns: ["in top", "in all", "mean cov", "entropy", "change"].map(Into::into).to_vec(),
        rows: rows.iter().map(|((piece, id), of)| (quoted(piece, *id), cells(of))).collect(),
        note: match others {
            0 => "Means are over all tokens of the text; change is that of the log-prob over the \
                  step."
                .into(),
            n => format!(
                "And {n} others. Means are over all tokens of the text; change is that of the \
                 log-prob over the step."
            ),
        },
    }
}

/// A token's text in quotes, on one line and cut if long; the id of a token without text.
pub(crate) fn quoted(piece: &str, id: u32) -> String {
    if piece.is_empty() {
        return format!("token {id}, no text");
    }
    let kept: String = piece.chars().take(QUOTED).collect();
    let rest = if kept.len() < piece.len() { "…" } else { "" };
    format!("\"{}{rest}\"", visible(&kept).replace('\n', "\\n").replace('\t', "\\t"))
}
