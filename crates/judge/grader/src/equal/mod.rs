//! Decides whether an answer equals the ground truth.
//!
//! Comparison is not symmetric: the ground truth determines the form, and an answer that says more
//! (`x = 3` for 3) or has another form is right.

mod collection;
mod conclusion;
mod domain;
mod quantity;
mod relation;
mod spans;
mod time_of_day;
mod undone;

use self::collection::{
    are_forms, by_coordinate, coordinates, distinct, has_equation, is_reduced, quotient,
};
use self::quantity::{has_unit_apart, names_matrices};
use self::time_of_day::{Clock, is_time};
use super::answer::{Answer, Brackets};
use super::expression::Expression;
use super::fuel::{Fuel, OutOfFuel};
use super::options::Options;
use super::reading::Reading;
use super::value::{DEFAULT_FUEL, Tolerance};

/// The rule by which two answers are the same.
pub type Rule = &'static str;

/// Result of comparing a response's answer with a ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOutcome {
    /// The two are the same, by this rule.
    Same(Rule),
    /// The answer leaves something to be worked out.
    Undone,
    /// It is another.
    Different,
}

/// Compares a response's answer with the ground truth.
pub fn compare(
    gold: &Reading,
    given: &Reading,
    options: &Options,
) -> Result<CompareOutcome, OutOfFuel> {
    let mut fuel = Fuel::new(DEFAULT_FUEL);
    let mut comparison = Comparison::new(options, &mut fuel);
    Ok(match comparison.same(gold, given)? {
        Some(rule) => CompareOutcome::Same(rule),
        None if comparison.is_left_undone => CompareOutcome::Undone,
        None => CompareOutcome::Different,
    })
}

/// Whether two answers, such as two responses', are the same; false if that is not certain.
pub fn same_answer(a: &str, b: &str, options: &Options) -> bool {
    let (Ok(a), Ok(b)) = (Reading::of(a), Reading::of(b)) else { return false };
    let same = |a, b| matches!(compare(a, b, options), Ok(CompareOutcome::Same(_)));
    same(&a, &b) || same(&b, &a)
}

/// The state of one comparison: what is allowed, and the work that it may still do.
#[derive(Debug)]
struct Comparison<'f> {
    /// How exact decimals must be.
    tolerance: Tolerance,
    /// Whether an inequality may answer for the interval that the ground truth is.
    allow_set_relation: bool,
    /// Whether arithmetic that is left to be done may answer for a number.
    allow_undone: bool,
    /// Whether arithmetic was left undone where that is not allowed.
    is_left_undone: bool,
    /// The fuel that is left.
    fuel: &'f mut Fuel,
    /// Whether `a:b` is a time of day rather than a ratio.
    are_times: bool,
    /// Whether the response has amounts of money. They may equal plain numbers.
    has_money: bool,
    /// Whether capital letters are matrices, whose products have an order.
    has_matrices: bool,
    /// Whether the response's answer is boxed: a fraction in a box is an answer even if it could be
    /// reduced.
    is_boxed: bool,
    /// Whether the ground truth's letters are apart from its number, as a unit's letters are.
    has_unit_apart: bool,
    /// The number of sets around the compared answers.
    nesting: usize,
}

impl<'f> Comparison<'f> {
    /// A comparison that may do as much work as `fuel` allows.
    fn new(options: &Options, fuel: &'f mut Fuel) -> Self {
        Self {
            tolerance: Tolerance {
                decimals: options.decimals,
                significant_digits: options.significant_digits,
            },
            allow_set_relation: options.allow_set_relation,
            allow_undone: options.allow_undone,
            is_left_undone: false,
            fuel,
            are_times: false,
            has_money: false,
            has_matrices: false,
            is_boxed: false,
            has_unit_apart: false,
            nesting: 0,
        }
    }

