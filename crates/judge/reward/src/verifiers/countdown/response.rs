//! Reads responses of the task.

use super::measures::Measures;
use super::{Operation, Step};

/// Most digits of a number; all such numbers fit 64 bits.
const MAX_DIGITS: usize = 18;

/// The part of a response that is judged: its last attempt and its mark.
pub(super) struct Response<'a> {
    /// Steps of the last attempt.
    pub last: Vec<Step>,
    /// The text of the last attempt.
    pub last_text: &'a str,
    /// Whether the mark is "!".
    pub claims_success: bool,
}

impl<'a> Response<'a> {
    /// Reads a response. Every step that could be read is counted in `measures`, even if an error
    /// follows.
    ///
    /// # Errors
    /// Where the text is not of the form, as a sentence.
    pub fn parse(text: &'a str, measures: &mut Measures) -> Result<Self, String> {
        let mut reader = Reader { text, position: 0 };
        let (mut last, mut start) = (Vec::new(), 0);
        loop {
            let step = reader.step()?;
            measures.add(step, last.is_empty());
            last.push(step);
            let end = reader.position;
            match reader.next() {
                Some(b',') => {}
                Some(b';') => {
                    start = reader.position;
                    last.clear();
                }
                Some(mark @ (b'!' | b'?')) => {
                    return match reader.next() {
                        None => Ok(Self {
                            last,
                            last_text: &text[start..end],
                            claims_success: mark == b'!',
                        }),
                        Some(_) => Err(reader.error("the end of the response")),
                    };
                }
                _ => return Err(reader.error("one of , ; ! ?")),
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl Reader<'_> {
    /// The next byte; the end counts as one too, so that [`Reader::error`] finds what was taken
    /// last.
    fn next(&mut self) -> Option<u8> {
        self.position += 1;
        self.text.as_bytes().get(self.position - 1).copied()
    }

    fn step(&mut self) -> Result<Step, String> {
        let a = self.number()?;
        let symbol = self.next().map(char::from);
        let operation = Operation::ALL
            .into_iter()
            .find(|operation| Some(operation.symbol()) == symbol)
            .ok_or_else(|| self.error("one of + - * /"))?;
        let b = self.number()?;
        if self.next() != Some(b'=') {
            return Err(self.error("="));
        }
        Ok(Step { a, operation, b, result: self.number()? })
    }

    /// A number in its only spelling, without leading zeros.
    fn number(&mut self) -> Result<u64, String> {
        let rest = &self.text.as_bytes()[self.position..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            self.position += 1;
            return Err(self.error("a number"));
        }
        let place = self.position + 1;
        if digits > MAX_DIGITS {
            return Err(format!(
                "the number at character {place} has more than {MAX_DIGITS} digits"
            ));
        }
        if digits > 1 && rest[0] == b'0' {
            return Err(format!("the number at character {place} starts with 0"));
        }
        self.position += digits;
        Ok(rest[..digits].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
    }

    /// Describes the error at the byte taken last. Everything before it is ASCII.
    fn error(&self, expected: &str) -> String {
        match self.text[self.position - 1..].chars().next() {
            Some(found) => {
                format!("{found:?} at character {} where {expected} should be", self.position)
            }
            None => format!("ends where {expected} should be"),
        }
    }
}
