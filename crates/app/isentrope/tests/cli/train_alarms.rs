//! Alarms of runs that collapse.

use crate::program::Scratch;
use crate::training::{Bench, base, metrics, problems, succeed};
use isentrope_lab::alarms;
use isentrope_lab::log::RunLog;

/// One problem at a learning rate at which the policy soon has one response to it.
fn reckless() -> Bench {
    let scratch = Scratch::new();
    let problem = scratch.lines("problem.jsonl", &problems()[..1]);
    let text = format!(
        r#"
run.steps = 40
run.seed = 3
model.path = {:?}
data.files = [{problem:?}]
[rollout]
prompts = 4
responses = 16
max_tokens = 16
[update]
prompts = 2
epochs = 2
[optimizer]
learning_rate = 1e-3
schedule = "constant"
[eval]
every = 0
[checkpoint]
every = 4
"#,
        base()
    );
    Bench::new(scratch, "train", &text)
}

#[test]
#[ignore = "deep: trains until the policy collapses"]
fn a_collapse_is_told_with_what_to_turn_and_a_resumed_run_tells_the_same() {
    let bench = reckless();
    let said = succeed(bench.command("whole", "", ""));
    let entropies: Vec<f64> = metrics(&bench.out("whole"))
        .iter()
        .filter_map(|line| line["policy/entropy"].as_f64())
        .collect();
    let collapsed =
        entropies.iter().position(|entropy| *entropy < 0.1 * entropies[0]).expect("a collapse");
    let alarms_of = |said: &str| -> Vec<String> {
        said.lines()
            .filter(|line| line.contains("the entropy has collapsed"))
            .map(str::to_owned)
            .collect()
    };
    let told = alarms_of(&said);
    assert!(!told.is_empty(), "{said}");
    assert!(
        told[0].starts_with(&format!("note after step {}: ", collapsed + 1)),
        "{} {said}",
        collapsed + 1
    );
    assert!(
        told[0].contains("objective.covariance.method")
            && told[0].contains("optimizer.learning_rate"),
        "{told:?}"
    );
    // A note that holds in every step from then on is told once.
    assert!(said.matches("there is nothing to learn from in this step").count() <= 1, "{said}");
    // The finished log has the same alarms.
    let log = RunLog::open(&bench.out("whole")).unwrap();
    let of_log: Vec<u64> = alarms::of_log(&log)
        .into_iter()
        .filter(|(_, alarm)| alarm.kind == alarms::Kind::Entropy)
        .map(|(step, _)| step)
        .collect();
    assert_eq!((of_log[0], of_log.len()), (collapsed as u64 + 1, told.len()));
    // A run that is resumed after it does not begin anew with a start that has collapsed.
    let step = (collapsed + 4) / 4 * 4;
    let first = succeed(bench.command("parts", format!("run.steps={step}"), ""));
    let second = succeed(bench.command("parts", "", "--resume"));
    let of_parts = [alarms_of(&first), alarms_of(&second)].concat();
    assert_eq!(of_parts, alarms_of(&said), "{first}{second}");
}
