//! Numeric evaluation of canonical forms, of constants or at a pseudo-random point.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;
use num_rational::BigRational;

use super::complex::Complex;
use super::failure::Failure;
use super::form::Form;
use super::monomial::{Atom, Shared};
use super::number::{self, Exponent};
use super::polynomial::Polynomial;
use super::real::Real;
use crate::expression::Function;
use crate::fuel::Fuel;

/// Points at which forms are evaluated: the range of the variables' magnitudes, in 1024ths, and which signs they take.
pub const POINTS: [(u64, u64, Signs); 10] = [
    (1, 1024, Signs::Positive),
    (1024, 4096, Signs::Positive),
    (4096, 40960, Signs::Positive),
    (1024, 4096, Signs::Mixed),
    (1, 1024, Signs::Negative),
    (1024, 4096, Signs::Negative),
    (1, 1024, Signs::Mixed),
    (1, 128, Signs::Positive),
    (1024, 8192, Signs::Mixed),
    (4096, 40960, Signs::Negative),
];

/// Magnitudes from here on, in 1024ths, are whole numbers.
const WHOLE: u64 = 4096;

/// Bits after the point that must be zero in what is taken for an integer.
const WHOLE_BITS: i64 = 96;

/// Largest and smallest binary exponent of a value that is used further.
const MAX_EXPONENT: i64 = 1 << 48;

/// The cost of an elementary function.
const FUNCTION_COST: u64 = 100;

/// Which signs variables take.
#[derive(Clone, Copy)]
pub enum Signs {
    Positive,
    Negative,
    Mixed,
}

/// A form's values at the points where it has one.
pub struct Evaluator<'a> {
    /// Index of the point.
    point: usize,
    /// Names of the variables that are positive integers.
    whole: &'a BTreeSet<Box<str>>,
    /// Whether a root or logarithm of what is not positive has been taken, which has other values as well.
    pub branched: bool,
    values: BTreeMap<&'a Shared, Option<Complex>>,
}

impl<'a> Evaluator<'a> {
    /// For constants and the variables' values at a point.
    pub fn at(point: usize, whole: &'a BTreeSet<Box<str>>) -> Self {
        Self { point, whole, branched: false, values: BTreeMap::new() }
    }

    /// The form's value.
    pub fn form(&mut self, form: &'a Form, fuel: &mut Fuel) -> Result<Option<Complex>, Failure> {
        let Some((numerator, _)) = self.polynomial(form.numerator(), fuel)? else { return Ok(None) };
        if form.as_polynomial().is_some() {
            return Ok(Some(numerator));
        }
        let denominator = self.polynomial(form.denominator(), fuel)?;
        Ok(denominator.and_then(|(value, _)| value.reciprocal()).map(|inverse| numerator * inverse))
    }

    /// The polynomial's value, and the binary exponent of its largest term.
    pub fn polynomial(
        &mut self,
        polynomial: &'a Polynomial,
        fuel: &mut Fuel,
    ) -> Result<Option<(Complex, i64)>, Failure> {
        let mut sum = Complex::ZERO;
        let mut scale = Real::ZERO.exponent();
        for (monomial, coefficient) in polynomial.terms() {
            fuel.spend(monomial.weight().saturating_add(2 + number::bits(coefficient) / 64))?;
            let mut term = Complex::real(Real::rational(coefficient));
            for (atom, exponent) in &monomial.0 {
                let Some(value) = self.atom(atom, fuel)? else { return Ok(None) };
                let Some(power) = self.atom_power(atom, value, *exponent, fuel)? else { return Ok(None) };
                term = term * power;
            }
            scale = scale.max(term.exponent());
            sum = sum + term;
        }
        Ok((scale < MAX_EXPONENT).then_some((sum, scale)))
    }

