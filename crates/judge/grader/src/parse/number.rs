//! Numbers as they are written: decimals, repeating decimals, other bases, mixed numbers, powers of
//! ten.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::super::answer::{Quantity, Unit};
use super::super::expression::{Decimal, Expression, Function, power_of_ten};
use super::super::latex::Kind::{Command, Letter, Mark, Number, Upright, Word};
use super::super::latex::{Commas, Token};
use super::super::phrases::numbers::{base_named, number};
use super::expression::Parser;
use super::slices::{closing, text};
use super::value::{MAX_EXPONENT, Value};
use super::{Context, Unreadable};

/// Most digits of a number.
const MAX_DIGITS: usize = 5000;

impl<'a> Parser<'_, 'a, '_> {
    pub(super) fn number(&mut self) -> Result<Expression, Unreadable> {
        let Some(Number(written)) = self.peek() else { return Err(Unreadable::NotMath) };
        self.advance();
        if let Some(expression) = self.repeating(written)? {
            return Ok(expression);
        }
        if let Some(expression) = self.continued(written) {
            return Ok(expression);
        }
        if let Some(expression) = self.choices(Expression::integer(integer_of(written))) {
            return Ok(expression);
        }
        if self.peek() == Some(Mark('_')) {
            return Err(Unreadable::NotMath);
        }
        expression(written, self.context.convention.commas)
    }

    /// The next digit alone, for commands without braces: in `\frac12` first 1, then 2.
    pub(super) fn digit(&mut self) -> Option<Expression> {
        let Some(Number(digits)) = self.peek() else { return None };
        let (first, rest) = digits.split_at_checked(1)?;
        if rest.is_empty() {
            self.advance();
        } else {
            self.digits = Some(rest);
        }
        first.parse::<u8>().ok().map(Expression::integer)
    }

    /// The value of a decimal that goes on: the last digits of 0.1666... repeat, 3.14159... is a
    /// rounding.
    fn continued(&mut self, written: &str) -> Option<Expression> {
        let (integer, decimals) = written.split_once('.')?;
        let is_number =
            [integer, decimals].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let goes_on =
            matches!(self.peek(), Some(Command("dots" | "ldots" | "cdots" | "dotsc" | "dotsb")));
        let ends =
            !matches!(self.tokens.get(self.place + 1).map(|token| token.kind), Some(Number(_)));
        if !is_number || !goes_on || !ends || written.len() > MAX_DIGITS {
            return None;
        }
        self.advance();
        let Some(period) = period(decimals.as_bytes()) else {
            return expression(written, self.context.convention.commas).ok();
        };
        // 0.1666... is 0.1 and its period.
        let head = decimals.len() - period;
        Some(repeated(integer, &decimals[..head], &decimals[head..]))
    }

    /// The number of choices that a number begins: 5C2, 5P2.
    fn choices(&mut self, of: Expression) -> Option<Expression> {
        let [Token { kind: Letter(letter @ ('C' | 'P')), spaced: false }, rest @ ..] = self.rest()
        else {
            return None;
        };
        let (
            Some(Token { kind: Number(of_which), spaced: false }),
            None | Some(Token { spaced: true, .. } | Token { kind: Mark(_), .. }),
        ) = (rest.first(), rest.get(1))
        else {
            return None;
        };
        let of_which = integer(of_which)?;
        self.place += 2;
        Some(named_call(letter.to_string().into(), vec![of, of_which]))
    }

    /// The number of choices that begins with its first number as a script: `{}_5C_2`, `^5C_2`.
    pub(super) fn scripted_choices(&mut self) -> Result<Expression, Unreadable> {
        while let [Token { kind: Mark('{'), .. }, Token { kind: Mark('}'), .. }, ..] = self.rest() {
            self.place += 2;
        }
        let script = |parser: &mut Self| match parser.peek() {
            Some(Mark('_' | '^')) => {
                parser.advance();
                parser.exponent()
            }
            _ => Err(Unreadable::NotMath),
        };
        let of = script(self)?;
        let Some(Letter(letter @ ('C' | 'P'))) = self.peek() else {
            return Err(Unreadable::NotMath);
        };
        self.advance();
        Ok(named_call(letter.to_string().into(), vec![of, script(self)?]))
    }

