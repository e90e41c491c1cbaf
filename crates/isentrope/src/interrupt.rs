//! Ctrl-C: the first asks the work to wind up, the second ends the process at once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the work under way does at Ctrl-C, once there is work that can wind up.
static WINDING_UP: OnceLock<&str> = OnceLock::new();
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
        let told = WINDING_UP.get().filter(|_| !REQUESTED.swap(true, Ordering::Relaxed));
        let Some(told) = told else {
            if let Some(path) = &*TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = std::fs::remove_file(path); // it may have got its final name by now
            }
            isentrope_reward::command::kill_all();
            std::process::exit(130);
        };
        eprintln!("\n{told}; Ctrl-C again ends at once");
    });
}

/// From now on the first Ctrl-C makes [`requested`] true, which somebody looks at; `told` says what is done then, as in
/// "finishing the current step".
pub fn wind_up_first(told: &'static str) {
    let _ = WINDING_UP.set(told); // a process has one command
}

/// Whether Ctrl-C has been pressed.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Has a temporary file removed if the process ends at once.
pub fn clean_up(path: &Path) {
    *TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
}
