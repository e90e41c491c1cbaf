//! MBPP (arXiv:2108.07732): a task in a sentence, `text` or, sanitized, `prompt`; and `test_list`,
//! assertions behind `test_setup_code` or, sanitized, `test_imports`.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::code_layout::{tests, text};
use crate::rows::Row;
use crate::{Problem, Prompt};

pub(super) const COLUMNS: &[&str] =
    &["task_id", "text", "prompt", "test_list", "test_setup_code", "test_imports"];

/// Tasks that the authors evaluate on. The others are for training and for examples.
const EVALUATED: RangeInclusive<u64> = 11..=510;

/// A problem in the words of its authors, with all its assertions.
pub(super) fn problem(row: &Row, origin: String) -> Result<Problem, String> {
    let task_id =
        row.get("task_id").and_then(Value::as_u64).ok_or("column task_id is not a whole number")?;
    if !EVALUATED.contains(&task_id) {
        return Err(format!("task {task_id} is not among those for evaluation, 11 to 510"));
    }
    let task = text(row, "text").or_else(|_| text(row, "prompt"))?.trim();
    let assertions: Option<Vec<&str>> = row
        .get("test_list")
        .and_then(Value::as_array)
        .and_then(|list| list.iter().map(Value::as_str).collect());
    let assertions = assertions.ok_or("column test_list is not a list of texts")?.join("\n");
    Ok(Problem {
        prompt: Prompt::Text(format!(
            "You are an expert Python programmer, and here is your task: {task} Your code should \
             pass these \
             tests:\n\n{assertions}\n\nPut it in a markdown code block."
        )),
        ground_truth: tests(row, &["test_list", "test_setup_code", "test_imports"]),
        data_source: "mbpp".into(),
        extra_info: json!({ "task_id": task_id }),
        columns: Row::new(),
        hint: None,
        origin,
    })
}
