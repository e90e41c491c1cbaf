//! Hub ids: `[org/]name[@revision]`.

use std::fmt;
use std::path::Path;

use crate::{Error, Result};

/// A model repository and the revision wanted of it. Both are safe as parts of a path.
#[derive(Debug)]
pub(super) struct ModelId {
    /// `name` or `org/name`.
    pub repo: String,
    /// A branch, a tag or a commit hash.
    pub revision: String,
}

impl ModelId {
    /// Reads `model`, which is no existing directory.
    pub fn parse(model: &str) -> Result<Self> {
        if Path::new(model).exists() {
            return Err(Error::Hub(format!("{model}: is a file; give the directory that holds config.json")));
        }
        let (repo, revision) = model.split_once('@').unwrap_or((model, "main"));
        if is_repo(repo) && is_revision(revision) {
            return Ok(Self { repo: repo.to_owned(), revision: revision.to_owned() });
        }
        Err(Error::Hub(format!(
            "{model:?}: there is no such directory, and it is not a hub id; give a directory that holds \
             config.json, or an id such as Qwen/Qwen2.5-0.5B or Qwen/Qwen2.5-0.5B@main"
        )))
    }

    /// Whether the revision is a commit, whose files can never change.
    pub fn is_pinned(&self) -> bool {
        is_commit(&self.revision)
    }

    /// An error about this model.
    pub fn error(&self, what: impl fmt::Display) -> Error {
        Error::Hub(format!("{self}: {what}"))
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repo)?;
        if self.revision != "main" { write!(f, "@{}", self.revision) } else { Ok(()) }
    }
}

/// The hub's rule for repository names; `--` is kept out because the cache spells `/` that way.
fn is_repo(repo: &str) -> bool {
    let part = |part: &str| {
        let edge = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.starts_with(edge)
            && part.ends_with(edge)
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    repo.len() <= 96
        && repo.split('/').count() <= 2
        && repo.split('/').all(part)
        && !repo.contains("--")
        && !repo.contains("..")
        && !repo.ends_with(".git")
}

fn is_revision(revision: &str) -> bool {
    revision.len() <= 200
        && is_plain_path(revision)
        && revision.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+/".contains(c))
}

/// Whether `name` is a full commit hash.
pub(super) fn is_commit(name: &str) -> bool {
    is_hex(name, 40)
}

/// Whether `text` is `len` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `name` is a relative path that stays below where it starts, on every system.
pub(super) fn is_plain_path(name: &str) -> bool {
    name.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !name.chars().any(|c| c.is_control() || matches!(c, '\\' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_what_is_none() {
        for (text, repo, revision) in [
            ("gpt2", "gpt2", "main"),
            ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B", "main"),
            ("org/name@v1.0", "org/name", "v1.0"),
            ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        ] {
            let id = ModelId::parse(text).unwrap();
            assert_eq!((id.repo.as_str(), id.revision.as_str()), (repo, revision));
        }
        for text in [
            "",
            "./nowhere",
            "../nowhere",
            "/no/such",
            "~/model",
            "a/b/c",
            "a//b",
            "a/",
            "-a",
            "a..b",
            "a--b",
            "a.git",
            "a b",
            "a@",
            "a@/x",
            "a@../x",
            "a@x/../y",
            "a@b@c",
            "org/..",
            "a\\b",
            "a\u{e9}",
            "C:\\models",
        ] {
            let message = ModelId::parse(text).unwrap_err().to_string();
            assert!(message.contains("directory") && message.contains("hub id"), "{message}");
        }
    }
}
