//! The theory as text for a terminal.

use super::agreement::{Agreement, TheoryOfRun};
use crate::number::whole_percent;
use std::fmt::Write;

/// The agreement of each prediction with a run.
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

/// The predictions of a run, with its name.
pub fn of_run(theory: &TheoryOfRun) -> String {
    format!(
        "\n  {}\n\n{}\n  docs/concepts/entropy.md explains all of it\n",
        theory.run,
        of_predictions(theory)
    )
}

fn shown(number: Option<f64>, show: fn(f64) -> String) -> String {
    number.map_or_else(|| "n/a".into(), show)
}
