//! Canonical forms as text: `3/4`, `2*sqrt(2) + x^2`, `(x + 1)/(x - 2)`.

use std::fmt::{Display, Formatter, Result, Write};

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed};

use super::form::Form;
use super::monomial::{Atom, Monomial};
use super::number::Exponent;
use super::polynomial::Polynomial;

impl Display for Form {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.as_polynomial().is_some() {
            return write!(f, "{}", self.numerator());
        }
        if self.numerator().terms().len() == 1 {
            return write!(f, "{}/({})", self.numerator(), self.denominator());
        }
        write!(f, "({})/({})", self.numerator(), self.denominator())
    }
}

impl Display for Polynomial {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut terms: Vec<_> = self.terms().collect();
        terms.sort_by(|(a, _), (b, _)| a.display_order(b));
        if terms.is_empty() {
            return f.write_char('0');
        }
        for (index, (monomial, coefficient)) in terms.into_iter().enumerate() {
            match (index, coefficient.is_negative()) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            write_term(f, &coefficient.abs(), monomial)?;
        }
        Ok(())
    }
}

fn write_term(f: &mut Formatter<'_>, coefficient: &BigRational, monomial: &Monomial) -> Result {
    if monomial.is_one() {
        return write!(f, "{coefficient}");
    }
    if !coefficient.is_one() {
        write!(f, "{coefficient}*")?;
    }
    write!(f, "{monomial}")
}

impl Display for Monomial {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut factors = Vec::new();
        // Square roots are shown as one.
        let mut radicand = BigInt::one();
        for (shared, exponent) in &self.0 {
            let atom: &Atom = shared;
            match (atom, *exponent == Exponent::new_raw(1, 2)) {
                (Atom::Integer(value), true) if value.is_positive() => radicand *= value,
                (Atom::Integer(_), true) => factors.push("i".to_owned()),
                (Atom::Group(base), true) => factors.push(format!("sqrt({base})")),
                (_, true) => factors.push(format!("sqrt({atom})")),
                (Atom::Integer(value), _) if value.is_negative() => {
                    factors.push(format!("({value})^({exponent})"));
                }
                _ if exponent.is_one() => factors.push(atom.to_string()),
                (Atom::Power(..), _) => factors.push(format!("({atom})^{}", bracketed(exponent))),
                _ => factors.push(format!("{atom}^{}", bracketed(exponent))),
            }
        }
        if !radicand.is_one() {
            factors.insert(0, format!("sqrt({radicand})"));
        }
        f.write_str(&factors.join("*"))
    }
}

fn bracketed(exponent: &Exponent) -> String {
    if exponent.is_integer() && exponent.is_positive() {
        exponent.to_string()
    } else {
        format!("({exponent})")
    }
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Pi => f.write_str("pi"),
            Self::E => f.write_str("e"),
            Self::Infinity => f.write_str("infinity"),
            Self::Symbol(name) => f.write_str(name),
            Self::Power(base, exponent) => write!(f, "{}^{}", Operand(base), Operand(exponent)),
            Self::Function(function, arguments) => {
                write_call(f, &format!("{function:?}").to_lowercase(), arguments)
            }
            Self::Unknown(name, arguments) => write_call(f, name, arguments),
            Self::Group(base) => write!(f, "({base})"),
        }
    }
}

/// A form as base or exponent: in brackets, unless it is a name or a natural number.
struct Operand<'a>(&'a Form);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let is_natural = self.0.as_rational().is_some_and(|value| value.is_integer() && !value.is_negative());
        let is_name = matches!(self.0.as_atom(), Some(Atom::Symbol(_) | Atom::Pi | Atom::E));
        if is_natural || is_name { write!(f, "{}", self.0) } else { write!(f, "({})", self.0) }
    }
}

fn write_call(f: &mut Formatter<'_>, name: &str, arguments: &[Form]) -> Result {
    let arguments: Vec<String> = arguments.iter().map(Form::to_string).collect();
    write!(f, "{name}({})", arguments.join(", "))
}
