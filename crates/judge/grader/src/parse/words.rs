//! Removes text around a formula: punctuation, labels, conditions, units.

use super::super::latex::Kind::{Command, Letter, Mark, Number, Row, Upright, Word};
use super::super::latex::{Kind, Token};
use super::super::phrases::denials::{DISCARDED, is_negation};
use super::super::phrases::numbers::{changes_number, number};
use super::super::phrases::statements::{
    CONDITIONS, LABEL_COMPUTES, LABEL_VERBS, LABELS, OF, RESULTS, SEQUENCE_NAMES,
};
use super::super::phrases::units::{RADIANS, REMARKS, is_no_unit, is_short_unit, multiplies};
use super::super::phrases::{has, has_pair};
use super::slices::{is_enclosed, places};

/// Tokens without the punctuation of a sentence around them.
pub fn trimmed<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while let [rest @ .., Token { kind: Mark('.' | ',' | ';' | ':') | Row, .. }] = tokens {
        tokens = rest;
    }
    while let [Token { kind: Mark('.' | ',' | ';' | ':') | Row, .. }, rest @ ..] = tokens {
        tokens = rest;
    }
    tokens
}

/// Tokens without a clause at their end with a domain such as "all x".
pub fn without_condition<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let word = |place: usize| match tokens.get(place).map(|token| token.kind) {
        Some(Word(word) | Upright(word)) => word,
        _ => "",
    };
    let is_clause = |place: usize| has_pair(CONDITIONS, word(place), word(place + 1));
    let clauses = places(tokens, |place, _| place > 0 && is_clause(place));
    clauses.first().map_or(tokens, |&place| &tokens[..place])
}

/// The place of a colon, an equals sign or a verb that has nothing but words before it, as in
/// "Minimum: 3" and `\text{The minimum is } 3`.
pub fn label_end(tokens: &[Token<'_>]) -> Option<usize> {
    let word = |place: usize| match tokens.get(place).map(|token| token.kind) {
        Some(Word(word) | Upright(word)) => Some(word),
        _ => None,
    };
    let words = (0..).map_while(word).count();
    if computes((0..words).filter_map(word)) {
        return None;
    }
    let end = match (tokens.get(words)?.kind, tokens[words.checked_sub(1)?].kind) {
        (Mark(':' | '='), _) => words,
        // Sentences outside `\text{...}` are searched for what they state.
        (_, Upright(verb))
            if LABEL_VERBS.contains(&verb) && !(0..words).filter_map(word).any(is_negation) =>
        {
            words - 1
        }
        _ => return None,
    };
    (end > 0 && end + 1 < tokens.len()).then_some(end)
}

/// Whether the words of a label name something that is only computed with the answer: "twice the
/// answer", "the number minus one".
fn computes<'w>(words: impl Iterator<Item = &'w str>) -> bool {
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let is_operation = words.iter().any(|word| has(LABEL_COMPUTES, word.as_str()));
    // "The final answer" and "the answer to (a)", but not "the root of the answer".
    let answer = words.iter().position(|word| RESULTS.contains(&word.as_str()));
    is_operation || answer.is_some_and(|answer| words[..answer].iter().any(|word| word == OF))
}

/// Whether tokens that are no formula may be a name for a value: `P(A \mid B)`, `P(\text{red})`,
/// but no prose.
pub fn is_name(tokens: &[Token<'_>]) -> bool {
    let is_prose = |token: &Token<'_>| match token.kind {
        Word(_) => true,
        Upright(word) => is_negation(word),
        _ => false,
    };
    !tokens.is_empty() && !tokens.iter().any(is_prose)
}

/// A sequence without upright words before it that only name its kind: `\text{the point } (3, 4)`,
/// but not `\text{outside } (3, 4)`.
pub fn without_noun<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let is_noun = |token: &&Token<'_>| match token.kind {
        Upright(word) => has(SEQUENCE_NAMES, word.to_ascii_lowercase().as_str()),
        _ => false,
    };
    let rest = &tokens[tokens.iter().take_while(is_noun).count()..];
    let has_comma = rest.iter().any(|token| token.kind == Mark(','));
    if has_comma && is_enclosed(rest) { rest } else { tokens }
}

/// Tokens without a word before the number that adds nothing, such as a currency.
pub fn without_label<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while let [Token { kind: Word(word) | Upright(word), .. }, rest @ ..] = tokens
        && has(LABELS, &word.to_ascii_lowercase())
        && !rest.is_empty()
    {
        tokens = trimmed(rest);
    }
    tokens
}

/// Tokens without a degree sign at their end, if there is no other.
pub fn without_degree<'t, 'a>(tokens: &'t [Token<'a>]) -> (&'t [Token<'a>], bool) {
    let is_sign = |kind: Kind<'_>| matches!(kind, Command("circ" | "degree"));
    let mut signs = (0..tokens.len()).filter(|&place| is_sign(tokens[place].kind));
    let (Some(place), None) = (signs.next(), signs.next()) else { return (tokens, false) };
    let start = match &tokens[..place] {
        [.., Token { kind: Mark('^'), .. }, Token { kind: Mark('{'), .. }] => place - 2,
        [.., Token { kind: Mark('^'), .. }] => place - 1,
        _ if tokens[place].kind == Command("degree") => place,
        _ => return (tokens, false),
    };
    let rest = &tokens[place + 1..];
    let rest = match rest {
        [Token { kind: Mark('}'), .. }, rest @ ..] if start + 2 == place => rest,
        rest => rest,
    };
    let scale = match rest {
        [Token { kind: Letter('C' | 'F'), .. }] => true,
        rest => is_unit(rest),
    };
    // sin 30° is no number of degrees.
    let is_function = |name: &str| name.len() >= 3 && name != "frac" && name != "sqrt";
    let of_function = tokens[..start]
        .iter()
        .any(|token| matches!(token.kind, Command(name) if is_function(name)));
    if scale && start > 0 && !of_function { (&tokens[..start], true) } else { (tokens, false) }
}

