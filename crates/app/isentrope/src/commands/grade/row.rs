//! A line as a question to a verifier.

use crate::lines::{Line, Unreadable, keys_of};
use anyhow::Result;
use isentrope_data::{
    GROUND_TRUTH, GroundTruth, PROMPT, Prompt, check_exact, find, find_ground_truth, read_prompt,
};
use isentrope_reward::{Item, Judgement, VerifierSettings, math};
use serde_json::{Map, Value};

const RESPONSE: &[&str] = &["response", "pred", "prediction", "completion", "output"];

/// Names of a line's options in Math-Verify, and ours.
const MATH_VERIFYS: [(&str, &str); 2] =
    [("precision", "decimals"), ("allow_set_relation_comp", "allow_set_relation")];

/// How lines are understood.
pub struct Reader {
    /// Key of the ground truth, if not a usual one.
    pub gold: Option<String>,
    /// Key of the response, if not a usual one.
    pub response: Option<String>,
    /// The keys and verifier for which lines are read.
    pub verifier: VerifierSettings,
}

/// A line, understood.
pub struct Row {
    /// Number of the line in its file, from 1.
    pub number: usize,
    question: Question,
    object: Map<String, Value>,
    /// The reason why the line cannot be judged, if it cannot.
    pub unreadable: Option<String>,
}

/// A parsed line.
#[derive(Default)]
struct Question {
    ground_truth: Value,
    response: String,
    expected: Option<bool>,
    prompt: Option<Prompt>,
    data_source: String,
    extra_info: Value,
    /// The line's other keys, for verifiers that take them.
    columns: Map<String, Value>,
}

impl Reader {
    /// Reads a line.
    ///
    /// # Errors
    /// Naming the line, what it lacks, and what it may have.
    pub fn read(&self, line: Line) -> Result<Row> {
        self.understand(line.object()).map_err(|e| line.error(e)).map(|question| Row {
            number: line.number(),
            question,
            object: line.into_object(),
            unreadable: None,
        })
    }

    fn understand(&self, object: &Map<String, Value>) -> Result<Question, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let prompt =
            find(object, &None, PROMPT).ok().and_then(|(_, prompt)| read_prompt(prompt).ok());
        let data_source = object.get("data_source").map(text).unwrap_or_default();
        self.verifier.check_data_source(&data_source)?;
        let usual = [&["gold"], GROUND_TRUTH].concat();
        let ground_truth =
            match find_ground_truth(object, &self.gold, &usual, &data_source, &self.verifier)? {
                GroundTruth::Missing(missing) => return Err(lacking(&missing, "--gold", object)),
                GroundTruth::NotNeeded => Value::Null,
                // The verifier reports the tests' defect, as it does for any ground truth.
                GroundTruth::Unusable(unusable) => unusable.tests,
                GroundTruth::Tests(truth) | GroundTruth::Column(_, truth) => truth,
            };
        let found = find(object, &self.response, RESPONSE);
        let (response_key, response) =
            found.map_err(|missing| lacking(&missing, "--response", object))?;
        let response = match response {
            Value::String(text) => text.clone(),
            // A bare answer may be a number.
            Value::Number(number) => {
                check_exact(response, response_key)?;
                number.to_string()
            }
            _ => return Err(format!("\"{response_key}\" must be text")),
        };
        let expected = match object.get("expected") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(expected)) => Some(*expected),
            Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Some(false),
            Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Some(true),
            Some(_) => return Err("\"expected\" must be 0, 1, false or true".into()),
        };
        let extra_info = self.extra_info(object);
        let mut columns = Map::new();
        if self.verifier.takes_columns() {
            let told = [&[response_key, "data_source", "extra_info"], PROMPT].concat();
            let further = object.iter().filter(|(key, _)| !told.contains(&key.as_str()));
            columns.extend(further.map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok(Question { ground_truth, response, expected, prompt, data_source, extra_info, columns })
    }

    /// The line's extra_info, with options under Math-Verify's names moved to our key. Commands and
    /// functions get it unchanged.
    fn extra_info(&self, object: &Map<String, Value>) -> Value {
        let given = object.get("extra_info").cloned().unwrap_or_default();
        let set = MATH_VERIFYS
            .iter()
            .filter_map(|(theirs, ours)| Some(((*ours).to_owned(), object.get(*theirs)?.clone())));
        let set: Map<String, Value> = set.collect();
        if set.is_empty() || self.verifier.workers().is_some() {
            return given;
        }
        let own =
            given.get(math::OF_PROBLEM).and_then(Value::as_object).cloned().unwrap_or_default();
        let options: Map<String, Value> = set.into_iter().chain(own).collect();
        let mut all = given.as_object().cloned().unwrap_or_default();
        all.insert(math::OF_PROBLEM.into(), options.into());
        all.into()
    }
}

/// The error for a line without a key. It names the flag for the key, and the keys that the line
/// has.
fn lacking(missing: &str, flag: &str, object: &Map<String, Value>) -> String {
    format!("{missing}; the line has {}: {flag} names a key", keys_of(object))
}

/// A line that is not JSON, identified by its number.
impl From<Unreadable> for Row {
    fn from(Unreadable { number, what, .. }: Unreadable) -> Self {
        let object = Map::from_iter([("line".to_owned(), number.into())]);
        Self { number, question: Question::default(), object, unreadable: Some(what) }
    }
}

impl Row {
    /// The problem that the response is judged by.
    pub fn item(&self) -> Item<'_> {
        let Question { ground_truth, prompt, data_source, extra_info, columns, .. } =
            &self.question;
        Item {
            ground_truth,
            prompt: prompt.as_ref().and_then(Prompt::question).unwrap_or_default(),
            data_source,
            extra_info,
            messages: prompt.as_ref().and_then(Prompt::messages),
            columns: Some(columns),
        }
    }

    /// Whether another line's response is one to the same problem.
    pub fn has_problem_of(&self, other: &Self) -> bool {
        let (own, its) = (self.item(), other.item());
        self.unreadable.is_none()
            && other.unreadable.is_none()
            && own.prompt == its.prompt
            && own.messages == its.messages
            && own.ground_truth == its.ground_truth
            && own.data_source == its.data_source
            && own.extra_info == its.extra_info
    }

    pub fn response(&self) -> &str {
        &self.question.response
    }

    /// Whether the response ought to be judged correct, if the line says so.
    pub fn expected(&self) -> Option<bool> {
        self.question.expected
    }

    /// The line with its judgement, which replaces an older one.
    pub fn with(self, judgement: Judgement) -> Result<Map<String, Value>> {
        let mut object = self.object;
        if object.contains_key("verdict") {
            // A judgement leaves these out if they say nothing, so an older one's would stay.
            object.retain(|key, _| !["metrics", "applies", "failed"].contains(&key.as_str()));
        }
        if let Value::Object(judgement) = serde_json::to_value(judgement)? {
            object.extend(judgement);
        }
        Ok(object)
    }
}
