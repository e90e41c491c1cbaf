//! Sides with relations between them.

use super::super::answer::Answer;
use super::super::expression::Expression;
use super::super::latex::Kind::{Command, Mark};
use super::super::latex::{Kind, Token};
use super::super::relation::{Named, Relation};
use super::figures::without_order;
use super::slices::{places, split, text};
use super::words::{is_name, label_end};
use super::{Context, Unreadable};

impl Context {
    /// Parses a side, or several with relations between them.
    pub(super) fn chain(&mut self, tokens: &[Token<'_>]) -> Result<Answer, Unreadable> {
        // A conclusion from equations counts; an implication between statements is a relation.
        let concluded = split(tokens, |kind| kind == Command("therefore") || is_implication(kind));
        let relates = |part: &&[Token<'_>]| {
            !places(part, |_, kind| relation(kind).is_some_and(|_| !is_implication(kind)))
                .is_empty()
        };
        let tokens = match concluded[..] {
            [ref before @ .., last] if before.iter().any(relates) => last,
            _ => tokens,
        };
        // A bar that no other one closes is a relation: 3 | n, AB \| CD.
        let is_bar = |kind: Kind<'_>| matches!(kind, Mark('|') | Command("Vert"));
        let bars = places(tokens, |_, kind| is_bar(kind));
        let mut places = places(tokens, |place, kind| {
            relation(kind).is_some() || bars == [place] && place > 0 && place + 1 < tokens.len()
        });
        // `\not` belongs to the relation after it.
        let negated = |place: usize| place > 0 && tokens[place - 1].kind == Command("not");
        if places.first() == Some(&0)
            && relation(tokens[0].kind)
                .is_some_and(|r| matches!(r, Relation::Equal | Relation::Approximate))
        {
            return self.deeper(|context| context.chain(&tokens[1..]));
        }
        if tokens.first().is_some_and(|first| is_implication(first.kind)) {
            return self.deeper(|context| context.chain(&tokens[1..]));
        }
        if let Some(end) = label_end(tokens) {
            let name = Answer::plain(Expression::Symbol(text(&tokens[..end]).into()));
            let value = self.deeper(|context| context.chain(&tokens[end + 1..]))?;
            return Ok(match value {
                value @ Answer::Chain(..) => value,
                value => Answer::Chain(vec![name, value], vec![Relation::Equal]),
            });
        }
        if places.is_empty() {
            return self.side(tokens).map(without_order);
        }
        let relation_at = |place: usize| {
            let name = if tokens[place].kind == Mark('|') { "mid" } else { "parallel" };
            let bar = Relation::Named(Named { name, turned: false, negated: false });
            let relation = relation(tokens[place].kind).unwrap_or(bar);
            if negated(place) { relation.negated() } else { relation }
        };
        let relations: Vec<_> = places.iter().map(|&place| relation_at(place)).collect();
        let relate_lines = relations.iter().all(|relation| relation.is_of_lines());
        let mut sides = Vec::with_capacity(places.len() + 1);
        places.push(tokens.len());
        let mut start = 0;
        for &place in &places {
            let end = if place < tokens.len() && negated(place) { place - 1 } else { place };
            let side = &tokens[start..end.max(start)];
            let bare: Vec<_> = side
                .iter()
                .filter(|token| !(relate_lines && is_line(token.kind)))
                .copied()
                .collect();
            let side = &bare[..];
            let side = match self.deeper(|context| context.side(side)) {
                // P(\text{red}) = 3.
                Err(Unreadable::NotMath)
                    if start == 0 && relations[0] == Relation::Equal && is_name(side) =>
                {
                    Answer::plain(Expression::symbol(&text(side)))
                }
                side => side?,
            };
            let keeps_order = relations.iter().any(|relation| relation.orders_corners());
            sides.push(if keeps_order { side } else { without_order(side) });
            start = place + 1;
        }
        Ok(Answer::Chain(sides, relations))
    }
}

pub(super) fn relation(kind: Kind<'_>) -> Option<Relation> {
    match kind {
        Mark('=') => Some(Relation::Equal),
        Mark('<') => Some(Relation::Less),
        Mark('>') => Some(Relation::Greater),
        Command(name) => Relation::of_command(name),
        _ => None,
    }
}

/// Whether a token says that one statement follows from another.
fn is_implication(kind: Kind<'_>) -> bool {
    matches!(
        relation(kind),
        Some(Relation::Named(Named { name: "implies" | "iff", turned: false, .. }))
    )
}

/// Whether a command says that two points name a line, a ray or a segment.
fn is_line(kind: Kind<'_>) -> bool {
    matches!(kind, Command("overline" | "overleftrightarrow" | "overrightarrow"))
}
