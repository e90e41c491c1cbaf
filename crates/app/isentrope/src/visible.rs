//! Text from elsewhere for the terminal, which would obey what is hidden in it: names in files,
//! model output, what servers say.

pub use isentrope_lab::visible::visible;
use std::borrow::Cow;

/// Longest run of characters without a space in a message, and what is kept of a longer one: both
/// ends, since a path has its name at the end and most else at the beginning.
const LONGEST_WORD: Cap = Cap { most: 400, first: 240, last: 120 };
/// Longest message.
const LONGEST_MESSAGE: Cap = Cap { most: 10_000, first: 8_000, last: 1_500 };

/// How much of a text is shown, in characters.
struct Cap {
    most: usize,
    first: usize,
    last: usize,
}

/// The text as [`visible`], and no longer than a message should be: of long words and long texts
/// the middle is left out.
pub fn capped(text: &str) -> String {
    let text = visible(text);
    let mut words = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        words.push_str(&LONGEST_WORD.apply(word));
    }
    LONGEST_MESSAGE.apply(&words).into_owned()
}

impl Cap {
    fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.len() <= self.most {
            return Cow::Borrowed(text); // a character has at least one byte
        }
        let count = text.chars().count();
        if count <= self.most {
            return Cow::Borrowed(text);
        }
        let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(i, _)| i);
        let (first, last) = (&text[..at(self.first)], &text[at(count - self.last)..]);
        Cow::Owned(format!("{first}…{last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_words_and_long_texts_keep_their_ends() {
        let word = format!("/{}/name", "é".repeat(1_000_000));
        let shown = capped(&format!("tensor {word}: bad"));
        assert!(shown.starts_with("tensor /éé") && shown.ends_with("éé/name: bad"), "{shown}");
        assert!(shown.contains('…') && shown.chars().count() < 400, "{shown}");
        let text = capped(&"many words ".repeat(10_000));
        assert!(text.contains('…') && text.chars().count() < 10_000, "{}", text.len());
        let path = format!("{}/file", "d".repeat(390));
        assert_eq!(capped(&path), path);
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_and_plain_text_is_untouched(text: String) {
            let shown = capped(&text);
            prop_assert!(!shown.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
            let escaped = visible(&text);
            prop_assert_eq!(visible(&escaped), &*escaped);
        }
    }
}
