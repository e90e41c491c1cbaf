//! Problems and examples from files of every schema, and from files that are not what they should
//! be.

use std::fs;
use std::path::{Path, PathBuf};

use isentrope_data::{
    Columns, Content, DataSettings, Error, Examples, Longest, Problem, Prompt, Report, Source,
    Split, evaluation_set,
};
use isentrope_random::{Draws, Purpose};
use isentrope_reward::{Item, Verdict, VerifierName, VerifierSettings};
use parquet::data_type::{ByteArray, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::parquet_files::{parquet, texts};

fn settings(path: &Path) -> DataSettings {
    DataSettings { files: vec![path.to_owned()], shuffle: false, ..DataSettings::default() }
}

fn auto() -> VerifierSettings {
    VerifierSettings::default()
}

fn write(directory: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn jsonl(directory: &TempDir, rows: &[Value]) -> PathBuf {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    write(directory, "rows.jsonl", text)
}

fn verl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/verl.parquet")
}

fn bad(report: &Report) -> Vec<String> {
    report
        .bad
        .first()
        .iter()
        .map(|finding| format!("{}: {}", finding.origin, finding.problem))
        .collect()
}

/// A parquet file of texts, a whole number and a float per row.
fn flat_parquet(directory: &TempDir, rows: &[(&str, i64, f64)]) -> PathBuf {
    let schema = "message rows { required binary question (UTF8); required int64 answer; required double level; \
                  required binary raw; }";
    let path = directory.path().join("flat.parquet");
    let question = |row: &(&str, i64, f64)| ByteArray::from(row.0);
    let questions: Vec<_> = rows.iter().map(question).collect();
    let numbers: Vec<_> = rows.iter().map(|row| row.1).collect();
    let levels: Vec<_> = rows.iter().map(|row| row.2).collect();
    parquet(&path, schema, WriterProperties::builder(), |number, column| match number {
        1 => drop(column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap()),
        2 => drop(column.typed::<DoubleType>().write_batch(&levels, None, None).unwrap()),
        _ => texts(column, &questions),
    })
}

#[test]
fn verl_parquet_is_read_and_linted() {
    let (mut source, report) = Source::open(&settings(&verl()), 1, &auto()).unwrap();
    assert_eq!((report.rows, report.usable, report.duplicates), (28, 21, 2));
    assert_eq!(source.len(), Some(21));
    assert_eq!(
        bad(&report),
        [
            "verl.parquet row 23: column reward_model.ground_truth is null",
            "verl.parquet row 24: the prompt is empty",
            "verl.parquet row 26: message 1 has no content that is text",
            "verl.parquet row 27: column prompt is null",
            "verl.parquet row 28: in column reward_model.ground_truth the ground truth is empty",
        ]
    );
    let conflict = &report.conflicts.first()[0];
    assert_eq!((report.conflicts.count(), conflict.origin.as_str()), (1, "verl.parquet row 22"));
    assert!(conflict.problem.contains("verl.parquet row 2 asks"), "{}", conflict.problem);
    let text = report.to_string();
    assert!(
        text.starts_with("28 rows: 21 usable, 2 duplicates (1 with another ground truth), 5 bad\n"),
        "{text}"
    );

    let problem = source.problem(0);
    let Prompt::Chat(messages) = &problem.prompt else { panic!("{problem:?}") };
    assert_eq!(messages.len(), 1);
    assert!(
        problem.prompt.question().unwrap().starts_with("I am playing a walking game with myself.")
    );
    assert_eq!(problem.ground_truth, "21");
    assert_eq!(problem.data_source, "math");
    assert_eq!(problem.extra_info, json!({"index": 0, "split": "train"}));
    assert_eq!(problem.origin, "verl.parquet row 1");
    for position in 0..20 {
        let problem = source.problem(position);
        let item = Item {
            ground_truth: &problem.ground_truth,
            prompt: problem.prompt.question().unwrap(),
            data_source: &problem.data_source,
            extra_info: &problem.extra_info,
            ..Item::default()
        };
        let response = format!("So it is \\boxed{{{}}}.", problem.ground_truth.as_str().unwrap());
        assert_eq!(
            VerifierName::Auto.verify(&item, &response).verdict,
            Verdict::Correct,
            "{response}"
        );
    }
    // SHA-256 as sha256sum gives it.
    assert_eq!(
        source.files()[0].sha256,
        "a5533914334a34ee76f3b90230e3896e20602d6a644b70ef34c28c697e218bdc"
    );
}

#[test]
fn rows_whose_prompts_an_environment_writes_differ_by_what_it_is_told() {
    let directory = TempDir::new().unwrap();
    let row = |number: u64| json!({"prompt": [], "answer": "7", "extra_info": {"row": number}});
    let path = jsonl(&directory, &[row(1), row(2), row(1)]);
    let (mut source, report) = Source::open(&settings(&path), 1, &auto()).unwrap();
    assert_eq!((source.len(), report.duplicates, bad(&report).len()), (Some(2), 1, 0));
    assert_eq!(source.problem(1).prompt, Prompt::Chat(Vec::new()));
    assert_eq!(source.problem(1).extra_info, json!({"row": 2}));
    let system = json!({"prompt": [{"role": "system", "content": "S"}], "answer": "7"});
    let refused = Source::open(&settings(&jsonl(&directory, &[system])), 1, &auto()).err().unwrap();
    assert!(refused.to_string().contains("no message of the user"), "{refused}");
}

#[test]
fn settings_decide_what_is_drawn() {
    let all = DataSettings { deduplicate: false, ..settings(&verl()) };
    let (source, report) = Source::open(&all, 1, &auto()).unwrap();
    assert_eq!((source.len(), report.duplicates, report.conflicts.count()), (Some(23), 0, 0));

    let few = DataSettings { limit: Some(3), ..settings(&verl()) };
    assert_eq!(Source::open(&few, 1, &auto()).unwrap().0.len(), Some(3));

    let dressed = DataSettings {
        prompt_prefix: "Q: ".into(),
        prompt_suffix: "\nA:".into(),
        ..settings(&verl())
    };
    let plain = Source::open(&settings(&verl()), 1, &auto()).unwrap().0.problem(4);
    let expected = format!("Q: {}\nA:", plain.prompt.question().unwrap());
    assert_eq!(
        Source::open(&dressed, 1, &auto()).unwrap().0.problem(4).prompt.question().unwrap(),
        expected
    );
    let (held_out, _) = evaluation_set(&dressed, 6, &auto()).unwrap();
    assert_eq!((held_out.len(), held_out[4].prompt.question().unwrap()), (6, &expected[..]));
    let mut source = Source::open(&dressed, 1, &auto()).unwrap().0;
    let measure = |problem: &Problem| {
        // A chat without messages has nothing to dress.
        let Some(question) = problem.prompt.question() else { return Ok(0) };
        assert!(
            question.starts_with("Q: ") && question.ends_with("\nA:"),
            "{question:?} is not what is drawn"
        );
        Ok(question.len())
    };
    let longest = Longest { tokens: usize::MAX, allowed_by: "data.max_prompt_tokens" };
    source.retain(&mut Report::default(), &longest, measure).unwrap();
    assert_eq!(source.len(), Some(21));
    assert_eq!(source.problem(4).prompt.question().unwrap(), expected);

    let shuffled = DataSettings { shuffle: true, ..settings(&verl()) };
    let origins = |seed, from: u64| -> Vec<String> {
        let mut source = Source::open(&shuffled, seed, &auto()).unwrap().0;
        (from..40).map(|position| source.problem(position).origin).collect()
    };
    assert_eq!(origins(1, 0)[25..], origins(1, 25));
    assert_ne!(origins(1, 0), origins(2, 0));
    assert_ne!(origins(1, 0)[..20], origins(1, 0)[20..]);

    let twice = DataSettings { files: vec![verl(), verl()], ..settings(&verl()) };
    let (source, report) = Source::open(&twice, 1, &auto()).unwrap();
    assert_eq!((source.len(), report.rows, report.duplicates), (Some(21), 56, 25));
}

#[test]
fn rows_that_a_model_cannot_use_are_counted_and_named() {
    let longest = Longest { tokens: 3, allowed_by: "data.max_prompt_tokens" };
    let measure = |problem: &Problem| match problem
        .origin
        .rsplit(' ')
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap()
    {
        number if number % 4 == 0 => Err(format!("{number} is a multiple of four")),
        number => Ok(if number % 2 == 0 { 4 } else { 3 }),
    };
    let all = DataSettings { shuffle: true, ..settings(&verl()) };
    let (mut source, mut report) = Source::open(&all, 1, &auto()).unwrap();
    let numbers = |source: &mut Source, count: u64| -> Vec<usize> {
        let number = |i| source.problem(i).origin.rsplit(' ').next().unwrap().parse().unwrap();
        (0..count).map(number).collect()
    };
    let before = numbers(&mut source, 21);
    let count =
        |wanted: &dyn Fn(&usize) -> bool| before.iter().filter(|number| wanted(number)).count();
    let (usable, bad) = (report.usable, report.bad.count());
    source.retain(&mut report, &longest, measure).unwrap();
    let kept = count(&|number| number % 2 == 1);
    assert_eq!(source.len(), Some(kept));
    assert_eq!(report.too_long, count(&|number| number % 4 == 2));
    assert_eq!(report.bad.count() - bad, count(&|number| number % 4 == 0));
    assert_eq!(report.usable, usable - before.len() + kept);
    assert!(report.bad.first()[bad].problem.ends_with("is a multiple of four"));
    assert!(report.to_string().contains(&format!(", {} too long", report.too_long)), "{report}");
    // Every epoch has every remaining row once.
    let mut drawn = numbers(&mut source, kept as u64);
    drawn.sort_unstable();
    let mut expected: Vec<usize> = before.into_iter().filter(|number| number % 2 == 1).collect();
    expected.sort_unstable();
    assert_eq!(drawn, expected);

    // The limit counts the remaining rows.
    let few = DataSettings { limit: Some(3), shuffle: false, ..settings(&verl()) };
    let (mut first, mut found) = Source::open(&few, 1, &auto()).unwrap();
    assert_eq!((first.len(), found.drawn), (Some(3), 3));
    first.retain(&mut found, &longest, measure).unwrap();
    assert_eq!((first.len(), found.drawn), (Some(3), 3));
    let odd: Vec<usize> = {
        let plain = DataSettings { shuffle: false, ..settings(&verl()) };
        let rows = numbers(&mut Source::open(&plain, 1, &auto()).unwrap().0, 21);
        rows.into_iter().filter(|number| number % 2 == 1).take(3).collect()
    };
    assert_eq!(numbers(&mut first, 3), odd);
    let said = found.to_string();
    assert!(said.contains("; drawn are the first 3 of the usable, as data.limit says"), "{said}");

    let error =
        source.retain(&mut report, &Longest { tokens: 2, ..longest.clone() }, measure).unwrap_err();
    let says = "the 2 tokens that data.max_prompt_tokens allows";
    assert!(error.to_string().contains(says), "{error}");
    let mut source = Source::open(&all, 1, &auto()).unwrap().0;
    let error =
        source.retain(&mut report, &longest, |_| Err("of no use".into())).unwrap_err().to_string();
    assert!(error.contains("21 cannot be used, the first, verl.parquet row "), "{error}");
    assert!(error.ends_with(": of no use"), "{error}");
}

#[test]
fn the_task_gives_problems_and_examples() {
    let settings: DataSettings =
        serde_json::from_value(json!({"task": "countdown", "prompt_prefix": "Solve "})).unwrap();
    let (mut source, report) = Source::open(&settings, 3, &auto()).unwrap();
    assert_eq!((source.len(), report, source.files().len()), (None, Report::default(), 0));
    let problem = source.problem(1 << 40);
    assert!(problem.prompt.question().unwrap().starts_with("Solve "));
    assert_eq!(problem, Source::open(&settings, 3, &auto()).unwrap().0.problem(1 << 40));
    let example = Examples::open(&settings, Split::Train, 3).unwrap().0.example(7);
    let Content::Response { response, .. } = example.content else { panic!() };
    assert!(response.ends_with(['!', '?']), "{response}");
    assert_eq!(evaluation_set(&settings, 50, &auto()).unwrap().0.len(), 50);
}

#[test]
fn flat_parquet_is_read() {
    let directory = TempDir::new().unwrap();
    let path =
        flat_parquet(&directory, &[("1+1?", 2, 0.5), ("2+2?", 4, f64::NAN), ("1+1?", 2, 1.0)]);
    let (mut source, report) = Source::open(&settings(&path), 1, &auto()).unwrap();
    assert_eq!((report.rows, report.usable, report.duplicates), (3, 2, 1));
    let problem = source.problem(1);
    assert_eq!((problem.prompt, problem.ground_truth), (Prompt::Text("2+2?".into()), json!(4)));

    let columns = Columns { prompt: Some("raw".into()), answer: Some("level".into()), hint: None };
    let (mut source, report) =
        Source::open(&DataSettings { columns, ..settings(&path) }, 1, &auto()).unwrap();
    assert_eq!(source.problem(0).ground_truth, json!(0.5));
    assert_eq!(bad(&report), ["flat.parquet row 2: column level is null"]);
}

/// Only a teacher needs a hint: a row without one is read all the same. A parquet file gives up the
/// column that is named.
#[test]
fn hints_are_whole_texts_of_the_column_that_is_named() {
    let directory = TempDir::new().unwrap();
    let rows = [
        json!({"prompt": "p1", "answer": "Two and two. #### 4"}),
        json!({"prompt": "p2", "answer": "5", "extra_info": {"steps": ["2+3", 5]}}),
    ];
    let path = jsonl(&directory, &rows);
    let flat = flat_parquet(&directory, &[("1+1?", 2, 0.5)]);
    let hints = |path: &Path, column: &str| {
        let columns = Columns { hint: Some(column.into()), ..Columns::default() };
        let (mut source, report) =
            Source::open(&DataSettings { columns, ..settings(path) }, 1, &auto()).unwrap();
        let hints = (0..report.usable as u64).map(|position| source.problem(position).hint);
        hints.map(|hint| hint.unwrap_or_else(|| "none".into())).collect::<Vec<_>>()
    };
    assert_eq!(hints(&path, "answer"), ["Two and two. #### 4", "5"]);
    assert_eq!(hints(&path, "extra_info.steps"), ["none", "[\"2+3\",5]"]);
    assert_eq!(hints(&flat, "level"), ["0.5"]);
}

#[test]
fn jsonl_problems_are_read_and_linted() {
    let directory = TempDir::new().unwrap();
    let path = jsonl(
        &directory,
        &[
            json!({"problem": "p1", "answer": "1"}),
            json!({"question": "p2", "answer": "Two and two. #### 4"}),
            json!({"prompt": "p3", "solution": "So \\boxed{\\frac{1}{2}}."}),
            json!({"prompt": "p4", "solution": "It is obvious."}),
            json!({"prompt": "p5", "problem": "other", "answer": ["5", "five"]}),
            json!({"prompt": "p6"}),
            json!({"answer": "7"}),
            json!({"prompt": 8, "answer": "8"}),
            json!({"prompt": "p9", "answer": {"no": 9}}),
            json!({"prompt": [{"role": "user"}], "answer": "10"}),
            json!({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "p11"}], "answer": 11}),
            json!({"prompt": "p12", "answer": "12", "data_source": 5}),
            json!({"prompt": "3 4 5>12:", "answer": {"numbers": [3, 4, 5], "target": 12}}),
            json!({"prompt": "p14", "answer": "14 #### "}),
        ],
    );
    let (mut source, report) = Source::open(&settings(&path), 1, &auto()).unwrap();
    let found: Vec<_> = (0..6)
        .map(|position| source.problem(position))
        .map(|problem| (problem.prompt.question().unwrap().to_owned(), problem.ground_truth))
        .collect();
    assert_eq!(source.len(), Some(6));
    assert_eq!(
        found,
        [
            ("p1".into(), json!("1")),
            ("p2".into(), json!("4")),
            ("p3".into(), json!("\\frac{1}{2}")),
            ("p5".into(), json!(["5", "five"])),
            ("p11".into(), json!(11)),
            ("3 4 5>12:".into(), json!({"numbers": [3, 4, 5], "target": 12})),
        ]
    );
    let lines: Vec<_> = report.bad.first().iter().map(|finding| finding.origin.as_str()).collect();
    let expected: Vec<_> =
        [4, 6, 7, 8, 9, 10, 12, 14].map(|line| format!("rows.jsonl line {line}")).into();
    assert_eq!(lines, expected);

    let columns = Columns { prompt: Some("problem".into()), ..Columns::default() };
    let (source, _) =
        Source::open(&DataSettings { columns, ..settings(&path) }, 1, &auto()).unwrap();
    assert_eq!(source.len(), Some(2));
}

