//! Benchmarks: their published files, prompts and decoding.
//!
//! The built-in benchmarks of mathematics are GSM8K and those in table 2 of arXiv:2505.22617, with
//! that paper's decoding: AIME and AMC as the mean of 32 responses at temperature 0.6, the others
//! greedily with one. Benchmarks of code have layouts of their own.

mod code_layout;
mod human_eval;
mod leet_code;
mod live_code_bench;
mod mbpp;

use std::path::{Path, PathBuf};

use isentrope_reward::{VerifierName, VerifierSettings};
use serde::Serialize;

use crate::{
    Columns, DataLocation, DataSettings, FileChoice, Format, Problem, Report, Result, TaskName,
    evaluation_set,
};

pub use code_layout::CodeLayout;

/// A benchmark: its problems, their prompts, and how responses are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Benchmark {
    /// Name in results and metrics.
    pub name: String,
    /// Published files; none for a benchmark of the user's own.
    pub published: Option<PublishedFiles>,
    /// Built-in task that makes its problems, if any.
    pub task: Option<TaskName>,
    /// Layout of a benchmark of code; other benchmarks have the layout of training data.
    pub code: Option<CodeLayout>,
    /// Instruction put after each question that lacks it.
    pub suffix: &'static str,
    /// Decoding unless the user chooses another.
    pub decoding: Decoding,
    /// Judge of responses. Unset: the user chooses it.
    pub verifier: Option<VerifierName>,
    /// Columns of prompts and answers in files with the layout of training data.
    pub columns: Columns,
}

/// Files of a data set on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedFiles {
    /// `org/name`.
    pub repo: &'static str,
    /// Common beginning of the files' names.
    pub files: &'static str,
}

/// Decoding of responses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decoding {
    /// Responses to each problem: k of mean@k and maj@k, and the largest k of pass@k.
    pub samples: usize,
    /// Divisor of the logits; 0 takes the most likely token.
    pub temperature: f32,
    /// Longest response, in tokens.
    pub max_tokens: usize,
}

impl Decoding {
    /// Responses to sample per problem. Greedy responses are bit-equal, so one stands for all.
    pub fn sampled(&self) -> usize {
        if self.temperature == 0.0 { self.samples.min(1) } else { self.samples }
    }
}

/// Instruction of Qwen2.5-Math's evaluation. The paper starts from those models.
const STEP_BY_STEP: &str =
    "\nPlease reason step by step, and put your final answer within \\boxed{}.";

/// Longest response, in tokens; the paper's limit in training and evaluation.
const MAX_TOKENS: usize = 8192;

/// The paper's decoding of small sets.
const SAMPLED: Decoding = Decoding { samples: 32, temperature: 0.6, max_tokens: MAX_TOKENS };

/// The paper's decoding of large sets.
const GREEDY: Decoding = Decoding { samples: 1, temperature: 0.0, max_tokens: MAX_TOKENS };

/// The decoding of LiveCodeBench's own runner.
const LIVE_CODE_BENCH: Decoding =
    Decoding { samples: 10, temperature: 0.2, max_tokens: MAX_TOKENS };

/// Base models may never stop. The text after the function is cut off, and this limit exceeds any
/// function.
const COMPLETION: Decoding = Decoding { max_tokens: 1024, ..GREEDY };

/// Mathematics: names (the first is shown), repository and files on the hub, decoding.
const MATHEMATICS: [(&[&str], &str, &str, Decoding); 8] = [
    (&["aime24", "aime2024"], "HuggingFaceH4/aime_2024", "data/train", SAMPLED),
    (&["aime25", "aime2025"], "math-ai/aime25", "test", SAMPLED),
    (&["amc", "amc23", "amc2023"], "AI-MO/aimo-validation-amc", "data/train", SAMPLED),
    (&["math500"], "HuggingFaceH4/MATH-500", "test", GREEDY),
    (&["omni-math"], "KbsdJames/Omni-MATH", "test", GREEDY),
    (
        &["olympiadbench", "olympiad"],
        "Hothan/OlympiadBench",
        "OlympiadBench/OE_TO_maths_en_COMP/",
        GREEDY,
    ),
    (&["minerva", "minervamath"], "math-ai/minervamath", "test", GREEDY),
    (&["gsm8k"], "openai/gsm8k", "main/test", GREEDY),
];

