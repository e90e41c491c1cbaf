//! Places of data: files, patterns of files, and data sets on the hub.

use std::path::{Path, PathBuf};

use isentrope_hub::{self as hub, HubConfig, Names};

use crate::rows::{ENDINGS, Form, Format};
use crate::{Error, Result};

/// A place of data, as recipes and commands write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataLocation {
    /// A file.
    File(PathBuf),
    /// Files whose paths match a pattern: `*` stands for any characters of a name, `?` for one,
    /// `[ab]` for one of several, `**` for any directories.
    Pattern(String),
    /// Files of a data set on the hub.
    Hub {
        /// `[org/]name[@revision]`.
        id: String,
        /// Choice of its files.
        files: FileChoice,
    },
}

/// Choice of a data set's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChoice {
    /// Files whose names begin so.
    Beginning(String),
    /// Files whose names have all of these parts: configurations and splits. If none is a split,
    /// the caller's split is added.
    Parts(Vec<String>),
}

/// The split to read unless one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// For training.
    Train,
    /// For evaluation.
    Test,
}

/// Beginning of the address of a data set on the hub, and its short form.
const ADDRESS: &str = "hf://datasets/";
const SHORT: &str = "hf:";

/// Endings of data files that are not supported.
const OTHERS: [&str; 24] = [
    "7z", "arrow", "avro", "bin", "bz2", "db", "feather", "gz", "h5", "ipc", "npy", "npz", "orc",
    "pickle", "pkl", "pt", "sqlite", "tar", "tgz", "txt", "xlsx", "xz", "zip", "zst",
];

/// Usual names of splits.
const SPLITS: [&str; 7] = ["train", "test", "validation", "valid", "val", "dev", "eval"];

impl Split {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

impl DataLocation {
    /// Parses a place: a path; a pattern of paths; `org/name[@revision][:CONFIG][:SPLIT]` on the
    /// hub, with `hf:` before it if it could be a path; or
    /// `hf://datasets/org/name[@revision]/FILES` with the beginning of the files' names.
    pub fn parse(text: &str) -> Self {
        if let Some(address) = text.strip_prefix(ADDRESS) {
            let (id, files) = address.split_at(id_length(address));
            let files = match files.trim_start_matches('/') {
                "" => FileChoice::Parts(Vec::new()),
                files => FileChoice::Beginning(files.to_owned()),
            };
            return Self::Hub { id: id.replace("%2F", "/").replace("%2f", "/"), files };
        }
        if let Some(id) = text.strip_prefix(SHORT) {
            return Self::hub(id);
        }
        let path = Path::new(text);
        if path.exists() {
            return Self::File(path.to_owned());
        }
        if text.contains(['*', '?', '[']) {
            return Self::Pattern(text.to_owned());
        }
        // A mistyped path must not be looked up on the hub, which should not learn the names of
        // local files.
        let is_path = Format::of(path).is_ok() || is_other_file(path) || has_directory(path);
        if is_path || !is_like_id(text) { Self::File(path.to_owned()) } else { Self::hub(text) }
    }

    /// Parses a path. One that is not UTF-8 is a file.
    pub fn of(path: &Path) -> Self {
        path.to_str().map_or_else(|| Self::File(path.to_owned()), Self::parse)
    }

    fn hub(text: &str) -> Self {
        let mut parts = text.split(':').map(str::to_owned);
        let id = parts.next().unwrap_or_default();
        Self::Hub { id, files: FileChoice::Parts(parts.collect()) }
    }

