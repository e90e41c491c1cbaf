//! Expressions from a line of text such as `2*sqrt(x+1)^3 - 3.50`, for tests.

use crate::expression::{Constant, Decimal, Expression, Function};
use num_bigint::BigInt;
use num_rational::BigRational;

/// Reads an expression: numbers, names, + - * / ^ (or **) !, brackets and calls.
pub fn read(text: &str) -> Expression {
    let text: String = text.replace("**", "^").chars().filter(|c| !c.is_whitespace()).collect();
    let mut reader = Reader { text: text.as_bytes(), place: 0 };
    let expression = reader.sum();
    assert_eq!(reader.place, text.len(), "{text} ends early");
    expression
}

struct Reader<'a> {
    text: &'a [u8],
    place: usize,
}

impl Reader<'_> {
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.text.get(self.place) == Some(&byte);
        self.place += usize::from(found);
        found
    }

    fn sum(&mut self) -> Expression {
        let mut terms = vec![self.product()];
        loop {
            if self.takes(b'+') {
                terms.push(self.product());
            } else if self.takes(b'-') {
                terms.push(self.product().negated());
            } else {
                return only_or(terms, Expression::Sum);
            }
        }
    }

    fn product(&mut self) -> Expression {
        let mut factors = vec![self.signed()];
        loop {
            if self.takes(b'*') {
                factors.push(self.signed());
            } else if self.takes(b'/') {
                factors.push(Expression::power(self.signed(), Expression::integer(-1)));
            } else {
                return only_or(factors, Expression::Product);
            }
        }
    }

    fn signed(&mut self) -> Expression {
        if self.takes(b'-') {
            return self.signed().negated();
        }
        let mut base = self.primary();
        while self.takes(b'!') {
            base = Expression::Function(Function::Factorial, vec![base]);
        }
        if self.takes(b'^') { Expression::power(base, self.signed()) } else { base }
    }

    fn primary(&mut self) -> Expression {
        if self.takes(b'(') {
            let inner = self.sum();
            assert!(self.takes(b')'), "a bracket is open");
            return inner;
        }
        let start = self.place;
        while self.text.get(self.place).is_some_and(|byte| {
            let is_exponent_sign =
                matches!(self.text[start..self.place], [digit, .., b'e'] if digit.is_ascii_digit());
            byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'-' && is_exponent_sign
        }) {
            self.place += 1;
        }
        let word = std::str::from_utf8(&self.text[start..self.place]).expect("ASCII");
        assert!(!word.is_empty(), "nothing at {start} of {}", String::from_utf8_lossy(self.text));
        if word.as_bytes()[0].is_ascii_digit() {
            return number(word);
        }
        if self.takes(b'(') {
            let mut arguments = vec![self.sum()];
            while self.takes(b',') {
                arguments.push(self.sum());
            }
            assert!(self.takes(b')'), "a call is open");
            return call(word, arguments);
        }
        match word {
            "pi" => Expression::Constant(Constant::Pi),
            "e" | "E" => Expression::Constant(Constant::E),
            "i" | "I" => Expression::Constant(Constant::I),
            "oo" => Expression::Constant(Constant::Infinity),
            "deg" => Expression::Constant(Constant::Degree),
            name => Expression::symbol(name),
        }
    }
}

fn only_or(mut parts: Vec<Expression>, of: fn(Vec<Expression>) -> Expression) -> Expression {
    if parts.len() == 1 { parts.remove(0) } else { of(parts) }
}

fn number(word: &str) -> Expression {
    let (digits, exponent) = word.split_once('e').unwrap_or((word, "0"));
    let (integer, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let value: BigInt = format!("{integer}{decimals}").parse().expect("digits");
    if word.contains(['.', 'e']) {
        let last_digit = exponent.parse::<i32>().expect("digits") - decimals.len() as i32;
        let value =
            BigRational::from_integer(value) * BigRational::from_integer(10.into()).pow(last_digit);
        return Expression::Decimal(Decimal { value, last_digit });
    }
    Expression::integer(value)
}

fn call(name: &str, mut arguments: Vec<Expression>) -> Expression {
    match name {
        "sqrt" => return arguments.remove(0).root(Expression::integer(2)),
        "cbrt" => return arguments.remove(0).root(Expression::integer(3)),
        "exp" => return Expression::power(Expression::Constant(Constant::E), arguments.remove(0)),
        _ => {}
    }
    let name = match name {
        "log" if arguments.len() == 1 => "ln",
        "asin" => "arcsin",
        "acos" => "arccos",
        "atan" => "arctan",
        "acot" => "arccot",
        name => name,
    };
    let is_name = |function: &Function| format!("{function:?}").eq_ignore_ascii_case(name);
    match FUNCTIONS.into_iter().find(is_name) {
        Some(function) => Expression::Function(function, arguments),
        None => Expression::Unknown(name.into(), arguments),
    }
}

/// All functions.
#[rustfmt::skip]
pub const FUNCTIONS: [Function; 25] = {
    use Function::*;
    [
        Sin, Cos, Tan, Cot, Sec, Csc, Arcsin, Arccos, Arctan, Arccot, Sinh, Cosh, Tanh, Ln, Log, Abs, Floor,
        Ceiling, Factorial, Binomial, Permutations, Gcd, Lcm, Min, Max,
    ]
};
