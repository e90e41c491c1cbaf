//! Numbers in words: "twenty-one", "1.5 million", "two thirds", "5 factorial".

use super::has;
use super::units::ORDINALS;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Zero};

use crate::expression::{Expression, Function};

/// Numbers from zero on.
const ONES: &str = "\
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
    sixteen seventeen eighteen nineteen";

/// Tens from twenty on.
const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";

/// Words that multiply what is before them by a power of ten.
const SCALES: &[(&str, u32)] = &[
    ("hundred", 2),
    ("thousand", 3),
    ("lakh", 5),
    ("million", 6),
    ("crore", 7),
    ("billion", 9),
    ("trillion", 12),
    ("quadrillion", 15),
    ("quintillion", 18),
    ("sextillion", 21),
    ("googol", 100),
];

/// Words that multiply what is before them by another number.
const GROUPS: &[(&str, u32)] = &[("dozen", 12), ("score", 20), ("gross", 144)];

/// Parts of one whose names are not made with -th.
const PARTS: &[(&str, u32)] = &[
    ("half", 2),
    ("halve", 2),
    ("third", 3),
    ("quarter", 4),
    ("fifth", 5),
    ("ninth", 9),
    ("twelfth", 12),
];

/// Abbreviations of powers of ten, right after a number.
const ABBREVIATIONS: &[&str] = &["k", "bn", "mn", "mln", "mio", "bln", "trn"];

/// The abbreviation that means something else in lower case: 5 m is a length.
const MEGA: &str = "M";

/// Words after a number that make another number of it and do not say which.
const CHANGES: &str = "\
    squared cubed factorial doubled tripled quadrupled halved negated inverted permille";

/// Bases that have a name.
const BASES: &[(&str, u32)] =
    &[("binary", 2), ("ternary", 3), ("octal", 8), ("decimal", 10), ("hexadecimal", 16)];

/// The base of this name.
pub fn base_named(name: &str) -> Option<u32> {
    BASES.iter().find(|(word, _)| name.eq_ignore_ascii_case(word)).map(|(_, base)| *base)
}

/// Words before a number that change its sign.
const SIGNS: &[&str] = &["negative", "minus"];

/// Longest text that is read as a number in words, in bytes.
const MAX_TEXT: usize = 200;

/// The number from zero to twenty that a text is the word for.
pub fn number(text: &str) -> Option<u8> {
    small(text).filter(|value| *value <= 20).and_then(|value| value.try_into().ok())
}

/// Whether a word is a number, or makes another number of the one before it: million, thirds,
/// squared.
pub fn changes_number(word: &str) -> bool {
    let is_mega = word == MEGA;
    let word = word.to_ascii_lowercase();
    let word = word.as_str();
    let single = word.strip_suffix('s').unwrap_or(word);
    is_mega
        || has(ONES, word)
        || has(TENS, word)
        || has(CHANGES, word)
        || ABBREVIATIONS.contains(&word)
        || [SCALES, GROUPS].iter().any(|table| {
            table.iter().any(|(name, _)| *name == single && (word == single || *name != "score"))
        })
        || part(word).is_some()
}

/// Whether a word is a group or a power of ten that "and" adds to: "a score and 2".
pub fn is_group(word: &str) -> bool {
    [SCALES, GROUPS].iter().any(|table| table.iter().any(|(name, _)| *name == word))
}

/// The number that a text in lower case begins with in words, and what follows it; `None` where it
/// is in digits alone.
pub fn spoken(text: &str) -> Option<(Expression, Vec<&str>)> {
    if text.len() > MAX_TEXT || text.contains(['(', '\\', '=', '^', '_', ';', ':', '+', '/']) {
        return None;
    }
    let text = text.trim_end_matches(['.', '!']);
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == '-')
        .filter(|word| !word.is_empty())
        .collect();
    let (is_negative, rest) = match &words[..] {
        [sign, rest @ ..] if SIGNS.contains(sign) => (true, rest),
        rest => (text.starts_with('-'), rest),
    };
    let (count, part, rest) = magnitude(rest)?;
    let count = Expression::Number(if is_negative { -count } else { count });
    let (value, rest) = changed(
        match part {
            Some(part) => count.over(Expression::integer(part)),
            None => count,
        },
        rest,
    );
    // Numbers in digits alone are read elsewhere.
    let used = &words[..words.len() - rest.len()];
    (used.len() > 1 || literal(used[0]).is_none()).then(|| (value, rest.to_vec()))
}

/// The count and the kind of parts of a number without sign, and what follows it: "two and a half",
/// "three quarters". 84 fourths are not worked out, and no number is mixed with 640 tenths.
fn magnitude<'w, 't>(words: &'w [&'t str]) -> Option<(BigRational, Option<BigInt>, &'w [&'t str])> {
    if let ["a" | "an", word, rest @ ..] = words {
        return Some((BigRational::one(), Some(part(word)?), rest));
    }
    let (value, rest) = cardinal(words)?;
    if let ["and", more @ ..] = rest
        && value.is_integer()
    {
        let (count, rest) = match more {
            ["a" | "an", rest @ ..] => (BigRational::one(), rest),
            _ => cardinal(more).unwrap_or((BigRational::zero(), more)),
        };
        let part = rest.first().and_then(|name| part(name));
        if let Some(part) = part
            && !count.is_zero()
            && count < BigRational::from_integer(part.clone())
        {
            return Some((value * &part + count, Some(part), &rest[1..]));
        }
    }
    match rest {
        [name, rest @ ..] if part(name).is_some() => Some((value, part(name), rest)),
        rest => Some((value, None, rest)),
    }
}