    fn atom_power(
        &mut self,
        atom: &Atom,
        value: Complex,
        exponent: Exponent,
        fuel: &mut Fuel,
    ) -> Result<Option<Complex>, Failure> {
        if exponent == Exponent::from_integer(1) {
            return Ok(Some(value));
        }
        fuel.spend(if exponent.is_integer() { 64 } else { 2 * FUNCTION_COST })?;
        if matches!(atom, Atom::Integer(integer) if integer.sign() == num_bigint::Sign::Minus) {
            let angle = BigRational::new((*exponent.numer()).into(), (*exponent.denom()).into());
            let angle = Complex::real(Real::rational(&angle)) * Complex::pi();
            return Ok(match (exponent.numer(), exponent.denom()) {
                (1, 2) => Some(Complex::i()),
                _ => (angle * Complex::i()).exp(),
            });
        }
        if !exponent.is_integer() && !has_real_root(value, exponent) && varies(atom) {
            self.branched = true;
        }
        Ok(value.power(exponent).filter(|power| power.exponent().abs() < MAX_EXPONENT || is_zero(*power)))
    }

    fn atom(&mut self, atom: &'a Shared, fuel: &mut Fuel) -> Result<Option<Complex>, Failure> {
        match &**atom {
            Atom::Integer(value) => {
                return Ok(Some(Complex::real(Real::rational(&BigRational::from_integer(value.clone())))));
            }
            Atom::Pi => return Ok(Some(Complex::pi())),
            Atom::Infinity => return Ok(None),
            Atom::Symbol(name) => return Ok(Some(self.symbol(name))),
            _ => {}
        }
        if let Some(value) = self.values.get(atom) {
            return Ok(*value);
        }
        fuel.spend(FUNCTION_COST)?;
        let value = match &**atom {
            Atom::E => Complex::integer(1).exp(),
            Atom::Power(base, exponent) => self.power(base, exponent, fuel)?,
            Atom::Group(polynomial) => self.polynomial(polynomial, fuel)?.map(|(value, _)| value),
            Atom::Function(function, arguments) => match self.all(arguments, fuel)? {
                Some(values) => self.function(*function, arguments, &values, fuel)?,
                None => None,
            },
            Atom::Unknown(name, arguments) => {
                self.all(arguments, fuel)?.and_then(|values| unknown(name, &values))
            }
            Atom::Integer(_) | Atom::Pi | Atom::Infinity | Atom::Symbol(_) => None,
        };
        let value = value.filter(|value| value.exponent() < MAX_EXPONENT);
        self.values.insert(atom, value);
        Ok(value)
    }

    fn all(&mut self, arguments: &'a [Form], fuel: &mut Fuel) -> Result<Option<Vec<Complex>>, Failure> {
        arguments.iter().map(|argument| self.form(argument, fuel)).collect()
    }

    fn symbol(&self, name: &str) -> Complex {
        let (low, high, signs) = POINTS[self.point % POINTS.len()];
        let bits = hash(name, self.point as u64);
        if self.whole.contains(name) {
            return Complex::integer(1 + (bits % (6 + 3 * self.point as u64)) as i64);
        }
        let magnitude = low + bits % (high - low);
        let magnitude = if low >= WHOLE { magnitude & !1023 } else { magnitude };
        let magnitude = Complex::real(Real::integer(magnitude as i64).scaled(-10));
        match signs {
            Signs::Positive => magnitude,
            Signs::Negative => -magnitude,
            Signs::Mixed if bits >> 40 & 1 == 1 => magnitude,
            Signs::Mixed => -magnitude,
        }
    }

    fn power(
        &mut self,
        base: &'a Form,
        exponent: &'a Form,
        fuel: &mut Fuel,
    ) -> Result<Option<Complex>, Failure> {
        fuel.spend(2 * FUNCTION_COST)?;
        let (Some(base_value), Some(exponent)) = (self.form(base, fuel)?, self.form(exponent, fuel)?) else {
            return Ok(None);
        };
        self.branched |= !is_positive(base_value) && !base.is_constant();
        if matches!(base.as_atom(), Some(Atom::E)) {
            return Ok(exponent.exp());
        }
        Ok(base_value.ln().and_then(|logarithm| (logarithm * exponent).exp()))
    }

