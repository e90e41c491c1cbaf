//! Numbers as they are written: decimals, repeating decimals, other bases, mixed numbers, powers of ten.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::super::answer::{Quantity, Unit};
use super::super::expression::{Decimal, Expression, power_of_ten};
use super::super::latex::{Commas, Kind, Token};
use super::super::phrases::answers::number;
use super::expression::Parser;
use super::slices::{closing, text};
use super::value::{MAX_EXPONENT, Value};
use super::{Context, Unreadable};

/// Most digits of a number.
const MAX_DIGITS: usize = 5000;

impl<'a> Parser<'_, 'a, '_> {
    /// A number.
    pub(super) fn number(&mut self) -> Result<Expression, Unreadable> {
        let Some(Kind::Number(written)) = self.peek() else { return Err(Unreadable::NotMath) };
        self.advance();
        if let Some(expression) = self.repeating(written)? {
            return Ok(expression);
        }
        if self.peek() == Some(Kind::Mark('_')) {
            let (value, end) = based(self.tokens, self.place - 1, written).ok_or(Unreadable::NotMath)?;
            self.place = end;
            return Ok(Expression::integer(value));
        }
        expression(written, self.context.convention.commas)
    }

    /// The next digit alone, as commands without braces take it: of `\frac12` first 1, then 2.
    pub(super) fn digit(&mut self) -> Option<Expression> {
        let Some(Kind::Number(digits)) = self.peek() else { return None };
        let (first, rest) = digits.split_at_checked(1)?;
        if rest.is_empty() {
            self.advance();
        } else {
            self.digits = Some(rest);
        }
        first.parse::<u8>().ok().map(Expression::integer)
    }

    /// The value of a decimal whose last digits repeat: `0.1\overline{6}`, `0.\dot{3}`.
    fn repeating(&mut self, written: &str) -> Result<Option<Expression>, Unreadable> {
        let place = self.place + usize::from(self.peek() == Some(Kind::Mark('.')));
        let Some(Token { kind: Kind::Command("overline" | "bar" | "dot"), .. }) = self.tokens.get(place)
        else {
            return Ok(None);
        };
        let end = closing(self.tokens, place + 1).ok_or(Unreadable::NotMath)?;
        let [_, Token { kind: Kind::Number(period), .. }, _] = self.tokens[place + 1..=end] else {
            return Ok(None);
        };
        let (integer, decimals) = written.split_once('.').unwrap_or((written, ""));
        let all_digits =
            [integer, decimals, period].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let is_decimal = written.contains('.') || place > self.place;
        if !all_digits || !is_decimal || written.len() + period.len() > MAX_DIGITS {
            return Err(Unreadable::NotMath);
        }
        self.place = end + 1;
        // 0.1666... = (16 - 1)/90.
        let head = integer_of(&format!("{integer}{decimals}"));
        let whole = integer_of(&format!("{integer}{decimals}{period}"));
        let nines = power_of_ten(period.len()) - BigInt::one();
        let denominator = nines * power_of_ten(decimals.len());
        Ok(Some(Expression::Number(BigRational::new(whole - head, denominator))))
    }

    /// A mixed number, of whose integer and fraction the integer was read: `3\frac12`, `3 1/2`.
    pub(super) fn mixed(&mut self, start: usize, integer: &Value) -> Result<Option<Value>, Unreadable> {
        let (Value::Scalar(Expression::Number(integer)), true) = (integer, self.place == start + 1) else {
            return Ok(None);
        };
        let (numerator, denominator) = match self.rest() {
            [Token { kind: Kind::Command("frac" | "dfrac" | "tfrac" | "cfrac"), .. }, ..] => {
                let place = self.place;
                let fraction = self.primary()?.scalar()?;
                let Some(fraction) = proper(&fraction) else {
                    (self.place, self.digits) = (place, None);
                    return Ok(None);
                };
                return Ok(Some(Value::Scalar(Expression::Number(integer + fraction))));
            }
            [
                Token { kind: Kind::Number(numerator), spaced: true },
                Token { kind: Kind::Mark('/'), .. },
                Token { kind: Kind::Number(denominator), .. },
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
        Ok(Some(Value::Scalar(Expression::Number(integer + BigRational::new(numerator, denominator)))))
    }
}

impl Context {
    /// A number with its base that stands alone.
    pub(super) fn based(&self, tokens: &[Token<'_>]) -> Option<Quantity> {
        let [Token { kind: Kind::Number(written), .. }, Token { kind: Kind::Mark('_'), .. }, ..] = tokens
        else {
            return None;
        };
        let (value, end) = based(tokens, 0, written)?;
        let unit = Unit::Base(written.parse().ok()?);
        (end == tokens.len()).then(|| Quantity { expression: Expression::integer(value), unit })
    }
}

/// The value of digits to the base that is their subscript, and the place after it.
fn based(tokens: &[Token<'_>], place: usize, digits: &str) -> Option<(BigInt, usize)> {
    let subscript = place + 2;
    let end = match tokens.get(subscript)?.kind {
        Kind::Mark('{') => closing(tokens, subscript)?,
        _ => subscript,
    };
    let base = text(&tokens[subscript..=end]);
    let base = base.trim_matches(['{', '}']);
    let base = match number(base) {
        Some(base @ 2..=10) => base.into(),
        _ => base.parse().ok().filter(|base| (2..=36).contains(base))?,
    };
    if digits.len() > MAX_DIGITS {
        return None;
    }
    BigInt::parse_bytes(digits.as_bytes(), base).map(|value| (value, end + 1))
}

/// The fraction that an expression is, if it is one between 0 and 1 of integers.
fn proper(expression: &Expression) -> Option<BigRational> {
    let Expression::Product(factors) = expression else { return None };
    let [Expression::Number(numerator), Expression::Power(power)] = &factors[..] else { return None };
    let (Expression::Number(denominator), Expression::Number(minus_one)) = &**power else { return None };
    let is_proper = numerator.is_integer()
        && denominator.is_integer()
        && !numerator.is_negative()
        && numerator < denominator
        && *minus_one == -BigRational::one();
    is_proper.then(|| numerator / denominator)
}

/// The value of a written number, with whatever groups its digits.
fn expression(written: &str, commas: Commas) -> Result<Expression, Unreadable> {
    let (mantissa, exponent) = match written.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
        None => (written, Some(0)),
    };
    let exponent = exponent.filter(|exponent| exponent.abs() <= MAX_EXPONENT).ok_or(Unreadable::NotMath)?;
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
