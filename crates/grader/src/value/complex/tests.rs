//! Elementary functions against known digits.

use num_traits::Signed;

use super::*;

/// A decimal with its error.
fn decimal(text: &str) -> BigRational {
    let (integer, decimals) = text.split_once('.').unwrap();
    let digits: BigInt = format!("{integer}{decimals}").parse().unwrap();
    BigRational::new(digits, BigInt::from(10).pow(decimals.len() as u32))
}

/// To 70 digits, as mpmath 1.3 computes them.
#[test]
fn functions_have_the_known_digits() {
    let real = |numerator: i64, denominator: i64| {
        Complex::real(Real::rational(&BigRational::new(numerator.into(), denominator.into())))
    };
    let complex = |re: i64, im: i64| Complex { re: Real::integer(re), im: Real::integer(im) };
    let cases = [
        (
            Some(Complex::pi()),
            "3.14159265358979323846264338327950288419716939937510582097494459230781640629",
            "0.0",
        ),
        (
            real(1, 1).exp(),
            "2.71828182845904523536028747135266249775724709369995957496696762772407663035",
            "0.0",
        ),
        (
            real(-41, 2).exp(),
            "0.00000000125015286638674262893755311923122218227159464207656584933822467744298409851",
            "0.0",
        ),
        (
            real(10, 1).ln(),
            "2.30258509299404568401799145468436420760110148862877297603332790096757260968",
            "0.0",
        ),
        (
            real(3, 1024).ln(),
            "-5.83285951693134340277707597765923997610751078577980308947210576129644192648",
            "0.0",
        ),
        (
            real(2, 1).square_root(),
            "1.41421356237309504880168872420969807856967187537694807317667973799073247846",
            "0.0",
        ),
        (
            real(100, 1).sin(),
            "-0.506365641109758793656557610459785432065032721290657323443392473594357913419",
            "0.0",
        ),
        (
            real(1, 1).cos(),
            "0.540302305868139717400936607442976603732310420617922227670097255381100394774",
            "0.0",
        ),
        (
            real(1, 2).arctan(),
            "0.463647609000806116214256231461214402028537054286120263810933088720197864166",
            "0.0",
        ),
        (
            real(1, 4).arcsin(),
            "0.252680255142078653485657436993710972252193733096838193633923778740575060481",
            "0.0",
        ),
        (
            real(7, 1).power(Exponent::new(1, 3)),
            "1.91293118277238910119911683954876028286243905034587576621064764044723427618",
            "0.0",
        ),
        (
            complex(3, 4).ln(),
            "1.60943791243410037460075933322618763952560135426851772191264789147417898771",
            "0.927295218001612232428512462922428804057074108572240527621866177440395728331",
        ),
        (
            complex(1, 2).sin(),
            "3.1657785132161681467407346171919055383791107678914689322893274643048880838",
            "1.9596010414216058970703520499893582784363201601845596588019014991630942565",
        ),
        (
            complex(3, 2).square_root(),
            "1.81735402102397062007519448603582192646940364312713611206330770582798994387",
            "0.550250522700337511055680565391251437075587559667006965834169822466321657206",
        ),
        (
            complex(2, 1).arcsin(),
            "1.06344002357775205618949199708955100285184240862790481816634982603182807292",
            "1.46935174436818527325584431736164761678780335733478817287791383660247827071",
        ),
    ];
    for (value, re, im) in cases {
        let value = value.unwrap();
        for (part, digits) in [(value.re, re), (value.im, im)] {
            let error = (part.to_rational(4096).unwrap() - decimal(digits)).abs();
            assert!(error < BigRational::new(1.into(), BigInt::from(10).pow(68)), "{digits}: {error}");
            assert!(part.error() < -190, "{digits}: {}", part.error());
        }
    }
}

#[test]
fn inverse_functions_are_inverse() {
    for (re, im) in [(1, 0), (-7, 0), (3, 2), (-5, 11), (1000, -1), (0, 9)] {
        let z = Complex { re: Real::integer(re), im: Real::integer(im) };
        let root = z.square_root().unwrap();
        let images =
            [z.ln().unwrap().exp().unwrap(), root * root, z.reciprocal().unwrap().reciprocal().unwrap()];
        for image in images {
            let difference = image - z;
            assert!(!difference.is_clearly_nonzero() && difference.error() < -180, "{z:?} {image:?}");
        }
    }
}

#[test]
fn a_cancelled_digit_is_an_error() {
    // 2^300 + 1 - 2^300 is lost, 2^200 + 1 - 2^200 is not.
    let difference = |power: i64| {
        let large = Real::integer(1).scaled(power);
        large + Real::integer(1) - large
    };
    assert_eq!(difference(300).sign(), None);
    assert_eq!(difference(200).sign(), Some(Ordering::Greater));
    assert_eq!((Real::integer(3) - Real::integer(3)).sign(), Some(Ordering::Equal));
    let third = Real::rational(&BigRational::new(1.into(), 3.into()));
    assert_eq!((third + third + third - Real::integer(1)).sign(), None);
}
