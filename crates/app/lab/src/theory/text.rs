//! The theory as text for a terminal.

use super::agreement::{Agreement, TheoryOfRun};
use super::check::{Check, Step};
use crate::number::whole_percent;
use crate::text_plot::{Curve, TextPlot};
use std::fmt::Write;

/// Rows of the plot.
const ROWS: u16 = 18;

/// A table for each claim, and the errors of all of them over the step size, so many columns wide.
pub fn of_checks(checks: &[Check], width: u16, colors: bool) -> String {
    let mut text = String::new();
    for Check { name, update, formula, steps, slope, holds } in checks {
        let _ = writeln!(text, "\n  {name}: {update}\n  {formula}\n");
        let heads = ["step", "predicted dH", "actual dH", "mean error", "falls with"];
        let _ = writeln!(
            text,
            "    {:>8} {:>15} {:>15} {:>12} {:>12}",
            heads[0], heads[1], heads[2], heads[3], heads[4]
        );
        for Step { size, predicted, actual, error, power } in steps {
            let power = power.map_or_else(String::new, |power| format!("step^{power:.2}"));
            let _ = writeln!(
                text,
                "    {size:>8.0e} {predicted:>15.6e} {actual:>15.6e} {error:>12.2e} {power:>12}"
            );
        }
        let verdict = if *holds { "right to first order" } else { "NOT right to first order" };
        let _ = writeln!(text, "    the error falls with step^{slope:.3}: {verdict}");
    }
    let log = |x: f64| libm::log10(x);
    let curve = |check: &Check| Curve {
        name: check.name.to_owned(),
        points: check.steps.iter().map(|step| (log(step.size), log(step.error))).collect(),
        scattered: false,
    };
    let plot = TextPlot {
        x: "log10 of the step".into(),
        y: "log10 of the mean error".into(),
        curves: checks.iter().map(curve).collect(),
    };
    text.push('\n');
    plot.lines(width, ROWS, colors).iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    text
}

/// How well each prediction foresees a run.
pub fn of_predictions(theory: &TheoryOfRun) -> String {
    let TheoryOfRun { steps, entropy_change, predictions, unvarying, .. } = theory;
    let of_steps = if *steps == 1 { "1 step".into() } else { format!("{steps} steps") };
    let mut text = format!(
        "  theory of covariance: the entropy's change in {of_steps}, {entropy_change:+.4} nats in \
         all, as predicted by\n"
    );
    let line = |[name, correlation, same_sign, slope, share]: [&str; 5]| {
        format!("    {name:30} {correlation:>20} {same_sign:>5} {slope:>9} {share:>8}\n")
    };
    text += &line(["", "correlation, 95 %", "sign", "slope", "of c c"]);
    let named = predictions.iter().map(|(prediction, agreement)| (prediction.name, agreement));
    for (name, agreement) in
        named.chain(unvarying.iter().map(|(name, agreement)| (*name, agreement)))
    {
        let Agreement { correlation, correlation_interval, same_sign, slope, explained, .. } =
            agreement;
        let mut within = shown(*correlation, |x| format!("{x:+.2}"));
        if let Some([low, high]) = correlation_interval {
            let _ = write!(within, " [{low:+.2}, {high:+.2}]");
        }
        let slope = shown(*slope, |x| format!("{x:+.2e}"));
        let [same_sign, explained] = [same_sign, explained].map(|x| shown(*x, whole_percent));
        text += &line([name, &within, &same_sign, &slope, &explained]);
    }
    text += "    sign: steps with the same sign; of c c: share of the sum of squared changes.\n    \
             A theory says more than nothing where it beats \"the same at each step\".\n";
    text
}

/// The predictions of a run, and the contributions of prompts by accuracy.
pub fn of_run(theory: &TheoryOfRun) -> String {
    let mut text = format!("\n  {}\n\n{}\n", theory.run, of_predictions(theory));
    let _ = writeln!(text, "  by the share of correct responses to the prompt");
    let _ = writeln!(text, "{}", row(["", "dH a step", "prompts", "Cov(pi A)", ""]).trim_end());
    for bucket in &theory.buckets {
        let [change, covariance] = [bucket.entropy_change, bucket.group_covariance]
            .map(|x| shown(x, |x| format!("{x:+.2e}")));
        let prompts = format!("{:.0}", bucket.groups);
        let _ = writeln!(
            text,
            "{}",
            row([bucket.accuracy, &change, &prompts, &covariance, ""]).trim_end()
        );
    }
    let _ = writeln!(
        text,
        "\n  Cov(pi A): of log pi and pi A over the responses to a prompt; docs/concepts/entropy.md \
         explains all of it"
    );
    text
}

fn row([name, first, second, third, fourth]: [&str; 5]) -> String {
    format!("    {name:31} {first:>11} {second:>9} {third:>11} {fourth:>9}")
}

fn shown(number: Option<f64>, show: fn(f64) -> String) -> String {
    number.map_or_else(|| "n/a".into(), show)
}
