//! Makes hidden characters of foreign text visible, because they could make a page or a terminal
//! show something else.

use std::borrow::Cow;

/// The text with every character escaped that a reader would not see and a terminal may obey, as in
/// `\u{1b}`: control characters but for line breaks and tabs, direction marks and other invisible
/// ones. Joiners stay inside scripts and emoji that are written with them.
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

/// Whether the character is invisible: general categories Cc and Cf, line and paragraph separators,
/// letters without a shape, and the variation selectors that fonts do not use (The Unicode Standard
/// 16.0, DerivedCoreProperties.txt, Default_Ignorable_Code_Point).
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        _ if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
