//! Comparison of values against SymPy's, see fixtures/README.md.

use super::infix::read;
use crate::fuel::Fuel;
use crate::value::{DEFAULT_FUEL, Sameness, Tolerance, same_value};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    same: bool,
}

#[test]
fn verdicts_are_those_of_sympy() {
    let pairs: Vec<Pair> =
        serde_json::from_str(include_str!("../../../tests/fixtures/value_pairs.json")).unwrap();
    assert!(pairs.len() >= 300 && pairs.iter().filter(|pair| !pair.same).count() >= 80);
    let mut failures = Vec::new();
    for Pair { a, b, same } in &pairs {
        let found = same_value(&read(a), &read(b), Tolerance::default(), &mut Fuel::new(DEFAULT_FUEL));
        if found != Ok(if *same { Sameness::Same } else { Sameness::Different }) {
            failures.push(format!("{a} against {b}: {found:?}, same: {same}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}: {failures:#?}", failures.len(), pairs.len());
}
