//! Words that keep a sentence from settling on its value.

/// First words of a sentence that leaves two values open if it has an "or".
pub const EITHER: &str = "either";

/// Words that begin a range with two ends.
pub const BETWEEN: &str = "between";

/// Words that take back the value before them by offering another: "4, maybe 5". After "or" they do
/// so even without a value.
pub const DOUBTS: &[&str] = &["perhaps", "maybe", "possibly"];

/// Words that may stand between "or" or a doubt and the other value: "4, or it could even be 5".
pub const AFTER_OR: &str = "\
    alternatively rather i think it could might may can be is even also else maybe perhaps \
    possibly just";

/// Words after "or" that make a bound of the value before it: "4 or more".
pub const MORE_OR_LESS: &[&str] = &["more", "less", "fewer", "greater", "above", "below"];

/// Words that begin a bound: "at least 4".
pub const BOUNDS: &str = "\
    at least|at most|less than|more than|fewer than|greater than|smaller than|larger than|\
    lower than|higher than|bigger than";

/// Words that may stand before a bound: "no more than 4".
pub const BEFORE_BOUND: &[&str] =
    &["no", "not", "strictly", "much", "slightly", "a", "any", "something"];

/// Operations that are yet to be done with the value before them: "4 plus the remainder".
pub const OPERATIONS: &str = "\
    plus |minus |multiplied by |divided by |modulo |mod |over |point |raised to |to the power |\
    above |below |per mille|before ";

/// The operation that needs a value after it, as in "4 times 5": "4 times" alone is a count.
pub const TIMES: &str = "times ";

/// Words between two numbers that make one of both: "5 past 12", "5 times 12".
pub const RELATIONS: &str = "times past off per";

/// Words before a preposition that relate two numbers, as participles do: "5 short of 12".
pub const SHORT: &str = "short shy taken fold";

/// Prepositions after a participle or [`SHORT`].
pub const PREPOSITIONS: &str = "of by from to over under above below beyond";

/// Words that name the end of a range after "from" and a number: "from 1 to 10".
pub const RANGE_TO: &[&str] = &["to", "through"];

/// Words that add another value to the one before them.
pub const ALSO: &[&str] = &["and also", "as well as", "along with", "alternatively"];

/// Words before or in a statement by which it gives one more answer than the one before it: "or the
/// answer is 5", "the answer is also 5".
pub const ANOTHER: &str = "\
    or else also alternative alternatively another perhaps maybe possibly";

/// Words between [`ANOTHER`] and a name of the answer.
pub const BEFORE_NAME: &[&str] = &["the", "my", "final", "correct"];

/// The beginning of a sentence that names several values and means one: "one of 1, 2, 3".
pub const ONE_OF: &[&str] = &["one of", "either of", "any of", "among"];

/// The word before a set whose element is meant: "in {1, 2}".
pub const IN: &str = "in";

/// The word that, before [`THAN`], only denies the next value.
pub const RATHER: &str = "rather";

/// The word after a comparison, which makes a value a difference: "4 more than 5".
pub const THAN: &str = "than";

/// Words after an answer that restrict it to some cases: "5 if n is even".
pub const CONDITIONS: &str = "\
    if unless provided providing assuming except excepting depending otherwise else suppose \
    supposing whenever until long";

/// Words after "when", "for" and "only" that name some cases of several: "5 for odd n".
pub const PARTIAL: &str = "\
    odd even positive negative nonnegative some certain small large most many few if when";

/// Words after an answer that doubt it.
pub const DOUBTFUL: &str = "\
    maybe perhaps possibly probably presumably hopefully tentatively guess guessing unsure \
    uncertain doubt doubtful unclear apparently supposedly";

/// Pairs of words after an answer that doubt it.
pub const DOUBTFUL_PAIRS: &str = "\
    i think|i believe|i suppose|i suspect|at least|at most|or more|or less|second thought|\
    with probability|leaves out";

/// Modal verbs, which say that something is only possible.
pub const MODALS: &[&str] = &["might", "could", "may", "would"];

/// Words that leave a value open before "be": "it may be 5".
pub const POSSIBLE: &[&str] = &["might", "could", "may"];

/// Words between a negation and what is denied.
pub const IN_DENIALS: &str = "\
    be the a an that this really actually quite so yet entirely completely even all at";

/// Predicates denied of an answer that is taken back: "it is not right".
pub const DENIED_PREDICATES: &str = "\
    right correct true valid sure certain final answer it accurate acceptable confident bet \
    case solution hold work possible";

/// Predicates of an answer that is taken back.
pub const FALSE_PREDICATES: &str = "\
    wrong incorrect false invalid mistaken impossible untrue erroneous rejected off";

/// Verbs of an answer that is taken back, and of its author.
pub const FAULTS: &str = "\
    fails contradicts violates ignores neglects misses omits overcounts undercounts overlooks \
    forgets forget forgot overlooked missed neglected ignored miscounted";

/// Words before these verbs that make them about the answer.
pub const FAULTY: &[&str] = &["which", "that", "this", "it", "they", "i"];

/// Verbs of finding an answer wrong: "which I later realized is wrong".
pub const FOUND: &[&str] = &["realized", "realised", "noticed", "think", "believe", "know"];

/// Subjects that stand for the answer before them.
pub const ABOUT_ANSWER: &[&str] =
    &["which", "that", "this", "it", "answer", "result", "value", "must", "cannot"];

/// Words that begin another answer.
pub const RETRACTIONS: &[&str] =
    &["wait", "nope", "oops", "scratch", "correction", "sorry", "hmm", "hm", "strike", "ignore"];

/// Verbs of a sentence that withdraws what was said before it, and what they may be about.
pub const WITHDRAWALS: &[&str] =
    &["ignore", "disregard", "forget", "retract", "withdraw", "cancel"];
pub const WITHDRAWN: &[&str] = &["that", "this", "it", "the", "my"];

/// Words before the subject of a sentence that may take the answer before it back.
pub const OPENERS: &str = "\
    no wait but however actually hmm oops sorry hold on oh well yet though or";

/// Subjects of such a sentence.
pub const SUBJECTS: &[&str] =
    &["that", "this", "it", "answer", "result", "that's", "it's", "which"];

/// Words that begin a reason.
pub const REASONS: &str = "\
    because since as where whose so thus hence therefore while whereas";
