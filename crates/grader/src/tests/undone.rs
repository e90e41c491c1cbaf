//! Arithmetic that is left to be done, and what looks like it.

use super::{assert_graded, different, same};
use crate::{GroundTruth, Options, Outcome, grade};

#[test]
fn a_question_is_no_answer() {
    different(&[
        ("137", "73 + 64"),
        ("137", "64+73"),
        ("9", "(73) - 64"),
        ("-9", "-(73 - 64)"),
        ("63", "9 \\cdot 7"),
        ("63", "9(7)"),
        ("21", "84/4"),
        ("-21", "-84/4"),
        ("-21", "-\\frac{84}{4}"),
        ("21", "-(-84/4)"),
        ("21", "\\frac{84}{4}"),
        ("137", "73 + 64 = 64 + 73"),
        ("38", "92 - 54 \\approx 28"),
        ("28", "88 - 60 = x"),
        ("28", "x = 88 - 60"),
        ("137", "x = 73 + 64"),
        ("x = 137", "73 + 64"),
        ("137", "73 + 64 \\text{ or } 64 + 73"),
        ("0.5", "0.2 + 0.3"),
        ("\\frac12", "\\frac14 + \\frac14"),
        ("5", "\\sqrt{9 + 16}"),
        ("6", "\\gcd(12, 18)"),
        ("1, 2", "1, 1 + 1"),
        ("(1, 2)", "(1, 1 + 1)"),
    ]);
    assert_graded(
        false,
        &[("38", "92 - 54 ≈ 28"), ("137", "73 + 64"), ("137", "73 + 64."), ("137", "The answer is 73 + 64.")],
    );
}

#[test]
fn what_is_worked_out_is_an_answer_however_it_is_written() {
    same(&[
        ("137", "73 + 64 = 137"),
        ("137", "137 = 73 + 64"),
        ("38", "92 - 54 \\approx 38"),
        ("\\frac23", "\\frac23 \\approx 0.67"),
        ("137", "x = 73 + 64 = 137"),
        ("137", "+137"),
        ("3", "\\frac{3}{1}"),
        ("3/4", "\\frac{6}{8}"),
        ("0.75", "3/4"),
        ("50\\%", "\\frac12"),
        ("\\frac{7}{2}", "3\\frac12"),
        ("1200", "1.2 \\times 10^3"),
        ("300000000", "3 \\times 10^8"),
        ("1024", "2^{10}"),
        ("120", "5!"),
        ("10", "\\binom{5}{2}"),
        ("4", "\\sqrt{16}"),
        // What is asked for is not written out either, or cannot be.
        ("73 + 64", "64 + 73"),
        ("2 \\cdot 3", "3 \\cdot 2"),
        ("1 + \\sqrt2", "\\sqrt2 + 1"),
        ("x + 1", "1 + x"),
        ("2, 3", "3, 2"),
    ]);
    assert_graded(true, &[("137", "73 + 64 equals 137."), ("137", "73 + 64 is 137")]);
}

#[test]
fn an_option_takes_either() {
    let options = Options { allow_undone: true, ..Options::default() };
    let gold = GroundTruth::from_value(&"137".into()).expect("a number");
    assert_eq!(grade(&gold, "73 + 64", &options).outcome, Outcome::Same);
    let grade = grade(&gold, "73 + 64", &Options::default());
    assert_eq!(grade.reason, "the whole text leaves arithmetic to be done");
}
