//! Results of evaluations as tables for the terminal.

use crate::messages::counted;
use isentrope_evaluation::results::{BenchmarkComparison, BenchmarkSummary, Comparisons, Report};
use isentrope_evaluation::statistics::{Estimate, PairedTest, ks};
use std::fmt::Write;
use std::path::Path;

/// A directory's benchmarks, a block each, and their mean.
pub fn report(report: &Report, dir: &Path) -> String {
    let mut text = String::new();
    for (name, summary) in &report.benchmarks {
        let BenchmarkSummary {
            problems,
            samples,
            decoding,
            estimates,
            is_graded,
            verdicts,
            metrics,
            note,
        } = summary;
        let each = counted(*samples, "response");
        let problems = counted(*problems, "problem");
        let decoding =
            decoding.as_ref().map_or_else(String::new, |decoding| format!(", {decoding}"));
        let _ = writeln!(text, "\n  {name}: {problems}, {each} each{decoding}");
        for row in rows(*samples, *is_graded) {
            let number =
                estimates.get(&row).map_or_else(|| format!("{:>8}", "n/a"), |e| shown(&row, e));
            let _ = writeln!(text, "    {row:20} {number}");
        }
        // Parts of the set; results.json has their other numbers.
        for (row, estimate) in estimates.iter().filter(|(row, _)| row.contains("/mean@")) {
            let _ = writeln!(text, "    {row:20} {}", shown(row, estimate));
        }
        // The verifier's own metrics, each in a unit of its own.
        for (row, estimate) in metrics {
            let _ = writeln!(text, "    {row:20} {}", plain(estimate));
        }
        if let Some(note) = note {
            let _ = writeln!(text, "    {note}");
        }
        if let Some(faults) = estimates.get("faults").filter(|faults| faults.value > 0.0) {
            let _ = writeln!(text, "    {:20} {}", "could not be judged", shown("faults", faults));
        }
        if let Some(failed) = estimates.get("failed") {
            let _ = writeln!(text, "    {:20} {}", "failed, so wrong", shown("failed", failed));
        }
        let counts: Vec<String> = verdicts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(v, count)| format!("{count} {v}"))
            .collect();
        let _ = writeln!(text, "    {:20} {}", "verdicts", counts.join(", "));
    }
    if let Some(mean) = &report.mean_of_benchmarks {
        let count = report.benchmarks.len();
        let _ =
            writeln!(text, "\n  mean of the {count} benchmarks' mean@k, each weighing the same");
        let _ = writeln!(text, "    {:20} {}", "mean_of_benchmarks", shown("mean", mean));
    }
    let _ = writeln!(text, "\n  in brackets: 95 % intervals, bootstrap over problems");
    let _ = writeln!(text, "  kept in {} (results.json, responses/, manifest.json)", dir.display());
    text
}

/// The rows of a benchmark, in order. Scores have a row only if they are graded, because scores of
/// 0 and 1 equal verdicts.
fn rows(samples: usize, is_graded: bool) -> Vec<String> {
    let mut rows = vec![format!("mean@{samples}")];
    if samples > 1 {
        rows.extend(ks(samples).iter().map(|k| format!("pass@{k}")));
        rows.push(format!("maj@{samples}"));
    }
    if is_graded {
        rows.push("score".to_owned());
    }
    rows.extend(["truncated", "length_mean", "entropy"].map(str::to_owned));
    rows
}

/// A number with its interval: a share in percent, a length in tokens, an entropy in nats, a score
/// without a unit.
fn shown(name: &str, estimate: &Estimate) -> String {
    let value = estimate.value;
    match name {
        "length_mean" => {
            format!("{value:8.1}    {}", interval(estimate, |end| format!("{end:.1}")))
        }
        "entropy" | "score" => plain(estimate),
        _ => {
            let interval = interval(estimate, |end| format!("{:.1}", 100.0 * end));
            format!("{:8.1} %  {interval}", 100.0 * value)
        }
    }
}

