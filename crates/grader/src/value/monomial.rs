//! Products of powers of atoms.

use std::cmp::Ordering;
use std::rc::Rc;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{CheckedAdd, CheckedMul, One, Signed, Zero};

use super::failure::Failure;
use super::form::Form;
use super::number::{self, Exponent};
use super::polynomial::Polynomial;
use crate::expression::Function;
use crate::fuel::Fuel;

/// A sum to at most this power is multiplied out.
pub const MAX_EXPANDED: i64 = 200;

/// What polynomials are in: numbers that are not rational, variables, and functions of either.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// -1 or a prime number, as the base of a root: its exponents are above 0 and below 1. (The imaginary unit is
    /// (-1)^(1/2).) A number in which trial division found no prime passes for one.
    Integer(BigInt),
    /// Circumference over diameter of a circle.
    Pi,
    /// Base of the natural logarithm.
    E,
    /// Positive infinity.
    Infinity,
    /// A variable.
    Symbol(Box<str>),
    /// Base and exponent, which is no rational number unless the power were too large to compute.
    Power(Form, Form),
    /// A known function of what it could not be evaluated at.
    Function(Function, Vec<Form>),
    /// A function of which nothing is known.
    Unknown(Box<str>, Vec<Form>),
    /// A polynomial as the base of a root, or of a power too large to multiply out. Its exponents are positive.
    Group(Polynomial),
}

