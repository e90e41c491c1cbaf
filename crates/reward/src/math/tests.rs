//! Pairs of answers that are the same, and that are not, by the kind of thing that makes the difference.

use serde_json::json;

use super::*;

fn verify(ground_truth: &Value, response: &str) -> Judgement {
    let item = Item { ground_truth, prompt: "", data_source: "", extra_info: &Value::Null };
    Math::default().verify(&item, response)
}

/// Asserts for each pair that the second, in a box, answers the first.
fn same(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let judgement = verify(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(judgement.verdict, Verdict::Correct, "{gold} | {given}: {judgement:?}");
    }
}

/// Asserts for each pair that the second, in a box, does not answer the first.
fn different(pairs: &[(&str, &str)]) {
    for (gold, given) in pairs {
        let judgement = verify(&json!(gold), &format!("\\boxed{{{given}}}"));
        assert_eq!(judgement.verdict, Verdict::Wrong, "{gold} | {given}: {judgement:?}");
    }
}

#[test]
fn numbers() {
    same(&[
        ("34", "034"),
        ("34", "34."),
        ("34", "+34"),
        ("0.5", "\\frac{1}{2}"),
        (".5", "\\frac12"),
        ("1/2", "0.50"),
        ("\\frac{3}{4}", "3/4"),
        ("\\dfrac34", "\\tfrac{3}{4}"),
        ("\\frac9{19}", "9/19"),
        ("-\\frac{1}{2}", "\\frac{-1}{2}"),
        ("\\frac{1}{-2}", "-1/2"),
        ("1{,}234", "1234"),
        ("10,\\!080", "10080"),
        ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
        ("58,500", "58500"),
        ("1000", "1\\,000"),
        ("1234567", "1 234 567"),
        ("-1234", "-1,234"),
        ("3\\frac12", "7/2"),
        ("137 \\frac{1}{2}", "137.5"),
        ("-4 4/9", "-40/9"),
        ("3½", "3.5"),
        ("1.5 \\times 10^{3}", "1500"),
        ("4.4e7", "4.4 \\times 10^7"),
        ("1e11", "10^{11}"),
        ("1 \\times 10^{-3}", "0.001"),
        ("2 \\cdot 10^3", "2000"),
        ("0.\\overline{3}", "1/3"),
        ("0.1\\overline{6}", "\\frac16"),
        ("2516_8", "2516"),
        ("4210_{5}", "4210_5"),
        ("204_5", "204_{\\text{five}}"),
        ("15th", "15"),
        ("3.14159", "\\pi"),
        ("0,111", "0.111"),
        ("\\frac{20000}{\\pi}", "20000/pi"),
        ("100!/2^{50}", "\\frac{100!}{2^{50}}"),
        ("1 - \\frac{1}{\\mathrm{e}}", "1-1/e"),
    ]);
    different(&[
        ("34", "35"),
        ("34", "3 4"),
        ("12", "1,2"),
        ("12", "(1,2)"),
        ("1/2", "1/3"),
        ("0", "0/0"),
        ("5", "-5"),
        ("32349", "32, 349"),
        ("100000000000000000000", "100000000000000000001"),
        ("2516_8", "2516_7"),
        ("2516_8", "1358"),
        ("1.6 \\times 10^{-19}", "1.7 \\times 10^{-19}"),
        ("3.1416", "3.1415"),
        ("13/12", "11 7/6"),
        ("0.3", "1/3"),
        ("2", "2^{10}"),
    ]);
}

