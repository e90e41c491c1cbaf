//! `isentrope inspect`: which tokens a step has spent the policy's entropy on.

use crate::commands::published;
use crate::messages;
use crate::output::Output;
use crate::standard_output::{print, table_width};
use anyhow::Result;
use clap::Args;
use isentrope_lab::inspect::{Inspection, StepChoice};
use std::path::{Path, PathBuf};

/// Show which tokens of a step have large covariance, in tables and on a page with every recorded
/// token
///
/// A run keeps the numbers of some responses of each step in RUN/tokens (lab.record_tokens in its
/// recipe says how many). The page shows them token by token, coloured by covariance, entropy,
/// advantage or change of log-prob; it is one file that needs no network.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope inspect runs/quickstart
  isentrope inspect runs/quickstart --step 12 --out step-12.html
  isentrope inspect runs/quickstart --method steer
  isentrope inspect runs/quickstart --out - | ssh web 'cat > tokens.html'")]
pub struct Inspect {
    /// Directory of a run
    run: PathBuf,
    /// The step: its number, or last
    #[arg(long, value_name = "N", default_value = "last")]
    step: StepChoice,
    /// Also shows what this loss or entropy method of experiments/countdown-entropy-methods.toml
    /// would have done to the tokens; `isentrope lab methods` compares all
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// The page; - is standard output, without the tables [default: RUN/inspect-step-N.html]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

impl Inspect {
    pub fn run(self) -> Result<()> {
        let mut inspection = Inspection::open(&self.run, self.step)?;
        if let Some(name) = &self.method {
            let [method, plain] = published::beside_plain(name)?;
            inspection.add_method(&method, &plain)?;
        }
        let name = format!("inspect-step-{:06}.html", inspection.step);
        let out = self.out.unwrap_or_else(|| self.run.join(name));
        let mut output = Output::create(Some(&out))?;
        output.text(&inspection.html()?)?;
        output.finish()?;
        if out == Path::new("-") {
            return Ok(());
        }
        print(&inspection.text(table_width()))?;
        inspection.notes.iter().for_each(|note| messages::note(note));
        messages::say(&format!("all recorded tokens are in {}", out.display()));
        Ok(())
    }
}
