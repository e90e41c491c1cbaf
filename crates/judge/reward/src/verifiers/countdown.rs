//! The built-in task countdown: combine all the numbers to reach the target, in written steps.
//!
//! ```text
//! response = attempt (";" attempt)* ("!" | "?")
//! attempt  = step ("," step)*
//! step     = number ("+" | "-" | "*" | "/") number "=" number
//! ```
//!
//! "!" claims that the last attempt reaches the target, "?" gives up. The attempts before the last
//! may be anything that the grammar allows. For 3, 5, 7 and target 22:
//! `3*5=15,15-7=9;3*5=15,15+7=22!`
//!
//! `response.rs` reads responses; `measures.rs` counts attempts, and steps that are false.

mod measures;
mod response;

use self::measures::Measures;
use self::response::Response;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Spec, VerifierName};
use crate::{Item, Judgement, Verdict, Verifier, VerifierError};

/// An operation on non-negative integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Operation {
    /// a + b.
    #[serde(rename = "+")]
    Add,
    /// a - b, where a is at least b.
    #[serde(rename = "-")]
    Subtract,
    /// a * b.
    #[serde(rename = "*")]
    Multiply,
    /// a / b, where b divides a.
    #[serde(rename = "/")]
    Divide,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide];

    /// How it is written.
    pub(crate) fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
        }
    }

    /// The exact result, if it is a non-negative integer of 64 bits.
    pub fn apply(self, a: u64, b: u64) -> Option<u64> {
        match self {
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            Self::Divide => (a.checked_rem(b)? == 0).then(|| a / b),
        }
    }
}

/// One written operation, right or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// First operand.
    pub a: u64,
    /// The operation.
    pub operation: Operation,
    /// Second operand.
    pub b: u64,
    /// The result that is claimed.
    pub result: u64,
}

impl Step {
    /// Whether it says what comes out.
    fn is_true(&self) -> bool {
        self.operation.apply(self.a, self.b) == Some(self.result)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}={}", self.a, self.operation.symbol(), self.b, self.result)
    }
}

/// A problem of the task, and the form of its ground truth: `{"numbers": [3, 5, 7], "target": 22}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// The given numbers, at least one; each must be used once.
    pub numbers: Vec<u64>,
    /// The number that the last step must give.
    pub target: u64,
}

impl Challenge {
    /// Reads a ground truth.
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        match Self::deserialize(value) {
            Ok(challenge) if challenge.numbers.is_empty() => {
                Err("the ground truth has no numbers".into())
            }
            Ok(challenge) => Ok(challenge),
            Err(error) => Err(format!(
                "the ground truth is not {{\"numbers\": [...], \"target\": ...}}: {error}"
            )),
        }
    }

    /// Whether an attempt solves the problem.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn check(&self, attempt: &[Step]) -> Result<(), String> {
        let mut available = self.numbers.clone();
        for step in attempt {
            for operand in [step.a, step.b] {
                let place = available
                    .iter()
                    .position(|&number| number == operand)
                    .ok_or_else(|| format!("in {step} the number {operand} is not available"))?;
                available.swap_remove(place);
            }
            if !step.is_true() {
                return Err(format!("{step} is not true"));
            }
            available.push(step.result);
        }
        match available[..] {
            [last] if last == self.target => Ok(()),
            [last] => Err(format!("the result is {last}, the target {}", self.target)),
            _ => Err(format!("{} numbers are left, not 1", available.len())),
        }
    }
}

/// The verifier of the task, which has no settings.
pub(crate) struct Countdown;

impl Spec for Countdown {
    fn build(&self, _key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        Ok(Box::new(VerifierName::Countdown))
    }

    fn claims(&self, ground_truth: &Value) -> bool {
        ground_truth.get("numbers").is_some() && ground_truth.get("target").is_some()
    }

    fn check_ground_truth(&self, ground_truth: &Value) -> Result<(), String> {
        Challenge::from_value(ground_truth).map(drop)
    }

    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement {
        let challenge = match Challenge::from_value(item.ground_truth) {
            Ok(challenge) => challenge,
            Err(reason) => return Judgement::new(Verdict::Fault, None, reason),
        };
        let mut measures = Measures::new(&challenge.numbers);
        let parsed = Response::parse(response.trim(), &mut measures);
        let judgement = match &parsed {
            Err(reason) => Judgement::new(Verdict::Unparseable, None, reason),
            Ok(response) => response.judge(&challenge),
        };
        let gives_up = parsed.is_ok_and(|response| !response.claims_success);
        Judgement { metrics: measures.metrics(gives_up), ..judgement }
    }
}

