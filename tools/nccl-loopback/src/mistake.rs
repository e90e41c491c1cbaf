//! Mistakes that a test plants.

/// The variable: `KIND:RANK:EXCHANGES`, such as `lost:1:3`. The mistake is of this rank, after that
/// many exchanges.
pub const VARIABLE: &str = "ISENTROPE_LOOPBACK_MISTAKE";

/// A kind of mistake that a library that moves bytes may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `lost`: an exchange sends nothing, and takes it for sent. Once.
    Lost,
    /// `swapped`: the first two messages that come in an exchange have each other's bytes. From
    /// then on, where two come.
    Swapped,
    /// `unordered`: exchanges are not in the stream, and begin late: what comes behind them in the
    /// stream does not wait. From then on.
    Unordered,
    /// `failing`: an error that shows in `ncclCommGetAsyncError` alone. From then on.
    Failing,
}

/// A planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its kind.
    pub kind: Kind,
    /// The rank that makes it.
    pub rank: usize,
    /// Exchanges before it.
    pub after: usize,
}

impl Mistake {
    /// The mistake that the environment plants.
    ///
    /// # Panics
    /// When the variable names none.
    pub(crate) fn of_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        Some(Self::of(&text).unwrap_or_else(|| panic!("{VARIABLE}={text} is no mistake")))
    }

    fn of(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let kind = match parts.next()? {
            "lost" => Kind::Lost,
            "swapped" => Kind::Swapped,
            "unordered" => Kind::Unordered,
            "failing" => Kind::Failing,
            _ => return None,
        };
        let mut number = || parts.next()?.parse().ok();
        Some(Self { kind, rank: number()?, after: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_names() {
        let lost = Mistake { kind: Kind::Lost, rank: 1, after: 3 };
        assert_eq!(Mistake::of("lost:1:3"), Some(lost));
        for none in ["", "lost", "lost:1", "lost:a:3", "found:1:3"] {
            assert_eq!(Mistake::of(none), None, "{none}");
        }
    }
}
