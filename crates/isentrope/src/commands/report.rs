//! `isentrope report`: runs as a web page of one file.

use crate::messages::say;
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use isentrope_lab::report;
use std::path::{Path, PathBuf};

/// Show one run or several on a web page: summary, entropy law, curves
///
/// The page is one file that fetches nothing, so it can be mailed, put on a server or kept beside the run. It has a summary in
/// words, accuracy against entropy with the fitted law, how early entropy and gain were spent, all curves of the runs over one
/// another, and the settings in which they differ. A run that is still going on, or was interrupted, is shown as far as it is.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  isentrope report runs/grpo\n  isentrope report runs/grpo runs/kl-cov --out methods.html\n  \
                        isentrope report runs/* --out - | ssh web 'cat > report.html'"
)]
pub struct Report {
    /// Runs: directories that `train` and `sft` write, or logs of TRL and verl
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page; `-` is standard output [default: report.html in the run, for several runs in the current directory]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

impl Report {
    pub fn run(&self) -> Result<()> {
        let report = report::Report::open(&self.runs)?;
        let path = self.out.clone().unwrap_or_else(|| default_place(&self.runs));
        let mut output = Output::create(Some(&path))?;
        let html = report.html()?;
        output.text(&html)?;
        output.finish()?;
        if path != Path::new("-") {
            let megabytes = html.len() as f64 / 1e6;
            say(&format!("{}: {megabytes:.1} MB; open it in a browser", path.display()));
        }
        Ok(())
    }
}

/// In the directory of a single run; here for several, and for a log that is a file.
fn default_place(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [run] if run.is_dir() => run.join("report.html"),
        _ => "report.html".into(),
    }
}
