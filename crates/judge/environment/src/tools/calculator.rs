//! The tool `calculator`: exact arithmetic on fractions of whole numbers.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = sign (("*" | "/" | "//" | "%") sign)*
//! sign    = ("+" | "-") sign | power
//! power   = atom (("**" | "^") sign)?
//! atom    = digits ("." digits)? | "(" sum ")"
//! ```
//!
//! As in Python, but for exact results: `1/3` is a third, and `^` is a power.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

/// Longest expression, in bytes.
const LONGEST: usize = 4096;

/// Deepest nesting of parentheses and signs.
const DEEPEST: usize = 64;

/// Most bits of a numerator or a denominator.
const MOST_BITS: u64 = 4096;

/// Most digits of a number in the expression, without zeros in front: about [`MOST_BITS`].
const MOST_DIGITS: usize = 1233;

/// Most work of an expression: the sum over its operations of the square of the bits of both
/// operands, since fractions are reduced in quadratic time. It comes to a few milliseconds.
const MOST_WORK: u64 = 1 << 29;

/// The value of an expression: a whole number, a fraction `1/3`, or a decimal `0.25` where it is
/// one of at most ten digits.
///
/// # Errors
/// What is wrong, as a sentence without a full stop.
pub fn evaluate(expression: &str) -> Result<String, String> {
    if expression.len() > LONGEST {
        return Err(format!("the expression has more than {LONGEST} bytes"));
    }
    // The signs that models write for these operators.
    let text = expression.replace(['×', '·'], "*").replace('÷', "/").replace('−', "-");
    let mut parser = Parser { rest: text.trim_start(), depth: 0, work: 0 };
    let value = parser.sum()?;
    match parser.rest.chars().next() {
        None => Ok(written(&value)),
        Some(next) => Err(format!("there is a {next:?} where an operator or the end should be")),
    }
}

/// A value as a decimal of at most ten digits where that is exact, else as `1/3`.
fn written(value: &BigRational) -> String {
    let denominator = value.denom().to_u64();
    let digits = denominator.and_then(|of| (0..=10).find(|&digits| 10u64.pow(digits) % of == 0));
    let (Some(of), Some(digits @ 1..)) = (denominator, digits) else { return value.to_string() };
    let scaled = value.numer().abs() * (10u64.pow(digits) / of);
    let sign = if value.is_negative() { "-" } else { "" };
    let text = format!("{:0>width$}", scaled.to_string(), width = digits as usize + 1);
    let (whole, part) = text.split_at(text.len() - digits as usize);
    format!("{sign}{whole}.{part}")
}

struct Parser<'a> {
    /// The text that has not been read, without leading white space.
    rest: &'a str,
    depth: usize,
    /// The work so far, at most [`MOST_WORK`].
    work: u64,
}

impl Parser<'_> {
    /// Reads one of these signs, the first that is there.
    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let sign = signs.iter().find(|sign| self.rest.starts_with(**sign))?;
        self.rest = self.rest[sign.len()..].trim_start();
        Some(sign)
    }

    fn sum(&mut self) -> Result<BigRational, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&["+", "-"]) {
            let other = self.product()?;
            value = self.operation(sign, value, other)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<BigRational, String> {
        let mut value = self.sign()?;
        while let Some(sign) = self.take(&["*", "//", "/", "%"]) {
            let other = self.sign()?;
            if sign != "*" && other.is_zero() {
                return Err("it divides by zero".into());
            }
            value = self.operation(sign, value, other)?;
        }
        Ok(value)
    }

    fn sign(&mut self) -> Result<BigRational, String> {
        self.deeper(|parser| match parser.take(&["+", "-"]) {
            Some("-") => Ok(-parser.sign()?),
            Some(_) => parser.sign(),
            None => parser.power(),
        })
    }

    fn power(&mut self) -> Result<BigRational, String> {
        let base = self.atom()?;
        if self.take(&["**", "^"]).is_none() {
            return Ok(base);
        }
        let exponent = self.sign()?;
        let whole = exponent.is_integer().then(|| exponent.to_integer().to_i32()).flatten();
        let exponent = whole.ok_or("the exponent is not a small whole number")?;
        if base.is_zero() && exponent < 0 {
            return Err("it divides by zero".into());
        }
        let bits = base.numer().bits().max(base.denom().bits());
        let is_unit = base.numer().abs().is_one() && base.denom().is_one() || base.is_zero();
        if !is_unit && bits.saturating_mul(exponent.unsigned_abs().into()) > MOST_BITS {
            return Err(too_long());
        }
        // A power of 1, -1 or 0 depends on the exponent's parity and on whether it is 0.
        let exponent = if is_unit {
            exponent.signum() * (2 - exponent % 2 * exponent.signum())
        } else {
            exponent
        };
        bounded(Pow::pow(base, exponent))
    }

    fn atom(&mut self) -> Result<BigRational, String> {
        if self.take(&["("]).is_some() {
            let value = self.deeper(Self::sum)?;
            return match self.take(&[")"]) {
                Some(_) => Ok(value),
                None => Err("a ) is missing".into()),
            };
        }
        let is_digit = |c: char| c.is_ascii_digit();
        let after = self.rest.trim_start_matches(is_digit);
        let whole = &self.rest[..self.rest.len() - after.len()];
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => {
                let behind = after.trim_start_matches(is_digit);
                (&after[..after.len() - behind.len()], behind)
            }
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return Err(match self.rest.chars().next() {
                Some(next) => format!("there is a {next:?} where a number should be"),
                None => "it ends where a number should be".into(),
            });
        }
        let part = part.trim_end_matches('0');
        if whole.trim_start_matches('0').len() + part.len() > MOST_DIGITS {
            return Err(too_long());
        }
        let digits: BigInt = format!("{whole}{part}").parse().map_err(|_| too_long())?;
        let denominator = Pow::pow(BigInt::from(10), part.len());
        self.rest = after.trim_start();
        bounded(BigRational::new(digits, denominator))
    }

    /// The result of an operator. The divisor is not 0.
    fn operation(
        &mut self,
        sign: &str,
        a: BigRational,
        b: BigRational,
    ) -> Result<BigRational, String> {
        if a.is_integer() && b.is_integer() && ["+", "-", "*"].contains(&sign) {
            // Nothing is to be reduced.
            let (a, b) = (a.numer(), b.numer());
            return bounded(BigRational::from_integer(match sign {
                "+" => a + b,
                "-" => a - b,
                _ => a * b,
            }));
        }
        let bits = [&a, &b].map(|of| of.numer().bits() + of.denom().bits());
        self.work += (bits[0] + bits[1]).pow(2);
        if self.work > MOST_WORK {
            return Err("it has too many operations on such long numbers".into());
        }
        bounded(match sign {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            "//" => (a / b).floor(),
            _ => &a - (&a / &b).floor() * &b,
        })
    }

    /// Reads something within what is being read.
    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} deep"));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
}

