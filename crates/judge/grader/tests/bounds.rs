//! Whatever a response holds, it is judged soon: hostile inputs of every size.

use std::time::{Duration, Instant};

use isentrope_grader::{
    Extraction, Grade, GroundTruth, Options, Outcome, explain, grade, same_answer,
};
use proptest::prelude::*;
use serde_json::json;

/// Longest that one judgement may take here; a build without optimisation is allowed for.
const LIMIT: Duration = Duration::from_secs(2);

/// Judges as often as a busy machine may keep a judgement from its limit.
fn judge(gold: &str, response: &str) -> Grade {
    let gold = GroundTruth::from_value(&json!(gold)).expect("a ground truth that can be read");
    let mut took = Vec::new();
    for _ in 0..4 {
        let start = Instant::now();
        let grade = grade(&gold, response, &Options::default());
        took.push(start.elapsed());
        if took.last() < Some(&LIMIT) {
            return grade;
        }
    }
    panic!("{took:?} for {}", response.chars().take(60).collect::<String>());
}

fn boxed(answer: &str) -> String {
    format!("\\boxed{{{answer}}}")
}

#[test]
fn towers_and_nests_come_back_at_once() {
    let deep = 100_000;
    for answer in [
        "9^{9^{9^{9}}}".to_owned(),
        "9^9^9^9^9^9".into(),
        "10^{10^{10}} + 1".into(),
        "(x+y)^{1000000}".into(),
        "(10^9)!".into(),
        "\\binom{10^9}{10^8}".into(),
        "\\sqrt[1000000007]{10^{100}}".into(),
        "1e999999999".into(),
        "2 \\times 10^{999999999}".into(),
        "9".repeat(9_000),
        format!("0.{}", "3".repeat(9_000)),
        "{".repeat(deep) + "5" + &"}".repeat(deep),
        "(".repeat(3_000) + "5" + &")".repeat(3_000),
        "\\sqrt{".repeat(1_500) + "5" + &"}".repeat(1_500),
        "x^{".repeat(2_000) + "5" + &"}".repeat(2_000),
        "\\frac{1}{1+".repeat(700) + "5" + &"}".repeat(700),
        "|".repeat(5_000),
        "-".repeat(5_000) + "5",
        "\\sin ".repeat(1_900) + "x",
        "x_{".repeat(2_000) + "5" + &"}".repeat(2_000),
        "\\pm ".repeat(2_000) + "1",
        "1,".repeat(1_900) + "1",
        "1=".repeat(1_900) + "1",
        "x!".repeat(1_900),
        "\\text{".repeat(1_500) + "a" + &"}".repeat(1_500),
        "\\begin{pmatrix}".repeat(600) + "1" + &"\\end{pmatrix}".repeat(600),
        "(1,2)\\cup".repeat(800) + "(1,2)",
        "(".repeat(26) + "1>|x|" + &")>|x|".repeat(26),
        "1.5".to_owned() + &"*10^{2000}".repeat(660),
        "1.5".to_owned() + &"*10^{-2000}".repeat(660),
        vec!["1\\frac{".repeat(18) + "1" + &"}{1}".repeat(18); 25].join("+"),
        "= ".repeat(3_500) + "5",
        "=>".repeat(3_500) + "5",
        (0..60).map(|x| format!("x_{{{x}}}+")).collect::<String>() + "1",
        "(x+1)".repeat(900),
        "(a+b+c+d+e+f)^{40}".into(),
        "\\frac{\\sqrt{2}+\\sqrt{3}+\\sqrt{5}+\\sqrt{7}+\\sqrt{11}}{\\sqrt{13}+\\sqrt{17}+\\sqrt{19}+\\sqrt{23}}".into(),
    ] {
        for gold in ["5", "x", "(1,2)", "1,2", "x<5"] {
            let grade = judge(gold, &boxed(&answer));
            assert_ne!(grade.outcome, Outcome::Same, "{gold} {}", answer.chars().take(60).collect::<String>());
        }
        // An answer is never worth more than a comparison with itself, however large it is.
        let start = Instant::now();
        same_answer(&answer, &format!("{answer} + 1"), &Options::default());
        assert!(start.elapsed() < LIMIT);
    }
    assert_eq!(judge("9^{9^{9^{9}}}", &boxed("9^{9^{9^{9}}}")).outcome, Outcome::Same);
}

