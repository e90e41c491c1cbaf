//! What is extracted from responses of many shapes.

use super::Extraction::{Any, Boxed, Stated};
use super::*;

#[track_caller]
fn assert_extracts(extraction: Extraction, cases: &[(&str, &str)]) {
    for (response, answer) in cases {
        let found = from_response(response, extraction).map(|(answer, _)| answer);
        assert_eq!(found.as_deref(), Some(*answer), "{response}");
    }
}

#[test]
fn the_last_box_counts() {
    assert_extracts(
        Boxed,
        &[
            ("So $\\boxed{34}$.", "34"),
            ("\\boxed{2}, no: it is \\boxed{3}, as \\boxed{unfinished", "3"),
            ("\\boxed{\\boxed{3}}", "3"),
            ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
            ("\\fbox{7}", "7"),
            ("\\boxed {7}", "7"),
            ("thus $\\boxed 7$.", "7"),
            ("\\boxed{\\{1\\}}", "\\{1\\}"),
            ("\\\\boxed{004}.\\n", "004"),
            ("\\boxed{5} The final answer is 6.", "5"),
            ("I put it in \\boxed{...}: \\boxed{7}. As asked, in \\boxed{}.", "7"),
            ("\\boxed{7}, as in \\boxed{ \\ldots }", "7"),
            ("\\boxed{…} is for answers: \\boxed{∞}", "∞"),
            ("\\boxed{∅}", "∅"),
            ("\\boxed{\\{\\}}", "\\{\\}"),
            ("<think>\\boxed{1}</think> It is \\boxed{2}.", "2"),
            ("<think>It is \\boxed{1}.</think> So it is as I said.", "1"),
        ],
    );
    for response in ["it is 5", "\\boxed{5", "boxed{5}", "The answer is $5$.", "in \\boxed{}", "\\boxed{...}"]
    {
        assert_eq!(from_response(response, Boxed), None, "{response}");
    }
}

#[test]
fn boxes_next_to_each_other_are_a_list() {
    assert_extracts(
        Boxed,
        &[
            ("$\\boxed{1}\\boxed{2}$", "1, 2"),
            ("$\\boxed{(2, 2)} \\quad \\text{and} \\quad \\boxed{(6, 2)}$", "(2, 2), (6, 2)"),
            ("\\boxed{1}, \\boxed{2} and \\boxed{3}", "1, 2, 3"),
            ("\\boxed{1} papers and \\boxed{2} bins", "1, 2"),
            ("$x = \\boxed{1}$ and $y = \\boxed{2}$", "1, 2"),
            ("\\boxed{(3, 3)} \\text{ for part (a) and } \\boxed{(1, 1)}", "(3, 3), (1, 1)"),
            ("$\\boxed{5}$ and again $\\boxed{5}$", "5"),
            ("\\boxed{1} no no no no no \\boxed{2}", "2"),
            ("$$\\boxed{20}$$ \\boxed{143}", "143"),
            ("\\boxed{1}. And so \\boxed{2}", "2"),
            ("\\boxed{1} is wrong, so we get \\boxed{2}", "2"),
            ("\\boxed{1}\n\nThe answer: \\boxed{2}", "2"),
        ],
    );
}

#[test]
fn statements_count_without_a_box_and_final_ones_after_it() {
    assert_extracts(
        Stated,
        &[
            ("The answer is 5.", "5"),
            ("The answer is: $5$.", "5"),
            ("**Answer:** $x^2$", "x^2"),
            ("Final Answer: The largest $n$ is 34.", "34"),
            ("Final Answer: Jane started growing Sphere 3 hours ago. I hope it is correct.", "3"),
            ("Final Answer: The final answer is $28 \\%$. I hope it is correct. Note: 3.", "28 \\%"),
            ("The answer is $(0, 1)$, since 1 is left out.", "(0, 1)"),
            ("**Final Answer**\n\n$5$", "5"),
            ("#### 18", "18"),
            ("6 * 3 = 18\n#### 1,234", "1,234"),
            ("6 * 3 = 18\n#### 18\n\nQuestion: how many?", "18"),
            ("6 * 3 = 18\n  #### $18$.", "18"),
            ("\\boxed{72}\n#### 2. Check\nok", "72"),
            ("\\boxed{72}\n#### 2\nok", "72"),
            ("\\boxed{72}\n#### 73\n", "73"),
            ("The answer is 5.\n#### 2. Check\nok", "5"),
            ("The answer is 5.\n#### Step 2: the check of 3\nok", "5"),
            ("The answer is 5, see #### 3", "5"),
            ("<answer> 12 </answer>", "12"),
            ("The final answer is $\\frac{1.5}{2}.$ Done.", "\\frac{1.5}{2}."),
            ("So the answer is 4 4/9. It was 3.", "4 4/9"),
            ("The answer is east.", "east"),
            ("The answer is (C) because 3 > 2.", "(C) because 3 > 2"),
            ("\\boxed{255} is the interest. The final answer is $10,455$. I hope.", "10,455"),
            ("\\boxed{80}. Rounding before the final answer is a common mistake.", "80"),
            ("\\boxed{80}. The answer is 7 in other cases.", "80"),
            ("\\boxed{5}. The final answer is 5 because 3+2.", "5"),
            ("\\boxed{5}. The final answer is 6 because 3+3.", "5"),
            ("\\boxed{5}. Is the final answer is 6? No.", "5"),
            ("\\boxed{5}. Is the final answer is 6?", "5"),
            ("\\boxed{5}. The final answer is 6.", "6"),
            ("The answer is 20 cups of feed for 3 chickens.", "20"),
            ("The answer is -3, since 2 is less.", "-3"),
            ("The answer is −72 because the slope is negative.", "-72"),
            ("The answer is **−72**.", "-72"),
            ("The answer is 2 + 3 which makes 5.", "5"),
        ],
    );
    for response in ["it is 5", "Answering is hard: 5", "an answer 5"] {
        assert_eq!(from_response(response, Stated), None, "{response}");
    }
}

