//! Makes control characters visible in foreign text (file names, model output, servers' messages),
//! which a terminal would obey.

pub use isentrope_lab::visible::visible;

/// Most characters of a message, and the number shown of a longer message's start and end, where a
/// path has its name.
const LONGEST: usize = 10_000;
const START: usize = 8_000;
const END: usize = 1_500;

/// The text made [`visible`], without its middle if it is too long for a message.
pub fn capped(text: &str) -> String {
    let text = visible(text);
    let count = text.chars().count();
    if count <= LONGEST {
        return text.into_owned();
    }
    let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(i, _)| i);
    format!("{}…{}", &text[..at(START)], &text[at(count - END)..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_texts_keep_their_ends() {
        let word = format!("/{}/name", "é".repeat(1_000_000));
        let shown = capped(&format!("tensor {word}: bad"));
        assert!(shown.starts_with("tensor /éé") && shown.ends_with("éé/name: bad"), "{shown}");
        assert!(shown.contains('…') && shown.chars().count() < LONGEST, "{shown}");
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