    fn function(
        &mut self,
        function: Function,
        arguments: &[Form],
        values: &[Complex],
        fuel: &mut Fuel,
    ) -> Result<Option<Complex>, Failure> {
        fuel.spend(FUNCTION_COST)?;
        let reals = || values.iter().map(|value| value.as_real()).collect::<Option<Vec<Real>>>();
        Ok(match (function, values) {
            (Function::Sin, [x]) => x.sin(),
            (Function::Cos, [x]) => x.cos(),
            (Function::Arctan, [x]) => x.arctan(),
            (Function::Arcsin, [x]) => {
                let arc = x.arcsin();
                self.branched |= arc.is_some_and(|arc| !arc.is_real()) && !arguments[0].is_constant();
                arc
            }
            (Function::Ln, [x]) => {
                self.branched |= !is_positive(*x) && !arguments[0].is_constant();
                x.ln()
            }
            (Function::Abs, [x]) => x.magnitude().map(Complex::real),
            (Function::Floor, [x]) => x.as_real().and_then(floor_of).map(|floor| from_integer(&floor)),
            (Function::Factorial, [x]) => match x.as_real().and_then(integer_of) {
                Some(n) => number::factorial(&n, fuel)?.map(|value| from_integer(&value)),
                None => None,
            },
            (Function::Gcd | Function::Lcm, _) => {
                let integers: Option<Vec<BigInt>> =
                    reals().and_then(|reals| reals.into_iter().map(integer_of).collect());
                match integers {
                    Some(integers) => {
                        let value = number::gcd_or_lcm(&integers, function == Function::Lcm, fuel)?;
                        Some(from_integer(&value))
                    }
                    None => None,
                }
            }
            (Function::Min | Function::Max, _) => {
                reals().and_then(|reals| extreme(&reals, function == Function::Max)).map(Complex::real)
            }
            _ => None,
        })
    }
}

/// Whether the atom's value depends on a variable or an unknown function.
fn varies(atom: &Atom) -> bool {
    atom.any(&mut |atom| matches!(atom, Atom::Symbol(_) | Atom::Unknown(..)))
}

fn is_zero(value: Complex) -> bool {
    value.re.is_zero() && value.im.is_zero()
}

fn is_positive(value: Complex) -> bool {
    value.is_real() && value.re.sign() == Some(Ordering::Greater)
}

/// Whether the principal power of the number is a real one, or taken to be.
fn has_real_root(value: Complex, exponent: Exponent) -> bool {
    value.is_real() && (exponent.denom() % 2 == 1 || value.re.sign().is_some_and(Ordering::is_ge))
}

fn from_integer(value: &BigInt) -> Complex {
    Complex::real(Real::rational(&BigRational::from_integer(value.clone())))
}

/// The floor of a number that is certainly between two integers, or exactly one.
pub fn floor_of(value: Real) -> Option<BigInt> {
    let exact = value.to_rational(2 * MAX_BITS)?;
    let floor = exact.floor();
    let distance = Real::rational(&(&exact - &floor));
    let remaining = Real::rational(&(&floor + BigRational::from_integer(1.into()) - &exact));
    let is_clear = value.error() < distance.exponent() - 1 && value.error() < remaining.exponent() - 1;
    (is_clear || value.error() == Real::ZERO.error()).then(|| floor.to_integer())
}

/// Bits that a number whose integer part is asked for may have.
const MAX_BITS: i64 = 4096;

/// The integer that a number is.
fn integer_of(value: Real) -> Option<BigInt> {
    let exact = value.to_rational(2 * MAX_BITS)?;
    let nearest = exact.round();
    let distance = Real::rational(&(&exact - &nearest));
    (distance.is_zero() || distance.exponent() < -WHOLE_BITS).then(|| nearest.to_integer())
}

fn extreme(values: &[Real], greatest: bool) -> Option<Real> {
    let (first, rest) = values.split_first()?;
    rest.iter().try_fold(*first, |best, &value| {
        let order = (value - best).sign()?;
        Some(if order == if greatest { Ordering::Greater } else { Ordering::Less } { value } else { best })
    })
}

/// Values of a function of which nothing is known: of one that no identity holds for.
fn unknown(name: &str, arguments: &[Complex]) -> Option<Complex> {
    let coefficient =
        |index: u64| Complex::real(Real::integer((hash(name, index) % 1024) as i64 + 512).scaled(-10));
    let mut sum = coefficient(0);
    for (index, &argument) in arguments.iter().enumerate() {
        let index = 2 * index as u64;
        sum = sum + argument * (coefficient(index + 1) + coefficient(index + 2) * argument.sin()?);
    }
    Some(sum * sum + sum.cos()?)
}

/// Pseudo-random bits: FNV-1a of the name, mixed with the index by SplitMix64.
fn hash(name: &str, index: u64) -> u64 {
    let name = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut bits = name.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