fn bounded(value: BigRational) -> Result<BigRational, String> {
    match value.numer().bits().max(value.denom().bits()) > MOST_BITS {
        true => Err(too_long()),
        false => Ok(value),
    }
}

fn too_long() -> String {
    format!("a number has more than {MOST_BITS} bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_expression_has_a_value_or_a_reason(
            text in ".*",
            near in "[0-9.()+*/%^ −×-]{0,40}",
        ) {
            for text in [&text, &near] {
                // A value is an expression of itself.
                if let Ok(value) = evaluate(text) {
                    prop_assert_eq!(evaluate(&value), Ok(value));
                }
            }
        }
    }

    #[test]
    fn expressions_have_exact_values() {
        for (expression, value) in [
            ("2 + 3*4", "14"),
            ("(2+3)*4", "20"),
            ("1/3 + 1/6", "0.5"),
            ("1/3", "1/3"),
            ("-7 // 2", "-4"),
            ("-7 % 3", "2"),
            ("7.5 % 2", "1.5"),
            ("-2**2", "-4"),
            ("2**-1", "0.5"),
            ("2^3^2", "512"),
            ("0.1 + 0.2", "0.3"),
            ("-1/8", "-0.125"),
            (".5 * 2.", "1"),
            ("6 × 7 ÷ 2 − 1", "20"),
            ("(-1)**1000000001", "-1"),
            ("1**-1000000000", "1"),
            ("0**0", "1"),
            ("0**5", "0"),
            ("2**200", "1606938044258990275541962092341162602522202993782792835301376"),
        ] {
            assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn what_has_no_value_says_why() {
        let (deep, signs) = ("(".repeat(1000), "-".repeat(4000));
        let (long, fractions) =
            ("1+".repeat(4000), format!("3**2000/7**1300{}", "+1/7".repeat(900)));
        for (expression, why) in [
            ("", "it ends where a number should be"),
            ("1 +", "it ends where a number should be"),
            ("x + 1", "there is a 'x' where a number should be"),
            ("1 2", "there is a '2' where an operator"),
            ("(1", "a ) is missing"),
            ("1)", "there is a ')' where an operator"),
            ("1/0", "divides by zero"),
            ("1 % (2-2)", "divides by zero"),
            ("0**-1", "divides by zero"),
            ("2**0.5", "not a small whole number"),
            ("9**9**9", "more than 4096 bits"),
            ("2**99999999999", "not a small whole number"),
            (&fractions, "too many operations on such long numbers"),
            (&format!("0.{}1", "0".repeat(1300)), "more than 4096 bits"),
            (&deep, "more than 64 deep"),
            (&signs, "more than 64 deep"),
            (&long, "more than 4096 bytes"),
        ] {
            let error = evaluate(expression).unwrap_err();
            assert!(error.contains(why), "{expression}: {error}");
        }
    }
}