    /// The value of a decimal whose last digits repeat: `0.1\overline{6}`, `0.\dot{3}`, `0.(3)`.
    fn repeating(&mut self, written: &str) -> Result<Option<Expression>, Unreadable> {
        let has_point = self.peek() == Some(Mark('.'));
        let place = self.place + usize::from(has_point);
        let open = match self.tokens.get(place) {
            Some(Token { kind: Command("overline" | "bar" | "dot"), .. }) => place + 1,
            Some(Token { kind: Mark('('), spaced: false }) if has_point => place,
            _ => return Ok(None),
        };
        let end = closing(self.tokens, open).ok_or(Unreadable::NotMath)?;
        let [_, Token { kind: Number(period), .. }, _] = self.tokens[open..=end] else {
            return Ok(None);
        };
        let (integer, decimals) = written.split_once('.').unwrap_or((written, ""));
        let all_digits = [integer, decimals, period]
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let is_decimal = written.contains('.') || place > self.place;
        if !all_digits || !is_decimal || written.len() + period.len() > MAX_DIGITS {
            return Err(Unreadable::NotMath);
        }
        self.place = end + 1;
        Ok(Some(repeated(integer, decimals, period)))
    }

    /// Parses a mixed number whose integer was read: `3\frac12`, `3 1/2`.
    pub(super) fn mixed(
        &mut self,
        start: usize,
        integer: &Value,
    ) -> Result<Option<Value>, Unreadable> {
        let (Value::Scalar(Expression::Number(integer)), true) = (integer, self.place == start + 1)
        else {
            return Ok(None);
        };
        let (numerator, denominator) = match self.rest() {
            // Any other fraction is a factor, and would be parsed twice at every level.
            [Token { kind: Command("frac" | "dfrac" | "tfrac" | "cfrac"), .. }, parts @ ..]
                if are_digits(parts) =>
            {
                let place = self.place;
                let fraction = self.primary()?.scalar()?;
                let Some(fraction) = proper(&fraction) else {
                    (self.place, self.digits) = (place, None);
                    return Ok(None);
                };
                return Ok(Some(Value::Scalar(Expression::Number(integer + fraction))));
            }
            [
                Token { kind: Number(numerator), spaced: true },
                Token { kind: Mark('/'), .. },
                Token { kind: Number(denominator), .. },
                ..,
            ] => (numerator.parse::<BigInt>(), denominator.parse::<BigInt>()),
            _ => return Ok(None),
        };
        // 11 7/6 is neither a mixed number nor a product.
        let (Ok(numerator), Ok(denominator)) = (numerator, denominator) else {
            return Err(Unreadable::NotMath);
        };
        if numerator >= denominator {
            return Err(Unreadable::NotMath);
        }
        self.place += 3;
        Ok(Some(Value::Scalar(Expression::Number(
            integer + BigRational::new(numerator, denominator),
        ))))
    }
}

/// Whether the parts of a fraction come next, and both are digits: `{1}{2}`, `12`, `1{2}`, `{1}2`.
fn are_digits(parts: &[Token<'_>]) -> bool {
    let behind_digits = |parts: &[Token<'_>]| {
        // {{1}} too: converters of formulas double their braces.
        let open = parts.iter().take_while(|part| part.kind == Mark('{')).count();
        let is_number = matches!(parts.get(open)?.kind, Number(_));
        let close = parts.get(open + 1..2 * open + 1)?;
        (is_number && close.iter().all(|part| part.kind == Mark('}'))).then_some(2 * open + 1)
    };
    match parts {
        [Token { kind: Number(both), .. }, ..] if both.len() > 1 => true,
        parts => behind_digits(parts).is_some_and(|end| behind_digits(&parts[end..]).is_some()),
    }
}

/// A call of the problem's own function; C and P of two arguments are numbers of choices.
pub(super) fn named_call(name: Box<str>, arguments: Vec<Expression>) -> Expression {
    let is_count =
        |part: &Expression| matches!(part, Expression::Number(value) if value.is_integer());
    match (&*name, arguments.len()) {
        ("C", 2) => Expression::Function(Function::Binomial, arguments),
        ("P", 2) if arguments.iter().all(is_count) => {
            Expression::Function(Function::Permutations, arguments)
        }
        _ => Expression::Unknown(name, arguments),
    }
}

impl Context {
    /// A number with its base that stands alone: `101_2`, `(101)_2`, "101 in base 2", `101 \text{
    /// (base two)}`.
    pub(super) fn based(&self, tokens: &[Token<'_>]) -> Option<Quantity> {
        let (digits, base) = match tokens {
            [Token { kind: Mark('('), .. }, ..] => {
                let close = closing(tokens, 0)?;
                (&tokens[1..close], &tokens[close + 1..])
            }
            _ => tokens.split_at(tokens.iter().take_while(|token| is_digit(token)).count()),
        };
        let base = match base {
            [Token { kind: Mark('_'), .. }, base @ ..] => base_of(&text(base))?,
            words => base_in_words(words)?,
        };
        let digits = digits.iter().all(is_digit).then(|| text(digits))?;
        let value = value_of(&digits, base)?;
        let unit = Unit::Base(digits.into(), base);
        Some(Quantity { expression: Expression::integer(value), unit })
    }
}

/// Whether a token is digits: 0 to 9, then A to Z.
fn is_digit(token: &Token<'_>) -> bool {
    match token.kind {
        Number(_) => true,
        Letter(letter) => letter.is_ascii_uppercase(),
        Upright(word) | Word(word) => word.bytes().all(|byte| byte.is_ascii_uppercase()),
        _ => false,
    }
}

/// The base that words after a number name: "base 2", "in base two", "in binary", "(octal)".
fn base_in_words(tokens: &[Token<'_>]) -> Option<u32> {
    let (tokens, in_brackets) = match tokens {
        [Token { kind: Mark('('), .. }, inner @ .., Token { kind: Mark(')'), .. }] => (inner, true),
        tokens => (tokens, false),
    };
    let word = |token: &Token<'_>| match token.kind {
        Word(word) | Upright(word) => word.to_owned(),
        Command("in") => "in".to_owned(),
        _ => String::new(),
    };
    let (tokens, has_in) = match tokens {
        [first, rest @ ..] if word(first) == "in" => (rest, true),
        tokens => (tokens, false),
    };
    match tokens {
        [first, rest @ ..] if word(first) == "base" => base_of(&text(rest)),
        [name] if has_in || in_brackets => base_named(&word(name)),
        _ => None,
    }
}

/// The base that a subscript is, in digits or in words.
fn base_of(subscript: &str) -> Option<u32> {
    let subscript = subscript.trim_matches(['{', '}']);
    match number(&subscript.to_ascii_lowercase()) {
        Some(base) => Some(base.into()),
        None => subscript.parse().ok(),
    }
    .filter(|base| (2..=36).contains(base))
}

fn value_of(digits: &str, base: u32) -> Option<BigInt> {
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    BigInt::parse_bytes(digits.as_bytes(), base)
}

/// The integer that digits stand for in base ten.
pub fn integer(digits: &str) -> Option<Expression> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| Expression::integer(integer_of(digits)))
}

