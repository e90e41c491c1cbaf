//! Commands: constants, fractions, roots, functions.

use super::super::expression::{Constant, Expression, Function};
use super::super::latex::Kind::{Command, Letter, Mark, Number};
use super::super::latex::{Kind, Token};
use super::Unreadable;
use super::expression::{Parser, is_operation};
use super::figures::{corners, figure, of_corners};
use super::slices::{closing, split, text};
use super::value::product;

impl<'a> Parser<'_, 'a, '_> {
    /// Reads a command with its arguments.
    pub(super) fn command(&mut self, name: &'a str) -> Result<Expression, Unreadable> {
        self.advance();
        if let Some(constant) = constant(name) {
            return Ok(Expression::Constant(constant));
        }
        if let Some(function) = function(name) {
            return self.applied(function);
        }
        match name {
            "frac" | "dfrac" | "tfrac" | "cfrac" => {
                let numerator = self.argument()?;
                Ok(numerator.over(self.argument()?))
            }
            "binom" | "dbinom" | "tbinom" => {
                let arguments = match self.peek() {
                    Some(Mark('(')) => self.arguments()?,
                    _ => vec![self.argument()?, self.argument()?],
                };
                match arguments.len() {
                    2 => Ok(Expression::Function(Function::Binomial, arguments)),
                    _ => Err(Unreadable::NotMath),
                }
            }
            "sqrt" => self.root(),
            "cbrt" => Ok(self.radicand()?.root(Expression::integer(3))),
            "exp" => Ok(Expression::power(Expression::Constant(Constant::E), self.operand()?)),
            "log" | "lg" => self.logarithm(name),
            "lfloor" => self.closed(Function::Floor, "rfloor"),
            "lceil" => self.closed(Function::Ceiling, "rceil"),
            "gcd" | "lcm" | "min" | "max" => {
                let function = match name {
                    "gcd" => Function::Gcd,
                    "lcm" => Function::Lcm,
                    "min" => Function::Min,
                    _ => Function::Max,
                };
                Ok(Expression::Function(function, self.arguments()?))
            }
            "neg" | "lnot" => {
                let denied = self.place_deeper(Self::factor)?.scalar()?;
                Ok(Expression::Unknown("neg".into(), vec![denied]))
            }
            _ if figure(name).is_some() && self.corners().is_some() => self.figure(name),
            "overline" | "bar" if self.is_complex_number() => Ok(self.argument()?.conjugated()),
            "overline" | "hat" | "widehat" | "tilde" | "bar" | "dot" | "ddot"
            | "overrightarrow" | "mathbb" => {
                let of = self.argument_text()?;
                self.decorated(format!("{name} {of}"))
            }
            // Sums, integrals and limits are not evaluated: they equal the same text only.
            "sum" | "prod" | "int" | "lim" | "oint" | "iint" | "overset" | "underset"
            | "stackrel" | "right" | "left" | "not" | "cup" | "cap" | "setminus" => {
                Err(Unreadable::NotMath)
            }
            _ if is_operation(name) => Err(Unreadable::NotMath),
            _ => self.decorated(format!("\\{name}")),
        }
    }

    /// The tokens of an argument in braces, or the next one, as text.
    fn argument_text(&mut self) -> Result<String, Unreadable> {
        let start = self.place;
        self.place = match self.peek() {
            Some(Mark('{')) => closing(self.tokens, start).ok_or(Unreadable::NotMath)? + 1,
            Some(_) => start + 1,
            None => return Err(Unreadable::NotMath),
        };
        Ok(text(&self.tokens[start..self.place]).trim_matches(['{', '}']).to_owned())
    }

    /// Whether numbers and i come next in braces, for which a bar means the conjugate.
    fn is_complex_number(&self) -> bool {
        let (Some(Mark('{')), Some(end)) = (self.peek(), closing(self.tokens, self.place)) else {
            return false;
        };
        let content = &self.tokens[self.place + 1..end];
        let is_part =
            |token: &Token<'_>| matches!(token.kind, Number(_) | Mark('+' | '-') | Letter('i'));
        content.iter().all(is_part) && content.iter().any(|token| token.kind == Letter('i'))
    }

