//! What a row is, whatever the format of its file.

use serde_json::{Map, Value};

/// A row: its columns by name.
pub(crate) type Row = Map<String, Value>;

/// What is told of every row: where it is, and what it holds or why it cannot be read.
pub(crate) type EachRow<'a> = dyn FnMut(String, Result<Row, String>) + 'a;
