//! The comparison of values against tables, against SymPy, and in general.

mod properties;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Signed;
use serde::Deserialize;

use super::evaluator::Evaluator;
use super::real::Real;
use super::{DEFAULT_FUEL, FactorSign, Tolerance, compare, constant_ratio, same_value};
use crate::expression::Expression;
use crate::fuel::Fuel;
use crate::latex::Commas;
use crate::parse::{Convention, parse};

/// Reads an expression in plain text, with SymPy's names.
fn read(text: &str) -> Expression {
    let text = text.replace('I', "i").replace('E', "e");
    let convention = Convention { commas: Commas::Separate, decimal_logarithm: false };
    let answer = parse(&text, convention).map(|parsed| parsed.answer);
    let expression = answer.as_ref().ok().and_then(|answer| answer.expression());
    expression.unwrap_or_else(|| panic!("{text}: {answer:?}")).clone()
}

fn same_within(a: &str, b: &str, tolerance: Tolerance) -> bool {
    same_value(&read(a), &read(b), tolerance, &mut Fuel::new(DEFAULT_FUEL)).unwrap_or(false)
}

fn same(a: &str, b: &str) -> bool {
    let found = same_within(a, b, Tolerance::default());
    assert_eq!(
        found,
        same_within(b, a, Tolerance::default()),
        "{a} against {b} depends on the order"
    );
    found
}

#[test]
fn values_are_those_of_the_table() {
    let fails = |line: &&str| match (line.split_once(" == "), line.split_once(" != ")) {
        (Some((a, b)), _) => !same(a, b),
        (_, Some((a, b))) => same(a, b),
        _ => false,
    };
    let failures: Vec<_> =
        include_str!("../../../tests/fixtures/values.txt").lines().filter(fails).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    // Equal texts are the same even without a value.
    assert!(same("1/0", "1/0"));
}

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
    for pair in &pairs {
        assert_eq!(same(&pair.a, &pair.b), pair.same, "{} against {}", pair.a, pair.b);
    }
}

#[test]
fn the_tolerance_is_the_users() {
    let coarse = Tolerance { decimals: 2, ..Tolerance::default() };
    let strict = Tolerance { decimals: 12, significant_digits: 8 };
    let endless = Tolerance { decimals: u32::MAX, significant_digits: u32::MAX };
    for (a, b, tolerance, found) in [
        ("3.141", "3.144", coarse, true),
        ("3.141", "3.151", coarse, false),
        ("3141/1000", "3144/1000", coarse, false),
        ("3.1416", "pi", strict, false),
        ("3.1415926536", "pi", strict, true),
        ("0.25", "1/4", endless, true),
        ("0.333", "1/3", endless, false),
    ] {
        assert_eq!(same_within(a, b, tolerance), found, "{a} against {b}");
    }
}

#[test]
fn order() {
    let compared =
        |a: &str, b: &str| compare(&read(a), &read(b), &mut Fuel::new(DEFAULT_FUEL)).unwrap();
    for (a, b, order) in [
        ("1/2", "1/3", Some(Ordering::Greater)),
        ("sqrt(2)", "1.5", Some(Ordering::Less)),
        ("sqrt(3+2*sqrt(2))", "1+sqrt(2)", Some(Ordering::Equal)),
        ("pi", "22/7", Some(Ordering::Less)),
        ("e^(pi*sqrt(163))", "262537412640768744", Some(Ordering::Less)),
        ("-oo", "-10^10", Some(Ordering::Less)),
        ("oo", "oo", Some(Ordering::Equal)),
        ("i", "1", None),
        ("i+1", "i", Some(Ordering::Greater)),
        ("x", "1", None),
        ("1/0", "1", None),
    ] {
        assert_eq!(compared(a, b), order, "{a} against {b}");
        assert_eq!(compared(b, a), order.map(Ordering::reverse), "{b} against {a}");
    }
}

#[test]
fn ratios() {
    let ratio = |a: &str, b: &str| {
        constant_ratio(&read(a), &read(b), &mut Fuel::new(DEFAULT_FUEL)).unwrap()
    };
    for (a, b, sign) in [
        ("x-3", "2*x-6", Some(FactorSign::Positive)),
        ("3-x", "2*x-6", Some(FactorSign::Negative)),
        ("x-y", "sqrt(2)*x-sqrt(2)*y", Some(FactorSign::Positive)),
        ("y/2-x/3-1", "6+2*x-3*y", Some(FactorSign::Negative)),
        ("x^2+y^2-1", "0.5*x^2+0.5*y^2-0.5", Some(FactorSign::Positive)),
        ("sin(2*x)", "-sin(x)*cos(x)", Some(FactorSign::Negative)),
        ("x", "i*x", Some(FactorSign::NotReal)),
        ("5", "7", Some(FactorSign::Positive)),
        ("0", "x-x", Some(FactorSign::Positive)),
        ("x", "0", None),
        ("x-3", "x-4", None),
        ("x", "x^2", None),
        ("sin(x)", "cos(x)", None),
        ("x-3", "y-3", None),
    ] {
        assert_eq!(ratio(a, b), sign, "{a} against {b}");
        assert_eq!(ratio(b, a), sign, "{b} against {a}");
    }
}

/// A decimal without its error.
fn decimal(text: &str) -> BigRational {
    let (integer, decimals) = text.split_once('.').unwrap();
    let digits: BigInt = format!("{integer}{decimals}").parse().unwrap();
    BigRational::new(digits, BigInt::from(10).pow(decimals.len() as u32))
}

#[test]
fn functions_have_the_known_digits() {
    for line in include_str!("../../../tests/fixtures/digits.txt").lines().skip(1) {
        let [expression, re, im] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let mut fuel = Fuel::new(DEFAULT_FUEL);
        let value = Evaluator::at(0, &BTreeSet::new())
            .value(&read(expression), &mut fuel)
            .unwrap()
            .unwrap();
        for (part, digits) in [(value.number.re, re), (value.number.im, im)] {
            let error = (part.to_rational(4096).unwrap() - decimal(digits)).abs();
            assert!(
                error < BigRational::new(1.into(), BigInt::from(10).pow(68)),
                "{line}: {error}"
            );
            assert!(part.error() < -190, "{line}: {}", part.error());
        }
    }
}

#[test]
fn a_cancelled_digit_is_an_error() {
    // 2^300 + 1 - 2^300 is lost, 2^200 + 1 - 2^200 is not.
    let difference = |power: i64| {
        let large = Real::integer(1).scaled(power);
        large + Real::integer(1) - large
    };
    assert_eq!(difference(300).sign(), None);
    assert_eq!(difference(200).sign(), Some(Ordering::Greater));
    assert!(Real::integer(1).scaled(300).loses(Real::integer(1)));
    assert_eq!((Real::integer(3) - Real::integer(3)).sign(), Some(Ordering::Equal));
    let third = Real::rational(&BigRational::new(1.into(), 3.into()));
    assert_eq!((third + third + third - Real::integer(1)).sign(), None);
}