#[test]
fn examples_of_every_schema_are_read() {
    let directory = TempDir::new().unwrap();
    let chat = json!([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]);
    let path = jsonl(
        &directory,
        &[
            json!({"prompt": "p", "response": "r"}),
            json!({"question": "p", "answer": "all of it #### 4"}),
            json!({"messages": chat}),
            json!({"prompt": [chat[0]], "completion": [chat[1]]}),
            json!({"extra_info": {"question": "p", "answer": "verl"}}),
            json!({"prompt": "p", "response": "r"}),
            json!({"prompt": "p", "response": " "}),
            json!({"messages": [chat[0]]}),
            json!({"messages": "text"}),
            json!({"prompt": "p", "completion": [chat[0]]}),
            json!({"prompt": "p", "response": 3}),
        ],
    );
    let (mut examples, report) = Examples::open(&settings(&path), Split::Train, 1).unwrap();
    assert_eq!((report.rows, report.usable, report.duplicates, report.bad.count()), (11, 5, 1, 5));
    let contents: Vec<_> = (0..5).map(|position| examples.example(position).content).collect();
    let text = |response: &str| Content::Response {
        prompt: Prompt::Text("p".into()),
        response: response.into(),
    };
    assert_eq!(contents[0], text("r"));
    assert_eq!(contents[1], text("all of it #### 4"));
    assert_eq!(
        contents[2],
        Content::Messages { messages: chat.as_array().unwrap().clone(), tools: Vec::new() }
    );
    let prompt = Prompt::Chat(vec![chat[0].clone()]);
    assert_eq!(contents[3], Content::Response { prompt, response: "a".into() });
    assert_eq!(contents[4], text("verl"));
}