/// Tokens without a remark in brackets at their end that changes nothing: "5 (as required)", "5
/// (cm)", "5 (five)".
pub fn without_remark<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let Some((value, remark)) = remark(tokens) else { return tokens };
    let changes_nothing = match value {
        [Token { kind: Number(digits), .. }] if number(&remark).is_some() => {
            number(&remark).map(|number| number.to_string()).as_deref() == Some(*digits)
        }
        // P(red) is a function's value.
        [.., Token { kind: Number(_) | Mark('}' | ')'), .. }] => {
            REMARKS.split('|').any(|known| known == remark.to_ascii_lowercase())
                || is_short_unit(&remark)
        }
        _ => false,
    };
    if changes_nothing { value } else { tokens }
}

/// Whether a value has a remark in brackets that it is not an answer: "2 (extraneous)".
pub fn is_discarded(tokens: &[Token<'_>]) -> bool {
    remark(tokens).is_some_and(|(_, remark)| DISCARDED.contains(&remark.as_str()))
}

/// Tokens before the words in brackets at their end, and these words with spaces between.
fn remark<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(&'t [Token<'a>], String)> {
    let [rest @ .., Token { kind: Mark(')'), .. }] = tokens else { return None };
    let word = |token: &Token<'a>| match token.kind {
        Word(word) | Upright(word) => Some(word),
        _ => None,
    };
    let mut words: Vec<&str> = rest.iter().rev().map_while(word).collect();
    words.reverse();
    match &rest[..rest.len() - words.len()] {
        [value @ .., Token { kind: Mark('('), .. }] if !words.is_empty() && !value.is_empty() => {
            Some((value, words.join(" ")))
        }
        _ => None,
    }
}

/// Tokens without a quotient of words at their end, which is a unit:
/// `\frac{\text{miles}}{\text{hour}}`.
pub fn without_unit_fraction<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let is_word = |token: &&Token<'_>| matches!(token.kind, Upright(_) | Word(_));
    let is_part = |token: &&Token<'_>| {
        is_word(token) || matches!(token.kind, Mark('{' | '}' | '^') | Number("2" | "3"))
    };
    // Five one half is a number.
    let names_number = |word: &str| number(&word.to_ascii_lowercase()).is_some();
    let is_number =
        |token: &Token<'_>| matches!(token.kind, Upright(word) | Word(word) if names_number(word));
    let length = tokens.iter().rev().take_while(is_part).count();
    let (before, parts) = tokens.split_at(tokens.len() - length);
    match before {
        [value @ .., Token { kind: Command("frac" | "dfrac" | "tfrac"), .. }]
            if !value.is_empty()
                && parts.iter().filter(is_word).count() >= 2
                && !parts.iter().any(is_number) =>
        {
            value
        }
        _ => tokens,
    }
}

/// Whether tokens after a value say that it is in radians.
pub fn is_radian(tokens: &[Token<'_>]) -> bool {
    matches!(tokens, [Token { kind: Word(word) | Upright(word), .. }] if RADIANS.contains(word))
}

/// Whether tokens after a value are its unit: words with powers and quotients, or nothing.
pub fn is_unit(tokens: &[Token<'_>]) -> bool {
    let kind = |place: usize| tokens.get(place).map(|token| token.kind);
    let allowed = |place: usize| match tokens[place].kind {
        // In "5 is wrong", "5 at least", "5 million" and "5 times as many" the words are no unit.
        Word(word) | Upright(word) => {
            let (written, word) = (word, word.to_ascii_lowercase());
            let next = match kind(place + 1) {
                Some(Word(next) | Upright(next)) => next,
                _ => "",
            };
            !is_negation(&word)
                && !is_no_unit(&word)
                // Behind another unit, as in J/K, K is no thousand.
                && (!changes_number(written) || written == "K" && place > 0)
                && !multiplies(&word, next)
        }
        Mark('/' | '^' | '{' | '}' | '-' | '*' | '(' | ')' | '.' | '%') => true,
        Command("cdot" | "circ" | "degree") => true,
        Letter(letter) => {
            letter.is_ascii_alphabetic()
                && matches!(
                    kind(place.wrapping_sub(1)),
                    Some(Mark('/' | '*' | '(') | Command("cdot"))
                )
        }
        // A number may only be the power of a unit.
        Number(_) => {
            let before =
                tokens[..place].iter().rev().find(|token| !matches!(token.kind, Mark('{' | '-')));
            before.is_some_and(|token| token.kind == Mark('^'))
        }
        _ => false,
    };
    let starts = matches!(kind(0), None | Some(Word(_) | Upright(_)));
    starts && (0..tokens.len()).all(allowed)
}
