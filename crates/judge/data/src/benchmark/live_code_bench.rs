//! LiveCodeBench (arXiv:2403.07974): problems of contests, with `starter_code` where a method is
//! asked for; `public_test_cases` and `private_test_cases` are texts of JSON, which may be packed.
//!
//! Unpacked, the tests of all problems would fill the memory of most machines. So the ground truth
//! has them as published, and the verifier unpacks one problem's tests to judge a response.

use serde_json::{Value, json};

use super::code_layout::{source, tests, text};
use crate::rows::Row;
use crate::{Problem, Prompt};

pub(super) const COLUMNS: &[&str] = &[
    "question_id",
    "question_content",
    "starter_code",
    "contest_date",
    "difficulty",
    "public_test_cases",
    "private_test_cases",
    "metadata",
];

/// Largest row, in bytes. One problem's tests take megabytes.
pub(super) const ROW_BYTES: usize = 512 << 20;

// Instructions of the benchmark's own runner.
const INSTRUCTION: &str = "You are an expert Python programmer. You will be given a question \
 (problem specification) and will \
                           generate a correct Python program that matches the specification and \
                           passes all tests.";
const WITH_STARTER: &str = "You will use the following starter code to write the solution to the \
 problem and enclose your code \
                            within delimiters.";
const WITHOUT_STARTER: &str = "Read the inputs from stdin solve the problem and write the answer \
 to stdout (do not directly test \
                               on the sample inputs). Enclose your code within delimiters as \
                               follows. Ensure that when the \
                               python program runs, it reads the inputs, runs the algorithm and \
                               writes output to STDOUT.";

pub(super) fn problem(row: &Row, origin: String) -> Result<Problem, String> {
    let question = text(row, "question_content")?;
    let (format, code) = match row.get("starter_code").and_then(Value::as_str) {
        Some(starter) if !starter.is_empty() => (WITH_STARTER, starter),
        _ => (WITHOUT_STARTER, "# YOUR CODE HERE"),
    };
    Ok(Problem {
        prompt: Prompt::Text(format!(
            "{INSTRUCTION}\n\n### Question:\n{question}\n\n### Format: \
             {format}\n```python\n{code}\n```\n\n\
             ### Answer: (use the provided format with backticks)\n\n"
        )),
        ground_truth: tests(row, &["public_test_cases", "private_test_cases", "metadata"]),
        data_source: source("livecodebench", row.get("difficulty")),
        extra_info: json!({ "question_id": row.get("question_id"), "contest_date": row.get("contest_date") }),
        columns: Row::new(),
        hint: None,
        origin,
    })
}