#[test]
fn a_turn_may_call_tools_without_text_and_loses_the_keys_that_are_null() {
    let directory = TempDir::new().unwrap();
    let user = json!({"role": "user", "content": "u", "tool_calls": null});
    let call = |content: Value, calls: Value| {
        let role = "assistant";
        json!({"role": role, "content": content, "tool_calls": calls})
    };
    let calls = json!([{"function": {"name": "f", "arguments": {"x": "1", "y": null}}}]);
    let tools = json!([{"name": "f", "parameters": {"content": null, "any": [null, 1]}}]);
    let path = jsonl(
        &directory,
        &[
            json!({"messages": [user, call(Value::Null, calls.clone())], "tools": tools}),
            json!({"messages": [user, call(json!(""), calls.clone())]}),
            json!({"messages": [user, {"role": "assistant", "tool_calls": calls}]}),
            json!({"messages": [user, call(json!(""), json!([]))]}),
            json!({"messages": [user, call(Value::Null, Value::Null)]}),
        ],
    );
    let (mut examples, report) = Examples::open(&settings(&path), Split::Train, 1).unwrap();
    assert_eq!((report.usable, report.bad.count()), (3, 2));
    let user = json!({"role": "user", "content": "u"});
    let calls = json!([{"function": {"name": "f", "arguments": {"x": "1"}}}]);
    let tools = vec![json!({"name": "f", "parameters": {"any": [null, 1]}})];
    for (position, turn, tools) in [
        (0, call(Value::Null, calls.clone()), tools),
        (1, call(json!(""), calls.clone()), Vec::new()),
        (2, json!({"role": "assistant", "tool_calls": calls}), Vec::new()),
    ] {
        let messages = vec![user.clone(), turn];
        assert_eq!(examples.example(position).content, Content::Messages { messages, tools });
    }
}

