//! The effect of the words after an answer: "5, no wait", "5 if n is even", "5, but I am not sure",
//! "5. That is wrong."

use super::super::phrases::hedges::{
    ABOUT_ANSWER, CONDITIONS, DENIED_PREDICATES, DOUBTFUL, DOUBTFUL_PAIRS, FALSE_PREDICATES,
    FAULTS, FAULTY, FOUND, IN_DENIALS, MODALS, OPENERS, PARTIAL, REASONS, RETRACTIONS, SUBJECTS,
    WITHDRAWALS, WITHDRAWN,
};
use super::super::phrases::{has, has_pair};
use super::segments::segments;
use super::sentence::sentence;

/// A part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// In lower case.
    Word(&'a str),
    /// A number or formula, and whether it is a comparison.
    Value(bool),
    /// A comma, a dash, a bracket, or the end of a sentence.
    Break,
}

/// Whether the text after an answer withdraws, conditions or doubts it in the rest of its sentence,
/// or calls it wrong in the next.
pub fn takes_back(after: &str) -> bool {
    let after = after.trim_start_matches(['$', '*', '}', ' ']);
    let after = after.strip_prefix("\\)").or_else(|| after.strip_prefix("\\]")).unwrap_or(after);
    let ends = after.starts_with(['.', '\n']);
    let (same, next) = after.split_at(if ends { 0 } else { sentence_length(after) });
    let lower_same = lower(same);
    let parts_of_same = parts(&lower_same);
    let places = 0..parts_of_same.len();
    if places
        .clone()
        .take_while(|&place| !gives_reason(&parts_of_same, place))
        .any(|place| qualifies(&parts_of_same, place))
        || places.into_iter().any(|place| retracts(&parts_of_same, place))
    {
        return true;
    }
    let next = lower(sentence(next.trim_start_matches(['.', ' ', '\n', '*', '$'])));
    let parts = parts(&next);
    let starts_over =
        matches!(word(&parts, 0), "scratch" | "correction" | "oops" | "sorry" | "strike" | "nope");
    let hesitates = has(OPENERS, word(&parts, 0)) || word(&parts, 0) == "i";
    starts_over
        || withdraws(&parts)
        || hesitates && owns_mistake(&parts)
        || is_about_answer(&parts)
            && (0..parts.len())
                .take_while(|&place| !gives_reason(&parts, place))
                .any(|place| denies(&parts, place))
}

/// Whether a sentence begins by withdrawing what was said before it: "please ignore that", "I take
/// it back", "no, 6".
fn withdraws(parts: &[Part<'_>]) -> bool {
    let rest = match parts {
        [Part::Word("please" | "i"), rest @ ..] => rest,
        parts => parts,
    };
    match rest {
        [Part::Word("take"), Part::Word(object), Part::Word("back"), ..] => {
            WITHDRAWN.contains(object)
        }
        [Part::Word(verb), Part::Word(object), ..] => {
            WITHDRAWALS.contains(verb) && WITHDRAWN.contains(object)
        }
        [Part::Word("no"), Part::Break, Part::Value(_), ..] => true,
        _ => false,
    }
}

/// Length of the sentence that a text begins in.
fn sentence_length(text: &str) -> usize {
    let found = sentence(text);
    found.as_ptr() as usize - text.as_ptr() as usize + found.len()
}

fn lower(text: &str) -> String {
    text.to_ascii_lowercase().replace('’', "'")
}

/// The parts of a sentence in lower case.
fn parts(lower: &str) -> Vec<Part<'_>> {
    let formulas = segments(lower);
    let mut parts = Vec::new();
    let mut place = 0;
    while place < lower.len() {
        let rest = &lower[place..];
        if let Ok(found) = formulas.binary_search_by_key(&place, |formula| formula.start) {
            let formula = formulas[found];
            parts.push(Part::Value(compares(&lower[formula.content.0..formula.content.1])));
            place = formula.end;
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        let length = match first {
            _ if first.is_alphabetic() => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '\'').unwrap_or(rest.len())
            }
            _ if first.is_ascii_digit() => {
                rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        match first {
            _ if first.is_alphabetic() => parts.push(Part::Word(&rest[..length])),
            _ if first.is_ascii_digit() => parts.push(Part::Value(false)),
            '<' | '>' | '≤' | '≥' => parts.push(Part::Value(true)),
            ',' | ';' | ':' | '.' | '(' | ')' | '?' | '!' | '—' | '–' => {
                parts.push(Part::Break);
            }
            _ if rest.starts_with("--") => parts.push(Part::Break),
            _ => {}
        }
        place += length;
    }
    parts
}

fn compares(formula: &str) -> bool {
    formula.contains(['<', '>', '≤', '≥'])
        || ["\\l", "\\g"].iter().any(|start| {
            formula.contains(&format!("{start}e")) || formula.contains(&format!("{start}t"))
        })
}

fn word<'a>(parts: &[Part<'a>], place: usize) -> &'a str {
    match parts.get(place) {
        Some(Part::Word(word)) => word,
        _ => "",
    }
}

