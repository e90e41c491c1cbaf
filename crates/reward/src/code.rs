//! The verifier of programs: the crate `isentrope-code`, asked about problems; and the verifier `auto`, which asks it where a
//! problem's ground truth is the tests of a program.

use std::sync::OnceLock;

use isentrope_code::{CodeSettings, Judge, Report, Score, Verdict as Found};
use serde_json::Value;

use crate::{BatchVerifier, Item, Judgement, Verdict, VerifierError, VerifierName};

/// The verifier of programs. Its sandboxes end with it.
///
/// A ground truth is whatever [`isentrope_code::Tests::from_value`] reads.
pub(crate) struct Code {
    judge: Judge,
    settings: CodeSettings,
    /// What recipes call it, for messages: the key and what stands there.
    setting: (String, String),
}

impl Code {
    /// Finds what is needed to run programs; `key` is the recipe's key, and `value` what it has there, for messages.
    ///
    /// # Errors
    /// When there is no sandbox or no Python, with what to install or to enable.
    pub(crate) fn start(settings: &CodeSettings, key: &str, value: &str) -> Result<Self, VerifierError> {
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
}

impl Code {
    /// Which settings a program has met that went over a limit.
    fn limit(&self, verdict: &Found) -> String {
        let CodeSettings { timeout_s, total_timeout_s, memory_mib, output_mib, .. } = &self.settings;
        match verdict {
            Found::TimeLimit => format!(" (timeout_s = {timeout_s}, total_timeout_s = {total_timeout_s})"),
            Found::MemoryLimit => format!(" (memory_mib = {memory_mib})"),
            Found::OutputLimit => format!(" (output_mib = {output_mib})"),
            _ => String::new(),
        }
    }
}

fn error((key, value): &(String, String), problem: &str) -> VerifierError {
    VerifierError { key: key.clone(), value: value.clone(), problem: problem.to_owned(), stderr: None }
}

impl BatchVerifier for Code {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let programs: Vec<(&Value, &str)> =
            batch.iter().map(|(item, response)| (item.ground_truth, *response)).collect();
        let reports = self.judge.judge(&programs).map_err(|e| error(&self.setting, &e.to_string()))?;
        Ok(reports.into_iter().map(|report| self.judgement(report)).collect())
    }

    fn workers(&self) -> usize {
        self.judge.workers()
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("{}: {}", self.setting.0, self.judge.says())]
    }
}

/// The verifier `auto`. The one of programs is started when the first of them comes.
pub(crate) struct Auto {
    code: OnceLock<Result<Code, VerifierError>>,
    key: String,
}

impl Auto {
    pub(crate) fn new(key: &str) -> Self {
        Self { code: OnceLock::new(), key: key.to_owned() }
    }

    fn code(&self) -> Result<&Code, VerifierError> {
        let start = || {
            Code::start(&CodeSettings::default(), &self.key, "\"auto\"").map_err(|e| VerifierError {
                problem: format!(
                    "the data has problems whose ground truth is the tests of a program: {}; the verifier \"math\" \
                     leaves them out",
                    e.problem
                ),
                ..e
            })
        };
        self.code.get_or_init(start).as_ref().map_err(Clone::clone)
    }
}

impl BatchVerifier for Auto {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        let is_code = |item: &Item<'_>| VerifierName::Auto.of(item.ground_truth) == VerifierName::Code;
        let (programs, others): (Vec<usize>, Vec<usize>) =
            (0..batch.len()).partition(|&i| is_code(&batch[i].0));
        let part = |places: &[usize]| places.iter().map(|&i| batch[i]).collect::<Vec<_>>();
        let mut judgements: Vec<(usize, Judgement)> = Vec::with_capacity(batch.len());
        judgements.extend(others.iter().copied().zip(VerifierName::Auto.verify_batch(&part(&others))?));
        if !programs.is_empty() {
            judgements.extend(programs.iter().copied().zip(self.code()?.verify_batch(&part(&programs))?));
        }
        judgements.sort_unstable_by_key(|(place, _)| *place);
        Ok(judgements.into_iter().map(|(_, judgement)| judgement).collect())
    }

    fn workers(&self) -> usize {
        self.code.get().and_then(|code| code.as_ref().ok()).map_or(0, BatchVerifier::workers)
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        BatchVerifier::same_answer(&VerifierName::Auto, item, a, b)
    }
}
