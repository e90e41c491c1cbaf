//! The running program, for processes that start themselves again.

use std::io;
use std::path::{Path, PathBuf};

/// Path of the running program, which works even if the file was replaced, if the system has a link
/// to it.
pub fn this_program() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Whether the process was started to ignore a signal, as `nohup` does with SIGHUP. Must be called
/// before a handler is set.
#[cfg(target_os = "linux")]
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

/// Unknown here. SIGHUP (1 on every Unix) counts as ignored, so that `nohup` works.
#[cfg(not(target_os = "linux"))]
pub fn is_ignored(signal: i32) -> bool {
    signal == 1
}
