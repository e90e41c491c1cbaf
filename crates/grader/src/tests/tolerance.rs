//! Decimals for what they round.

use serde_json::json;

use super::{different, same};
use crate::{GroundTruth, Options, Outcome, grade};

#[test]
fn what_can_be_written_exactly_is_not_rounded() {
    same(&[
        ("1.5 \\times 10^{4}", "15000"),
        ("12345", "1.2345 \\times 10^4"),
        ("3.14", "\\pi"),
        ("0.143", "1/7"),
        ("1.00049", "1.000"),
        ("3^{2007}", "3.82259442752E+957"),
    ]);
    different(&[
        ("12345", "1.23\\times10^4"),
        ("1234567890", "1.235\\times10^9"),
        ("8999", "9.00e3"),
        ("2023", "2.02\\times10^3"),
        ("123456", "123.5\\times10^3"),
        ("999/1000", "1.00"),
        ("-12345", "-1.23\\times10^4"),
        ("12345", "12300.0"),
        ("2^{30}", "1.07e9"),
        ("2^{64}", "1.84e19"),
        ("4.5e33", "4.5e33 + x"),
        ("2^{100}", "1.268 \\times 10^{30}"),
        ("123456789012345678901234567890", "1.23e29"),
    ]);
    let gold = GroundTruth::from_value(&json!("0.143")).unwrap();
    for (significant_digits, outcome) in [(3, Outcome::Same), (4, Outcome::Different)] {
        let options = Options { significant_digits, ..Options::default() };
        assert_eq!(grade(&gold, "\\boxed{1/7}", &options).outcome, outcome, "{significant_digits}");
    }
}

#[test]
fn an_exact_ground_truth_takes_a_rounding_of_many_digits_only() {
    same(&[
        ("1/7", "0.142857"),
        ("3\\sqrt{13}", "10.816654"),
        ("3\\sqrt{13}", "10.8167"),
        ("\\pi", "3.14159"),
        ("6.67", "20:3"),
        ("(0.333, 1)", "(1/3, 1)"),
    ]);
    different(&[
        ("1/7", "0.143"),
        ("3\\sqrt{13}", "10.82"),
        ("4\\pi", "12.57"),
        ("20:3", "6.67"),
        ("(1/3, 1)", "(0.333, 1)"),
    ]);
    let gold = GroundTruth::from_value(&json!("4\\pi")).unwrap();
    for (decimals, outcome) in [(4, Outcome::Same), (5, Outcome::Different)] {
        let options = Options { decimals, ..Options::default() };
        assert_eq!(grade(&gold, "\\boxed{12.57}", &options).outcome, outcome, "{decimals}");
    }
}
