//! Numbers and quantities with units.

use super::{different, same};

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
fn a_letter_apart_from_its_number_is_a_unit_that_may_be_left_out() {
    same(&[
        ("63 m", "63"),
        ("63 m", "63.0"),
        ("63 m", "63 meters"),
        ("63 m", "63 \\text{ m}"),
        ("63 m", "63m"),
        ("12 V", "12"),
        ("5 s", "5"),
        ("-5\\,s", "-5"),
        ("1,200 m", "1200"),
        ("$63~m^2$", "63"),
        ("5 m/s", "5"),
        ("63 \\text{ m}", "63"),
    ]);
    different(&[
        ("63 m", "64"),
        ("63 m", "63 x"),
        ("2m", "2"),
        ("2 x", "2"),
        ("2 m n", "2"),
        ("2 \\sqrt{m}", "2"),
        ("2 \\cdot m", "2"),
        ("2 m + 1", "3"),
    ]);
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
fn units_may_be_fractions_of_words_and_half_days() {
    same(&[
        ("12\\text{ mph}", "12 \\frac{\\text{miles}}{\\text{hour}}"),
        ("9.8", "9.8 \\dfrac{\\text{m}}{\\text{s}^2}"),
        ("1:05", "1:05 PM"),
        ("1:05", "\\text{1:05 p.m.}"),
    ]);
    different(&[
        ("12\\text{ mph}", "13 \\frac{\\text{miles}}{\\text{hour}}"),
        ("1:05", "1:06 PM"),
        ("1:05", "1:50 PM"),
    ]);
}

#[test]
fn what_is_said_beside_the_value_is_left_out() {
    same(&[
        ("5", "5\\text{ (as required)}"),
        ("5", "5 \\quad \\checkmark"),
        ("5", "5 \\pmod{7}"),
        ("5", "5 \\mod 7"),
        ("4/9", "P(A \\mid B) = \\frac{4}{9}"),
        ("4/9", "P(A|B) = \\frac{4}{9}"),
        ("5", "\\|\\mathbf{v}\\| = 5"),
        ("(3,4)", "\\text{the point } (3,4)"),
        ("[0,1]", "\\text{The interval } [0,1]."),
        ("3/10", "P(\\text{red}) = \\frac{3}{10}"),
        ("3/10", "\\text{Area of } ABC = \\frac{3}{10}"),
        ("3/10", "\\frac{3}{10} \\text{ or } 0.3"),
        ("3/10", "\\frac{3}{10} \\text{ or } 30\\%"),
    ]);
    different(&[
        ("5", "5\\text{ (not required)}"),
        ("5", "6 \\pmod{7}"),
        ("5", "5, 5"),
        ("4/9", "P(A \\mid B) = \\frac{5}{9}"),
        ("[0,1]", "\\text{not } [0,1]"),
        ("\\text{east}", "-(\\text{east})"),
        ("P(\\text{red})", "P(\\text{blue})"),
        ("3/10", "P(\\text{red}) = \\frac{7}{10}"),
        ("3/10", "P(\\text{not red}) = \\frac{3}{10}"),
        ("3/10", "\\frac{3}{10} \\text{ or } 0.7"),
    ]);
}

#[test]
fn words_that_change_a_value_are_not_left_out() {
    same(&[
        ("5", "5 \\text{ (in all)}"),
        ("5", "5 \\text{ (five)}"),
        ("5", "5 \\text{ (cm)}"),
        ("5", "2 \\text{ (extraneous)}, 5"),
        ("5 \\text{ million}", "5 million"),
        ("(1,2)", "\\text{the ordered pair } (1,2)"),
    ]);
    different(&[
        ("5", "5 \\text{ (million)}"),
        ("5", "5 \\text{ million}"),
        ("5", "5 \\text{ (six)}"),
        ("5", "5 \\text{ (base six)}"),
        ("5", "5 \\text{ (at least)}"),
        ("5", "5 \\text{ (rejected)}"),
        ("x+1", "x+1 \\text{ (squared)}"),
        ("2,5", "2, 5 \\text{ (extraneous)}"),
        ("5", "5\\frac{\\text{one}}{\\text{two}}"),
        ("(1,2)", "\\text{all reals except } (1,2)"),
        ("(1,2)", "\\text{perpendicular to } (1,2)"),
        ("[1,2]", "\\text{everything outside } [1,2]"),
    ]);
}

#[test]
fn remainders_are_computed_and_congruences_taken_as_they_are() {
    same(&[
        ("5", "12 \\bmod 7"),
        ("2^{100} \\bmod 7", "2"),
        ("3^{1001} \\cdot 2 \\bmod{8}", "6"),
        ("5 \\pmod 7", "5 \\pmod 7"),
        ("12 \\bmod 7", "5"),
    ]);
    different(&[
        ("12", "12 \\bmod 7"),
        ("2^{100}", "2^{100} \\bmod 7"),
        ("10", "10 \\pmod 3"),
        ("7", "7 \\pmod 7"),
        ("5", "5 \\bmod 0"),
        ("5 \\pmod 7", "5 \\pmod 9"),
        ("1", "3/2 \\bmod 2"),
    ]);
}

#[test]
fn times_of_day_are_no_ratios() {
    same(&[("3 PM", "3 PM"), ("3:20 PM", "3:20"), ("3:30", "3:30 PM"), ("3:2", "6:4"), ("1/2", "1:2")]);
    different(&[
        ("3 PM", "3 AM"),
        ("3:30", "6:60"),
        ("3:30", "7:00"),
        ("1:05", "2:10"),
        ("3:20 PM", "6:40"),
        ("3:20 PM", "3:20 AM"),
        ("1/2", "10 to 20"),
    ]);
}