#[test]
fn matrices_do_not_outgrow_their_text() {
    let matrix = "\\begin{pmatrix}1&1\\\\1&0\\end{pmatrix}";
    let row = vec!["1"; 20].join("&");
    let large = format!("\\begin{{pmatrix}}{}\\end{{pmatrix}}", vec![row; 20].join("\\\\"));
    let answer = format!("({}1){large}", "x+".repeat(1_500));
    let grade = judge(matrix, &boxed(&answer));
    assert_eq!(grade.outcome, Outcome::NoAnswer);
    assert!(grade.reason.contains("matrices whose arithmetic is longer than"), "{}", grade.reason);
    let reason = GroundTruth::from_value(&json!(answer)).unwrap_err();
    assert!(reason.contains("matrices whose arithmetic is longer than"), "{reason}");
    // Products of matrices are not multiplied out.
    for answer in [matrix.repeat(20), large.repeat(4)] {
        assert_eq!(judge(matrix, &boxed(&answer)).outcome, Outcome::Different);
    }
}

#[test]
fn signs_within_sets_do_not_outgrow_their_text() {
    let signed = |levels: usize, innermost: &str| {
        (0..levels)
            .fold(innermost.to_owned(), |inner, _| format!("x\\pm1\\pm1\\pm1=\\{{{inner}\\}}"))
    };
    for answer in [signed(6, "1"), signed(4, &"x+1".repeat(1_000)), signed(12, "1")] {
        for (gold, answer) in
            [("137", boxed(&answer)), ("\\pm 1", format!("The answer is ${answer}$."))]
        {
            let grade = judge(gold, &answer);
            assert_ne!(grade.outcome, Outcome::Same);
        }
        let reason = GroundTruth::from_value(&json!(answer)).unwrap_err();
        assert!(reason.contains("±"), "{reason}");
    }
    // As many ± next to each other as an answer may hold.
    let (signs, values) =
        ((1..400).map(|n| format!("\\pm {n}")), (1..400).map(|n| format!("{n}, -{n}")));
    let (signs, values) =
        (signs.collect::<Vec<_>>().join(","), values.collect::<Vec<_>>().join(","));
    assert_eq!(judge(&values, &boxed(&signs)).outcome, Outcome::Same);
    assert_eq!(
        judge("\\pm\\sqrt2\\pm\\sqrt3", &boxed("\\pm\\sqrt3\\pm\\sqrt2")).outcome,
        Outcome::Same
    );
}

#[test]
fn long_responses_are_scanned_once() {
    let size = 1 << 20;
    for unit in [
        "\\frac",
        "\\boxed{",
        "\\boxed{1} and ",
        "{",
        "}",
        "$",
        "\\(",
        "$$",
        "$1$ ",
        "answer ",
        "answer is ",
        "it is wrong to say that the answer is ",
        "suppose 5 ",
        "> ",
        "Answer: 5. ",
        "####",
        "9",
        "1,",
        "a ",
        "\\",
        "\\\\",
        "the final answer is $",
        "<answer>",
        "\\text{",
        "Therefore 1. ",
        "((",
        "é",
        "\u{202e}",
        "|",
        "^",
        "</think>",
    ] {
        let response = unit.repeat(size / unit.len());
        judge("5", &response);
        judge("5", &boxed(&response));
        assert_eq!(
            judge("5", &format!("{response} }}}}$ \n\n**Final Answer**\n$\\boxed{{5}}$")).outcome,
            Outcome::Same,
            "{unit}"
        );
    }
}

#[test]
fn many_boxes_are_compared_once() {
    let boxes: String = (0..60_000).map(|n| format!("\\boxed{{{n}}},")).collect();
    assert_eq!(judge("5", &boxes).outcome, Outcome::NoAnswer);
}

#[test]
fn too_much_is_unparseable_or_a_fault_and_says_so() {
    let grade = judge("5", &boxed(&"1+".repeat(6_000)));
    assert_eq!(grade.outcome, Outcome::NoAnswer);
    assert!(grade.reason.contains("longer than"), "{}", grade.reason);
    let nested = "\\sqrt{".repeat(200) + "5" + &"}".repeat(200);
    assert_eq!(judge("5", &boxed(&nested)).outcome, Outcome::NoAnswer);
    let reason = GroundTruth::from_value(&json!(nested)).unwrap_err();
    assert!(reason.contains("ground truth") && reason.contains("deeper"), "{reason}");
}