#[test]
fn else_the_whole_the_last_formula_or_the_last_number() {
    assert_extracts(
        Any,
        &[
            ("28 percent", "28 percent"),
            ("$1,000.99", "$1,000.99"),
            ("x = 5", "x = 5"),
            ("C", "C"),
            ("We find that $x \\neq 3$.", "x \\neq 3"),
            ("Area is \\[ \n 9 \n \\]", "9"),
            ("Weight is $\\frac79$ and price \\(\\frac{70}{9}\\) in dollars", "\\frac{70}{9}"),
            ("It has $x = 2$. Therefore, the error increases by 100%.", "100%"),
            ("the number is not 10 which is 1,000.99€", "1,000.99"),
            ("First 12, then 34.", "34"),
            ("it is -.5, see A2", "-.5"),
            ("The slope of the line is −72.", "-72"),
            ("The slope of the line is –72.", "-72"),
            ("The slope of the line is －7.5 everywhere.", "-7.5"),
            ("there were 3–5 left over", "5"),
            ("it was in the years (1990)–1995", "1995"),
            ("The sum is 80 – 8 of these", "80 – 8"),
            ("there were 3-5 left over", "5"),
            ("in all there are 2,74 of them", "2,74"),
            ("The correct choice is (C).", "(C)"),
            ("The solution is (1, 2).", "(1, 2)"),
            ("It is somewhere in the interval [1, 2] I think.", "[1, 2]"),
            ("We evaluate f(1, 2) there.", "2"),
            ("There are many (see pages 1, 2) of it.", "2"),
        ],
    );
    for response in ["", " ", "AZYUK2A is all that I know", "I do not know what to say"] {
        assert_eq!(from_response(response, Any), None, "{response}");
    }
}

#[test]
fn an_operand_is_no_answer() {
    assert_extracts(
        Any,
        &[
            ("So the total of these is 73 + 64", "73 + 64"),
            ("So the total of these is 92 - 54 then", "92 - 54"),
            ("So the total of these is **9 * 7** I think", "9 * 7"),
            ("So the total of these is 84 / 4 in the end", "84 / 4"),
            ("So the total of these is 2**5 in Python", "2**5"),
            ("So the total of these is 73 \\cdot 64 in all", "73 \\cdot 64"),
            ("So the total with tax + 5 is due", "tax + 5"),
            ("So the length of it is √5", "√5"),
            ("It takes exactly 10^5 of them", "10^5"),
            ("There are exactly 5! ways to do it", "5!"),
            ("The ratio of these two is 3:4", "3:4"),
            ("So the area is \\frac{3}{4} of it", "\\frac{3}{4}"),
            ("The answer is clearly 137 +", "137 +"),
            // What is no operator.
            ("The answer comes to $72", "72"),
            ("It costs $5 as we said at first, or $72 in all", "72"),
            ("It costs 72$ in all", "72"),
            ("In the end there are **72** of them", "72"),
            ("In the end there are *72* of them", "72"),
            ("We count:\n* 3 apples\n* 5 pears", "5"),
            ("We count:\n- 3 apples\n- 5 pears", "5"),
            ("We count 2\n+ 5 pears", "5"),
            ("We add both and so we see that 73 + 64 = 137 of them", "137"),
            ("Then there are 5+ years to go", "5"),
            ("Then there are 5!", "5"),
            ("Then there are 72 - which is few", "72"),
            ("It is in step 3: 72 of them", "72"),
            ("It is \\textbf{72} as was said", "72"),
            ("There are 72 (see above", "72"),
            ("It is (as was said before 72 of them", "72"),
            ("There are 72 { in all", "72"),
        ],
    );
}

#[test]
fn a_formula_that_is_cut_off_gives_no_number() {
    for response in [
        "The answer is $\\frac{137",
        "The answer is $\\frac{1}{137",
        "The answer is \\(137",
        "So it is \\[ x = 137",
        "So it is $$2 \\cdot 137",
        "So it is $x = 137",
        "So the point is then (1, 137",
        "So the set is then \\frac{1}{137",
    ] {
        let found = from_response(response, Any).map(|(answer, _)| answer);
        assert_ne!(found.as_deref(), Some("137"), "{response}");
    }
}

#[test]
fn money_is_no_formula() {
    let text = "It costs $7.78 for her fudge and they share $10 of it, so $x+1$.";
    let contents: Vec<_> =
        segments(text).iter().map(|found| &text[found.content.0..found.content.1]).collect();
    assert_eq!(contents, ["x+1"]);
}

#[test]
fn ground_truths_may_be_solutions() {
    for (text, answer) in [
        ("5", "5"),
        ("$x$ is $\\boxed{5}$.", "5"),
        ("We add 2 and 3 to get five. The answer is $5$.", "5"),
        ("2 + 3 = 5\n#### 5", "2 + 3 = 5\n#### 5"),
        ("$f(x)=ax$, where $a$ is any integer", "$f(x)=ax$, where $a$ is any integer"),
        ("\\boxed{W(n) = 1", "W(n) = 1"),
    ] {
        assert_eq!(from_ground_truth(text).0, answer);
    }
}
