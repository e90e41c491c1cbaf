//! Parses lists, sets, intervals and tuples: all answers that are neither an expression nor a
//! relation.

use std::borrow::Cow;

use super::super::answer::{Answer, Brackets, Domain, Quantity, Unit};
use super::super::expression::Expression;
use super::super::latex::Kind::{
    And, Begin, Command, End, Letter, Mark, Number, Or, Row, Upright, Word,
};
use super::super::latex::{Kind, Token};
use super::super::number_kind::NumberKind;
use super::super::phrases::statements::TO;
use super::super::relation::Relation;
use super::chain::relation;
use super::domain::{bracketed_clause, clauses, kind, split_domains};
use super::expression::Parser;
use super::names::name_several;
use super::sets::{ends_in_set, names_reals, number_set};
use super::slices::{between, is_enclosed, places, split};
use super::value::Value;
use super::words::{
    is_discarded, is_radian, is_unit, trimmed, without_condition, without_degree, without_label,
    without_noun, without_remark, without_unit_fraction,
};
use super::{Context, Unreadable};

/// Most ± of one answer: each doubles the work.
const MAX_SIGNS: usize = 3;

/// Tokens with "or" for each \lor between equations and inequalities. Between statements it is an
/// operation.
fn with_or<'t, 'a>(tokens: &'t [Token<'a>]) -> Cow<'t, [Token<'a>]> {
    let is_or = |kind: Kind<'_>| matches!(kind, Command("lor" | "vee"));
    let compares = |kind: Kind<'_>| {
        relation(kind).is_some_and(|relation| !matches!(relation, Relation::Named(_)))
    };
    let ors = places(tokens, |_, kind| is_or(kind));
    let parts = between(tokens, &ors);
    if ors.is_empty() || parts.iter().any(|part| places(part, |_, kind| compares(kind)).is_empty())
    {
        return Cow::Borrowed(tokens);
    }
    let mut tokens = tokens.to_vec();
    ors.into_iter().for_each(|place| tokens[place].kind = Or);
    Cow::Owned(tokens)
}

