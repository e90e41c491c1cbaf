//! The kind of a token by its text: a word at which reasoning may turn, arithmetic, or anything
//! else.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of `FORKING_WORDS`.
    Forking,
    /// Digits, operators, brackets and points, with at least one digit or operator.
    Arithmetic,
    /// Any other.
    Other,
}

/// Words at which a line of reasoning may turn: connectives and hints at another approach, of the
/// kind that has the highest entropies in chains of thought (arXiv:2506.01939).
const FORKING_WORDS: &str = "\
    actually again also alternatively although another assume assuming because but \
    check consider considering either except first given hence hmm hold how however if \
    instead let maybe next note notice now or otherwise perhaps rather recall since so \
    still suppose supposing then therefore though thus try unless until verify wait \
    whereas whether while yet";

/// Signs of arithmetic beside digits.
const OPERATORS: &str = "+-*/=<>^%|!×·÷−±√≤≥≠≈≡∑∏∞";
/// Characters that may stand beside them.
const BESIDE: &str = "()[]{}.,:";

impl Kind {
    /// All kinds, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Forking, Self::Arithmetic, Self::Other];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forking => "forking words",
            Self::Arithmetic => "digits and operators",
            Self::Other => "other",
        }
    }

    /// The kind of a token with this text. Surrounding blanks and capitals make no difference.
    pub fn of(piece: &str) -> Self {
        let word = piece.trim().trim_end_matches([',', '.', ':', ';', '!', '?']);
        if word.len() < 20 && is_forking(&word.to_lowercase()) {
            return Self::Forking;
        }
        let signs = piece.trim();
        let counts = |c: char| c.is_ascii_digit() || OPERATORS.contains(c);
        match signs.chars().all(|c| counts(c) || BESIDE.contains(c)) && signs.chars().any(counts) {
            true => Self::Arithmetic,
            false => Self::Other,
        }
    }
}

fn is_forking(word: &str) -> bool {
    FORKING_WORDS.split_whitespace().any(|forking| forking == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_the_text() {
        for (piece, kind) in [
            (" Wait", Kind::Forking),
            ("However,", Kind::Forking),
            ("so", Kind::Forking),
            ("sow", Kind::Other),
            (" 12", Kind::Arithmetic),
            ("+", Kind::Arithmetic),
            ("(3", Kind::Arithmetic),
            (">", Kind::Arithmetic),
            (".", Kind::Other),
            (")", Kind::Other),
            ("!", Kind::Arithmetic),
            ("", Kind::Other),
            (" ", Kind::Other),
            ("x2", Kind::Other),
        ] {
            assert_eq!(Kind::of(piece), kind, "{piece:?}");
        }
    }
}
