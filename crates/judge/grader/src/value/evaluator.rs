//! Numeric evaluation of expressions, of constants or at a pseudo-random point.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::complex::Complex;
use super::exact::{self, Exponent, MAX_DEPTH, as_exponent, rational};
use super::real::Real;
use crate::expression::{Constant, Expression, Function};
use crate::fuel::{Fuel, OutOfFuel};

/// Points at which expressions are evaluated: the range of the variables' magnitudes, in 1024ths,
/// and their signs.
pub const POINTS: [(u64, u64, Signs); 13] = [
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
    // High powers stay near 1 here.
    (768, 1280, Signs::Positive),
    (768, 1280, Signs::Mixed),
    (768, 1280, Signs::Negative),
];

/// From this magnitude on, in 1024ths, points are whole numbers.
const WHOLE: u64 = 4096;

/// Bits after the point that must be zero for a value to count as an integer.
const WHOLE_BITS: i64 = 96;

/// Largest binary exponent of a value that is still used.
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

/// The value of an expression.
#[derive(Clone, Copy)]
pub struct Value {
    pub number: Complex,
    /// Binary exponent of the largest intermediate number. After cancellation it exceeds the
    /// number's own.
    pub scale: i64,
}

impl Value {
    /// The number after `bits` leading bits were cancelled. For zero, `scale` is the size before.
    fn cancelled(number: Complex, bits: i64, scale: i64) -> Self {
        let is_zero = number.re.is_zero() && number.im.is_zero();
        Self { number, scale: if is_zero { scale } else { number.exponent().saturating_add(bits) } }
    }

    /// How many leading bits were cancelled.
    fn cancelled_bits(self) -> i64 {
        self.scale.saturating_sub(self.number.exponent()).max(0)
    }
}

impl From<Complex> for Value {
    fn from(number: Complex) -> Self {
        Self { number, scale: number.exponent() }
    }
}

/// Evaluates expressions at one point.
pub struct Evaluator<'a> {
    point: usize,
    /// Names of the variables that are positive integers.
    whole: &'a BTreeSet<&'a str>,
    depth: u32,
}

impl<'a> Evaluator<'a> {
    /// An evaluator for constants and for the variables' values at a point.
    pub fn at(point: usize, whole: &'a BTreeSet<&'a str>) -> Self {
        Self { point, whole, depth: 0 }
    }

    /// The value of an expression, if it has one here.
    pub fn value(
        &mut self,
        expression: &Expression,
        fuel: &mut Fuel,
    ) -> Result<Option<Value>, OutOfFuel> {
        if self.depth == MAX_DEPTH {
            return Err(OutOfFuel);
        }
        self.depth += 1;
        let value = self.nested(expression, fuel);
        self.depth -= 1;
        Ok(value?.filter(|value| value.number.exponent() < MAX_EXPONENT))
    }

    fn nested(
        &mut self,
        expression: &Expression,
        fuel: &mut Fuel,
    ) -> Result<Option<Value>, OutOfFuel> {
        fuel.spend(2)?;
        Ok(match expression {
            Expression::Number(value) => Some(real(value, fuel)?.into()),
            Expression::Decimal(decimal) => Some(real(&decimal.value, fuel)?.into()),
            Expression::Constant(constant) => match constant {
                Constant::Pi => Some(Complex::pi().into()),
                Constant::E => Some(Complex::e().into()),
                Constant::I => Some(Complex::i().into()),
                Constant::Degree => {
                    let degrees = BigRational::new(1.into(), 180.into());
                    Some((Complex::pi() * real(&degrees, fuel)?).into())
                }
                Constant::Infinity => None,
            },
            Expression::Symbol(name) => Some(self.symbol(name).into()),
            Expression::Sum(terms) => {
                let mut sum = Value { number: Complex::ZERO, scale: Complex::ZERO.exponent() };
                for term in terms {
                    let Some(term) = self.value(term, fuel)? else { return Ok(None) };
                    // Sums that differ by a lost term must not count as equal.
                    if sum.number.re.loses(term.number.re) || sum.number.im.loses(term.number.im) {
                        return Ok(None);
                    }
                    sum.number = sum.number + term.number;
                    sum.scale = sum.scale.max(term.scale);
                }
                Some(sum)
            }
            Expression::Product(factors) => {
                let (mut product, mut bits, mut scale) = (Complex::integer(1), 0i64, 0i64);
                for factor in factors {
                    let Some(factor) = self.value(factor, fuel)? else { return Ok(None) };
                    product = product * factor.number;
                    bits = bits.saturating_add(factor.cancelled_bits());
                    scale = scale.saturating_add(factor.scale.saturating_sub(1));
                }
                Some(Value::cancelled(product, bits, scale))
            }
            Expression::Power(power) => self.power(&power.0, &power.1, fuel)?,
            Expression::Function(function, arguments) => {
                let Some(values) = self.all(arguments, fuel)? else { return Ok(None) };
                applied(*function, &values, fuel)?
            }
            Expression::Unknown(name, arguments) => {
                let Some(values) = self.all(arguments, fuel)? else { return Ok(None) };
                fuel.spend(FUNCTION_COST * (1 + values.len() as u64))?;
                unknown(name, &values).map(Value::from)
            }
        })
    }

