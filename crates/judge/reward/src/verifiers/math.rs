//! The verifier of mathematical answers: the crate `isentrope-grader`, asked about problems.

use isentrope_code::Tests;
use isentrope_grader::{
    Explanation, Grade, GroundTruth, Options, Outcome, explain, grade, same_answer,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Spec;
use crate::{Item, Judgement, Verdict, Verifier, VerifierError, in_threads};

/// The key of a problem's own options in its `extra_info`.
pub const OF_PROBLEM: &str = "math_options";

/// The verifier of mathematical answers.
///
/// A ground truth is whatever [`GroundTruth::from_value`] reads. A problem may have options of its
/// own ([`OF_PROBLEM`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MathSettings {
    /// How answers are found and compared.
    pub math: Options,
}

impl Spec for MathSettings {
    fn build(&self, _key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        Ok(Box::new(self.clone()))
    }

    fn check_ground_truth(&self, ground_truth: &Value) -> Result<(), String> {
        if Tests::is_form_of(ground_truth) {
            return Err(
                "the ground truth is the tests of a program, which only the verifier code runs"
                    .into(),
            );
        }
        GroundTruth::from_value(ground_truth).map(drop)
    }

    /// A note on options of the problem that cannot be read, or on a ground truth that is a formula
    /// and cannot be read as one.
    fn concern(&self, item: &Item<'_>) -> Option<String> {
        match self.of_problem(item) {
            Ok(_) => GroundTruth::from_value(item.ground_truth).ok()?.concern(),
            Err(wrong) => Some(format!("{wrong}: no response can be judged")),
        }
    }

    fn verify(&self, item: &Item<'_>, response: &str) -> Judgement {
        judgement(self.of_problem(item).and_then(|options| {
            let ground_truth = GroundTruth::from_value(item.ground_truth)?;
            Ok(grade(&ground_truth, response, &options))
        }))
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        self.of_problem(item).is_ok_and(|options| same_answer(a, b, &options))
    }
}

impl Verifier for MathSettings {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        Ok(in_threads(batch, |item, response| self.verify(item, response)))
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        Spec::same_answer(self, item, a, b)
    }
}

impl MathSettings {
    /// Explains to people how a ground truth and a response are read, and the verdict with its
    /// reason.
    pub fn explain(&self, ground_truth: &str, response: &str) -> String {
        let Explanation { seen, grade } = explain(ground_truth, response, &self.math);
        let Judgement { verdict, reason, .. } = judgement(grade);
        format!("{seen}{verdict:?}: {reason}")
    }

    /// The options; the problem's own override them.
    fn of_problem(&self, item: &Item<'_>) -> Result<Options, String> {
        let Some(own) = item.extra_info.get(OF_PROBLEM) else { return Ok(self.math) };
        let wrong = |what: String| format!("extra_info.{OF_PROBLEM}: {what}");
        let own = own.as_object().ok_or_else(|| wrong("must be an object of options".into()))?;
        let mut all = serde_json::to_value(self.math).map_err(|e| wrong(e.to_string()))?;
        for (name, value) in own {
            all[name] = value.clone();
        }
        serde_json::from_value(all).map_err(|e| wrong(e.to_string()))
    }
}

/// A grade as a judgement. An error, with the reason why the response cannot be judged, is a fault.
fn judgement(grade: Result<Grade, String>) -> Judgement {
    match grade {
        Ok(Grade { outcome, extracted, reason }) => {
            let verdict = match outcome {
                Outcome::Same => Verdict::Correct,
                // A response must not escape a low score by being too expensive to compare.
                Outcome::Different | Outcome::OutOfFuel => Verdict::Wrong,
                Outcome::NoAnswer => Verdict::Unparseable,
            };
            Judgement::new(verdict, extracted, reason)
        }
        Err(reason) => Judgement::new(Verdict::Fault, None, reason),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verify(ground_truth: &Value, response: &str) -> Judgement {
        let item = Item { ground_truth, ..Item::default() };
        MathSettings::default().verify(&item, response)
    }

    #[test]
    fn every_outcome_is_a_verdict() {
        for (ground_truth, response, verdict, score) in [
            (json!("1/2"), "\\boxed{0.5}", Verdict::Correct, 1.0),
            (json!("1/2"), "\\boxed{2}", Verdict::Wrong, 0.0),
            (json!("1/2"), "I do not know what to say.", Verdict::Unparseable, 0.0),
            (json!("(x+y)^{200}"), "\\boxed{(x+y+z)^{200}}", Verdict::Wrong, 0.0),
        ] {
            let judgement = verify(&ground_truth, response);
            assert_eq!(
                (judgement.verdict, judgement.score),
                (verdict, score),
                "{response}: {judgement:?}"
            );
        }
    }

    #[test]
    fn a_ground_truth_that_cannot_be_read_is_a_fault() {
        let judgement = verify(&json!(""), "34");
        assert_eq!(judgement.verdict, Verdict::Fault);
        assert_eq!(judgement.reason, "the ground truth is empty");
    }

    #[test]
    fn a_ground_truth_that_is_read_as_words_though_it_is_a_formula_is_a_concern() {
        let concern = |ground_truth: Value, extra_info: Value| {
            let item =
                Item { ground_truth: &ground_truth, extra_info: &extra_info, ..Item::default() };
            MathSettings::default().concern(&item)
        };
        for damaged in ["\\frac{1}{", "x = = 3", "\\begin{tabular}1\\end{tabular}", "(1, 2"] {
            let said = concern(json!(damaged), Value::Null).unwrap_or_default();
            assert!(
                said.contains("only a response with the same text is right"),
                "{damaged}: {said}"
            );
        }
        for sound in [
            "\\frac12",
            "east",
            "(C)",
            "x = 3",
            "2^{100}",
            "semi-circle",
            "Paris and \
         Rome",
        ] {
            assert_eq!(concern(json!(sound), Value::Null), None, "{sound}");
        }
        let said = concern(json!("5"), json!({OF_PROBLEM: {"decimal": 2}})).unwrap_or_default();
        assert!(
            said.starts_with("extra_info.math_options: ")
                && said.ends_with("no response can be judged"),
            "{said}"
        );
    }

    #[test]
    fn problems_may_have_options_of_their_own() {
        let verify = |extra_info: &Value| {
            let item = Item { ground_truth: &json!("\\pi"), extra_info, ..Item::default() };
            MathSettings::default().verify(&item, "\\boxed{3.14}")
        };
        assert_eq!(verify(&json!({"index": 3})).verdict, Verdict::Wrong);
        assert_eq!(verify(&json!({OF_PROBLEM: {"decimals": 2}})).verdict, Verdict::Correct);
        for wrong in [json!(2), json!({"decimal": 2}), json!({"decimals": "2"})] {
            let judgement = verify(&json!({OF_PROBLEM: wrong}));
            assert_eq!(judgement.verdict, Verdict::Fault, "{wrong}");
            assert!(
                judgement.reason.starts_with("extra_info.math_options: "),
                "{}",
                judgement.reason
            );
        }
    }

    #[test]
    fn an_explanation_ends_in_the_verdict() {
        let explained = MathSettings::default().explain(
            "$\\frac{1}{2}$",
            "so it is $\\boxed{x = \
         0.5}$",
        );
        assert!(
            explained.ends_with("\nCorrect: the last box is the value of the response's equation"),
            "{explained}"
        );
        assert!(MathSettings::default().explain("", "5").ends_with(
            "\nFault: the ground truth is \
         empty"
        ));
    }
}
