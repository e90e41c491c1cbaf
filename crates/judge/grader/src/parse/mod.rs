//! Parses tokens into the tree of an answer.

mod answer;
mod chain;
mod domain;
mod environment;
mod expression;
mod figures;
mod function;
mod matrices;
mod names;
mod number;
mod sets;
mod slices;
mod symbol;
mod value;
mod words;

use super::answer::Answer;
use super::latex::{Commas, TooLong, plain, tokenise};
use matrices::{Copies, MAX_COPIES};

pub use number::integer;

/// Commands for vectors.
const VECTORS: [&str; 6] =
    ["\\vec", "\\overrightarrow", "\\mathbf", "\\boldsymbol", "\\bm", "\\hat"];

/// Deepest nesting of an answer.
const MAX_DEPTH: usize = 60;

/// Most symbols that one parse reads for all choices of signs of ±. The ± inside a set are read
/// again for each choice outside it.
const MAX_SIGNED: usize = 100_000;

/// Why a text is no mathematics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Too many tokens.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// Too many brackets within each other.
    #[error("is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A matrix is multiplied by a formula that is too long to be copied to each entry.
    #[error("has matrices whose arithmetic is longer than {MAX_COPIES} terms when written out")]
    TooManyCopies,
    /// Sets with ± within others are too long for all choices of signs.
    #[error(
        "has ± within others, which are longer than {MAX_SIGNED} symbols when all are written out"
    )]
    TooManySigns,
    /// The text is words, or its parts do not fit together.
    #[error("is not a formula")]
    NotMath,
}

/// How ambiguous notation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    /// The meaning of commas between digits.
    pub commas: Commas,
    /// Whether a logarithm without a base is to the base ten rather than natural.
    pub decimal_logarithm: bool,
}

/// State of one pass over the tokens.
#[derive(Debug)]
struct Context {
    convention: Convention,
    /// For each ± of the item in turn, whether it is a minus.
    signs: u32,
    /// The number of ± so far.
    signs_seen: u32,
    /// The number of symbols that may still be read for choices of signs.
    signed: usize,
    depth: usize,
    /// Whether there was a logarithm without a base.
    plain_logarithm: bool,
    /// Whether braces make sets. They do in plain text; in LaTeX they group.
    braces_enclose_sets: bool,
    /// Whether there are vectors, whose product `\\times` does not commute.
    has_vectors: bool,
    /// Copies that matrices' arithmetic may still make.
    copies: Copies,
}

impl Context {
    /// Runs what is one level deeper.
    fn deeper<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        if self.depth == MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }
}

/// Result of [`parse`].
#[derive(Debug)]
pub struct ParsedAnswer {
    pub answer: Answer,
    /// Whether [`Convention::decimal_logarithm`] makes a difference.
    pub plain_logarithm: bool,
}

/// Reads a text as mathematics.
pub fn parse(source: &str, convention: Convention) -> Result<ParsedAnswer, Unreadable> {
    let source = plain(source);
    let tokens = tokenise(&source, convention.commas)?;
    let mut context = Context {
        convention,
        signs: 0,
        signs_seen: 0,
        signed: MAX_SIGNED,
        depth: 0,
        plain_logarithm: false,
        braces_enclose_sets: !source.contains(['\\', '^', '_']) && has_nested_braces(&source),
        has_vectors: VECTORS.iter().any(|command| source.contains(command)),
        copies: Copies::default(),
    };
    let answer = context.answer(&tokens)?;
    Ok(ParsedAnswer { answer, plain_logarithm: context.plain_logarithm })
}

/// Whether braces are within braces. Such braces make sets, even if others only group.
fn has_nested_braces(source: &str) -> bool {
    let mut depth = 0u32;
    source.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > 1
    })
}
