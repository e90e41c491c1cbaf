//! Words that state an answer, join answers, or describe one.

/// The word between two answers that are both given.
pub const AND: &str = "and";

/// Between two answers that both count.
pub const OR: &str = "or";

/// Between the parts of a ratio.
pub const TO: &str = "to";

/// Names of an answer in a statement.
pub const ANSWER_NAMES: &[&str] = &["answers", "answer", "correct option", "correct choice"];

/// The word before a name by which the answer is final, and counts even after a box.
pub const FINAL: &str = "final ";

/// Words between the name and the answer; longer ones first.
pub const VERBS: &[&str] = &["is:", "is", "are:", "are", ":", "=", "would be", "will be"];

/// Words that begin a conclusion after the last formula. In these cases.
pub const CONCLUSIONS: &[&str] = &["Therefore", "therefore", "Thus", "thus", "Hence", "hence"];

/// Names of a choice before its letter, in these cases.
pub const CHOICE_NAMES: &[&str] = &["Option ", "option ", "Choice ", "choice "];

/// Words between an answer in words and its reason.
pub const WHY: &[&str] = &[" because ", " since "];

/// Words between two boxes that end a list of answers: only the boxes after them count.
pub const ENDS_LIST: &str = "\
    no not so then thus therefore hence but is are gives get which wait answer because since we \
    instead rather boxed";

/// Verbs between the subject and the predicate of a sentence of words: "odd" in "The function is
/// odd." They are tried in this order.
pub const SUBJECT_VERBS: &[&str] = &[" is ", " are "];

/// Articles, which make no difference at the start of words.
pub const ARTICLES: &[&str] = &["a ", "an ", "the "];

/// Verbs that make a label of the words before them in `\text{...}`: `\text{The minimum is } 3`.
pub const LABEL_VERBS: &[&str] = &["is", "are", "equals"];

/// Verbs between a name and its value: "$x$ is 5".
pub const NAME_VERBS: &[&str] =
    &["is ", "are ", "equals ", "must be ", "should be ", "must equal "];

/// Words by which a label names something computed from the answer: "twice the answer".
pub const LABEL_COMPUTES: &str = "\
    minus plus twice thrice double triple half more less fewer increased decreased reduced \
    multiplied divided squared cubed doubled tripled halved";

/// Names of an answer in a label; with [`OF`] before it something else is named: "the root of the
/// answer".
pub const RESULTS: &[&str] = &["answer", "result", "solution"];

/// See [`RESULTS`].
pub const OF: &str = "of";

/// Words before a number that add nothing, such as currencies.
pub const LABELS: &str = "\
    about approximately only rs usd eur gbp rmb is exactly answer";

/// Words before a tuple or an interval that only name its kind.
pub const SEQUENCE_NAMES: &str = "\
    the a an is are at point points ordered pair pairs triple tuple vector coordinates vertex \
    center centre focus midpoint origin intersection position interval open closed domain range \
    set solution answer";

/// The beginnings of clauses with a domain that are left out: "for all x".
pub const CONDITIONS: &str = "for all|for any|for every|for each";

/// Words that begin a clause with the domain of an answer: "2n for n > 0".
pub const CLAUSE_WORDS: &[&str] = &["for", "where", "with", "when", "if"];

/// The word before a clause by which the answer holds for nothing else.
pub const ONLY: &str = "only";

/// Words of such a clause that add nothing to the kind of number that it names: "k is any positive
/// integer".
pub const KIND_FILLERS: &str = "\
    is are a an any all each every some be being in the arbitrary";