/// A number with its interval, without a unit.
fn plain(estimate: &Estimate) -> String {
    format!("{:8.4}    {}", estimate.value, interval(estimate, |end| format!("{end:.4}")))
}

/// The interval, unless it has no width.
fn interval(estimate: &Estimate, end: impl Fn(f64) -> String) -> String {
    if estimate.has_no_spread() {
        return "no spread".into();
    }
    format!("[{}, {}]", end(estimate.low), end(estimate.high))
}

/// Differences between two directories, a block per benchmark.
pub fn comparison(comparisons: &Comparisons, old: &Path, new: &Path) -> String {
    let mut text = format!("\n  {} against {}\n", new.display(), old.display());
    if comparisons.has_same_weights {
        text += "\n  both are of the same weights: whatever differs is by settings or by chance\n";
    }
    if !comparisons.settings.is_empty() {
        let _ = writeln!(text, "\n  settings that differ");
        for setting in &comparisons.settings {
            let _ = writeln!(text, "    {setting}");
        }
    }
    for (name, compared_here) in &comparisons.benchmarks {
        let BenchmarkComparison { decoding, accuracy, pass, majority, score } = compared_here;
        let decoding = match decoding {
            [Some(old), Some(new)] if old == new => format!(", {new}"),
            [Some(old), Some(new)] => format!(", {old} -> {new}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "\n  {name}: {} in both{decoding}",
            counted(accuracy.problems, "problem")
        );
        compared(&mut text, "mean accuracy", accuracy, 100.0, 1, [" %", " points"]);
        if let Some(score) = score {
            compared(&mut text, "mean score", score, 1.0, 4, ["", ""]);
        }
        for (name, test) in pass.iter().chain(majority) {
            in_two_lines(&mut text, name, test);
        }
    }
    let _ = writeln!(
        text,
        "\n  in brackets: 95 % intervals, paired bootstrap over problems; p-value: two-sided \
         sign-flip permutation test"
    );
    text
}

/// A comparison of shares, in fewer lines than [`compared`].
fn in_two_lines(text: &mut String, name: &str, comparison: &PairedTest) {
    let PairedTest { old, new, difference, p, exact, .. } = comparison;
    let [old, new, value] = [*old, *new, difference.value].map(|x| 100.0 * x);
    let interval = interval(difference, |end| format!("{:+.1}", 100.0 * end));
    let how = if *exact { ", exact" } else { "" };
    let _ = writeln!(text, "    {name:20} {old:8.1} % -> {new:.1} %");
    let _ = writeln!(
        text,
        "    {:20} {value:+8.1} points  {interval}, p-value {}{how}",
        "difference",
        p_value(*p)
    );
}

/// The lines of a comparison of numbers, which are multiplied by `scale` and shown with `digits`
/// digits and their units.
fn compared(
    text: &mut String,
    number: &str,
    comparison: &PairedTest,
    scale: f64,
    digits: usize,
    [unit, of_difference]: [&str; 2],
) {
    let PairedTest { problems, old, new, difference, better, worse, p, exact } = comparison;
    let [old, new, value] = [*old, *new, difference.value].map(|x| scale * x);
    let interval = interval(difference, |end| format!("{:+.digits$}", scale * end));
    let same = problems - better - worse;
    let how = if *exact { "exact" } else { "100,000 assignments drawn" };
    let _ = writeln!(text, "    {number:20} {old:8.digits$}{unit} -> {new:.digits$}{unit}");
    let _ = writeln!(text, "    {:20} {value:+8.digits$}{of_difference}  {interval}", "difference");
    let _ = writeln!(text, "    {:20} {better} better, {worse} worse, {same} the same", "problems");
    let _ = writeln!(text, "    {:20} {:>8}  ({how})", "p-value", p_value(*p));
}

/// A p-value, which is never 0.
fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}
