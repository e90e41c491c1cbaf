//! Whole responses.

use super::assert_graded;

#[test]
fn denied_answers_do_not_count() {
    assert_graded(
        false,
        &[
            ("5", "The answer is not 5."),
            ("5", "\\boxed{5 \\text{ is wrong}}"),
            ("5", "The answer isn't 5."),
            ("5", "The answer isn’t $5$."),
            ("5", "The answer cannot be 5."),
            ("5", "The answer is not $5$."),
            ("5", "It can't be equal to 5."),
            ("5", "Final answer: not 5"),
            ("5", "Ответ не 5."),
            ("5", "答案不是5"),
        ],
    );
    assert_graded(
        true,
        &[
            ("7", "The answer is not 5 but 7."),
            ("7", "It is $7$, not $5$."),
            ("7", "There are 7 of them and not 5."),
            ("undefined", "The answer is undefined."),
            ("5", "Do not forget that there are 5."),
        ],
    );
}

#[test]
fn prose_in_other_scripts_is_searched() {
    assert_graded(
        true,
        &[
            ("5", "答案是5"),
            ("5", "答案是 5"),
            ("5", "答案是５。"),
            ("5", "答案为$5$"),
            ("5", "答案为$5$。"),
            ("5", "一共有5个。"),
            ("5", "Ответ: 5"),
            ("5", "Ответ: $5$."),
            ("5", "답은 5입니다."),
            ("\\sqrt{2}", "答案是√2"),
            ("1/2", "因为 $x = 3$，所以答案是 $\\frac{1}{2}$。"),
            ("-3", "Ответ: -3"),
            ("\\alpha + \\beta", "α + β"),
            ("五", "\\boxed{五}"),
            ("5 см", "\\boxed{5 см}"),
        ],
    );
    assert_graded(false, &[("5", "答案是6"), ("2", "答案是√2"), ("5", "Ответ: 15"), ("五", "\\boxed{六}")]);
}

#[test]
fn an_empty_box_is_no_item_of_a_list() {
    assert_graded(
        true,
        &[
            ("42", "\\boxed{42} \\boxed{}"),
            ("42", "\\boxed{}\\boxed{42}"),
            ("1, 2", "\\boxed{1}, \\boxed{ }, \\boxed{2}"),
        ],
    );
    assert_graded(false, &[("42", "\\boxed{} \\boxed{}")]);
}

#[test]
fn who_hedges_has_not_answered() {
    for gold in ["4", "5"] {
        assert_graded(
            false,
            &[
                (gold, "The answer is 4, maybe 5"),
                (gold, "The answer is 4 or it could be 5."),
                (gold, "The answer is 4 or 5, I'm not sure."),
                (gold, "4 or 5, I'm not sure."),
                (gold, "The answer is $4$, or $5$ if n is odd."),
                (gold, "The answer is 4 times 5."),
                (gold, "The answer is 4 or more."),
                (gold, "The answer is less than 4."),
                (gold, "The answer is at least 5."),
                (gold, "at most 5"),
                (gold, "It is false that the answer is 5."),
                (gold, "It is wrong to say that the answer is 4"),
            ],
        );
    }
    for gold in ["4", "5", "4, 5"] {
        assert_graded(
            false,
            &[
                (gold, "Answer: 4, or perhaps 5"),
                (gold, "The answer is 4 or maybe 5."),
                (gold, "The answer is either 4 or 5."),
            ],
        );
    }
    assert_graded(
        true,
        &[
            ("4", "The answer is 4, because either x or y is 2."),
            ("4, 5", "The answer is 4 or 5."),
            ("4", "The answer is 4, because x is 2 or 3."),
            ("4", "The answer is 4, as at least 4 are red."),
            ("4", "The answer is 4 cm, or so it seems."),
            ("1/2", "The answer is $\\frac12$, or $0.5$ as a decimal."),
            ("5", "It is 4 that was wrong, so the answer is 5."),
        ],
    );
}

