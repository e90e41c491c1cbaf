//! Paths as users give them.

use anyhow::{Result, bail};
use isentrope_files::dangling;
use std::path::Path;

/// Refuses a path that goes through a link to nothing: "no such file" is no help where a name is there to be seen.
pub fn refuse_dangling(path: &Path) -> Result<()> {
    match dangling(path) {
        Some(leads_to) => {
            bail!("{}: leads by a link to {}, which is not there", path.display(), leads_to.display())
        }
        None => Ok(()),
    }
}