impl Response<'_> {
    fn judge(&self, challenge: &Challenge) -> Judgement {
        let extracted = Some(self.last_text.to_owned());
        if !self.claims_success {
            return Judgement::new(Verdict::Wrong, extracted, "gives up");
        }
        match challenge.check(&self.last) {
            Ok(()) => Judgement::new(Verdict::Correct, extracted, "reaches the target"),
            Err(reason) => Judgement::new(Verdict::Wrong, extracted, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn verify(ground_truth: &Value, response: &str) -> Judgement {
        let item = Item { ground_truth, ..Item::default() };
        Countdown.verify(&item, response)
    }

    fn judge(numbers: &[u64], target: u64, response: &str) -> (Verdict, String) {
        let judgement = verify(&json!({"numbers": numbers, "target": target}), response);
        (judgement.verdict, judgement.reason)
    }

    #[test]
    fn right_answers_are_correct() {
        for (numbers, target, response) in [
            (&[3, 5, 7][..], 22, "3*5=15,15-7=9;3*5=15,15+7=22!"),
            (&[7, 5, 3], 22, " 5*3=15,7+15=22!\n"),
            (&[3, 5, 7], 22, "9+9=1;9/0=9;3*5=15,15+7=22!"),
            (&[2, 2], 1, "2/2=1!"),
            (&[2, 2], 0, "2-2=0!"),
            (&[1, 1, 4, 4], 2, "1+1=2,4/4=1,2/1=2!"),
        ] {
            let (verdict, reason) = judge(numbers, target, response);
            assert_eq!(verdict, Verdict::Correct, "{response}: {reason}");
        }
        assert_eq!(
            verify(&json!({"numbers": [1, 2], "target": 3}), "1*2=2;1+2=3!").extracted.unwrap(),
            "1+2=3"
        );
    }

    #[test]
    fn wrong_answers_say_why() {
        for (response, reason) in [
            ("3*5=15,15+7=22?", "gives up"),
            ("3*5=15,15-7=8!", "the result is 8, the target 22"),
            ("3*5=16,16+7=22!", "3*5=16 is not true"),
            ("3-5=2,2+7=9!", "3-5=2 is not true"),
            ("7/5=1,1+3=4!", "7/5=1 is not true"),
            ("3*7=21,21+1=22!", "in 21+1=22 the number 1 is not available"),
            ("3*5=15,3+7=10!", "in 3+7=10 the number 3 is not available"),
            ("3+3=6,5+7=12!", "in 3+3=6 the number 3 is not available"),
            ("3*5=15!", "2 numbers are left, not 1"),
            ("3*5=15,15+7=22;3+5=8!", "2 numbers are left, not 1"),
        ] {
            assert_eq!(
                judge(&[3, 5, 7], 22, response),
                (Verdict::Wrong, reason.into()),
                "{response}"
            );
        }
        // A target reached on the way does not count: every number must be used.
        assert_eq!(judge(&[3, 5, 7], 15, "3*5=15!").0, Verdict::Wrong);
        assert_eq!(
            judge(&[5, 5, 0], 1, "5-5=0,0/0=0!"),
            (Verdict::Wrong, "0/0=0 is not true".into())
        );
    }

    #[test]
    fn broken_grammar_is_unparseable_and_says_where() {
        for (response, reason) in [
            ("", "ends where a number should be"),
            ("!", "'!' at character 1 where a number should be"),
            ("?", "'?' at character 1 where a number should be"),
            ("3*5=15", "ends where one of , ; ! ? should be"),
            ("3*5=15,", "ends where a number should be"),
            ("3*5=15;!", "'!' at character 8 where a number should be"),
            ("3*5=15!!", "'!' at character 8 where the end of the response should be"),
            ("3*5=15! So", "' ' at character 8 where the end of the response should be"),
            ("3*5==15!", "'=' at character 5 where a number should be"),
            ("3*5+7=22!", "'+' at character 4 where = should be"),
            ("3^5=15!", "'^' at character 2 where one of + - * / should be"),
            ("3×5=15!", "'×' at character 2 where one of + - * / should be"),
            ("-3+5=2!", "'-' at character 1 where a number should be"),
            ("03+5=8!", "the number at character 1 starts with 0"),
            ("3+5=1234567890123456789!", "the number at character 5 has more than 18 digits"),
        ] {
            assert_eq!(
                judge(&[3, 5, 7], 22, response),
                (Verdict::Unparseable, reason.into()),
                "{response}"
            );
        }
    }

    #[test]
    fn numbers_do_not_wrap() {
        let huge = 999_999_999_999_999_999;
        assert_eq!(judge(&[huge, huge], 1, &format!("{huge}*{huge}=1!")).0, Verdict::Wrong);
        assert_eq!(judge(&[u64::MAX, 1], 0, "1+1=2!").0, Verdict::Wrong);
    }

    /// The measured attempts, giving up, and share of false steps.
    fn measured(numbers: &[u64], response: &str) -> Option<[f64; 3]> {
        let metrics = verify(&json!({"numbers": numbers, "target": 22}), response).metrics;
        let values = ["attempts", "gave_up", "false_steps"].map(|name| metrics.get(name).copied());
        assert!(
            metrics.is_empty() || metrics.len() == 3 && values.iter().all(Option::is_some),
            "{metrics:?}"
        );
        metrics.get("attempts")?;
        Some(values.map(Option::unwrap))
    }

    #[test]
    fn attempts_giving_up_and_false_steps_are_measured_as_far_as_a_response_can_be_read() {
        for (response, want) in [
            ("3*5=15,15-7=8;3*5=15,15+7=22!", [2.0, 0.0, 0.0]),
            ("3*5=15,15+7=22?", [1.0, 1.0, 0.0]),
            // A false result still yields its number, so the next step with it is true.
            ("3*5=16,16+7=23!", [1.0, 0.0, 0.5]),
            // Numbers that are not available: never given, or given once and already used. A new
            // attempt has them again.
            ("3*4=12!", [1.0, 0.0, 1.0]),
            ("3+3=6!", [1.0, 0.0, 1.0]),
            ("3+5=8,3+7=10?", [1.0, 1.0, 0.5]),
            ("3+5=8;3+7=10?", [2.0, 1.0, 0.0]),
            ("3+5=8,8+7=15,8+7=15!", [1.0, 0.0, 1.0 / 3.0]),
            ("3-5=2,7/5=1,7/0=0,5-3=2!", [1.0, 0.0, 1.0]),
            // Truncated or malformed responses: the steps before count.
            ("3*5=15", [1.0, 0.0, 0.0]),
            ("3*5=15;3+9=12;7-", [2.0, 0.0, 0.5]),
            ("3*5=15;", [1.0, 0.0, 0.0]),
            ("3*5=15? So", [1.0, 0.0, 0.0]),
        ] {
            assert_eq!(measured(&[3, 5, 7], response), Some(want), "{response}");
        }
        for response in ["", "!", "?", "So 3*5=15!", "3*5", "03+5=8!"] {
            assert_eq!(measured(&[3, 5, 7], response), None, "{response}");
        }
        assert_eq!(
            measured(&[3, 3], "3+3=6,6+3=9!"),
            Some([1.0, 0.0, 0.5]),
            "6 is made, a third 3 is not"
        );
        assert!(verify(&json!("22"), "3*5=15!").metrics.is_empty(), "a fault measures nothing");
    }

    #[test]
    fn a_response_of_a_million_steps_is_judged_in_time() {
        let numbers: Vec<u64> = (0..50_000).collect();
        let started = std::time::Instant::now();
        let one_each = "9+9=9;".repeat(500_000) + "1+1=2!";
        assert_eq!(measured(&numbers, &one_each), Some([500_001.0, 0.0, 1.0]));
        let in_one = "1*2=2,".repeat(500_000) + "1*2=2?";
        assert_eq!(measured(&numbers, &in_one).unwrap()[..2], [1.0, 1.0]);
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    }

    #[test]
    fn a_broken_ground_truth_is_a_fault() {
        for ground_truth in [
            json!(null),
            json!("22"),
            json!({"numbers": [3]}),
            json!({"numbers": [], "target": 1}),
            json!({"numbers": [-3], "target": 1}),
            json!({"numbers": [3.5], "target": 1}),
            json!({"numbers": "3", "target": 1}),
        ] {
            let judgement = verify(&ground_truth, "3*5=15!");
            assert_eq!(judgement.verdict, Verdict::Fault, "{ground_truth}");
            assert!(!judgement.verdict.is_scored());
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_a_one_line_reason(text in any::<String>(), near in "[0-9+*/=,;!?×-]{0,40}") {
            for response in [text, near] {
                let judgement = verify(&json!({"numbers": [3, 5, 7], "target": 22}), &response);
                prop_assert!(judgement.verdict.is_scored());
                prop_assert!(!judgement.reason.is_empty() && !judgement.reason.contains('\n'));
            }
        }

        /// The verifier against an evaluator of another kind: a formula built by substitution, in
        /// i128.
        #[test]
        fn agrees_with_evaluation_of_the_formula(
            numbers in proptest::collection::vec(1u64..10, 3..=6),
            picks in proptest::collection::vec((0usize..6, 0usize..6, 0usize..4), 5),
            shift in 0u64..2,
        ) {
            let mut pool: Vec<i128> = numbers.iter().map(|&n| i128::from(n)).collect();
            let mut steps = Vec::new();
            let mut possible = true;
            for &(i, j, operation) in &picks[..numbers.len() - 1] {
                let a = pool.remove(i % pool.len());
                let b = pool.remove(j % pool.len());
                let symbol = ['+', '-', '*', '/'][operation];
                let result = match symbol {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ if b != 0 && a % b == 0 => a / b,
                    _ => -1,
                };
                possible &= result >= 0;
                steps.push(format!("{a}{symbol}{b}={}", result.max(0)));
                pool.push(result.max(0));
            }
            let target = u64::try_from(pool[0]).unwrap() + shift;
            let (verdict, reason) = judge(&numbers, target, &format!("{}!", steps.join(",")));
            prop_assert_eq!(verdict == Verdict::Correct, possible && shift == 0, "{} \
             {}", steps.join(","), reason);
            let falsehoods = measured(&numbers, &format!("{}!", steps.join(","))).unwrap()[2];
            prop_assert_eq!(falsehoods == 0.0, possible, "{}", steps.join(","));
        }
    }
}
