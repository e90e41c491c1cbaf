//! Parses the domain of an answer: `k \in \mathbb{Z}`, "where n is odd", `for n \ge 1`.

use super::super::answer::{Answer, Domain};
use super::super::expression::Expression;
use super::super::latex::Kind::{And, Command, Letter, Mark, Or, Row, Upright, Word};
use super::super::latex::Token;
use super::super::number_kind::NumberKind;
use super::super::phrases::has;
use super::super::phrases::statements::{CLAUSE_WORDS, KIND_FILLERS, ONLY};
use super::super::relation::Relation;
use super::chain::relation;
use super::slices::{opening, places, text};
use super::words::trimmed;
use super::{Context, Unreadable};

/// The places of words that begin a clause with the domain of the answer before it: "for" in `2n
/// for n \ge 1`.
pub fn clauses(tokens: &[Token<'_>]) -> Vec<usize> {
    let word = |token: &Token<'_>| match token.kind {
        Word(word) | Upright(word) => CLAUSE_WORDS.contains(&word),
        kind => kind == Command("forall"),
    };
    // "5 only for n = 3" is no answer for all n.
    let is_limit = |token: &Token<'_>| matches!(token.kind, Word(ONLY) | Upright(ONLY));
    let words = places(tokens, |place, _| {
        place > 0 && word(&tokens[place]) && !is_limit(&tokens[place - 1])
    });
    let says_domain = |place: &usize| {
        let clause = &tokens[place + 1..];
        let ends = places(clause, |_, kind| matches!(kind, Mark(',' | ';') | And | Or | Row));
        is_domain(&clause[..ends.first().copied().unwrap_or(clause.len())])
    };
    words.into_iter().filter(says_domain).collect()
}

/// The answer and the clause in brackets after it: `k\pi \ (k \in \mathbb{Z})`.
pub fn bracketed_clause<'t, 'a>(
    tokens: &'t [Token<'a>],
) -> Option<(&'t [Token<'a>], &'t [Token<'a>])> {
    let [.., Token { kind: Mark(')'), .. }] = tokens else { return None };
    let open = opening(tokens).filter(|&place| place > 0)?;
    let clause = &tokens[open + 1..tokens.len() - 1];
    is_domain(clause).then_some((&tokens[..open], clause))
}

/// Whether tokens have a relation, or give the kind of a name.
fn is_domain(tokens: &[Token<'_>]) -> bool {
    !places(tokens, |_, kind| relation(kind).is_some()).is_empty() || kind(tokens).is_some()
}

/// The name and the kind of numbers that it stands for.
pub fn kind(tokens: &[Token<'_>]) -> Option<(char, NumberKind)> {
    let tokens = without_fillers(trimmed(tokens));
    if let [Token { kind: Letter(name), .. }, Token { kind: Command("in"), .. }, set @ ..] = tokens
    {
        return Some((*name, of_symbol(set)?));
    }
    let mut name = None;
    let mut words = Vec::new();
    for token in tokens {
        match token.kind {
            // "a" between words is an article.
            Letter('a') if !words.is_empty() || name.is_some() => {}
            Letter(letter) if name.is_none() => name = Some(letter),
            Upright(word) if word.len() == 1 && word != "a" && name.is_none() => {
                name = word.chars().next();
            }
            Word(word) | Upright(word) => {
                let word = word.to_ascii_lowercase();
                if !has(KIND_FILLERS, &word) {
                    words.push(word);
                }
            }
            Mark('-') => {}
            _ => return None,
        }
    }
    let words =
        words.join(" ").replace("non negative", "nonnegative").replace("non zero", "nonzero");
    Some((name?, NumberKind::of_words(&words)?))
}

/// Tokens without the words at their start that add nothing: "all x > 0".
fn without_fillers<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let is_filler = |token: &&Token<'_>| match token.kind {
        Word(word) | Upright(word) => has(KIND_FILLERS, word),
        _ => false,
    };
    &tokens[tokens.iter().take_while(is_filler).count()..]
}

/// The kind of numbers that a set's symbol stands for.
fn of_symbol(tokens: &[Token<'_>]) -> Option<NumberKind> {
    let tokens = match tokens {
        [Token { kind: Command("mathbb"), .. }, rest @ ..] => rest,
        rest => rest,
    };
    let (letter, mark) = match tokens {
        [
            Token { kind: Mark('{'), .. },
            Token { kind: Letter(letter), .. },
            Token { kind: Mark('}'), .. },
            mark @ ..,
        ] => (letter, mark),
        [Token { kind: Letter(letter), .. }, mark @ ..] => (letter, mark),
        _ => return None,
    };
    NumberKind::of_symbol(*letter, &text(mark).replace(['{', '}'], ""))
}

impl Context {
    /// Reads a clause.
    pub fn domain(&mut self, tokens: &[Token<'_>]) -> Result<Vec<Domain>, Unreadable> {
        if let Some((name, kind)) = kind(tokens) {
            return Ok(vec![Domain::Kind(name.to_string().into(), kind)]);
        }
        let condition = self.deeper(|context| context.chain(trimmed(without_fillers(tokens))))?;
        Ok(vec![Domain::Condition(condition)])
    }
}

/// Splits answers into answers proper and domains of them: `n \ge 1` in `2n, n \ge 1`.
pub fn split_domains(answers: Vec<Answer>) -> (Vec<Answer>, Vec<Domain>) {
    if answers.len() < 2 {
        return (answers, Vec::new());
    }
    let names: Vec<Option<Box<str>>> = answers.iter().map(bounded_name).collect();
    let has_formula = |name: &str| {
        answers
            .iter()
            .zip(&names)
            .any(|(answer, bounded)| bounded.is_none() && is_about(answer, name))
    };
    let restricts: Vec<bool> =
        names.iter().map(|name| name.as_ref().is_some_and(|name| has_formula(name))).collect();
    let (mut kept, mut domains) = (Vec::new(), Vec::new());
    for (answer, restricts) in answers.into_iter().zip(restricts) {
        if restricts { domains.push(Domain::Condition(answer)) } else { kept.push(answer) }
    }
    (kept, domains)
}

/// The variable that an inequality bounds by numbers.
fn bounded_name(answer: &Answer) -> Option<Box<str>> {
    let Answer::Chain(sides, relations) = answer else { return None };
    if !relations.iter().all(|relation| relation.is_order() || *relation == Relation::NotEqual) {
        return None;
    }
    sides.iter().find_map(|side| match side.expression() {
        Some(Expression::Symbol(name)) => Some(name.clone()),
        _ => None,
    })
}

/// Whether an answer has a name in it, and is more than an equation for the name.
fn is_about(answer: &Answer, name: &str) -> bool {
    match answer {
        Answer::Quantity(quantity) => quantity.expression.mentions(name),
        Answer::Chain(sides, relations) => {
            let defines = relations.first() == Some(&Relation::Equal)
                && sides[0].expression() == Some(&Expression::symbol(name));
            !defines && sides.iter().any(|side| is_about(side, name))
        }
        Answer::Sequence(_, items) | Answer::Set(items) | Answer::List(items) => {
            items.iter().any(|item| is_about(item, name))
        }
        _ => false,
    }
}
