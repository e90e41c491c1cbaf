//! Words that deny.

/// Words by which a label, a choice or a unit is denied: `\text{The answer is not } 5`, "C is
/// wrong", "5 is wrong".
const NEGATIONS: &[&str] = &["not", "wrong", "incorrect", "false", "cannot", "never"];

/// Endings of negated verbs: "isn't".
const NOT: &str = "n't";

/// Whether a word says that something is not so.
pub fn is_negation(word: &str) -> bool {
    NEGATIONS.contains(&word) || word.ends_with(NOT)
}

/// Words right before a number, formula or choice by which it is not the answer: "it is not 5".
pub const DENIALS: &[&str] = &[
    "not", "cannot", "never", "doubt", "unlikely", "hardly", "neither", "nor", "tempting",
    "tempted", "не",
];

/// Endings of words that do the same: "isn't 5".
pub const DENIAL_ENDINGS: &[&str] = &[NOT, "不是"];

/// Words that may stand between such a word and what it denies: "it cannot be equal to 5".
pub const BEFORE_DENIED: &str = "\
    be equal to the choice simply just is are answer answers that final textbf boxed";

/// Verbs of opinion, between a denial or [`MODALS`](super::hedges::MODALS) and
/// what is denied: "one might think that it is 5".
pub const OPINIONS: &[&str] = &[
    "think", "say", "believe", "claim", "guess", "expect", "suppose", "assume", "argue", "mean",
    "answer",
];

/// People whose opinion is not the writer's.
pub const OTHERS: &[&str] = &["people", "students", "some", "many", "most", "others", "they"];

/// Words before a claim that is only supposed: "suppose the answer is 5".
pub const SUPPOSES: &[&str] =
    &["suppose", "supposing", "assume", "assuming", "if", "whether", "unless"];

/// Words of a clause that make an answer with "would be" unreal: "had we counted zero, it would be
/// 5".
pub const UNREAL: &[&str] = &["if", "had", "were", "without", "otherwise"];

/// Words right before a number that make another of it, or doubt it: "twice 5", "almost 5", "maybe
/// 5".
pub const ALTERS: &str = "\
    root square cube reciprocal factorial logarithm log digits factor factors divisor divisors \
    multiple multiples inverse opposite negation conjugate near exceeds twice thrice double triple \
    half third quarter over under above below nearly almost negative minus beyond than maybe \
    perhaps possibly probably presumably except besides excluding without";

/// Words before "to" and a value that say that it is the same.
pub const EQUAL: &[&str] =
    &["equal", "equivalent", "identical", "up", "us", "lead", "reduce", "simplify", "come"];

/// Words before "by" and a value that say that it is this one.
pub const GIVEN: &[&str] =
    &["given", "represented", "described", "expressed", "obtained", "increased", "decreased"];

/// Two words right before a number that exclude it.
pub const EXCLUDES: &str = "\
    anything but|everything but|all but|nothing but|other than|apart from|different from|\
    close to|divisible by";

/// Words that deny a claim, before one of [`CLAIMS`]: "it is wrong to say that the answer is 5".
pub const FALSE: &[&str] =
    &["wrong", "false", "incorrect", "untrue", "not true", "not correct", "n't true"];

/// Words that introduce the claim that is denied.
pub const CLAIMS: &[&str] = &["to say", "to think", "to claim", "to assume", "that"];

/// Words that, besides negations, deny a whole sentence: "No function is odd."
pub const DENYING_WORDS: &str = "\
    no none neither nor nothing nobody nowhere hardly scarcely few unless if";

/// Words that deny a choice if they are all of the text after it: "C: no". Upper and lower case
/// count.
pub const NO: &[&str] = &["no", "No", "NO"];

/// Words after the letter of a choice that begin a sentence about it, which may deny it: "C is not
/// right".
pub const CHOICE_PREDICATES: &[&str] =
    &["is", "was", "can", "cannot", "could", "must", "seems", "looks", "which", "but", "would"];

/// Negations that may begin what a choice says: "C) Not enough information", "C) False".
pub const CHOICE_MAY_SAY: &[&str] = &["not", "false"];

/// A word of a choice's text that makes its negation a part of it: "cannot be determined".
pub const UNDETERMINED: &str = "determined";

/// Remarks in brackets that a value is not an answer: "2 (extraneous)".
pub const DISCARDED: &[&str] =
    &["extraneous", "rejected", "discarded", "invalid", "inadmissible", "impossible"];
