//! A terminal that is drawn upon in place, and left as it was found.

use crate::interrupt;
use crate::standard_output::print;
use anyhow::Result;
#[cfg(unix)]
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

/// The alternate screen, without a cursor; what is too wide is cut off instead of going on in the
/// next line.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Leaves the screen in the middle of a drawing.
const ABANDON: &str = "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Terminals that know these show what is between them at once.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";

/// The terminal of standard output; left when this is dropped.
pub struct Screen {
    /// Ctrl-Z was pressed.
    #[cfg(unix)]
    suspended: Arc<AtomicBool>,
}

impl Screen {
    pub fn enter() -> Result<Self> {
        #[cfg(unix)]
        let suspended = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGTSTP, suspended.clone())?;
        let screen = Self {
            #[cfg(unix)]
            suspended,
        };
        interrupt::leave_terminal(Some(ABANDON));
        print(ENTER)?;
        Ok(screen)
    }

    /// Shows lines from the top; nothing of what was there is left.
    pub fn draw(&self, lines: &[String]) -> Result<()> {
        print(&format!(
            "{BEGIN}{}{END}",
            lines.iter().map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\r\n")
        ))
    }

    /// Gives the terminal back to the shell if Ctrl-Z was pressed; whether it was, and everything
    /// must be drawn again.
    pub fn heed_suspension(&self) -> Result<bool> {
        #[cfg(unix)]
        if self.suspended.swap(false, Ordering::Relaxed) {
            print(LEAVE)?;
            signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
            print(ENTER)?;
            return Ok(true);
        }
        Ok(false)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print(LEAVE); // a terminal that has gone need not be left
        interrupt::leave_terminal(None);
    }
}