/// A number that counts: "one hundred and five", "1.5 million", "three dozen".
fn cardinal<'w, 't>(words: &'w [&'t str]) -> Option<(BigRational, &'w [&'t str])> {
    let mut place = 0;
    let (mut total, mut group) = (BigRational::zero(), None::<BigRational>);
    // The next part of the group must be below this: below ten after tens, below a hundred after
    // hundreds.
    let mut room = 100;
    while let Some(&word) = words.get(place) {
        if place == 0
            && let Some(value) = literal(word)
        {
            (group, room) = (Some(value), 0);
        } else if let Some(value) = small(word) {
            if value >= room {
                break;
            }
            room = if value >= 20 { 10 } else { 0 };
            group = Some(
                group.unwrap_or_else(BigRational::zero) + BigRational::from_integer(value.into()),
            );
        } else if let Some(power) = scale(word) {
            let count = group.take().unwrap_or_else(|| {
                if place == 0 { BigRational::one() } else { BigRational::zero() }
            });
            let scaled = count * BigRational::from_integer(Pow::pow(BigInt::from(10), power));
            room = 100;
            if power == 2 { group = Some(scaled) } else { total += scaled }
        } else if let Some((_, factor)) = GROUPS.iter().find(|(name, _)| *name == word) {
            group = Some(
                group.unwrap_or_else(BigRational::one)
                    * BigRational::from_integer((*factor).into()),
            );
            room = 0;
        } else {
            let joins = word == "and"
                && place > 0
                && room == 100
                && words.get(place + 1).is_some_and(|next| small(next).is_some());
            if !joins || words.get(place + 2).is_some_and(|next| part(next).is_some()) {
                break;
            }
        }
        place += 1;
    }
    (place > 0).then(|| (total + group.unwrap_or_else(BigRational::zero), &words[place..]))
}

/// A number with the operations after it: squared, factorial, choose 2, to the power of 3.
fn changed<'w, 't>(value: Expression, words: &'w [&'t str]) -> (Expression, &'w [&'t str]) {
    let power = |exponent| Expression::power(value.clone(), exponent);
    let operand = |words: &'w [&'t str]| {
        let (number, rest) = cardinal(words)?;
        number.is_integer().then_some((Expression::Number(number), rest))
    };
    match words {
        ["squared", rest @ ..] => (power(Expression::integer(2)), rest),
        ["cubed", rest @ ..] => (power(Expression::integer(3)), rest),
        ["factorial", rest @ ..] => (Expression::Function(Function::Factorial, vec![value]), rest),
        ["choose", rest @ ..] => match operand(rest) {
            Some((k, rest)) => (Expression::Function(Function::Binomial, vec![value, k]), rest),
            None => (value, words),
        },
        ["to", "the", nth, rest @ ..] if part(nth).is_some() => {
            let exponent =
                part(nth).map(|nth| Expression::Number(nth.into())).unwrap_or(value.clone());
            (power(exponent), rest.strip_prefix(&["power"]).unwrap_or(rest))
        }
        ["to", "the", "power", "of", rest @ ..] | ["to", "the", "power", rest @ ..] => {
            match operand(rest) {
                Some((exponent, rest)) => (power(exponent), rest),
                None => (value, words),
            }
        }
        _ => (value, words),
    }
}

fn small(word: &str) -> Option<u32> {
    let place = |table: &str| table.split(' ').position(|name| name == word);
    let value = place(ONES).or_else(|| place(TENS).map(|tens| 20 + 10 * tens))?;
    u32::try_from(value).ok()
}

fn scale(word: &str) -> Option<u32> {
    SCALES.iter().find_map(|(name, power)| (*name == word).then_some(*power))
}

/// The number of parts that a word cuts one into: 3 for "thirds", 5 for "5ths".
fn part(word: &str) -> Option<BigInt> {
    let single = word.strip_suffix('s').unwrap_or(word);
    if let Some((_, count)) = PARTS.iter().find(|(name, _)| *name == single) {
        return Some((*count).into());
    }
    let digits = ORDINALS.iter().find_map(|ending| single.strip_suffix(ending));
    if let Some(count) = digits.and_then(|digits| digits.parse::<u32>().ok()) {
        return (count > 0).then(|| count.into());
    }
    let whole = single.strip_suffix("th")?;
    if let Some(power) = scale(whole) {
        return Some(Pow::pow(BigInt::from(10), power));
    }
    let tens = whole.strip_suffix("ie").map(|stem| format!("{stem}y"));
    let whole = tens.as_deref().unwrap_or(if whole == "eigh" { "eight" } else { whole });
    small(whole).filter(|value| *value > 3).map(BigInt::from)
}

/// A number in digits, perhaps with groups of three and a decimal point.
fn literal(word: &str) -> Option<BigRational> {
    let groups_of_three =
        word.split(',').skip(1).all(|group| group.split('.').next().is_some_and(|g| g.len() == 3));
    let digits = word.replace(',', "");
    let (integer, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_number = !integer.is_empty()
        && [integer, decimals].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_number || !groups_of_three {
        return None;
    }
    let denominator = Pow::pow(BigInt::from(10), decimals.len());
    Some(BigRational::new(format!("{integer}{decimals}").parse().ok()?, denominator))
}
