//! Sums of rational multiples of monomials.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use super::failure::Failure;
use super::monomial::{Atom, Monomial, Shared};
use super::number::{self, Exponent};
use crate::fuel::Fuel;

/// A sum of rational multiples of different monomials. No coefficient is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Polynomial(BTreeMap<Monomial, BigRational>);

impl Polynomial {
    /// A rational number.
    pub fn rational(value: BigRational) -> Self {
        Self::term(Monomial::default(), value)
    }

    /// A rational multiple of a monomial.
    pub fn term(monomial: Monomial, coefficient: BigRational) -> Self {
        let mut polynomial = Self::default();
        if !coefficient.is_zero() {
            polynomial.0.insert(monomial, coefficient);
        }
        polynomial
    }

    /// The terms, in the order of the monomials.
    pub fn terms(&self) -> impl DoubleEndedIterator<Item = (&Monomial, &BigRational)> + ExactSizeIterator {
        self.0.iter()
    }

    /// Whether there are no terms.
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The rational number that the polynomial is.
    pub fn as_rational(&self) -> Option<BigRational> {
        if self.is_zero() {
            return Some(BigRational::zero());
        }
        self.as_term().filter(|(monomial, _)| monomial.is_one()).map(|(_, value)| value.clone())
    }

    /// The only term.
    pub fn as_term(&self) -> Option<(&Monomial, &BigRational)> {
        if self.0.len() == 1 { self.0.first_key_value() } else { None }
    }

    /// Parts of the polynomial, which bound the work of comparing it.
    pub fn weight(&self) -> u64 {
        self.0.keys().fold(0, |sum, monomial| sum.saturating_add(monomial.weight()))
    }

    /// Whether the test holds for any atom, or any within one.
    pub fn any_atom(&self, test: &mut dyn FnMut(&Atom) -> bool) -> bool {
        self.0.keys().any(|monomial| monomial.0.iter().any(|(atom, _)| atom.any(test)))
    }

    /// Adds a term.
    pub fn add_term(
        &mut self,
        monomial: Monomial,
        coefficient: &BigRational,
        fuel: &mut Fuel,
    ) -> Result<(), Failure> {
        fuel.spend(monomial.weight().saturating_add(4))?;
        match self.0.entry(monomial) {
            Entry::Vacant(place) => {
                if !coefficient.is_zero() {
                    place.insert(coefficient.clone());
                }
            }
            Entry::Occupied(mut place) => {
                let sum = number::add(place.get(), coefficient, fuel)?;
                if sum.is_zero() {
                    place.remove();
                } else {
                    place.insert(sum);
                }
            }
        }
        Ok(())
    }

    /// Adds a polynomial.
    pub fn add(&mut self, other: &Self, fuel: &mut Fuel) -> Result<(), Failure> {
        for (monomial, coefficient) in &other.0 {
            self.add_term(monomial.clone(), coefficient, fuel)?;
        }
        Ok(())
    }

    /// The product with a number.
    pub fn times_rational(&self, factor: &BigRational, fuel: &mut Fuel) -> Result<Self, Failure> {
        let mut product = BTreeMap::new();
        if !factor.is_zero() {
            for (monomial, coefficient) in &self.0 {
                product.insert(monomial.clone(), number::multiply(coefficient, factor, fuel)?);
            }
        }
        Ok(Self(product))
    }

    /// The product.
    pub fn times(&self, other: &Self, fuel: &mut Fuel) -> Result<Self, Failure> {
        for (one, another) in [(self, other), (other, self)] {
            if let Some(factor) = one.as_rational() {
                return another.times_rational(&factor, fuel);
            }
        }
        let mut product = Self::default();
        for (left, a) in &self.0 {
            for (right, b) in &other.0 {
                let multiplied = left.times(right, fuel)?;
                let coefficient = number::multiply(a, b, fuel)?;
                let coefficient = number::multiply(&coefficient, &multiplied.factor, fuel)?;
                if multiplied.expand.is_empty() {
                    product.add_term(multiplied.monomial, &coefficient, fuel)?;
                    continue;
                }
                let mut expanded = Self::term(multiplied.monomial, coefficient);
                for (atom, exponent) in &multiplied.expand {
                    if let Atom::Group(base) = &**atom {
                        expanded = expanded.times(&base.power(exponent.unsigned_abs(), fuel)?, fuel)?;
                    }
                }
                product.add(&expanded, fuel)?;
            }
        }
        Ok(product)
    }

