//! The bound on the work of one comparison.

/// Work that is left for a comparison, in units of roughly a multiplication of small numbers. All
/// work on untrusted answers uses fuel, so that none takes long. It is the grader's time limit,
/// without a clock and equal on every machine.
#[derive(Debug)]
pub struct Fuel(u64);

/// The fuel is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer takes more work to compare than is allowed")]
pub struct OutOfFuel;

impl Fuel {
    /// Fuel for so much work.
    pub fn new(units: u64) -> Self {
        Self(units)
    }

    /// Pays for work before it is done.
    pub fn spend(&mut self, units: u64) -> Result<(), OutOfFuel> {
        self.0 = self.0.checked_sub(units).ok_or(OutOfFuel)?;
        Ok(())
    }
}