    /// Checks the spelling of the place, without looking for files.
    ///
    /// # Errors
    /// The defect, as a sentence.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::File(path) if path.is_dir() => {
                let shown = path.display().to_string();
                let what = format!("is a directory; name its files, such as {shown}/*.jsonl");
                Err(Error::place(&shown, what))
            }
            Self::File(path) => Format::of(path).map(drop).map_err(|error| match path.to_str() {
                Some(text) if is_like_id(text) && !path.exists() => Error::place(
                    text,
                    format!(
                        "there is no such file, and the name of a data file must end in \
                         {ENDINGS}; a data set on the hub would \
                         be hf:{text}"
                    ),
                ),
                _ => error,
            }),
            Self::Pattern(pattern) => match glob::Pattern::new(pattern) {
                Ok(_) => Ok(()),
                Err(e) => Err(Error::place(pattern, format!("it is no pattern of paths: {e}"))),
            },
            // Data sets and models have the same rule for names.
            Self::Hub { id, .. } if !Path::new(id).exists() && hub::check_name(id).is_err() => {
                Err(Error::place(
                    &format!("{id:?}"),
                    "it is not the hub id of a data set; one looks like openai/gsm8k or \
                 openai/gsm8k@main",
                ))
            }
            Self::Hub { id, files } => match files {
                FileChoice::Parts(parts)
                    if parts.len() > 2 || parts.iter().any(|part| !is_part(part)) =>
                {
                    Err(Error::place(
                        id,
                        "behind the id stand at most :CONFIG and :SPLIT, as in \
                         openai/gsm8k:main:train",
                    ))
                }
                _ => Ok(()),
            },
        }
    }

    /// Name in results and metrics: a file's without its ending, a data set's without its owner.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => Format::stem(path),
            Self::Pattern(pattern) => Format::stem(Path::new(pattern)),
            Self::Hub { id, .. } => {
                let repo = id.split('@').next().unwrap_or_default();
                repo.rsplit('/').next().unwrap_or_default().to_owned()
            }
        }
    }

    /// Finds the files of the place: files that match a pattern, sorted; files of the hub,
    /// downloaded. A plain file is not looked for.
    ///
    /// # Errors
    /// [`Error::Location`] when nothing matches, [`Error::Hub`] when the hub does not deliver; as
    /// [`check`](Self::check).
    pub fn files(&self, split: Split, progress: &dyn hub::Progress) -> Result<Vec<PathBuf>> {
        self.check()?;
        match self {
            Self::File(path) => Ok(vec![path.clone()]),
            Self::Pattern(pattern) => matching(pattern),
            Self::Hub { id, files } => {
                let select = |names: Names<'_>| files.choose(id, split, names);
                HubConfig::from_env()
                    .and_then(|config| hub::dataset_files(&config, id, &select, progress))
                    .map_err(|error| Error::Hub(format!("{error}; nor is there a file {id} here")))
            }
        }
    }

    /// Whether the place needs no network.
    pub fn is_local(&self) -> bool {
        !matches!(self, Self::Hub { .. })
    }
}

/// Bytes of the id, `org/name[@revision]`, at the start of an address. As in `HfFileSystem` a slash
/// ends a revision, in which it is written `%2F`; only `refs/convert/NAME` and `refs/pr/NUMBER`
/// have slashes.
fn id_length(address: &str) -> usize {
    let end_of_name = address.match_indices('/').nth(1).map_or(address.len(), |(at, _)| at);
    let Some(at) = address[..end_of_name].find('@') else { return end_of_name };
    let revision = &address[at + 1..];
    let is_special = revision.starts_with("refs/convert/") || revision.starts_with("refs/pr/");
    let slashes = if is_special { 2 } else { 0 };
    let length = revision.match_indices('/').nth(slashes).map_or(revision.len(), |(end, _)| end);
    at + 1 + length
}

/// Whether a text has one slash, like an id of the hub, and does not begin like a path.
fn is_like_id(text: &str) -> bool {
    text.matches('/').count() == 1 && !text.starts_with(['/', '.', '~'])
}

/// Whether the ending is that of an unsupported format.
fn is_other_file(path: &Path) -> bool {
    let ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    OTHERS.contains(&ending.as_str())
}

/// Whether the directory of a path exists.
fn has_directory(path: &Path) -> bool {
    path.parent().is_some_and(|directory| !directory.as_os_str().is_empty() && directory.is_dir())
}

/// Whether `part` can name a configuration or a split.
fn is_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let failed = |what: String| Error::place(pattern, what);
    // As in a shell, a star matches no slash and no leading dot.
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let found = glob::glob_with(pattern, options)
        .map_err(|e| failed(format!("it is no pattern of paths: {e}")))?;
    let mut paths = found
        .map(|path| {
            path.map_err(|e| {
                failed(format!("{} cannot be looked at: {}", e.path().display(), e.error()))
            })
        })
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.retain(|path| !path.is_dir());
    paths.sort();
    if paths.is_empty() { Err(failed("no file matches the pattern".into())) } else { Ok(paths) }
}