#[test]
fn what_can_be_written_exactly_is_not_rounded() {
    same(&[
        ("1.5 \\times 10^{4}", "15000"),
        ("12345", "1.2345 \\times 10^4"),
        ("3.14", "\\pi"),
        ("1/7", "0.143"),
        ("1.00049", "1.000"),
        ("3^{2007}", "3.82259442752E+957"),
    ]);
    different(&[
        ("12345", "1.23\\times10^4"),
        ("1234567890", "1.235\\times10^9"),
        ("8999", "9.00e3"),
        ("2023", "2.02\\times10^3"),
        ("123456", "123.5\\times10^3"),
        ("999/1000", "1.00"),
        ("-12345", "-1.23\\times10^4"),
        ("12345", "12300.0"),
        ("2^{30}", "1.07e9"),
        ("123456789012345678901234567890", "1.23e29"),
    ]);
    let gold = GroundTruth::from_value(&json!("1/7")).unwrap();
    for (significant_digits, verdict) in [(3, Verdict::Correct), (4, Verdict::Wrong)] {
        let options = Options { significant_digits, ..Options::default() };
        assert_eq!(grade(&gold, "\\boxed{0.143}", &options).verdict, verdict, "{significant_digits}");
    }
}

#[test]
fn infinity_is_no_number() {
    same(&[
        ("\\infty", "+\\infty"),
        ("-\\infty", "-2\\infty"),
        ("\\infty", "\\infty+5"),
        ("\\infty", "\\infty+\\infty"),
    ]);
    different(&[
        ("\\infty", "-\\infty"),
        ("\\infty", "5"),
        ("5", "\\infty"),
        ("5", "5+0\\cdot\\infty"),
        ("5", "\\infty-\\infty+5"),
        ("1", "\\infty/\\infty"),
        ("1", "1^\\infty"),
        ("1", "\\infty^0"),
        ("0", "\\infty-\\infty"),
        ("\\infty", "\\infty+i"),
        ("\\infty", "i\\infty"),
        ("\\infty", "\\infty+x"),
        ("\\infty", "\\sqrt\\infty"),
        ("0", "0\\cdot\\sin\\infty"),
    ]);
}

#[test]
fn units_are_left_out_and_signs_of_parts_are_what_they_are() {
    same(&[
        ("5.4 \\text{ cents}", "5.4"),
        ("864 \\mbox{ inches}^2", "864"),
        ("15\\mbox{ cm}^2", "15 \\text{ square centimetres}"),
        ("125", "125 miles"),
        ("35", "35 cm"),
        ("35", "35 apples"),
        ("5", "5\\,\\mathrm{m/s}^2"),
        ("5", "5 m"),
        ("15000 \\text{ kcal m}^{-2} \\text{yr}^{-1}", "15000"),
        ("\\$18.90", "18.90"),
        ("\\$32,\\!348", "\\$32348"),
        ("36", "36 dollars"),
        ("36", "€36"),
        ("90^\\circ", "90"),
        ("90", "90^{\\circ}"),
        ("90°", "90 \\text{ degrees}"),
        ("90^\\circ", "\\frac{\\pi}{2}"),
        ("\\frac{270}7\\text{ degrees}", "\\frac{270}{7}"),
        ("28\\%", "28"),
        ("28", "28\\%"),
        ("28\\%", "0.28"),
        ("\\frac14", "25\\%"),
        ("28\\%", "28 percent"),
        ("8 \\%", "8\\%"),
        ("\\sin 30^\\circ", "\\frac12"),
        ("37 ^\\circ\\text{C}", "37"),
    ]);
    different(&[
        ("28\\%", "2800"),
        ("0.28", "28"),
        ("28\\%", "0.28\\%"),
        ("5", "5x"),
        ("5m", "5"),
        ("90^\\circ", "\\pi"),
        ("90", "91^\\circ"),
        ("35", "35 cm or 36 cm"),
        ("35", "35x \\text{ cm}"),
    ]);
}

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

