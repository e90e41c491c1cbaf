//! Alarms on planted runs.

use crate::says;
use isentrope_lab::alarms::{Alarms, Kind, of_log};
use isentrope_lab::log::{Origin, RunLog};
use serde_json::{Value, json};
use std::fs;

/// The alarms of a file of lines with these rows, of steps from 1, each with its step and subject.
fn alarms_in(name: &str, rows: &[Value]) -> Vec<(u64, Kind, String)> {
    let dir = tempfile::tempdir().unwrap();
    if name == "metrics.jsonl" {
        fs::write(dir.path().join("recipe.toml"), "").unwrap();
    }
    let line = |(step, row): (u64, &Value)| {
        let mut row = row.clone();
        if row.get("step").is_none() {
            row["step"] = json!(step);
        }
        format!("{row}\n")
    };
    let path = dir.path().join(name);
    fs::write(&path, (1..).zip(rows).map(line).collect::<String>()).unwrap();
    let alarms = of_log(&RunLog::open(&path).unwrap());
    alarms.into_iter().map(|(step, alarm)| (step, alarm.kind, alarm.text)).collect()
}

fn alarms(rows: &[Value]) -> Vec<(u64, Kind, String)> {
    alarms_in("metrics.jsonl", rows)
}

/// When which alarms are said.
fn said(rows: &[Value]) -> Vec<(u64, Kind)> {
    alarms(rows).into_iter().map(|(step, kind, _)| (step, kind)).collect()
}

fn series(name: &str, values: &[f64]) -> Vec<Value> {
    values.iter().map(|value| json!({name: value})).collect()
}

#[test]
fn a_collapse_of_routers_is_said_once() {
    let rows = series("router/entropy", &[3.0, 2.0, 0.31, 0.29, 0.1, 2.0]);
    assert_eq!(said(&rows), [(4, Kind::Router)]);
    let parts = ["router/entropy is 0.290 nats, 10 % of the 3.000 it was in step 1."];
    says(&alarms(&rows)[0].2, &[parts[0], "router_aux_coefficient"]);
}

#[test]
fn a_collapse_of_entropy_is_said_once_until_it_has_recovered() {
    let healthy = [2.0, 1.8, 1.5, 1.0, 0.5, 0.3, 0.21];
    assert_eq!(said(&series("policy/entropy", &healthy)), []);
    let collapsed = [&healthy[..], &[0.19, 0.03, 0.21, 0.03, 0.0, 0.001]].concat();
    let rows = series("policy/entropy", &collapsed);
    assert_eq!(said(&rows), [(8, Kind::Entropy)]);
    says(
        &alarms(&rows)[0].2,
        &[
            "policy/entropy is 0.190 nats, 10 % of the 2.000 it was in step 1.",
            "objective.covariance.method",
            "objective.covariance.target_entropy",
            "objective.clip_high",
            "docs/concepts/entropy.md",
        ],
    );
    // A short recovery does not count, one of ten steps does.
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
    let alarms = alarms(&series("policy/entropy", &[0.0, -0.5, -1.0, 2.0, 1.9, 0.1]));
    let [(6, _, text)] = &alarms[..] else { panic!("{alarms:?}") };
    says(text, &["5 % of the 2.000 it was in step 4"]);
}

#[test]
fn an_entropy_that_was_asked_for_is_no_collapse() {
    let rows = |pairs: &[(f64, f64)]| -> Vec<Value> {
        let row = |(entropy, target): &(f64, f64)| json!({"policy/entropy": entropy, "entropy/target": target});
        pairs.iter().map(row).collect()
    };
    let start = (2.0, 0.1);
    assert_eq!(said(&rows(&[start, (0.15, 0.1), (0.11, 0.1), (0.091, 0.1), (0.1, 0.1)])), []);
    // Below the target by more than a tenth there is an alarm; above a tenth of the start there is
    // no alarm, whatever the target.
    assert_eq!(said(&rows(&[start, (0.3, 1.0), (0.089, 0.1), (0.05, 0.1)])), [(3, Kind::Entropy)]);
    let text = &alarms(&rows(&[start, (0.05, 0.1)]))[0].2;
    says(
        text,
        &[
            "policy/entropy is 0.050 nats, 2 % of the 2.000",
            "Its target of 0.100 nats (objective.covariance.target_entropy, \
             objective.entropy_bonus.target, objective.methods.repo_r.target_entropy or \
             objective.methods.entropic.target) is not held",
            "objective.covariance.controller.max",
            "objective.methods.repo_r.zeta_max",
            "docs/concepts/entropy.md",
        ],
    );
    assert!(!text.contains("clip-cov"), "{text}");
    // To be held again is to be well, and then a second collapse is one.
    let again = [&[start, (0.05, 0.1)][..], &[(0.1, 0.1); 10], &[(0.05, 0.1)]].concat();
    assert_eq!(said(&rows(&again)), [(2, Kind::Entropy), (13, Kind::Entropy)]);
}

