//! The modules of a model that an adapter's configuration chooses, by peft's rules.

use super::is_of_expert;
use std::collections::HashSet;

use regex::bytes::{Regex, RegexBuilder};

/// Largest compiled pattern, in bytes: far above any that names modules.
const MAX_PATTERN_BYTES: usize = 1 << 16;

/// Modules that get an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All linear layers of all blocks; experts have none.
    AllLinear,
    /// Modules with one of these names, or whose names end in a dot and one of them.
    Modules(Vec<String>),
    /// Modules whose whole names match this regular expression.
    Pattern(String),
}

impl Targets {
    /// Whether each module is chosen. The error is a sentence about a pattern.
    pub(super) fn choose(&self, modules: &[&str]) -> Result<Vec<bool>, String> {
        match self {
            Self::AllLinear => Ok(modules.iter().map(|module| !is_of_expert(module)).collect()),
            Self::Modules(names) => {
                let names: HashSet<&str> = names.iter().map(String::as_str).collect();
                let is_named = |module: &&str| suffixes(module).any(|end| names.contains(end));
                Ok(modules.iter().map(is_named).collect())
            }
            Self::Pattern(pattern) => {
                let regex = compile(pattern, |pattern| format!(r"\A(?:{pattern})\z"))?;
                Ok(modules.iter().map(|module| regex.is_match(module.as_bytes())).collect())
            }
        }
    }

    /// The first name that no module has.
    pub(super) fn unknown(&self, modules: &[&str]) -> Option<&str> {
        let Self::Modules(names) = self else { return None };
        let known: HashSet<&str> = modules.iter().flat_map(|module| suffixes(module)).collect();
        names.iter().map(String::as_str).find(|name| !known.contains(name))
    }
}

/// The whole name, and what follows each of its dots.
fn suffixes(module: &str) -> impl Iterator<Item = &str> {
    let after = module.match_indices('.').map(|(dot, _)| &module[dot + 1..]);
    std::iter::once(module).chain(after)
}

/// The value of the first pattern that matches the end of each module's name from a dot on, or else
/// `default`: `rank_pattern` and `alpha_pattern`. The error is a sentence about a pattern.
pub(super) fn by_pattern<T: Copy>(
    patterns: &[(String, T)],
    modules: &[&str],
    default: T,
) -> Result<Vec<T>, String> {
    let mut values = vec![None; modules.len()];
    // Only one compiled pattern is in memory at a time.
    for (pattern, value) in patterns {
        let regex = compile(pattern, |pattern| format!(r"\A(?:.*\.)?(?:{pattern})\z"))?;
        for (found, module) in values.iter_mut().zip(modules) {
            if found.is_none() && regex.is_match(module.as_bytes()) {
                *found = Some(*value);
            }
        }
    }
    Ok(values.into_iter().map(|value| value.unwrap_or(default)).collect())
}

/// Numbers of the layers that modules are in, by the first pattern that matches what stands before
/// the number; without patterns, by the first number. None for a module in no layer.
pub(super) fn layer_numbers(
    patterns: &[String],
    modules: &[&str],
) -> Result<Vec<Option<usize>>, String> {
    let before_number = |pattern: &str| format!(r"\A(?:.*?\.)??(?:{pattern})\.([0-9]+)\.");
    let any = [r".*?\.[^.]*".to_owned()];
    let patterns = if patterns.is_empty() { &any } else { patterns };
    let mut numbers = vec![None; modules.len()];
    for pattern in patterns {
        let regex = compile(pattern, before_number)?;
        for (number, module) in numbers.iter_mut().zip(modules) {
            let found = || {
                let all = regex.captures(module.as_bytes())?;
                let digits = all.get(all.len() - 1)?;
                std::str::from_utf8(digits.as_bytes()).ok()?.parse().ok()
            };
            *number = number.or_else(found);
        }
    }
    Ok(numbers)
}

/// Compiles a pattern within `whole`. Names of modules are ASCII, so classes of characters are too.
fn compile(pattern: &str, whole: impl Fn(&str) -> String) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("a pattern has {} bytes, above {MAX_PATTERN_BYTES}", pattern.len()));
    }
    let build = |pattern: &str| {
        RegexBuilder::new(pattern).unicode(false).size_limit(MAX_PATTERN_BYTES).build()
    };
    // Alone as well, so that no parenthesis closes one of the whole.
    build(pattern).and_then(|_| build(&whole(pattern))).map_err(|error| {
        let shown = crate::json_file::quoted(pattern);
        match error {
            regex::Error::CompiledTooBig(_) => format!("the pattern {shown} is too large"),
            _ => format!(
                "the pattern {shown} is no regular expression that can be read (look-around and \
                 back-references cannot)"
            ),
        }
    })
}
