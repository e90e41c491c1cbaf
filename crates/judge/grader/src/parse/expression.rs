//! Sums, products and powers.

use super::super::expression::{Constant, Expression, Function};
use super::super::latex::Kind::{Begin, Command, Letter, Mark, Number, Upright, Word};
use super::super::latex::{Kind, Token};
use super::super::phrases::units::ORDINALS;
use super::matrices::Copies;
use super::slices::{closing, split};
use super::value::{Value, divided, negated, plus, times};
use super::{Context, Unreadable};

/// A parser of one formula. It stops before tokens that belong to no formula; [`Parser::rest`]
/// returns them.
pub struct Parser<'t, 'a, 'c> {
    pub(super) tokens: &'t [Token<'a>],
    pub(super) place: usize,
    /// The rest of the number at `place`, if its first digits were taken.
    pub(super) digits: Option<&'a str>,
    pub(super) context: &'c mut Context,
}

impl<'t, 'a, 'c> Parser<'t, 'a, 'c> {
    /// A reader at the start of tokens.
    pub fn new(tokens: &'t [Token<'a>], context: &'c mut Context) -> Self {
        Self { tokens, place: 0, digits: None, context }
    }

    /// The tokens not read.
    pub fn rest(&self) -> &'t [Token<'a>] {
        &self.tokens[self.place..]
    }

    pub(super) fn peek(&self) -> Option<Kind<'a>> {
        match self.digits {
            Some(digits) => Some(Number(digits)),
            None => self.tokens.get(self.place).map(|token| token.kind),
        }
    }

    /// Passes the next token.
    pub(super) fn advance(&mut self) {
        self.digits = None;
        self.place += 1;
    }

    /// Skips the next token if it is this one. Returns whether it was.
    pub(super) fn take(&mut self, kind: Kind<'_>) -> bool {
        let is_next = self.peek() == Some(kind);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// A fraction with `\over`, or a sum.
    pub fn formula(&mut self) -> Result<Value, Unreadable> {
        let is_outer = |token: &Token<'_>| match token.kind {
            Command(name) => matches!(name, "over" | "choose"),
            _ => false,
        };
        if self.tokens.iter().any(is_outer) {
            let value = self.content(self.tokens)?;
            self.place = self.tokens.len();
            return Ok(value);
        }
        self.sum()
    }

    /// Terms with signs.
    pub fn sum(&mut self) -> Result<Value, Unreadable> {
        self.place_deeper(|parser| {
            let mut total: Option<Value> = None;
            loop {
                let mut negative = false;
                let mut signed = false;
                while let Some(sign) = parser.sign() {
                    (negative, signed) = (negative ^ sign, true);
                }
                if total.is_some() && !signed {
                    break;
                }
                let term = parser.product()?;
                let term = if negative { negated(term, &mut parser.context.copies)? } else { term };
                total = Some(match total {
                    None => term,
                    Some(total) => plus(total, term)?,
                });
            }
            total.ok_or(Unreadable::NotMath)
        })
    }

    /// A sum that is no matrix.
    pub(super) fn scalar(&mut self) -> Result<Expression, Unreadable> {
        self.sum()?.scalar()
    }

    /// Runs what is one level deeper.
    pub(super) fn place_deeper<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<T, Unreadable> {
        if self.context.depth >= super::MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.context.depth += 1;
        let result = run(self);
        self.context.depth -= 1;
        result
    }

    /// Skips a sign. Returns whether it was a minus; None without a sign.
    fn sign(&mut self) -> Option<bool> {
        let context = &mut self.context;
        let negative = match self.digits.map_or(self.tokens.get(self.place)?.kind, Number) {
            Mark('+') => false,
            Mark('-') => true,
            Command("pm") => {
                context.signs_seen += 1;
                context.signs >> (context.signs_seen - 1) & 1 == 1
            }
            // ∓ has the opposite sign of the ± before it.
            Command("mp") => context.signs >> context.signs_seen.saturating_sub(1) & 1 == 0,
            _ => return None,
        };
        self.advance();
        Some(negative)
    }

    /// Factors with what multiplies and divides.
    fn product(&mut self) -> Result<Value, Unreadable> {
        let start = self.place;
        let mut product = self.factor()?;
        if let Some(mixed) = self.mixed(start, &product)? {
            product = mixed;
        }
        let mut explicit = false;
        loop {
            let divides = match self.peek() {
                Some(Mark('*') | Command("times" | "cdot" | "ast")) => Some(false),
                Some(Mark('/') | Command("div")) => Some(true),
                Some(Mark('%')) if !self.percent_ends() => {
                    self.advance();
                    product = divided(product, Expression::integer(100))?;
                    continue;
                }
                Some(Command(name @ ("mod" | "bmod" | "pmod"))) => {
                    self.advance();
                    let modulus = self.factor()?.scalar()?;
                    let name = if name == "pmod" { "pmod" } else { "mod" };
                    product = Value::Scalar(Expression::Unknown(
                        name.into(),
                        vec![product.scalar()?, modulus],
                    ));
                    continue;
                }
                Some(kind) if starts_factor(kind) => None,
                _ => return Ok(product),
            };
            if divides.is_some() {
                self.advance();
            } else if matches!(self.peek(), Some(Number(_)))
                && !explicit
                && self.digits.is_none()
                && self.after_number()
            {
                // Two numbers side by side are no product.
                return Err(Unreadable::NotMath);
            }
            explicit = divides.is_some();
            let is_times =
                explicit && self.place > 0 && self.tokens[self.place - 1].kind == Command("times");
            let factor = self.signed_factor()?;
            if is_times && self.context.has_vectors {
                product = vectors_product(product, factor, &mut self.context.copies)?;
                continue;
            }
            product = match divides {
                Some(true) => divided(product, factor.scalar()?)?,
                _ => times(product, factor, &mut self.context.copies)?,
            };
        }
    }

    fn after_number(&self) -> bool {
        self.place > 0 && matches!(self.tokens[self.place - 1].kind, Number(_))
    }

    /// Whether the percent sign that comes next is a unit at the end, not a factor.
    fn percent_ends(&self) -> bool {
        self.tokens[self.place + 1..].iter().all(|token| matches!(token.kind, Word(_) | Upright(_)))
    }

    /// Parses a factor after an operator, which may have a sign.
    fn signed_factor(&mut self) -> Result<Value, Unreadable> {
        let mut negative = false;
        while let Some(sign) = self.sign() {
            negative ^= sign;
        }
        let factor = self.factor()?;
        if negative { negated(factor, &mut self.context.copies) } else { Ok(factor) }
    }

    /// A base with its powers and factorials.
    pub(super) fn factor(&mut self) -> Result<Value, Unreadable> {
        let mut value = self.primary()?;
        loop {
            value = match self.peek() {
                Some(Mark('^')) => {
                    self.advance();
                    self.raised(value)?
                }
                Some(Mark('!')) => {
                    self.advance();
                    if self.take(Mark('!')) {
                        Value::Scalar(Expression::Unknown("!!".into(), vec![value.scalar()?]))
                    } else {
                        Value::Scalar(Expression::Function(
                            Function::Factorial,
                            vec![value.scalar()?],
                        ))
                    }
                }
                Some(Command("degree")) => {
                    self.advance();
                    self.degrees(value)?
                }
                _ => return Ok(value),
            };
        }
    }

    /// A value to the power that comes next.
    fn raised(&mut self, value: Value) -> Result<Value, Unreadable> {
        let rest = self.rest();
        let sign = match rest {
            [Token { kind: Mark('{'), .. }, sign, Token { kind: Mark('}'), .. }, ..] => {
                Some((sign, 3))
            }
            [sign, ..] => Some((sign, 1)),
            [] => None,
        };
        match (sign.map(|(sign, length)| (sign.kind, length)), value) {
            (Some((Command("circ" | "degree"), length)), value) => {
                self.place += length;
                self.degrees(value)
            }
            // 12^{th}.
            (Some((Upright(ending), length)), value @ Value::Scalar(Expression::Number(_)))
                if ORDINALS.contains(&ending) =>
            {
                self.place += length;
                Ok(value)
            }
            (_, value) => {
                let exponent = self.exponent()?;
                Ok(Value::Scalar(Expression::power(value.scalar()?, exponent)))
            }
        }
    }

    fn degrees(&mut self, value: Value) -> Result<Value, Unreadable> {
        times(
            value,
            Value::Scalar(Expression::Constant(Constant::Degree)),
            &mut self.context.copies,
        )
    }

    /// Reads the exponent behind ^.
    pub(super) fn exponent(&mut self) -> Result<Expression, Unreadable> {
        let mut negative = false;
        while let Some(sign) = self.sign() {
            negative ^= sign;
        }
        let exponent = self.place_deeper(|parser| {
            let base = parser.primary()?.scalar()?;
            // 2^3^2 in plain text is 2^(3^2).
            if parser.take(Mark('^')) {
                return Ok(Expression::power(base, parser.exponent()?));
            }
            Ok(base)
        })?;
        Ok(if negative { exponent.negated() } else { exponent })
    }

    /// The smallest part: a number, a symbol, a function with its arguments, a group.
    pub(super) fn primary(&mut self) -> Result<Value, Unreadable> {
        match self.peek().ok_or(Unreadable::NotMath)? {
            Number(_) => self.number().map(Value::Scalar),
            Letter(letter) => self.letter(letter).map(Value::Scalar),
            Mark('{')
                if matches!(
                    self.tokens.get(self.place + 1),
                    Some(Token { kind: Mark('}'), .. })
                ) =>
            {
                self.scripted_choices().map(Value::Scalar)
            }
            Mark('(' | '[' | '{') => self.group(),
            Mark('|') | Command("vert" | "lvert") => self.absolute().map(Value::Scalar),
            Mark('_' | '^') => self.scripted_choices().map(Value::Scalar),
            Begin(name) => self.environment(name),
            Command(name) => self.command(name).map(Value::Scalar),
            _ => Err(Unreadable::NotMath),
        }
    }

    /// Reads a group in brackets.
    pub(super) fn group(&mut self) -> Result<Value, Unreadable> {
        let close = closing(self.tokens, self.place).ok_or(Unreadable::NotMath)?;
        let content = &self.tokens[self.place + 1..close];
        self.place_deeper(|parser| parser.content(content)).inspect(|_| {
            self.digits = None;
            self.place = close + 1;
        })
    }

    /// Parses tokens that are one formula as a whole.
    pub(super) fn content(&mut self, tokens: &'t [Token<'a>]) -> Result<Value, Unreadable> {
        for (command, function) in [("over", None), ("choose", Some(Function::Binomial))] {
            if let [above, below] = split(tokens, |kind| kind == Command(command))[..] {
                let (above, below) =
                    (self.content(above)?.scalar()?, self.content(below)?.scalar()?);
                return Ok(Value::Scalar(match function {
                    Some(function) => Expression::Function(function, vec![above, below]),
                    None => above.over(below),
                }));
            }
        }
        let mut inner = Parser::new(tokens, self.context);
        let value = inner.sum()?;
        if inner.rest().is_empty() { Ok(value) } else { Err(Unreadable::NotMath) }
    }
}

