//! Equations and named values.

use super::{different, same};

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
fn named_values_belong_to_their_names() {
    same(&[
        ("x=1,y=2", "y=2,x=1"),
        ("(x,y)=(1,2)", "y=2, x=1"),
        ("x=1,y=2", "(y,x)=(2,1)"),
        ("(1,2)", "x=1, y=2"),
        ("M=3, n=1", "m=3, N=1"),
        ("P(x)=0,P(x)=1", "P(x)=1,P(x)=0"),
        ("x=0,x=1", "x=1 \\text{ or } x=0"),
        ("x=0,x=1", "x=1 \\lor x=0"),
        ("(-\\infty, 1) \\cup (2, \\infty)", "x < 1 \\vee x > 2"),
        ("p \\lor q", "q \\vee p"),
        ("x \\in \\{0,1\\}", "x=0, x=1"),
        ("x>1,y>2", "y>2,x>1"),
    ]);
    different(&[
        ("p, q", "p \\lor q"),
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
fn coordinates_are_in_their_order() {
    same(&[
        ("(2, -1)", "x = 2, y = -1"),
        ("(2, -1)", "y = -1, x = 2"),
        ("(1, 2, 3)", "z = 3, x = 1, y = 2"),
        ("(2, 1)", "p = 2, q = 1"),
        ("(1, 2)", "r = 1, \\theta = 2"),
        ("(1, 2)", "x_1 = 1, x_2 = 2"),
        ("(1, 2)", "x = 1 \\text{ and } y = 2"),
        ("(x=1, y=2)", "x=1, y=2"),
    ]);
    different(&[
        ("[1,2]", "x=1, y=2"),
        ("(0,1]", "x=0, y=1"),
        ("(1,2)", "x=1, x=2"),
        ("(1,2)", "x=1 \\text{ or } y=2"),
        ("(1,2)", "z=1, y=2"),
        ("(1,2)", "\\theta=1, r=2"),
        ("(2,1)", "q=2, p=1"),
        ("(1,2)", "q=2, p=1"),
        ("(3, 2)", "p = 3, b = 2"),
        ("(2, -1)", "y = 2, x = -1"),
        ("(2, -1)", "x = -1, y = 2"),
        ("(1, 2, 3)", "x = 1, y = 2"),
    ]);
}

#[test]
fn a_sentence_may_end_in_the_answer() {
    same(&[
        ("11", "\\text{The number is } 11."),
        ("x=5", "\\text{The solution is } x = 5"),
        ("2, 3", "\\text{The roots are } 2 \\text{ and } 3"),
        ("\\text{only }x=0", "0"),
        ("\\text{only }x=0", "x = 0 \\text{ only}"),
    ]);
    different(&[
        ("11", "\\text{The number is } 12."),
        ("11", "\\text{The number is not } 11."),
        ("11", "\\text{That it is not is } 11."),
        ("\\text{only }x=0", "1"),
    ]);
}

#[test]
fn one_value_in_several_forms_has_one_name() {
    same(&[
        ("1/2", "P(A)=\\frac12, P(A)=0.5"),
        ("1/2", "x = \\frac12 \\text{ or } 0.5"),
        ("28\\%", "28\\% \\text{ or } 0.28"),
    ]);
    different(&[
        ("2", "p=2,q=2"),
        ("2", "f(1)=2, f(2)=2"),
        ("1/2", "P(A)=\\frac12, P(B)=0.5"),
        ("x=4", "y=4,z=4"),
        ("28\\%", "28, 0.28"),
    ]);
}

#[test]
fn a_label_that_computes_with_the_answer_has_none() {
    same(&[
        ("3", "\\text{The answer is } 3"),
        ("3", "\\text{The square root is } 3"),
        ("3", "\\text{The number of ways is } 3"),
    ]);
    different(&[
        ("3", "\\text{The answer minus one is } 3"),
        ("3", "\\text{The square root of the answer is } 3"),
        ("3", "\\text{twice the answer is } 3"),
        ("3", "\\text{Twice the answer: } 3"),
    ]);
}
