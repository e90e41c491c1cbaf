//! Benchmarks: where they are published, how their problems are asked, and how responses to them are drawn.
//!
//! The built-in ones are those of arXiv:2505.22617, table 2, and GSM8K, with that paper's decoding: AIME and AMC as the
//! mean of 32 responses at temperature 0.6, the others greedily with one.

use std::path::Path;

use isentrope_reward::{VerifierName, VerifierSettings};
use serde::Serialize;

use crate::{DataSettings, Problem, Report, Result, evaluation_set};

/// How the problems of a benchmark are asked and their responses drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Benchmark {
    /// As in results and in the metrics' names.
    pub name: String,
    /// Where it is published; a benchmark of the user's own is not.
    pub published: Option<Published>,
    /// Text put after every question that does not hold it already.
    pub suffix: &'static str,
    /// How responses are drawn unless the user says.
    pub decoding: Decoding,
    /// Judges responses; none is for whoever runs the benchmark to choose.
    pub verifier: Option<VerifierName>,
}

/// A data set on the hub, and which of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// `org/name`.
    pub repo: &'static str,
    /// What the names of its files begin with.
    pub files: &'static str,
}

/// How responses are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decoding {
    /// Responses to each problem: k of mean@k and maj@k, and the largest k of pass@k.
    pub samples: usize,
    /// Divisor of the logits; 0 takes the most likely token.
    pub temperature: f32,
    /// Longest response, in tokens.
    pub max_tokens: usize,
}

/// The instruction after a question, in the words of Qwen2.5-Math's evaluation, whose models the paper starts from.
const STEP_BY_STEP: &str = "\nPlease reason step by step, and put your final answer within \\boxed{}.";

/// Longest response, in tokens: the paper's in training and evaluation alike.
const MAX_TOKENS: usize = 8192;

/// The paper's decoding of small sets.
const SAMPLED: Decoding = Decoding { samples: 32, temperature: 0.6, max_tokens: MAX_TOKENS };

/// The paper's decoding of large sets.
const GREEDY: Decoding = Decoding { samples: 1, temperature: 0.0, max_tokens: MAX_TOKENS };

/// Names, the first of which is shown; repository and files on the hub; decoding.
const BUILT_IN: [(&[&str], &str, &str, Decoding); 8] = [
    (&["aime24", "aime2024"], "HuggingFaceH4/aime_2024", "data/train", SAMPLED),
    (&["aime25", "aime2025"], "math-ai/aime25", "test", SAMPLED),
    (&["amc", "amc23", "amc2023"], "AI-MO/aimo-validation-amc", "data/train", SAMPLED),
    (&["math500"], "HuggingFaceH4/MATH-500", "test", GREEDY),
    (&["omni-math"], "KbsdJames/Omni-MATH", "test", GREEDY),
    (&["olympiadbench", "olympiad"], "Hothan/OlympiadBench", "OlympiadBench/OE_TO_maths_en_COMP/", GREEDY),
    (&["minerva", "minervamath"], "math-ai/minervamath", "test", GREEDY),
    (&["gsm8k"], "openai/gsm8k", "main/test", GREEDY),
];

/// The names of the built-in benchmarks.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(names, ..)| names[0])
}

impl Benchmark {
    /// The built-in benchmark of a name. Case, hyphens, underscores and blanks make no difference.
    pub fn built_in(name: &str) -> Option<Self> {
        let plain = |name: &str| -> String {
            name.chars().filter(|c| !"-_ ".contains(*c)).collect::<String>().to_lowercase()
        };
        let wanted = plain(name);
        let (names, repo, files, decoding) =
            BUILT_IN.iter().find(|(names, ..)| names.iter().any(|name| plain(name) == wanted))?;
        Some(Self {
            name: names[0].to_owned(),
            published: Some(Published { repo, files }),
            suffix: STEP_BY_STEP,
            decoding: *decoding,
            verifier: Some(VerifierName::Math),
        })
    }

    /// A benchmark of the user's own: prompts as they are, greedily, one response each.
    pub fn own(name: &str) -> Self {
        Self { name: name.to_owned(), published: None, suffix: "", decoding: GREEDY, verifier: None }
    }

