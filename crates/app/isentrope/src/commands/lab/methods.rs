//! `isentrope lab methods`: what losses and entropy methods would do to the same tokens.

use crate::commands::published;
use crate::messages;
use crate::output::Output;
use crate::standard_output::{print, table_width};
use anyhow::Result;
use clap::Args;
use isentrope_lab::inspect::{Inspection, StepChoice};
use isentrope_lab::methods::MethodMap;
use std::path::PathBuf;

/// Compare what losses and entropy methods would do to the recorded tokens of a step
///
/// Each method, with the settings of experiments/countdown-entropy-methods.toml, gives every
/// recorded token its coefficient d(loss)/d(log-prob), as a further update on the step's responses
/// would have it. The command prints how many tokens a method touches, how near its coefficients
/// are to GRPO's, the first-order change of the entropy, and which methods do the same. Nothing is
/// trained. Train the run with --set lab.track_theory=true and a large lab.record_tokens, so that
/// many tokens are scored after the step.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope lab methods runs/countdown-grpo --out methods.svg
  isentrope lab methods runs/countdown-grpo --step 12 --json")]
pub struct Methods {
    /// Directory of a run
    run: PathBuf,
    /// The step: its number, or last
    #[arg(long, value_name = "N", default_value = "last")]
    step: StepChoice,
    /// Also draws a picture: cosines, and each method's weights by log-prob and advantage
    #[arg(long, value_name = "FILE.svg")]
    out: Option<PathBuf>,
    /// Prints one JSON object, with all cosines, instead of tables
    #[arg(long)]
    json: bool,
}

impl Methods {
    pub fn run(&self) -> Result<()> {
        let inspection = Inspection::open(&self.run, self.step)?;
        let map = MethodMap::of(&inspection, &published::objectives()?)?;
        if let Some(out) = &self.out {
            let mut output = Output::create(Some(out))?;
            output.text(&map.picture())?;
            output.finish()?;
        }
        if self.json {
            print(&(serde_json::to_string_pretty(&map.comparisons)? + "\n"))?;
        } else {
            print(&map.text(table_width()))?;
        }
        inspection.notes.iter().chain(&map.notes).for_each(|note| messages::note(note));
        Ok(())
    }
}
