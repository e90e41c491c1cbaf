//! Allows a single text in place of a list of texts: `files = "a.jsonl"` is `files = ["a.jsonl"]`.

use super::tree::{Node, Value};
use isentrope_settings::Shape;

/// Makes lists of single texts wherever the shape asks for a list of texts of any length. Tables of
/// several kinds are left alone, because a command in one text would become a program of that name.
pub fn wrap_single_texts(node: &mut Node, shape: &Shape) {
    match (&mut node.value, shape) {
        (Value::Scalar(toml::Value::String(_)), Shape::Array { items, len: None })
            if matches!(**items, Shape::Text | Shape::Choice(_)) =>
        {
            *node = Node { at: node.at.clone(), value: Value::Array(vec![node.clone()]) };
        }
        (Value::Table(entries), Shape::Table(fields)) => {
            for (key, inner) in entries {
                if let Some(field) = fields.iter().find(|field| field.name == *key) {
                    wrap_single_texts(inner, &field.shape);
                }
            }
        }
        _ => {}
    }
}