#[test]
fn a_chosen_column_excludes_messages_only_where_it_is() {
    let directory = TempDir::new().unwrap();
    let chat = json!([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]);
    let path = jsonl(
        &directory,
        &[json!({"messages": chat}), json!({"messages": chat, "question": "p", "result": "r"})],
    );
    let columns = Columns { answer: Some("result".into()), ..Columns::default() };
    let chosen = DataSettings { columns, ..settings(&path) };
    let (mut examples, report) = Examples::open(&chosen, Split::Train, 1).unwrap();
    assert_eq!(report.usable, 2);
    let messages = chat.as_array().unwrap().clone();
    assert_eq!(examples.example(0).content, Content::Messages { messages, tools: Vec::new() });
    let prompt = Prompt::Text("p".into());
    assert_eq!(examples.example(1).content, Content::Response { prompt, response: "r".into() });
}

#[test]
fn what_is_put_around_prompts_is_put_into_chats_too() {
    let directory = TempDir::new().unwrap();
    let turn = |role: &str, content: &str| json!({"role": role, "content": content});
    let chat = |last: &str| {
        json!([
            turn("user", "a"),
            turn("assistant", "b"),
            turn("user", last),
            turn("assistant", "c"),
            turn("user", "d")
        ])
    };
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let path = jsonl(
        &directory,
        &[
            json!({"messages": chat("u"), "tools": tools}),
            json!({"messages": chat("u"), "tools": tools.to_string()}),
            json!({"messages": chat("u"), "tools": null}),
            json!({"messages": chat("u"), "tools": "f"}),
        ],
    );
    let dressed = DataSettings {
        prompt_prefix: "Q: ".into(),
        prompt_suffix: "\nA:".into(),
        ..settings(&path)
    };
    let (mut examples, report) = Examples::open(&dressed, Split::Train, 1).unwrap();
    assert_eq!(
        bad(&report),
        ["rows.jsonl line 4: column tools is neither a list of objects nor the JSON of one"]
    );
    assert_eq!((report.usable, report.duplicates), (2, 1));
    for (position, tools) in [(0, tools.as_array().unwrap().clone()), (1, Vec::new())] {
        let messages = chat("Q: u\nA:").as_array().unwrap().clone();
        assert_eq!(examples.example(position).content, Content::Messages { messages, tools });
    }
}

