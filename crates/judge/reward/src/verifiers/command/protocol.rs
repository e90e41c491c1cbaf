//! The lines between a run and its workers: one JSON object each, a question in, an answer out.

use std::collections::BTreeMap;
use std::time::Duration;

use isentrope_files::sha256;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::QuestionBatch;
use super::worker::printable;
use crate::{Item, Judgement, Verdict};

/// Longest line that a worker may print about a response, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Longest line that a worker may print about a group, in bytes.
const MAX_GROUP_LINE: usize = 1 << 24;

/// Largest score, in magnitude. Sums and squares of such scores over any batch are far from the end
/// of what floating-point numbers hold.
const MAX_SCORE: f64 = 1e6;

/// Longest name of a metric, in bytes.
const MAX_NAME: usize = 64;

/// Most metrics in an answer.
const MAX_METRICS: usize = 64;

/// Names below `reward/` that runs write themselves.
const RESERVED: [&str; 4] = ["mean", "score", "solved_all", "solved_none"];

/// Most characters of a worker's line that a message shows.
const SHOWN: usize = 120;

/// Advice about printing that was not meant as an answer.
pub const STRAY: &str =
    "what is no answer must go to standard error (in Python: print(..., file=sys.stderr))";

/// Longest line that a worker may print, in bytes.
pub fn longest_line(batch: QuestionBatch) -> usize {
    match batch {
        QuestionBatch::Response => MAX_LINE,
        QuestionBatch::Group => MAX_GROUP_LINE,
    }
}

/// A response or a group to judge, without its number.
#[derive(Serialize)]
struct Unnumbered<'a> {
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    responses: Option<&'a [&'a str]>,
    ground_truth: &'a Value,
    data_source: &'a str,
    extra_info: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Value]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a Map<String, Value>>,
}

/// A question to a worker.
#[derive(Clone)]
pub struct Question {
    /// The question's number. It follows from the rest of the question, not from when it is asked
    /// or how many were asked before: an answer that depends on it depends on the question alone.
    id: u64,
    /// The question's line.
    pub line: Vec<u8>,
    /// The number of responses, if the question is about a group.
    group: Option<usize>,
    /// Whether the question is to the shim of a function.
    to_shim: bool,
}

impl Question {
    /// The question about a response, or about a group: to the shim of a function with all that is
    /// known, to a command with what docs/guides/data-and-rewards.md promises.
    pub fn new(item: &Item<'_>, responses: &[&str], batch: QuestionBatch, to_shim: bool) -> Self {
        let Item { ground_truth, prompt, data_source, extra_info, messages, columns } = *item;
        let (messages, columns) = (messages.filter(|_| to_shim), columns.filter(|_| to_shim));
        let group = (batch == QuestionBatch::Group).then_some(responses.len());
        let (response, responses) = match batch {
            QuestionBatch::Response => (responses.first().copied(), None),
            QuestionBatch::Group => (None, Some(responses)),
        };
        let question = Unnumbered {
            prompt,
            response,
            responses,
            ground_truth,
            data_source,
            extra_info,
            messages,
            columns,
        };
        let json = serde_json::to_vec(&question).expect("texts and JSON values have a JSON form");
        let [a, b, c, d, ..] = sha256(&json);
        let id = u32::from_be_bytes([a, b, c, d]) >> 1; // 31 bits: all languages have such integers
        let mut line = format!("{{\"id\":{id},").into_bytes();
        line.extend_from_slice(&json[1..]); // what follows the opening brace
        line.push(b'\n');
        Self { id: u64::from(id), line, group, to_shim }
    }

    /// The question once more, to the shim of a function that failed with this error: the shim does
    /// not show the error's traceback again.
    pub fn again(&self, error: &str) -> Self {
        let mut again = self.clone();
        if self.to_shim {
            let error = format!("\"again\":{},", Value::from(error)).into_bytes();
            again.line.splice(1..1, error); // behind the opening brace
        }
        again
    }

    /// The number of responses that it is about.
    pub fn responses(&self) -> usize {
        self.group.unwrap_or(1)
    }
}

