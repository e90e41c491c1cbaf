//! `isentrope inspect`: which tokens a step has spent the policy's entropy on.

use crate::messages;
use crate::standard_output::{print, print_text};
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_files::{AtomicFile, refuse_dangling};
use isentrope_lab::inspect::{Inspection, StepChoice};
use std::path::{Path, PathBuf};

/// Show which tokens of a step have large covariance, in tables and on a page with every recorded token
///
/// A run keeps the numbers of some responses of each step in RUN/tokens (lab.record_tokens in its recipe says how many). The
/// page shows them token by token, coloured by covariance, entropy, advantage or change of log-prob; it is one file that
/// needs no network.
#[derive(Args)]
pub struct Inspect {
    /// Directory of a run
    run: PathBuf,
    /// Which step: its number, or last
    #[arg(long, value_name = "N", default_value = "last")]
    step: StepChoice,
    /// The page; - is standard output, without the tables [default: RUN/inspect-step-N.html]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

impl Inspect {
    pub fn run(self) -> Result<()> {
        let inspection = Inspection::open(&self.run, self.step)?;
        let html = inspection.html()?;
        if self.out.as_deref() == Some(Path::new("-")) {
            return print(&html);
        }
        let name = format!("inspect-step-{:06}.html", inspection.step);
        let out = self.out.unwrap_or_else(|| self.run.join(name));
        write(&out, &html)?;
        print_text(&inspection.text())?;
        inspection.notes.iter().for_each(|note| messages::note(note));
        messages::say(&format!("every token is in {}", out.display()));
        Ok(())
    }
}

/// Writes the page, which appears when it is complete.
fn write(out: &Path, html: &str) -> Result<()> {
    if out.as_os_str().is_empty() {
        bail!("--out: the name is empty; name a file, or - for standard output");
    }
    if out.is_dir() {
        bail!("{}: is a directory; name a file", out.display());
    }
    refuse_dangling(out)?;
    // A link stays a link, and a device is written to as it is.
    let out = out.canonicalize().unwrap_or_else(|_| out.to_owned());
    if out.exists() && !out.is_file() {
        return std::fs::write(&out, html).with_context(|| out.display().to_string());
    }
    let mut file = AtomicFile::create(&out)
        .map_err(std::io::Error::from)
        .with_context(|| format!("{}: cannot write there; --out names another place", out.display()))?;
    file.write(html.as_bytes())?;
    Ok(file.commit()?)
}
