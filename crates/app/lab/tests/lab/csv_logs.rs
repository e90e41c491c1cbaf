//! Tables of one run, as pandas writes W&B's history.

use crate::json_logs::{open_as, points};
use isentrope_lab::log::{Origin, RunLog};

fn open(text: &str) -> Result<RunLog, String> {
    open_as("history.csv", text)
}

#[test]
fn a_history_is_one_run() {
    let text = ",_step,_runtime,_timestamp,train/global_step,train/reward,train/entropy,\
                train/completions/mean_length,eval/reward,table\n\
                0,0,1.5,1.7e9,1.0,0.25,2.0,100.0,,\n\
                1,1,2.5,1.7e9,2.0,0.5,1.5,101.0,,\"{\"\"_type\"\": \"\"table-file\"\"}\"\n\
                2,2,3.5,1.7e9,2.0,,,,0.75,\n";
    let log = open(text).unwrap();
    assert_eq!((log.origin, &*log.name), (Origin::Trl, "history"));
    assert_eq!(points(&log, "policy/entropy_token_mean"), [(1, 2.0), (2, 1.5)]);
    assert_eq!(
        points(&log, "eval/held-out/score"),
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
fn names_that_many_use_tell_no_trainer() {
    for (heads, expected) in [
        ("train/loss", Origin::Unknown),
        ("loss", Origin::Unknown),
        ("train/reward", Origin::Unknown),
        ("train/kl", Origin::Unknown),
        ("train/entropy", Origin::Unknown),
        ("train/reward,train/epoch", Origin::Trl),
        ("train/frac_reward_zero_std", Origin::Trl),
        ("eval/completions/mean_length", Origin::Trl),
        ("critic/score/mean", Origin::Verl),
        ("policy/entropy", Origin::Isentrope),
    ] {
        let cells = ",0.5".repeat(heads.split(',').count());
        assert_eq!(open(&format!("Step,{heads}\n1{cells}\n")).unwrap().origin, expected, "{heads}");
    }
}

#[test]
fn rows_in_any_order_forget_nothing() {
    let rows: String = (1..=20).map(|step| format!("{step},{step}.5\n")).collect();
    let log = open(&format!("step,loss\n{rows}5,0.25\n")).unwrap();
    let loss = log.series("loss").unwrap();
    assert_eq!((loss.steps.len(), loss.at(5)), (20, Some(0.25)));
    assert_eq!(log.notes, ["step 5 is there more than once: what was written last is taken"]);
}

#[test]
fn cells_may_say_that_nothing_was_measured() {
    let text = "Step,loss,kind,who\n1,None,,a\n2,0.5,train,b\n3,n/a,train,c\n4,-,,d\nnan,1,,\n5,NaN,,e\n6,0.25,,f\n";
    let log = open(text).unwrap();
    assert_eq!((points(&log, "loss"), log.all().count()), (vec![(2, 0.5), (6, 0.25)], 1));
    let note = "history.csv: columns that begin with text are left out: 2, such as kind, who";
    assert!(log.notes[0].ends_with(note), "{:?}", log.notes);
}

#[test]
fn defects_are_named_by_file_and_line() {
    for (text, what) in [
        ("time,loss\n1,2\n", "no column of steps, such as step"),
        ("Step,loss\n1,2\n2,3,4\n", "line 3: 3 fields, where the heads of the columns are 2"),
        ("Step,loss\n1,2\n2,x\n", "line 3: column \"loss\" must have a number, not \"x\""),
        ("Step,loss\n1,2\n\n-2,3\n", "line 4: the step must be a whole number from 0, not \"-2\""),
        ("Step,loss\n1.5,2\n", "line 2: the step"),
    ] {
        let error = open(text).unwrap_err();
        assert!(error.contains("history.csv: ") && error.contains(what), "{error}");
    }
    let empty = open("Step,loss\n").unwrap();
    assert!(empty.notes[0].contains("no numbers in it yet"), "{:?}", empty.notes);
}
