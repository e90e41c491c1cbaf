//! Numbers of choices in other notations than `\binom`: C(5, 2), P(5, 2), `C_5^2`. Since C and P may be anything else, they are
//! read so only where the other answer does not have them.

use num_traits::Signed;

use super::super::expression::{Expression, Function};

/// Both expressions, with the numbers of choices that one of them has for the letters in it; `None` if neither has one.
pub(super) fn in_numbers(a: &Expression, b: &Expression) -> Option<(Expression, Expression)> {
    match (counted(a), counted(b)) {
        (Some(a), None) => Some((a, b.clone())),
        (None, Some(b)) => Some((a.clone(), b)),
        _ => None,
    }
}

/// An expression with numbers of choices for C(n, k) and P(n, k); `None` if it has none.
pub(super) fn counted(expression: &Expression) -> Option<Expression> {
    if let Some(number) = number(expression) {
        return Some(number);
    }
    let among = |parts: &[Expression]| -> Option<Vec<Expression>> {
        let counted: Vec<_> = parts.iter().map(counted).collect();
        counted.iter().any(Option::is_some).then(|| {
            counted
                .into_iter()
                .zip(parts)
                .map(|(counted, part)| counted.unwrap_or_else(|| part.clone()))
                .collect()
        })
    };
    match expression {
        Expression::Sum(terms) => among(terms).map(Expression::Sum),
        Expression::Product(factors) => among(factors).map(Expression::Product),
        Expression::Power(power) => counted(&power.0).map(|base| Expression::power(base, power.1.clone())),
        _ => None,
    }
}

fn number(expression: &Expression) -> Option<Expression> {
    let (letter, [n, k]) = choices(expression)?;
    Some(if letter == "C" { binomial(&n, &k) } else { permutations(&n, &k) })
}

/// The letter of an expression that is a number of choices, and its n and k.
pub(super) fn choices(expression: &Expression) -> Option<(&str, [Expression; 2])> {
    match expression {
        Expression::Unknown(name, arguments) => {
            let [n, k] = &arguments[..] else { return None };
            matches!(&**name, "C" | "P" | "A").then(|| (&**name, [n.clone(), k.clone()]))
        }
        // C_5^2 is of 5, and C^2_5 as well.
        Expression::Power(power) => {
            let (Expression::Symbol(name), k) = &**power else { return None };
            let (letter, n) = name.split_once('_')?;
            let n = n.parse::<u32>().map(Expression::integer).unwrap_or_else(|_| Expression::symbol(n));
            let is_choice = letter == "C" || matches!(letter, "P" | "A") && is_count(k);
            is_choice.then(|| (letter, [n, k.clone()]))
        }
        _ => None,
    }
}

fn is_count(expression: &Expression) -> bool {
    matches!(expression, Expression::Number(number) if number.is_integer() && !number.is_negative())
}

fn binomial(n: &Expression, k: &Expression) -> Expression {
    Expression::Function(Function::Binomial, vec![n.clone(), k.clone()])
}

fn permutations(n: &Expression, k: &Expression) -> Expression {
    let factorial = |of| Expression::Function(Function::Factorial, vec![of]);
    // Of 2000 things, n! and (n - k)! are large where n! / (n - k)! is not.
    if is_count(n) && is_count(k) {
        return Expression::Product(vec![factorial(k.clone()), binomial(n, k)]);
    }
    factorial(n.clone()).over(factorial(Expression::Sum(vec![n.clone(), k.clone().negated()])))
}