/// The product `\times` of two vectors; a number times a vector is a product.
fn vectors_product(a: Value, b: Value, copies: &mut Copies) -> Result<Value, Unreadable> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) if !a.is_number() && !b.is_number() => {
            Ok(Value::Scalar(Expression::Unknown("\\times".into(), vec![a, b])))
        }
        (a, b) => times(a, b, copies),
    }
}

/// Whether a command is an operation on statements, functions or sets. It has no value here.
pub(super) fn is_operation(command: &str) -> bool {
    matches!(command, "lor" | "vee" | "bigvee" | "land" | "wedge" | "bigwedge" | "oplus" | "veebar")
        || matches!(
            command,
            "bigoplus" | "ominus" | "otimes" | "odot" | "star" | "diamond" | "bullet" | "circ"
        )
}

/// Whether a token starts a factor, so that the one before is multiplied by it.
fn starts_factor(kind: Kind<'_>) -> bool {
    match kind {
        Number(_) | Letter(_) | Mark('(' | '[' | '{') | Begin(_) => true,
        Command(name) => {
            !matches!(
                name,
                "lbrace"
                    | "rbrace"
                    | "rangle"
                    | "rfloor"
                    | "rceil"
                    | "rvert"
                    | "rVert"
                    | "pm"
                    | "mp"
                    | "Vert"
                    | "mid"
                    | "langle"
            ) && !is_operation(name)
        }
        _ => false,
    }
}