#[test]
fn an_explosion_of_entropy_is_said_once_until_it_is_over() {
    // An entropy bonus that was too strong, on SmolLM2 and on countdown.
    let rows = series("policy/entropy", &[1.955, 3.3, 4.9, 5.9, 7.8, 9.6]);
    assert_eq!(said(&rows), [(4, Kind::Explosion)]);
    says(
        &alarms(&rows)[0].2,
        &[
            "policy/entropy is 5.900 nats, 3.0 times the 1.955 it was in step 1.",
            "objective.entropy_bonus.coefficient",
            "optimizer.learning_rate",
            "earlier checkpoint",
        ],
    );
    // A base model that looks for its format, one that begins next to certain, and a target.
    assert_eq!(said(&series("policy/entropy", &[0.273, 0.587, 0.781, 0.2])), []);
    assert_eq!(said(&series("policy/entropy", &[0.05, 0.4, 0.9])), []);
    let asked = |target: f64| json!({"policy/entropy": 1.5, "entropy/target": target});
    let start = json!({"policy/entropy": 0.4, "entropy/target": 0.4});
    assert_eq!(said(&[start.clone(), asked(1.0)]), []);
    assert_eq!(said(&[start, asked(0.4)]), [(2, Kind::Explosion)]);
}

/// A step with this share of problems that no response solves, and this share cut off.
fn solving(none: f64, truncated: f64) -> Value {
    json!({"reward/solved_none": none, "reward/solved_all": 0.0, "response/truncated": truncated,
        "update/groups_without_signal": none})
}

#[test]
fn updates_that_destroy_a_policy_are_named() {
    // A learning rate of 0.01 on countdown.
    let rows = [vec![solving(0.6875, 0.0)], vec![solving(1.0, 1.0); 5]].concat();
    let all = alarms(&rows);
    let [(2, Kind::Truncation, fallen), (5, Kind::NoSignal, worse)] = &all[..] else {
        panic!("{all:?}")
    };
    says(
        fallen,
        &[
            "the policy has fallen apart: 100 % of the responses are cut off",
            "In step 1, the last that solved one, 0 % were.",
            "lower optimizer.learning_rate",
        ],
    );
    says(
        worse,
        &[
            "worse than it was: 100 % of the problems are solved by no response, 69 % were in",
            "lower optimizer.learning_rate",
        ],
    );
    assert!(all.iter().all(|(.., text)| !text.contains("rollout.max_tokens")), "{all:?}");
    assert!(all.iter().all(|(.., text)| !text.contains("too hard")), "{all:?}");
    // Responses that have grown step by step are cut off because there is no more room.
    let grown: Vec<Value> = [0.4, 0.7, 0.85].map(|cut| solving(0.5, cut)).into();
    let text = &alarms(&[grown, vec![solving(1.0, 0.96)]].concat())[0].2;
    assert!(text.contains("Raise rollout.max_tokens"), "{text}");
}

#[test]
fn a_verifier_is_suspected_where_nothing_was_ever_solved() {
    let text = &alarms(&vec![solving(1.0, 0.0); 5])[0].2;
    says(text, &["or the verifier misses right answers", "rollouts/", "grade --explain"]);
    let few = [vec![solving(0.9, 0.0)], vec![solving(0.91, 0.0); 4]].concat();
    says(&alarms(&few)[0].2, &["too hard: 91 % of them", "rollout.filter"]);
}

#[test]
fn responses_that_are_nearly_all_cut_off_are_said() {
    let rows = series("response/truncated", &[0.5, 0.9, 0.91, 0.99, 0.85, 0.95]);
    assert_eq!(said(&rows), [(3, Kind::Truncation)]);
    assert_eq!(said(&series("response/truncated", &[1.0])), [(1, Kind::Truncation)]);
    for (out_of_turns, cut, remedy) in [
        (None, "96 % of the responses are cut off at the longest length.", "rollout.max_tokens"),
        (Some(0.3), "are cut off, most at the longest length.", "rollout.max_tokens"),
        (Some(0.5), "are cut off, most at the last turn.", "Raise environment.max_turns"),
    ] {
        let row = json!({"response/truncated": 0.96, "response/out_of_turns": out_of_turns});
        says(&alarms(&[row])[0].2, &[cut, remedy]);
    }
}

