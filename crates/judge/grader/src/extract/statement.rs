//! Answers that a text states: "the final answer is ...", "Answer: ...", "#### ...",
//! `<answer>...</answer>`.

use super::super::equal::same_answer;
use super::super::options::Options;
use super::super::phrases::has;
use super::super::phrases::hedges::{ANOTHER, BEFORE_NAME};
use super::super::phrases::statements::{ANSWER_NAMES, FINAL, VERBS, WHY};
use super::aftermath::takes_back;
use super::boxed::before_open_box;
use super::denial::{denies_claim, denies_next, end_of, makes_operand};
use super::hedge::{is_hedged, starts_with_word};
use super::number::{first_number, last_number, leading_number};
use super::related::with_number_words;
use super::segments::{last_formula, segments};
use super::sentence::{bare_sentence, sentence, whole_answer};

/// Text that replaces an answer which is taken back, and that is no answer.
pub const TAKEN_BACK: &str = ", taken back";

/// At the start of a line it states an answer. A line that is more than an answer, with text after
/// it, is a heading.
const MARK: &str = "####";

/// The largest indent of a line, in bytes.
const MAX_INDENT: usize = 8;

/// The number of statements, from the last, that are read when the last ones say nothing.
const MAX_TRIES: usize = 8;

/// The last answer that a text states.
pub fn stated(text: &str) -> Option<String> {
    last_of(text, |lower, place| statement(lower, place).map(|(end, _)| end), answer_in)
}

/// The last answer that a text states to be the final one, in a sentence that says nothing else.
pub fn stated_as_final(text: &str) -> Option<String> {
    // The text after a heading is a section of the solution.
    let is_heading = |lower: &str, end: usize| {
        lower[..end].ends_with(MARK) && !line_and_rest(&lower[end..]).1.trim_start().is_empty()
    };
    let after = |lower: &str, place| {
        statement(lower, place)
            .filter(|(end, is_final)| *is_final && !is_heading(lower, *end))
            .map(|(end, _)| end)
    };
    last_of(text, after, |sentence| {
        whole_answer(sentence).filter(|_| !sentence.trim().ends_with('?'))
    })
}

/// The last answer for which `after`, given the text in lower case and the place of a mark, says
/// where it starts, and that `answer` finds in the sentence there.
fn last_of(
    text: &str,
    after: impl Fn(&str, usize) -> Option<usize>,
    answer: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let mut marks: Vec<usize> = Vec::new();
    for mark in ANSWER_NAMES.iter().chain(&[MARK]) {
        marks.extend(
            lower
                .rmatch_indices(mark)
                .map(|(place, _)| place)
                .filter(|&place| after(&lower, place).is_some())
                .take(MAX_TRIES),
        );
    }
    marks.sort_unstable_by(|a, b| b.cmp(a));
    let mut statements = marks.into_iter().filter_map(|place| {
        let start = after(&lower, place)?;
        if text[place..].starts_with(MARK) {
            let (line, rest) = line_and_rest(&text[start..]);
            if !rest.trim_start().is_empty() {
                whole_answer(line)?;
            }
        }
        let sentence = sentence(&text[start..]);
        // The beginning of a box that is cut off is no answer.
        let said = before_open_box(sentence);
        if said.len() < sentence.len()
            && said.trim_matches(['$', '*', '\\', '[', '(', ' ']).is_empty()
        {
            return None;
        }
        let end = sentence.as_ptr() as usize - text.as_ptr() as usize + sentence.len();
        // "The answer is 5!" is an exclamation; a factorial is "5!.".
        let is_prose = !text[place..].starts_with(MARK) && !lower[..place].ends_with('<');
        let said = match said.trim_end_matches(['*', ' ']).strip_suffix('!') {
            Some(number) if is_prose && !text[end..].starts_with('.') && is_number(number) => {
                number
            }
            _ => said,
        };
        let found = answer(said)?;
        // The next sentence takes the answer back. The words are not it either.
        let found = if takes_back(&text[end..]) { format!("{found}{TAKEN_BACK}") } else { found };
        Some((found, gives_another(&lower[..place], sentence)))
    });
    let (last, is_another) = statements.next()?;
    match if is_another { statements.next() } else { None } {
        // A check in another way states the answer a second time.
        Some((earlier, _))
            if !earlier.ends_with(TAKEN_BACK)
                && !same_answer(&earlier, &last, &Options::default()) =>
        {
            Some(format!("{earlier}, {last}"))
        }
        _ => Some(last),
    }
}

/// Whether a statement adds an answer to the one before it: "... or the answer is 5", "the answer
/// is also 5".
fn gives_another(before: &str, sentence: &str) -> bool {
    let is_word = |word: &&str| !word.is_empty();
    let before = end_of(before, MAX_CLAUSE).rsplit(['.', '?', '!']).next().unwrap_or_default();
    let mut words = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).filter(is_word);
    words.find(|word| !BEFORE_NAME.contains(word)).is_some_and(|word| has(ANOTHER, word))
        || ANOTHER.split(' ').any(|word| starts_with_word(&sentence.to_ascii_lowercase(), word))
}

