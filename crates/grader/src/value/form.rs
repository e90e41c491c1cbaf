//! The canonical form of an expression: a quotient of polynomials.

use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::failure::Failure;
use super::monomial::{Atom, Monomial};
use super::number::{self, Exponent};
use super::polynomial::Polynomial;
use crate::expression::Function;
use crate::fuel::Fuel;

/// A quotient of polynomials. The denominator is 1 or has at least two terms, integer coefficients without a common
/// divisor, and a positive first coefficient; equal values may still have different quotients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    numerator: Polynomial,
    denominator: Polynomial,
}

impl From<Polynomial> for Form {
    fn from(numerator: Polynomial) -> Self {
        Self { numerator, denominator: Polynomial::rational(BigRational::one()) }
    }
}

impl Form {
    /// A rational number.
    pub fn rational(value: BigRational) -> Self {
        Polynomial::rational(value).into()
    }

    /// An integer.
    pub fn integer(value: i64) -> Self {
        Self::rational(BigRational::from_integer(value.into()))
    }

    /// An atom, which must not be an [`Atom::Integer`].
    pub fn atom(atom: Atom) -> Self {
        Self::atom_power(atom, Exponent::one())
    }

    /// A power of an atom, see [`Monomial::of`].
    pub fn atom_power(atom: Atom, exponent: Exponent) -> Self {
        Polynomial::term(Monomial::of(atom, exponent), BigRational::one()).into()
    }

    /// A function of one argument, left as it is.
    pub fn function(function: Function, argument: Self) -> Self {
        Self::atom(Atom::Function(function, vec![argument]))
    }

    /// The imaginary unit.
    pub fn i() -> Self {
        Self::atom_power(Atom::Integer((-1).into()), Exponent::new_raw(1, 2))
    }

    /// What is divided.
    pub fn numerator(&self) -> &Polynomial {
        &self.numerator
    }

    /// What it is divided by.
    pub fn denominator(&self) -> &Polynomial {
        &self.denominator
    }

    /// The polynomial, if nothing divides it.
    pub fn as_polynomial(&self) -> Option<&Polynomial> {
        self.denominator.as_rational().map(|_| &self.numerator)
    }

    /// The rational number that the form is.
    pub fn as_rational(&self) -> Option<BigRational> {
        self.as_polynomial()?.as_rational()
    }

    /// The only term of a polynomial.
    pub fn as_term(&self) -> Option<(&Monomial, &BigRational)> {
        self.as_polynomial()?.as_term()
    }

    /// The atom of which the form is the first power.
    pub fn as_atom(&self) -> Option<&Atom> {
        let (monomial, coefficient) = self.as_term()?;
        match monomial.0.as_slice() {
            [(atom, exponent)] if exponent.is_one() && coefficient.is_one() => Some(atom),
            _ => None,
        }
    }

    /// Whether the form is zero, as far as the form shows.
    pub fn is_zero(&self) -> bool {
        self.numerator.is_zero()
    }

    /// Whether the test holds for any atom, or any within one.
    pub fn any_atom(&self, test: &mut dyn FnMut(&Atom) -> bool) -> bool {
        self.numerator.any_atom(test) || self.denominator.any_atom(test)
    }

    /// Whether the value depends on no variable and no unknown function.
    pub fn is_constant(&self) -> bool {
        !self.any_atom(&mut |atom| matches!(atom, Atom::Symbol(_) | Atom::Unknown(..)))
    }

    /// Whether this is a positive multiple of powers of positive numbers.
    pub fn is_positive_constant(&self) -> bool {
        let positive = |atom: &Atom| match atom {
            Atom::Integer(value) => value.is_positive(),
            Atom::Pi | Atom::E => true,
            _ => false,
        };
        self.as_term().is_some_and(|(monomial, coefficient)| {
            coefficient.is_positive() && monomial.0.iter().all(|(atom, _)| positive(atom))
        })
    }

    /// Whether the first coefficient shown is negative.
    pub fn is_shown_negative(&self) -> bool {
        let first = self.numerator.terms().min_by(|(a, _), (b, _)| a.display_order(b));
        first.is_some_and(|(_, coefficient)| coefficient.is_negative())
    }