    fn all(
        &mut self,
        arguments: &[Expression],
        fuel: &mut Fuel,
    ) -> Result<Option<Vec<Value>>, OutOfFuel> {
        arguments.iter().map(|argument| self.value(argument, fuel)).collect()
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
        base: &Expression,
        exponent: &Expression,
        fuel: &mut Fuel,
    ) -> Result<Option<Value>, OutOfFuel> {
        if let Some(exponent) =
            rational(exponent, fuel)?.and_then(|exponent| as_exponent(&exponent))
        {
            let Some(value) = self.value(base, fuel)? else { return Ok(None) };
            // The root of an expression with variables is taken as real.
            let is_real =
                exponent.is_integer() || base.is_number() || has_real_root(value.number, exponent);
            return if is_real { raised(value, exponent, fuel) } else { Ok(None) };
        }
        let (Some(value), Some(exponent)) = (self.value(base, fuel)?, self.value(exponent, fuel)?)
        else {
            return Ok(None);
        };
        fuel.spend(2 * FUNCTION_COST)?;
        if *base == Expression::Constant(Constant::E) {
            return Ok(exponent.number.exp().map(Value::from));
        }
        if let Some(whole) = exact_integer(exponent.number) {
            return raised(value, Exponent::from_integer(whole), fuel);
        }
        Ok(value
            .number
            .ln()
            .and_then(|logarithm| (logarithm * exponent.number).exp())
            .map(Value::from))
    }
}

/// The value of a function.
fn applied(
    function: Function,
    values: &[Value],
    fuel: &mut Fuel,
) -> Result<Option<Value>, OutOfFuel> {
    fuel.spend(2 * FUNCTION_COST)?;
    let numbers: Vec<Complex> = values.iter().map(|value| value.number).collect();
    let reals = || numbers.iter().map(|number| number.as_real()).collect::<Option<Vec<Real>>>();
    let integers = || reals()?.into_iter().map(integer_of).collect::<Option<Vec<BigRational>>>();
    let quarter_turn = || Complex::pi().scaled(-1);
    let number = match (function, &numbers[..]) {
        (Function::Sin, [x]) => x.sin(),
        (Function::Cos, [x]) => x.cos(),
        (Function::Tan, [x]) => quotient(x.sin(), x.cos()),
        (Function::Cot, [x]) => quotient(x.cos(), x.sin()),
        (Function::Sec, [x]) => x.cos().and_then(Complex::reciprocal),
        (Function::Csc, [x]) => x.sin().and_then(Complex::reciprocal),
        (Function::Arcsin | Function::Arccos, [x]) => {
            let arc = x.arcsin();
            if function == Function::Arcsin { arc } else { arc.map(|arc| quarter_turn() - arc) }
        }
        (Function::Arctan, [x]) => x.arctan(),
        (Function::Arccot, [x]) => x.arctan().map(|arc| quarter_turn() - arc),
        (Function::Sinh, [x]) => x.hyperbolic(false),
        (Function::Cosh, [x]) => x.hyperbolic(true),
        (Function::Tanh, [x]) => quotient(x.hyperbolic(false), x.hyperbolic(true)),
        (Function::Ln, [x]) => x.ln(),
        (Function::Log, [x, base]) => quotient(x.ln(), base.ln()),
        (Function::Abs, [x]) => x.magnitude().map(Complex::real),
        (Function::Floor, [x]) => x.as_real().and_then(floor_of).map(|floor| from_integer(&floor)),
        (Function::Ceiling, [x]) => {
            x.as_real().and_then(|x| floor_of(-x)).map(|floor| from_integer(&-floor))
        }
        (
            Function::Factorial
            | Function::Binomial
            | Function::Permutations
            | Function::Gcd
            | Function::Lcm,
            _,
        ) => match integers() {
            Some(of) => exact::applied(function, &of, fuel)?
                .map(|value| Complex::real(Real::rational(&value))),
            None => None,
        },
        (Function::Min | Function::Max, _) => {
            reals().and_then(|reals| extreme(&reals, function == Function::Max)).map(Complex::real)
        }
        _ => None,
    };
    let largest = match function {
        Function::Abs | Function::Min | Function::Max => {
            values.iter().map(|value| value.scale).max()
        }
        _ => None,
    };
    let scale = |number: Complex| number.exponent().max(largest.unwrap_or(0));
    Ok(number.map(|number| Value { number, scale: scale(number) }))
}