#[test]
fn a_comparison_that_takes_too_much_work_says_so_and_is_not_right() {
    let waves: Vec<String> = (1..600).map(|n| format!("\\sin({n}x)")).collect();
    let reversed: Vec<String> = waves.iter().rev().cloned().collect();
    let grade = judge(&waves.join("+"), &boxed(&reversed.join("+")));
    assert_eq!(grade.outcome, Outcome::OutOfFuel, "{grade:?}");
    assert!(
        grade.reason.contains("more work to compare than is allowed, and is wrong"),
        "{}",
        grade.reason
    );
}

#[test]
fn long_honest_answers_have_fuel_in_any_order() {
    let numbers: Vec<String> = (0..900).map(|number| (number * 7 % 997).to_string()).collect();
    let reversed: Vec<String> = numbers.iter().rev().cloned().collect();
    let terms: Vec<String> =
        (1..120).map(|power| format!("{}x^{{{power}}}", power * power)).collect();
    let reversed_terms: Vec<String> = terms.iter().rev().cloned().collect();
    for (gold, response) in [
        (numbers.join(","), reversed.join(", ")),
        (format!("\\{{{}\\}}", numbers.join(",")), format!("\\{{{}\\}}", reversed.join(", "))),
        (terms.join("+"), reversed_terms.join(" + ")),
        ("9".repeat(3000), "9".repeat(3000) + ".0"),
        ((1..400).map(|n| n.to_string()).collect::<Vec<_>>().join("+"), "79800".into()),
        ("(x+1)^{60}".into(), "(1+x)^{30}(x+1)^{30}".into()),
    ] {
        let outcome = judge(&gold, &boxed(&response)).outcome;
        assert_eq!(outcome, Outcome::Same, "{}", response.chars().take(60).collect::<String>());
    }
    // The digits of a long number the other way round are another number, and said to be.
    let digits: String = (0..4000).map(|place| char::from(b'1' + (place % 9) as u8)).collect();
    let backwards: String = digits.chars().rev().collect();
    assert_eq!(judge(&digits, &boxed(&backwards)).outcome, Outcome::Different);
}

/// Pieces of answers, between spaces.
const PIECES: &str = r"\frac \dfrac { } ( ) [ ] 1 2 12 .5 , ; x y e i \pi \sqrt ^ _ \pm \cup \{ \} = < \le \in \infty \text{
    \begin{pmatrix} \end{pmatrix} & \\ \sin \log | ! % ° ^\circ \boxed{ $ - + * / \cdot and or √ ² \overline{
    \left \right f(x)";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_judged(gold in any::<String>(), response in any::<String>()) {
        for extraction in [Extraction::Boxed, Extraction::Stated, Extraction::Any] {
            let options = Options { extraction, ..Options::default() };
            for response in [response.clone(), boxed(&response), format!("The answer is {response}")] {
                if let Ok(gold) = GroundTruth::from_value(&json!(gold)) {
                    let grade = grade(&gold, &response, &options);
                    prop_assert!(!grade.reason.contains('\n'));
                }
                prop_assert!(!explain(&gold, &response, &options).seen.is_empty());
            }
        }
    }

    #[test]
    fn near_answers_are_judged_and_equal_themselves(pieces in proptest::collection::vec(any::<usize>(), 0..24)) {
        let all: Vec<&str> = PIECES.split_whitespace().chain([" ", "\\text{ cm}"]).collect();
        let answer: String = pieces.iter().map(|piece| all[piece % all.len()]).collect();
        let start = Instant::now();
        let options = Options::default();
        if let Ok(gold) = GroundTruth::from_value(&json!(answer)) {
            grade(&gold, &boxed(&answer), &options);
            grade(&gold, &answer, &options);
            if !answer.contains("boxed") {
                prop_assert!(same_answer(&answer, &answer, &options), "{}", answer);
            }
        }
        same_answer(&answer, "5", &options);
        prop_assert!(start.elapsed() < LIMIT, "{}", answer);
    }
}