/// Rows that a verifier can judge without a column are usable whatever the column holds.
#[test]
fn a_column_that_cannot_be_read_and_is_not_needed_is_null() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("images.parquet");
    let schema = "message rows { required binary question (UTF8); required binary answer (UTF8); required binary test; }";
    let values = [&b"2+2?"[..], b"4", b"\xff\xd8"].map(|value| ByteArray::from(value.to_vec()));
    parquet(&path, schema, WriterProperties::builder(), |number, column| {
        texts(column, &values[number..=number]);
    });

    let open = |verifier: Value, columns: Columns| {
        let verifier = serde_json::from_value(verifier).unwrap();
        Source::open(&DataSettings { columns, ..settings(&path) }, 1, &verifier)
    };
    let (_, report) = open(json!("math"), Columns::default()).unwrap();
    assert_eq!((report.usable, report.unread.count()), (1, 0), "mathematics has no tests");
    let (_, report) = open(json!("auto"), Columns::default()).unwrap();
    assert_eq!((report.usable, report.unread.count()), (1, 1));
    let said = report.to_string();
    assert!(
        said.contains(
            "1 with a column that cannot be read\n  images.parquet row 1: column test holds bytes"
        ),
        "{said}"
    );
    let (mut source, _) = open(json!({"python": "reward.py:f"}), Columns::default()).unwrap();
    assert_eq!(source.problem(0).columns["test"], Value::Null);
    // A column that the settings name is needed; and a row may lack it.
    let named = Columns { answer: Some("test".into()), ..Columns::default() };
    let error = open(json!("auto"), named).unwrap_err().to_string();
    assert!(error.contains("column test holds bytes that are not UTF-8"), "{error}");
    let error = open(json!("code"), Columns::default()).unwrap_err().to_string();
    assert!(error.contains("column test holds bytes that are not UTF-8"), "{error}");
}

