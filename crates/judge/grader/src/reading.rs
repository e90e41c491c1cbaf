//! Meanings of an answer's text.

use super::answer::{Answer, Quantity, Unit};
use super::choice::choice;
use super::expression::{Constant, Expression};
use super::latex::{Commas, is_ornament, is_prose_letter, takes_group_away};
use super::parse::{Convention, Unreadable, parse};
use super::phrases::answers::{says_infinite, says_none, says_reals, says_undefined};
use super::phrases::denials::{DENYING_WORDS, is_negation};
use super::phrases::has;
use super::phrases::numbers::{changes_number, spoken};
use super::phrases::statements::{ARTICLES, SUBJECT_VERBS};
use super::phrases::units::{PERCENT, is_no_unit};

/// Longest text that is read as an answer, in bytes.
pub const MAX_BYTES: usize = 10_000;

/// An answer as text, with all its readings.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The text, without white space around it.
    pub source: String,
    /// The text without ornament, lower-case.
    pub text: String,
    /// The letter of a multiple choice that the text starts with: C of "(C) 12".
    pub choice: Option<char>,
    /// Whether the text was in a box.
    pub is_boxed: bool,
    /// The possible meanings, likelier ones first: 1,234 is a number or two. At least one.
    pub answers: Vec<Answer>,
}

/// The text is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing is there but, perhaps, punctuation.
    #[error("has neither words nor numbers")]
    Empty,
    /// There is too much.
    #[error("is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It goes beyond what is read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Reading {
    /// Reads a text.
    pub fn of(source: &str) -> Result<Self, NoAnswer> {
        let source = unquoted(source.trim());
        if source.len() > MAX_BYTES {
            return Err(NoAnswer::TooLong);
        }
        // The commonest answer of all.
        if let Some(answer) = small_integer(source) {
            return Ok(Self {
                source: source.into(),
                text: source.into(),
                choice: None,
                is_boxed: false,
                answers: vec![answer],
            });
        }
        let bare = without_markup(source);
        let text = normalised(&bare);
        let (choice, rest) =
            choice(&bare).map_or((None, None), |(letter, rest)| (Some(letter), rest));
        let mut answers = meanings(source)?;
        if let Some(rest) = rest {
            answers.extend(meanings(rest)?);
        }
        // {empty set} is not empty.
        let has_elements = source.contains("\\{");
        if let Some(number) = number_in_words(&bare) {
            answers = vec![number];
        } else if says_none(&text) && !has_elements {
            answers = vec![Answer::Set(Vec::new())];
        } else if says_infinite(&text) {
            answers = vec![Answer::plain(Expression::Constant(Constant::Infinity))];
        } else if says_reals(&text) {
            answers = vec![Answer::Reals];
        } else if says_undefined(&text) {
            answers = vec![Answer::Text("undefined".into())];
        } else if answers.is_empty() {
            if !text.contains(char::is_alphanumeric) {
                return Err(NoAnswer::Empty);
            }
            answers.push(Answer::Text(text.clone()));
        }
        Ok(Self { source: source.into(), text, choice, is_boxed: false, answers })
    }

    /// Whether the text has no mathematical meaning.
    pub fn is_text(&self) -> bool {
        matches!(self.answers[..], [Answer::Text(_)])
    }

    /// The predicate of a sentence of words, in the form of [`Self::text`]: "odd" in "The function
    /// is odd."
    pub fn predicate(&self) -> Option<String> {
        let bare = without_markup(&self.source);
        let (subject, predicate) = SUBJECT_VERBS.iter().find_map(|verb| bare.split_once(verb))?;
        let denies = bare
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .any(|word| is_negation(word) || has(DENYING_WORDS, word));
        (!denies && !subject.is_empty()).then(|| normalised(predicate.trim()))
    }

    /// The letter of a choice that is the whole answer.
    pub fn lone_choice(&self) -> Option<char> {
        self.choice.filter(|letter| {
            let mut rest = self.text.chars().filter(|character| character.is_alphanumeric());
            rest.next() == Some(letter.to_ascii_lowercase()) && rest.next().is_none()
        })
    }
}

/// A text without the quotation marks around it: as many at its end as at its start, because others
/// may be primes.
fn unquoted(source: &str) -> &str {
    let mut inner = source.trim_start_matches(['"', '\'', '`']);
    for _ in inner.len()..source.len() {
        inner = inner.strip_suffix(['"', '\'']).unwrap_or(inner);
    }
    inner.trim()
}

fn small_integer(source: &str) -> Option<Answer> {
    let digits = source.strip_prefix('-').unwrap_or(source);
    let is_small =
        (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: i64 = is_small.then(|| source.parse().ok()).flatten()?;
    Some(Answer::plain(Expression::integer(value)))
}

/// The number in words that bare text is, which a counted thing may follow: "1.5 million", "two
/// thirds of a mile".
fn number_in_words(bare: &str) -> Option<Answer> {
    let lower = bare.to_lowercase();
    let (expression, rest) = spoken(&lower)?;
    let is_of_unit = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !is_no_unit(word)
            && !is_negation(word)
            && !changes_number(word)
    };
    let unit = if PERCENT.contains(&rest.join(" ").as_str()) { Unit::Percent } else { Unit::None };
    rest.iter().all(is_of_unit).then_some(Answer::Quantity(Quantity { expression, unit }))
}

