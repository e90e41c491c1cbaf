//! Settings of problems and worked examples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The recipe's table `[data.programs]`: what problems of the built-in task programs are like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramsSettings {
    /// How many steps problems may have; each entry is as likely as any other.
    #[schemars(inner(range(min = 1, max = 4)))]
    pub steps: Vec<usize>,
    /// Tests of a program: calls of its function, with what each must return.
    #[schemars(range(min = 1, max = 64))]
    pub tests: usize,
    /// Probability that a step of a worked example is another one than the problem asks for. A
    /// program with such a step fails its tests, so SFT on the task imitates many wrong programs,
    /// as it would in data that people wrote.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub mistakes: f64,
}

impl Default for ProgramsSettings {
    fn default() -> Self {
        Self { steps: vec![2, 3], tests: 8, mistakes: 0.25 }
    }
}

impl ProgramsSettings {
    pub(super) fn check(&self) -> Result<()> {
        isentrope_settings::check("data.programs", self)?;
        if self.steps.is_empty() {
            return Err(Error::setting(
                "data.programs.steps",
                "[]",
                "it must list numbers from 1 to 4",
            ));
        }
        Ok(())
    }
}
