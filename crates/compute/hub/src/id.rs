//! Hub ids: `[org/]name[@revision]`, of models and of data sets.

use std::path::Path;
use std::{fmt, fs};

use crate::{Error, Result, gguf};

/// Most model directories that a message lists.
const MAX_LISTED: usize = 8;

/// Kind of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Dataset,
}

impl Kind {
    /// Spelling in the hub's addresses and the cache's folders.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }

    /// Name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "data set",
        }
    }
}

/// A repository at a revision. Both names are safe as parts of a path.
#[derive(Debug)]
pub(crate) struct RepoId {
    pub kind: Kind,
    /// `name` or `org/name`.
    pub repo: String,
    /// A branch, a tag or a commit hash.
    pub revision: String,
}

impl RepoId {
    /// Parses `model`, which is not an existing directory.
    pub fn parse(model: &str) -> Result<Self> {
        let path = Path::new(model);
        if model.ends_with(gguf::ENDING) && path.exists() {
            return Err(gguf::refusal(path));
        }
        if path.exists() {
            return Err(Error::Hub(format!(
                "{model}: is a file; give the directory that holds config.json"
            )));
        }
        Self::split(Kind::Model, model).ok_or_else(|| {
            Error::Hub(format!(
                "{model:?}: there is no such directory{}, and it is not a hub id; give a directory \
                 that holds config.json, or an id such as Qwen/Qwen2.5-0.5B or \
                 Qwen/Qwen2.5-0.5B@main",
                aside(model)
            ))
        })
    }

    /// Parses the id of a data set.
    pub fn parse_dataset(id: &str) -> Result<Self> {
        Self::split(Kind::Dataset, id).ok_or_else(|| {
            Error::Hub(format!(
                "{id:?} is not the hub id of a data set; one looks like openai/gsm8k or \
                 openai/gsm8k@main"
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

    /// The path of the repository's page, and of its files, on the hub.
    pub fn path(&self) -> String {
        match self.kind {
            Kind::Model => format!("/{}", self.repo),
            Kind::Dataset => format!("/datasets/{}", self.repo),
        }
    }

    /// Begins a message about a model with the reason why the hub is asked, and the [`neighbours`]
    /// of the name.
    pub fn no_directory(&self) -> String {
        match self.kind {
            Kind::Model => format!("there is no directory of this name{}, and ", aside(&self.repo)),
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

/// Lists the models beside `model`, which may be a mistyped directory: a clause such as "assets/
/// has countdown-base". None if the directory that would hold it is not there.
pub fn neighbours(model: &str) -> Option<String> {
    let parent = Path::new(model).parent()?;
    let (dir, shown) = match parent.as_os_str().is_empty() {
        true => (Path::new("."), "the current directory".to_owned()),
        false => (parent, format!("{}/", parent.display().to_string().trim_end_matches('/'))),
    };
    let mut names: Vec<String> = fs::read_dir(dir)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("config.json").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let more = match names.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(MAX_LISTED);
    match names.is_empty() {
        true if dir == parent => Some(format!("{shown} has no model")),
        true => None,
        false => Some(format!("{shown} has {}{more}", names.join(", "))),
    }
}

fn aside(model: &str) -> String {
    neighbours(model).map_or(String::new(), |has| format!(" ({has})"))
}

/// The hub's rule for repository names. The cache spells `/` as `--`, so names may not have that.
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
pub(crate) fn is_commit(name: &str) -> bool {
    is_hex(name, 40)
}

/// Whether `text` is `len` lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `name` is a relative path that stays below where it starts.
pub(crate) fn is_plain_path(name: &str) -> bool {
    name.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_a_name_and_a_revision() {
        for (text, repo, revision) in [
            ("gpt2", "gpt2", "main"),
            ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B", "main"),
            ("org/name@v1.0", "org/name", "v1.0"),
            ("org/name@refs/pr/3", "org/name", "refs/pr/3"),
        ] {
            let id = RepoId::parse(text).unwrap();
            assert_eq!((id.repo.as_str(), id.revision.as_str()), (repo, revision));
        }
        let wrong = "|./nowhere|../nowhere|/no/such|~/model|a/b/c|a//b|a/|-a|a..b|a--b|a.git|a b|a@|\
                     a@/x|a@../x|a@x/../y|a@b@c|org/..|a\\b|a\u{e9}|C:\\models";
        for text in wrong.split('|') {
            let message = RepoId::parse(text).unwrap_err().to_string();
            assert!(message.contains("directory") && message.contains("hub id"), "{message}");
        }
    }

    #[test]
    fn models_beside_a_mistyped_one_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let add = |name: &str| {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("config.json"), "{}").unwrap();
        };
        ["b", "a"].into_iter().for_each(add);
        fs::create_dir(dir.path().join("empty")).unwrap();
        let clause = |name: &str| neighbours(dir.path().join(name).to_str().unwrap());
        let shown = dir.path().display();
        assert_eq!(clause("c"), Some(format!("{shown}/ has a, b")));
        assert_eq!(clause("empty/c"), Some(format!("{shown}/empty/ has no model")));
        assert_eq!(clause("absent/c"), None);
        (0..9).for_each(|number| add(&format!("c{number}")));
        let listed = "a, b, c0, c1, c2, c3, c4, c5 and 3 more";
        assert_eq!(clause("d"), Some(format!("{shown}/ has {listed}")));
    }
}
