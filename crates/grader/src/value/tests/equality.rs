//! Which expressions have the same value, by table.

use std::cmp::Ordering;

use super::infix::read;
use crate::fuel::Fuel;
use crate::value::{
    DEFAULT_FUEL, FactorSign, Sameness, Tolerance, compare, constant_ratio, normal_form, same_value,
};

fn same(a: &str, b: &str) -> Sameness {
    let verdict = |a: &str, b: &str| {
        same_value(&read(a), &read(b), Tolerance::default(), &mut Fuel::new(DEFAULT_FUEL))
            .unwrap_or_else(|error| panic!("{a} against {b}: {error}"))
    };
    let found = verdict(a, b);
    assert_eq!(found, verdict(b, a), "{a} against {b} depends on the order");
    found
}

fn assert_all(expected: Sameness, pairs: &[(&str, &str)]) {
    let failures: Vec<_> =
        pairs.iter().map(|(a, b)| (a, b, same(a, b))).filter(|(.., found)| *found != expected).collect();
    assert!(failures.is_empty(), "not {expected:?}: {failures:#?}");
}

#[test]
fn numbers_that_are_equal() {
    assert_all(
        Sameness::Same,
        &[
            ("1/2", "2/4"),
            ("3+4", "7"),
            ("-(-5)", "5"),
            ("2^10", "1024"),
            ("2^(-3)", "1/8"),
            ("0^5", "0"),
            ("7^0", "1"),
            ("2^100", "1267650600228229401496703205376"),
            ("10!", "3628800"),
            ("binomial(10,3)", "120"),
            ("binomial(50,25)", "126410606437752"),
            ("binomial(5,7)", "0"),
            ("abs(-7/2)", "7/2"),
            ("floor(-7/2)", "-4"),
            ("ceiling(7/2)", "4"),
            ("gcd(12,18)", "6"),
            ("lcm(4,6,10)", "60"),
            ("max(2,3,1)", "3"),
            ("min(sqrt(2),3/2)", "sqrt(2)"),
            ("floor(pi*100)", "314"),
            ("floor(-sqrt(2))", "-2"),
            ("abs(1-sqrt(2))", "sqrt(2)-1"),
            ("abs(3+4*i)", "5"),
            ("(100!)/(98!)", "9900"),
            ("9^(9^9)", "3^(2*9^9)"),
            ("2^(10^10)", "4^(5*10^9)"),
        ],
    );
}

#[test]
fn roots_that_are_equal() {
    assert_all(
        Sameness::Same,
        &[
            ("sqrt(8)", "2*sqrt(2)"),
            ("sqrt(2)*sqrt(3)", "sqrt(6)"),
            ("1/sqrt(2)", "sqrt(2)/2"),
            ("sqrt(1/3)", "sqrt(3)/3"),
            ("sqrt(16)", "4"),
            ("8^(2/3)", "4"),
            ("cbrt(54)", "3*cbrt(2)"),
            ("cbrt(-8)", "-2"),
            ("(-27)^(2/3)", "9"),
            ("sqrt(-4)", "2*i"),
            ("sqrt(-2)*sqrt(-3)", "-sqrt(6)"),
            ("i^2", "-1"),
            ("i^7", "-i"),
            ("1/i", "-i"),
            ("(1+i)^2", "2*i"),
            ("(1+i)/(1-i)", "i"),
            ("sqrt(i)", "(1+i)/sqrt(2)"),
            ("1/(1+sqrt(2))", "sqrt(2)-1"),
            ("1/(sqrt(3)-sqrt(2))", "sqrt(3)+sqrt(2)"),
            ("(1+sqrt(5))/2", "2/(sqrt(5)-1)"),
            ("sqrt(3+2*sqrt(2))", "1+sqrt(2)"),
            ("sqrt(7-4*sqrt(3))", "2-sqrt(3)"),
            ("sqrt(5+2*sqrt(6))", "sqrt(2)+sqrt(3)"),
            ("cbrt(7+5*sqrt(2))", "1+sqrt(2)"),
            ("cbrt(2+sqrt(5))+cbrt(2-sqrt(5))", "1"),
            ("sqrt(4+sqrt(7))-sqrt(4-sqrt(7))", "sqrt(2)"),
            ("2^(1/2)*2^(1/3)", "2^(5/6)"),
            ("4^(1/4)", "sqrt(2)"),
            ("sqrt(12)+sqrt(27)", "5*sqrt(3)"),
            ("(sqrt(5)+2)^3", "17*sqrt(5)+38"),
            ("(1+sqrt(2))^20*(sqrt(2)-1)^20", "1"),
            ("sqrt(1000003*1000033)", "sqrt(1000003)*sqrt(1000033)"),
            ("sqrt(10000000000000061*10000000000000061)", "10000000000000061"),
            ("1/(cbrt(4)+cbrt(2)+1)", "cbrt(2)-1"),
            ("sqrt(2)^2^2", "4"),
            ("(sqrt(2)^sqrt(2))^sqrt(2)", "2"),
        ],
    );
}

