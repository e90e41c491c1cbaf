//! Which of the library's algorithms compute a product to the bits of the kernels here, as far as
//! that is known.
//!
//! The library picks an algorithm by a product's sizes, so a right result for one number of tokens
//! proves nothing about another. A verdict belongs to a kind of product and an algorithm, and an
//! algorithm without a verdict is compared before it is used. So no bit depends on earlier
//! requests: library and kernels give the same bits.

use crate::device::Product;
use isentrope_kernels::OutOfMemory;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers of tokens that a kind of product is examined for: the usual ones of steps and passes,
/// and some between the sizes of tiles.
const EXAMINED: [usize; 9] = [1, 8, 24, 64, 160, 512, 1024, 4096, 8192];
/// The most algorithms of a kind that are compared: if the library proposed a new one for every
/// size, a run would do little else.
const MOST: usize = 32;

/// The library's opaque key of an algorithm. All of its words count.
pub(super) type Algorithm = [u64; 8];

/// The requests to the library.
pub(super) trait Library {
    /// The algorithm that the library proposes for a product of these sizes. None if it has no
    /// algorithm that adds in one chain.
    ///
    /// # Errors
    /// When it gives no answer, which says nothing of the next time.
    fn propose(&self, shape: &Product) -> Result<Option<Algorithm>, String>;
    /// Computes a product of these sizes, and compares it with chains.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn compare(&self, shape: &Product, algorithm: &Algorithm) -> Result<Comparison, OutOfMemory>;
}

/// Result of comparing a product with chains.
pub(super) enum Comparison {
    Same,
    /// The difference and its position, or why there was no comparison.
    Refused(String),
}

/// Everything known about the library's algorithms.
#[derive(Default)]
pub(super) struct Algorithms(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The library's proposal, by the product without its addresses.
    proposals: HashMap<Product, Option<Algorithm>>,
    /// Verdicts by kind of product: whether an algorithm's bits are right, and if not, why.
    verdicts: HashMap<Product, HashMap<Algorithm, Result<(), String>>>,
    /// Verdicts by kind of product: whether any examined algorithm is right.
    kinds: HashMap<Product, Result<(), String>>,
}

/// Why our own kernels compute a product.
enum Refusal {
    /// The library may compute the next product of this kind.
    ForNow(String),
    ForGood(String),
}

impl Refusal {
    fn why(self) -> String {
        let (Self::ForNow(why) | Self::ForGood(why)) = self;
        why
    }
}

impl Algorithms {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The algorithm for a product, after a comparison if there was none yet. None if our own
    /// kernels must compute the product.
    pub fn of(&self, library: &impl Library, product: &Product) -> Option<Algorithm> {
        self.lock().settle(library, shape_of(product)).ok()
    }

    /// The algorithm for a product that was requested before. It neither asks the library nor
    /// remembers anything: nothing can be compared while launches are captured, and some versions
    /// of the library do not answer then.
    pub fn known(&self, product: &Product) -> Option<Algorithm> {
        let known = self.lock();
        let algorithm = (*known.proposals.get(&shape_of(product))?)?;
        known.verdicts.get(&kind_of(product))?.get(&algorithm)?.is_ok().then_some(algorithm)
    }

    /// Whether the library computes products of a kind at all. Examines several numbers of tokens
    /// to find out.
    ///
    /// # Errors
    /// Why they are left to the kernels here.
    pub fn examine(&self, library: &impl Library, product: &Product) -> Result<(), String> {
        let mut known = self.lock();
        let kind = kind_of(product);
        if let Some(verdict) = known.kinds.get(&kind) {
            return verdict.clone();
        }
        let settled = EXAMINED.map(|tokens| known.settle(library, with_tokens(kind, tokens)));
        let is_right = settled.iter().any(Result::is_ok);
        let mut left = settled.into_iter().filter_map(Result::err);
        let verdict = match left.next() {
            _ if is_right => Ok(()),
            Some(Refusal::ForGood(why)) if left.all(|left| matches!(left, Refusal::ForGood(_))) => {
                Err(why)
            }
            first => return Err(first.map(Refusal::why).unwrap_or_default()),
        };
        known.kinds.insert(kind, verdict.clone());
        verdict
    }
}