    /// The place of the next corners, perhaps in braces, and their number of tokens.
    fn corners(&self) -> Option<(usize, usize)> {
        let rest = self.rest();
        let skipped = usize::from(matches!(rest.first(), Some(Token { kind: Mark('{'), .. })));
        let length = corners(rest.get(skipped..)?);
        let closes = skipped == 0
            || matches!(rest.get(skipped + length), Some(Token { kind: Mark('}'), .. }));
        // "Delta A" is a difference.
        (closes && length > 1).then_some((skipped, length))
    }

    /// A figure with its corners.
    fn figure(&mut self, name: &str) -> Result<Expression, Unreadable> {
        let (Some(figure), Some((skipped, length))) = (figure(name), self.corners()) else {
            return Err(Unreadable::NotMath);
        };
        let corners = &self.rest()[skipped..skipped + length];
        self.place += length + 2 * skipped;
        Ok(of_corners(figure, corners))
    }

    /// An argument in braces, or the next digit, letter or command alone.
    fn argument(&mut self) -> Result<Expression, Unreadable> {
        match self.digit() {
            Some(digit) => Ok(digit),
            None => self.place_deeper(Self::primary)?.scalar(),
        }
    }

    /// The radicand and degree of a root.
    fn root(&mut self) -> Result<Expression, Unreadable> {
        let degree =
            if self.peek() == Some(Mark('[')) { Some(self.group()?.scalar()?) } else { None };
        let radicand = self.radicand()?;
        Ok(radicand.root(degree.unwrap_or_else(|| Expression::integer(2))))
    }

    /// Reads a radicand: a group, or the next operand.
    fn radicand(&mut self) -> Result<Expression, Unreadable> {
        self.place_deeper(Self::primary)?.scalar()
    }

    /// A logarithm, to the base in its subscript.
    fn logarithm(&mut self, name: &str) -> Result<Expression, Unreadable> {
        let base = if self.take(Mark('_')) {
            Some(match self.digit() {
                // \log_28 is to the base 2, log_10 to the base 10.
                Some(digit) if self.digits.is_some() && digit == Expression::integer(1) => {
                    self.digits = None;
                    self.place += 1;
                    Expression::integer(10)
                }
                Some(digit) => digit,
                None => self.argument()?,
            })
        } else if name == "lg" || self.context.convention.decimal_logarithm {
            Some(Expression::integer(10))
        } else {
            None
        };
        self.context.plain_logarithm |= name == "log" && base.is_none();
        let power = self.function_power()?;
        let operand = self.operand()?;
        let value = match base {
            Some(base) => Expression::Function(Function::Log, vec![operand, base]),
            None => Expression::Function(Function::Ln, vec![operand]),
        };
        Ok(match power {
            Some(power) => Expression::power(value, power),
            None => value,
        })
    }

    /// A function of one argument, perhaps raised to a power or inverted: `\sin^2 x`, `\tan^{-1}
    /// x`.
    fn applied(&mut self, function: Function) -> Result<Expression, Unreadable> {
        let power = self.function_power()?;
        let operand = self.operand()?;
        let inverse = match function {
            Function::Sin => Some(Function::Arcsin),
            Function::Cos => Some(Function::Arccos),
            Function::Tan => Some(Function::Arctan),
            Function::Cot => Some(Function::Arccot),
            _ => None,
        };
        Ok(match (power, inverse) {
            (Some(power), Some(inverse)) if is_minus_one(&power) => {
                Expression::Function(inverse, vec![operand])
            }
            (Some(power), _) => {
                Expression::power(Expression::Function(function, vec![operand]), power)
            }
            (None, _) => Expression::Function(function, vec![operand]),
        })
    }

    /// The exponent between a function and its argument.
    fn function_power(&mut self) -> Result<Option<Expression>, Unreadable> {
        if self.take(Mark('^')) { self.exponent().map(Some) } else { Ok(None) }
    }