/// Whether a clause with a reason begins, whose denials are about something else.
fn gives_reason(parts: &[Part<'_>], place: usize) -> bool {
    let (this, next) = (word(parts, place), word(parts, place + 1));
    let is_or_so = this == "so" && place > 0 && word(parts, place - 1) == "or";
    // "but if n were 2, it would be 6" is about something else.
    let is_unreal = this == "if" && parts[place..].contains(&Part::Word("would"));
    is_unreal || has(REASONS, this) && !is_or_so && !(matches!(this, "as" | "so") && next == "long")
}

/// Whether the word at a place conditions, doubts or denies the answer.
fn qualifies(parts: &[Part<'_>], place: usize) -> bool {
    let (before, this, next) = (
        place.checked_sub(1).map_or("", |place| word(parts, place)),
        word(parts, place),
        word(parts, place + 1),
    );
    let is_possible = MODALS.contains(&this)
        && next == "be"
        && matches!(parts.get(place + 2), Some(Part::Value(_)));
    has(CONDITIONS, this) && before != "even" && !before.ends_with("thing")
        || has_pair(DOUBTFUL_PAIRS, this, next)
        || has(DOUBTFUL, this)
        || is_partial(parts, place)
        || is_possible
        || faults(parts, place)
        || this == "but" && says_other(&parts[place + 1..])
        || (this, next) == ("or", "so") && matches!(parts.get(place + 2), None | Some(Part::Break))
        || denies(parts, place)
}

/// Whether the word at a place begins to name some cases of several: "for odd n", "in most cases",
/// "only for n = 3".
fn is_partial(parts: &[Part<'_>], place: usize) -> bool {
    let (this, next) = (word(parts, place), word(parts, place + 1));
    let before = place.checked_sub(1).map_or("", |place| word(parts, place));
    let names_some = |part: &Part<'_>| {
        matches!(part, Part::Value(true)) || matches!(part, Part::Word(word) if has(PARTIAL, word))
    };
    let is_some =
        || parts[place + 1..].iter().take_while(|part| **part != Part::Break).any(names_some);
    match this {
        // A bound "attained only when x = 1" holds for all x.
        "only" => {
            matches!(before, "" | "but") && (matches!(next, "for" | "when" | "in") || is_some())
        }
        "when" | "for" | "in" | "given" => is_some(),
        _ => false,
    }
}

/// Whether the word at a place faults the answer: "fails", "but it ignores", "but I forgot".
fn faults(parts: &[Part<'_>], place: usize) -> bool {
    let before = place.checked_sub(1).map_or("which", |place| word(parts, place));
    has(FAULTS, word(parts, place)) && FAULTY.contains(&before)
}

/// Whether a clause states another answer: "it is 7", "the real answer is 7".
fn says_other(parts: &[Part<'_>]) -> bool {
    let clause = parts.split(|part| *part == Part::Break).next().unwrap_or_default();
    let names_answer = |parts: &[Part<'_>]| {
        matches!(
            parts,
            [Part::Word("answer" | "value" | "result"), Part::Word("is" | "was"), Part::Value(_)]
        )
    };
    clause.windows(3).any(names_answer)
        || matches!(
            clause,
            [Part::Word("it's"), Part::Value(_), ..]
                | [Part::Word("it"), Part::Word("is" | "was"), Part::Value(_), ..]
                | [
                    Part::Word("i" | "we"),
                    Part::Word("get" | "got" | "find" | "found"),
                    Part::Value(_),
                    ..
                ]
        )
}

/// Whether a sentence admits a mistake: "I made an error", "I miscounted", "I was wrong".
fn owns_mistake(parts: &[Part<'_>]) -> bool {
    let is_denial = |place: usize| {
        let word = word(parts, place);
        matches!(word, "not" | "never") || word.ends_with("n't")
    };
    if (0..parts.len()).any(is_denial) {
        return false;
    }
    matches!(parts, [Part::Word("i"), Part::Word("was"), Part::Word("wrong" | "mistaken"), ..])
        || parts.windows(2).any(|pair| {
        matches!(pair, [Part::Word("a" | "an"), Part::Word("mistake" | "error")])
            || matches!(pair, [Part::Word("i"), Part::Word(verb)] if verb.starts_with("mis") || has(FAULTS, verb))
    })
}

/// Whether the word at a place says that the answer is wrong.
fn denies(parts: &[Part<'_>], place: usize) -> bool {
    let this = word(parts, place);
    let before =
        |steps: usize| place.checked_sub(steps).and_then(|place| parts.get(place)).copied();
    if matches!(this, "not" | "cannot" | "never") || this.ends_with("n't") {
        let next = (place + 1..).find(|&next| !has(IN_DENIALS, word(parts, next))).unwrap_or(place);
        return match parts.get(next) {
            None | Some(Part::Break) => true,
            Some(Part::Word(predicate)) => has(DENIED_PREDICATES, predicate),
            // Another value is denied.
            Some(Part::Value(_)) => false,
        };
    }
    // "a mistake" is one if it ends its clause: "a mistake to forget" is another.
    let is_mistake = matches!(this, "mistake" | "typo" | "error")
        && matches!(before(1), Some(Part::Word("a" | "an")))
        && matches!(parts.get(place + 1), None | Some(Part::Break));
    let before = |steps: usize| before(steps + usize::from(is_mistake));
    if is_mistake || has(FALSE_PREDICATES, this) {
        let is_said = match before(1) {
            None | Some(Part::Break) => true,
            Some(Part::Word("is" | "was" | "be" | "seems" | "looks" | "'s")) => match before(2) {
                Some(Part::Word(subject)) => {
                    ABOUT_ANSWER.contains(&subject)
                        || MODALS.contains(&subject)
                        || FOUND.contains(&subject)
                }
                subject => subject.is_none(),
            },
            Some(Part::Word(subject)) => subject == "that's" || subject == "it's",
            _ => false,
        };
        return is_said;
    }
    false
}

/// Whether the word at a place begins another answer: "no, 6", "wait", "I mean 6".
fn retracts(parts: &[Part<'_>], place: usize) -> bool {
    let this = word(parts, place);
    let before = place.checked_sub(1).map(|place| parts[place]);
    let begins = matches!(before, None | Some(Part::Break))
        || matches!(before, Some(Part::Word("but" | "oh" | "no" | "actually" | "or")));
    let next = parts.get(place + 1).copied();
    match this {
        "no" => {
            begins
                && matches!(
                    next,
                    None | Some(
                        Part::Break
                            | Part::Value(_)
                            | Part::Word("wait" | "it" | "that" | "this" | "sorry")
                    )
                )
        }
        "actually" | "rather" => {
            begins
                && matches!(
                    next,
                    None | Some(Part::Value(_) | Part::Word("no" | "not" | "it" | "it's"))
                )
        }
        "mean" => before == Some(Part::Word("i")),
        "instead" => begins && next != Some(Part::Word("of")),
        _ => begins && RETRACTIONS.contains(&this),
    }
}

/// Whether a sentence begins like one about the answer before it.
fn is_about_answer(parts: &[Part<'_>]) -> bool {
    let mut rest = parts;
    while let [Part::Break, more @ ..] = rest {
        rest = more;
    }
    while let [Part::Word(opener), more @ ..] = rest
        && has(OPENERS, opener)
    {
        rest = more.strip_prefix(&[Part::Break]).unwrap_or(more);
    }
    match rest {
        [Part::Word("the"), Part::Word(subject), ..] | [Part::Word(subject), ..] => {
            SUBJECTS.contains(subject)
        }
        _ => false,
    }
}