impl FileChoice {
    /// Chooses files of a data set. If only the cached names are known, the choice must not depend
    /// on the others.
    ///
    /// # Errors
    /// The reason why none can be chosen, as a part of a sentence.
    pub fn choose(&self, id: &str, split: Split, names: Names<'_>) -> Result<Vec<String>, String> {
        match names {
            Names::All(names) => self.choose_of_all(id, split, names),
            Names::Cached(names) => {
                let chosen = self.choose_of_all(id, split, names)?;
                if self.tells(&chosen) {
                    return Ok(chosen);
                }
                Err(format!(
                    "which files the data set has besides {} is not known, and so not which are \
                     meant; name the file in full, as \
                     in {ADDRESS}{id}/FILE",
                    list_names(&data_files(names))
                ))
            }
        }
    }

    /// Whether the choice is right whatever other files exist: one file named in full, or all
    /// shards of a named split, by the count in their names.
    fn tells(&self, chosen: &[String]) -> bool {
        let is_exact = |name: &String, part: &String| labels(name).any(|label| label == part);
        let shards =
            |name: &String| name.rsplit_once("-of-")?.1.split(['.', '-']).next()?.parse().ok();
        match self {
            Self::Beginning(name) => chosen == [name.as_str()],
            Self::Parts(parts) => {
                names_split(parts)
                    && chosen.iter().all(|name| parts.iter().all(|part| is_exact(name, part)))
                    && chosen.iter().all(|name| shards(name) == Some(chosen.len()))
            }
        }
    }

    fn choose_of_all(
        &self,
        id: &str,
        split: Split,
        names: &[String],
    ) -> Result<Vec<String>, String> {
        let data = data_files(names);
        let all = list_names(&data);
        if data.is_empty() {
            return Err("there is no .parquet, .jsonl, .json, .csv or .tsv file".into());
        }
        let chosen = match self {
            Self::Beginning(beginning) => {
                // A file that is named in full is meant, though another has a better format.
                let is_full = names.contains(beginning);
                let is_meant = |name: &&String| match is_full {
                    true => *name == beginning,
                    false => name.starts_with(beginning),
                };
                let chosen = data_files(names.iter().filter(is_meant));
                if chosen.is_empty() {
                    return Err(format!("no file begins with {beginning:?}; there are {all}"));
                }
                chosen
            }
            Self::Parts(parts) => {
                let mut left = data;
                for part in parts {
                    left = telling(&left, part);
                    if left.is_empty() {
                        return Err(format!("no file is of {part:?}; there are {all}"));
                    }
                }
                if !names_split(parts) {
                    left = of_split(left, split, !parts.is_empty()).ok_or_else(|| {
                        format!(
                            "it is not clear which file is meant; name its split, as in \
                             {id}:SPLIT, or the file, as in \
                             {ADDRESS}{id}/FILE; there are {all}"
                        )
                    })?;
                }
                one_folder(left).map_err(|folders| {
                    format!(
                        "it has several configurations, {}; name one, as in {id}:{}",
                        folders.join(", "),
                        folders[0]
                    )
                })?
            }
        };
        Ok(chosen.into_iter().cloned().collect())
    }
}

/// Lists the first names, for messages.
fn list_names(names: &[&String]) -> String {
    names.iter().take(8).map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn names_split(parts: &[String]) -> bool {
    parts.iter().any(|part| SPLITS.contains(&part.as_str()))
}

/// The names of data files, sorted. If there are other formats, .json files are not data; nor are
/// CSV and TSV files beside parquet or JSON lines.
fn data_files<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let rank = |name: &str| match Format::of(Path::new(name)).map(|format| format.form) {
        Ok(Form::Document) => 2,
        Ok(Form::Separated(_)) => 1,
        _ => 0,
    };
    let mut data: Vec<&String> =
        names.into_iter().filter(|name| Format::of(Path::new(name)).is_ok()).collect();
    data.retain(|name| {
        !["dataset_info.json", "dataset_infos.json"].iter().any(|other| name.ends_with(other))
    });
    data.retain(|name| !name.split('/').any(|part| part.starts_with('.')));
    let first = data.iter().map(|name| rank(name)).min();
    data.retain(|name| Some(rank(name)) == first);
    data.sort();
    data
}