/// The value of a decimal whose last digits, the period, repeat.
fn repeated(integer: &str, decimals: &str, period: &str) -> Expression {
    // 0.1666... = (16 - 1)/90.
    let head = integer_of(&format!("{integer}{decimals}"));
    let whole = integer_of(&format!("{integer}{decimals}{period}"));
    let nines = power_of_ten(period.len()) - BigInt::one();
    let denominator = nines * power_of_ten(decimals.len());
    Expression::Number(BigRational::new(whole - head, denominator))
}

/// The number of digits that repeat at the end of decimals: the fewest that occur twice in a row
/// and make up at least half of all.
fn period(decimals: &[u8]) -> Option<usize> {
    const MAX_PERIOD: usize = 30;
    (1..=MAX_PERIOD.min(decimals.len() / 2)).find(|&period| {
        let last = &decimals[decimals.len() - period..];
        let repeats = decimals.rchunks(period).take_while(|chunk| *chunk == last).count();
        // Two equal digits at the end of many, as in 1.41421355, are no period.
        repeats >= 2 && repeats * period * 2 >= decimals.len()
    })
}

/// The value of an expression that is a fraction of integers between 0 and 1.
fn proper(expression: &Expression) -> Option<BigRational> {
    let Expression::Product(factors) = expression else { return None };
    let [Expression::Number(numerator), Expression::Power(power)] = &factors[..] else {
        return None;
    };
    let (Expression::Number(denominator), Expression::Number(minus_one)) = &**power else {
        return None;
    };
    let is_proper = numerator.is_integer()
        && denominator.is_integer()
        && !numerator.is_negative()
        && numerator < denominator
        && *minus_one == -BigRational::one();
    is_proper.then(|| numerator / denominator)
}

/// The value of a written number, which may have separators between groups of digits.
fn expression(written: &str, commas: Commas) -> Result<Expression, Unreadable> {
    let (mantissa, exponent) = match written.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
        None => (written, Some(0)),
    };
    let exponent =
        exponent.filter(|exponent| exponent.abs() <= MAX_EXPONENT).ok_or(Unreadable::NotMath)?;
    let is_point = |byte: u8| byte == b'.' || (byte == b',' && commas == Commas::Point);
    let point = mantissa.bytes().position(is_point);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return Err(Unreadable::NotMath);
    }
    let decimals = point.map(|point| mantissa[point..].bytes().filter(u8::is_ascii_digit).count());
    let integer = integer_of(&digits);
    if decimals.is_none() && exponent == 0 {
        return Ok(Expression::integer(integer));
    }
    let decimals = decimals.unwrap_or(0);
    let value = BigRational::new(integer, power_of_ten(decimals));
    Ok(Expression::Decimal(Decimal { value, last_digit: -(decimals as i32) }.shifted(exponent)))
}

fn integer_of(digits: &str) -> BigInt {
    digits.parse().unwrap_or_else(|_| BigInt::zero())
}
