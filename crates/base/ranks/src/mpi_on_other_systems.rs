//! MPI on systems where its libraries are not looked for: a process is alone.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::settings::Library;

/// Refuses, and says what to do.
pub(crate) fn begin(launch: &Launch, _: &dyn Fn(&str)) -> Result<(Box<dyn Engine>, Library)> {
    Err(Error::Start(format!(
        "{} has started several ranks ({}), but MPI libraries are found on Unix alone: set \
         ISENTROPE_RANKS=off to run each \
         rank by itself",
        launch.launcher, launch.variable
    )))
}
