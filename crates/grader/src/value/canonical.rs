//! From an expression to its canonical form.

use num_rational::BigRational;
use num_traits::Zero;

use super::extent::{self, Extent};
use super::failure::Failure;
use super::form::Form;
use super::function;
use super::monomial::{Atom, Monomial};
use super::number;
use super::polynomial::Polynomial;
use super::power::raise;
use crate::expression::{Constant, Expression};
use crate::fuel::Fuel;

/// Operations may be nested as deep as this: bounds the stack.
const MAX_DEPTH: u32 = 500;

/// The canonical form of an expression. Decimals are the numbers as written. Infinity is in none but plus and minus
/// infinity.
pub fn canonical(expression: &Expression, fuel: &mut Fuel) -> Result<Form, Failure> {
    nested(expression, 0, fuel)
}

fn nested(expression: &Expression, depth: u32, fuel: &mut Fuel) -> Result<Form, Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::OutOfFuel);
    }
    fuel.spend(1)?;
    match expression {
        Expression::Number(value) => rational(value),
        Expression::Decimal(decimal) => rational(&decimal.value),
        Expression::Constant(constant) => Ok(named(*constant)),
        Expression::Symbol(name) => Ok(Form::atom(Atom::Symbol(name.clone()))),
        Expression::Sum(terms) => {
            let mut sum = Form::integer(0);
            for term in terms {
                sum = extent::sum(sum, &nested(term, depth + 1, fuel)?, fuel)?;
            }
            Ok(sum)
        }
        Expression::Product(factors) => {
            let mut product = Form::integer(1);
            for factor in factors {
                product = extent::product(&product, &nested(factor, depth + 1, fuel)?, fuel)?;
            }
            Ok(product)
        }
        Expression::Power(power) => {
            let (base, exponent) = &**power;
            raise(&finite(base, depth, fuel)?, &finite(exponent, depth, fuel)?, fuel)
        }
        Expression::Function(name, arguments) => function::apply(*name, all(arguments, depth, fuel)?, fuel),
        Expression::Unknown(name, arguments) => {
            Ok(Form::atom(Atom::Unknown(name.clone(), all(arguments, depth, fuel)?)))
        }
    }
}

fn all(arguments: &[Expression], depth: u32, fuel: &mut Fuel) -> Result<Vec<Form>, Failure> {
    arguments.iter().map(|argument| finite(argument, depth, fuel)).collect()
}

/// A part of an expression that has no value where the part is infinite.
fn finite(part: &Expression, depth: u32, fuel: &mut Fuel) -> Result<Form, Failure> {
    let form = nested(part, depth + 1, fuel)?;
    if Extent::of(&form) == Extent::Finite { Ok(form) } else { Err(Failure::Undefined) }
}

fn rational(value: &BigRational) -> Result<Form, Failure> {
    // A number of such a kind cannot be compared with.
    if value.denom().is_zero() {
        return Err(Failure::Undefined);
    }
    if number::bits(value) > number::MAX_BITS {
        return Err(Failure::OutOfFuel);
    }
    Ok(Form::rational(value.clone()))
}

fn named(constant: Constant) -> Form {
    match constant {
        Constant::Pi => Form::atom(Atom::Pi),
        Constant::E => Form::atom(Atom::E),
        Constant::I => Form::i(),
        Constant::Infinity => Form::atom(Atom::Infinity),
        Constant::Degree => {
            Polynomial::term(Monomial::of(Atom::Pi, 1.into()), BigRational::new(1.into(), 180.into())).into()
        }
    }
}