/// The line by which the shim of a function is asked whether it can use it.
pub const HELLO: &str = "{\"hello\":true}\n";

/// The answer of a function's shim to [`HELLO`].
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Greeting {
    /// How the function is called, as a sentence without a full stop.
    Hello(String),
    /// Why it cannot be used, of several lines where a traceback is part of it.
    Refused(String),
}

/// Reads what the shim of a function says to [`HELLO`].
///
/// # Errors
/// [`Misconduct::Rubbish`].
pub fn greeting(line: &[u8]) -> Result<Greeting, Misconduct> {
    Ok(match serde_json::from_slice(line).map_err(|e| rubbish(line, e.to_string()))? {
        Greeting::Hello(text) => Greeting::Hello(one_line(&printable(&text))),
        Greeting::Refused(text) => Greeting::Refused(printable(&text)),
    })
}

/// The answer of a function's shim where the function did not judge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    id: u64,
    /// The reason.
    failed: String,
}

/// The answer about a group: an answer without its number for each response.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupAnswer {
    id: u64,
    answers: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: u64,
    applies: Option<bool>,
    score: Option<f64>,
    verdict: Option<Verdict>,
    extracted: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    metrics: BTreeMap<String, f64>,
}

/// A worker's misconduct in the place of an answer. `Display` follows "the worker".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Misconduct {
    /// The worker ended, or closed its standard output.
    #[error("ended")]
    Ended,
    /// The worker was silent for too long.
    #[error("gave no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The worker answered without having read its question.
    #[error("does not read its standard input")]
    NotReading,
    /// The worker printed a longer line than it may, in bytes.
    #[error("printed a line of more than {0} bytes")]
    TooLong(usize),
    /// The worker's function raised an error, or returned something that is no score. Such a worker
    /// goes on.
    #[error("said {0}")]
    Failed(String),
    /// The worker answered another question.
    #[error("answered question {answered} when asked question {asked}")]
    OutOfTurn {
        /// The question it was asked.
        asked: u64,
        /// The question it answered.
        answered: u64,
    },
    /// The worker printed something that is no answer.
    #[error("printed {line:?}, which is no answer: {problem}")]
    Rubbish {
        /// The beginning of the line.
        line: String,
        /// The problem with it.
        problem: String,
    },
}

/// Reads the answer to a question: the judgement of each of its responses, in their order.
///
/// # Errors
/// [`Misconduct::Rubbish`], [`Misconduct::OutOfTurn`] and [`Misconduct::Failed`].
pub fn answer(line: &[u8], question: &Question) -> Result<Vec<Judgement>, Misconduct> {
    let whole = without_halves(line);
    let rubbish = |problem: String| rubbish(line, problem);
    let unreadable = |e: serde_json::Error| {
        let is_object = line.trim_ascii_start().starts_with(b"{");
        rubbish(if is_object { e.to_string() } else { format!("{e}; {STRAY}") })
    };
    let check = |answered: u64| match answered == question.id {
        true => Ok(()),
        false => Err(Misconduct::OutOfTurn { asked: question.id, answered }),
    };
    if let Ok(Failed { id, failed }) = serde_json::from_slice(&whole)
        && question.to_shim
    {
        check(id)?;
        return Err(Misconduct::Failed(one_line(&failed)));
    }
    let Some(count) = question.group else {
        let answer: Answer = serde_json::from_slice(&whole).map_err(unreadable)?;
        check(answer.id)?;
        return Ok(vec![judgement(answer, &rubbish)?]);
    };
    let GroupAnswer { id, answers } = serde_json::from_slice(&whole).map_err(unreadable)?;
    check(id)?;
    if answers.len() != count {
        let found = answers.len();
        return Err(rubbish(format!("it has {found} answers for a group of {count} responses")));
    }
    let judgements = answers.into_iter().map(|mut answer| {
        answer.insert("id".into(), id.into());
        judgement(serde_json::from_value(answer.into()).map_err(unreadable)?, &rubbish)
    });
    judgements.collect()
}