#[test]
fn functions_that_are_equal() {
    assert_all(
        Sameness::Same,
        &[
            ("log(8,2)", "3"),
            ("log(8,4)", "3/2"),
            ("log(36,6)", "2"),
            ("ln(8)", "3*ln(2)"),
            ("ln(e)", "1"),
            ("ln(e^3)", "3"),
            ("e^(ln(5))", "5"),
            ("e^(2*ln(3))", "9"),
            ("ln(sqrt(2))", "ln(2)/2"),
            ("ln(2)+ln(3)", "ln(6)"),
            ("ln(1/2)", "-ln(2)"),
            ("log(3,2)*log(8,3)", "3"),
            ("log(2,10)+log(5,10)", "1"),
            ("ln(-1)", "i*pi"),
            ("e^(i*pi)", "-1"),
            ("e^(i*pi/2)", "i"),
            ("e^(i*pi/3)", "1/2+sqrt(3)/2*i"),
            ("e^(2*pi*i/5)+e^(4*pi*i/5)+e^(6*pi*i/5)+e^(8*pi*i/5)", "-1"),
            ("2^(log(5,2))", "5"),
            ("sin(pi/6)", "1/2"),
            ("cos(5*pi/4)", "-sqrt(2)/2"),
            ("sin(30*deg)", "1/2"),
            ("180*deg", "pi"),
            ("tan(pi/12)", "2-sqrt(3)"),
            ("tan(pi/3)", "sqrt(3)"),
            ("cos(pi/5)", "(1+sqrt(5))/4"),
            ("cos(pi/7)*cos(2*pi/7)*cos(3*pi/7)", "1/8"),
            ("sin(10*deg)*sin(50*deg)*sin(70*deg)", "1/8"),
            ("sec(pi/3)", "2"),
            ("csc(pi/6)", "2"),
            ("cot(pi/4)", "1"),
            ("asin(1/2)", "pi/6"),
            ("acos(-1/2)", "2*pi/3"),
            ("atan(1)", "pi/4"),
            ("atan(1/2)+atan(1/3)", "pi/4"),
            ("4*atan(1/5)-atan(1/239)", "pi/4"),
            ("acot(1)", "pi/4"),
            ("sin(acos(3/5))", "4/5"),
            ("cos(2*atan(2))", "-3/5"),
            ("sinh(ln(2))", "3/4"),
            ("cosh(0)", "1"),
            ("tanh(ln(3)/2)", "1/2"),
            ("ln(2+sqrt(3))", "-ln(2-sqrt(3))"),
            ("arctan2(1)", "arctan2(2/2)"),
            ("sin(1)^2+cos(1)^2", "1"),
            ("2*sin(1)*cos(1)", "sin(2)"),
        ],
    );
}

