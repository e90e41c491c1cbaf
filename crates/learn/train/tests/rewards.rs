//! Rewards of the user's own on one rank and on several: of groups, and that fail at responses.

use crate::ranks_pulled::{cases, differences, patient, run};
use isentrope_ranks::Watch;
use isentrope_train::observer::Progress;
use isentrope_train::rl::Recipe;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Python functions.
const REWARDS: &str = r#"
def compared(completions, **kwargs):
    assert len(completions) in (3, 4), completions
    lengths = [len(text.encode()) for text in completions]
    return [(length - min(lengths)) / 8 + lengths.index(length) for length in lengths]

def failing(completions, **kwargs):
    text = completions[0].encode()
    if sum(text) % 5 == 0: raise ValueError(f"of {len(text)} bytes")
    return [-len(text) / 8]
"#;

/// A recipe of a filter, two steps and evaluations, with one of the functions for a reward; none
/// without Python.
fn rewarded(dir: &Path, function: &str, batch: &str) -> Option<Recipe> {
    Command::new("python3").arg("--version").output().ok()?;
    let file = dir.join("reward.py");
    fs::write(&file, REWARDS).unwrap();
    let (_, mut recipe) = cases().swap_remove(1);
    (recipe.run.steps, recipe.eval.every) = (2, 2);
    (recipe.eval.problems, recipe.eval.samples) = (Some(12), Some(4));
    let verifier = json!({
        "python": format!("{}:{function}", file.display()), "batch": batch, "workers": 2
    });
    recipe.reward.verifier = serde_json::from_value(verifier).unwrap();
    Some(recipe)
}

/// The lines of the groups of four responses of a step.
fn groups(dir: &Path, step: u64) -> Vec<Vec<Value>> {
    groups_of(4, dir, step)
}

fn groups_of(responses: usize, dir: &Path, step: u64) -> Vec<Vec<Value>> {
    let text = fs::read_to_string(dir.join(format!("rollouts/step-{step:06}.jsonl"))).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(!lines.is_empty() && lines.len().is_multiple_of(responses), "{}", lines.len());
    lines.chunks(responses).map(<[Value]>::to_vec).collect()
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

fn lengths(group: &[Value]) -> Vec<usize> {
    group.iter().map(|line| line["response"].as_str().unwrap().len()).collect()
}

fn rewards(group: &[Value]) -> Vec<f64> {
    group.iter().map(|line| line["reward"].as_f64().unwrap()).collect()
}

/// As the function of that name.
fn compared(lengths: &[usize]) -> Vec<f64> {
    let least = lengths.iter().min().unwrap();
    let first = |length| lengths.iter().position(|other| *other == length).unwrap() as f64;
    lengths.iter().map(|&length| (length - least) as f64 / 8.0 + first(length)).collect()
}

/// Also where a run is broken off when some groups have been judged, and others are in part written
/// down. It may go on with fewer responses in a group, which are judged anew.
#[test]
#[ignore = "deep: several runs on ranks"]
fn rewards_of_groups_are_the_same_on_ranks_and_where_a_run_goes_on() {
    let dirs = tempfile::tempdir().unwrap();
    let Some(recipe) = rewarded(dirs.path(), "compared", "group") else { return };
    let alone = dirs.path().join("alone");
    let ran = run(&recipe, &alone, 1, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None]);
    assert!(!ran.notes.iter().any(|note| note.contains("fail")), "{:?}", ran.notes);
    for group in [groups(&alone, 1), groups(&alone, 2)].concat() {
        assert_eq!(rewards(&group), compared(&lengths(&group)), "{group:?}");
    }

    let together = dirs.path().join("together");
    let ran = run(&recipe, &together, 2, patient(1), &|_, _, _, _| {});
    assert_eq!((ran.errors, ran.moved), (vec![None; 2], 0.0));
    assert_eq!(differences(&alone, &together), [""; 0]);

    let broken = dirs.path().join("broken");
    let watch = Watch { silent: Some(Duration::from_secs(2)), ..patient(1) };
    let ran =
        run(&recipe, &broken, 2, watch, &|faults, rank, step, Progress { done, total, .. }| {
            if rank == 1 && step == 2 && 4 * done > 3 * total {
                faults.silence(rank);
            }
        });
    assert!(ran.errors.iter().all(Option::is_some), "it has come to its end");
    let (fewer, mut three) = (dirs.path().join("fewer"), recipe.clone());
    copy(&broken, &fewer);
    three.rollout.responses = 3;
    let ran = run(&three, &fewer, 1, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None]);
    let why = "settings of how responses are drawn or judged have changed";
    assert!(ran.notes.iter().any(|note| note.contains(why)), "{:?}", ran.notes);
    for group in groups_of(3, &fewer, 2) {
        assert_eq!(rewards(&group), compared(&lengths(&group)), "{group:?}");
    }
    // A run may be killed between two responses of a group, or its disk change a bit.
    let files = fs::read_dir(broken.join("rollouts")).unwrap().map(|entry| entry.unwrap().path());
    for journal in files.filter(|path| path.to_str().unwrap().contains(".rank-")) {
        let mut text = fs::read(&journal).unwrap();
        let last = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        let is_damaged = journal.to_str().unwrap().contains(".rank-1.");
        text[last + 20] ^= 1;
        text.truncate(if is_damaged { text.len() } else { last + 1 });
        fs::write(&journal, &text).unwrap();
    }
    let ran = run(&recipe, &broken, 2, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None, None]);
    assert!(ran.notes.iter().any(|note| note.contains("sampled before")), "{:?}", ran.notes);
    let is_told = |note: &String| {
        note.contains("damaged from here on") && note.contains("step-000002.rank-1.journal (line ")
    };
    assert!(ran.notes.iter().any(is_told), "{:?}", ran.notes);
    assert_eq!(differences(&alone, &broken), [""; 0]);
}

/// The note says so, and no response is left out.
#[test]
fn a_response_at_which_the_reward_fails_is_worth_the_worst_of_its_group() {
    let dirs = tempfile::tempdir().unwrap();
    let Some(recipe) = rewarded(dirs.path(), "failing", "response") else { return };
    let alone = dirs.path().join("alone");
    let ran = run(&recipe, &alone, 1, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None]);
    for what in [" responses could not be scored: ", "of 48 responses failed to be judged"] {
        let is_told = |note: &String| note.contains(what) && note.contains("ValueError: of ");
        assert!(ran.notes.iter().any(is_told), "{what}: {:?}", ran.notes);
    }
    let mut failed = 0;
    for group in [groups(&alone, 1), groups(&alone, 2)].concat() {
        let text = |line: &Value| line["response"].as_str().unwrap().to_owned();
        let fails = |line: &Value| text(line).bytes().map(u64::from).sum::<u64>().is_multiple_of(5);
        let others = group.iter().filter(|line| !fails(line));
        let Some(longest) = others.map(|line| text(line).len()).max() else { continue };
        failed += group.iter().filter(|line| fails(line)).count();
        let length = |line: &Value| if fails(line) { longest } else { text(line).len() };
        let expected: Vec<f64> = group.iter().map(|line| length(line) as f64 / -8.0).collect();
        assert_eq!(rewards(&group), expected, "{group:?}");
    }
    assert!(failed > 0, "nothing was tried");
    let together = dirs.path().join("together");
    let ran = run(&recipe, &together, 2, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None, None]);
    assert_eq!(differences(&alone, &together), [""; 0]);
}