/// A text's meanings under each convention that makes a difference.
fn meanings(source: &str) -> Result<Vec<Answer>, Unreadable> {
    let mut answers = Vec::new();
    // 答案是5 is no product.
    if source.contains(is_prose_letter) {
        return Ok(answers);
    }
    let mut add = |convention| {
        let parsed = match parse(source, convention) {
            Ok(parsed) => parsed,
            Err(Unreadable::NotMath) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !answers.contains(&parsed.answer) {
            answers.push(parsed.answer);
        }
        Ok(parsed.plain_logarithm)
    };
    for &commas in conventions(source) {
        let convention = Convention { commas, decimal_logarithm: false };
        if add(convention)? {
            add(Convention { decimal_logarithm: true, ..convention })?;
        }
    }
    Ok(answers)
}

/// Possible meanings of commas between digits in a text. Brackets and braces make them separators.
fn conventions(source: &str) -> &'static [Commas] {
    let bytes = source.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
    let joins = |place: &usize| {
        bytes[*place] == b',' && *place > 0 && is_digit(place - 1) && is_digit(place + 1)
    };
    let places: Vec<usize> = (0..bytes.len()).filter(joins).collect();
    let digits_after = |place: usize| (place + 1..).take_while(|&place| is_digit(place)).count();
    let digits_before =
        |place: usize| (0..place).rev().take_while(|&place| is_digit(place)).count();
    let groups = places.iter().any(|&place| digits_after(place) == 3 && digits_before(place) <= 3);
    let in_brackets =
        source.contains(['(', '[']) || source.contains("\\{") || source.contains("\\langle");
    let lone =
        places.len() == 1 && !source.contains([';', '.']) && source.matches(',').count() == 1;
    let starts_with_zero = |place: usize| bytes[place - digits_before(place)] == b'0';
    match places[..] {
        [] => &[Commas::Separate],
        _ if in_brackets => &[Commas::Separate],
        [place]
            if lone
                && starts_with_zero(place)
                && digits_before(place) == 1
                && digits_after(place) > 1 =>
        {
            &[Commas::Point, Commas::Separate]
        }
        // 080 is no answer of its own, but the rest of a number.
        _ if groups
            && places.iter().any(|&place| bytes[place + 1] == b'0' && digits_after(place) == 3) =>
        {
            &[Commas::Group]
        }
        _ if groups => &[Commas::Group, Commas::Separate],
        [place] if lone && (digits_after(place) == 2 || digits_before(place) > 3) => {
            &[Commas::Separate, Commas::Point]
        }
        _ => &[Commas::Separate],
    }
}

/// Text without the commands, braces and dollars that only change its looks.
fn without_markup(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => {
                let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                let name = &rest[..length];
                let is_markup = name.starts_with("text")
                    || is_ornament(name)
                    || matches!(
                        name,
                        "mbox"
                            | "mathrm"
                            | "mathsf"
                            | "left"
                            | "right"
                            | "quad"
                            | "rm"
                            | "operatorname"
                    );
                if takes_group_away(name) {
                    rest = after_group(&rest[length..]);
                } else if is_markup {
                    rest = &rest[length..];
                } else if length == 0 {
                    // \! \, \( and so on.
                    text.push(' ');
                    rest = rest.strip_prefix(|c: char| !c.is_alphanumeric()).unwrap_or(rest);
                }
            }
            '$' | '{' | '}' | '*' | '"' | '`' => {}
            character => text.push(character),
        }
    }
    text.trim().to_owned()
}

/// A text without the group in braces that it starts with.
fn after_group(text: &str) -> &str {
    let group = text.trim_start().strip_prefix('{').and_then(|inner| inner.split_once('}'));
    group.map_or(text, |(_, rest)| rest)
}

/// Bare text without case, spaces, punctuation, and an article at its start.
fn normalised(bare: &str) -> String {
    let lower = bare.to_lowercase();
    let bare = ARTICLES.iter().find_map(|article| lower.strip_prefix(article)).unwrap_or(&lower);
    let mut text: String = bare
        .chars()
        .filter(|character| {
            !character.is_whitespace()
                && !matches!(character, '.' | ',' | ';' | ':' | '\'' | '!' | '?' | '~')
        })
        .collect();
    // semi-circle, (C)
    if !text.starts_with('-')
        && text
            .chars()
            .all(|character| character.is_alphabetic() || matches!(character, '-' | '(' | ')'))
    {
        text.retain(char::is_alphabetic);
    }
    text
}