#[test]
fn expressions_that_are_equal() {
    assert_all(
        Sameness::Same,
        &[
            ("x+y", "y+x"),
            ("(x+1)^2", "x^2+2*x+1"),
            ("(x-y)*(x+y)", "x^2-y^2"),
            ("(x^2-1)/(x-1)", "x+1"),
            ("1/x+1/y", "(x+y)/(x*y)"),
            ("1/(x+1)+1/(x-1)", "2*x/(x^2-1)"),
            ("1/(1+1/x)", "x/(x+1)"),
            ("(x+y+z)^5", "(z+x+y)^2*(y+z+x)^3"),
            ("(x+y)^1000", "(y+x)^1000"),
            ("(x+y)^1000/(x+y)^998", "x^2+2*x*y+y^2"),
            ("x*x^(-1)", "1"),
            ("sqrt(x)^2", "x"),
            ("sqrt(x)*sqrt(y)", "sqrt(x*y)"),
            ("sqrt(x^2)", "abs(x)"),
            ("sqrt(x^2*y^4)", "abs(x)*y^2"),
            ("abs(x)^2", "x^2"),
            ("abs(-2*x)", "2*abs(x)"),
            ("abs(x-y)", "abs(y-x)"),
            ("1/(3*x^(2/3))", "1/(3*cbrt(x)^2)"),
            ("cbrt(x^2)", "cbrt(x)^2"),
            ("cbrt(-x)", "-cbrt(x)"),
            ("sqrt(x^3)", "x*sqrt(x)"),
            ("1/sqrt(x+1)", "sqrt(x+1)/(x+1)"),
            ("(x+1)^(3/2)", "x*sqrt(x+1)+sqrt(x+1)"),
            ("sqrt(x+1)*sqrt(x-1)", "sqrt(x^2-1)"),
            ("sqrt(8*x+8)", "2*sqrt(2)*sqrt(x+1)"),
            ("sqrt(x/y)", "sqrt(x)/sqrt(y)"),
            ("sqrt(-x)^2", "-x"),
            ("1/(sqrt(x+1)+sqrt(x))", "sqrt(x+1)-sqrt(x)"),
            ("sin(x)^2+cos(x)^2", "1"),
            ("sin(2*x)", "2*sin(x)*cos(x)"),
            ("tan(x)", "sin(x)/cos(x)"),
            ("sec(x)^2-tan(x)^2", "1"),
            ("sin(-x)", "-sin(x)"),
            ("cos(x-y)", "cos(y-x)"),
            ("sin(x+2*pi)", "sin(x)"),
            ("cos(3*x)", "4*cos(x)^3-3*cos(x)"),
            ("asin(x)+acos(x)", "pi/2"),
            ("cosh(x)^2-sinh(x)^2", "1"),
            ("ln(x*y)", "ln(x)+ln(y)"),
            ("ln(x^2)", "2*ln(x)"),
            ("log(x,2)", "ln(x)/ln(2)"),
            ("2^x*2^x", "4^x"),
            ("2^(x+1)", "2*2^x"),
            ("6^x", "2^x*3^x"),
            ("(1/2)^x", "2^(-x)"),
            ("e^(x+y)", "e^x*e^y"),
            ("e^(2*x)-1", "(e^x-1)*(e^x+1)"),
            ("x^(n+1)", "x*x^n"),
            ("x^(2*n)", "(x^n)^2"),
            ("(-1)^(n+2)", "(-1)^n"),
            ("(-2)^n", "(-1)^n*2^n"),
            ("(-1)^(2*n+1)", "-1"),
            ("cos(n*pi)", "(-1)^n"),
            ("(1-(-1)^n)/2", "(1+(-1)^(n+1))/2"),
            ("e^(ln(x))", "x"),
            ("e^(i*x)", "cos(x)+i*sin(x)"),
            ("(n+1)!", "(n+1)*n!"),
            ("n!/(n-2)!", "n*(n-1)"),
            ("binomial(n,2)", "n*(n-1)/2"),
            ("binomial(n,k)", "binomial(n,n-k)"),
            ("binomial(n+1,k)", "binomial(n,k)+binomial(n,k-1)"),
            ("f(x)+g(y)", "g(y)+f(x)"),
            ("f(2*x/2)", "f(x)"),
            ("f(sin(x)^2+cos(x)^2)", "f(1)"),
            ("max(x,y)+min(x,y)", "x+y"),
            ("max(x,y)", "max(y,x)"),
            ("floor(x)+1", "floor(x+1)"),
            ("gcd(m,n)*lcm(m,n)", "m*n"),
            ("oo", "oo+1"),
            ("-oo", "-2*oo"),
            ("x+sqrt(2)*x", "(1+sqrt(2))*x"),
            ("(x+i)*(x-i)", "x^2+1"),
            ("x/(x+i)", "(x^2-i*x)/(x^2+1)"),
        ],
    );
}

