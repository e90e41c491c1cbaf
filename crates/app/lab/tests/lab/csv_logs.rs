//! Tables as W&B exports them.

use isentrope_lab::log::{Origin, RunLog, told_apart};
use std::fs;

fn open_all(text: &str) -> Result<Vec<RunLog>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wandb_export.csv");
    fs::write(&path, text).unwrap();
    RunLog::open_all(&path).map_err(|error| error.to_string())
}

fn points(log: &RunLog, name: &str) -> Vec<(u64, f64)> {
    log.series(name).unwrap_or_else(|| panic!("{name}")).iter().collect()
}

#[test]
fn a_chart_has_the_runs_that_it_shows() {
    let text = "\"Step\",\"grpo - seed 2 - actor/entropy\",\"grpo - seed 2 - actor/entropy__MIN\",\
                \"grpo - seed 2 - actor/entropy__MAX\",\"clip-cov - actor/entropy\",\"clip-cov - \
                actor/entropy__MIN\",\
                \"clip-cov - actor/entropy__MAX\",\"clip-cov - _step\"\n\
                \"1\",\"0.5\",\"0.5\",\"0.5\",\"0.75\",\"0.75\",\"0.75\",\"1\"\n\
                \"2\",\"0.25\",\"0.25\",\"0.25\",\"\",\"\",\"\",\"\"\n\
                \"3\",\"NaN\",\"NaN\",\"NaN\",\"0.5\",\"0.5\",\"0.5\",\"3\"\n";
    let logs = open_all(text).unwrap();
    assert_eq!(
        logs.iter().map(|log| &*log.name).collect::<Vec<_>>(),
        ["clip-cov", "grpo - seed 2"]
    );
    assert!(logs.iter().all(|log| log.origin == Origin::Verl && log.all().count() == 1));
    let entropy = "policy/entropy_token_mean_filtered";
    assert_eq!(points(&logs[0], entropy), [(1, 0.75), (3, 0.5)]);
    assert_eq!(points(&logs[1], entropy), [(1, 0.5), (2, 0.25)]);
}

#[test]
fn a_history_is_one_run() {
    // As pandas writes `run.history()`, with its index.
    let text = ",_step,_runtime,_timestamp,train/global_step,train/reward,train/entropy,\
                train/completions/mean_length,eval/reward,table\n\
                0,0,1.5,1.7e9,1.0,0.25,2.0,100.0,,\n\
                1,1,2.5,1.7e9,2.0,0.5,1.5,101.0,,\"{\"\"_type\"\": \"\"table-file\"\"}\"\n\
                2,2,3.5,1.7e9,2.0,,,,0.75,\n";
    let [log] = &open_all(text).unwrap()[..] else { panic!() };
    assert_eq!((log.origin, &*log.name), (Origin::Trl, "wandb_export"));
    assert_eq!(points(log, "policy/entropy_token_mean"), [(1, 2.0), (2, 1.5)]);
    assert_eq!(
        points(log, "eval/held-out/score"),
        [(2, 0.75)],
        "by the trainer's step, not by W&B's"
    );
    let names: Vec<&str> = log.all().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["eval/held-out/score", "policy/entropy_token_mean", "response/length_mean", "reward/mean"]
    );
}

#[test]
fn a_table_may_name_its_runs_in_a_column() {
    let logs =
        open_all("run,step,entropy,accuracy\nb,1,1.0,0.1\na,1,2.0,0.2\nb,2,0.5,0.3\n").unwrap();
    assert_eq!(
        logs.iter().map(|log| (&*log.name, log.origin)).collect::<Vec<_>>(),
        [("a", Origin::Unknown), ("b", Origin::Unknown)]
    );
    assert_eq!(points(&logs[1], "accuracy"), [(1, 0.1), (2, 0.3)]);
}

#[test]
fn names_that_many_use_tell_no_trainer() {
    let origin = |head: &str| open_all(&format!("Step,a - {head}\n1,0.5\n")).unwrap()[0].origin;
    for (name, expected) in [
        ("train/loss", Origin::Unknown),
        ("loss", Origin::Unknown),
        ("train/reward", Origin::Unknown),
        ("train/kl", Origin::Unknown),
        ("train/entropy", Origin::Unknown),
        ("train/frac_reward_zero_std", Origin::Trl),
        ("eval/completions/mean_length", Origin::Trl),
        ("critic/score/mean", Origin::Verl),
        ("policy/entropy", Origin::Isentrope),
    ] {
        assert_eq!(origin(name), expected, "{name}");
    }
}