#[test]
fn lists_sets_and_tuples() {
    same(&[
        ("3, 5, 7", "7, 3, 5"),
        ("1,-2", "-2 \\text{ and } 1"),
        ("1,-2", "\\{-2, 1\\}"),
        ("1,-2", "1; -2"),
        ("$-1$,$2$,$-2$", "-2,-1,2"),
        ("19, 46, and 82", "82, 46, 19"),
        ("1 \\pm \\sqrt{19}", "1+\\sqrt{19}, 1-\\sqrt{19}"),
        ("\\pm 2021", "-2021, 2021"),
        ("\\{1\\pm\\sqrt{5},-2\\}", "-2, 1 - \\sqrt5, 1 + \\sqrt5"),
        ("(6,31,-1)", "\\left( 6, 31, -1 \\right)"),
        ("(1,3)", "1,3"),
        ("(p,q)=(3,2)", "(3,2)"),
        ("(3,2)", "(p,q) = (3,2)"),
        ("(1,2), (3,4)", "(3,4) \\text{ or } (1,2)"),
        ("(0;0;0),(0;-2;0)", "(0,-2,0), (0,0,0)"),
        ("(4+2 \\sqrt{2}, 8),(4-2 \\sqrt{2}, 8)", "(4 \\pm 2\\sqrt2, 8)"),
        ("x=1,2", "1,2"),
        ("a=4,-8,-10", "-10, -8, 4"),
        ("n=1, 2, 3", "1, 2, 3"),
        ("p=5,q=2;p=7,q=2", "(7,2),(5,2)"),
        ("k = 45, n = 2", "n=2, k=45"),
        ("k = 45, n = 2", "45, 2"),
        ("x_1=2, x_2=3", "3, 2"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "(1,2)"),
        ("\\langle 1, 2, 3\\rangle", "(1,2,3)"),
        ("1,234", "1, 234"),
        ("\\emptyset", "\\text{no solution}"),
        ("\\{\\}", "\\varnothing"),
        ("$f(x)=x$,$f(x)=2-x$", "f(x)=2-x, f(x)=x"),
        ("1,2", "\\text{Minimum: } 1, \\text{Maximum: } 2"),
        ("7:32", "S_1:S = 7:32"),
        ("7:32", "14:64"),
        ("\\{5\\}", "5"),
    ]);
    different(&[
        ("3, 5, 7", "3, 5"),
        ("3, 5", "3, 5, 7"),
        ("(1,3)", "(3,1)"),
        ("(1,3)", "3,1"),
        ("(3,1)", "13"),
        ("\\pm 2021", "2021"),
        ("2021", "\\pm 2021"),
        ("k = 45, n = 2", "2, 45"),
        ("12:00", "1:00"),
        ("7:32", "32:7"),
        ("-2,-2", "-2"),
        ("(1,2,3)", "(1,2)"),
        ("1,2,3", "1, 2, 3, ..."),
        ("p=5,q=2;p=7,q=3", "(5,3),(7,2)"),
    ]);
}

#[test]
fn named_values_belong_to_their_names() {
    same(&[
        ("x=1,y=2", "y=2,x=1"),
        ("(x,y)=(1,2)", "y=2, x=1"),
        ("x=1,y=2", "(y,x)=(2,1)"),
        ("(1,2)", "x=1, y=2"),
        ("M=3, n=1", "m=3, N=1"),
        ("P(x)=0,P(x)=1", "P(x)=1,P(x)=0"),
        ("x=0,x=1", "x=1 \\text{ or } x=0"),
        ("x \\in \\{0,1\\}", "x=0, x=1"),
        ("x>1,y>2", "y>2,x>1"),
    ]);
    different(&[
        ("x=1,y=2", "x=2,y=1"),
        ("m=3,n=5", "m=5,n=3"),
        ("A=3,B=4", "A=4,B=3"),
        ("x=1,y=2", "a=2,b=1"),
        ("x=1,y=2,z=3", "x=1,y=2,z=3,w=3"),
        ("\\text{Alice: }3,\\text{Bob: }4", "\\text{Alice: }4,\\text{Bob: }3"),
        ("P(x)=0,P(x)=1", "P(x)=1,Q(x)=0"),
        ("x=1,y=2", "(y,x)=(1,2)"),
        ("(x,y)=(1,2)", "(y,x)=(1,2)"),
        ("M=3;m=1", "M=1;m=3"),
        ("x>1,y>2", "x>2,y>1"),
        ("x>0,y>0", "x>0"),
        ("x>1", "x>1,y>1"),
        ("x\\ge1,y\\le3", "1\\le x\\le3"),
        ("(0,1)", "x>0,y<1"),
        ("x\\in[0,1]", "x=0,x=1"),
        ("x=0,x=1", "x\\in[0,1]"),
        ("x\\in[0,1],y\\in[0,1]", "x\\in[0,1]"),
    ]);
}