/// The judgement that an answer makes; `rubbish` is the error of one that makes none.
fn judgement(
    answer: Answer,
    rubbish: &dyn Fn(String) -> Misconduct,
) -> Result<Judgement, Misconduct> {
    check_names(&answer.metrics).map_err(rubbish)?;
    if answer.applies == Some(false) {
        let reason = answer
            .reason
            .as_deref()
            .unwrap_or("the worker says that it does not apply to this problem");
        return Ok(Judgement::inapplicable(one_line(reason)));
    }
    let score = match (answer.score, answer.verdict) {
        (Some(score), _) => score,
        // There is nothing to score where nothing could be judged.
        (None, Some(verdict)) if !verdict.is_scored() => 0.0,
        (None, _) => return Err(rubbish("it has no score".into())),
    };
    if score.abs() > MAX_SCORE {
        return Err(rubbish(format!("its score is {score:e}, and scores are from -1e6 to 1e6")));
    }
    let verdict =
        answer.verdict.unwrap_or(if score >= 1.0 { Verdict::Correct } else { Verdict::Wrong });
    let reason = answer.reason.unwrap_or_else(|| format!("the worker's score is {score}"));
    Ok(Judgement {
        score,
        metrics: answer.metrics,
        ..Judgement::new(verdict, answer.extracted, one_line(&reason))
    })
}

/// JSON whose escaped halves of surrogate pairs (`\\ud83d` alone) are U+FFFD. Python writes a half
/// that it was given, so that a response could put its judge in the wrong.
pub fn without_halves(json: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut whole, mut at) = (Vec::with_capacity(json.len()), 0);
    while at < json.len() {
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.extend(b"\\ufffd");
                at += 6;
                continue;
            }
            _ if json[at] == b'\\' => 2,
            _ => 1,
        };
        let end = json.len().min(at + length);
        whole.extend(&json[at..end]);
        at = end;
    }
    whole
}

/// That a line is no answer, and why.
pub fn rubbish(line: &[u8], problem: String) -> Misconduct {
    let mut text = String::from_utf8_lossy(line).trim_end().to_owned();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    Misconduct::Rubbish { line: text, problem }
}

/// Checks the names of measurements.
///
/// # Errors
/// What is wrong with them, as a sentence without a full stop.
pub fn check_names(metrics: &BTreeMap<String, f64>) -> Result<(), String> {
    if metrics.len() > MAX_METRICS {
        return Err(format!("it has {} metrics, and {MAX_METRICS} are allowed", metrics.len()));
    }
    for name in metrics.keys() {
        let usual = |c: char| c.is_ascii_alphanumeric() || "_-./@".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(usual) {
            return Err(format!(
                "the metric {name:?} must be named by 1 to {MAX_NAME} letters, digits and _ - . / @"
            ));
        }
        if RESERVED.contains(&&name[..]) {
            return Err(format!(
                "the metric {name:?} is one that every run writes: give it another name"
            ));
        }
    }
    Ok(())
}

