//! The verifier `none`: no response is judged, for data without answers.

use super::{Spec, VerifierName};
use crate::{Item, Judgement, Verdict, Verifier, VerifierError};

/// `none`, which has no settings. Every response scores 0.
pub(crate) struct Nothing;

impl Spec for Nothing {
    fn build(&self, _key: &str, _value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        Ok(Box::new(VerifierName::None))
    }

    fn judges_nothing(&self) -> bool {
        true
    }

    fn verify(&self, _item: &Item<'_>, _response: &str) -> Judgement {
        Judgement::new(Verdict::Unparseable, None, "the verifier \"none\" looks for no answer")
    }
}