    /// The sum.
    pub fn plus(mut self, other: &Self, fuel: &mut Fuel) -> Result<Self, Failure> {
        if self.denominator == other.denominator {
            self.numerator.add(&other.numerator, fuel)?;
            return if self.as_polynomial().is_some() {
                Ok(self)
            } else {
                Self::quotient(self.numerator, self.denominator, fuel)
            };
        }
        let mut numerator = self.numerator.times(&other.denominator, fuel)?;
        numerator.add(&other.numerator.times(&self.denominator, fuel)?, fuel)?;
        Self::quotient(numerator, self.denominator.times(&other.denominator, fuel)?, fuel)
    }

    /// The difference.
    pub fn minus(self, other: &Self, fuel: &mut Fuel) -> Result<Self, Failure> {
        self.plus(&other.negated(fuel)?, fuel)
    }

    /// The numerator of the difference, over the product of the denominators.
    pub fn cross_difference(&self, other: &Self, fuel: &mut Fuel) -> Result<Polynomial, Failure> {
        let mut numerator = self.numerator.times(&other.denominator, fuel)?;
        let subtrahend = other.numerator.times(&self.denominator, fuel)?;
        numerator.add(&subtrahend.times_rational(&-BigRational::one(), fuel)?, fuel)?;
        Ok(numerator)
    }

    /// -self.
    pub fn negated(&self, fuel: &mut Fuel) -> Result<Self, Failure> {
        self.times_rational(&-BigRational::one(), fuel)
    }

    /// The product with a number.
    pub fn times_rational(&self, factor: &BigRational, fuel: &mut Fuel) -> Result<Self, Failure> {
        if factor.is_zero() {
            return Ok(Self::integer(0));
        }
        Ok(Self {
            numerator: self.numerator.times_rational(factor, fuel)?,
            denominator: self.denominator.clone(),
        })
    }

    /// The product.
    pub fn times(&self, other: &Self, fuel: &mut Fuel) -> Result<Self, Failure> {
        let numerator = self.numerator.times(&other.numerator, fuel)?;
        match (self.as_polynomial(), other.as_polynomial()) {
            (Some(_), Some(_)) => Ok(numerator.into()),
            _ => Self::quotient(numerator, self.denominator.times(&other.denominator, fuel)?, fuel),
        }
    }

    /// self/divisor.
    pub fn over(&self, divisor: &Self, fuel: &mut Fuel) -> Result<Self, Failure> {
        self.times(&divisor.inverse(fuel)?, fuel)
    }

    /// 1/self.
    pub fn inverse(&self, fuel: &mut Fuel) -> Result<Self, Failure> {
        Self::quotient(self.denominator.clone(), self.numerator.clone(), fuel)
    }

    /// Numerator over denominator, reduced if one divides the other.
    fn quotient(numerator: Polynomial, denominator: Polynomial, fuel: &mut Fuel) -> Result<Self, Failure> {
        if denominator.is_zero() {
            return Err(Failure::Undefined);
        }
        if numerator.is_zero() {
            return Ok(Self::integer(0));
        }
        if let Some((monomial, coefficient)) = denominator.as_term() {
            return Self::over_term(&numerator, monomial, coefficient, fuel);
        }
        if let Some(conjugate) = denominator.conjugate(fuel)? {
            let numerator = numerator.times(&conjugate, fuel)?;
            return Self::quotient(numerator, denominator.times(&conjugate, fuel)?, fuel);
        }
        let content = denominator.content(fuel)?.recip();
        let numerator = numerator.times_rational(&content, fuel)?;
        let denominator = denominator.times_rational(&content, fuel)?;
        if let Some(quotient) = numerator.divided_by(&denominator, fuel)? {
            return Ok(quotient.into());
        }
        if numerator.terms().len() > 1
            && let Some(quotient) = denominator.divided_by(&numerator, fuel)?
        {
            return Self::quotient(Polynomial::rational(BigRational::one()), quotient, fuel);
        }
        Ok(Self { numerator, denominator })
    }

    fn over_term(
        numerator: &Polynomial,
        monomial: &Monomial,
        coefficient: &BigRational,
        fuel: &mut Fuel,
    ) -> Result<Self, Failure> {
        let inverse = monomial.power((-1).into(), fuel)?.ok_or(Failure::OutOfFuel)?;
        let coefficient = number::multiply(&coefficient.recip(), &inverse.factor, fuel)?;
        let mut form = Self::from(numerator.times(&Polynomial::term(inverse.monomial, coefficient), fuel)?);
        for (atom, exponent) in inverse.expand {
            // Roots of a polynomial leave the polynomial in the denominator.
            if let Atom::Group(base) = &*atom {
                form = form.over(&base.power(exponent.unsigned_abs(), fuel)?.into(), fuel)?;
            }
        }
        Ok(form)
    }
}
