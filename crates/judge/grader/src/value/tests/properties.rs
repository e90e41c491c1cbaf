//! Properties of the comparison of values, on random expressions.

use crate::expression::{Constant, Decimal, Expression, Function};
use crate::fuel::{Fuel, OutOfFuel};
use crate::value::{DEFAULT_FUEL, Tolerance, compare, constant_ratio, rational_value, same_value};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

/// All functions.
#[rustfmt::skip]
const FUNCTIONS: [Function; 25] = {
    use Function::*;
    [
        Sin, Cos, Tan, Cot, Sec, Csc, Arcsin, Arccos, Arctan, Arccot, Sinh, Cosh, Tanh, Ln, Log, Abs, Floor,
        Ceiling, Factorial, Binomial, Permutations, Gcd, Lcm, Min, Max,
    ]
};

fn same(a: &Expression, b: &Expression) -> Result<bool, OutOfFuel> {
    same_value(a, b, Tolerance::default(), &mut Fuel::new(DEFAULT_FUEL))
}

fn fraction(numerator: i64, denominator: i64) -> Expression {
    Expression::Number(BigRational::new(numerator.into(), denominator.into()))
}

/// Small expressions in x and y of the usual operations.
fn usual() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        4 => (-9i64..10).prop_map(Expression::integer),
        2 => (-9i64..10, 1i64..7).prop_map(|(n, d)| fraction(n, d)),
        4 => prop_oneof![Just("x"), Just("y")].prop_map(Expression::symbol),
        1 => Just(Expression::Constant(Constant::Pi)),
        1 => (2i64..13).prop_map(|n| Expression::integer(n).root(Expression::integer(2))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let function = prop_oneof![
            Just(Function::Sin),
            Just(Function::Cos),
            Just(Function::Arctan),
            Just(Function::Abs)
        ];
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Sum),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Product),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a.over(b)),
            2 => (inner.clone(), -2i64..4)
                .prop_map(|(base, n)| Expression::power(base, Expression::integer(n))),
            1 => inner.clone().prop_map(|base| base.root(Expression::integer(2))),
            1 => inner.clone().prop_map(|x| Expression::power(Expression::integer(2), x)),
            1 => (function, inner).prop_map(|(function, x)| Expression::Function(function, vec![x])),
        ]
    })
}

/// Everything that can be written, sense or nonsense.
fn any_expression() -> impl Strategy<Value = Expression> {
    let constant = prop_oneof![
        Just(Constant::Pi),
        Just(Constant::E),
        Just(Constant::I),
        Just(Constant::Infinity),
        Just(Constant::Degree)
    ];
    let leaf = prop_oneof![
        (-20i64..20).prop_map(Expression::integer),
        (any::<i64>(), any::<u32>()).prop_map(|(n, d)| fraction(n, i64::from(d).max(1))),
        any::<i128>().prop_map(|n| Expression::integer(BigInt::from(n).pow(9))),
        (any::<i32>(), -40i32..40).prop_map(|(digits, last_digit)| {
            let value = BigRational::from_integer(digits.into())
                * BigRational::from_integer(10.into()).pow(last_digit);
            Expression::Decimal(Decimal { value, last_digit })
        }),
        constant.prop_map(Expression::Constant),
        prop_oneof![Just("x"), Just("n")].prop_map(Expression::symbol),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| {
        let arguments = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::Sum),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::Product),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expression::power(a, b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.root(b)),
            (prop::sample::select(FUNCTIONS.to_vec()), inner)
                .prop_map(|(function, x)| Expression::Function(function, vec![x])),
            (prop::sample::select(FUNCTIONS.to_vec()), arguments.clone())
                .prop_map(|(function, arguments)| Expression::Function(function, arguments)),
            arguments.prop_map(|arguments| Expression::Unknown("f".into(), arguments)),
        ]
    })
}

