//! Hub ids: `[org/]name[@revision]`, of models and of data sets.

use std::fmt;
use std::path::Path;

use super::neighbours;
use crate::{Error, Result};

/// What a repository holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Dataset,
}

impl Kind {
    /// As the hub's addresses and the cache's folders spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// A repository and the revision wanted of it. Name and revision are safe as parts of a path.
#[derive(Debug)]
pub(super) struct RepoId {
    pub kind: Kind,
    /// `name` or `org/name`.
    pub repo: String,
    /// A branch, a tag or a commit hash.
    pub revision: String,
}

impl RepoId {
    /// Reads `model`, which is no existing directory.
    pub fn parse(model: &str) -> Result<Self> {
        if Path::new(model).exists() {
            return Err(Error::Hub(format!("{model}: is a file; give the directory that holds config.json")));
        }
        Self::split(Kind::Model, model).ok_or_else(|| {
            Error::Hub(format!(
                "{model:?}: there is no such directory{}, and it is not a hub id; give a directory that holds \
             config.json, or an id such as Qwen/Qwen2.5-0.5B or Qwen/Qwen2.5-0.5B@main",
                neighbours::aside(model)
            ))
        })
    }

    /// Reads the id of a data set.
    pub fn parse_dataset(id: &str) -> Result<Self> {
        Self::split(Kind::Dataset, id).ok_or_else(|| {
            Error::Hub(format!(
                "{id:?} is not the hub id of a data set; one looks like openai/gsm8k or openai/gsm8k@main"
            ))
        })
    }

    fn split(kind: Kind, id: &str) -> Option<Self> {
        let (repo, revision) = id.split_once('@').unwrap_or((id, "main"));
        (is_repo(repo) && is_revision(revision)).then(|| Self {
            kind,
            repo: repo.to_owned(),
            revision: revision.to_owned(),
        })
    }

    /// Whether the revision is a commit, whose files can never change.
    pub fn is_pinned(&self) -> bool {
        is_commit(&self.revision)
    }

    /// [`neighbours::aside`] of a model.
    pub fn aside(&self) -> String {
        match self.kind {
            Kind::Model => neighbours::aside(&self.repo),
            Kind::Dataset => String::new(),
        }
    }

    /// An error about this repository.
    pub fn error(&self, what: impl fmt::Display) -> Error {
        Error::Hub(format!("{self}: {what}"))
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Dataset {
            write!(f, "data set ")?;
        }
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
            let id = RepoId::parse(text).unwrap();
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
            let message = RepoId::parse(text).unwrap_err().to_string();
            assert!(message.contains("directory") && message.contains("hub id"), "{message}");
        }
    }
}
