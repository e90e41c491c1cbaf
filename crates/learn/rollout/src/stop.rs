//! The growing text of a response, and the search for stop strings in it.

use isentrope_model::Result;
use isentrope_model::tokenizer::{DecodeStream, Tokenizer};

/// Text decoded so far.
pub(crate) struct Text<'a> {
    stream: DecodeStream<'a>,
    text: String,
    /// Bytes of `text` that have been returned.
    shown: usize,
    stopped: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            stream: tokenizer.decode_stream(true),
            text: String::new(),
            shown: 0,
            stopped: false,
        }
    }

    /// Adds a token. Returns the new text that is final; a possible start of a stop string is held
    /// back.
    pub(crate) fn push(&mut self, token: u32, stop_strings: &[String]) -> Result<String> {
        let piece = self.stream.push(token)?;
        self.append(&piece, stop_strings);
        let certain = self.text.len() - held_back(&self.text[self.shown..], stop_strings);
        let new = self.text[self.shown..certain].to_owned();
        self.shown = certain;
        Ok(new)
    }

    /// Whether a stop string has occurred.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// The whole text, up to a stop string.
    pub(crate) fn finish(self, stop_strings: &[String]) -> Result<String> {
        let Self { stream, mut text, stopped, .. } = self;
        if !stopped {
            append(&mut text, &stream.finish()?, stop_strings);
        }
        Ok(text)
    }

    fn append(&mut self, piece: &str, stop_strings: &[String]) {
        if !self.stopped {
            self.stopped = append(&mut self.text, piece, stop_strings);
        }
    }
}

/// Appends a piece; cuts the text before the first stop string in it and says whether there was
/// one.
fn append(text: &mut String, piece: &str, stop_strings: &[String]) -> bool {
    let known = text.len();
    text.push_str(piece);
    let first = stop_strings
        .iter()
        .filter_map(|stop| {
            // A stop string that was not there before ends in the new piece.
            let mut from = known.saturating_sub(stop.len());
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            text[from..].find(stop.as_str()).map(|at| from + at)
        })
        .min();
    if let Some(at) = first {
        text.truncate(at);
    }
    first.is_some()
}

/// Bytes at the end of `text` that are the beginning of a stop string.
fn held_back(text: &str, stop_strings: &[String]) -> usize {
    let longest = |stop: &String| {
        stop.char_indices()
            .map(|(i, _)| i)
            .filter(|&i| i > 0 && text.ends_with(&stop[..i]))
            .max()
            .unwrap_or(0)
    };
    stop_strings.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_strings_cut_the_text_wherever_pieces_end() {
        let stops = ["END".to_owned(), "né".to_owned()];
        for text in ["abcENDdef", "ENDx", "xxxné", "aEENDb", "EEND", "nnée"] {
            let expected =
                stops.iter().filter_map(|s| text.find(s.as_str())).min().expect("a stop string");
            for size in 1..=text.chars().count() {
                let chars: Vec<char> = text.chars().collect();
                let mut grown = String::new();
                let stopped =
                    chars.chunks(size).any(|c| append(&mut grown, &String::from_iter(c), &stops));
                assert!(
                    stopped && grown == text[..expected],
                    "{text} in pieces of {size}: {grown}"
                );
            }
        }
    }

    #[test]
    fn beginnings_of_stop_strings_are_held_back() {
        let stops = ["END".to_owned(), "\u{e9}\u{e9}".to_owned()];
        assert_eq!(held_back("abcEN", &stops), 2);
        assert_eq!(held_back("abcE", &stops), 1);
        assert_eq!(held_back("a\u{e9}", &stops), 2);
        assert_eq!(held_back("abc", &stops), 0);
    }
}
