//! Letters of multiple choices.

use super::assert_graded;

#[test]
fn one_choice_counts_and_neither_several_nor_a_denied_one() {
    assert_graded(
        true,
        &[
            ("A", "\\boxed{A}"),
            ("A", "\\boxed{(A)}"),
            ("A", "\\boxed{\\text{(A)}}"),
            ("C", "\\boxed{\\textbf{(C)}\\ 12}"),
            ("C", "\\boxed{C) with what it says}"),
            ("C", "\\boxed{\\text{Option C}}"),
            ("C", "\\boxed{\\text{Choice (C)}}"),
            ("C", "\\boxed{(C)\\ -3}"),
            ("C", "The answer is (C) because 3 > 2."),
            ("C", "The answer is (C)."),
            ("C", "The correct choice is (C)."),
            ("B", "So the answer is B because 42 is even."),
            ("B", "The correct option is (B) 42."),
            ("D", "The answer is (D) as 15 is odd."),
            ("C", "\\boxed{(C)\\ P(A) + P(B)}"),
            ("C", "\\boxed{\\text{(C) the angle at B.}}"),
            ("C", "\\boxed{\\text{(C) between A and the centre}}"),
            ("A", "\\boxed{(A). So (A)}"),
            ("B", "\\boxed{\\text{B. False}}"),
            ("E", "\\boxed{\\text{(E) cannot be determined}}"),
            ("E", "\\boxed{\\text{(E) Not enough information}}"),
            ("12", "\\boxed{\\textbf{(C)}\\ 12}"),
        ],
    );
    assert_graded(
        false,
        &[
            ("B", "The answer is C because B is 42."),
            ("A", "The answer is A total of 12."),
            ("B", "The correct option is not B because 42 is even."),
            ("A", "\\boxed{(A) is wrong}"),
            ("C", "\\boxed{C: no}"),
            ("A", "\\boxed{\\text{(A)} + 1}"),
            ("A", "\\boxed{\\text{(A)}, 17}"),
            ("A", "\\boxed{\\text{Option B}}"),
            ("A", "\\boxed{\\text{(A) is wrong}}"),
            ("A", "\\boxed{\\text{A. This is not it, but B. is}}"),
            ("A", "\\boxed{(A) isn't right}"),
            ("A", "\\boxed{\\text{(A), which is false}}"),
            ("A", "\\boxed{(A) incorrect}"),
            ("A", "\\boxed{(A) or (B)}"),
            ("A", "\\boxed{(A) or B}"),
            ("A", "\\boxed{A or B}"),
            ("A", "\\boxed{(A), (B), (C)}"),
            ("A", "\\boxed{(A)(B)(C)(D)(E)}"),
            ("A", "\\boxed{A, B, C, D}"),
            ("A", "\\boxed{\\text{A. 4, B. 5, C. 6, D. 7}}"),
            ("C", "\\boxed{\\text{A. 4, B. 5, C. 6, D. 7}}"),
            ("A", "\\boxed{A) 4 B) 5}"),
            ("A", "The answer is (A), although (B) is possible"),
            ("B", "The answer is (A), although (B) is possible"),
            ("B", "\\boxed{(A) (B)}"),
            ("A", "\\boxed{(A) (B)}"),
            ("A", "The answer is not (A)."),
            ("C", "The correct choice is not (C)."),
        ],
    );
}
