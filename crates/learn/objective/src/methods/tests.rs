//! The method that docs/reference/objectives.md shows as an example, compiled and applied.

use super::*;
use crate::{ObjectiveSettings, RunState};

mod calm;

methods! {
    /// Calm: no policy term where the policy is sure of itself.
    calm: calm::Calm,
}

/// The page's blocks of Rust.
fn blocks() -> Vec<&'static str> {
    let page = include_str!("../../../../../docs/reference/objectives.md");
    let (_, section) = page.split_once("## A method of your own").unwrap();
    let blocks = section.split("```rust\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0).collect()
}

#[test]
fn the_page_shows_the_files_that_are_compiled_here() {
    let [file, lines] = blocks()[..] else { panic!("a file, and the lines in mod.rs") };
    assert_eq!(file, include_str!("tests/calm.rs"));
    assert!(include_str!("tests.rs").contains(&lines.replace("    // ...\n", "")), "{lines}");
}

#[test]
fn the_method_that_the_page_shows_acts_as_it_says() {
    let methods: Methods = serde_json::from_str(r#"{ "calm": { "least": 0.5 } }"#).unwrap();
    let [calm] = methods.active()[..] else { panic!("one is on") };
    assert_eq!((calm.key, calm.metric), ("calm", "method/calm"));
    assert_eq!(Methods::abouts().map(|about| about.name).collect::<Vec<_>>(), ["Calm"]);
    let numbers = [0.0; 3];
    let tokens = Tokens {
        lengths: &[3],
        logprobs: &numbers,
        acting_logprobs: &numbers,
        log_ratios: &numbers,
        entropies: &[0.4, 0.5, 0.6],
        old_entropies: &numbers,
        entropy_slopes: &[],
        run: RunState::default(),
    };
    let settings = ObjectiveSettings::default();
    let mut treatment = Treatment::plain(&settings, &tokens, &[1.0, -1.0, 0.0]);
    let mut expected = treatment.clone();
    expected.weights = vec![0.0, 1.0, 1.0];
    calm.method.apply(&tokens, &mut treatment);
    assert_eq!(treatment, expected);
}
