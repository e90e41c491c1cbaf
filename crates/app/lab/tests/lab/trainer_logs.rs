//! Logs that TRL has written, and logs as verl writes them (tests/fixtures/logs).

use isentrope_lab::log::{Origin, RunLog};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(name)
}

fn open(name: &str) -> RunLog {
    RunLog::open(&fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// A metric in a log's file: steps and values.
fn history(path: &str, name: &str) -> Vec<(u64, f64)> {
    let state: Value = serde_json::from_slice(&fs::read(fixture(path)).unwrap()).unwrap();
    let entries = state["log_history"].as_array().unwrap().iter();
    entries
        .filter_map(|entry| Some((entry["step"].as_u64()?, entry.get(name)?.as_f64()?)))
        .collect()
}

const STATE: &str = "trl-grpo/checkpoint-8/trainer_state.json";

#[test]
fn an_output_directory_of_trl_is_read_from_its_last_checkpoint() {
    let log = open("trl-grpo");
    assert_eq!((log.origin, &*log.name, log.last_step()), (Origin::Trl, "trl-grpo", Some(8)));
    for (theirs, ours) in [
        ("reward", "reward/mean"),
        ("rewards/accuracy_reward/mean", "reward/part_1"),
        ("rewards/format_reward/mean", "reward/part_2"),
        ("entropy", "policy/entropy_token_mean"),
        ("completions/mean_length", "response/length_mean"),
        ("completions/clipped_ratio", "response/truncated"),
        ("frac_reward_zero_std", "update/groups_without_signal"),
        ("kl", "kl/reference"),
        ("loss", "policy/loss"),
        ("learning_rate", "optimizer/learning_rate"),
        ("step_time", "time/step_s"),
        ("eval_reward", "eval/held-out/score"),
        ("eval_entropy", "eval/held-out/entropy"),
        ("eval_completions/mean_length", "eval/held-out/length_mean"),
        // We have no names for these.
        ("reward_std", "reward_std"),
        ("num_tokens", "num_tokens"),
        ("eval_rewards/accuracy_reward/mean", "eval_rewards/accuracy_reward/mean"),
    ] {
        let expected = history(STATE, theirs);
        assert!(!expected.is_empty(), "{theirs}");
        assert_eq!(log.series(ours).unwrap().iter().collect::<Vec<_>>(), expected, "{ours}");
    }
    assert_eq!(
        (log.evaluation_sets(), log.entropy().unwrap().0),
        (vec!["held-out"], "policy/entropy_token_mean")
    );
    assert!(
        log.notes.iter().any(|note| note.contains("keep their names, such as")),
        "{:?}",
        log.notes
    );
    assert!(!log.notes.iter().any(|note| note.contains("more than once")), "{:?}", log.notes);
    // The file itself, and a list that a script dumped, say the same.
    assert!(log.all().eq(open(STATE).all()));
    let dir = tempfile::tempdir().unwrap();
    let state: Value = serde_json::from_slice(&fs::read(fixture(STATE)).unwrap()).unwrap();
    let dumped = dir.path().join("log_history.json");
    fs::write(&dumped, state["log_history"].to_string()).unwrap();
    assert!(log.all().eq(RunLog::open(&dumped).unwrap().all()));
}

#[test]
fn event_files_of_trl_say_the_same_and_a_resumed_run_is_one() {
    // A file for each start.
    let starts = [
        "00_host/events.out.tfevents.1795361400.host.1.0",
        "01_host/events.out.tfevents.1795361401.host.1.1",
    ];
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("trl-grpo/logs");
    fs::create_dir_all(&run).unwrap();
    for start in starts {
        let name = start.split_once('/').unwrap().1;
        fs::copy(fixture(&format!("trl-grpo/runs/Nov22_15-30-{start}")), run.join(name)).unwrap();
    }
    let (events, state) = (RunLog::open(&run).unwrap(), open("trl-grpo"));
    assert_eq!(
        (events.origin, &*events.name, events.last_step()),
        (Origin::Trl, "trl-grpo", Some(8))
    );
    for (name, series) in state.all().filter(|(name, _)| !name.starts_with("eval_")) {
        // Metrics without a name of ours keep the Trainer's.
        let read = events.series(name).or_else(|| events.series(&format!("train/{name}")));
        let read = read.unwrap_or_else(|| panic!("{name} is not in the event files"));
        assert_eq!(read.steps, series.steps, "{name}");
        // TensorBoard has single precision.
        assert!(
            read.values.iter().zip(&series.values).all(|(a, b)| *a == f64::from(*b as f32)),
            "{name}"
        );
    }
    assert_eq!(open("trl-grpo/runs/Nov22_15-30-00_host").last_step(), Some(6));
}

#[test]
fn supervised_fine_tuning_goes_by_its_own_names() {
    for path in ["trl-sft", "trl-sft/runs/Nov22_15-30-00_host"] {
        let log = open(path);
        let steps =
            |name: &str| log.series(name).unwrap_or_else(|| panic!("{path}: {name}")).steps.clone();
        assert_eq!(
            (steps("sft/loss"), steps("sft/entropy"), steps("eval/loss")),
            (vec![1, 2, 3, 4], vec![1, 2, 3, 4], vec![2, 4])
        );
        assert!(log.series("policy/loss").is_none() && log.evaluation_sets().is_empty());
    }
}

/// The log of a Trainer with these rows.
fn of_rows(rows: &[Value]) -> RunLog {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trainer_state.json");
    fs::write(&path, json!({ "log_history": rows }).to_string()).unwrap();
    RunLog::open(&path).unwrap()
}

#[test]
fn a_loss_of_preferences_is_no_cross_entropy() {
    for sign in ["rewards/chosen", "logps/rejected", "logits/chosen"] {
        let log = of_rows(&[
            json!({"step": 1, "epoch": 0.1, "loss": 0.69, "grad_norm": 1.0, sign: 0.5}),
            json!({"step": 1, "epoch": 0.1, "eval_loss": 0.7}),
        ]);
        assert_eq!(log.origin, Origin::Trl);
        assert!(log.series("loss").is_some() && log.series("eval_loss").is_some(), "{sign}");
        assert!(log.series("grad/norm").is_some() && log.series("sft/loss").is_none(), "{sign}");
    }
    let ppo = of_rows(&[
        json!({"step": 1, "epoch": 0.1, "policy/entropy_avg": 1.0, "loss/policy_avg": 0.1}),
    ]);
    assert!(ppo.origin != Origin::Isentrope && ppo.series("policy/entropy_avg").is_some());
}

#[test]
fn verl_writes_lines_and_event_files() {
    let log = open("verl.jsonl");
    assert_eq!((log.origin, &*log.name), (Origin::Verl, "verl"));
    assert_eq!(log.evaluation_sets(), ["openai/gsm8k"]);
    let points = |name: &str| {
        log.series(name).unwrap_or_else(|| panic!("{name}")).iter().collect::<Vec<_>>()
    };
    assert_eq!(points("eval/openai/gsm8k/mean@8"), [(0, 0.25), (3, 0.4375), (6, 0.625)]);
    assert_eq!(points("eval/openai/gsm8k/pass@8"), [(0, 0.5), (3, 0.5), (6, 0.5)]);
    assert_eq!(points("eval/openai/gsm8k/score"), [(0, -0.5), (3, -0.125), (6, 0.25)]);
    assert_eq!(points("policy/entropy_token_mean_filtered")[..2], [(1, 1.5), (2, 0.75)]);
    assert_eq!(log.series("grad/norm").unwrap().steps, [1, 2, 3, 5, 6], "null is no measurement");
    assert_eq!(points("time/rollout_s").len(), 6);
    assert_eq!(points("perf/throughput").len(), 6, "it keeps its name");
    assert!(log.notes.iter().any(|note| note.contains("loss_agg_mode")), "{:?}", log.notes);
    let events = open("verl-tensorboard");
    assert_eq!((events.origin, &*events.name), (Origin::Verl, "verl-tensorboard"));
    let names = |log: &RunLog| log.all().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&events), names(&log), "texts and histograms are no scalars");
    for (name, series) in log.all() {
        let read = events.series(name).unwrap();
        assert_eq!(read.steps, series.steps, "{name}");
        assert!(read.values.iter().zip(&series.values).all(|(a, b)| *a == f64::from(*b as f32)));
    }
}