    /// The polynomial to a power, multiplied out.
    pub fn power(&self, exponent: u64, fuel: &mut Fuel) -> Result<Self, Failure> {
        let mut power = Self::rational(BigRational::one());
        for place in (0..u64::BITS - exponent.leading_zeros()).rev() {
            power = power.times(&power, fuel)?;
            if exponent >> place & 1 == 1 {
                power = power.times(self, fuel)?;
            }
        }
        Ok(power)
    }

    /// The rational number without which the coefficients are integers without a common divisor, and the first of them
    /// in the order of the monomials' display positive. 0 of no terms.
    pub fn content(&self, fuel: &mut Fuel) -> Result<BigRational, Failure> {
        let (mut numerator, mut denominator) = (BigInt::zero(), BigInt::one());
        for coefficient in self.0.values() {
            let size = number::bits(coefficient) + numerator.bits() + denominator.bits();
            fuel.spend(1 + size * size / 8192)?;
            numerator = numerator.gcd(coefficient.numer());
            denominator = denominator.lcm(coefficient.denom());
        }
        let first = self.0.iter().min_by(|(a, _), (b, _)| a.display_order(b));
        if first.is_some_and(|(_, coefficient)| coefficient.is_negative()) {
            numerator = -numerator;
        }
        Ok(BigRational::new(numerator, denominator))
    }

    /// Of a sum of square roots of integers, a factor that leaves fewer of them: the sum with the other root of one.
    pub fn conjugate(&self, fuel: &mut Fuel) -> Result<Option<Self>, Failure> {
        let half = Exponent::new_raw(1, 2);
        let is_root =
            |(atom, exponent): &(Shared, Exponent)| matches!(**atom, Atom::Integer(_)) && *exponent == half;
        if !self.0.keys().all(|monomial| monomial.0.iter().all(is_root)) {
            return Ok(None);
        }
        let Some((root, _)) = self.0.keys().find_map(|monomial| monomial.0.first()) else { return Ok(None) };
        let mut conjugate = Self::default();
        for (monomial, coefficient) in &self.0 {
            let changes = monomial.0.iter().any(|(atom, _)| atom == root);
            let coefficient = if changes { -coefficient } else { coefficient.clone() };
            conjugate.add_term(monomial.clone(), &coefficient, fuel)?;
        }
        Ok(Some(conjugate))
    }

    /// The quotient, if it is a polynomial that few steps of long division find.
    pub fn divided_by(&self, divisor: &Self, fuel: &mut Fuel) -> Result<Option<Self>, Failure> {
        const MAX_STEPS: usize = 40;
        let Some((leading, leading_coefficient)) = divisor.0.last_key_value() else { return Ok(None) };
        // Roots of numbers do not keep the order of monomials; without them, a multiple of a sum is a sum.
        let has_roots = divisor.0.keys().any(|monomial| {
            monomial.0.iter().any(|(atom, _)| matches!(**atom, Atom::Integer(_) | Atom::Group(_)))
        });
        if has_roots || self.0.len() < divisor.0.len().min(2) {
            return Ok(None);
        }
        let Some(inverse) = leading.power((-1).into(), fuel)? else { return Ok(None) };
        if !inverse.expand.is_empty() {
            return Ok(None);
        }
        let inverse_coefficient = number::multiply(&leading_coefficient.recip(), &inverse.factor, fuel)?;
        let mut remainder = self.clone();
        let mut quotient = Self::default();
        for _ in 0..MAX_STEPS.min(2 * self.0.len() + 4) {
            let Some((first, coefficient)) = remainder.0.last_key_value() else { return Ok(Some(quotient)) };
            let step = first.times(&inverse.monomial, fuel)?;
            // Symbols have no negative powers in what is usual, so that a division that does not end shows early.
            let negative = |monomial: &Monomial| {
                monomial
                    .0
                    .iter()
                    .any(|(atom, exponent)| matches!(**atom, Atom::Symbol(_)) && exponent.is_negative())
            };
            if !step.expand.is_empty() || negative(&step.monomial) && !self.0.keys().any(negative) {
                return Ok(None);
            }
            let coefficient = number::multiply(coefficient, &inverse_coefficient, fuel)?;
            let coefficient = number::multiply(&coefficient, &step.factor, fuel)?;
            let step = Self::term(step.monomial, coefficient);
            quotient.add(&step, fuel)?;
            let minus = step.times_rational(&-BigRational::one(), fuel)?;
            remainder.add(&minus.times(divisor, fuel)?, fuel)?;
        }
        Ok(remainder.is_zero().then_some(quotient))
    }
}
