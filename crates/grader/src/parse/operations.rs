//! Operations on what are no numbers: statements, functions, sets with a sum. Of these nothing is known but whether they
//! commute.

use super::super::expression::Expression;
use super::super::latex::{Kind, Token};
use super::Unreadable;
use super::expression::Parser;
use super::slices::{between, places};
use super::value::Value;

/// An operation that is written between its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it is called, of several spellings always the same one.
    name: &'static str,
    /// Whether its operands may change places.
    commutes: bool,
}

/// Each operation's spellings, those that bind least first, and whether it commutes.
const OPERATIONS: &[(&[&str], bool)] = &[
    (&["lor", "vee", "bigvee"], true),
    (&["land", "wedge", "bigwedge"], true),
    (&["oplus", "veebar", "bigoplus"], true),
    (&["ominus"], false),
    (&["otimes"], false),
    (&["odot", "star", "diamond", "bullet"], false),
    (&["circ"], false),
];

/// The operation that a command is.
pub fn operation(command: &str) -> Option<Operation> {
    let (spellings, commutes) = OPERATIONS.iter().find(|(spellings, _)| spellings.contains(&command))?;
    Some(Operation { name: spellings[0], commutes: *commutes })
}

impl<'t, 'a> Parser<'t, 'a, '_> {
    /// The value of tokens with an operation outside all brackets.
    pub(super) fn operated(&mut self, tokens: &'t [Token<'a>]) -> Result<Option<Value>, Unreadable> {
        let at = |place: usize, kind: Kind<'_>| match kind {
            Kind::Command(name) => operation(name).filter(|_| joins(tokens, place)),
            _ => None,
        };
        let found = places(tokens, |place, kind| at(place, kind).is_some());
        let Some(outer) = OPERATIONS.iter().find_map(|(spellings, _)| {
            found
                .iter()
                .filter_map(|&place| at(place, tokens[place].kind))
                .find(|found| found.name == spellings[0])
        }) else {
            return Ok(None);
        };
        let places: Vec<usize> =
            found.into_iter().filter(|&place| at(place, tokens[place].kind) == Some(outer)).collect();
        let mut operands = self.place_deeper(|parser| {
            between(tokens, &places)
                .iter()
                .map(|part| parser.content(part)?.scalar())
                .collect::<Result<Vec<_>, _>>()
        })?;
        if outer.commutes {
            operands.sort_by_cached_key(|operand| format!("{operand:?}"));
        }
        Ok(Some(Value::Scalar(Expression::Unknown(outer.name.into(), operands))))
    }
}

/// Whether the operation at a place has operands on both sides: the sign of degrees has not.
fn joins(tokens: &[Token<'_>], place: usize) -> bool {
    let is_script = matches!(
        tokens[..place].last().map(|token| token.kind),
        None | Some(Kind::Mark('^' | '_' | '{' | '(') | Kind::Number(_))
    );
    !is_script && place + 1 < tokens.len()
}