#[test]
fn values_that_differ() {
    assert_all(
        Sameness::Different,
        &[
            ("1/2", "1/3"),
            ("12345", "12346"),
            ("10^20+sqrt(2)", "10^20+sqrt(3)"),
            ("10^100+sin(1)", "10^100+sin(2)"),
            ("2^100", "2^100+1"),
            ("9^(9^9)", "9^(9^9)+1"),
            ("9^(9^9)", "8^(9^9)"),
            ("sqrt(2)", "577/408"),
            ("sqrt(2)", "665857/470832"),
            ("pi", "22/7"),
            ("pi", "355/113"),
            ("e^(pi*sqrt(163))", "262537412640768744"),
            ("e", "271828182845904523536028747135266249775724709369995/10^50"),
            ("sqrt(2)+sqrt(3)", "sqrt(10)"),
            ("sqrt(2)", "-sqrt(2)"),
            ("i", "-i"),
            ("i", "1"),
            ("cbrt(2)", "sqrt(2)"),
            ("ln(2)", "ln(3)"),
            ("ln(2)", "log(2,10)"),
            ("tan(pi/12)", "2+sqrt(3)"),
            ("sin(1)", "sin(1*deg)"),
            ("pi", "e"),
            ("sqrt(3+2*sqrt(2))", "2+sqrt(2)"),
            ("atan(1/2)+atan(1/3)", "pi/3"),
            ("sin(11)", "-1"),
            ("cbrt(60-12*sqrt(2))", "sqrt(12)"),
            ("100!", "100!+1"),
            ("binomial(100,50)", "binomial(100,49)"),
            ("oo", "-oo"),
            ("oo", "5"),
            ("x", "y"),
            ("x", "X"),
            ("x", "1"),
            ("x+1", "x-1"),
            ("(x+1)^2", "x^2+1"),
            ("x^2", "x^3"),
            ("sqrt(x^2)", "x"),
            ("abs(x)", "x"),
            ("sqrt(x^2+y^2)", "x+y"),
            ("cbrt(x^3+1)", "x+1"),
            ("(x+y)^1000", "(x+y)^1001"),
            ("(x+y)^1000", "(x-y)^1000"),
            ("sin(x)", "cos(x)"),
            ("sin(2*x)", "2*sin(x)"),
            ("sin(x)^2", "sin(x^2)"),
            ("cos(x)^2-sin(x)^2", "1"),
            ("ln(x+y)", "ln(x)+ln(y)"),
            ("ln(x)^2", "2*ln(x)"),
            ("2^x", "x^2"),
            ("2^x", "3^x"),
            ("e^x", "e^(-x)"),
            ("x^n", "n^x"),
            ("(x+y)^n", "x^n+y^n"),
            ("n!", "(n+1)!"),
            ("binomial(n,2)", "n*(n-1)"),
            ("(-1)^n", "1"),
            ("(-1)^n", "(-1)^(n+1)"),
            ("(-1)^n*sin(pi*x)", "0"),
            ("f(x)", "f(y)"),
            ("f(x)", "g(x)"),
            ("f(x)", "f(-x)"),
            ("f(x,y)", "f(y,x)"),
            ("f(2*x)", "2*f(x)"),
            ("max(x,y)", "min(x,y)"),
            ("floor(x)", "x"),
            ("ceiling(x)", "floor(x)+1"),
            ("1/x", "x"),
            ("x/(x+1)", "1/(x+1)"),
            ("x+i", "x-i"),
            ("10^100*x+1", "10^100*x+2"),
            ("asin(sin(x))", "x"),
            ("1/2*x", "x/3"),
            ("sqrt(-1-x^2)", "-sqrt(-1-x^2)"),
        ],
    );
}

#[test]
fn decimals_within_the_tolerance() {
    assert_all(
        Sameness::Same,
        &[
            ("0.5", "1/2"),
            ("2.50", "5/2"),
            ("0.333", "1/3"),
            ("0.3333333", "1/3"),
            ("0.333333", "0.33333333"),
            ("2.6667", "8/3"),
            ("3.14", "pi"),
            ("3.1416", "pi"),
            ("-3.14", "-pi"),
            ("4.123105625617661", "sqrt(17)"),
            ("0.7071", "sqrt(2)/2"),
            ("1.571", "0.5*pi"),
            ("33.3/100", "1/3"),
            ("0.5*pi", "pi/2"),
            ("2.5*x", "5*x/2"),
            ("0.3333333*x", "x/3"),
            ("x^2+0.25", "x^2+1/4"),
            ("1.4142136*i", "sqrt(2)*i"),
            ("1.25e20", "125000000000000000000"),
            ("1.0", "1"),
            ("0.9999999", "1"),
            ("12.0000001", "12"),
            ("1.618", "(1+sqrt(5))/2"),
            ("6.022e23", "602214076*10^15"),
        ],
    );
}

