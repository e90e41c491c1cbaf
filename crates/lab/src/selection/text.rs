//! The comparison as text for a terminal.

use super::pick::Method;
use super::{Compared, Grouping, Quadrants, SelectionOfRun};
use crate::number::{fixed, number, whole_percent};
use crate::visible::visible;
use std::fmt::Write;

/// Most steps that have a row.
const MOST_STEPS: usize = 12;
/// Most sizes of micro-batches that have a column in the table of steps.
const MOST_SIZES: usize = 6;

/// Two tables: all steps together, and how much is common in single steps.
pub fn text(selection: &SelectionOfRun) -> String {
    let SelectionOfRun { run, rule, updates, responses, tokens, .. } = selection;
    let how = match rule.method {
        Method::KlCov => "the tokens of largest covariance".to_owned(),
        Method::ClipCov => {
            format!(
                "drawn from tokens whose covariance is between {} and {}",
                number(rule.band[0]),
                number(rule.band[1])
            )
        }
    };
    let mut text = format!(
        "{}: what {} picks, {}: {how}\n  {}, {} with {} and {} in all\n",
        visible(run),
        rule.method.name(),
        fraction(selection),
        several(selection.steps.len(), "step"),
        several(*updates, "update"),
        several(*responses, "response"),
        several(*tokens, "token")
    );
    for (count, why) in [
        (selection.incomplete, "not all responses are recorded"),
        (selection.without_signal, "all advantages are equal"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {} left out: {why}", several(count, "update"));
        }
    }
    for heads in [
        [
            "",
            "tokens",
            "times",
            "in",
            "kept of the",
            "mean co-",
            "unlikely,",
            "unlikely,",
            "likely,",
            "likely,",
        ],
        [
            "picked inside",
            "picked",
            "as many",
            "common",
            "minibatch's",
            "variance",
            "worse",
            "better",
            "worse",
            "better",
        ],
    ] {
        let [scope, picked, times, common, kept, covariance, quadrants @ ..] = heads;
        let [first, second, third, fourth] = quadrants;
        let _ = writeln!(
            text,
            "{}  {scope:<22}{picked:>8}{times:>9}{common:>8}{kept:>13}{covariance:>10} |{first:>10}{second:>10}{third:>9}\
             {fourth:>9}",
            if scope.is_empty() { "\n" } else { "" }
        );
    }
    for row in &selection.all {
        text += &line(row);
    }
    if selection.steps.len() > 1 {
        text += &by_step(selection);
    }
    text.push('\n');
    for said in reading(selection) {
        let _ = writeln!(text, "  {said}");
    }
    text
}

/// The fraction of the tokens, or from where to where it goes.
fn fraction(selection: &SelectionOfRun) -> String {
    let of_steps = || selection.steps.iter().map(|step| step.fraction);
    let least = of_steps().fold(f64::INFINITY, f64::min);
    let most = of_steps().fold(0.0, f64::max);
    if of_steps().all(|fraction| fraction == selection.rule.fraction) {
        return format!("fraction {} of the tokens", number(selection.rule.fraction));
    }
    format!(
        "of each step the fraction of the tokens that was in force, {} to {}",
        number(least),
        number(most)
    )
}

fn line(row: &Compared) -> String {
    let scope = match row.micro_batch {
        None => "the whole minibatch".to_owned(),
        Some(size) => match row.grouping {
            Some(Grouping::Mixed) => format!("each {size}, mixed"),
            _ => format!("each {}", several(size, "response")),
        },
    };
    let share = |share: Option<f64>| share.map_or("-".to_owned(), whole_percent);
    let quadrant = |of: fn(&Quadrants) -> f64| share(row.quadrants.as_ref().map(of));
    format!(
        "  {scope:<22}{:>8}{:>9}{:>8}{:>13}{:>10} |{:>10}{:>10}{:>9}{:>9}\n",
        count(row.picked),
        row.times.map_or("-".to_owned(), |times| fixed(times, 2)),
        share(row.overlap),
        share(row.kept),
        row.covariance.map_or("-".to_owned(), |covariance| fixed(covariance, 3)),
        quadrant(|q| q.unlikely_worse),
        quadrant(|q| q.unlikely_better),
        quadrant(|q| q.likely_worse),
        quadrant(|q| q.likely_better)
    )
}

/// How much is in common in some of the steps, evenly chosen.
fn by_step(selection: &SelectionOfRun) -> String {
    let consecutive = selection.all.iter().filter(|row| row.grouping == Some(Grouping::Consecutive));
    let sizes: Vec<usize> = consecutive.filter_map(|row| row.micro_batch).rev().take(MOST_SIZES).collect();
    if sizes.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n  tokens picked and share in common with the whole minibatch, by step\n    step   minibatch",
    );
    for size in &sizes {
        let _ = write!(text, " {:>15}", format!("each {size}"));
    }
    text.push('\n');
    let steps = selection.steps.len();
    let shown = steps.min(MOST_STEPS);
    for i in 0..shown {
        let step = &selection.steps[if shown > 1 { i * (steps - 1) / (shown - 1) } else { 0 }];
        let picked = |row: &Compared| count(row.picked);
        let _ =
            write!(text, "  {:>6} {:>11}", step.step, step.compared.first().map_or(String::new(), picked));
        for size in &sizes {
            let is_its = |row: &&Compared| {
                row.micro_batch == Some(*size) && row.grouping == Some(Grouping::Consecutive)
            };
            let row = step.compared.iter().find(is_its);
            let cell = row.map_or(String::new(), |row| {
                format!("{} {:>6}", picked(row), row.overlap.map_or("-".to_owned(), whole_percent))
            });
            let _ = write!(text, " {cell:>15}");
        }
        text.push('\n');
    }
    text
}

/// How the tables are to be read.
fn reading(selection: &SelectionOfRun) -> Vec<&'static str> {
    let mut said = vec![
        "The minibatch is all responses of an update: what the paper means, and what this program picks from. The reference",
        "implementation centres and picks inside each micro-batch, and at least one token of each. Micro-batches are responses",
        "in the order of the records, where those to one prompt stand together; mixed, they are dealt in random order (the mean",
        "over 20 orders), nearer to the reference, which balances lengths and so mixes prompts. Covariances and quadrants are",
        "those of the whole minibatch, in nats. In common: tokens that both pick, over those that either picks; kept: the share",
        "of the minibatch's that are picked here too. On the right, who is picked: likely or unlikely tokens of better or worse",
        "responses.",
    ];
    if selection.rule.method == Method::KlCov && selection.all.iter().any(|row| row.arbitrary > 0.0) {
        said.extend([
            "Where all tokens have one advantage, as inside one response of GRPO, every covariance is 0 and any token is as good",
            "as another: there the numbers are those of a random choice.",
        ]);
    }
    if selection.rule.method == Method::ClipCov {
        said.extend([
            "Clip-Cov draws at random: in common and kept are of the tokens that it draws from, and picked is what is drawn on",
            "average. It leaves out tokens that ratio clipping has left no gradient: the clip that counts is the recorded run's.",
        ]);
    }
    said
}

/// A number of tokens, which an average may have parts of.
fn count(tokens: f64) -> String {
    let is_whole = (tokens - tokens.round()).abs() < 1e-6;
    fixed(tokens, usize::from(!is_whole))
}

fn several(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
