//! Plain comparison of final answers: numbers by value, everything else as normalised text.
//!
//! It does no algebra: `x+1` and `1+x`, or `\sqrt{8}` and `2\sqrt{2}`, are different to it. What it calls correct is
//! correct but for the signs of degrees, percent and dollars that normalisation drops; what it calls wrong may be right
//! in other words. The last number of a response without a box may be no answer at all: ask for a box.

use serde_json::Value;

use crate::{Item, Judgement, Verdict, Verifier};

/// The verifier. A response's answer is what its last `\boxed{...}` holds, else its last number.
///
/// A ground truth is a text, a number, or a list of them of which each is accepted; a text may itself be boxed or
/// between dollar signs.
#[derive(Clone, Copy, Debug)]
pub struct Answer;

impl Verifier for Answer {
    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement {
        let accepted = match GroundTruth::from_value(item.ground_truth) {
            Ok(accepted) => accepted,
            Err(reason) => return Judgement::new(Verdict::Fault, None, reason),
        };
        let Some(answer) = last_boxed(response).or_else(|| last_number(response)) else {
            return Judgement::new(Verdict::Unparseable, None, "holds neither \\boxed{...} nor a number");
        };
        let form = Form::of(answer);
        let (verdict, reason) = if form == Form::Text(String::new()) {
            (Verdict::Unparseable, "the box is empty")
        } else if accepted.0.contains(&form) {
            (Verdict::Correct, "equals the ground truth")
        } else {
            (Verdict::Wrong, "differs from the ground truth")
        };
        Judgement::new(verdict, Some(answer.trim().to_owned()), reason)
    }
}

/// The accepted answers of a problem.
#[derive(Debug)]
pub struct GroundTruth(Vec<Form>);

impl GroundTruth {
    /// Reads a ground truth.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let one = |value: &Value| match value {
            Value::String(text) => match Form::of(last_boxed(text).unwrap_or(text)) {
                Form::Text(text) if text.is_empty() => Err("the ground truth is empty".to_owned()),
                form => Ok(form),
            },
            Value::Number(number) => Ok(Form::of(&number.to_string())),
            _ => Err("the ground truth is neither a text, nor a number, nor a list of them".to_owned()),
        };
        let forms = match value {
            Value::Array(values) => values.iter().map(one).collect::<Result<_, _>>()?,
            value => vec![one(value)?],
        };
        if forms.is_empty() { Err("the ground truth is an empty list".into()) } else { Ok(Self(forms)) }
    }
}

/// An answer in the form in which answers are compared.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// Numerator and positive denominator in lowest terms.
    Number(i128, i128),
    Text(String),
}

impl Form {
    fn of(answer: &str) -> Self {
        let text = normalise(answer);
        match rational(&text) {
            Some((numerator, denominator)) => Self::Number(numerator, denominator),
            None => Self::Text(text),
        }
    }
}

/// What a complete `\boxed{...}` of a text holds: of several, the one that opens last.
pub fn last_boxed(text: &str) -> Option<&str> {
    let mut found: Option<(usize, usize)> = None;
    // Every open brace, with where it opens and whether it is a box's; escaped braces are text.
    let mut open = Vec::new();
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => open.push((place + 1, text[..place].ends_with("\\boxed"))),
            b'}' => {
                if let Some((start, true)) = open.pop()
                    && found.is_none_or(|(last, _)| start > last)
                {
                    found = Some((start, place));
                }
            }
            _ => {}
        }
    }
    found.map(|(start, end)| &text[start..end])
}

/// The last number of a text: `-1,234.5`, `.5` or `3/4`, not right after a letter. After a digit, letter or bracket a
/// minus is a subtraction.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut found = None;
    let mut place = 0;
    while place < bytes.len() {
        let length = number_length(&bytes[place..]);
        match bytes[..place] {
            _ if length == 0 => {}
            [.., letter] if letter.is_ascii_alphabetic() => {}
            [.., before, b'-'] if before.is_ascii_alphanumeric() || matches!(before, b')' | b'}') => {
                found = Some(&text[place..place + length]);
            }
            [.., b'-'] => found = Some(&text[place - 1..place + length]),
            _ => found = Some(&text[place..place + length]),
        }
        place += length.max(1);
    }
    found
}