    fn same(&mut self, gold: &Reading, given: &Reading) -> Result<Option<Rule>, OutOfFuel> {
        if gold.source == given.source {
            return Ok(Some("the same text"));
        }
        if let Some(letter) = gold.lone_choice()
            && given.choice == Some(letter)
        {
            return Ok(Some("the same choice"));
        }
        let (asked, said) = (Clock::of(&gold.source), Clock::of(&given.source));
        if let (Some(asked), Some(said)) = (&asked, &said)
            && (asked.is_certain(&gold.source) || said.is_certain(&given.source))
        {
            return Ok(asked.is_same(said).then_some("the same time of day"));
        }
        if gold.is_text() {
            let same = gold.text == given.text
                || gold.answers.iter().any(|answer| given.answers.contains(answer))
                || given.predicate().is_some_and(|predicate| predicate == gold.text);
            return Ok(same.then_some("the same words"));
        }
        self.are_times = is_time(&gold.source, true) || is_time(&given.source, false);
        self.has_matrices = [gold, given].iter().any(|reading| names_matrices(&reading.source));
        self.is_boxed =
            given.is_boxed && (given.source.contains("frac") || given.source.contains('/'));
        self.has_unit_apart = has_unit_apart(&gold.source);
        self.has_money = given.source.contains("\\$");
        let mut out_of_fuel = None;
        for answer in &gold.answers {
            for other in &given.answers {
                match self.answers_done(answer, other) {
                    Ok(None) => {}
                    Ok(Some(rule)) => return Ok(Some(rule)),
                    Err(error) => out_of_fuel = Some(error),
                }
            }
        }
        out_of_fuel.map_or(Ok(None), Err)
    }

    /// The rule by which an answer without undone arithmetic equals the ground truth, if it does.
    fn answers_done(&mut self, gold: &Answer, given: &Answer) -> Result<Option<Rule>, OutOfFuel> {
        let rule = self.answers(gold, given)?;
        if rule.is_some() && !self.allow_undone && self.is_undone(gold, given)? {
            self.is_left_undone = true;
            return Ok(None);
        }
        Ok(rule)
    }

