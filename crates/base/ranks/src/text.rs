//! Texts in records of bounded size.

/// The beginning of a text, whole characters of at most `most` bytes.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(|most| beginning("aéb", most)),
            ["", "a", "a", "aé", "aéb", "aéb"]
        );
        assert_eq!(beginning("", 4), "");
    }
}
