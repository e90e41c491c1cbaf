//! MPI on systems where its libraries are not looked for: a process is alone.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::host_piece::HostPiece;
use crate::launch::Launched;
use crate::settings::Library;

/// Refuses.
///
/// # Errors
/// Always: says what to do.
pub(crate) fn begin(
    launched: &Launched,
    _: &dyn Fn(&str),
) -> Result<(Box<dyn Engine<Piece = HostPiece>>, Library)> {
    Err(Error::Start(format!(
        "{} has started several ranks ({}), but MPI libraries are found on Unix alone: set ISENTROPE_RANKS=off to run each \
         rank by itself",
        launched.launcher, launched.variable
    )))
}
