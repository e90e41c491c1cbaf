//! Text from elsewhere for the terminal, which would obey what is hidden in it: names in files, model output, what servers say.

use std::borrow::Cow;

/// Longest run of characters without a space in a message, and what is kept of a longer one: both ends, since a path has its
/// name at the end and most else at the beginning.
const LONGEST_WORD: Cap = Cap { most: 400, first: 240, last: 120 };
/// Longest message.
const LONGEST_MESSAGE: Cap = Cap { most: 10_000, first: 8_000, last: 1_500 };

/// How much of a text is shown, in characters.
struct Cap {
    most: usize,
    first: usize,
    last: usize,
}

/// The text with every character escaped that a reader would not see and a terminal may obey, as in `\u{1b}`: control
/// characters but for line breaks and tabs, direction marks and other invisible ones. Joiners stay inside scripts and emoji
/// that are written with them.
pub fn visible(text: &str) -> Cow<'_, str> {
    // Text that is printed piece by piece may begin with a joiner.
    let mut before = '\u{ffff}';
    let mut is_shown = |c: char| {
        let joins = matches!(c, '\u{200c}' | '\u{200d}') && !before.is_ascii();
        before = c;
        joins || !is_hidden(c)
    };
    let Some((first, _)) = text.char_indices().find(|(_, c)| !is_shown(*c)) else {
        return Cow::Borrowed(text);
    };
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(&text[..first]);
    for (i, c) in text[first..].chars().enumerate() {
        if i > 0 && is_shown(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    Cow::Owned(shown)
}

/// The text as [`visible`], and no longer than a message should be: of long words and long texts the middle is left out.
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

/// Whether nobody would see the character: general categories Cc and Cf, line and paragraph separators, letters without a
/// shape, and the variation selectors that fonts do not use (The Unicode Standard 16.0, DerivedCoreProperties.txt,
/// Default_Ignorable_Code_Point).
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_hidden_is_escaped_and_all_else_kept() {
        for (text, shown) in [
            ("a\u{1b}[2J\u{9b}\r\té\nπ \\", "a\\u{1b}[2J\\u{9b}\\r\té\nπ \\"),
            ("\u{7f}\0\u{8}", "\\u{7f}\\u{0}\\u{8}"),
            ("gpj.\u{202e}exe\u{2066}\u{200e}", "gpj.\\u{202e}exe\\u{2066}\\u{200e}"),
            ("a\u{200b}b\u{feff}c\u{2028}d\u{ad}", "a\\u{200b}b\\u{feff}c\\u{2028}d\\u{ad}"),
            ("a\u{200d}b\u{e0041}", "a\\u{200d}b\\u{e0041}"),
            ("👨\u{200d}👩 ❤\u{fe0f} می\u{200c}خواهم", "👨\u{200d}👩 ❤\u{fe0f} می\u{200c}خواهم"),
            ("plain", "plain"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

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