#[test]
fn the_trainers_callback_is_known_by_a_second_sign() {
    let log = &open_all("Step,train/reward,train/epoch\n1,0.5,0.1\n").unwrap()[0];
    assert_eq!((log.origin, points(log, "reward/mean")), (Origin::Trl, vec![(1, 0.5)]));
}

#[test]
fn rows_in_any_order_forget_nothing() {
    let row = |step: u64| format!("{step},{step}.5\n");
    let text: String = (1..=20).map(row).collect();
    let log = &open_all(&format!("step,loss\n{text}5,0.25\n")).unwrap()[0];
    assert_eq!(
        (log.series("loss").unwrap().steps.len(), log.series("loss").unwrap().at(5)),
        (20, Some(0.25))
    );
    assert_eq!(log.notes, ["step 5 is there more than once: what was written last is taken"]);
}

#[test]
fn cells_may_say_that_nothing_was_measured() {
    let text = "Step,loss,kind,who\n1,None,,a\n2,0.5,train,b\n3,n/a,train,c\n4,-,,d\nnan,1,,\n5,NaN,,e\n6,0.25,,f\n";
    let log = &open_all(text).unwrap()[0];
    assert_eq!((points(log, "loss"), log.all().count()), (vec![(2, 0.5), (6, 0.25)], 1));
    assert!(
        log.notes[0].contains(
            "wandb_export.csv: 2 columns begin with text, such as kind, who, and are left out"
        ),
        "{:?}",
        log.notes
    );
}

#[test]
fn charts_in_one_directory_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("1.csv"), "\"Step\",\"a - actor/entropy\"\n\"1\",\"0.5\"\n").unwrap();
    fs::write(
        dir.path().join("2.csv"),
        "\"Step\",\"a - val-core/math/acc/mean@4\"\n\"1\",\"0.25\"\n",
    )
    .unwrap();
    let log = RunLog::open(dir.path()).unwrap();
    assert_eq!(
        (&*log.name, points(&log, "eval/math/mean@4"), log.all().count()),
        ("a", vec![(1, 0.25)], 2)
    );
}

#[test]
fn runs_of_several_tables_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["c1.csv", "c2.csv"].map(|name| dir.path().join(name));
    for path in &paths {
        fs::write(path, "Step,a - actor/entropy,b - actor/entropy\n1,0.5,0.25\n").unwrap();
    }
    let logs: Vec<RunLog> = paths.iter().flat_map(|path| RunLog::open_all(path).unwrap()).collect();
    let [first, second] = paths.map(|path| path.display().to_string());
    let names: Vec<String> = [&first, &second]
        .iter()
        .flat_map(|path| ["a", "b"].map(|run| format!("{path}: {run}")))
        .collect();
    assert_eq!(told_apart(logs.iter()), names);
    assert_eq!(told_apart(logs[..2].iter()), ["a", "b"]);
}

#[test]
fn what_is_wrong_is_named_by_file_and_line() {
    for (text, what) in [
        ("time,a - loss\n1,2\n", "no column of steps, such as Step"),
        ("Step,a - loss\n1,2\n2,3,4\n", "line 3: 3 fields, where the heads of the columns are 2"),
        ("Step,a - loss\n1,2\n2,x\n", "line 3: column \"a - loss\" must have a number, not \"x\""),
        (
            "Step,a - loss\n1,2\n\n-2,3\n",
            "line 4: the step in column \"Step\" must be a whole number from 0, not \"-2\"",
        ),
        ("Step,a - loss\n1.5,2\n", "line 2: the step"),
    ] {
        let error = open_all(text).unwrap_err();
        assert!(error.contains("wandb_export.csv: ") && error.contains(what), "{error}");
    }
    let [empty] = &open_all("Step,a - loss\n").unwrap()[..] else { panic!() };
    assert!(empty.notes[0].contains("no numbers in it yet"), "{:?}", empty.notes);
}
