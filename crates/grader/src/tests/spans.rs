//! Intervals, inequalities and other sets of real numbers.

use serde_json::json;

use super::{different, same};
use crate::{GroundTruth, Options, Outcome, grade};

#[test]
fn intervals_and_inequalities() {
    same(&[
        ("\\text{all real numbers}", "\\mathbb R"),
        ("\\mathbb{R}", "\\text{all real numbers}"),
        ("\\text{All real numbers.}", "(-\\infty,\\infty)"),
        ("(-\\infty,\\infty)", "\\text{all real numbers}"),
        ("|x|<1", "-1<x<1"),
        ("-1<x<1", "|x|<1"),
        ("x \\le -2 \\text{ or } x \\ge 2", "|x| \\ge 2"),
        ("\\{(1,2)\\}", "(1,2)"),
        ("(1,2)", "\\{(1,2)\\}"),
        ("(-\\infty, 2) \\cup (3, \\infty)", "(3, +\\infty) \\cup (-\\infty, 2)"),
        ("(2,12) \\cup (12,102)", "(2,102) \\setminus \\{12\\}"),
        ("x \\in [-2,7]", "[-2,7]"),
        ("x \\in [-2,7]", "-2 \\le x \\le 7"),
        ("[-2,7]", "7 \\geq x \\geq -2"),
        ("-2 \\le x \\le 7", "[-2,7]"),
        ("\\left(\\frac{3}{5},\\frac{8}{3}\\right]", "(0.6, 8/3]"),
        ("x < 2", "(-\\infty, 2)"),
        ("x \\ne 3", "(-\\infty,3)\\cup(3,\\infty)"),
        ("x \\ne 3", "\\mathbb{R} \\setminus \\{3\\}"),
        ("(-\\infty,\\infty)", "\\mathbb{R}"),
        ("x<2 \\text{ or } x>3", "(-\\infty,2)\\cup(3,\\infty)"),
        ("2<x<3", "x>2 \\text{ and } x<3"),
        ("[0,1) \\cup [1,2]", "[0,2]"),
        ("(-\\infty, 0) \\cup\\{1\\}", "x<0 \\text{ or } x=1"),
        ("\\{x \\mid x > 3\\}", "(3,\\infty)"),
        ("(2,\\infty)", "(2, \\infty)"),
        ("x \\leq 5", "5 \\geq x"),
        ("x < 1", "-x > -1"),
        ("f(2) < f(1) < f(4)", "f(4) > f(1) > f(2)"),
        ("k \\geqslant 2", "k>=2"),
        ("(1,2)U(3,4)", "(1,2)∪(3,4)"),
        ("x != 3", "x \\neq 3"),
        ("0<f(x)<1", "(0,1)"),
    ]);
    different(&[
        ("\\text{all real numbers}", "(0,\\infty)"),
        ("|x|<1", "-1<y<1"),
        ("|x|<1", "x<1"),
        ("\\{(1,2)\\}", "(2,1)"),
        ("[0,1)", "(0,1)"),
        ("[0,1)", "[0,1]"),
        ("[0,9)", "[0,1)"),
        ("x > 5", "x < 5"),
        ("x \\geq 5", "x > 5"),
        ("x < 1", "-x < -1"),
        ("x < 1", "y < 1"),
        ("(2,12) \\cup (12,102)", "(2,102)"),
        ("(27/8,15/8)", "(0,0)"),
        ("x \\in [-2,7]", "-x \\in [-2,7]"),
        ("x \\in [-2,7]", "-2 < x < 7"),
    ]);
    let strict = Options { allow_set_relation: false, ..Options::default() };
    let gold = GroundTruth::from_value(&json!("x \\in [-2,7]")).unwrap();
    assert_eq!(grade(&gold, "\\boxed{-2 \\le x \\le 7}", &strict).outcome, Outcome::Different);
    assert_eq!(grade(&gold, "\\boxed{[-2, 7]}", &strict).outcome, Outcome::Same);
}

#[test]
fn sets_of_real_numbers_have_symbols() {
    same(&[
        ("(0,\\infty)", "\\mathbb{R}^+"),
        ("(0,\\infty)", "\\mathbb R^{+}"),
        ("(0,\\infty)", "\\mathbb{R}_{>0}"),
        ("\\mathbb{R}^+", "x > 0"),
        ("(0,1)\\cup(2,3)", "(0,1) \\bigcup (2,3)"),
        ("[0,\\infty)", "\\mathbb{R}_{\\ge 0}"),
        ("(-\\infty,0)", "\\mathbb{R}^-"),
        ("x \\neq 0", "\\mathbb{R}^*"),
        ("(-\\infty,0)\\cup(0,\\infty)", "\\mathbb{R} - \\{0\\}"),
        ("(-\\infty,0)\\cup(0,\\infty)", "\\mathbb{R} \\setminus \\{0\\}"),
    ]);
    different(&[
        ("(0,\\infty)", "\\mathbb{R}"),
        ("(0,\\infty)", "\\mathbb{R}^-"),
        ("(0,\\infty)", "\\mathbb{R}_{\\ge 0}"),
        ("\\mathbb{R}", "\\mathbb{R}^2"),
        ("\\mathbb{R}", "\\mathbb{R}^+"),
        ("x \\neq 0", "\\mathbb{R} - \\{1\\}"),
    ]);
}
