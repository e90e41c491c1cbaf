//! A GPU as the compiler sees it.

use super::Error;
use serde::Serialize;
use std::fmt;

/// A GPU's compute capability, for which machine code is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Architecture {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0.
    pub minor: u32,
}

impl Architecture {
    /// Architectures for which tests compile every kernel: Ampere, Hopper, and Blackwell for data
    /// centres and for desktops.
    pub const TESTED: [Self; 4] =
        [Self::new(8, 0), Self::new(9, 0), Self::new(10, 0), Self::new(12, 0)];

    /// An architecture by its compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Refuses GPUs whose tensor cores do not know bfloat16.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn check(self) -> Result<Self, Error> {
        if self.major >= 8 {
            return Ok(self);
        }
        Err(Error::Driver(format!(
            "the GPU has compute capability {}.{}; 8.0 (Ampere) or later is needed",
            self.major, self.minor
        )))
    }
}

/// NVRTC's name for the architecture. On Hopper and data-centre Blackwell the name with an `a`
/// allows further instructions. Such code runs on no other architecture, but code is compiled for
/// the GPU at hand anyway.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specific = if matches!(self.major, 9 | 10) { "a" } else { "" };
        write!(f, "sm_{}{}{specific}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nvrtcs() {
        let names = Architecture::TESTED.map(|architecture| architecture.to_string());
        assert_eq!(names, ["sm_80", "sm_90a", "sm_100a", "sm_120"]);
        assert_eq!(Architecture::new(8, 9).to_string(), "sm_89");
        assert!(Architecture::new(7, 5).check().unwrap_err().to_string().contains("7.5"));
        assert!(Architecture::new(12, 1).check().is_ok());
    }
}
