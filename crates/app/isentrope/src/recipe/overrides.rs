//! `--set key.path=value`: settings from the command line replace the file's.

use super::tree::{Node, Value, parse};
use anyhow::{Result, anyhow, bail};
use toml::de::DeTable;

/// Applies one `key.path=value` to a recipe, creating the tables on the way.
///
/// The value is TOML; a bare word that is not, or is a date, is a string, and nothing at all takes
/// the key out, so that its default holds. A number in the path is the index of an existing array's
/// item.
///
/// # Errors
/// When the argument has another form, or its path goes through something that is no table.
pub fn apply(root: &mut Node, set: &str) -> Result<()> {
    let at = format!("--set {set}");
    let Some((path, text)) = set.split_once('=') else {
        bail!("{at}: has no '='; write --set key.path=value");
    };
    let path =
        keys(path).ok_or_else(|| anyhow!("{at}: {path:?} is not a path of keys such as a.b.c"))?;
    match text.trim() {
        "" => take_out(root, &path),
        text => put(root, &path, 0, value(text, &at)?, &at)?,
    }
    Ok(())
}

/// Puts a value, written as in [`apply`], under a key of the root. `at` is the place that errors
/// name.
///
/// # Errors
/// When it is not TOML.
pub fn put_text(root: &mut Node, key: &str, text: &str, at: &str) -> Result<()> {
    put(root, &[key.to_owned()], 0, value(text.trim(), at)?, at)
}

/// The keys of a dotted path, which may be quoted as in TOML.
pub fn keys(path: &str) -> Option<Vec<String>> {
    if path.contains(['\n', '#', '=']) {
        return None; // would be read as more than a key
    }
    let mut node = parse(&format!("{path} = 0"), &|_| String::new()).ok()?;
    let mut keys = Vec::new();
    while let Value::Table(mut entries) = node.value {
        let (key, inner) = entries.pop()?;
        keys.push(key);
        node = inner;
    }
    matches!(node.value, Value::Scalar(_)).then_some(keys)
}

fn value(text: &str, at: &str) -> Result<Value> {
    let is_word = !text.starts_with(['"', '\'', '[', '{']);
    if is_word && text.contains(r"\n") {
        bail!(
            "{at}: a line break is \\n within double quotes, --set 'KEY=\"...\\n...\"'; put single \
             quotes around a value with these two letters"
        );
    }
    let word = || Value::Scalar(toml::Value::String(text.to_owned()));
    let assignment = format!("value = {text}");
    match parse(&assignment, &|_| at.to_owned()) {
        Ok(Node { value: Value::Table(mut entries), .. }) => {
            match end_of_value(&assignment).unwrap_or(0) {
                // No setting has TOML's date type, so a date is read as a string.
                end if end == assignment.len() => Ok(match entries.swap_remove(0).1.value {
                    Value::Scalar(toml::Value::Datetime(_)) => word(),
                    value => value,
                }),
                // A comment, or more keys.
                _ if is_word => Ok(word()),
                end => bail!("{at}: {:?} follows the value", assignment[end..].trim_start()),
            }
        }
        Err(error) if !is_word => Err(error),
        _ => Ok(word()),
    }
}

/// The end of the value of the key `value` in a TOML text, in bytes.
fn end_of_value(text: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    table
        .get_ref()
        .iter()
        .find_map(|(key, value)| (key.get_ref() == "value").then(|| value.span().end))
}

fn put(node: &mut Node, path: &[String], depth: usize, value: Value, at: &str) -> Result<()> {
    let Some(key) = path.get(depth) else {
        *node = Node { at: at.to_owned(), value };
        return Ok(());
    };
    let inner = match &mut node.value {
        Value::Table(entries) => {
            let known = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
                let empty = Node { at: at.to_owned(), value: Value::Table(Vec::new()) };
                entries.push((key.clone(), empty));
                entries.len() - 1
            });
            &mut entries[known].1
        }
        Value::Array(items) => {
            let len = items.len();
            key.parse().ok().and_then(|index: usize| items.get_mut(index)).ok_or_else(|| {
                anyhow!(
                    "{at}: `{}` is an array of {len}, and `{key}` is not the number of an item \
                     (the first is 0)",
                    path[..depth].join(".")
                )
            })?
        }
        Value::Scalar(_) | Value::TooLarge(_) => {
            bail!("{at}: `{}` is not a table, so it has no key `{key}`", path[..depth].join("."))
        }
    };
    put(inner, path, depth + 1, value, at)
}

fn take_out(root: &mut Node, path: &[String]) {
    let Value::Table(entries) = &mut root.value else { return };
    match path {
        [key] => entries.retain(|(name, _)| name != key),
        [key, rest @ ..] => {
            if let Some((_, inner)) = entries.iter_mut().find(|(name, _)| name == key) {
                take_out(inner, rest);
            }
        }
        [] => {}
    }
}
