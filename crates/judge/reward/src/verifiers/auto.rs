//! The verifier `auto`: each problem is judged by the built-in verifier that its ground truth asks
//! for.

use std::sync::OnceLock;

use isentrope_code::CodeSettings;
use serde_json::Value;

use super::code::Code;
use super::{Spec, VerifierName};
use crate::{Item, Judgement, Verifier, VerifierError};

/// `auto`, which has no settings.
pub(crate) struct AutoSpec;

impl Spec for AutoSpec {
    fn build(&self, key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        Ok(Box::new(Auto { code: OnceLock::new(), key: key.to_owned() }))
    }

    fn check_ground_truth(&self, ground_truth: &Value) -> Result<(), String> {
        VerifierName::Auto.of(ground_truth).spec().check_ground_truth(ground_truth)
    }

    fn concern(&self, item: &Item<'_>) -> Option<String> {
        VerifierName::Auto.of(item.ground_truth).spec().concern(item)
    }

    fn judges_programs(&self) -> bool {
        true
    }
}

/// The verifier `auto`. The verifier of programs is started when the first program comes.
struct Auto {
    code: OnceLock<Result<Code, VerifierError>>,
    key: String,
}

impl Auto {
    fn code(&self) -> Result<&Code, VerifierError> {
        let start = || {
            Code::start(&CodeSettings::default(), &self.key, "\"auto\"").map_err(|e| VerifierError {
                problem: format!(
                    "the data has problems whose ground truth is the tests of a program: {}; the \
                     verifier \"math\" \
                     leaves them out",
                    e.problem
                ),
                ..e
            })
        };
        self.code.get_or_init(start).as_ref().map_err(Clone::clone)
    }
}

impl Verifier for Auto {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let is_code =
            |item: &Item<'_>| VerifierName::Auto.of(item.ground_truth) == VerifierName::Code;
        let (programs, others): (Vec<usize>, Vec<usize>) =
            (0..batch.len()).partition(|&i| is_code(&batch[i].0));
        let part = |places: &[usize]| places.iter().map(|&i| batch[i]).collect::<Vec<_>>();
        let mut judgements: Vec<(usize, Judgement)> = Vec::with_capacity(batch.len());
        judgements
            .extend(others.iter().copied().zip(VerifierName::Auto.verify_batch(&part(&others))?));
        if !programs.is_empty() {
            judgements
                .extend(programs.iter().copied().zip(self.code()?.verify_batch(&part(&programs))?));
        }
        judgements.sort_unstable_by_key(|(place, _)| *place);
        Ok(judgements.into_iter().map(|(_, judgement)| judgement).collect())
    }

    fn workers(&self) -> usize {
        self.code.get().and_then(|code| code.as_ref().ok()).map_or(0, Verifier::workers)
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        VerifierName::Auto.same_answer(item, a, b)
    }
}