#[test]
fn two_statements_are_two_answers() {
    for gold in ["4", "5"] {
        assert_graded(
            false,
            &[
                (gold, "The answer is 4 or the answer is 5"),
                (gold, "The answer is 4. Or the answer is 5."),
                (gold, "Either the answer is 4, or the answer is 5."),
                (gold, "Either the answer is 4 or else the answer is 5."),
                (gold, "Answer: 4. Alternative answer: 5"),
                (gold, "The answer is 4. The answer is also 5."),
                (gold, "The answer is 4. Alternatively, the answer is 5."),
                (gold, "The answer is one of 3, 4, 5"),
                (gold, "The answer is in {4, 5}"),
                (gold, "Answer: 4 (or 5)"),
                (gold, "Answer: 5, alternatively 4"),
                (gold, "\\boxed{4} Alternatively, \\boxed{5}"),
                (gold, "\\boxed{4}. Or: \\boxed{5}"),
                (gold, "The answer is \\geq 5."),
                (gold, "\\neq 5"),
            ],
        );
    }
    assert_graded(
        true,
        &[
            ("4, 5", "The answer is 4. The answer is also 5."),
            ("4, 5", "\\boxed{4}. Alternatively, \\boxed{5}"),
            ("1/2", "The answer is $\\frac12$. Alternatively, the answer is 0.5."),
            ("9", "The answer is 9. The answer is also 9."),
            ("9", "The answer is 9.\n\n### Alternative\n\nThe answer is 9."),
            (
                "(1,2)",
                "By the first method the answer is $(1,2)$. By the second the answer is also $(1, 2)$.",
            ),
            ("Evelyn", "The answer is Evelyn. Alternatively, the answer is Evelyn."),
            ("5", "The answer is 4. No wait, that is wrong. Or rather, the answer is 5."),
            ("5", "If x = 4 it fails. Alternatively, we can compute it. The answer is 5."),
            ("5", "\\boxed{4} is too small. Alternatively, we take 3 of them and get \\boxed{5}"),
            ("5", "Now suppose that the answer is 4. We try another. The answer is 5."),
            ("5", "One of the roots is 4. The answer is 5."),
            ("5", "As $x \\ge 4$, the answer is 5."),
            ("5", "Hence $n \\geq \\boxed{5}$."),
        ],
    );
}

#[test]
fn a_box_that_is_cut_off_is_no_answer() {
    assert_graded(
        false,
        &[
            ("137", "So it is \\boxed{2\\cdot 137"),
            ("137", "$x = \\boxed{\\frac{1}{137}$"),
            ("137", "The answer is \\boxed{2\\cdot 137"),
            ("137", "The answer is \\boxed{1000 - 137"),
            ("137", "The final answer is: $\\boxed{\\frac{137"),
            ("137", "Answer: \\boxed{1, 137"),
        ],
    );
    assert_graded(true, &[("137", "There are 137 of them. \\boxed{13"), ("7", "\\boxed{7} and \\boxed{8")]);
}

#[test]
fn thoughts_count_only_by_a_box() {
    assert_graded(
        true,
        &[
            ("18", "<think>It is 17.</think>\n\nThe answer is 18."),
            ("18", "<think>\\boxed{17}</think>\n\n\\boxed{18}"),
            ("18", "<think>So \\boxed{18}.</think>\n\nThat was it."),
            ("18", "<think>So \\boxed{18} it is, but let me check"),
            ("7", "<think>So \\boxed{5}.</think> There are 7 ways."),
        ],
    );
    assert_graded(
        false,
        &[
            ("18", "<think>The answer is 18, but let me check"),
            ("18", "<think>$x = 18$"),
            ("18", "<think>It is 18.</think>"),
            ("17", "<think>\\boxed{17}</think>\n\n\\boxed{18}"),
        ],
    );
}

#[test]
fn an_answer_may_have_a_heading() {
    assert_graded(
        true,
        &[("5", "Since $x = 3$:\n\n# Answer\n\n5"), ("5", "Since $x = 3$:\n\n**Answer**\n5\n")],
    );
    assert_graded(
        false,
        &[("3", "Since $x = 3$:\n\n# Answer\n\n5"), ("5", "No answer\n\n5 is odd, and $x = 3$")],
    );
}