impl Atom {
    /// Whether the atom is a positive real number for all real variables.
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Integer(value) => value.is_positive(),
            Self::Pi | Self::E | Self::Infinity => true,
            Self::Power(base, exponent) => {
                base.is_positive_constant() && !exponent.any_atom(&mut |atom| !atom.is_surely_real())
            }
            _ => false,
        }
    }

    fn is_surely_real(&self) -> bool {
        matches!(self, Self::Pi | Self::E | Self::Symbol(_))
            || matches!(self, Self::Integer(value) if value.is_positive())
    }

    /// Base and exponent, or arguments.
    pub fn forms(&self) -> Vec<&Form> {
        match self {
            Self::Power(base, exponent) => vec![base, exponent],
            Self::Function(_, arguments) | Self::Unknown(_, arguments) => arguments.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the test holds for this atom or any within it.
    pub fn any(&self, test: &mut dyn FnMut(&Self) -> bool) -> bool {
        if test(self) {
            return true;
        }
        match self {
            Self::Group(polynomial) => polynomial.any_atom(test),
            _ => self.forms().into_iter().any(|form| form.any_atom(test)),
        }
    }
}

/// An atom in any number of monomials, with its weight.
#[derive(Clone, Debug)]
pub struct Shared(Rc<(u64, Atom)>);

impl Shared {
    /// Shares an atom.
    pub fn new(atom: Atom) -> Self {
        let own = match &atom {
            Atom::Integer(value) => value.bits() / 64,
            Atom::Group(polynomial) => polynomial.weight(),
            _ => 0,
        };
        let parts = atom.forms().into_iter().flat_map(|form| [form.numerator(), form.denominator()]);
        let weight = parts.fold(own.saturating_add(1), |sum, part| sum.saturating_add(part.weight()));
        Self(Rc::new((weight, atom)))
    }

    /// Parts of the atom, which bound the work of comparing it.
    pub fn weight(&self) -> u64 {
        self.0.0
    }
}

impl std::ops::Deref for Shared {
    type Target = Atom;

    fn deref(&self) -> &Atom {
        &self.0.1
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Shared {}

impl Ord for Shared {
    fn cmp(&self, other: &Self) -> Ordering {
        if Rc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A product of powers of different atoms, in the atoms' order. No exponent is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monomial(pub Vec<(Shared, Exponent)>);

/// A product of two monomials: a monomial, the rational number that its roots gave, and polynomials to some power whose
/// roots became whole.
pub struct Multiplied {
    pub monomial: Monomial,
    pub factor: BigRational,
    pub expand: Vec<(Shared, i64)>,
}

impl Monomial {
    /// The power of an atom. The exponent of an [`Atom::Integer`] must be above 0 and below 1.
    pub fn of(atom: Atom, exponent: Exponent) -> Self {
        Self(if exponent.is_zero() { Vec::new() } else { vec![(Shared::new(atom), exponent)] })
    }

    /// Whether this is the empty product.
    pub fn is_one(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts of the monomial, which bound the work of comparing it.
    pub fn weight(&self) -> u64 {
        self.0.iter().fold(1, |sum, (atom, _)| sum.saturating_add(atom.weight()))
    }

    /// The product.
    pub fn times(&self, other: &Self, fuel: &mut Fuel) -> Result<Multiplied, Failure> {
        fuel.spend(self.weight().saturating_add(other.weight()).saturating_add(4))?;
        let mut product = Multiplied {
            monomial: Self(Vec::with_capacity(self.0.len() + other.0.len())),
            factor: BigRational::one(),
            expand: Vec::new(),
        };
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return Ok(product),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            match order {
                Ordering::Less => product.monomial.0.extend(left.next().cloned()),
                Ordering::Greater => product.monomial.0.extend(right.next().cloned()),
                Ordering::Equal => {
                    if let (Some((atom, a)), Some((_, b))) = (left.next(), right.next()) {
                        let sum = a.checked_add(b).ok_or(Failure::OutOfFuel)?;
                        if sum.is_negative() && matches!(**atom, Atom::Group(_)) {
                            product.monomial.0.push((atom.clone(), sum));
                        } else {
                            product.push(atom, sum, fuel)?;
                        }
                    }
                }
            }
        }
    }

    /// Each exponent times a number, as a product with what that gives; `None` for exponents too large.
    pub fn power(&self, exponent: Exponent, fuel: &mut Fuel) -> Result<Option<Multiplied>, Failure> {
        let mut product =
            Multiplied { monomial: Self::default(), factor: BigRational::one(), expand: Vec::new() };
        for (atom, own) in &self.0 {
            let Some(exponent) = own.checked_mul(&exponent) else { return Ok(None) };
            product.push(atom, exponent, fuel)?;
        }
        Ok(Some(product))
    }

    /// The order in which terms are shown: by descending degree in the variables, then alphabetically, numbers first.
    pub fn display_order(&self, other: &Self) -> Ordering {
        let degree = |monomial: &Self| {
            monomial.symbols().try_fold(Exponent::zero(), |sum, (_, exponent)| sum.checked_add(exponent))
        };
        degree(other)
            .cmp(&degree(self))
            .then_with(|| lexicographic(other.symbols(), self.symbols()))
            .then_with(|| self.cmp(other))
    }

    fn symbols(&self) -> impl Iterator<Item = &(Shared, Exponent)> {
        self.0.iter().filter(|(atom, _)| matches!(**atom, Atom::Symbol(_)))
    }
}

impl Multiplied {
    /// Another power of an atom: its whole part leaves the monomial if it is a root of a number or a polynomial.
    fn push(&mut self, atom: &Shared, exponent: Exponent, fuel: &mut Fuel) -> Result<(), Failure> {
        let mut exponent = exponent;
        match &**atom {
            Atom::Integer(base) => {
                let whole = exponent.numer().div_floor(exponent.denom());
                exponent -= whole;
                let base = BigRational::from_integer(base.clone());
                let power = number::power(&base, whole, fuel)?.ok_or(Failure::OutOfFuel)?;
                self.factor = number::multiply(&self.factor, &power, fuel)?;
            }
            Atom::Group(_) => {
                let whole = exponent.numer().div_floor(exponent.denom());
                if whole != 0 && whole.abs() <= MAX_EXPANDED {
                    exponent -= whole;
                    self.expand.push((atom.clone(), whole));
                }
            }
            _ => {}
        }
        if !exponent.is_zero() {
            self.monomial.0.push((atom.clone(), exponent));
        }
        Ok(())
    }
}

/// The lexicographic order of products of powers.
fn lexicographic<'a>(
    mut left: impl Iterator<Item = &'a (Shared, Exponent)>,
    mut right: impl Iterator<Item = &'a (Shared, Exponent)>,
) -> Ordering {
    let zero = Exponent::zero();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (Some((_, a)), None) => return a.cmp(&zero),
            (None, Some((_, b))) => return zero.cmp(b),
            (Some((a, m)), Some((b, n))) => match a.cmp(b) {
                Ordering::Less => return m.cmp(&zero),
                Ordering::Greater => return zero.cmp(n),
                Ordering::Equal if m != n => return m.cmp(n),
                Ordering::Equal => {}
            },
        }
    }
}

/// The lexicographic order: multiplying both sides by a monomial does not change it.
impl Ord for Monomial {
    fn cmp(&self, other: &Self) -> Ordering {
        lexicographic(self.0.iter(), other.0.iter())
    }
}

impl PartialOrd for Monomial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
