//! LeetCodeDataset (arXiv:2504.14655): `query` is what models are asked; `prompt`, here imports and
//! helpers, `entry_point` and `test` are as in HumanEval. Its first versions had the query in
//! `meta`.

use serde_json::{Value, json};

use super::code_layout::{source, tests, text};
use crate::rows::Row;
use crate::{Problem, Prompt};

pub(super) const COLUMNS: &[&str] =
    &["task_id", "query", "prompt", "entry_point", "test", "difficulty", "meta"];

pub(super) fn problem(row: &Row, origin: String) -> Result<Problem, String> {
    let meta = row.get("meta").and_then(Value::as_object);
    let query =
        text(row, "query").or_else(|error| meta.map_or(Err(error), |meta| text(meta, "query")))?;
    let difficulty = row.get("difficulty").or_else(|| meta?.get("difficulty"));
    text(row, "entry_point")?;
    Ok(Problem {
        prompt: Prompt::Text(query.to_owned()),
        ground_truth: tests(row, &["prompt", "entry_point", "test"]),
        data_source: source("leetcode", difficulty),
        extra_info: json!({ "task_id": row.get("task_id") }),
        columns: Row::new(),
        hint: None,
        origin,
    })
}
