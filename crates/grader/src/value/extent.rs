//! Infinite values: plus and minus infinity, alone, with a real number added, or times one that is not zero. Anything
//! else that is made of infinity is undefined, as are infinity - infinity, 0 times infinity, powers and functions of it.

use std::cmp::Ordering;

use num_traits::Signed;

use super::failure::Failure;
use super::form::Form;
use super::monomial::Atom;
use super::probe;
use crate::fuel::Fuel;

/// How large a canonical form's value is, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Minus infinity.
    NegativeInfinity,
    /// Infinity is not in it.
    Finite,
    /// Infinity.
    PositiveInfinity,
}

impl Extent {
    /// That of a form.
    pub fn of(form: &Form) -> Self {
        let Some((monomial, coefficient)) = form.as_term() else { return Self::Finite };
        match monomial.0.as_slice() {
            [(atom, _)] if **atom == Atom::Infinity && coefficient.is_negative() => Self::NegativeInfinity,
            [(atom, _)] if **atom == Atom::Infinity => Self::PositiveInfinity,
            _ => Self::Finite,
        }
    }
}

/// a + b.
pub fn sum(a: Form, b: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    match (Extent::of(&a), Extent::of(b)) {
        (Extent::Finite, Extent::Finite) => a.plus(b, fuel),
        (_, Extent::Finite) if is_real(b, fuel)? => Ok(a),
        (Extent::Finite, _) if is_real(&a, fuel)? => Ok(b.clone()),
        (of_a, of_b) if of_a == of_b => Ok(a),
        _ => Err(Failure::Undefined),
    }
}

/// a b.
pub fn product(a: &Form, b: &Form, fuel: &mut Fuel) -> Result<Form, Failure> {
    if Extent::of(a) == Extent::Finite && Extent::of(b) == Extent::Finite {
        return a.times(b, fuel);
    }
    let infinity = Form::atom(Atom::Infinity);
    match (sign(a, fuel)?, sign(b, fuel)?) {
        (Some(Ordering::Equal) | None, _) | (_, Some(Ordering::Equal) | None) => Err(Failure::Undefined),
        (Some(a), Some(b)) if a == b => Ok(infinity),
        _ => infinity.negated(fuel),
    }
}

/// The sign of a constant that is real, or infinite.
fn sign(form: &Form, fuel: &mut Fuel) -> Result<Option<Ordering>, Failure> {
    match Extent::of(form) {
        Extent::NegativeInfinity => Ok(Some(Ordering::Less)),
        Extent::PositiveInfinity => Ok(Some(Ordering::Greater)),
        Extent::Finite => super::sign(form, fuel),
    }
}

/// Whether a form is a real constant.
fn is_real(form: &Form, fuel: &mut Fuel) -> Result<bool, Failure> {
    if !form.is_constant() || form.as_rational().is_some() {
        return Ok(form.is_constant());
    }
    Ok(probe::constant(form, fuel)?.is_some_and(|value| value.as_real().is_some()))
}
