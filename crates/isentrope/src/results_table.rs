//! Results of evaluations as tables for the terminal.

use isentrope_train::evaluation::bootstrap::Estimate;
use isentrope_train::evaluation::paired::Comparison;
use isentrope_train::evaluation::results::{Report, Summary};
use std::fmt::Write;
use std::path::Path;

/// A directory's benchmarks, a block each, and their mean.
pub fn report(report: &Report, dir: &Path) -> String {
    let mut text = String::new();
    for (name, summary) in &report.benchmarks {
        let Summary { problems, samples, estimates, verdicts } = summary;
        let each = if *samples == 1 { "1 response each".into() } else { format!("{samples} responses each") };
        let _ = writeln!(text, "\n  {name}: {problems} problems, {each}");
        for row in rows(*samples) {
            if let Some(estimate) = estimates.get(&row) {
                let _ = writeln!(text, "    {row:20} {}", shown(&row, estimate));
            }
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
        let _ = writeln!(text, "\n  mean of the {count} benchmarks' mean@k, each weighing the same");
        let _ = writeln!(text, "    {:20} {}", "mean_of_benchmarks", shown("mean", mean));
    }
    let _ = writeln!(text, "\n  in brackets: 95 % intervals, bootstrap over problems");
    let _ = writeln!(text, "  kept in {} (results.json, responses/, manifest.json)", dir.display());
    text
}

/// What is shown of a benchmark, in order.
fn rows(samples: usize) -> Vec<String> {
    let mut rows = vec![format!("mean@{samples}")];
    if samples > 1 {
        rows.extend(isentrope_train::evaluation::summary::ks(samples).iter().map(|k| format!("pass@{k}")));
        rows.push(format!("maj@{samples}"));
    }
    rows.extend(["truncated", "length_mean", "entropy"].map(str::to_owned));
    rows
}

/// A number with its interval: a share in percent, a length in tokens, an entropy in nats.
fn shown(name: &str, estimate: &Estimate) -> String {
    let Estimate { value, low, high } = estimate;
    match name {
        "length_mean" => format!("{value:8.1}    [{low:.1}, {high:.1}]"),
        "entropy" => format!("{value:8.4}    [{low:.4}, {high:.4}]"),
        _ => format!("{:8.2} %  [{:.2}, {:.2}]", 100.0 * value, 100.0 * low, 100.0 * high),
    }
}

/// Differences between two directories, a block per benchmark.
pub fn comparison(comparisons: &[(String, Comparison)], old: &Path, new: &Path) -> String {
    let mut text = format!("\n  {} against {}\n", new.display(), old.display());
    for (name, c) in comparisons {
        let Comparison { problems, old, new, difference: d, better, worse, p, exact } = c;
        let same = problems - better - worse;
        let percent = |x: f64| 100.0 * x;
        let how = if *exact { "exact" } else { "100,000 assignments drawn" };
        let _ = writeln!(text, "\n  {name}: {problems} problems in both");
        let _ =
            writeln!(text, "    {:20} {:8.2} % -> {:.2} %", "mean accuracy", percent(*old), percent(*new));
        let _ = writeln!(
            text,
            "    {:20} {:+8.2} points  [{:+.2}, {:+.2}]",
            "difference",
            percent(d.value),
            percent(d.low),
            percent(d.high)
        );
        let _ = writeln!(text, "    {:20} {better} better, {worse} worse, {same} the same", "problems");
        let _ = writeln!(text, "    {:20} {p:8.4}  ({how})", "p-value");
    }
    let _ = writeln!(
        text,
        "\n  in brackets: 95 % intervals, paired bootstrap over problems; p-value: two-sided sign-flip permutation test"
    );
    text
}