#[test]
fn decimals_beyond_the_tolerance() {
    assert_all(
        Sameness::Different,
        &[
            ("0.3", "1/3"),
            ("0.33", "1/3"),
            ("0.333", "0.334"),
            ("3.1416", "3.1415"),
            ("3.1415", "pi"),
            ("3.15", "pi"),
            ("0.1666", "1/6"),
            ("1.6e-19", "1.7e-19"),
            ("1.60217e-19", "1.60218e-19"),
            ("1.25e20", "1.26e20"),
            ("12345678.5", "12345678.6"),
            ("0.5*x", "x"),
            ("0.333*x", "x/3"),
            ("2.5*x", "2.5*y"),
            ("1.5+2.3*i", "1.5+2.4*i"),
            ("1.5", "1.5*i"),
            ("0.001", "0.002"),
            ("1000.4", "1000"),
            ("3.14", "x"),
        ],
    );
}

#[test]
fn the_tolerance_is_the_users() {
    let found = |a: &str, b: &str, tolerance| {
        same_value(&read(a), &read(b), tolerance, &mut Fuel::new(DEFAULT_FUEL)).unwrap()
    };
    let coarse = Tolerance { decimals: 2, ..Tolerance::default() };
    assert_eq!(found("3.141", "3.144", coarse), Sameness::Same);
    assert_eq!(found("3.141", "3.151", coarse), Sameness::Different);
    assert_eq!(found("3141/1000", "3144/1000", coarse), Sameness::Different, "no decimal, no tolerance");
    let strict = Tolerance { decimals: 12, significant_digits: 8 };
    assert_eq!(found("3.1416", "pi", strict), Sameness::Different);
    assert_eq!(found("3.1415926536", "pi", strict), Sameness::Same);
    let endless = Tolerance { decimals: u32::MAX, significant_digits: u32::MAX };
    assert_eq!(found("0.25", "1/4", endless), Sameness::Same);
    assert_eq!(found("0.333", "1/3", endless), Sameness::Different);
}

#[test]
fn what_has_no_value_is_unknown() {
    assert_all(
        Sameness::Unknown,
        &[
            ("1/0", "5"),
            ("ln(0)", "0"),
            ("0/0", "x"),
            ("0^(-1)", "oo"),
            ("tan(pi/2)", "1"),
            ("(-3)!", "1"),
            ("e^(e^(e^(e^10)))", "1"),
            ("f(oo)", "f(1)"),
        ],
    );
    // But what is the same text is the same.
    assert_eq!(same("1/0", "1/0"), Sameness::Same);
}

#[test]
fn work_is_bounded() {
    for (a, b) in [
        ("9^(9^(9^9))", "9^(9^(9^9))+1"),
        ("9^(9^(9^9))", "8^(9^(9^9))"),
        ("10^(10^10)", "10^(10^10)+x"),
        ("(x+y)^(10^6)", "(x-y)^(10^6)"),
        ("(x+y+z+w+u+v)^60", "(x-y)^60"),
        ("(1+sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7)+sqrt(11))^200", "1"),
        ("factorial(10^9)", "factorial(10^9)+1"),
        ("1999!/1998!^3+1/1997!", "x"),
        ("1999!", "1998!*x"),
        ("((((x+1)^9+1)^9+1)^9+1)^9", "y"),
        ("binomial(10^6,5*10^5)", "binomial(10^6,5*10^5+1)"),
        ("binomial(900,450)^20", "x^20"),
        ("sqrt(100!+1)", "sqrt(100!+2)"),
        ("2^(1/1000003)", "3^(1/1000003)"),
        ("x^(10^30)", "y^(10^30)"),
        ("sin(10^5000)", "cos(10^5000)"),
        ("1/(x+1)+1/(x+2)+1/(x+3)+1/(x+4)+1/(x+5)+1/(x+6)+1/(x+7)+1/(x+8)", "1/y"),
        ("2^32767*3^20000", "2^32768*3^20000"),
        ("(2^32767+1)/(3^20000+1)+(2^32766+1)/(3^20001+1)", "1"),
    ] {
        let found = same_value(&read(a), &read(b), Tolerance::default(), &mut Fuel::new(DEFAULT_FUEL));
        assert_ne!(found, Ok(Sameness::Same), "{a} against {b}");
    }
}

