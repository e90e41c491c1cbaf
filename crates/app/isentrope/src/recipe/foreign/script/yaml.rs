//! The settings of a YAML file, as `trl grpo --config` takes them: keys at the left margin, each
//! with a value, or with a list or a table of values in the lines below.

use super::{Setting, shell};

/// The settings, in order. What is not read is named with its line.
pub fn settings(text: &str, file: &str) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = without_comment(text).trim_end();
        if text.is_empty() || text.starts_with("---") {
            continue;
        }
        let key =
            text.split_once(':').filter(|(_, value)| value.is_empty() || value.starts_with(' '));
        let is_read = if text.starts_with([' ', '\t', '-']) {
            found.last_mut().and_then(|setting| add(setting, text.trim_start())).is_some()
        } else if let Some((key, value)) = key {
            let (name, value) = (key.replace('-', "_"), scalar(value));
            let is_read = value.is_some();
            found.push(Setting { name, value: value.flatten(), unread: None });
            is_read
        } else {
            false
        };
        if let Some(setting) = found.last_mut().filter(|_| !is_read) {
            setting.value = None;
            setting.unread = Some(format!("line {line} of {file} is not read"));
        }
    }
    found
}

/// Adds a line to the list or the table of a setting, if the line and the lines before can be read.
fn add(setting: &mut Setting, text: &str) -> Option<()> {
    if setting.unread.is_some() {
        return Some(()); // which says enough
    }
    let is_new = setting.value.is_none();
    match text.strip_prefix("- ") {
        Some(item) if !item.contains(": ") => {
            let empty = toml::Value::Array(Vec::new());
            let list = setting.value.get_or_insert(empty).as_array_mut()?;
            list.push(scalar(item)??);
        }
        None if is_new || setting.value.as_ref()?.is_table() => {
            let (key, value) = text.split_once(": ")?;
            let value = scalar(value)??;
            let empty = toml::Value::Table(toml::Table::new());
            setting.value.get_or_insert(empty).as_table_mut()?.insert(key.to_owned(), value);
        }
        _ => return None,
    }
    Some(())
}

/// A value on one line: none for `null`, as for a key with nothing behind it.
fn scalar(text: &str) -> Option<Option<toml::Value>> {
    let text = text.trim();
    match text.chars().next() {
        Some('"') => Some(Some(serde_json::from_str::<String>(text).ok()?.into())),
        Some('|' | '>' | '&' | '*' | '!') => None,
        _ => Some(shell::value(text).filter(|_| text != "~")),
    }
}

/// A line up to its comment.
fn without_comment(text: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open && before != '\\' => quote = None,
            None if c == '#' && before.is_whitespace() => return &text[..at],
            None if "\"'".contains(c) && " [{,".contains(before) => quote = Some(c),
            _ => {}
        }
        before = c;
    }
    text
}
