//! What keeps a sentence from settling on the value that it gives.

/// The first word of a sentence that, with an "or" in it, leaves open which of two it is.
pub const EITHER: &str = "either";

/// Words that take back the value before them by offering another: "4, maybe 5". After "or" they do so even without a value.
pub const DOUBTS: &[&str] = &["perhaps", "maybe", "possibly"];

/// Words that may stand between "or" or a doubt and the other value: "4, or it could even be 5".
pub const AFTER_OR: &[&str] = &[
    "it", "could", "might", "may", "can", "be", "is", "even", "also", "else", "maybe", "perhaps", "possibly",
    "just",
];

/// Words after "or" that make a bound of the value before it: "4 or more".
pub const MORE_OR_LESS: &[&str] = &["more", "less", "fewer", "greater", "above", "below"];

/// How a bound begins: "at least 4".
pub const BOUNDS: &[&str] = &[
    "at least",
    "at most",
    "less than",
    "more than",
    "fewer than",
    "greater than",
    "smaller than",
    "larger than",
    "lower than",
    "higher than",
    "bigger than",
];

/// Words that may stand before a bound: "no more than 4".
pub const BEFORE_BOUND: &[&str] = &["no", "not", "strictly", "much", "slightly", "a", "any", "something"];

/// Operations that are yet to be done with the value before them and the one after: "4 times 5".
pub const OPERATIONS: &[&str] = &["times ", "plus ", "minus ", "multiplied by ", "divided by "];

/// What makes a value a difference to another one: "4 more than 5".
pub const DIFFERENCES: &[&str] = &["more than", "less than", "fewer than"];

/// Words that are not in the unit of a value, but make a bound or a sum of it: "5 at least".
pub const NO_AMOUNT: &[&str] = &["least", "most", "minus", "plus"];