#[test]
fn order() {
    let compared = |a: &str, b: &str| compare(&read(a), &read(b), &mut Fuel::new(DEFAULT_FUEL)).unwrap();
    for (a, b, order) in [
        ("1/2", "1/3", Some(Ordering::Greater)),
        ("sqrt(2)", "1.5", Some(Ordering::Less)),
        ("sqrt(3+2*sqrt(2))", "1+sqrt(2)", Some(Ordering::Equal)),
        ("pi", "22/7", Some(Ordering::Less)),
        ("e^(pi*sqrt(163))", "262537412640768744", Some(Ordering::Less)),
        ("10^100+sqrt(2)", "10^100+sqrt(3)", Some(Ordering::Less)),
        ("-oo", "-10^10", Some(Ordering::Less)),
        ("oo", "oo", Some(Ordering::Equal)),
        ("i", "1", None),
        ("i+1", "i", Some(Ordering::Greater)),
        ("x", "1", None),
        ("1/0", "1", None),
    ] {
        assert_eq!(compared(a, b), order, "{a} against {b}");
        assert_eq!(compared(b, a), order.map(Ordering::reverse), "{b} against {a}");
    }
}

#[test]
fn ratios() {
    let ratio = |a: &str, b: &str| constant_ratio(&read(a), &read(b), &mut Fuel::new(DEFAULT_FUEL)).unwrap();
    for (a, b, sign) in [
        ("x-3", "2*x-6", Some(FactorSign::Positive)),
        ("3-x", "2*x-6", Some(FactorSign::Negative)),
        ("x-y", "sqrt(2)*x-sqrt(2)*y", Some(FactorSign::Positive)),
        ("y/2-x/3-1", "6+2*x-3*y", Some(FactorSign::Negative)),
        ("x^2+y^2-1", "0.5*x^2+0.5*y^2-0.5", Some(FactorSign::Positive)),
        ("sin(2*x)", "-sin(x)*cos(x)", Some(FactorSign::Negative)),
        ("x", "i*x", Some(FactorSign::NotReal)),
        ("5", "7", Some(FactorSign::Positive)),
        ("0", "x-x", Some(FactorSign::Positive)),
        ("x", "0", None),
        ("x-3", "x-4", None),
        ("x", "x^2", None),
        ("sin(x)", "cos(x)", None),
        ("x-3", "y-3", None),
    ] {
        assert_eq!(ratio(a, b), sign, "{a} against {b}");
        assert_eq!(ratio(b, a), sign, "{b} against {a}");
    }
}

#[test]
fn normal_forms() {
    for (text, form) in [
        ("6/8", "3/4"),
        ("0.75", "3/4"),
        ("x-x", "0"),
        ("sqrt(8)+x^2", "x^2 + 2*sqrt(2)"),
        ("-x", "-x"),
        ("(1+x)^2", "x^2 + 2*x + 1"),
        ("1/(2*x)", "1/2*x^(-1)"),
        ("sqrt(6)/2*y", "1/2*sqrt(6)*y"),
        ("3+4*i", "3 + 4*i"),
        ("cbrt(2)*x", "2^(1/3)*x"),
        ("(x+1)/(x-2)", "(x + 1)/(x - 2)"),
        ("(x^2-1)/(x-1)", "x + 1"),
        ("1/(1-x)", "-1/(x - 1)"),
        ("sin(x)+f(x,2)", "f(x, 2) + sin(x)"),
        ("sqrt(1+x)", "sqrt(x + 1)"),
        ("2^(x/2)", "sqrt(2^x)"),
        ("1/0", "undefined"),
        ("45*deg", "1/4*pi"),
    ] {
        assert_eq!(normal_form(&read(text), &mut Fuel::new(DEFAULT_FUEL)).unwrap(), form, "{text}");
    }
}