    /// The argument of a function: a group, or factors up to the next operator, bracket or
    /// function.
    fn operand(&mut self) -> Result<Expression, Unreadable> {
        self.place_deeper(|parser| {
            if matches!(parser.peek(), Some(Mark('(' | '[' | '{'))) {
                return parser.group()?.scalar();
            }
            let negative = parser.take(Mark('-'));
            let mut operand = parser.factor()?.scalar()?;
            while parser.peek().is_some_and(continues_operand)
                || (parser.peek() == Some(Mark('(')) && matches!(operand, Expression::Number(_)))
            {
                operand = product(operand, parser.factor()?.scalar()?);
            }
            Ok(if negative { operand.negated() } else { operand })
        })
    }

    /// The arguments in brackets or braces that come next.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expression>, Unreadable> {
        let close = closing(self.tokens, self.place).ok_or(Unreadable::NotMath)?;
        if close == self.place {
            return Err(Unreadable::NotMath);
        }
        let content = &self.tokens[self.place + 1..close];
        let parts = split(content, |kind| matches!(kind, Mark(',' | ';')));
        let arguments = self.place_deeper(|parser| {
            parts.iter().map(|part| parser.content(part)?.scalar()).collect::<Result<_, _>>()
        })?;
        self.digits = None;
        self.place = close + 1;
        Ok(arguments)
    }

    /// Reads up to the closing sign of a floor or ceiling; its opening sign was passed.
    fn closed(&mut self, function: Function, close: &str) -> Result<Expression, Unreadable> {
        let argument = self.scalar()?;
        if self.take(Command(close)) {
            Ok(Expression::Function(function, vec![argument]))
        } else {
            Err(Unreadable::NotMath)
        }
    }

    /// The absolute value between bars.
    pub(super) fn absolute(&mut self) -> Result<Expression, Unreadable> {
        self.advance();
        let argument = self.scalar()?;
        match self.peek() {
            Some(Mark('|') | Command("vert" | "rvert")) => {
                self.advance();
                Ok(Expression::Function(Function::Abs, vec![argument]))
            }
            _ => Err(Unreadable::NotMath),
        }
    }
}

/// Whether a token is part of a function's argument that has no brackets.
fn continues_operand(kind: Kind<'_>) -> bool {
    match kind {
        Number(_) | Letter(_) | Mark('{') => true,
        Command(name) => {
            constant(name).is_some()
                || matches!(
                    name,
                    "frac"
                        | "dfrac"
                        | "tfrac"
                        | "sqrt"
                        | "theta"
                        | "alpha"
                        | "beta"
                        | "phi"
                        | "omega"
                )
        }
        _ => false,
    }
}

fn is_minus_one(expression: &Expression) -> bool {
    match expression {
        Expression::Number(number) => {
            *number == num_rational::BigRational::from_integer((-1).into())
        }
        Expression::Product(factors) => {
            *factors == [Expression::integer(-1), Expression::integer(1)]
        }
        _ => false,
    }
}

fn constant(name: &str) -> Option<Constant> {
    Some(match name {
        "pi" => Constant::Pi,
        "infty" => Constant::Infinity,
        _ => return None,
    })
}

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" | "ctg" => Function::Cot,
        "sec" => Function::Sec,
        "csc" => Function::Csc,
        "arcsin" => Function::Arcsin,
        "arccos" => Function::Arccos,
        "arctan" | "arctg" => Function::Arctan,
        "arccot" => Function::Arccot,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "ln" => Function::Ln,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "ceil" => Function::Ceiling,
        _ => return None,
    })
}

/// Whether tokens are a single name or number.
pub(super) fn is_simple(tokens: &[Token<'_>]) -> bool {
    match tokens {
        [Token { kind: Number(_) | Letter(_), .. }] => true,
        [Token { kind: Mark('-'), .. }, Token { kind: Number(_), .. }] => true,
        [Token { kind: Command(name), .. }] => constant(name).is_none(),
        _ => false,
    }
}