fn real(value: &BigRational, fuel: &mut Fuel) -> Result<Complex, OutOfFuel> {
    fuel.spend(exact::bits(value) / 64)?;
    Ok(Complex::real(Real::rational(value)))
}

/// A value to a rational power.
fn raised(value: Value, exponent: Exponent, fuel: &mut Fuel) -> Result<Option<Value>, OutOfFuel> {
    fuel.spend(if exponent.is_integer() { 20 } else { 2 * FUNCTION_COST })?;
    let Some(number) = value.number.power(exponent) else { return Ok(None) };
    let is_zero = number.re.is_zero() && number.im.is_zero();
    let times = if exponent.is_integer() { (*exponent.numer()).max(0) } else { 0 };
    let (bits, scale) =
        (value.cancelled_bits().saturating_mul(times), value.scale.saturating_mul(times));
    Ok((is_zero || number.exponent().abs() < MAX_EXPONENT)
        .then(|| Value::cancelled(number, bits, scale.saturating_sub(times))))
}

fn quotient(a: Option<Complex>, b: Option<Complex>) -> Option<Complex> {
    Some(a? * b?.reciprocal()?)
}

/// Whether the principal power of the number is real, or is assumed to be.
fn has_real_root(value: Complex, exponent: Exponent) -> bool {
    value.is_real() && (exponent.denom() % 2 == 1 || value.re.sign().is_some_and(Ordering::is_ge))
}

fn from_integer(value: &BigInt) -> Complex {
    Complex::real(Real::rational(&BigRational::from_integer(value.clone())))
}

/// The small integer that a number is without any error.
fn exact_integer(value: Complex) -> Option<i64> {
    let is_exact = value.is_real() && value.re.error() == Real::ZERO.error();
    let exact =
        value.re.to_rational(2 * MAX_BITS).filter(|exact| is_exact && exact.is_integer())?;
    as_exponent(&exact).map(|exponent| *exponent.numer())
}

/// The floor of a number that is certainly between two integers, or exactly one.
pub fn floor_of(value: Real) -> Option<BigInt> {
    let exact = value.to_rational(2 * MAX_BITS)?;
    let floor = exact.floor();
    let distance = Real::rational(&(&exact - &floor));
    let remaining = Real::rational(&(&floor + BigRational::from_integer(1.into()) - &exact));
    let is_clear =
        value.error() < distance.exponent() - 1 && value.error() < remaining.exponent() - 1;
    (is_clear || value.error() == Real::ZERO.error()).then(|| floor.to_integer())
}

/// Bits that a number whose integer part is asked for may have.
const MAX_BITS: i64 = 4096;

/// The integer that a number is.
fn integer_of(value: Real) -> Option<BigRational> {
    let exact = value.to_rational(2 * MAX_BITS)?;
    let nearest = exact.round();
    let distance = Real::rational(&(&exact - &nearest));
    (distance.is_zero() || distance.exponent() < -WHOLE_BITS).then_some(nearest)
}

fn extreme(values: &[Real], greatest: bool) -> Option<Real> {
    let (first, rest) = values.split_first()?;
    rest.iter().try_fold(*first, |best, &value| {
        let order = (value - best).sign()?;
        Some(if order == if greatest { Ordering::Greater } else { Ordering::Less } {
            value
        } else {
            best
        })
    })
}

/// Pseudo-random values of an unknown function, which obey no identity.
fn unknown(name: &str, arguments: &[Value]) -> Option<Complex> {
    let coefficient = |index: u64| {
        Complex::real(Real::integer((hash(name, index) % 1024) as i64 + 512).scaled(-10))
    };
    let mut sum = coefficient(0);
    for (index, argument) in arguments.iter().enumerate() {
        let index = 2 * index as u64;
        let factor = coefficient(index + 1) + coefficient(index + 2) * argument.number.sin()?;
        sum = sum + argument.number * factor;
    }
    Some(sum * sum + sum.cos()?)
}

/// Pseudo-random bits: FNV-1a of the name, mixed with the index by SplitMix64.
fn hash(name: &str, index: u64) -> u64 {
    let name = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut bits = name.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