#[test]
fn intervals_and_inequalities() {
    same(&[
        ("\\text{all real numbers}", "\\mathbb R"),
        ("\\mathbb{R}", "\\text{all real numbers}"),
        ("\\text{All real numbers.}", "(-\\infty,\\infty)"),
        ("(-\\infty,\\infty)", "\\text{all real numbers}"),
        ("|x|<1", "-1<x<1"),
        ("-1<x<1", "|x|<1"),
        ("x \\le -2 \\text{ or } x \\ge 2", "|x| \\ge 2"),
        ("\\{(1,2)\\}", "(1,2)"),
        ("(1,2)", "\\{(1,2)\\}"),
        ("(-\\infty, 2) \\cup (3, \\infty)", "(3, +\\infty) \\cup (-\\infty, 2)"),
        ("(2,12) \\cup (12,102)", "(2,102) \\setminus \\{12\\}"),
        ("x \\in [-2,7]", "[-2,7]"),
        ("x \\in [-2,7]", "-2 \\le x \\le 7"),
        ("[-2,7]", "7 \\geq x \\geq -2"),
        ("-2 \\le x \\le 7", "[-2,7]"),
        ("\\left(\\frac{3}{5},\\frac{8}{3}\\right]", "(0.6, 8/3]"),
        ("x < 2", "(-\\infty, 2)"),
        ("x \\ne 3", "(-\\infty,3)\\cup(3,\\infty)"),
        ("x \\ne 3", "\\mathbb{R} \\setminus \\{3\\}"),
        ("(-\\infty,\\infty)", "\\mathbb{R}"),
        ("x<2 \\text{ or } x>3", "(-\\infty,2)\\cup(3,\\infty)"),
        ("2<x<3", "x>2 \\text{ and } x<3"),
        ("[0,1) \\cup [1,2]", "[0,2]"),
        ("(-\\infty, 0) \\cup\\{1\\}", "x<0 \\text{ or } x=1"),
        ("\\{x \\mid x > 3\\}", "(3,\\infty)"),
        ("(2,\\infty)", "(2, \\infty)"),
        ("x \\leq 5", "5 \\geq x"),
        ("x < 1", "-x > -1"),
        ("f(2) < f(1) < f(4)", "f(4) > f(1) > f(2)"),
        ("k \\geqslant 2", "k>=2"),
        ("(1,2)U(3,4)", "(1,2)∪(3,4)"),
        ("x != 3", "x \\neq 3"),
        ("0<f(x)<1", "(0,1)"),
    ]);
    different(&[
        ("\\text{all real numbers}", "(0,\\infty)"),
        ("|x|<1", "-1<y<1"),
        ("|x|<1", "x<1"),
        ("\\{(1,2)\\}", "(2,1)"),
        ("[0,1)", "(0,1)"),
        ("[0,1)", "[0,1]"),
        ("[0,9)", "[0,1)"),
        ("x > 5", "x < 5"),
        ("x \\geq 5", "x > 5"),
        ("x < 1", "-x < -1"),
        ("x < 1", "y < 1"),
        ("(2,12) \\cup (12,102)", "(2,102)"),
        ("(27/8,15/8)", "(0,0)"),
        ("x \\in [-2,7]", "-x \\in [-2,7]"),
        ("x \\in [-2,7]", "-2 < x < 7"),
    ]);
    let strict = Options { allow_set_relation: false, ..Options::default() };
    let gold = GroundTruth::from_value(&json!("x \\in [-2,7]")).unwrap();
    assert_eq!(grade(&gold, "\\boxed{-2 \\le x \\le 7}", &strict).verdict, Verdict::Wrong);
    assert_eq!(grade(&gold, "\\boxed{[-2, 7]}", &strict).verdict, Verdict::Correct);
}

