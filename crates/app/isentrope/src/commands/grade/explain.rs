//! Explains the verdict of one response to a person.

use anyhow::{Result, bail};
use isentrope_reward::{
    Combined, Item, Judgement, MathSettings, Single, Tests, VerifierName, VerifierSettings,
};
use serde_json::Value;

/// The steps from a ground truth, as the command line gives it, and a response to the verdict.
pub fn explain(settings: &VerifierSettings, gold: &str, response: &str) -> Result<String> {
    // The countdown task's ground truths are objects; everything else is text.
    let object = serde_json::from_str(gold).ok().filter(Value::is_object);
    let VerifierSettings::All(Combined::Single(single)) = settings else {
        bail!("--explain is for a single verifier, not for sums and choices");
    };
    let verifier = match single {
        Single::Math(settings) => return Ok(explain_math(settings, gold, response)),
        Single::BuiltIn(VerifierName::Math) => {
            return Ok(explain_math(&MathSettings::default(), gold, response));
        }
        Single::Code(_) | Single::BuiltIn(VerifierName::Code) => {
            return explain_code(settings, gold, response);
        }
        Single::BuiltIn(VerifierName::Auto) if Tests::is_form_of_text(gold) => {
            return explain_code(settings, gold, response);
        }
        Single::BuiltIn(VerifierName::Auto) if object.is_none() => {
            return Ok(explain_math(&MathSettings::default(), gold, response));
        }
        Single::BuiltIn(verifier) => verifier,
        Single::Command(_) | Single::Python(_) => {
            bail!(
                "--explain is for the built-in verifiers: set --verifier to auto, math, countdown \
                 or code"
            )
        }
    };
    let ground_truth = object.unwrap_or_else(|| gold.into());
    let item = Item { ground_truth: &ground_truth, ..Item::default() };
    Ok(explain_judgement(verifier.verify(&item, response)))
}

fn explain_judgement(judgement: Judgement) -> String {
    let Judgement { verdict, extracted, reason, .. } = judgement;
    format!("response: {}\n{verdict:?}: {reason}\n", extracted.unwrap_or_default())
}

fn explain_code(settings: &VerifierSettings, gold: &str, response: &str) -> Result<String> {
    let ground_truth = gold.into();
    let item = Item { ground_truth: &ground_truth, ..Item::default() };
    let judgements = settings.build()?.verify_batch(&[(item, response)])?;
    let tests =
        Tests::from_value(&ground_truth).map(|tests| format!("tests: {}\n", tests.summary()));
    Ok(tests.into_iter().chain(judgements.into_iter().map(explain_judgement)).collect())
}

fn explain_math(verifier: &MathSettings, gold: &str, response: &str) -> String {
    format!("{}\n", verifier.explain(gold, response))
}