/// Length of the number without a sign that a text starts with; 0 if it starts with none.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| text.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let integer = digits(0);
    let mut end = integer;
    while (1..=3).contains(&integer) && text.get(end) == Some(&b',') && digits(end + 1) == 3 {
        end += 4;
    }
    for mark in [b'.', b'/'] {
        let more =
            if text.get(end) == Some(&mark) && (end > 0 || mark == b'.') { digits(end + 1) } else { 0 };
        end += if more > 0 { 1 + more } else { 0 };
    }
    end
}

/// Spellings that do not change an answer.
const REPLACEMENTS: [(&str, &str); 19] = [
    ("−", "-"),
    ("\\$", ""),
    ("$", ""),
    ("\\(", ""),
    ("\\)", ""),
    ("\\[", ""),
    ("\\]", ""),
    ("\\%", ""),
    ("%", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("{,}", ","),
    ("\\left", ""),
    ("\\right", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("\\!", ""),
    ("\\,", ""),
    ("\\ ", ""),
];

/// A text without what does not change an answer.
fn normalise(answer: &str) -> String {
    let mut text = answer.to_owned();
    for (from, to) in REPLACEMENTS {
        text = text.replace(from, to);
    }
    for command in ["\\text{", "\\mathrm{", "\\textbf{", "\\mathbf{", "\\mbox{"] {
        text = unwrap(&text, command);
    }
    text.retain(|c| !c.is_whitespace());
    let text = text.trim_end_matches('.');
    let text = match text.as_bytes() {
        [letter, b'=', _, ..] if letter.is_ascii_alphabetic() => &text[2..],
        _ => text,
    };
    let number = text.strip_prefix(['-', '+']).unwrap_or(text);
    if last_number(number) == Some(number) && !number.contains('/') {
        text.replace(',', "")
    } else {
        text.into()
    }
}

/// A text with the argument of each such command, which holds no braces, in the command's place.
fn unwrap(text: &str, command: &str) -> String {
    let mut unwrapped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(command) {
        unwrapped.push_str(&rest[..start]);
        rest = &rest[start + command.len()..];
        match rest.find(['{', '}']) {
            Some(end) if rest[end..].starts_with('}') => {
                unwrapped.push_str(&rest[..end]);
                rest = &rest[end + 1..];
            }
            _ => unwrapped.push_str(command),
        }
    }
    unwrapped + rest
}

/// The value of `3`, `-0.5`, `3/4`, `\frac{3}{4}` or `\frac34`: numerator and positive denominator in lowest terms.
fn rational(text: &str) -> Option<(i128, i128)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (numerator, denominator) = if let Some(arguments) = text.strip_prefix("\\frac") {
        match arguments.strip_prefix('{').and_then(|arguments| arguments.strip_suffix('}')) {
            Some(arguments) => arguments.split_once("}{")?,
            None if arguments.len() == 2 && arguments.is_ascii() => arguments.split_at(1),
            None => return None,
        }
    } else {
        text.split_once('/').unwrap_or((text, "1"))
    };
    let ((a, b), (c, d)) = (decimal(numerator)?, decimal(denominator)?);
    let (numerator, denominator) = (sign * a * d, b * c);
    let divisor = greatest_common_divisor(numerator.abs(), denominator.abs());
    // Of a zero denominator nothing is the value.
    (denominator != 0).then(|| {
        let divisor = divisor * denominator.signum();
        (numerator / divisor, denominator / divisor)
    })
}

/// `12`, `-12.5`, `.5` or `5.` as numerator and power of ten, with at most 18 digits: products of two fit.
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (integer, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = integer.len() + decimals.len();
    if !(1..=18).contains(&digits) || !integer.bytes().chain(decimals.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value =
        integer.bytes().chain(decimals.bytes()).fold(0, |value, digit| value * 10 + i128::from(digit - b'0'));
    Some((sign * value, 10i128.pow(decimals.len() as u32)))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn verify(ground_truth: &Value, response: &str) -> Judgement {
        let item = Item { ground_truth, prompt: "", data_source: "", extra_info: &Value::Null };
        Answer.verify(&item, response)
    }

    #[test]
    fn equal_answers_are_correct() {
        for (ground_truth, response) in [
            (json!("34"), "So the answer is \\boxed{34}."),
            (json!("34"), "First 12, then 34."),
            (json!(34), "#### 34"),
            (json!("\\boxed{34}"), "\\boxed{034}"),
            (json!("$34$"), "\\boxed{ 34. }"),
            (json!(["7", "34"]), "\\boxed{x = 34}"),
            (json!("1/2"), "\\boxed{0.50}"),
            (json!(0.5), "\\boxed{\\dfrac{1}{2}}"),
            (json!(".5"), "\\boxed{\\frac12}"),
            (json!("-1/2"), "\\boxed{\\frac{-1}{2}}"),
            (json!("-\\frac{1}{2}"), "it is -0.5"),
            (json!("1234567"), "1,234,567 in all"),
            (json!("1,234"), "\\boxed{1{,}234}"),
            (json!("-1234"), "\\boxed{-1,234}"),
            (json!("\\frac{\\sqrt{2}}{2}"), "\\boxed{\\frac{\\sqrt{2}}{2}}"),
            (json!("(1,2)"), "\\boxed{\\left(1, 2\\right)}"),
            (json!("\\text{(A)}"), "\\boxed{(A)}"),
            (json!("90"), "\\boxed{90^\\circ}"),
            (json!("50"), "\\boxed{50\\%}"),
            (json!("12"), "\\boxed{\\$12}"),
            (json!("3"), "\\boxed{2} no, \\boxed{3}, as \\boxed{unfinished"),
            (json!("3"), "\\boxed{\\boxed{3}}"),
            (json!("\\{1\\}"), "\\boxed{\\{1\\}}"),
            (json!("5"), "3-5"),
            (json!("-5"), "x=-5"),
            (json!("-.5"), "it is -.5, see A2"),
            (json!("2.5"), "2.5cm"),
        ] {
            let judgement = verify(&ground_truth, response);
            assert_eq!(judgement.verdict, Verdict::Correct, "{ground_truth} {response}: {judgement:?}");
        }
    }

    #[test]
    fn other_answers_are_wrong() {
        for (ground_truth, response) in [
            (json!("34"), "\\boxed{35}, not 34"),
            (json!("34"), "34 or 35"),
            (json!("2"), "\\boxed{(1,2)}"),
            (json!("12"), "\\boxed{1,2}"),
            (json!("1/2"), "\\boxed{1/3}"),
            (json!("0"), "\\boxed{0/0}"),
            (json!("5"), "\\boxed{-5}"),
            (json!("1+x"), "\\boxed{x+1}"),
            (json!("100000000000000000000"), "\\boxed{100000000000000000001}"),
        ] {
            assert_eq!(verify(&ground_truth, response).verdict, Verdict::Wrong, "{ground_truth} {response}");
        }
    }

    #[test]
    fn no_answer_is_unparseable_and_no_ground_truth_a_fault() {
        for response in ["", "I do not know.", "\\boxed{}", "\\boxed{ }", "\\boxed{x", "..//,,--", "A2", "/"]
        {
            assert_eq!(verify(&json!("34"), response).verdict, Verdict::Unparseable, "{response}");
        }
        for ground_truth in [json!(null), json!(""), json!(" "), json!([]), json!([null]), json!({"a": 1})] {
            assert_eq!(verify(&ground_truth, "34").verdict, Verdict::Fault, "{ground_truth}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in any::<String>(), near in r"(\\boxed\{|\\frac|\\text\{|[{}0-9.,/$=×-]){0,30}") {
            for text in [text, near] {
                prop_assert!(verify(&json!("34"), &text).verdict.is_scored());
                // A text that can be a ground truth equals itself in a box, unless it closes the box.
                if GroundTruth::from_value(&json!(text)).is_ok() && !text.contains(['{', '}', '\\']) {
                    prop_assert_eq!(verify(&json!(text), &format!("\\boxed{{{text}}}")).verdict, Verdict::Correct);
                }
            }
        }

        #[test]
        fn fractions_are_compared_by_value(a in -999i64..999, b in 1i64..999, k in 1i64..99, c in -999i64..999) {
            let response = format!("\\boxed{{\\frac{{{}}}{{{}}}}}", a * k, b * k);
            prop_assert_eq!(verify(&json!(format!("{a}/{b}")), &response).verdict, Verdict::Correct);
            let verdict = if a == c { Verdict::Correct } else { Verdict::Wrong };
            prop_assert_eq!(verify(&json!(format!("{c}/{b}")), &response).verdict, verdict);
        }
    }
}
