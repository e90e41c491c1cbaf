//! Runs every target on its corpus and on mutations of it, which are the same every time.
//! `ISENTROPE_FUZZ_EXECUTIONS` sets the number of mutations, `ISENTROPE_FUZZ_SEED` their seed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says how far it got")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use isentrope_fuzzing::{Mutator, TARGETS};

/// Longest time for one input. A chat template may take ten seconds of processor time, on a busy
/// machine.
const LONGEST: Duration = Duration::from_secs(120);

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 2, "{}", dir.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn fuzz(name: &str, is_deep: bool) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = corpus(name);
    let usual = if is_deep { target.executions } else { target.executions / 10 };
    let executions = number("ISENTROPE_FUZZ_EXECUTIONS").unwrap_or(usual.into());
    // Keeps the input where it can be found, even if the process dies; the name is unique.
    let prefix = format!("isentrope-fuzz-{name}-{}-", process::id());
    let (_, kept) = tempfile::Builder::new().prefix(&prefix).tempfile().unwrap().keep().unwrap();
    let start = Instant::now();
    let run = |data: &[u8]| {
        fs::write(&kept, data).unwrap();
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| target.read(data)));
        assert!(result.is_ok(), "{name} panics on {}", kept.display());
        assert!(
            start.elapsed() < LONGEST,
            "{name} takes {:?} on {}",
            start.elapsed(),
            kept.display()
        );
    };
    corpus.iter().for_each(|data| run(data));
    let inputs = corpus.len();
    let mut mutator = Mutator::new(number("ISENTROPE_FUZZ_SEED").unwrap_or(1), corpus);
    for _ in 0..executions {
        run(&mutator.input());
    }
    let _ = fs::remove_file(&kept); // something may clean up there
    println!("{name}: {inputs} and {executions} inputs in {:.1?}", start.elapsed());
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name), false);
        })*

        mod deep {
            $(#[test]
            #[ignore = "deep: ten times as many inputs"]
            fn $name() {
                super::fuzz(stringify!($name), true);
            })*
        }

        #[test]
        fn every_target_is_run() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets!(
    safetensors,
    config,
    tokenizer,
    template,
    jsonl,
    json,
    separated,
    parquet,
    recipe,
    script,
    grader,
    event_file,
    log_lines,
    log_state,
    log_table,
    tokens,
    journal
);
