//! The memory that this process may use.

pub use isentrope_budget::memory::human;
use sysinfo::{MemoryRefreshKind, System};

/// Bytes of memory of the machine or of this process's container, whichever is less.
pub struct Memory {
    /// In all.
    pub total: u64,
    /// Not in use.
    pub available: u64,
}

impl Memory {
    /// The memory now.
    pub fn now() -> Self {
        let mut system = System::new();
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let machine = Self { total: system.total_memory(), available: system.available_memory() };
        match system.cgroup_limits() {
            Some(limits) if limits.total_memory > 0 => Self {
                total: machine.total.min(limits.total_memory),
                // This is not sysinfo's free memory, which counts the file cache as used.
                available: machine.available.min(limits.total_memory.saturating_sub(limits.rss)),
            },
            _ => machine,
        }
    }
}