impl Context {
    /// One or more answers.
    pub fn answer(&mut self, tokens: &[Token<'_>]) -> Result<Answer, Unreadable> {
        self.deeper(|context| {
            let tokens = trimmed(tokens);
            if is_enclosed(tokens) && tokens[0].kind == Mark('{') {
                let content = &tokens[1..tokens.len() - 1];
                return if context.braces_enclose_sets {
                    context.set(content)
                } else {
                    context.answer(content)
                };
            }
            if let [Token { kind: Begin(name), .. }, content @ .., Token { kind: End(_), .. }] =
                tokens
                && is_enclosed(tokens)
                && is_layout(name)
            {
                let content: Vec<_> =
                    content.iter().filter(|t| t.kind != Mark('&')).copied().collect();
                return context.answer(&content);
            }
            let (answers, domains) = context.items(tokens)?;
            Ok(restricted(Answer::from_list(answers), domains))
        })
    }

    /// Parses the answers between separators, at least one, with their domains.
    fn items(&mut self, tokens: &[Token<'_>]) -> Result<(Vec<Answer>, Vec<Domain>), Unreadable> {
        let tokens = &with_or(tokens)[..];
        // In "p = 5, q = 2; p = 7, q = 2" semicolons separate lists.
        let groups = split(tokens, |kind| kind == Mark(';'));
        let has_lists = groups.iter().any(|group| split(group, |kind| kind == Mark(',')).len() > 1);
        if groups.len() > 1 && has_lists {
            let lists = groups.iter().map(|group| self.answer(group)).collect::<Result<_, _>>()?;
            return Ok((lists, Vec::new()));
        }
        let clauses = clauses(tokens);
        let places = places(tokens, |place, kind| {
            matches!(kind, Mark(',' | ';') | And | Or | Row) || clauses.contains(&place)
        });
        let slices = between(tokens, &places);
        let is_conjunction = |place: usize| matches!(tokens[place].kind, And | Or);
        // In "2 (extraneous), 5" the answer is 5.
        let remains = slices.iter().any(|slice| !slice.is_empty() && !is_discarded(slice));
        let answers_too = slices.iter().any(|slice| !slice.is_empty() && kind(slice).is_none());
        let mut answers = Vec::with_capacity(slices.len());
        let mut domains = Vec::new();
        for (index, slice) in slices.iter().enumerate() {
            let before = index.checked_sub(1).map(|index| places[index]);
            // In "1, 2, and 3" two separators follow each other.
            let follows_comma = before.is_some_and(|place| !is_conjunction(place));
            let next = places.get(index).copied();
            let precedes_word =
                next.is_some_and(|next| is_conjunction(next) || clauses.contains(&next));
            if slice.is_empty() && follows_comma && precedes_word {
                continue;
            }
            if remains && is_discarded(slice) {
                continue;
            }
            if before.is_some_and(|place| clauses.contains(&place))
                || answers_too && kind(slice).is_some()
            {
                domains.extend(self.domain(slice)?);
                continue;
            }
            let slice = match bracketed_clause(slice) {
                Some((value, clause)) => {
                    domains.extend(self.domain(clause)?);
                    value
                }
                None => slice,
            };
            self.item(slice, &mut answers)?;
        }
        let (answers, conditions) = split_domains(answers);
        domains.extend(conditions);
        // "x = 1 or y = 2" does not give values to both names.
        let has_or = places.iter().any(|&place| tokens[place].kind == Or);
        // "x < 1 or x > 2" is a union; "x < 1, x > 2" may be one too.
        if has_or && answers.len() > 1 && answers.iter().all(is_bound) {
            return Ok((vec![Answer::Union(answers)], domains));
        }
        Ok((
            if has_or && name_several(&answers) { vec![Answer::Set(answers)] } else { answers },
            domains,
        ))
    }

    /// Parses one answer, or with ± one for each choice of signs.
    fn item(&mut self, tokens: &[Token<'_>], answers: &mut Vec<Answer>) -> Result<(), Unreadable> {
        let tokens = trimmed(without_condition(tokens));
        let signs = signs(tokens);
        if signs > MAX_SIGNS {
            return Err(Unreadable::NotMath);
        }
        if signs > 0 {
            let symbols = tokens.len() << signs;
            self.signed = self.signed.checked_sub(symbols).ok_or(Unreadable::TooManySigns)?;
        }
        let outer = (self.signs, self.signs_seen);
        for choice in 0..1 << signs {
            (self.signs, self.signs_seen) = (choice, 0);
            let answer = self.deeper(|context| context.chain(tokens))?;
            answers.extend(answer.into_list());
        }
        (self.signs, self.signs_seen) = outer;
        Ok(())
    }

    /// Parses one side of a relation.
    pub(super) fn side(&mut self, tokens: &[Token<'_>]) -> Result<Answer, Unreadable> {
        let tokens = without_noun(trimmed(tokens));
        match tokens {
            [Token { kind: Number(_) | Letter(_), .. }] => {
                return self.quantity(tokens);
            }
            // The points of `\text{A, B and C}`.
            [Token { kind: Upright(letter), .. }]
                if letter.len() == 1 && letter.starts_with(|c: char| c.is_ascii_uppercase()) =>
            {
                return Ok(Answer::plain(Expression::symbol(letter)));
            }
            _ => {}
        }
        let unions = places(tokens, |place, kind| {
            matches!(kind, Command("cup" | "bigcup")) || is_letter_union(tokens, place)
        });
        if !unions.is_empty() {
            return Ok(Answer::Union(self.sides(&between(tokens, &unions))?));
        }
        let intersections = split(tokens, |kind| kind == Command("cap"));
        if intersections.len() > 1 {
            return Ok(Answer::Intersection(self.sides(&intersections)?));
        }
        // `\mathbb{R} - \{0\}` is a difference of sets too.
        let is_minus = names_reals(tokens) && ends_in_set(tokens);
        let difference = split(tokens, |kind| {
            matches!(kind, Command("setminus" | "backslash")) || is_minus && kind == Mark('-')
        });
        if let [of, without] = difference[..] {
            return Ok(Answer::Difference(Box::new((self.side(of)?, self.side(without)?))));
        }
        if let Some(answer) = self.enclosed(tokens)? {
            return Ok(answer);
        }
        let parts = split(tokens, |kind| {
            matches!(kind, Mark(':') | Command("colon") | Upright(TO) | Word(TO))
        });
        if parts.len() > 1 {
            let quantity = |part: &&[Token<'_>]| match self.quantity(trimmed(part))? {
                Answer::Quantity(quantity) => Ok(quantity),
                _ => Err(Unreadable::NotMath),
            };
            return Ok(Answer::Ratio(parts.iter().map(quantity).collect::<Result<_, _>>()?));
        }
        self.quantity(tokens)
    }

    fn sides(&mut self, slices: &[&[Token<'_>]]) -> Result<Vec<Answer>, Unreadable> {
        slices.iter().map(|slice| self.deeper(|context| context.side(slice))).collect()
    }

    /// Reads a set, a sequence or a group as a whole.
    fn enclosed(&mut self, tokens: &[Token<'_>]) -> Result<Option<Answer>, Unreadable> {
        if let [Token { kind: Command("emptyset" | "varnothing"), .. }] = tokens {
            return Ok(Some(Answer::Set(Vec::new())));
        }
        if let Some(set) = number_set(tokens) {
            return Ok(Some(set));
        }
        if !is_enclosed(tokens) {
            return Ok(None);
        }
        let content = trimmed(&tokens[1..tokens.len() - 1]);
        let brackets = match (tokens[0].kind, tokens[tokens.len() - 1].kind) {
            (Command("lbrace"), Command("rbrace")) => {
                return self.set(content).map(Some);
            }
            (Mark('{'), Mark('}')) if self.braces_enclose_sets => {
                return self.set(content).map(Some);
            }
            (Mark('{'), Mark('}')) => return self.answer(content).map(Some),
            (Command("langle"), Command("rangle")) => Brackets::ROUND,
            (Mark(open @ ('(' | '[')), Mark(close @ (')' | ']'))) => {
                Brackets { closed_left: open == '[', closed_right: close == ']' }
            }
            _ => return Ok(None),
        };
        let parts = split(content, |kind| matches!(kind, Mark(',' | ';')));
        if parts.len() > 1 {
            let part = |part: &&[Token<'_>]| self.deeper(|context| context.chain(trimmed(part)));
            return Ok(Some(Answer::Sequence(
                brackets,
                parts.iter().map(part).collect::<Result<_, _>>()?,
            )));
        }
        // Brackets around one thing only group it; brackets in a product belong to the expression.
        self.deeper(|context| context.chain(content)).map(Some)
    }

    /// Reads the content of a set's braces.
    fn set(&mut self, content: &[Token<'_>]) -> Result<Answer, Unreadable> {
        if content.is_empty() {
            return Ok(Answer::Set(Vec::new()));
        }
        let is_such_that = |kind: Kind<'_>| matches!(kind, Command("mid") | Mark('|' | ':'));
        let places = places(content, |_, kind| is_such_that(kind));
        if let [place] = places[..] {
            let (of, condition) = (&content[..place], &content[place + 1..]);
            let relates = split(condition, |kind| relation(kind).is_some()).len() > 1;
            match (of, kind(of)) {
                // {x | x > 3} is its condition, also where x is said to be real.
                ([Token { kind: Letter(_), .. }], None) if relates => {
                    return self.answer(condition);
                }
                (_, Some((_, NumberKind::REAL))) if relates => {
                    return self.answer(condition);
                }
                (_, Some((name, kind))) if relates => {
                    let condition = self.answer(condition)?;
                    return Ok(restricted(
                        condition,
                        vec![Domain::Kind(name.to_string().into(), kind)],
                    ));
                }
                _ if relates || kind(condition).is_some() => {
                    let of = Answer::Set(self.items(of)?.0);
                    let parts = split(condition, |kind| kind == Mark(','));
                    let domains = parts
                        .iter()
                        .map(|part| self.domain(part))
                        .collect::<Result<Vec<_>, _>>()?;
                    return Ok(restricted(of, domains.concat()));
                }
                _ => {}
            }
        }
        let (items, domains) = self.items(content)?;
        Ok(restricted(Answer::Set(items), domains))
    }

    /// Parses an expression with its unit, or a matrix.
    fn quantity(&mut self, tokens: &[Token<'_>]) -> Result<Answer, Unreadable> {
        let tokens = without_unit_fraction(without_remark(trimmed(without_label(tokens))));
        if let Some(based) = self.based(tokens) {
            return Ok(Answer::Quantity(based));
        }
        let (tokens, degrees) = without_degree(tokens);
        let mut parser = Parser::new(tokens, self);
        let value = parser.formula()?;
        let rest = parser.rest();
        let percent = rest.first().is_some_and(|token| token.kind == Mark('%'));
        // Words go with numbers; after letters they are prose.
        let ends_in_letter = matches!(
            tokens[..tokens.len() - rest.len()].last(),
            Some(Token { kind: Letter(_), .. })
        );
        if ends_in_letter && matches!(rest.first(), Some(Token { kind: Word(_), .. })) {
            return Err(Unreadable::NotMath);
        }
        if !is_unit(&rest[usize::from(percent)..]) {
            return Err(Unreadable::NotMath);
        }
        let unit = if degrees {
            Unit::Degree
        } else if is_radian(rest) {
            Unit::Radian
        } else if percent {
            Unit::Percent
        } else {
            Unit::None
        };
        Ok(match value {
            Value::Scalar(expression) => Answer::Quantity(Quantity { expression, unit }),
            Value::Matrix(matrix) => Answer::Matrix(matrix),
        })
    }
}

/// Whether an environment is only layout.
fn is_layout(name: &str) -> bool {
    matches!(
        name,
        "aligned"
            | "align"
            | "gathered"
            | "gather"
            | "split"
            | "equation"
            | "cases"
            | "displaymath"
    )
}

/// An answer with its domains, if there are any.
fn restricted(answer: Answer, domains: Vec<Domain>) -> Answer {
    if domains.is_empty() { answer } else { Answer::For(Box::new(answer), domains) }
}

/// Whether an answer is a chain of comparisons.
fn is_bound(answer: &Answer) -> bool {
    matches!(answer, Answer::Chain(_, relations) if relations.iter().all(|relation| relation.is_order()))
}

/// Whether the letter U stands for a union, as in (1,2)U(3,4).
fn is_letter_union(tokens: &[Token<'_>], place: usize) -> bool {
    let neighbour =
        |place: Option<usize>| place.and_then(|place| tokens.get(place)).map(|token| token.kind);
    tokens[place].kind == Letter('U')
        && matches!(
            neighbour(place.checked_sub(1)),
            Some(Mark(')' | ']' | '}') | Command("rbrace"))
        )
        && matches!(
            neighbour(place.checked_add(1)),
            Some(Mark('(' | '[' | '{') | Command("lbrace"))
        )
}

/// The number of ± in an item, without those in the braces of sets.
fn signs(tokens: &[Token<'_>]) -> usize {
    let mut sets = 0usize;
    let mut signs = 0;
    for token in tokens {
        match token.kind {
            Command("lbrace") => sets += 1,
            Command("rbrace") => sets = sets.saturating_sub(1),
            Command("pm") if sets == 0 => signs += 1,
            _ => {}
        }
    }
    signs
}