#[test]
fn most_groups_without_signal_are_said_after_five_steps_in_a_row() {
    let name = "update/groups_without_signal";
    assert_eq!(said(&series(name, &[0.9, 0.9, 0.9, 0.9, 0.2, 0.9, 0.9, 0.9, 0.9])), []);
    assert_eq!(said(&series(name, &[0.9, 0.6, 0.7, 0.9, 1.0, 0.9, 0.9])), [(5, Kind::NoSignal)]);
    // Where it is not measured, by verdicts.
    let rows = |all: f64, none: f64, responses: u64| {
        let row = json!({"reward/solved_all": all, "reward/solved_none": none,
            "rollout/groups": 16, "rollout/responses": responses});
        vec![row; 8]
    };
    let hard = alarms(&rows(0.125, 0.75, 128));
    let [(5, Kind::NoSignal, text)] = &hard[..] else { panic!("{hard:?}") };
    says(
        text,
        &[
            "from step 1 to step 5, 5 measurements in a row, now 88 %",
            "75 % of them are solved by no response",
            "rollout.filter",
        ],
    );
    says(&alarms(&rows(0.75, 0.0, 128))[0].2, &["75 % of them are solved by all responses"]);
    assert_eq!(said(&rows(0.5, 0.5, 16)), [], "single responses are compared with other groups");
}

#[test]
fn growing_responses_are_said_where_many_are_cut_off() {
    let rows = |growth: f64, truncated: f64| -> Vec<Value> {
        let row = |step: i32| {
            let length = 100.0 * growth.powi(step);
            json!({"response/length_mean": length, "response/truncated": truncated})
        };
        (0..20).map(row).collect()
    };
    let text = &alarms(&rows(1.02, 0.3))[0].2;
    says(text, &["tokens in steps 6 to 10 from 104.1 in steps 1 to 5"]);
    for (growth, truncated, expected) in [
        (1.02, 0.3, Some((10, Kind::Length))),
        (1.02, 0.1, None), // they have room
        (1.0, 0.5, None),
        (0.97, 0.5, None),
        (1.02, 0.95, Some((1, Kind::Truncation))), // one alarm is enough
    ] {
        let found = said(&rows(growth, truncated));
        assert_eq!(found, Vec::from_iter(expected), "{growth} {truncated}");
    }
    // Lengths that go up and down by chance: the fraction of a multiple is as good as chance here.
    let chance = |step: u32| 1.0 + 0.2 * ((f64::from(step) * 0.754_877_666).fract() - 0.5);
    let row =
        |step| json!({"response/length_mean": 100.0 * chance(step), "response/truncated": 0.4});
    assert_eq!(said(&(0..300).map(row).collect::<Vec<_>>()), []);
}

#[test]
fn a_saved_state_goes_on() {
    let row = |step: u32| {
        let entropy = if step % 17 > 11 { 0.01 } else { 1.0 };
        json!({"policy/entropy": entropy, "response/truncated": f64::from(step % 13) / 12.0,
            "response/length_mean": 100 + 3 * step, "update/groups_without_signal": 1.0})
    };
    let (mut whole, mut resumed) = (Alarms::default(), Alarms::default());
    for step in 1..=40 {
        let row = row(step as u32 - 1);
        let measured = |name: &str| row.get(name).and_then(Value::as_f64);
        let expected = whole.after_step(Origin::Isentrope, step, &measured);
        assert_eq!(resumed.after_step(Origin::Isentrope, step, &measured), expected);
        resumed = serde_json::from_str(&serde_json::to_string(&resumed).unwrap()).unwrap();
        assert_eq!(resumed, whole);
    }
    assert_eq!(serde_json::from_str::<Alarms>("{}").unwrap(), Alarms::default());
}

#[test]
fn other_trainers_runs_have_alarms_by_their_steps_and_no_remedies() {
    let verl = |step: i32| {
        let entropy = 0.5f64.powi(step);
        json!({"data": {"actor/entropy": entropy, "response_length/clip_ratio": 0.95}})
    };
    let alarms = alarms_in("run.jsonl", &(0..8).map(verl).collect::<Vec<_>>());
    assert_eq!(alarms.len(), 2, "{alarms:?}");
    assert!(alarms.iter().all(|(.., text)| !text.contains("objective.")), "{alarms:?}");
    // A log of every tenth step.
    let row = |i: u32| {
        let entropy = if i > 3 { 0.01 } else { 1.0 };
        json!({"step": 10 * i, "entropy": entropy, "frac_reward_zero_std": 0.75})
    };
    let alarms = alarms_in("run.jsonl", &(1..=8).map(row).collect::<Vec<_>>());
    says(&alarms[0].2, &["of the 1.000 it was in step 10."]);
    says(&alarms[1].2, &["from step 10 to step 50, 5 measurements in a row"]);
}
