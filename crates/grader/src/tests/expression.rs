//! Formulas.

use super::{different, same};

#[test]
fn formulas() {
    same(&[
        ("1+x", "x+1"),
        ("3\\sqrt{13}", "\\sqrt{117}"),
        ("11\\sqrt2", "11*sqrt(2)"),
        ("\\frac{\\sqrt{3}}{3}", "1/sqrt(3)"),
        ("\\sqrt[3]{4}", "4^{1/3}"),
        ("(a+5)(b+2)", "ab+2a+5b+10"),
        ("x^{5} - x", "x^5-x"),
        ("x^2+1", "x**2 + 1"),
        ("6r^2-4r-24", "2(3r^2 - 2r - 12)"),
        ("\\frac{\\pi r}{h+r}", "\\pi r/(r+h)"),
        ("2 \\sin b \\cos a", "2\\cos(a)\\sin(b)"),
        ("\\tan^2(y)+1", "\\sec^2 y"),
        ("\\sin^{-1} x", "\\arcsin(x)"),
        ("\\log_2 8", "3"),
        ("\\log_{10} 250", "\\log 250"),
        ("\\ln 2", "\\log 2"),
        ("\\binom{2n}{n}", "\\frac{(2n)!}{n!n!}"),
        ("|x-2|", "\\left|2-x\\right|"),
        ("\\left\\lfloor\\frac{2 n}{3}\\right\\rfloor+1", "1 + \\lfloor 2n/3 \\rfloor"),
        ("e^{-2t}", "\\frac{1}{e^{2t}}"),
        ("-2 + 7i", "7i - 2"),
        ("n(n-1)", "n^2-n"),
        ("\\frac{n(n+1)}{2}", "\\frac12 n(n+1)"),
        ("{a \\over b}", "a/b"),
        ("\\cot x", "cos(x)/sin(x)"),
        ("√3/2", "\\frac{\\sqrt 3}{2}"),
        ("x²+2×x", "x^2 + 2x"),
        ("a_{1}+a_2", "a_2 + a_1"),
        ("3R^2", "3r^2"),
        ("F_n F_{n-1}", "F_{n-1}F_n"),
        ("\\pi", "π"),
        ("\\infty", "infinity"),
        ("\\gcd(12, 18)", "6"),
        ("\\frac{d !}{2 k(d-k) !}", "\\frac{d!}{2k (d-k)!}"),
    ]);
    different(&[
        ("1+x", "1-x"),
        ("x", "y"),
        ("4", "4\\sqrt{2}"),
        ("x+2n+1", "x+1"),
        ("(a+5)(b+2)", "(+5)(b+2)"),
        ("Rr", "R^2"),
        ("I(0)e^{-t}", "I(0)e^{-2t}"),
        ("x^2", "2x"),
        ("a_1", "a_2"),
        ("\\sin x", "\\cos x"),
        ("1\\sqrt{19}", "1"),
    ]);
}
