//! What memory this process may use.

use sysinfo::{MemoryRefreshKind, System};

/// Bytes of memory, of the machine or of the container this process is in, whichever is less.
pub struct Memory {
    /// In all.
    pub total: u64,
    /// Not in use.
    pub available: u64,
}

impl Memory {
    /// As it is now.
    pub fn now() -> Self {
        let mut system = System::new();
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let machine = Self { total: system.total_memory(), available: system.available_memory() };
        match system.cgroup_limits() {
            Some(limits) if limits.total_memory > 0 => Self {
                total: machine.total.min(limits.total_memory),
                available: machine.available.min(limits.free_memory),
            },
            _ => machine,
        }
    }
}

/// A number of bytes for people.
pub fn human(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1024.0 * 1024.0 {
        format!("{:.0} KiB", bytes / 1024.0)
    } else if bytes < 10.0 * 1024.0 * 1024.0 * 1024.0 {
        format!("{:.0} MiB", bytes / 1024.0 / 1024.0)
    } else {
        format!("{:.1} GiB", bytes / 1024.0 / 1024.0 / 1024.0)
    }
}
