//! Alarms on planted runs.

use isentrope_lab::alarms::{Alarms, Kind, of_log};
use isentrope_lab::log::{Origin, RunLog};
use serde_json::{Map, Value, json};
use std::fs;

/// A log of a run directory with these rows, of steps from 1.
fn log(rows: &[Value]) -> RunLog {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("recipe.toml"), "").unwrap();
    let line = |(step, row): (u64, &Value)| {
        let mut line = Map::from_iter([("step".to_owned(), json!(step))]);
        line.extend(row.as_object().unwrap().clone());
        format!("{}\n", Value::Object(line))
    };
    let text: String = (1..).zip(rows).map(line).collect();
    fs::write(dir.path().join("metrics.jsonl"), text).unwrap();
    RunLog::open(dir.path()).unwrap()
}

/// When which alarms are said.
fn said(rows: &[Value]) -> Vec<(u64, Kind)> {
    of_log(&log(rows)).into_iter().map(|(step, alarm)| (step, alarm.kind)).collect()
}

fn series(name: &str, values: &[f64]) -> Vec<Value> {
    values.iter().map(|value| json!({name: value})).collect()
}

#[test]
fn a_collapse_of_entropy_is_said_once_until_it_has_recovered() {
    let healthy = [2.0, 1.8, 1.5, 1.0, 0.5, 0.3, 0.21];
    assert_eq!(said(&series("policy/entropy", &healthy)), []);
    let collapsed = [&healthy[..], &[0.19, 0.03, 0.21, 0.03, 0.0, 0.001]].concat();
    let rows = series("policy/entropy", &collapsed);
    assert_eq!(said(&rows), [(8, Kind::Entropy)]);
    let text = &of_log(&log(&rows))[0].1.text;
    for part in [
        "policy/entropy is 0.190 nats, 10 % of the 2.000 it was in step 1.",
        "objective.covariance.method",
        "objective.clip_high",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A short recovery is none, ten steps are.
    let again = |well: usize| {
        said(&series("policy/entropy", &[&collapsed[..], &vec![1.0; well], &[0.1; 3]].concat()))
    };
    assert_eq!((again(9).len(), again(10)), (1, vec![(8, Kind::Entropy), (24, Kind::Entropy)]));
    // The start is the first step that has an entropy, and what is not finite is no entropy.
    let rows = [
        json!({"eval/a/entropy": 9.0}),
        json!({"policy/entropy": null}),
        json!({"policy/entropy": 1.0}),
        json!({"policy/entropy": 0.09}),
    ];
    assert_eq!(said(&rows), [(4, Kind::Entropy)]);
    // An entropy that is not above 0 has no shares.
    let rows = series("policy/entropy", &[0.0, -0.5, -1.0, 2.0, 1.9, 0.1]);
    let alarms = of_log(&log(&rows));
    let [(6, alarm)] = &alarms[..] else { panic!("{alarms:?}") };
    assert!(alarm.text.contains("5 % of the 2.000 it was in step 4"), "{}", alarm.text);
}

#[test]
fn an_entropy_that_was_asked_for_is_no_collapse() {
    let row = |(entropy, target): (f64, f64)| {
        json!({"policy/entropy": entropy,
        "entropy/target": target})
    };
    let rows = |pairs: &[(f64, f64)]| pairs.iter().copied().map(row).collect::<Vec<_>>();
    let start = (2.0, 0.1);
    assert_eq!(said(&rows(&[start, (0.15, 0.1), (0.11, 0.1), (0.091, 0.1), (0.1, 0.1)])), []);
    // Below it by more than a tenth it is one; above a tenth of the start it is none, whatever the
    // target.
    assert_eq!(said(&rows(&[start, (0.3, 1.0), (0.089, 0.1), (0.05, 0.1)])), [(3, Kind::Entropy)]);
    let text = &of_log(&log(&rows(&[start, (0.05, 0.1)])))[0].1.text;
    for part in [
        "policy/entropy is 0.050 nats, 2 % of the 2.000",
        "Its target of 0.100 nats (objective.covariance.target_entropy or \
         objective.entropy_bonus.target) is not held",
        "objective.covariance.controller.max",
        "docs/concepts/entropy.md",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("clip-cov"), "{text}");
    // To be held again is to be well, and then a second collapse is one.
    let again = [&[start, (0.05, 0.1)][..], &[(0.1, 0.1); 10], &[(0.05, 0.1)]].concat();
    assert_eq!(said(&rows(&again)), [(2, Kind::Entropy), (13, Kind::Entropy)]);
    // Without a target it is named as a remedy.
    let text = &of_log(&log(&series("policy/entropy", &[2.0, 0.1])))[0].1.text;
    assert!(
        text.contains("objective.covariance.target_entropy")
            && text.contains("docs/concepts/entropy.md"),
        "{text}"
    );
}

#[test]
fn responses_that_are_nearly_all_cut_off_are_said() {
    assert_eq!(
        said(&series("response/truncated", &[0.5, 0.9, 0.91, 0.99, 0.85, 0.95])),
        [(3, Kind::Truncation)]
    );
    assert_eq!(said(&series("response/truncated", &[1.0])), [(1, Kind::Truncation)]);
}

#[test]
fn most_groups_without_signal_are_said_after_five_steps_in_a_row() {
    let name = "update/groups_without_signal";
    assert_eq!(said(&series(name, &[0.9, 0.9, 0.9, 0.9, 0.2, 0.9, 0.9, 0.9, 0.9])), []);
    assert_eq!(said(&series(name, &[0.9, 0.6, 0.7, 0.9, 1.0, 0.9, 0.9])), [(5, Kind::NoSignal)]);
    // Where it is not measured, by verdicts.
    let row = |all: f64, none: f64, responses: u64| {
        let mut row =
            json!({"reward/solved_all": all, "reward/solved_none": none, "rollout/groups": 16});
        row["rollout/responses"] = json!(responses);
        row
    };
    let rows = vec![row(0.125, 0.75, 128); 8];
    let alarms = of_log(&log(&rows));
    assert_eq!(
        alarms.iter().map(|(step, alarm)| (*step, alarm.kind)).collect::<Vec<_>>(),
        [(5, Kind::NoSignal)]
    );
    let text = &alarms[0].1.text;
    assert!(
        text.contains("from step 1 to step 5, 5 measurements in a row, now 88 %")
            && text.contains("75 % of them are solved by no response")
            && text.contains("rollout.filter"),
        "{text}"
    );
    let easy = &of_log(&log(&vec![row(0.75, 0.0, 128); 8]))[0].1.text;
    assert!(easy.contains("75 % of them are solved by all responses"), "{easy}");
    assert_eq!(
        said(&vec![row(0.5, 0.5, 16); 8]),
        [],
        "single responses are compared with other groups"
    );
}

#[test]
fn growing_responses_are_said_where_many_are_cut_off() {
    let row = |step: u32, growth: f64, truncated: f64| {
        let length = 100.0 * growth.powf(step.into());
        json!({"response/length_mean": length, "response/truncated": truncated})
    };
    let rows =
        |growth, truncated| (0..20).map(|step| row(step, growth, truncated)).collect::<Vec<_>>();
    assert_eq!(said(&rows(1.02, 0.3)), [(10, Kind::Length)]);
    let text = &of_log(&log(&rows(1.02, 0.3)))[0].1.text;
    assert!(text.contains("tokens in steps 6 to 10 from 104.1 in steps 1 to 5"), "{text}");
    assert_eq!(said(&rows(1.02, 0.1)), [], "they have room");
    assert_eq!(said(&rows(1.0, 0.5)), [], "they do not grow");
    assert_eq!(said(&rows(0.97, 0.5)), []);
    assert_eq!(said(&rows(1.02, 0.95)), [(1, Kind::Truncation)], "one alarm is enough");
    // Lengths that go up and down by chance: the fraction of a multiple is as good as chance here.
    let chance = |step: u32| 1.0 + 0.2 * ((f64::from(step) * 0.754_877_666).fract() - 0.5);
    let noisy: Vec<Value> = (0..300)
        .map(
            |step| json!({"response/length_mean": 100.0 * chance(step), "response/truncated": 0.4}),
        )
        .collect();
    assert_eq!(said(&noisy), []);
}

#[test]
fn a_saved_state_goes_on() {
    let rows: Vec<Value> = (0..40)
        .map(|step| {
            let entropy = if step % 17 > 11 { 0.01 } else { 1.0 };
            let length = 100 + 3 * step;
            json!({"policy/entropy": entropy, "response/truncated": f64::from(step % 13) / 12.0,
                   "response/length_mean": length, "update/groups_without_signal": 1.0})
        })
        .collect();
    let measured = |row: &Value, name: &str| row.get(name).and_then(Value::as_f64);
    let (mut whole, mut resumed) = (Alarms::default(), Alarms::default());
    for (step, row) in (1..).zip(&rows) {
        let expected = whole.after_step(Origin::Isentrope, step, &|name| measured(row, name));
        assert_eq!(
            resumed.after_step(Origin::Isentrope, step, &|name| measured(row, name)),
            expected
        );
        resumed = serde_json::from_str(&serde_json::to_string(&resumed).unwrap()).unwrap();
        assert_eq!(resumed, whole);
    }
    assert_eq!(serde_json::from_str::<Alarms>("{}").unwrap(), Alarms::default());
}

#[test]
fn other_trainers_runs_are_told_in_their_settings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    let entropy = |step: u64| 1.0 / f64::from(1 << step);
    let verl = |step: u64| {
        json!({"step": step, "data": {"actor/entropy": entropy(step),
        "response_length/clip_ratio": 0.95}})
    };
    let trl =
        |step: u64| json!({"step": step, "entropy": entropy(step), "frac_reward_zero_std": 0.75});
    for (row, keys) in [
        (
            &verl as &dyn Fn(u64) -> Value,
            ["data.max_response_length", "actor_rollout_ref.actor.policy_loss.loss_mode=clip_cov"],
        ),
        (&trl, ["epsilon_high", "num_generations"]),
    ] {
        let text: String = (0..8).map(|step| format!("{}\n", row(step))).collect();
        fs::write(&path, text).unwrap();
        let alarms = of_log(&RunLog::open(&path).unwrap());
        let texts: Vec<&str> = alarms.iter().map(|(_, alarm)| alarm.text.as_str()).collect();
        assert!(
            texts.len() == 2 && keys.iter().all(|key| texts.iter().any(|text| text.contains(key))),
            "{texts:?}"
        );
    }
}

#[test]
fn a_log_of_every_tenth_step_is_told_by_its_steps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    let row = |step: u64| {
        let entropy = if step > 30 { 0.01 } else { 1.0 };
        format!("{}\n", json!({"step": step, "entropy": entropy, "frac_reward_zero_std": 0.75}))
    };
    fs::write(&path, (1..=8).map(|row_of| row(10 * row_of)).collect::<String>()).unwrap();
    let alarms = of_log(&RunLog::open(&path).unwrap());
    assert!(alarms[0].1.text.contains("of the 1.000 it was in step 10."), "{alarms:?}");
    assert!(
        alarms[1].1.text.contains("from step 10 to step 50, 5 measurements in a row"),
        "{alarms:?}"
    );
}
