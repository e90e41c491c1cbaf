//! Versions of CUDA and of its libraries.

use serde::Serialize;
use std::fmt;

/// A version, or the part of it that is known. Versions with equal major numbers work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Version {
    /// 12 or 13; 2 of NCCL.
    pub major: u32,
    /// Unknown if only a file's name gives the version.
    pub minor: Option<u32>,
}

impl Version {
    /// A version with both numbers.
    pub fn new(major: u32, minor: u32) -> Self {
        Self { major, minor: Some(minor) }
    }

    /// CUDA's own way to write 13.5: 13050.
    pub fn of_driver(number: i32) -> Self {
        let number = u32::try_from(number).unwrap_or(0);
        Self::new(number / 1000, number % 1000 / 10)
    }

    /// NCCL's own way to write 2.27.3: 22703. Up to 2.8 it was 2803.
    pub fn of_nccl(number: i32) -> Self {
        let number = u32::try_from(number).unwrap_or(0);
        let thousands = if number < 10_000 { 1000 } else { 10_000 };
        Self::new(number / thousands, number % thousands / 100)
    }

    /// The first one or two numbers of `13`, `13.5` or `12.4.127`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        let major = numbers.next()?.ok()?;
        let minor = numbers.next().and_then(Result::ok);
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}.{minor}", self.major),
            None => write!(f, "{}", self.major),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names_and_from_the_drivers_number() {
        assert_eq!(Version::parse("13"), Some(Version { major: 13, minor: None }));
        assert_eq!(Version::parse("12.4.127"), Some(Version::new(12, 4)));
        assert_eq!(Version::parse("x"), None);
        assert_eq!(Version::of_driver(12040), Version::new(12, 4));
        assert_eq!(Version::of_nccl(22703), Version::new(2, 27));
        assert_eq!(Version::of_nccl(2803), Version::new(2, 8));
        assert_eq!(Version::of_driver(13000).to_string(), "13.0");
        assert!(Version::new(12, 9) < Version::new(13, 0));
    }
}
