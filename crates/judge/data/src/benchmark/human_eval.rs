//! HumanEval (arXiv:2107.03374): the prompt is the beginning of a program, up to the documentation
//! of the function at its end; `test` checks what `entry_point` names.

use serde_json::json;

use super::code_layout::{tests, text};
use crate::rows::Row;
use crate::{Problem, Prompt};

pub(super) const COLUMNS: &[&str] = &["task_id", "prompt", "entry_point", "test"];

/// The instruction before the function, in the words of EvalPlus (arXiv:2305.01210).
const INSTRUCTION: &str = "Please provide a self-contained Python script that solves the \
 following problem \
                           in a markdown code block:";

/// A problem for chat models.
pub(super) fn problem(row: &Row, origin: String) -> Result<Problem, String> {
    let prompt = format!("{INSTRUCTION}\n```\n{}\n```\n", text(row, "prompt")?.trim());
    asked(Prompt::Text(prompt), row, origin)
}

/// A problem for base models: the beginning alone, which they continue.
pub(super) fn completion(row: &Row, origin: String) -> Result<Problem, String> {
    asked(Prompt::Beginning(text(row, "prompt")?.to_owned()), row, origin)
}

fn asked(prompt: Prompt, row: &Row, origin: String) -> Result<Problem, String> {
    text(row, "entry_point")?;
    Ok(Problem {
        prompt,
        // Includes the prompt, because its definitions belong to the program and to its tests.
        ground_truth: tests(row, &["prompt", "entry_point", "test"]),
        data_source: "humaneval".into(),
        extra_info: json!({ "task_id": row.get("task_id") }),
        columns: Row::new(),
        hint: None,
        origin,
    })
}