/// Code: names, repository and files, decoding, layout.
const CODE: [(&[&str], &str, &str, Decoding, CodeLayout); 6] = {
    use CodeLayout::{HumanEval, HumanEvalCompletion, LeetCode, LiveCodeBench, Mbpp};
    let (human_eval, its_files) = ("openai/openai_humaneval", "openai_humaneval/test");
    let (mbpp, live_code) = ("google-research-datasets/mbpp", "livecodebench/code_generation_lite");
    let leet_code = ("newfacade/LeetCodeDataset", "LeetCodeDataset-test");
    [
        (&["humaneval"], human_eval, its_files, GREEDY, HumanEval),
        (&["humaneval-completion"], human_eval, its_files, COMPLETION, HumanEvalCompletion),
        (&["mbpp"], mbpp, "full/test", GREEDY, Mbpp),
        (&["mbpp-sanitized"], mbpp, "sanitized/test", GREEDY, Mbpp),
        (&["livecodebench", "lcb"], live_code, "test", LIVE_CODE_BENCH, LiveCodeBench),
        (&["leetcode"], leet_code.0, leet_code.1, GREEDY, LeetCode),
    ]
};

/// Decoding and number of problems of built-in tasks, as in training.
const OF_TASK: Decoding = Decoding { samples: 4, temperature: 1.0, max_tokens: 256 };
const TASK_PROBLEMS: usize = 256;

/// The names of the built-in benchmarks.
pub fn names() -> impl Iterator<Item = &'static str> {
    let tasks = TaskName::ALL.iter().map(|task| task.name());
    let mathematics = MATHEMATICS.iter().map(|(names, ..)| names[0]);
    mathematics.chain(CODE.iter().map(|(names, ..)| names[0])).chain(tasks)
}

impl Benchmark {
    /// Finds a built-in benchmark. Case, hyphens, underscores and blanks make no difference.
    pub fn built_in(name: &str) -> Option<Self> {
        let plain = |name: &str| -> String {
            name.chars().filter(|c| !"-_ ".contains(*c)).collect::<String>().to_lowercase()
        };
        let wanted = plain(name);
        let is_wanted = |names: &[&str]| names.iter().any(|name| plain(name) == wanted);
        let defined = |name: &str, repo, files, decoding| Self {
            published: Some(PublishedFiles { repo, files }),
            decoding,
            ..Self::own(name)
        };
        if let Some(&task) = TaskName::ALL.iter().find(|task| is_wanted(&[task.name()])) {
            let verifier = Some(task.verifier());
            return Some(Self {
                task: Some(task),
                decoding: OF_TASK,
                verifier,
                ..Self::own(task.name())
            });
        }
        if let Some(&(names, repo, files, decoding, layout)) =
            CODE.iter().find(|row| is_wanted(row.0))
        {
            let verifier = Some(VerifierName::Code);
            return Some(Self {
                code: Some(layout),
                verifier,
                ..defined(names[0], repo, files, decoding)
            });
        }
        let &(names, repo, files, decoding) = MATHEMATICS.iter().find(|row| is_wanted(row.0))?;
        let verifier = Some(VerifierName::Math);
        Some(Self { suffix: STEP_BY_STEP, verifier, ..defined(names[0], repo, files, decoding) })
    }

    /// A benchmark of the user's own: unchanged prompts, one greedy response each.
    pub fn own(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            published: None,
            task: None,
            code: None,
            suffix: "",
            decoding: GREEDY,
            verifier: None,
            columns: Columns::default(),
        }
    }

    /// Reads the first `n` problems of `files`, with the instruction; without files, makes the
    /// task's problems (256). Keeps repeated rows. Rows whose ground truth the verifier cannot use
    /// are among the report's bad rows.
    ///
    /// # Errors
    /// Files that cannot be read or have no usable row.
    pub fn problems<P: AsRef<Path>>(
        &self,
        files: &[P],
        n: usize,
        verifier: &VerifierSettings,
    ) -> Result<(Vec<Problem>, Report)> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.as_ref().to_owned()).collect();
        if let (true, Some(task)) = (files.is_empty(), self.task) {
            let n = if n == usize::MAX { TASK_PROBLEMS } else { n };
            return evaluation_set(
                &DataSettings { task: Some(task), ..DataSettings::default() },
                n,
                verifier,
            );
        }
        if let Some(layout) = self.code {
            return layout.read(files, n, verifier);
        }
        let columns = self.columns.clone();
        let settings = DataSettings {
            files,
            columns,
            deduplicate: false,
            shuffle: false,
            ..DataSettings::default()
        };
        let (mut problems, report) = evaluation_set(&settings, n, verifier)?;
        for Problem { prompt, .. } in &mut problems {
            if prompt.question().is_some_and(|question| !question.contains("\\boxed{}")) {
                prompt.surround("", self.suffix);
            }
        }
        Ok((problems, report))
    }
}

/// A benchmark that a user chose: `NAME`, or `NAME=PLACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Location of its problems; none for a built-in task.
    pub place: Option<DataLocation>,
}

