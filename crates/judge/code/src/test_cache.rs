//! Tests that were read lately. The responses to a problem come one by one, and its tests may take
//! a while to read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::forms::Tests;

/// Most problems that are known at a time: more than are usually sampled at the same time.
const MOST: usize = 256;

/// Most bytes of their ground truths together. The last one is known whatever its size.
const MOST_BYTES: usize = 64 << 20;

/// The problems asked about last, the latest at the end.
#[derive(Default)]
pub struct TestCache(Mutex<VecDeque<Arc<Problem>>>);

/// A problem's tests, as the data have them and as they are read.
pub struct Problem {
    ground_truth: Value,
    bytes: usize,
    tests: OnceLock<Result<Tests, String>>,
}

impl TestCache {
    /// The problem with this ground truth.
    pub fn problem(&self, ground_truth: &Value) -> Arc<Problem> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().rposition(|problem| problem.ground_truth == *ground_truth);
        let found = place.and_then(|place| known.remove(place));
        let problem = found.unwrap_or_else(|| Arc::new(Problem::new(ground_truth)));
        known.push_back(Arc::clone(&problem));
        let mut bytes: usize = known.iter().map(|problem| problem.bytes).sum();
        while known.len() > MOST || known.len() > 1 && bytes > MOST_BYTES {
            bytes -= known.pop_front().map_or(0, |oldest| oldest.bytes);
        }
        problem
    }
}

impl Problem {
    fn new(ground_truth: &Value) -> Self {
        Self {
            ground_truth: ground_truth.clone(),
            bytes: size(ground_truth),
            tests: OnceLock::new(),
        }
    }

    /// Its tests, read by the first who asks; otherwise what is wrong with them.
    pub fn tests(&self) -> Result<&Tests, &String> {
        self.tests.get_or_init(|| Tests::from_value(&self.ground_truth)).as_ref()
    }
}

/// About how many bytes a value takes.
fn size(value: &Value) -> usize {
    let within = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(entries) => entries.iter().map(|(key, value)| key.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + within
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tests(number: usize) -> Value {
        json!({ "inputs": [number.to_string()], "outputs": ["0"] })
    }

    #[test]
    fn tests_are_read_once_for_all_responses_to_a_problem() {
        let known = TestCache::default();
        let first = known.problem(&tests(1));
        assert_eq!(first.tests(), Tests::from_value(&tests(1)).as_ref());
        assert!(!Arc::ptr_eq(&first, &known.problem(&tests(2))));
        assert!(Arc::ptr_eq(&first, &known.problem(&tests(1))));
        assert!(known.problem(&json!(7)).tests().is_err());
    }

    #[test]
    fn those_not_asked_about_for_long_are_forgotten() {
        let known = TestCache::default();
        let (first, second) = (known.problem(&tests(1)), known.problem(&tests(2)));
        for number in 3..=MOST + 1 {
            known.problem(&tests(1)); // and so it stays among the latest
            known.problem(&tests(number));
        }
        assert!(Arc::ptr_eq(&first, &known.problem(&tests(1))));
        assert!(!Arc::ptr_eq(&second, &known.problem(&tests(2))));

        let large =
            |letter: &str| json!({ "inputs": [letter.repeat(MOST_BYTES)], "outputs": ["0"] });
        let last = known.problem(&large("a"));
        assert!(Arc::ptr_eq(&last, &known.problem(&large("a"))));
        assert_eq!(known.0.lock().unwrap().len(), 1);
        known.problem(&large("b"));
        assert_eq!(known.0.lock().unwrap().len(), 1);
    }
}
