//! The tables of names agree with docs/reference/metrics.md.

use isentrope_lab::log::names::{Pair, TRL, TRL_SFT, UNTRANSLATED, VERL, counterpart};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Our names in the rows of docs/reference/metrics.md that name a quantity of another trainer, and
/// whether the row has no `~`.
type Rows = BTreeMap<String, Vec<(String, bool)>>;

/// The rows of verl's column and of TRL's.
fn documented() -> [Rows; 2] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let mut columns = [Rows::new(), Rows::new()];
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.replace("\\|", "/").leak().split('|').map(str::trim).collect();
        let [_, ours, _, verl, trl, _] = cells[..] else { continue };
        for (rows, cell) in columns.iter_mut().zip([verl, trl]) {
            for theirs in cell.split('`').skip(1).step_by(2) {
                let row = (ours.trim_matches('`').to_owned(), !cell.starts_with('~'));
                rows.entry(theirs.to_owned()).or_default().push(row);
            }
        }
    }
    columns
}

/// A pattern with its marks filled in, as one name of those that are like it.
fn example(pattern: &str) -> String {
    pattern.replace("<set>", "a/b").replace("<function>", "accuracy_reward").replace("<k>", "8")
}

#[test]
fn names_of_other_trainers_are_those_of_the_documentation() {
    let [verl, trl] = documented();
    assert!(verl.len() > 20 && trl.len() > 15);
    for (documented, tables) in [(&verl, &[VERL][..]), (&trl, &[TRL, TRL_SFT])] {
        for (theirs, ours) in
            documented.iter().filter(|(theirs, _)| !UNTRANSLATED.contains(&theirs.as_str()))
        {
            let found: Vec<String> =
                tables.iter().filter_map(|table| counterpart(table, &example(theirs))).collect();
            assert!(!found.is_empty(), "{theirs} is in docs/reference/metrics.md and in no table");
            let has_exact = ours.iter().any(|(_, exact)| *exact);
            for found in found {
                // An older name has one sample, which it does not say.
                let found = found.replace("/mean@1", "/mean@8");
                let right = |(name, exact): &(String, bool)| {
                    example(name) == found && (*exact || !has_exact)
                };
                assert!(
                    ours.iter().any(right),
                    "{theirs}: {found}, in docs/reference/metrics.md {ours:?}"
                );
            }
        }
        let named: BTreeSet<&str> =
            tables.iter().copied().flatten().map(|(theirs, _): &Pair| *theirs).collect();
        for theirs in named {
            assert!(
                documented.contains_key(theirs),
                "{theirs} is in a table and not in docs/reference/metrics.md"
            );
        }
    }
    assert!(UNTRANSLATED.iter().all(|kept| verl.contains_key(*kept) || trl.contains_key(*kept)));
}

#[test]
fn marks_stand_for_what_a_run_names() {
    let verl = |name: &str| counterpart(VERL, name);
    assert_eq!(verl("val-core/openai/gsm8k/acc/mean@16").unwrap(), "eval/openai/gsm8k/mean@16");
    assert_eq!(verl("val-core/aime24/acc/best@32/mean").unwrap(), "eval/aime24/pass@32");
    assert_eq!(
        verl("val/test_score/DigitalLearningGmbH/MATH-lighteval").unwrap(),
        "eval/DigitalLearningGmbH/MATH-lighteval/mean@1"
    );
    for none in [
        "val-core//acc/mean@4",
        "val-core/a/acc/mean@four",
        "val-core/a/acc/mean@",
        "actor/entropy/min",
        "actor",
    ] {
        assert_eq!(verl(none), None, "{none}");
    }
    assert_eq!(counterpart(TRL, "eval_math_reward").unwrap(), "eval/math/score");
    assert_eq!(counterpart(TRL, "eval_math_reward_std"), None);
}
