//! Ctrl-C: the first asks the work to wind up, the second ends the process at once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether there is work that can wind up.
static WORKING: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The file that an end at once would leave behind.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The work stopped because the user asked for it.
#[derive(Debug)]
pub struct Interrupted {
    /// What has been kept.
    pub kept: String,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted: {}", self.kept)
    }
}

impl std::error::Error for Interrupted {}

/// Starts listening. Until [`wind_up_first`] the first Ctrl-C ends the process.
pub fn listen() {
    // Refused only where a handler exists already; Ctrl-C then ends the process, as it would without this.
    let _ = ctrlc::set_handler(|| {
        if !WORKING.load(Ordering::Relaxed) || REQUESTED.swap(true, Ordering::Relaxed) {
            if let Some(path) = &*TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = std::fs::remove_file(path); // it may have got its final name by now
            }
            std::process::exit(130);
        }
        eprintln!("\nfinishing the current step; Ctrl-C again ends at once");
    });
}

/// From now on the first Ctrl-C makes [`requested`] true, which somebody looks at.
pub fn wind_up_first() {
    WORKING.store(true, Ordering::Relaxed);
}

/// Whether Ctrl-C has been pressed.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Has a temporary file removed if the process ends at once.
pub fn clean_up(path: &Path) {
    *TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
}