    /// The rule by which two answers are the same, if they are.
    pub(super) fn answers(
        &mut self,
        gold: &Answer,
        given: &Answer,
    ) -> Result<Option<Rule>, OutOfFuel> {
        self.fuel.spend(1)?;
        let found = match (gold, given) {
            (Answer::Quantity(gold), Answer::Quantity(given)) => {
                return self.quantities(gold, given);
            }
            // Forms of one value are allowed, such as 3/10 or 0.3. Not "17, 17", which is two
            // values, and not "28 or 0.28", although 28% is either.
            (gold @ Answer::Quantity(_), Answer::List(forms))
                if distinct(forms).len() == forms.len() && are_forms(forms) =>
            {
                for (index, form) in forms.iter().enumerate() {
                    let is_another = index > 0 && self.answers(&forms[0], form)?.is_none();
                    if is_another || self.answers(gold, form)?.is_none() {
                        return Ok(None);
                    }
                }
                Some("the same value in several forms")
            }
            // The letter R may have lost its double stroke.
            (Answer::Reals, Answer::Quantity(given)) => {
                (given.expression == Expression::symbol("R")).then_some("the same set")
            }
            (Answer::Text(gold), Answer::Text(given)) => {
                (gold == given).then_some("the same words")
            }
            (Answer::For(..), _) | (_, Answer::For(..)) => return self.restricted(gold, given),
            // The name ABC may be in `\text{}`.
            (Answer::Quantity(gold), Answer::Text(given)) => match &gold.expression {
                Expression::Symbol(name) if name.len() > 2 => {
                    name.eq_ignore_ascii_case(given).then_some("the same name")
                }
                _ => None,
            },
            (Answer::Chain(..), _) | (_, Answer::Chain(..)) => return self.relations(gold, given),
            (Answer::List(a), Answer::List(b)) => {
                self.lists(a, b)?.then_some("the same answers in any order")
            }
            (Answer::List(a), Answer::Sequence(_, b)) => {
                self.ordered(a, b)?.then_some("the same answers in the same order")
            }
            (Answer::Sequence(brackets, a), Answer::List(b))
                if has_equation(b) && !has_equation(a) =>
            {
                match by_coordinate(b).filter(|_| *brackets == Brackets::ROUND) {
                    Some(b) => self.ordered(a, &b)?.then_some("the same coordinates"),
                    None => None,
                }
            }
            (Answer::Sequence(_, a), Answer::List(b)) => {
                self.ordered(a, b)?.then_some("the same answers in the same order")
            }
            (Answer::Set(a), Answer::Set(b)) => self.elements(a, b)?.then_some("the same set"),
            (Answer::Set(a), Answer::List(b)) | (Answer::List(a), Answer::Set(b))
                if self.nesting == 0 =>
            {
                self.elements(a, b)?.then_some("the same set")
            }
            (Answer::Sequence(a, gold), Answer::Sequence(b, given))
                if gold.len() != 2 || a == b =>
            {
                self.ordered(gold, given)?.then_some("the same sequence")
            }
            (Answer::Matrix(a), Answer::Matrix(b)) => {
                self.matrices(a, b)?.then_some("the same matrix")
            }
            (
                Answer::Matrix(matrix),
                Answer::Sequence(Brackets::ROUND, items) | Answer::List(items),
            ) => {
                let (gold, given) = (matrix.vector(), coordinates(items));
                self.vectors(gold, given)?.then_some("the same vector")
            }
            (Answer::Sequence(Brackets::ROUND, items), Answer::Matrix(matrix)) => {
                let (gold, given) = (coordinates(items), matrix.vector());
                self.vectors(gold, given)?.then_some("the same vector")
            }
            (Answer::Ratio(a), Answer::Ratio(b)) => self.ratios(a, b)?.then_some("the same ratio"),
            (Answer::Ratio(ratio), Answer::Quantity(given)) => {
                match quotient(ratio).filter(|_| !self.are_times) {
                    Some(gold) => {
                        self.expressions(&gold, &given.expression)?.then_some("the same ratio")
                    }
                    None => None,
                }
            }
            (Answer::Quantity(gold), Answer::Ratio(ratio)) => {
                match quotient(ratio).filter(|_| !self.are_times && is_reduced(ratio)) {
                    Some(given) => {
                        let same = self.expressions(&gold.expression, &given)?;
                        (same && !self.is_division(gold, &given)?).then_some("the same ratio")
                    }
                    None => None,
                }
            }
            // The only solution may be given as the set of solutions.
            (Answer::Set(items), Answer::Quantity(_) | Answer::Sequence(..))
                if self.nesting == 0 =>
            {
                match only_element(items) {
                    Some(item) => return self.answers(item, given),
                    None => None,
                }
            }
            (Answer::Quantity(_) | Answer::Sequence(..), Answer::Set(items))
                if self.nesting == 0 =>
            {
                match only_element(items) {
                    Some(item) => return self.answers(gold, item),
                    None => None,
                }
            }
            (Answer::Union(a), Answer::Union(b)) if self.sets(a, b)? => {
                Some("unions of the same sets")
            }
            _ => None,
        };
        let about_numbers = self.nesting == 0
            && (is_set(gold) || are_conditions(gold))
            && (is_set(given)
                || (self.allow_set_relation || are_conditions(gold)) && are_conditions(given));
        match found {
            None if about_numbers => {
                Ok(self.same_spans(gold, given)?.then_some("the same numbers"))
            }
            found => Ok(found),
        }
    }
}

/// The element of a set that has one, unless that is a set too: {5} is no element of {{5}}.
fn only_element(items: &[Answer]) -> Option<&Answer> {
    match items {
        [Answer::Set(_)] | [] | [_, _, ..] => None,
        [item] => Some(item),
    }
}

/// Whether an answer is several equations or inequalities.
fn are_conditions(answer: &Answer) -> bool {
    matches!(answer, Answer::List(items) if items.iter().all(|item| matches!(item, Answer::Chain(..))))
}

/// Whether an answer is, or may be, a set of real numbers.
fn is_set(answer: &Answer) -> bool {
    match answer {
        Answer::Union(_)
        | Answer::Intersection(_)
        | Answer::Difference(_)
        | Answer::Reals
        | Answer::Set(_) => true,
        Answer::Sequence(_, items) => items.len() == 2,
        _ => false,
    }
}
