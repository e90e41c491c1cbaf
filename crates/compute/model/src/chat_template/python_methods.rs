//! Methods of Python's str, list and dict that minijinja-contrib's `pycompat` lacks or has
//! different results for.

use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Calls `value.method(args)`.
pub(super) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let found = match value.kind() {
        ValueKind::String => str_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq => list_method(value, method, args)?,
        ValueKind::Map if method == "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        _ => None,
    };
    match found {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args),
    }
}

/// The `trim` filter: `str(value).strip(chars)`.
pub(super) fn trim(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let (chars, kwargs): (Option<Value>, Kwargs) = from_args(&args.into_values())?;
    let chars = match chars {
        Some(chars) => Some(chars),
        None => kwargs.get("chars")?,
    };
    kwargs.assert_all_used()?;
    let chars = chars.unwrap_or_else(|| Value::from(()));
    Ok(Value::from(strip(&value.to_string(), &chars, true, true)?))
}

fn str_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<Value>,) = from_args(args)?;
            let chars = chars.unwrap_or_else(|| Value::from(()));
            Value::from(strip(text, &chars, method != "rstrip", method != "lstrip")?)
        }
        "split" | "rsplit" => split(text, args, method == "rsplit")?,
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = before.len() < text.len();
            tuple([before, if found { separator } else { "" }, after])
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = after.len() < text.len();
            tuple([before, if found { separator } else { "" }, after])
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let at = if method == "index" { text.find(part) } else { text.rfind(part) };
            let at =
                at.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        "ljust" | "rjust" => {
            let (width, fill): (i64, Option<&str>) = from_args(args)?;
            let missing = usize::try_from(width)
                .unwrap_or(0)
                .min(MAX_WIDTH)
                .saturating_sub(text.chars().count());
            let padding = fill.unwrap_or(" ").repeat(missing);
            Value::from(if method == "ljust" {
                format!("{text}{padding}")
            } else {
                format!("{padding}{text}")
            })
        }
        _ => return Ok(None),
    }))
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (wanted,): (&Value,) = from_args(args)?;
            for (at, item) in list.try_iter()?.checked().enumerate() {
                if item? == *wanted {
                    return Ok(Some(Value::from(at)));
                }
            }
            Err(Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in list")))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(list.clone()))
        }
        _ => Ok(None),
    }
}

fn tuple(parts: [&str; 3]) -> Value {
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// Widest padded text, in characters.
const MAX_WIDTH: usize = 1 << 16;

/// Python also counts the four ASCII separators as white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn strip<'a>(text: &'a str, chars: &Value, start: bool, end: bool) -> Result<&'a str, Error> {
    let stripped: Box<dyn Fn(char) -> bool> = match chars.as_str() {
        Some(chars) => {
            let chars: Vec<char> = chars.chars().collect();
            Box::new(move |c| chars.contains(&c))
        }
        None if chars.is_none() => Box::new(is_space),
        None => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "strip takes a string of characters",
            ));
        }
    };
    let text = if start { text.trim_start_matches(&stripped) } else { text };
    Ok(if end { text.trim_end_matches(&stripped) } else { text })
}

/// `str.split` and `str.rsplit`, with `sep` and `maxsplit` by position or name.
fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, limit, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get("sep")?,
    };
    let limit = match limit {
        Some(limit) => Some(limit),
        None => kwargs.get("maxsplit")?,
    };
    kwargs.assert_all_used()?;
    // A negative limit is no limit.
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX - 1);
    let separator = separator.filter(|separator| !separator.is_none());
    let Some(separator) = separator else { return Ok(split_space(text, limit, from_right)) };
    match separator.as_str() {
        Some("") => Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) if from_right => {
            let mut parts: Vec<_> = text.rsplitn(limit + 1, separator).collect();
            parts.reverse();
            Ok(parts.into_iter().collect())
        }
        Some(separator) => Ok(text.splitn(limit + 1, separator).collect()),
        None => Err(Error::new(ErrorKind::InvalidOperation, "split takes a string as separator")),
    }
}

/// Splits at runs of white space, at most `limit` times.
fn split_space(text: &str, limit: usize, from_right: bool) -> Value {
    let mut parts = Vec::new();
    let mut rest = if from_right {
        text.trim_end_matches(is_space)
    } else {
        text.trim_start_matches(is_space)
    };
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(at) = cut.filter(|_| parts.len() < limit) else {
            parts.push(rest);
            break;
        };
        if from_right {
            parts.push(rest[at..].trim_start_matches(is_space));
            rest = rest[..at].trim_end_matches(is_space);
        } else {
            parts.push(&rest[..at]);
            rest = rest[at..].trim_start_matches(is_space);
        }
    }
    if from_right {
        parts.reverse();
    }
    parts.into_iter().collect()
}
