//! Words that state an answer, join answers, or describe one.

/// Between two answers that are both given.
pub const AND: &str = "and";

/// Between two answers that both count.
pub const OR: &str = "or";

/// Between the parts of a ratio.
pub const TO: &str = "to";

/// Names of an answer in a statement.
pub const ANSWER_NAMES: &[&str] = &["answers", "answer", "correct option", "correct choice"];

/// Before such a name: the answer is final, and counts even after a box.
pub const FINAL: &str = "final ";

/// Words between the name and the answer; longer ones first.
pub const VERBS: &[&str] = &["is:", "is", "are:", "are", ":", "=", "would be", "will be"];

/// Words that begin a conclusion after the last formula. In these cases.
pub const CONCLUSIONS: &[&str] = &["Therefore", "therefore", "Thus", "thus", "Hence", "hence"];

/// Names of a choice before its letter, in these cases.
pub const CHOICE_NAMES: &[&str] = &["Option ", "option ", "Choice ", "choice "];

/// Between an answer in words and why it is right.
pub const WHY: &[&str] = &[" because ", " since "];

/// Words between two boxes that end a list of answers: only the boxes after them count.
pub const ENDS_LIST: &str = "\
    no not so then thus therefore hence but is are gives get which wait answer because since we \
    instead rather boxed";

/// Between a subject and what a sentence of words says of it: odd, of "The function is odd." In
/// this order.
pub const SUBJECT_VERBS: &[&str] = &[" is ", " are "];

/// At the start of words they make no difference.
pub const ARTICLES: &[&str] = &["a ", "an ", "the "];

/// After words within `\text{...}` they make a label of them: `\text{The minimum is } 3`.
pub const LABEL_VERBS: &[&str] = &["is", "are", "equals"];

/// After a name they say its value: "$x$ is 5".
pub const NAME_VERBS: &[&str] =
    &["is ", "are ", "equals ", "must be ", "should be ", "must equal "];

/// Words of a label by which it names what is only computed with the answer: "twice the answer".
pub const LABEL_COMPUTES: &str = "\
    minus plus twice thrice double triple half more less fewer increased decreased reduced \
    multiplied divided squared cubed doubled tripled halved";

/// Names of an answer in a label; with [`OF`] before it something else is named: "the root of the
/// answer".
pub const RESULTS: &[&str] = &["answer", "result", "solution"];

/// See [`RESULTS`].
pub const OF: &str = "of";

/// Words before a number that say no more than what follows, currencies among them.
pub const LABELS: &str = "\
    about approximately only rs usd eur gbp rmb is exactly answer";

/// Words before a tuple or an interval that say no more than what kind of thing it is.
pub const SEQUENCE_NAMES: &str = "\
    the a an is are at point points ordered pair pairs triple tuple vector coordinates vertex \
    center centre focus midpoint origin intersection position interval open closed domain range \
    set solution answer";

/// How a clause begins that says for what the answer holds, and is left out: "for all x".
pub const CONDITIONS: &str = "for all|for any|for every|for each";

/// Words that begin a clause which says for what an answer holds: "2n for n > 0".
pub const CLAUSE_WORDS: &[&str] = &["for", "where", "with", "when", "if"];

/// Before such a word: the answer holds for nothing else.
pub const ONLY: &str = "only";

/// Words of such a clause that add nothing to the kind of number that it names: "k is any positive
/// integer".
pub const KIND_FILLERS: &str = "\
    is are a an any all each every some be being in the arbitrary";