#[test]
fn equations() {
    same(&[
        ("3", "x=3"),
        ("x=3", "3"),
        ("x=3", "3=x"),
        ("x = 11", "x = 5+5+1 = 7 = 11"),
        ("1/3", "x=1/3\\approx1.3"),
        ("\\frac{\\pi}{6}", "\\frac{\\pi}{6} \\approx 0.52"),
        ("11", "x\\approx11"),
        ("5", "a+b = 5"),
        ("f(x)=2 x", "2x"),
        ("f(x)=2 x", "f(n) = 2n"),
        ("f(x)=2 x", "y = 2x"),
        ("N(n)=n+1", "n+1"),
        ("y = 2x + 3", "y - 2x = 3"),
        ("y = -2x", "2x+y=0"),
        ("2x+4y-3=0", "y=-\\frac{1}{2}x+\\frac{3}{4}"),
        ("5x - 7y + 11z + 4 = 0", "-5x+7y-11z-4=0"),
        ("x^2/4 + y^2/3 = 1", "x^2/16 + y^2/12 = 1/4"),
        ("\\frac{NO}{BO}=\\frac{1}{\\sqrt{6}}", "\\frac{\\sqrt6}{6}"),
        ("1 = \\zzz = x = 0", "0"),
        ("f(x) = 1", "f(x)=1 \\text{ for all } x \\in \\mathbb{Q}"),
        ("x^2 = 4 \\implies x = 2", "2"),
        ("\\angle B = 90", "90"),
    ]);
    different(&[
        ("x=3", "x=4"),
        ("x=3", "y=3"),
        ("7 = 11a+c", "11a+c"),
        ("a +3z = 0", "0"),
        ("0", "x^2-3x = 0"),
        ("2x + z = 1", "1"),
        ("a^2 + b = 0", "0"),
        ("f(x)=2x", "f(x)=2n"),
        ("y = 2x + 3", "y = 3x + 2"),
        ("3", "2 = x"),
    ]);
}

#[test]
fn matrices() {
    same(&[
        (
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
            "\\left[\\begin{array}{cc}1 & 2 \\\\3 & 4\\end{array}\\right]",
        ),
        (
            "\\begin{pmatrix}6&8\\\\10&12\\end{pmatrix}",
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix} + \\begin{bmatrix}5&6\\\\7&8\\end{bmatrix}",
        ),
        ("\\begin{pmatrix} 1/3 \\\\ 2/3 \\end{pmatrix}", "\\frac13\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
        (
            "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}",
            "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}",
        ),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}^T"),
        (
            "\\begin{pmatrix}-\\frac{7}{4}&-2\\\\4&\\frac{1}{4}\\\\\\end{pmatrix}",
            "\\begin{pmatrix}-\\frac{7}{4}&-2\\\\4&\\frac{1}{4}\\end{pmatrix}",
        ),
    ]);
    different(&[
        ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}"),
        ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}"),
        ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1&2&0\\end{pmatrix}"),
    ]);
}

#[test]
fn words_and_choices() {
    same(&[
        ("\\text{east}", "East"),
        ("\\text{Evelyn}", "\\text{Evelyn}"),
        ("even", "\\text{Even.}"),
        ("\\text{(C)}", "C"),
        ("C", "(C)"),
        ("C", "\\textbf{(C)}\\ 12"),
        ("C", "C. 12"),
        ("12", "\\textbf{(C)}\\ 12"),
        ("\\text{E}", "E"),
        ("\\text{e}", "e"),
        ("no solution", "No Solutions"),
        ("infinitely many", "\\infty"),
        ("undefined", "\\text{does not exist}"),
    ]);
    different(&[
        ("\\text{east}", "west"),
        ("\\text{(C)}", "(D)"),
        ("\\text{(C)}", "(B) \\text{ or } (C)"),
        ("\\text{even}", "odd"),
        ("yes", "no"),
        ("3", "\\text{not } 3"),
    ]);
}