/// The value in other words, as the choices say.
fn rewritten(expression: &Expression, choices: &mut impl Iterator<Item = u8>) -> Expression {
    use Expression::{Function as Call, Power, Product, Sum};
    let choice = choices.next().unwrap_or(0);
    let mut all = |parts: &[Expression]| -> Vec<Expression> {
        parts.iter().map(|part| rewritten(part, &mut *choices)).collect()
    };
    let inner = match expression {
        Sum(parts) => {
            let mut parts = all(parts);
            let first = usize::from(choice / 8) % parts.len();
            parts.rotate_left(first);
            Sum(parts)
        }
        Product(parts) => {
            let mut parts = all(parts);
            let first = usize::from(choice / 8) % parts.len();
            parts.rotate_left(first);
            match (choice % 3, parts.as_slice()) {
                // Distributes the first factor over the terms of the second.
                (0, [factor, Sum(terms), rest @ ..]) => {
                    let term = |term: &Expression| {
                        Product([&[factor.clone(), term.clone()], rest].concat())
                    };
                    Sum(terms.iter().map(term).collect())
                }
                _ => Product(parts),
            }
        }
        Power(power) => {
            // A whole exponent does not change: only then is a power of a negative number real.
            let mut parts = all(&[power.0.clone(), power.1.clone()]);
            if power.1.is_number() {
                parts[1] = power.1.clone();
            }
            // So does a root's base: where it varies, it must not be negative.
            if !matches!(&power.1, Expression::Number(n) if n.is_integer()) {
                parts[0] = power.0.clone();
            }
            match &parts[..] {
                [base, Expression::Number(n)] if *n == BigRational::from_integer(2.into()) => {
                    Product(vec![base.clone(), base.clone()])
                }
                [base, exponent] => Expression::power(base.clone(), exponent.clone()),
                _ => expression.clone(),
            }
        }
        Call(function, arguments) => Call(*function, all(arguments)),
        leaf => leaf.clone(),
    };
    let factor = |kind: u8| match kind % 3 {
        0 => Expression::integer(3),
        1 => Expression::power(Expression::Constant(Constant::E), Expression::symbol("x")),
        _ => Sum(vec![Expression::integer(7), Expression::integer(2).root(Expression::integer(2))]),
    };
    match choice % 8 {
        1 => Sum(vec![Expression::integer(0), inner]),
        2 => Product(vec![factor(choice / 8), inner]).over(factor(choice / 8)),
        3 => Sum(vec![factor(choice / 8), inner, factor(choice / 8).negated()]),
        4 => inner.negated().negated(),
        _ => inner,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_rewritten_is_the_same(tree in usual(), choices in prop::collection::vec(any::<u8>(), 40)) {
        let other = rewritten(&tree, &mut choices.into_iter());
        // Something without a value is the same as nothing.
        let itself = Expression::Sum(vec![Expression::integer(0), tree.clone()]);
        if same(&tree, &itself) == Ok(true) {
            prop_assert_eq!(same(&tree, &other), Ok(true), "{:?}\n{:?}", tree, other);
        }
    }

    #[test]
    fn what_is_perturbed_is_not(
        tree in usual(),
        choices in prop::collection::vec(any::<u8>(), 40),
        numerator in 1i64..5,
        denominator in 1i64..1_000_000_000,
    ) {
        let other = rewritten(&tree, &mut choices.into_iter());
        let other = Expression::Sum(vec![other, fraction(numerator, denominator)]);
        prop_assert_ne!(same(&tree, &other), Ok(true), "{:?}\n{:?}", tree, other);
    }

    #[test]
    fn comparison_is_symmetric_and_repeatable(a in usual(), b in usual()) {
        let found = same(&a, &b);
        prop_assert_eq!(found, same(&a, &b));
        if let (Ok(found), Ok(reverse)) = (found, same(&b, &a)) {
            prop_assert_eq!(found, reverse);
        }
        let ratio = |a: &Expression, b: &Expression| constant_ratio(a, b, &mut Fuel::new(DEFAULT_FUEL));
        let twice = Expression::Product(vec![Expression::integer(-2), a.clone()]);
        if same(&a, &twice) == Ok(false) && ratio(&a, &b).is_ok_and(|sign| sign.is_some()) {
            prop_assert!(ratio(&b, &a).is_ok_and(|sign| sign.is_some()));
            prop_assert!(ratio(&a, &twice).is_ok_and(|sign| sign.is_some()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_panics(a in any_expression(), b in any_expression(), fuel in 0u64..30_000, decimals in any::<u32>()) {
        let tolerance = Tolerance { decimals, ..Tolerance::default() };
        let _ = same_value(&a, &b, tolerance, &mut Fuel::new(fuel));
        let _ = compare(&a, &b, &mut Fuel::new(fuel));
        let _ = constant_ratio(&a, &b, &mut Fuel::new(fuel));
        let _ = rational_value(&a, &mut Fuel::new(fuel));
    }
}

/// An expression around another.
type Wrapping = fn(Expression) -> Expression;

#[test]
fn deep_expressions_need_little_stack() {
    let nestings: [Wrapping; 3] = [
        |x| Expression::Function(Function::Sin, vec![x]),
        |x| Expression::integer(1).over(Expression::Sum(vec![x, Expression::symbol("y")])),
        |x| Expression::Unknown("f".into(), vec![x.negated()]),
    ];
    for depth in [200, 400, 2000] {
        for wrap in nestings {
            let compared = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
                let [a, b] = ["x", "y"]
                    .map(|name| (0..depth).fold(Expression::symbol(name), |inner, _| wrap(inner)));
                same(&a, &b)
            });
            let found = compared.unwrap().join().expect("the thread ends");
            assert_ne!(found, Ok(true));
        }
    }
}