impl Known {
    fn proposed(
        &mut self,
        library: &impl Library,
        shape: Product,
    ) -> Result<Option<Algorithm>, String> {
        if let Some(known) = self.proposals.get(&shape) {
            return Ok(*known);
        }
        let proposed = library.propose(&shape)?;
        self.proposals.insert(shape, proposed);
        Ok(proposed)
    }

    /// The algorithm for a product of these sizes, once it is known to be right.
    fn settle(&mut self, library: &impl Library, shape: Product) -> Result<Algorithm, Refusal> {
        let Some(algorithm) = self.proposed(library, shape).map_err(Refusal::ForNow)? else {
            return Err(Refusal::ForGood(
                "the library has no algorithm of one chain for it".into(),
            ));
        };
        let of_kind = self.verdicts.entry(kind_of(&shape)).or_default();
        let verdict = match of_kind.get(&algorithm) {
            Some(known) => known.clone(),
            None if of_kind.len() == MOST => {
                Err(format!("the library has more than {MOST} algorithms for it"))
            }
            None => {
                // Memory may be free at the next request, so a lack of memory is no verdict.
                let compared = library.compare(&shape, &algorithm);
                let verdict = match compared.map_err(|lacks| Refusal::ForNow(lacks.to_string()))? {
                    Comparison::Same => Ok(()),
                    Comparison::Refused(why) => Err(why),
                };
                of_kind.insert(algorithm, verdict.clone());
                verdict
            }
        };
        verdict.map(|()| algorithm).map_err(Refusal::ForGood)
    }
}

fn shape_of(product: &Product) -> Product {
    Product { a: 0, b: 0, d: 0, ..*product }
}

/// A product without its addresses and its number of tokens, which vary within a kind.
fn kind_of(product: &Product) -> Product {
    with_tokens(shape_of(product), 0)
}