#[test]
fn files_without_a_usable_row_are_errors_that_say_what_is_expected() {
    let directory = TempDir::new().unwrap();
    let message = |path: &Path| Source::open(&settings(path), 1, &auto()).unwrap_err().to_string();
    let error = message(&jsonl(&directory, &[json!({"text": "a", "label": 1})]));
    for part in [
        "rows.jsonl",
        "label, text",
        "prompt, problem or question",
        "data.columns.answer",
        "line 1",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    for (name, bytes, says) in [
        ("empty.jsonl", &b""[..], "empty.jsonl: is empty, without a row; expected are"),
        ("bytes.jsonl", &[0xff; 100], "not UTF-8"),
        ("text.parquet", b"no parquet", "not a readable parquet file"),
        ("empty.parquet", b"", "not a readable parquet file"),
        ("a.txt", b"{}", "must end in .parquet, .jsonl, .json"),
    ] {
        let error = message(&write(&directory, name, bytes));
        assert!(error.contains(says), "{name}: {error}");
    }
    assert!(message(&directory.path().join("missing.jsonl")).contains("missing.jsonl"));
    let flat = flat_parquet(&directory, &[("q", 1, 1.0)]);
    let error = Examples::open(&settings(&flat), Split::Train, 1).unwrap_err().to_string();
    assert!(
        error.contains("question, answer, level, raw")
            && error.contains("column answer is not text"),
        "{error}"
    );
    let no_columns =
        Columns { prompt: Some("nowhere".into()), answer: Some("nothing".into()), hint: None };
    let error = Source::open(&DataSettings { columns: no_columns, ..settings(&flat) }, 1, &auto())
        .unwrap_err()
        .to_string();
    assert!(error.contains("question, answer, level, raw"), "{error}");
}

#[test]
fn damaged_parquet_is_an_error_or_rows_but_never_a_panic() {
    let directory = TempDir::new().unwrap();
    let good = fs::read(verl()).unwrap();
    for length in (0..good.len()).step_by(good.len() / 60) {
        let path = write(&directory, "cut.parquet", &good[..length]);
        assert!(
            matches!(Source::open(&settings(&path), 1, &auto()), Err(Error::File { .. })),
            "{length}"
        );
    }
    let mut draws = Draws::of(1, Purpose::Bootstrap, 0, 0);
    let mut errors = 0;
    for flip in 0..FLIPS {
        let mut bytes = good.clone();
        let place = draws.below(2 * flip, bytes.len() as u64) as usize;
        bytes[place] ^= 1 << draws.below(2 * flip + 1, 8);
        let path = write(&directory, "flipped.parquet", bytes);
        errors += u64::from(Source::open(&settings(&path), 1, &auto()).is_err());
    }
    assert!((1..FLIPS).contains(&errors), "{errors}");
}

/// Number of damaged files.
const FLIPS: u64 = 300;

/// The verifier decides which rows are usable.
#[test]
fn a_command_takes_any_ground_truth_and_none() {
    let directory = TempDir::new().unwrap();
    let path = jsonl(
        &directory,
        &[
            json!({"problem": "a", "answer": "1"}),
            json!({"problem": "b"}),
            json!({"problem": "c", "answer": {"any": ["thing"]}}),
            json!({"problem": "d", "solution": "worked, without a box"}),
            json!({"problem": "e", "solution": "so \\boxed{5}"}),
            json!({"problem": "f", "data_source": "sums"}),
        ],
    );
    let verifier = |value: Value| serde_json::from_value::<VerifierSettings>(value).unwrap();
    let command = json!({"command": ["judge"]});
    let ground_truths = |verifier: &VerifierSettings| -> Vec<Value> {
        let (source, report) = Source::open(&settings(&path), 1, verifier).unwrap();
        let mut source = source;
        (0..report.usable as u64).map(|i| source.problem(i).ground_truth).collect()
    };
    let null = Value::Null;
    assert_eq!(ground_truths(&auto()), [json!("1"), json!("5")]);
    let all = [
        json!("1"),
        null.clone(),
        json!({"any": ["thing"]}),
        json!("worked, without a box"),
        json!("so \\boxed{5}"), // as a whole: it has rules of its own
        null.clone(),
    ];
    assert_eq!(ground_truths(&verifier(command.clone())), all);
    let sum = json!({"weighted": [{"verifier": command, "weight": 1.0}, {"verifier": "math", "weight": 0.0}]});
    assert_eq!(
        ground_truths(&verifier(sum)),
        [json!("1"), json!("5")],
        "every part must be able to use it"
    );
    let sources = json!({"by_data_source": {"sums": command}, "otherwise": "math"});
    assert_eq!(ground_truths(&verifier(sources)), [json!("1"), json!("5"), null]);

    // A column that was asked for must be there.
    let columns = Columns { answer: Some("answer".into()), ..Columns::default() };
    let (_, report) = Source::open(
        &DataSettings { columns, ..settings(&path) },
        1,
        &verifier(json!({"command": ["judge"]})),
    )
    .unwrap();
    assert_eq!(report.usable, 2);
    assert_eq!(bad(&report)[0], "rows.jsonl line 2: column answer is missing");
}

/// Columns that a reward function gets besides the usual arguments.
#[test]
fn a_function_takes_the_columns_that_a_problem_has_not_told_otherwise() {
    let directory = TempDir::new().unwrap();
    let shortened = json!({"style": "rule", "ground_truth": "2 #### 3"});
    let path = jsonl(
        &directory,
        &[
            json!({"prompt": "a", "answer": "1", "nums": [1, 2], "data_source": "s", "extra_info": {"i": 0}}),
            json!({"prompt": "b", "reward_model": shortened}),
            json!({"prompt": "c", "reward_model": {"ground_truth": "4"}, "ability": "sums"}),
        ],
    );
    let columns = |settings: &DataSettings, verifier: Value| -> Vec<Value> {
        let verifier = serde_json::from_value(verifier).unwrap();
        let (source, _) = Source::open(settings, 1, &verifier).unwrap();
        let mut source = source;
        (0..source.len().unwrap() as u64).map(|i| source.problem(i).columns.into()).collect()
    };
    let function = json!({"python": "reward.py:f"});
    let all = [
        json!({"answer": "1", "nums": [1, 2]}),
        json!({"reward_model": shortened}),
        json!({"ability": "sums"}),
    ];
    // The function has the whole ground truth, so the column says no more.
    let whole = [all[0].clone(), json!({}), all[2].clone()];
    assert_eq!(columns(&settings(&path), function.clone()), whole);
    let sum = json!({"weighted": [{"verifier": function, "weight": 1.0}]});
    let sources = json!({"by_data_source": {"other": sum}, "otherwise": "auto"});
    assert_eq!(columns(&settings(&path), sources), all);
    assert_eq!(
        columns(&settings(&path), json!({"command": ["judge"]})),
        [json!({}), json!({}), json!({})]
    );

    let flat = flat_parquet(&directory, &[("a?", 7, 0.5)]);
    let of_parquet = columns(&settings(&flat), function);
    assert_eq!(of_parquet[0]["level"], 0.5);
    assert!(of_parquet[0].get("question").is_none());
}

/// Origins have file names if these differ, else paths.
#[test]
fn files_of_one_name_are_told_apart_by_their_paths() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str, row: Value| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{row}\nnot a row\n")).unwrap();
        path
    };
    let one = file("a/p.jsonl", json!({"prompt": "one", "answer": "1"}));
    let two = file("b/p.jsonl", json!({"prompt": "two", "answer": "2"}));
    let three = file("b/q.jsonl", json!({"prompt": "three", "answer": "3"}));
    let files = vec![one.clone(), two.clone(), three.clone()];
    let settings = DataSettings { files, ..settings(&one) };
    let (mut source, report) = Source::open(&settings, 0, &auto()).unwrap();
    let names = [one.display().to_string(), two.display().to_string(), "q.jsonl".to_owned()];
    for (position, name) in names.iter().enumerate() {
        assert_eq!(source.problem(position as u64).origin, format!("{name} line 1"));
        assert_eq!(report.bad.first()[position].origin, format!("{name} line 2"));
    }
}

/// The system's message ends the sentence, so that a caller that prints the cause need not repeat
/// it.
#[test]
fn an_absent_file_is_named_with_the_key_and_the_cause() {
    let error = Source::open(&settings(Path::new("no/such.jsonl")), 0, &auto()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    let told = error.to_string();
    assert!(told.contains("no/such.jsonl") && told.contains("data.files"), "{told}");
    assert!(told.ends_with(&cause) && told.matches(&cause).count() == 1, "{told}");
}