/// Responses, each as it is, of which all or none are correct.
#[track_caller]
fn assert_graded(correct: bool, cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        let judgement = verify(&json!(gold), response);
        assert_eq!(judgement.verdict == Verdict::Correct, correct, "{gold} | {response} | {judgement:?}");
    }
}

#[test]
fn one_choice_counts_and_neither_several_nor_a_denied_one() {
    assert_graded(
        true,
        &[
            ("A", "\\boxed{A}"),
            ("A", "\\boxed{(A)}"),
            ("A", "\\boxed{\\text{(A)}}"),
            ("C", "\\boxed{\\textbf{(C)}\\ 12}"),
            ("C", "\\boxed{C) with what it says}"),
            ("C", "The answer is (C) because 3 > 2."),
            ("C", "The answer is (C)."),
            ("C", "The correct choice is (C)."),
            ("C", "\\boxed{(C)\\ P(A) + P(B)}"),
            ("C", "\\boxed{\\text{(C) the angle at B.}}"),
            ("C", "\\boxed{\\text{(C) between A and the centre}}"),
            ("A", "\\boxed{(A). So (A)}"),
            ("B", "\\boxed{\\text{B. False}}"),
            ("E", "\\boxed{\\text{(E) cannot be determined}}"),
            ("E", "\\boxed{\\text{(E) Not enough information}}"),
            ("12", "\\boxed{\\textbf{(C)}\\ 12}"),
        ],
    );
    assert_graded(
        false,
        &[
            ("A", "\\boxed{(A) is wrong}"),
            ("A", "\\boxed{\\text{(A) is wrong}}"),
            ("A", "\\boxed{\\text{A. This is not it, but B. is}}"),
            ("A", "\\boxed{(A) isn't right}"),
            ("A", "\\boxed{\\text{(A), which is false}}"),
            ("A", "\\boxed{(A) incorrect}"),
            ("A", "\\boxed{(A) or (B)}"),
            ("A", "\\boxed{(A) or B}"),
            ("A", "\\boxed{A or B}"),
            ("A", "\\boxed{(A), (B), (C)}"),
            ("A", "\\boxed{(A)(B)(C)(D)(E)}"),
            ("A", "\\boxed{A, B, C, D}"),
            ("A", "\\boxed{\\text{A. 4, B. 5, C. 6, D. 7}}"),
            ("C", "\\boxed{\\text{A. 4, B. 5, C. 6, D. 7}}"),
            ("A", "\\boxed{A) 4 B) 5}"),
            ("A", "The answer is (A), although (B) is possible"),
            ("B", "The answer is (A), although (B) is possible"),
            ("B", "\\boxed{(A) (B)}"),
            ("A", "\\boxed{(A) (B)}"),
            ("A", "The answer is not (A)."),
            ("C", "The correct choice is not (C)."),
        ],
    );
}

#[test]
fn denied_answers_do_not_count() {
    assert_graded(
        false,
        &[
            ("5", "The answer is not 5."),
            ("5", "\\boxed{5 \\text{ is wrong}}"),
            ("5", "The answer isn't 5."),
            ("5", "The answer isn’t $5$."),
            ("5", "The answer cannot be 5."),
            ("5", "The answer is not $5$."),
            ("5", "It can't be equal to 5."),
            ("5", "Final answer: not 5"),
            ("5", "Ответ не 5."),
            ("5", "答案不是5"),
        ],
    );
    assert_graded(
        true,
        &[
            ("7", "The answer is not 5 but 7."),
            ("7", "It is $7$, not $5$."),
            ("7", "There are 7 of them and not 5."),
            ("undefined", "The answer is undefined."),
            ("5", "Do not forget that there are 5."),
        ],
    );
}

