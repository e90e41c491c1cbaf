//! `isentrope report`: runs as a web page of one file.

use crate::memory::human;
use crate::messages::say;
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use isentrope_lab::report;
use isentrope_train::{rl, sft};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Show one run or several on a web page: summary, entropy law, curves
///
/// The page is one file that fetches nothing, so it can be mailed, put on a server or kept beside
/// the run. It has a summary in words, accuracy against entropy with the fitted law, how early
/// entropy and gain were spent, all curves of the runs over one another, and the settings in which
/// they differ. A run that is still going on, or was interrupted, is shown up to its last step.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  isentrope report runs/grpo\n  isentrope report runs/grpo runs/kl-cov --out methods.html\n  \
                        isentrope report runs/* --out - | ssh web 'cat > report.html'"
)]
pub struct Report {
    /// Runs: directories that `train` and `sft` write, or logs of TRL and verl
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page; `-` is standard output [default: report.html in the run, for several runs in the
    /// current directory]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

impl Report {
    pub fn run(&self) -> Result<()> {
        let report = open(&self.runs)?;
        let path = self.out.clone().unwrap_or_else(|| default_place(&self.runs, &report));
        let bytes = write(&report, &path)?;
        if path != Path::new("-") {
            say(&format!("{}: {}; open it in a browser", path.display(), human(bytes)));
        }
        Ok(())
    }
}

/// Reads runs, and adds the defaults of settings that an older program did not have.
///
/// # Errors
/// When one cannot be read.
pub fn open(runs: &[PathBuf]) -> Result<report::Report> {
    let (rl, sft) = (
        serde_json::to_value(rl::Recipe::default())?,
        serde_json::to_value(sft::Recipe::default())?,
    );
    let defaults =
        |recipe: &Value| if recipe.get("sft").is_some() { sft.clone() } else { rl.clone() };
    Ok(report::Report::open(runs)?.with_defaults(defaults))
}

/// Writes the page, and returns its bytes.
///
/// # Errors
/// When it cannot be written.
pub fn write(report: &report::Report, path: &Path) -> Result<usize> {
    let mut output = Output::create(Some(path))?;
    let html = report.html()?;
    output.text(&html)?;
    output.finish()?;
    Ok(html.len())
}

/// The default path: in the directory of a single run; in the working directory for several runs,
/// and for a log that is a file. A directory of several runs may be a sweep's, which holds the
/// sweep's own report.
fn default_place(runs: &[PathBuf], report: &report::Report) -> PathBuf {
    match runs {
        [run] if report.is_of_directory(run) => run.join("report.html"),
        _ => "report.html".into(),
    }
}
