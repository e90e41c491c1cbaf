//! The modules of a model that an adapter's configuration chooses, by peft's rules.

use super::is_of_expert;
use std::collections::HashSet;

use regex::bytes::{Captures, Regex, RegexBuilder};

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
/// the number; without patterns, by the first number. None for a module in no layer. As in peft, an
/// alternative within a pattern ends it: of `h|layers`, only `layers` stands before a number.
pub(super) fn layer_numbers(
    patterns: &[String],
    modules: &[&str],
) -> Result<Vec<Option<usize>>, String> {
    let before_number = |pattern: &str| format!(r"\A(?:(?:.*?\.)??{pattern}\.([0-9]+)\.)");
    let any = [r".*?\.[^.]*".to_owned()];
    let patterns = if patterns.is_empty() { &any } else { patterns };
    let mut found = vec![None; modules.len()];
    for pattern in patterns {
        let regex = compile(pattern, before_number)?;
        for (found, module) in found.iter_mut().zip(modules) {
            let number = |all: Captures<'_>| {
                let digits = all.get(all.len() - 1)?;
                std::str::from_utf8(digits.as_bytes()).ok()?.parse().ok()
            };
            *found = found.or_else(|| regex.captures(module.as_bytes()).map(number));
        }
    }
    Ok(found.into_iter().map(Option::flatten).collect())
}

/// Compiles a pattern within `whole`. Names of modules are ASCII, so classes of characters are too.
fn compile(pattern: &str, whole: impl Fn(&str) -> String) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("a pattern has {} bytes, above {MAX_PATTERN_BYTES}", pattern.len()));
    }
    if differs_in_python(pattern) {
        return Err(format!(
            "the pattern {} has a sign that Python reads otherwise: a possessive repetition, [, &&, \
             -- or ~~ within a class, \\<, \\>, \\b{{, a blank in braces, or a flag x or U",
            crate::json_file::quoted(pattern)
        ));
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

/// Whether a pattern has signs that mean something else to Python than to this program's regular
/// expressions: a repetition repeated by `+` is possessive there, a class has no operations, an
/// escaped angle bracket is itself, braces with a blank are text, and verbose classes keep blanks.
fn differs_in_python(pattern: &str) -> bool {
    // The number of members of the class that is open, if one is.
    let (mut class, mut before) = (None, '\0');
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        let rest = signs.as_str();
        if sign == '\\' {
            if rest.starts_with(['<', '>']) || rest.starts_with("b{") {
                return true;
            }
            signs.next();
        }
        let previous = std::mem::replace(&mut before, sign);
        class = match (class, sign) {
            (None, '[') => Some(0),
            (None, '+') if matches!(previous, '*' | '+' | '?' | '}') => return true,
            (None, '{') if rest.split('}').next().is_some_and(|inner| inner.contains(' ')) => {
                return true;
            }
            (None, '?') if previous == '(' && flags(rest).contains(['x', 'U']) => return true,
            (None, _) => None,
            (Some(0), '^') if previous == '[' => Some(0),
            (Some(1..), ']') => None,
            (Some(_), '[') => return true,
            (Some(_), '&' | '-' | '~') if previous == sign => return true,
            (Some(members), _) => Some(members + 1),
        };
    }
    false
}

/// The letters of flags, and their `-`, that a group begins with.
fn flags(group: &str) -> &str {
    let is_flag = |sign: char| sign.is_ascii_alphabetic() || sign == '-';
    &group[..group.find(|sign| !is_flag(sign)).unwrap_or(group.len())]
}

#[cfg(test)]
mod tests {
    use crate::adapter::{AdapterConfig, adaptable_modules};
    use crate::{Layout, ModelConfig};
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    /// The layout of tests/fixtures/targets.py's models.
    fn layout(dir: &Path, family: &str) -> Layout {
        let config = json!({
            "model_type": family, "hidden_size": 8, "intermediate_size": 8,
            "num_hidden_layers": 12, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 4, "vocab_size": 16,
        });
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        Layout::new(&ModelConfig::read(dir).unwrap())
    }

    #[test]
    fn patterns_that_python_reads_otherwise_are_refused() {
        let others = [
            r".*\.\<q_proj",
            r"q_proj\>",
            r"\b{start}q",
            r"q{1, 1}_proj",
            r"(?x).*[ ^k]_proj",
            "(?iU)q",
            "(?-x:q)",
            "q*+",
            "[a[b]]",
            "[a&&b]",
            "[a--b]",
        ];
        assert_eq!(others.iter().find(|pattern| !super::differs_in_python(pattern)), None);
        let same = [r".*\.[qk]_proj", "(?i)q", "(?:q|k)", "(?P<ux>q)", "q{1,2}", "[^]a]", r"[\]]q"];
        assert_eq!(same.iter().find(|pattern| super::differs_in_python(pattern)), None);
    }

    /// Settings that peft refuses are refused, and six patterns that it takes.
    #[test]
    fn settings_choose_the_modules_ranks_and_scales_that_they_do_in_peft() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/fixtures/targets.json")).unwrap();
        let (dir, mut unread) = (tempfile::tempdir().unwrap(), 0);
        for case in &cases {
            let layout = layout(dir.path(), case["model"].as_str().unwrap());
            let mut file = json!({ "peft_type": "LORA", "r": 4, "lora_alpha": 8 });
            let settings = case["settings"].as_object().unwrap().clone();
            file.as_object_mut().unwrap().extend(settings);
            fs::write(dir.path().join("adapter_config.json"), file.to_string()).unwrap();
            let config = AdapterConfig::read(dir.path());
            let ranks = config.and_then(|config| {
                config.layout(&layout)?;
                config.ranks(&layout)
            });
            match (&case["adapted"], ranks) {
                (Value::Array(expected), Ok(ranks)) => {
                    let rank = |module| match ranks.get(module) {
                        Some(of) => (of.rank as u64, of.scale),
                        None => (0, 0.0),
                    };
                    let ours: Vec<(u64, f32)> = adaptable_modules(&layout).map(rank).collect();
                    let theirs = expected.iter().map(|of| match of.as_array() {
                        Some(of) => (of[0].as_u64().unwrap(), of[1].as_f64().unwrap() as f32),
                        None => (0, 0.0),
                    });
                    assert_eq!(ours, theirs.collect::<Vec<_>>(), "{case}");
                }
                (Value::Array(_), Err(refusal)) => {
                    unread += 1;
                    let refusal = refusal.to_string();
                    assert!(
                        refusal.contains("has a sign that Python reads otherwise"),
                        "{refusal}"
                    );
                }
                (_, ranks) => assert!(ranks.is_err(), "{case}"),
            }
        }
        assert_eq!((cases.len(), unread), (37, 6));
    }
}
