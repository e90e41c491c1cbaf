//! Words that are whole answers, in the form of `reading.rs`: without spaces, articles and
//! punctuation.

use super::has;
const NONE: &str = "\
    none nosolution nosolutions nosolutionexists nosolutionsexist norealsolution \
    norealsolutions noanswer nosuchnumber emptyset theemptyset thereisnosolution \
    therearenosolutions therearenorealsolutions norealroots noroots nointegersolutions \
    nosuchvalues";

const INFINITE: &str = "infinitelymany infinitelymanysolutions infinite infinity infinitymany";

/// The set of the real numbers.
const REALS: &str = "\
    allrealnumbers allreals allrealx anyrealnumber everyrealnumber thesetofallrealnumbers";

/// Ways to say that there is no value.
const UNDEFINED: &str = "undefined doesnotexist dne thelimitdoesnotexist notdefined notexist";

/// Whether a text says that there is no answer.
pub fn says_none(text: &str) -> bool {
    has(NONE, text)
}

/// Whether a text says that there are infinitely many.
pub fn says_infinite(text: &str) -> bool {
    has(INFINITE, text)
}

/// Whether a text says that every real number is meant.
pub fn says_reals(text: &str) -> bool {
    has(REALS, text)
}

/// Whether a text says that there is no value.
pub fn says_undefined(text: &str) -> bool {
    has(UNDEFINED, text)
}