    /// The first `n` problems of files, as they will be asked. Every row counts, repeated ones too; one that asks for
    /// `\boxed{}` already is left as it is. Rows whose
    /// ground truth is of no use to the verifier are among the bad ones of the report.
    ///
    /// # Errors
    /// Files that cannot be read or have no usable row.
    pub fn problems<P: AsRef<Path>>(
        &self,
        files: &[P],
        n: usize,
        verifier: &VerifierSettings,
    ) -> Result<(Vec<Problem>, Report)> {
        let files = files.iter().map(|file| file.as_ref().to_owned()).collect();
        let settings = DataSettings { files, deduplicate: false, shuffle: false, ..DataSettings::default() };
        let (mut problems, report) = evaluation_set(&settings, n, verifier)?;
        for Problem { prompt, .. } in &mut problems {
            if prompt.question().is_some_and(|question| !question.contains("\\boxed{}")) {
                prompt.surround("", self.suffix);
            }
        }
        Ok((problems, report))
    }
}

/// What a user asks for: `NAME`, or `NAME=PLACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Where its problems are.
    pub place: Place,
}

/// Where problems are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A parquet or JSONL file.
    File(String),
    /// Files of a data set on the hub.
    Hub {
        /// `[org/]name[@revision]`.
        id: String,
        /// What the files' names begin with, where it is known.
        files: Option<String>,
    },
}

/// How an address of a data set on the hub begins.
const HUB: &str = "hf://datasets/";

impl Choice {
    /// Reads `NAME` of a built-in benchmark, or `NAME=PLACE`, where a place is a file (.jsonl, .parquet), a data set on
    /// the hub (`org/name[@revision]`), or files of one (`hf://datasets/org/name[@revision]/FILES`).
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, place) = match text.split_once('=') {
            Some((name, place)) => (name, Some(place)),
            None => (text, None),
        };
        let benchmark = Benchmark::built_in(name).unwrap_or_else(|| Benchmark::own(name));
        let Some(place) = place else {
            let Published { repo, files } = benchmark.published.ok_or_else(|| unknown(name))?;
            let place = Place::Hub { id: repo.into(), files: Some(files.into()) };
            return Ok(Self { benchmark, place });
        };
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_good) || name.starts_with('.') {
            return Err(format!(
                "{text:?}: the name of a benchmark is made of letters, digits, -, _ and ., as in mine=FILE.jsonl"
            ));
        }
        if place.is_empty() {
            return Err(format!("{text:?}: nothing after the =; name a file, as in {name}=FILE.jsonl"));
        }
        let known = benchmark.published.map(|published| published.files.to_owned());
        Ok(Self { place: Place::parse(place, known), benchmark })
    }
}