impl Choice {
    /// Parses `NAME` of a built-in benchmark, or `NAME=PLACE` with a place for
    /// [`DataLocation::parse`].
    ///
    /// # Errors
    /// The text's defect, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, place) = match text.split_once('=') {
            Some((name, place)) => (name, Some(place)),
            None => (text, None),
        };
        let benchmark = Benchmark::built_in(name).unwrap_or_else(|| Benchmark::own(name));
        let Some(place) = place else {
            let place = match (benchmark.task, benchmark.published) {
                (Some(_), _) => None,
                (None, Some(PublishedFiles { repo, files })) => Some(DataLocation::Hub {
                    id: repo.into(),
                    files: FileChoice::Beginning(files.into()),
                }),
                (None, None) => return Err(unknown(name)),
            };
            return Ok(Self { benchmark, place });
        };
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_good) || name.starts_with('.') {
            return Err(format!(
                "{text:?}: the name of a benchmark is made of letters, digits, -, _ and ., as in \
                 mine=FILE.jsonl"
            ));
        }
        if place.is_empty() {
            return Err(format!(
                "{text:?}: nothing after the =; name a file, as in {name}=FILE.jsonl"
            ));
        }
        let mut place = DataLocation::parse(place);
        // A directory is a copy of the published data set.
        if let (DataLocation::Hub { files, .. }, Some(published)) =
            (&mut place, benchmark.published)
            && *files == FileChoice::Parts(Vec::new())
        {
            *files = FileChoice::Beginning(published.files.into());
        }
        place.check().map_err(|e| format!("{text:?}: {e}"))?;
        Ok(Self { place: Some(place), benchmark })
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = names().collect();
    let what = if Format::of(Path::new(name)).is_ok() {
        format!("{name:?}: give the file a name, as in mine={name}")
    } else {
        format!(
            "{name:?}: there is no such benchmark; a file of your own is given as {name}=FILE.jsonl"
        )
    };
    format!("{what}; built in are {}", names.join(", "))
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
        assert_eq!(names().count(), 16);
    }

    #[test]
    fn problems_are_where_the_user_says_or_where_they_are_published() {
        let hub = |id: &str, files: &str| {
            Some(DataLocation::Hub { id: id.into(), files: FileChoice::Beginning(files.into()) })
        };
        let parts = |id: &str, parts: &[&str]| {
            let parts = parts.iter().map(|&part| part.to_owned()).collect();
            Some(DataLocation::Hub { id: id.into(), files: FileChoice::Parts(parts) })
        };
        let file = |path: &str| Some(DataLocation::File(path.into()));
        for (text, place) in [
            ("gsm8k", hub("openai/gsm8k", "main/test")),
            ("gsm8k=my/gsm8k@v2", hub("my/gsm8k@v2", "main/test")),
            ("gsm8k=my/gsm8k:train", parts("my/gsm8k", &["train"])),
            ("gsm8k=hf://datasets/my/gsm8k/data/x.parquet", hub("my/gsm8k", "data/x.parquet")),
            ("mine=org/name", parts("org/name", &[])),
            ("mine=data/a.jsonl", file("data/a.jsonl")),
            ("mine=a=b.jsonl", file("a=b.jsonl")),
            ("mine=data/*.jsonl", Some(DataLocation::Pattern("data/*.jsonl".into()))),
            ("countdown", None),
            ("countdown=a.jsonl", file("a.jsonl")),
        ] {
            assert_eq!(parse(text).place, place, "{text}");
        }
        assert_eq!(parse("MATH-500=a.jsonl").benchmark, Benchmark::built_in("math500").unwrap());
        assert_eq!(parse("mine=a.jsonl").benchmark, Benchmark::own("mine"));
    }

    #[test]
    fn what_judges_is_known_before_there_is_a_response() {
        for (name, verifier) in [
            ("humaneval", VerifierName::Code),
            ("mbpp", VerifierName::Code),
            ("livecodebench", VerifierName::Code),
            ("leetcode", VerifierName::Code),
            ("programs", VerifierName::Code),
            ("countdown", VerifierName::Countdown),
            ("gsm8k", VerifierName::Math),
        ] {
            assert_eq!(Benchmark::built_in(name).unwrap().verifier, Some(verifier), "{name}");
        }
    }

    #[test]
    fn a_task_is_measured_on_its_test_problems() {
        let Choice { benchmark, .. } = parse("Countdown");
        let problems =
            |n| benchmark.problems::<&Path>(&[], n, &VerifierSettings::default()).unwrap().0;
        let settings = DataSettings { task: benchmark.task, ..DataSettings::default() };
        let (of_recipe, _) = evaluation_set(&settings, 300, &VerifierSettings::default()).unwrap();
        assert_eq!(problems(usize::MAX), of_recipe[..256]);
        assert_eq!(problems(300), of_recipe);
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
            ("mine=a", "must end in .parquet"),
        ] {
            let error = Choice::parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