/// The names that have `part` as a folder or as the whole name of the file; if none has, those with
/// it between punctuation.
fn telling<'a>(names: &[&'a String], part: &str) -> Vec<&'a String> {
    let whole = |name: &&&String| labels(name).any(|label| label == part);
    let exact: Vec<&String> = names.iter().filter(whole).copied().collect();
    if !exact.is_empty() {
        return exact;
    }
    let between = |name: &&&String| {
        name.match_indices(part).any(|(at, _)| {
            let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
            edge(name[..at].chars().next_back()) && edge(name[at + part.len()..].chars().next())
        })
    };
    names.iter().filter(between).copied().collect()
}

/// The folders of a name, and the file's name without the shard's number.
fn labels(name: &str) -> impl Iterator<Item = &str> {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.split('.').next().unwrap_or_default();
    // The name may be like train-00000-of-00001-1a2b3c.
    let stem = match stem.split_once("-of-").and_then(|(before, _)| before.rsplit_once('-')) {
        Some((label, _)) => label,
        None => stem,
    };
    folders.split('/').chain([stem]).filter(|label| !label.is_empty())
}

/// The file names of a split. If no name contains the split: the only name; or all names if the
/// user has named the files (`is_named`), or if the split is train and no name contains another
/// split.
fn of_split(names: Vec<&String>, split: Split, is_named: bool) -> Option<Vec<&String>> {
    if names.len() == 1 {
        return Some(names);
    }
    let its = telling(&names, split.name());
    if !its.is_empty() {
        return Some(its);
    }
    let tells_another = || SPLITS.iter().any(|split| !telling(&names, split).is_empty());
    (is_named || (split == Split::Train && !tells_another())).then_some(names)
}