/// The text with one space in place of any white space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// A question of the number 5, about one response or a group.
    fn asked(group: Option<usize>, to_shim: bool) -> Question {
        Question { id: 5, line: Vec::new(), group, to_shim }
    }

    fn judgement(line: &str) -> Result<Judgement, Misconduct> {
        answer(line.as_bytes(), &asked(None, false)).map(|mut all| all.remove(0))
    }

    #[test]
    fn a_question_is_one_line_with_everything() {
        let (ground_truth, extra_info) = (json!({"n": [1, "\n"]}), json!(null));
        let (messages, columns) = ([json!({"role": "user"})], json!({"nums": [1]}));
        let item = Item {
            ground_truth: &ground_truth,
            prompt: "p\n",
            data_source: "d",
            extra_info: &extra_info,
            messages: Some(&messages),
            columns: columns.as_object(),
        };
        let mut expected = json!({
            "prompt": "p\n", "response": "r\u{2028}\n\"", "ground_truth": {"n": [1, "\n"]}, "data_source": "d",
            "extra_info": null
        });
        for to_shim in [false, true] {
            let responses = ["r\u{2028}\n\""];
            let Question { id, line, .. } =
                Question::new(&item, &responses, QuestionBatch::Response, to_shim);
            let line = String::from_utf8(line).unwrap();
            assert!(line.ends_with('\n') && line.lines().count() == 1);
            assert!(
                line.starts_with(&format!("{{\"id\":{id},")),
                "shells look for it there: {line}"
            );
            expected["id"] = json!(id);
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
            expected["messages"] = json!(messages);
            expected["columns"] = columns.clone();
        }
        let group = Question::new(&item, &["r", "s"], QuestionBatch::Group, false);
        let line: Value = serde_json::from_slice(&group.line).unwrap();
        assert_eq!((&line["responses"], line.get("response")), (&json!(["r", "s"]), None));
    }

    #[test]
    fn a_group_has_an_answer_for_each_response() {
        let read = |line: &str| answer(line.as_bytes(), &asked(Some(2), false));
        let two = r#"{"id":5,"answers":[{"score":1},{"verdict":"fault"}]}"#;
        let verdicts: Vec<Verdict> = read(two).unwrap().iter().map(|j| j.verdict).collect();
        assert_eq!(verdicts, [Verdict::Correct, Verdict::Fault]);
        for (line, why) in [
            (r#"{"id":5,"answers":[{"score":1}]}"#, "it has 1 answers for a group of 2 responses"),
            (r#"{"id":5,"score":1}"#, "unknown field `score`"),
            (r#"{"id":5,"answers":[{"score":1},{}]}"#, "it has no score"),
            (r#"{"id":5,"answers":[{"score":1},{"scores":1}]}"#, "unknown field `scores`"),
            (r#"{"id":4,"answers":[{"score":1},{"score":1}]}"#, "answered question 4 when asked"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn only_a_shim_may_say_that_its_function_failed() {
        let line = br#"{"id":5,"failed":"ValueError:\n 3"}"#;
        let failed = Misconduct::Failed("ValueError: 3".into());
        assert_eq!(answer(line, &asked(None, true)), Err(failed));
        let command = answer(line, &asked(None, false)).unwrap_err().to_string();
        assert!(command.contains("unknown field `failed`"), "{command}");
    }

    /// The first four bytes of `sha256sum` of the line without its number, halved.
    #[test]
    fn a_question_has_the_same_number_whenever_it_is_asked() {
        let number = |prompt, response| {
            let item = Item { prompt, ..Item::default() };
            Question::new(&item, &[response], QuestionBatch::Response, false).id
        };
        assert_eq!(number("p", "r"), 737_890_388);
        assert_ne!(number("p", "s"), number("p", "r"));
        assert_ne!(number("q", "r"), number("p", "r"));
    }

    #[test]
    fn a_shim_says_hello_or_why_not() {
        let hello = greeting(b"{\"hello\":\"f is called\"}").unwrap();
        assert_eq!(hello, Greeting::Hello("f is called".into()));
        let refused = greeting(b"{\"refused\":\"no:\\n  \\u001b[31mf\"}").unwrap();
        assert_eq!(refused, Greeting::Refused("no:\n   [31mf".into()));
        assert!(greeting(b"{\"id\":0,\"score\":1}").is_err());
    }

    #[test]
    fn a_worker_may_say_that_it_does_not_apply() {
        let judged = judgement(r#"{"id":5,"applies":false,"reason":"no\n sums"}"#).unwrap();
        assert_eq!(judged, Judgement::inapplicable("no sums"));
        assert_eq!(judged.verdict, Verdict::Fault);
        assert!(judgement(r#"{"id":5,"applies":true,"score":1}"#).unwrap().applies);
        assert!(judgement(r#"{"id":5,"applies":true}"#).is_err());
    }

    #[test]
    fn without_a_verdict_the_score_decides() {
        for (score, verdict) in [
            ("1", Verdict::Correct),
            ("1.5", Verdict::Correct),
            ("0.99", Verdict::Wrong),
            ("-3e2", Verdict::Wrong),
            ("-1e6", Verdict::Wrong),
            ("1000000", Verdict::Correct),
        ] {
            let judged = judgement(&format!(r#"{{"id":5,"score":{score}}}"#)).unwrap();
            assert_eq!((judged.verdict, judged.score), (verdict, score.parse().unwrap()));
        }
        let judged = judgement(
            r#"{"id":5,"score":0.2,"verdict":"correct","extracted":"7","reason":"a\n b","metrics":{"a/b":1}}"#,
        )
        .unwrap();
        let expected = Judgement::new(Verdict::Correct, Some("7".into()), "a b");
        assert_eq!(
            judged,
            Judgement { score: 0.2, metrics: [("a/b".to_owned(), 1.0)].into(), ..expected }
        );
        for verdict in ["fault", "timed-out"] {
            let judged = judgement(&format!(r#"{{"id":5,"verdict":"{verdict}"}}"#)).unwrap();
            assert!(!judged.verdict.is_scored());
        }
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        for (written, read) in [
            (r"a\ud83d", "a\u{fffd}"),
            (r"\ude00\ud83d!", "\u{fffd}\u{fffd}!"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\\ud83d", r"\ud83d"),
            (r"\ud83d\u0041", "\u{fffd}A"),
        ] {
            let line = format!(r#"{{"id":5,"score":0,"extracted":"{written}"}}"#);
            assert_eq!(judgement(&line).unwrap().extracted.as_deref(), Some(read), "{written}");
        }
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let many: BTreeMap<String, f64> = (0..=MAX_METRICS).map(|i| (i.to_string(), 0.0)).collect();
        let many = json!({"id": 5, "score": 1, "metrics": many}).to_string();
        for (line, why) in [
            ("", "EOF"),
            ("5", "invalid type"),
            ("loading", "file=sys.stderr"),
            (r#"{"score":1}"#, "missing field `id`"),
            (r#"{"id":5}"#, "it has no score"),
            (r#"{"id":5,"verdict":"wrong"}"#, "it has no score"),
            (r#"{"id":5,"score":"1"}"#, "invalid type: string"),
            (r#"{"id":5,"score":true}"#, "invalid type: boolean"),
            (r#"{"id":5,"score":1e308}"#, "its score is 1e308, and scores are from -1e6 to 1e6"),
            (r#"{"id":5,"score":-1000001}"#, "its score is -1.000001e6, and scores are"),
            (r#"{"id":5,"score":1e999}"#, "number out of range"),
            (r#"{"id":5,"score":-Infinity}"#, "invalid number"),
            (r#"{"id":5,"score":1,"metric":{}}"#, "unknown field `metric`, expected one of"),
            (r#"{"id":5,"score":1,"metrics":{"a":null}}"#, "invalid type: null"),
            (r#"{"id":5,"score":1,"metrics":{"mean":1}}"#, "\"mean\" is one that every run writes"),
            (r#"{"id":5,"score":1,"metrics":{"a b":1}}"#, "must be named by"),
            (r#"{"id":5,"score":1,"metrics":{"":1}}"#, "must be named by"),
            (&many, "65 metrics"),
            (r#"{"id":5,"score":1} {"id":6,"score":1}"#, "trailing characters"),
        ] {
            let error = judgement(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
        let out_of_turn = Misconduct::OutOfTurn { asked: 5, answered: 4 };
        assert_eq!(judgement(r#"{"id":4,"score":1}"#), Err(out_of_turn));
    }

    /// Nearly answers.
    const NEAR: &str = r#"\{"id":5,("score":[0-9eE.+-]{0,5}|"verdict":"wrong"|,){0,3}\}"#;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_told_in_one_line(bytes: Vec<u8>, near in NEAR) {
            for line in [&bytes, near.as_bytes()] {
                match answer(line, &asked(None, true)) {
                    Ok(judged) => prop_assert!(judged[0].score.abs() <= MAX_SCORE),
                    Err(misconduct) => {
                        let told = misconduct.to_string();
                        prop_assert!(!told.contains('\n') && told.chars().count() < 1500, "{}", told);
                    }
                }
            }
        }
    }
}
