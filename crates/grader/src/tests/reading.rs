//! Words, and text that has to be made plain.

use serde_json::json;

use super::{different, graded, same};
use crate::Outcome;

#[test]
fn words_and_choices() {
    same(&[
        ("\\text{east}", "East"),
        ("\\text{Evelyn}", "\\text{Evelyn}"),
        ("even", "\\text{Even.}"),
        ("\\text{(C)}", "C"),
        ("C", "(C)"),
        ("C", "\\textbf{(C)}\\ 12"),
        ("C", "C. 12"),
        ("12", "\\textbf{(C)}\\ 12"),
        ("\\text{E}", "E"),
        ("\\text{e}", "e"),
        ("no solution", "No Solutions"),
        ("infinitely many", "\\infty"),
        ("undefined", "\\text{does not exist}"),
    ]);
    different(&[
        ("\\text{east}", "west"),
        ("\\text{(C)}", "(D)"),
        ("\\text{(C)}", "(B) \\text{ or } (C)"),
        ("\\text{even}", "odd"),
        ("yes", "no"),
        ("3", "\\text{not } 3"),
    ]);
}

#[test]
fn data_that_was_escaped_twice() {
    for (gold, response) in [
        ("\\\\left( \\\\frac{4}{3}, -\\\\frac{1}{3} \\\\right)", "\\boxed{(4/3,-1/3)}"),
        ("004", "so \\\\boxed{004}.\\n\\n**Final Answer**\\n\\\\boxed{004}"),
        ("-2 \\\\le x \\\\le 7", "$x \\in [-2,7]$"),
    ] {
        assert_eq!(graded(&json!(gold), response).outcome, Outcome::Same, "{gold} | {response}");
    }
}

#[test]
fn numbers_may_be_words() {
    same(&[
        ("21", "\\text{twenty one}"),
        ("12", "\\text{twelve}"),
        ("\\text{two}", "2"),
        ("0", "\\text{Zero.}"),
    ]);
    different(&[("12", "\\text{eleven}"), ("\\text{two}", "3"), ("10", "t e n")]);
}

#[test]
fn looks_say_nothing() {
    same(&[
        ("11", "\\textcolor{blue}{11}"),
        ("11", "\\color{red} 11"),
        ("11", "\\Large 11"),
        ("11", "``11''"),
        ("11", "'11'"),
        ("11", "\"11\""),
        ("Evelyn", "\\boldsymbol{\\text{Evelyn}}"),
        ("Evelyn", "\\underline{\\text{Evelyn}}"),
        ("Evelyn", "\\color{blue}\\text{Evelyn}"),
        ("Evelyn", "\\textcolor{blue}{\\text{Evelyn}}"),
    ]);
    different(&[
        ("blue", "\\textcolor{blue}{\\text{Evelyn}}"),
        ("11", "\\textcolor{blue}{12}"),
        ("11", "'12'"),
        ("f", "f'"),
        ("f", "'f''"),
    ]);
}

#[test]
fn words_may_be_a_sentence() {
    same(&[
        ("\\text{odd}", "\\text{The function is odd}"),
        ("\\text{ellipse}", "\\text{an ellipse}"),
        ("\\text{hyperbola}", "\\text{The graph is a hyperbola.}"),
        ("\\text{no solution}", "\\text{No solution exists}"),
    ]);
    different(&[
        ("\\text{odd}", "\\text{The function is not odd}"),
        ("\\text{odd}", "\\text{The function isn't odd}"),
        ("\\text{odd}", "\\text{The function is even}"),
        ("\\text{odd}", "\\text{None is odd}"),
        ("\\text{odd}", "\\text{Neither is odd}"),
        ("\\text{odd}", "\\text{No function is odd}"),
        ("\\text{ellipse}", "\\text{a hyperbola}"),
        ("\\text{Alice is odd}", "\\text{Bob is odd}"),
    ]);
}