/// The names if all are in one folder, apart from folders of splits; otherwise the folders.
fn one_folder(names: Vec<&String>) -> Result<Vec<&String>, Vec<&str>> {
    let mut folders: Vec<&str> =
        names.iter().map(|name| name.rsplit_once('/').map_or("", |(folder, _)| folder)).collect();
    folders.sort_unstable();
    folders.dedup();
    folders.retain(|folder| !folder.is_empty());
    if folders.len() > 1 { Err(folders) } else { Ok(names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(id: &str, parts: &[&str]) -> DataLocation {
        DataLocation::Hub {
            id: id.into(),
            files: FileChoice::Parts(parts.iter().map(|&part| part.to_owned()).collect()),
        }
    }

    fn beginning(id: &str, files: &str) -> DataLocation {
        DataLocation::Hub { id: id.into(), files: FileChoice::Beginning(files.into()) }
    }

    #[test]
    fn places_are_files_patterns_or_the_hub() {
        let file = |path: &str| DataLocation::File(path.into());
        for (text, place) in [
            ("data/a.jsonl", file("data/a.jsonl")),
            ("a.jsonl.gz", file("a.jsonl.gz")),
            ("./a/b", file("./a/b")),
            ("/a/b", file("/a/b")),
            ("a", file("a")),
            ("a/b/c", file("a/b/c")),
            ("src/lib.rs", file("src/lib.rs")), // it is there
            ("data/*.jsonl", DataLocation::Pattern("data/*.jsonl".into())),
            ("org/name", hub("org/name", &[])),
            ("org/train.csv", file("org/train.csv")),
            ("org/train.TXT", file("org/train.TXT")),
            ("src/name", file("src/name")), // its directory is there
            ("src/name:train", file("src/name:train")),
            ("hf:src/name:train", hub("src/name", &["train"])),
            ("org/name-v1.5", hub("org/name-v1.5", &[])),
            ("org/name@v1:main:train", hub("org/name@v1", &["main", "train"])),
            ("org/name:train", hub("org/name", &["train"])),
            ("hf:name:train", hub("name", &["train"])),
            ("hf:org/name@refs/pr/3", hub("org/name@refs/pr/3", &[])),
            ("hf://datasets/org/name", hub("org/name", &[])),
            ("hf://datasets/org/name@v1/data/x", beginning("org/name@v1", "data/x")),
            (
                "hf://datasets/org/name@refs/convert/parquet/default/train",
                beginning("org/name@refs/convert/parquet", "default/train"),
            ),
            (
                "hf://datasets/org/name@refs%2Fpr%2f3/a@b/c.json",
                beginning("org/name@refs/pr/3", "a@b/c.json"),
            ),
            ("hf://datasets/org/name@refs/pr/3", hub("org/name@refs/pr/3", &[])),
            ("hf://datasets/org/name/a@b/c.json", beginning("org/name", "a@b/c.json")),
        ] {
            assert_eq!(DataLocation::parse(text), place, "{text}");
        }
        assert_eq!(hub("openai/gsm8k@v1", &[]).name(), "gsm8k");
        assert_eq!(file("data/a.jsonl.gz").name(), "a");
        for (text, says) in [
            ("org/name:a:b:c", "at most :CONFIG and :SPLIT"),
            ("org/name::", "at most :CONFIG and :SPLIT"),
            ("a[", "no pattern"),
            ("a.xlsx", "must end in .parquet"),
            ("org/train.xlsx", "must end in .parquet"),
            ("src/name:train", "would be hf:src/name:train"),
            ("hf:", "\"\": it is not the hub id"),
            ("hf: ", "not the hub id"),
            ("hf:a b/c", "not the hub id"),
            ("org/na me", "not the hub id"),
            ("hf:a/b/c", "not the hub id"),
            ("hf:org/name@", "not the hub id"),
        ] {
            let error = DataLocation::parse(text).check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_files_of_configurations_and_splits_are_found() {
        let names =
            |list: &[&str]| -> Vec<String> { list.iter().map(|&name| name.to_owned()).collect() };
        let choose = |parts: &[&str], split, names: &[String]| {
            let DataLocation::Hub { id, files } = hub("org/name", parts) else { unreachable!() };
            files.choose(&id, split, Names::All(names)).map(|names| names.join(" "))
        };
        let (train, test) = (Split::Train, Split::Test);
        let gsm8k = names(&[
            "README.md",
            "dataset_infos.json",
            "main/test-00000-of-00001.parquet",
            "main/train-00000-of-00001.parquet",
            "socratic/test-00000-of-00001.parquet",
            "socratic/train-00000-of-00001.parquet",
        ]);
        assert_eq!(choose(&["main"], train, &gsm8k).unwrap(), gsm8k[3]);
        assert_eq!(choose(&["main"], test, &gsm8k).unwrap(), gsm8k[2]);
        assert_eq!(choose(&["socratic", "train"], test, &gsm8k).unwrap(), gsm8k[5]);
        let error = choose(&[], train, &gsm8k).unwrap_err();
        assert!(error.contains("main, socratic; name one, as in org/name:main"), "{error}");
        assert!(
            choose(&["secondary"], train, &gsm8k)
                .unwrap_err()
                .contains("no file is of \"secondary\"")
        );

        let chat = names(&[
            "data/test_sft-0-of-1.parquet",
            "data/train_gen-0-of-1.parquet",
            "data/train_sft-0-of-1.parquet",
        ]);
        assert_eq!(choose(&["train_sft"], train, &chat).unwrap(), chat[2]);
        assert_eq!(choose(&[], train, &chat).unwrap(), format!("{} {}", chat[1], chat[2]));
        // No name contains a split, but the user has named the files.
        assert_eq!(choose(&["test_sft"], train, &chat).unwrap(), chat[0]);

        let converted = names(&[
            "default/train/0000.parquet",
            "default/test/0000.parquet",
            "trainer/test/0000.parquet",
        ]);
        assert_eq!(choose(&["default"], train, &converted).unwrap(), converted[0]);
        assert_eq!(choose(&[], train, &converted).unwrap(), converted[0]);

        let shards = names(&["b.jsonl.gz", "a.jsonl.gz", "config.json"]);
        assert_eq!(choose(&[], train, &shards).unwrap(), "a.jsonl.gz b.jsonl.gz");
        assert!(choose(&[], test, &shards).unwrap_err().contains("hf://datasets/org/name/FILE"));
        assert_eq!(choose(&[], test, &names(&["a.md", "all.json"])).unwrap(), "all.json");
        assert!(
            choose(&[], train, &names(&["a.txt"])).unwrap_err().contains("no .parquet, .jsonl")
        );
        assert!(choose(&[], train, &names(&["valid.json", "test.json"])).is_err());
        assert_eq!(choose(&[], train, &names(&["a.tsv", "b.json"])).unwrap(), "a.tsv");
        assert_eq!(choose(&[], train, &names(&["a.csv", "b.parquet"])).unwrap(), "b.parquet");
        for (file, others) in [
            ("a.csv", ["a.csv", "b.parquet"]),
            ("b.json", ["a.jsonl", "b.json"]),
            ("a.json", ["a.json", "a.jsonl"]),
        ] {
            let (full, names) = (FileChoice::Beginning(file.into()), names(&others));
            for known in [Names::All(&names), Names::Cached(&names)] {
                assert_eq!(full.choose("x", train, known).unwrap(), [file]);
            }
        }
        let beginning = FileChoice::Beginning("main/t".into());
        assert_eq!(beginning.choose("x", train, Names::All(&gsm8k)).unwrap().len(), 2);
        assert!(
            FileChoice::Beginning("x".into())
                .choose("x", train, Names::All(&gsm8k))
                .unwrap_err()
                .contains("there are main/test-")
        );
    }

    #[test]
    fn some_of_the_files_are_chosen_only_where_no_others_could_be_meant() {
        let choose = |place: &str, names: &[&str]| {
            let DataLocation::Hub { id, files } = DataLocation::parse(place) else {
                unreachable!()
            };
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            files.choose(&id, Split::Train, Names::Cached(&names)).map(|names| names.join(" "))
        };
        let (test, train) =
            ("main/test-00000-of-00001.parquet", "main/train-00000-of-00001.parquet");
        let shards =
            ["main/train-00000-of-00002.parquet", "main/train-00001-of-00002-1a2b.parquet"];
        for (place, names, chosen) in [
            ("org/name:main:train", &[test, train][..], train),
            ("org/name:main:train", &shards, &shards.join(" ")),
            (&format!("hf://datasets/org/name/{train}"), &[train], train),
            ("hf://datasets/org/name/a.jsonl", &["a.jsonl", "b.jsonl"], "a.jsonl"),
        ] {
            assert_eq!(choose(place, names).as_deref(), Ok(chosen), "{place}");
        }
        for (place, names) in [
            ("org/name", &[test][..]),
            ("org/name:main", &[train]), // the split may be a folder's
            ("org/name:main:train", &shards[..1]),
            ("org/name:train", &["train.jsonl"]), // there may be others beside it
            ("org/name:train", &["my-train-00000-of-00001.parquet"]),
            ("hf://datasets/org/name/main/train", &[train]),
        ] {
            let error = choose(place, names).unwrap_err();
            let here = format!("besides {} is not known", names[0]);
            assert!(
                error.contains(&here) && error.contains("hf://datasets/org/name/FILE"),
                "{place}: {error}"
            );
        }
    }

    #[test]
    fn patterns_match_files_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.jsonl", "a.jsonl", ".hidden.jsonl", "c.parquet", "x[1].jsonl"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::fs::create_dir_all(directory.path().join("deep/er.jsonl")).unwrap();
        std::fs::write(directory.path().join("deep/er.jsonl/z.jsonl"), "").unwrap();
        let found = |pattern: &str| {
            let files = DataLocation::of(&directory.path().join(pattern)).files(Split::Train, &());
            files.map(|files| {
                let name = |path: &PathBuf| {
                    path.strip_prefix(directory.path()).unwrap().display().to_string()
                };
                files.iter().map(name).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(found("[ab].jsonl").unwrap(), "a.jsonl b.jsonl");
        assert_eq!(found("**/z*.jsonl").unwrap(), "deep/er.jsonl/z.jsonl");
        assert!(found("deep/*").unwrap_err().to_string().contains("no file matches"));
        assert_eq!(found("x[1].jsonl").unwrap(), "x[1].jsonl", "a file of this very name");
        assert!(
            found("*.json")
                .unwrap_err()
                .to_string()
                .contains("*.json: no file matches the pattern")
        );
    }
}