impl Place {
    fn parse(place: &str, known: Option<String>) -> Self {
        if let Some(address) = place.strip_prefix(HUB) {
            let mut parts = address.splitn(3, '/');
            let id: Vec<&str> = parts.by_ref().take(2).collect();
            let files = parts.next().filter(|files| !files.is_empty()).map(str::to_owned);
            return Self::Hub { id: id.join("/"), files: files.or(known) };
        }
        let ends = |ending: &str| place.ends_with(ending);
        let is_file = ends(".jsonl") || ends(".parquet") || Path::new(place).exists();
        // An id has one slash and does not begin like a path.
        if is_file || place.matches('/').count() != 1 || place.starts_with(['/', '.', '~']) {
            return Self::File(place.to_owned());
        }
        Self::Hub { id: place.to_owned(), files: known }
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = names().collect();
    let what = if name.ends_with(".jsonl") || name.ends_with(".parquet") {
        format!("{name:?}: give the file a name, as in mine={name}")
    } else {
        format!("{name:?}: there is no such benchmark; a file of your own is given as {name}=FILE.jsonl")
    };
    format!("{what}; built in are {}", names.join(", "))
}

/// Which of the files of a data set hold the problems: those whose names begin with `wanted`, else the only one, else
/// those of the test split.
///
/// # Errors
/// Why none can be chosen, as part of a sentence.
pub fn choose_files(wanted: Option<&str>, names: &[String]) -> Result<Vec<String>, String> {
    let mut data: Vec<&String> =
        names.iter().filter(|name| name.ends_with(".jsonl") || name.ends_with(".parquet")).collect();
    data.sort();
    let all = data.iter().take(8).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let owned = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>();
    if data.is_empty() {
        return Err("there is no .jsonl or .parquet file".into());
    }
    if let Some(wanted) = wanted {
        let chosen = owned(data.into_iter().filter(|name| name.starts_with(wanted)).collect());
        return if chosen.is_empty() {
            Err(format!("no file begins with {wanted:?}; there are {all}"))
        } else {
            Ok(chosen)
        };
    }
    if data.len() > 1 {
        data.retain(|name| name.split(['/', '-', '_', '.']).any(|part| part == "test"));
    }
    if data.is_empty() {
        return Err(format!(
            "it is not clear which file is meant; give one as {HUB}ORG/NAME/FILE; there are {all}"
        ));
    }
    Ok(owned(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Choice {
        Choice::parse(text).unwrap()
    }

    #[test]
    fn built_in_names_have_spellings_and_the_papers_decoding() {
        for (spelling, name, samples, temperature) in [
            ("aime24", "aime24", 32, 0.6),
            ("AIME_2025", "aime25", 32, 0.6),
            ("AMC23", "amc", 32, 0.6),
            ("MATH-500", "math500", 1, 0.0),
            ("OMNI-MATH", "omni-math", 1, 0.0),
            ("OlympiadBench", "olympiadbench", 1, 0.0),
            ("minerva_math", "minerva", 1, 0.0),
            ("GSM8K", "gsm8k", 1, 0.0),
        ] {
            let benchmark = Benchmark::built_in(spelling).unwrap();
            let Decoding { samples: n, temperature: t, .. } = benchmark.decoding;
            assert_eq!((&benchmark.name[..], n, t), (name, samples, temperature));
            assert!(benchmark.suffix.contains("\\boxed{}"));
        }
        assert_eq!(Benchmark::built_in("math"), None);
        assert_eq!(names().count(), 8);
    }

    #[test]
    fn places_are_files_or_the_hub() {
        let hub =
            |id: &str, files: Option<&str>| Place::Hub { id: id.into(), files: files.map(str::to_owned) };
        let file = |path: &str| Place::File(path.into());
        for (text, place) in [
            ("gsm8k", hub("openai/gsm8k", Some("main/test"))),
            ("gsm8k=my/gsm8k@v2", hub("my/gsm8k@v2", Some("main/test"))),
            ("gsm8k=hf://datasets/my/gsm8k/data/x.parquet", hub("my/gsm8k", Some("data/x.parquet"))),
            ("mine=org/name", hub("org/name", None)),
            ("mine=hf://datasets/org/name", hub("org/name", None)),
            ("mine=data/a.jsonl", file("data/a.jsonl")),
            ("mine=./a/b", file("./a/b")),
            ("mine=a=b.jsonl", file("a=b.jsonl")),
            ("mine=a", file("a")),
        ] {
            assert_eq!(parse(text).place, place, "{text}");
        }
        assert_eq!(parse("MATH-500=a.jsonl").benchmark, Benchmark::built_in("math500").unwrap());
        assert_eq!(parse("mine=a.jsonl").benchmark, Benchmark::own("mine"));
    }

    #[test]
    fn what_is_no_benchmark_is_explained() {
        for (text, part) in [
            ("math5000", "built in are aime24, "),
            ("data/mine.jsonl", "mine=data/mine.jsonl"),
            ("=a.jsonl", "letters"),
            ("a/b=a.jsonl", "letters"),
            ("..=a.jsonl", "letters"),
            ("mine=", "nothing after"),
        ] {
            let error = Choice::parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_files_of_the_problems_are_found() {
        let names = |list: &[&str]| -> Vec<String> { list.iter().map(|&name| name.to_owned()).collect() };
        let gsm8k = names(&[
            "README.md",
            "main/train-00000-of-00001.parquet",
            "main/test-00000-of-00001.parquet",
            "socratic/test-00000-of-00001.parquet",
        ]);
        assert_eq!(choose_files(Some("main/test"), &gsm8k).unwrap(), ["main/test-00000-of-00001.parquet"]);
        assert_eq!(choose_files(None, &gsm8k).unwrap().len(), 2);
        let olympiad = names(&[
            "OlympiadBench/OE_MM_maths_en_COMP/OE_MM_maths_en_COMP.parquet",
            "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet",
            "OlympiadBench/TP_TO_maths_en_COMP/TP_TO_maths_en_COMP.parquet",
        ]);
        let published = Benchmark::built_in("olympiadbench").unwrap().published.unwrap();
        assert_eq!(choose_files(Some(published.files), &olympiad).unwrap(), [&olympiad[1][..]]);
        assert_eq!(choose_files(None, &names(&["a.md", "all.jsonl"])).unwrap(), ["all.jsonl"]);
        assert!(choose_files(Some("x"), &gsm8k).unwrap_err().contains("there are main/test-"));
        assert!(choose_files(None, &names(&["a.jsonl", "b.jsonl"])).unwrap_err().contains("hf://datasets/"));
        assert!(choose_files(None, &names(&["a.csv"])).unwrap_err().contains("no .jsonl"));
    }
}