/// The product with another number of tokens: its rows, or for a weight's gradient its terms.
pub(super) fn with_tokens(product: Product, tokens: usize) -> Product {
    match product.a_transposed {
        true => Product { depth: tokens, ..product },
        false => Product { rows: tokens, ..product },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A library that picks an algorithm by the rows of a product.
    struct Fake<F: Fn(usize) -> Option<u64>> {
        /// Chooses the first word of the proposed algorithm by the number of rows.
        picks: F,
        /// Algorithms whose bits are wrong.
        wrong: Vec<u64>,
        has_memory: Cell<bool>,
        answers: Cell<bool>,
        proposals: Cell<usize>,
        /// The comparisons made: rows, and the algorithm.
        compared: RefCell<Vec<(usize, u64)>>,
    }

    fn fake<F: Fn(usize) -> Option<u64>>(picks: F, wrong: &[u64]) -> Fake<F> {
        let (yes, compared) = (|| Cell::new(true), RefCell::default());
        Fake {
            picks,
            wrong: wrong.to_vec(),
            has_memory: yes(),
            answers: yes(),
            proposals: Cell::new(0),
            compared,
        }
    }

    impl<F: Fn(usize) -> Option<u64>> Library for Fake<F> {
        fn propose(&self, shape: &Product) -> Result<Option<Algorithm>, String> {
            assert_eq!((shape.a, shape.b, shape.d), (0, 0, 0));
            self.proposals.set(self.proposals.get() + 1);
            let pick = || (self.picks)(shape.rows).map(|word| [word, 0, 0, 0, 0, 0, 0, 9]);
            self.answers.get().then(pick).ok_or_else(|| "it does not answer".into())
        }
        fn compare(
            &self,
            shape: &Product,
            algorithm: &Algorithm,
        ) -> Result<Comparison, OutOfMemory> {
            if !self.has_memory.get() {
                return Err(OutOfMemory { asked: 1, why: "it is full".into() });
            }
            self.compared.borrow_mut().push((shape.rows, algorithm[0]));
            let is_wrong = self.wrong.contains(&algorithm[0]);
            Ok(if is_wrong { Comparison::Refused("other bits".into()) } else { Comparison::Same })
        }
    }

    fn product(rows: usize) -> Product {
        let (a, b, d) = (256, 512, 1024);
        Product { a, b, d, rows, columns: 64, depth: 128, ..Product::default() }
    }

    /// A comparison at one size proves nothing about a size with another algorithm.
    #[test]
    fn an_algorithm_is_compared_before_it_is_used() {
        let library = fake(|rows| Some(if rows == 200 { 2 } else { 1 }), &[2]);
        let algorithms = Algorithms::default();
        algorithms.examine(&library, &product(0)).unwrap();
        assert_eq!(*library.compared.borrow(), [(1, 1)], "once, whatever sizes it is proposed for");
        assert_eq!(algorithms.of(&library, &product(300)).unwrap()[0], 1);
        assert_eq!(library.compared.borrow().len(), 1);
        for _ in 0..2 {
            assert_eq!(algorithms.of(&library, &product(200)), None);
            assert_eq!(library.compared.borrow()[1..], [(200, 2)]);
        }
        // Nothing is known of another kind.
        let wide = Product { columns: 128, ..product(300) };
        algorithms.of(&library, &wide).unwrap();
        assert_eq!(library.compared.borrow()[2..], [(300, 1)]);
    }

    #[test]
    fn a_capture_asks_for_nothing_and_leaves_nothing_behind() {
        let library = fake(|_| Some(1), &[]);
        let algorithms = Algorithms::default();
        assert_eq!(algorithms.known(&product(24)), None);
        // Like a library that does not answer while launches are captured.
        assert_eq!((library.proposals.get(), library.compared.borrow().len()), (0, 0));
        let algorithm = algorithms.of(&library, &product(24));
        assert!(algorithm.is_some());
        assert_eq!(algorithms.known(&Product { a: 4096, ..product(24) }), algorithm);
        assert_eq!(algorithms.known(&product(25)), None, "sizes that nobody has computed yet");
        assert_eq!(library.proposals.get(), 1);
        // A wrong algorithm is not known as right.
        let library = fake(|_| Some(1), &[1]);
        let algorithms = Algorithms::default();
        assert_eq!(algorithms.of(&library, &product(24)), None);
        assert_eq!(algorithms.known(&product(24)), None);
    }

    #[test]
    fn what_fails_for_now_is_asked_for_again() {
        let library = fake(|_| Some(1), &[]);
        let algorithms = Algorithms::default();
        for is_mended in [&library.answers, &library.has_memory] {
            is_mended.set(false);
            assert_eq!(algorithms.of(&library, &product(24)), None);
            assert!(algorithms.examine(&library, &product(24)).is_err());
            is_mended.set(true);
        }
        assert!(algorithms.of(&library, &product(24)).is_some());
        algorithms.examine(&library, &product(24)).unwrap();
    }

    #[test]
    fn kinds_without_a_right_algorithm_say_why() {
        let none = fake(|_| None, &[]);
        let algorithms = Algorithms::default();
        let why = algorithms.examine(&none, &product(0)).unwrap_err();
        assert!(why.contains("no algorithm of one chain"), "{why}");
        let asked = none.proposals.get();
        assert_eq!(algorithms.examine(&none, &product(7)).unwrap_err(), why);
        assert_eq!(none.proposals.get(), asked, "which is remembered");

        let wrong = fake(|_| Some(1), &[1]);
        let algorithms = Algorithms::default();
        assert_eq!(algorithms.examine(&wrong, &product(0)).unwrap_err(), "other bits");
        // If some proposed algorithms are right, those are used.
        let some = fake(|rows| Some(u64::from(rows > 100)), &[1]);
        let algorithms = Algorithms::default();
        algorithms.examine(&some, &product(0)).unwrap();
        assert!(
            algorithms.of(&some, &product(64)).is_some()
                && algorithms.of(&some, &product(128)).is_none()
        );
    }

    #[test]
    fn a_library_with_a_new_algorithm_for_every_size_is_not_compared_for_ever() {
        let library = fake(|rows| Some(rows as u64), &[]);
        let algorithms = Algorithms::default();
        let used =
            (1..200).filter(|&rows| algorithms.of(&library, &product(rows)).is_some()).count();
        assert_eq!((used, library.compared.borrow().len()), (MOST, MOST));
    }
}