#[test]
fn prose_in_other_scripts_is_searched() {
    assert_graded(
        true,
        &[
            ("5", "答案是5"),
            ("5", "答案是 5"),
            ("5", "答案是５。"),
            ("5", "答案为$5$"),
            ("5", "答案为$5$。"),
            ("5", "一共有5个。"),
            ("5", "Ответ: 5"),
            ("5", "Ответ: $5$."),
            ("5", "답은 5입니다."),
            ("\\sqrt{2}", "答案是√2"),
            ("1/2", "因为 $x = 3$，所以答案是 $\\frac{1}{2}$。"),
            ("-3", "Ответ: -3"),
            ("\\alpha + \\beta", "α + β"),
            ("五", "\\boxed{五}"),
            ("5 см", "\\boxed{5 см}"),
        ],
    );
    assert_graded(false, &[("5", "答案是6"), ("2", "答案是√2"), ("5", "Ответ: 15"), ("五", "\\boxed{六}")]);
}

#[test]
fn an_empty_box_is_no_item_of_a_list() {
    assert_graded(
        true,
        &[
            ("42", "\\boxed{42} \\boxed{}"),
            ("42", "\\boxed{}\\boxed{42}"),
            ("1, 2", "\\boxed{1}, \\boxed{ }, \\boxed{2}"),
        ],
    );
    assert_graded(false, &[("42", "\\boxed{} \\boxed{}")]);
}

#[test]
fn data_that_was_escaped_twice() {
    for (gold, response) in [
        ("\\\\left( \\\\frac{4}{3}, -\\\\frac{1}{3} \\\\right)", "\\boxed{(4/3,-1/3)}"),
        ("004", "so \\\\boxed{004}.\\n\\n**Final Answer**\\n\\\\boxed{004}"),
        ("-2 \\\\le x \\\\le 7", "$x \\in [-2,7]$"),
    ] {
        assert_eq!(verify(&json!(gold), response).verdict, Verdict::Correct, "{gold} | {response}");
    }
}

#[test]
fn lists_of_ground_truths_are_alternatives() {
    let gold = json!(["9.6\n", "\\frac{t}{m}", 7]);
    for (response, verdict) in [
        ("\\boxed{9.6}", Verdict::Correct),
        ("\\boxed{t/m}", Verdict::Correct),
        ("\\boxed{7}", Verdict::Correct),
        ("\\boxed{9.6, 7}", Verdict::Wrong),
        ("\\boxed{8}", Verdict::Wrong),
    ] {
        assert_eq!(verify(&gold, response).verdict, verdict, "{response}");
    }
}

#[test]
fn no_answer_is_unparseable_and_no_ground_truth_a_fault() {
    for response in ["", "I do not know what to say.", "\\boxed{}", "\\boxed{ }", "..//,,--", "/"] {
        assert_eq!(verify(&json!("34"), response).verdict, Verdict::Unparseable, "{response}");
    }
    for gold in [json!(null), json!(""), json!(" "), json!([]), json!([null]), json!({"a": 1}), json!("$$")] {
        let judgement = verify(&gold, "34");
        assert_eq!(judgement.verdict, Verdict::Fault, "{gold}");
        assert!(judgement.reason.contains("ground truth"), "{}", judgement.reason);
    }
}

#[test]
fn an_explanation_says_what_was_seen() {
    let explained = explain("$\\frac{1}{2}$", "so it is $\\boxed{x = 0.5}$", &Options::default()).to_string();
    for part in ["1/2", "x = 0.5", "the last box", "Correct"] {
        assert!(explained.contains(part), "{explained}");
    }
    assert!(explain("5", "no idea at all, sorry", &Options::default()).to_string().contains("no answer"));
}

#[test]
fn votes_count_equal_answers_together() {
    let options = Options::default();
    for (a, b, same) in
        [("1/2", "0.5", true), ("x=3", "3", true), ("3", "x=3", true), ("2", "3", false), ("", "", false)]
    {
        assert_eq!(same_answer(a, b, &options), same, "{a} {b}");
    }
}
