//! Alarms of runs that collapse.

use crate::training::{Bench, metrics, succeed};
use isentrope_lab::alarms;
use isentrope_lab::log::RunLog;

/// A learning rate that makes a policy of one response out of a policy of many within some steps.
const RECKLESS: [&str; 10] = [
    "run.steps=30",
    "optimizer.learning_rate=0.03",
    "optimizer.schedule=constant",
    "rollout.filter=false",
    "objective.covariance.method=none",
    "objective.loss=policy-gradient",
    "objective.entropy_bonus.coefficient=0",
    "rollout.temperature=1.5",
    "eval.every=0",
    "checkpoint.every=4",
];

#[test]
fn a_collapse_is_told_once_with_what_to_turn_and_a_resumed_run_tells_the_same() {
    let bench = Bench::train();
    let said = succeed(&mut bench.command("whole", &RECKLESS, &[]));
    let entropies: Vec<f64> =
        metrics(&bench.out("whole")).iter().filter_map(|line| line["policy/entropy"].as_f64()).collect();
    let collapsed = entropies.iter().position(|entropy| *entropy < 0.1 * entropies[0]).expect("a collapse");
    let alarms_of = |said: &str| -> Vec<String> {
        said.lines().filter(|line| line.contains("the entropy has collapsed")).map(str::to_owned).collect()
    };
    let told = alarms_of(&said);
    assert_eq!(told.len(), 1, "{said}");
    assert!(told[0].starts_with(&format!("note after step {}: ", collapsed + 1)), "{} {said}", collapsed + 1);
    assert!(
        told[0].contains("objective.covariance.method") && told[0].contains("optimizer.learning_rate"),
        "{told:?}"
    );
    // What comes in every step from then on is not told in every step.
    assert!(said.matches("there is nothing to learn from in this step").count() <= 2, "{said}");
    // The finished log has the same alarms.
    let log = RunLog::open(&bench.out("whole")).unwrap();
    let of_log: Vec<u64> = alarms::of_log(&log)
        .into_iter()
        .filter(|(_, alarm)| alarm.kind == alarms::Kind::Entropy)
        .map(|(step, _)| step)
        .collect();
    assert_eq!(of_log, [collapsed as u64 + 1]);
    // A run that is resumed after it does not begin anew with a start that has collapsed.
    let step = (collapsed + 4) / 4 * 4;
    let first = succeed(&mut bench.command(
        "parts",
        &[&RECKLESS[1..], &[&format!("run.steps={step}")]].concat(),
        &[],
    ));
    let second = succeed(&mut bench.command("parts", &RECKLESS, &["--resume"]));
    assert_eq!((alarms_of(&first), alarms_of(&second)), (told, Vec::new()), "{first}{second}");
}