/// Where the answer starts whose mark is at `place`, and whether it is said to be final; `None` if
/// nothing is stated.
fn statement(lower: &str, place: usize) -> Option<(usize, bool)> {
    let rest = &lower[place..];
    if rest.starts_with(MARK) {
        let before = end_of(&lower[..place], MAX_INDENT).trim_end_matches([' ', '*', '>']);
        return (before.is_empty() || before.ends_with('\n')).then_some((place + MARK.len(), true));
    }
    if lower[..place].ends_with('<') && rest.starts_with("answer>") {
        return Some((place + "answer>".len(), true));
    }
    let is_final = lower[..place].ends_with(FINAL);
    let after = ANSWER_NAMES.iter().find_map(|name| rest.strip_prefix(name))?;
    let skipped = after.trim_start_matches(['*', '_', ' ', '#']);
    // "So the answer to the problem is 5" has its verb a few words later.
    let verb = VERBS.iter().find_map(|verb| skipped.strip_prefix(verb));
    let skipped = match verb {
        Some(rest) if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) => rest,
        None if is_final && (skipped.starts_with('\n') || after.starts_with("**")) => skipped,
        None if skipped.starts_with('\n') && is_heading(&lower[..place]) => skipped,
        _ => return None,
    };
    // Comes last, since it looks back.
    let before = end_of(&lower[..place], MAX_CLAUSE);
    let clause = &before[before.rfind(['.', ',', '\n']).map_or(0, |end| end + 1)..];
    let end = lower.len() - skipped.len();
    let until = lower[..end].trim_end_matches(|c: char| c.is_whitespace() || "*:=_".contains(c));
    if denies_claim(clause) || denies_next(before) || denies_next(until) {
        return None;
    }
    Some((end, is_final))
}

/// Whether a text is a number in digits, perhaps in bold.
fn is_number(text: &str) -> bool {
    let text = text.trim_start_matches(['*', ' ']);
    leading_number(text) == Some(text.len())
}

/// The line that a text starts with, and what follows it.
fn line_and_rest(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// The longest distance from a clause to the statement that it denies, in bytes.
const MAX_CLAUSE: usize = 200;

/// Whether a line that starts with no more than marks of a heading ends here.
fn is_heading(before: &str) -> bool {
    let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    line.starts_with(['#', '*']) && line.trim_matches(['#', '*', ' ']).is_empty()
}

/// The answer in a sentence: all of it, the formula or number that it starts with, or the last
/// formula or number.
pub fn answer_in(sentence: &str) -> Option<String> {
    let whole = whole_answer(sentence);
    let sentence = bare_sentence(sentence);
    if let Some(whole) = whole {
        return Some(whole);
    }
    if sentence.ends_with('?') {
        return Some(sentence.into());
    }
    // "Yes, because $f$ is continuous."
    if let Some(words) = WHY.iter().find_map(|why| sentence.split_once(why)).map(|(words, _)| words)
        && words.split_whitespace().count() <= 2
        && words.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | ',' | '*'))
    {
        return Some(words.trim_matches([' ', ',', '*']).into());
    }
    if is_hedged(sentence) {
        return Some(sentence.into());
    }
    let formulas = segments(sentence);
    let found = if let Some(first) = formulas.first().filter(|first| first.start == 0) {
        (first.content, first.end)
    } else if let Some(end) = first_number(sentence) {
        ((0, end), end)
    } else if let Some((start, end)) =
        last_number_outside(sentence, formulas.last().map_or(0, |last| last.end))
    {
        if makes_operand(&sentence[..start]) {
            return Some(sentence.into());
        }
        ((start, end), end)
    } else if let Some(last) = last_formula(sentence, &formulas) {
        (last.content, last.end)
    } else {
        return (sentence.split_whitespace().count() <= 2).then(|| sentence.into());
    };
    let ((start, end), after) = found;
    Some(if takes_back(&sentence[after..]) {
        sentence.into()
    } else {
        with_number_words(&sentence[start..end], &sentence[after..])
    })
}

/// The last number after a place, or the tuple or interval that it is the end of.
pub fn last_number_outside(text: &str, from: usize) -> Option<(usize, usize)> {
    let (start, end) = last_number(&text[from..]).map(|(start, end)| (from + start, from + end))?;
    Some(brackets_around(text, from, (start, end)).unwrap_or((start, end)))
}

/// The brackets that end after a number, if there are only numbers between them: (1, 2), [0, 3).
fn brackets_around(
    text: &str,
    from: usize,
    (start, end): (usize, usize),
) -> Option<(usize, usize)> {
    let close = end + text[end..].find(|c: char| c != ' ')?;
    let open = from + text[from..start].rfind(['(', '[', ')', ']'])?;
    let is_closed = text[close..].starts_with([')', ']']) && text[open..].starts_with(['(', '[']);
    let content = text.get(open + 1..close)?;
    // f(1, 2) is no point, and (see 3, 4) neither.
    let is_of_name = text[..open].ends_with(|c: char| c.is_alphanumeric());
    (is_closed && !is_of_name && content.contains(',') && !content.contains(char::is_alphabetic))
        .then_some((open, close + 1))
}
