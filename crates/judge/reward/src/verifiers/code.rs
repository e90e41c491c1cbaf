//! The verifier of programs: the crate `isentrope-code`, asked about problems.

use isentrope_code::{CodeSettings, Judge, Report, Score, Tests, Verdict as Found};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Spec;
use crate::{Item, Judgement, Verdict, Verifier, VerifierError};

/// The verifier `code` with options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeVerifierSettings {
    /// How programs are run and judged.
    pub code: CodeSettings,
}

impl Spec for CodeVerifierSettings {
    fn build(&self, key: &str, value: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        Ok(Box::new(Code::start(&self.code, key, value)?))
    }

    fn claims(&self, ground_truth: &Value) -> bool {
        Tests::is_form_of(ground_truth)
    }

    fn check_ground_truth(&self, ground_truth: &Value) -> Result<(), String> {
        Tests::from_value(ground_truth).map(drop)
    }

    fn judges_programs(&self) -> bool {
        true
    }

    fn workers(&self) -> Option<usize> {
        Some(self.code.worker_count())
    }

    fn verify(&self, _item: &Item<'_>, _response: &str) -> Judgement {
        Judgement::new(Verdict::Fault, None, "programs are judged in sandboxes alone")
    }
}

/// The verifier of programs. Its sandboxes end when it is dropped.
///
/// A ground truth is whatever [`isentrope_code::Tests::from_value`] reads.
pub(crate) struct Code {
    judge: Judge,
    settings: CodeSettings,
    /// The recipe's key and its value, for messages.
    setting: (String, String),
}

impl Code {
    /// Finds the interpreter and the sandbox; `key` and `value` are the recipe's, for messages.
    ///
    /// # Errors
    /// When there is no sandbox or no Python, with what to install or to enable.
    pub(crate) fn start(
        settings: &CodeSettings,
        key: &str,
        value: &str,
    ) -> Result<Self, VerifierError> {
        let setting = (key.to_owned(), value.to_owned());
        let judge = Judge::start(settings).map_err(|e| error(&setting, &e.to_string()))?;
        Ok(Self { judge, settings: settings.clone(), setting })
    }

    fn judgement(&self, report: Report) -> Judgement {
        let verdict = match report.verdict {
            Found::Passed => Verdict::Correct,
            Found::NoCode => Verdict::Unparseable,
            Found::Fault(_) | Found::UnusableTests(_) => Verdict::Fault,
            _ => Verdict::Wrong,
        };
        let reason = report.reason() + &self.limit(&report.verdict);
        let mut judgement = Judgement::new(verdict, report.program.clone(), reason);
        if !verdict.is_scored() {
            return judgement;
        }
        if self.settings.score == Score::Fraction {
            judgement.score = report.fraction();
        }
        let is_verdict = |name: &&str| f64::from(u8::from(report.verdict.name() == *name));
        judgement.metrics =
            Found::FAILURES.iter().map(|name| (format!("code/{name}"), is_verdict(name))).collect();
        judgement
    }

    /// The settings of the limit that a program exceeded.
    fn limit(&self, verdict: &Found) -> String {
        let CodeSettings { timeout_s, total_timeout_s, memory_mib, output_mib, .. } =
            &self.settings;
        match verdict {
            Found::TimeLimit => {
                format!(" (timeout_s = {timeout_s}, total_timeout_s = {total_timeout_s})")
            }
            Found::MemoryLimit => format!(" (memory_mib = {memory_mib})"),
            Found::OutputLimit => format!(" (output_mib = {output_mib})"),
            _ => String::new(),
        }
    }
}

fn error((key, value): &(String, String), problem: &str) -> VerifierError {
    VerifierError {
        key: key.clone(),
        value: value.clone(),
        problem: problem.to_owned(),
        stderr: None,
    }
}

impl Verifier for Code {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let programs: Vec<(&Value, &str)> =
            batch.iter().map(|(item, response)| (item.ground_truth, *response)).collect();
        let reports =
            self.judge.judge(&programs).map_err(|e| error(&self.setting, &e.to_string()))?;
        Ok(reports.into_iter().map(|report| self.judgement(report)).collect())
    }

    fn workers(&self) -> usize {
        self.judge.workers()
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("{}: {}", self.setting.0, self.judge.describe())]
    }
}
