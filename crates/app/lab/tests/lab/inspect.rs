//! Tables of the token records of a step, and their page.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use isentrope_lab::inspect::{Inspection, StepChoice, tables};
use isentrope_lab::tokens::read_from;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use tempfile::TempDir;

/// A record of tokens with these texts; log-probs fall from -1 by 1 each, covariances follow from
/// the means 0 and -2.
pub fn record(step: u64, pieces: &[&str], advantage: f64) -> Value {
    let n = pieces.len();
    let logprobs: Vec<f64> = (0..n).map(|i| -1.0 - i as f64).collect();
    let covariances: Vec<f64> =
        logprobs.iter().map(|logprob| (logprob + 2.0) * advantage).collect();
    json!({
        "step": step, "sampled_step": step, "position": 7, "origin": "problems.jsonl:8",
        "sample": 1, "verdict": "wrong",
        "reward": 0.0, "truncated": false, "temperature": 1.0, "prompt_text": "?",
        "prompt_tokens": 1,
        "tokens": (0..=n).collect::<Vec<_>>(), "pieces": pieces, "logprobs": logprobs,
        "entropies": vec![0.5; n],
        "logprobs_after": logprobs.iter().map(|x| x - 0.25).collect::<Vec<_>>(),
        "update": 1, "advantages": advantage, "mean_advantage": 0.0, "mean_logprob": -2.0,
        "covariances": covariances,
        "selected": [n - 1], "clipped": [0],
    })
}

/// A run directory with these lines of records for a step, and a log.
pub fn run(step: u64, lines: &[Value]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tokens")).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(dir.path().join(format!("tokens/step-{step:06}.jsonl")), text).unwrap();
    let metrics = json!({
        "step": step, "update/count": 1, "cov/top_2_percent": 1.25, "cov/mean": null,
        "rollout/responses": 64,
        "rollout/tokens": 4096,
    });
    fs::write(dir.path().join("metrics.jsonl"), format!("{metrics}\n")).unwrap();
    dir
}

pub fn open(dir: &TempDir) -> Inspection {
    Inspection::open(dir.path(), StepChoice::Last).unwrap()
}

fn refused(dir: &TempDir) -> String {
    Inspection::open(dir.path(), StepChoice::Last).unwrap_err().to_string()
}

/// The data for the page's script.
fn data(page: &str) -> String {
    let (_, packed) = page.split_once("id=\"packed-data\">").unwrap();
    let bytes = BASE64_STANDARD.decode(packed.split_once('<').unwrap().0).unwrap();
    let mut data = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut data).unwrap();
    data
}

/// The cells of a row of one of the tables.
fn row(inspection: &Inspection, table: usize, name: &str) -> Vec<String> {
    let table = tables(inspection).swap_remove(table);
    let names: Vec<String> = table.rows.iter().map(|(name, _)| name.clone()).collect();
    let found = table.rows.into_iter().find(|(row, _)| row == name);
    found.unwrap_or_else(|| panic!("no {name:?} in {names:?}")).1
}

#[test]
fn planted_tokens_come_to_what_was_planted() {
    // Covariances -1, 0, 1, 2 of the worse response, and 1, 0 of the better one.
    let dir = run(3, &[record(3, &["1", "+", " wait", "x"], -1.0), record(3, &["So", ""], 1.0)]);
    let inspection = open(&dir);
    assert_eq!((inspection.step, inspection.tokens().len()), (3, 6));
    assert_eq!(
        inspection.summary(),
        "2 of 64 responses recorded, all trained on; 6 of 4096 tokens"
    );
    assert_eq!(
        row(&inspection, 0, "recorded tokens"),
        ["2.000", "2.000", "2.000", "2.000", "1.333", "0.500"]
    );
    assert_eq!(row(&inspection, 0, "how many"), ["1", "1", "1", "1", "3", "6"]);
    assert_eq!(row(&inspection, 0, "the whole step"), ["-", "-", "1.250", "-", "-", "-"]);
    assert_eq!(
        row(&inspection, 1, "unlikely, worse response"),
        ["100.0", "100.0", "100.0", "33.3"]
    );
    assert_eq!(row(&inspection, 1, "likely, better response")[3], "33.3");
    assert_eq!(row(&inspection, 1, "forking words")[3], "33.3");
    assert_eq!(row(&inspection, 1, "digits and operators")[3], "33.3");
    assert_eq!(
        row(&inspection, 1, "picked by the covariance method"),
        ["100.0", "100.0", "100.0", "33.3"]
    );
    assert_eq!(row(&inspection, 2, "top 2 %")[7], "100.0");
    assert_eq!(row(&inspection, 3, "\"x\""), ["1", "1", "2.000", "0.500", "-0.250"]);
    assert!(
        [60, 80].iter().all(|&width| {
            inspection.text(width).lines().all(|line| line.chars().count() <= width)
        }),
        "{}",
        inspection.text(80)
    );
}

#[test]
fn a_token_that_had_moved_before_its_update_lies_where_its_covariance_says() {
    let mut moved = record(1, &["a"], -1.0);
    // Sampled above the mean, and below it by the time of the update.
    moved["covariances"] = json!([0.5]);
    assert_eq!(row(&open(&run(1, &[moved])), 1, "unlikely, worse response")[3], "100.0");
}

#[test]
fn steps_without_numbers_are_shown_too() {
    let dir = run(1, &[]);
    assert!(
        open(&dir).text(80).contains("0 of 64 responses recorded; 0 of 4096 tokens"),
        "{}",
        open(&dir).text(80)
    );
    assert!(data(&open(&dir).html().unwrap()).contains("\"responses\":[]"));

    let mut untrained = record(1, &["a", "b"], 1.0);
    for key in [
        "update",
        "advantages",
        "mean_advantage",
        "mean_logprob",
        "covariances",
        "selected",
        "clipped",
    ] {
        untrained.as_object_mut().unwrap().remove(key);
    }
    let dir = run(1, &[untrained]);
    assert!(open(&dir).summary().contains("1 of 64 responses recorded, 0 trained on"));
    assert_eq!(row(&open(&dir), 0, "recorded tokens"), ["-"; 6]);
    assert!(open(&dir).html().is_ok());

    let mut diverged = record(1, &["a", "b"], 1.0);
    for key in ["logprobs_after", "covariances", "entropies"] {
        diverged[key] = json!([null, null]);
    }
    let dir = run(1, &[diverged]);
    assert_eq!(row(&open(&dir), 0, "recorded tokens"), ["-"; 6]);
    assert!(data(&open(&dir).html().unwrap()).contains("\"covariances\":[null,null]"));

    // Killed before the first step was recorded, or before this one.
    let dir = run(1, &[record(1, &["a"], 1.0)]);
    fs::remove_file(dir.path().join("metrics.jsonl")).unwrap();
    assert!(open(&dir).summary().starts_with("1 responses recorded"));
    fs::write(dir.path().join("metrics.jsonl"), "{\"step\":0}\n").unwrap();
    assert!(open(&dir).notes[0].contains("nothing of step 1"));
}

#[test]
fn a_run_without_records_says_how_to_get_them() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refused(&dir).contains("is not the directory of a run"));
    fs::write(dir.path().join("metrics.jsonl"), "").unwrap();
    assert!(refused(&dir).contains("has no lab.record_tokens"));
    for (recipe, what) in [
        (json!({"lab": {"record_tokens": 0}}), "has no lab.record_tokens, or 0"),
        (json!({"lab": {"record_tokens": 2048}}), "none of its steps has come to its end"),
        (json!({"sft": {"batch": 3}}), "it is one of SFT"),
    ] {
        fs::write(dir.path().join(".recipe.json"), recipe.to_string()).unwrap();
        assert!(refused(&dir).contains(what), "{}", refused(&dir));
    }
    let nowhere =
        Inspection::open(&PathBuf::from("no/such/run"), StepChoice::Last).unwrap_err().to_string();
    assert!(nowhere.starts_with("no/such/run: there is no such directory"), "{nowhere}");
    let dir = run(4, &[]);
    let other = Inspection::open(dir.path(), StepChoice::Step(5)).unwrap_err().to_string();
    assert!(
        other.contains("no token records of step 5; it has those of steps 4 to 4, 1 in all"),
        "{other}"
    );
}

/// A record whose given tokens, with numbers that none may use, stand where `given` says; and the
/// same record without these tokens.
pub fn with_and_without_given(pieces: &[&str], given: usize) -> [Value; 2] {
    let plain = record(3, pieces, -1.0);
    let mut turns = plain.clone();
    for key in ["pieces", "logprobs", "entropies", "logprobs_after", "covariances"] {
        let array = turns[key].as_array_mut().unwrap();
        let wrong = if key == "pieces" { json!("given") } else { json!(99.0) };
        (0..2).for_each(|_| array.insert(given, wrong.clone()));
    }
    turns["tokens"] = (0..=pieces.len() as u32 + 2).collect();
    turns["given"] = json!([[given, given + 2]]);
    turns["selected"] = json!([pieces.len() + 1]);
    [turns, plain]
}

#[test]
fn given_tokens_are_shown_and_in_no_table() {
    let [turns, plain] = with_and_without_given(&["1", "+", "wait"], 1);
    let [turns, plain] = [turns, plain].map(|record| open(&run(3, &[record])));
    assert_eq!((turns.tokens().len(), turns.summary()), (3, plain.summary()));
    for (a, b) in tables(&turns).iter().zip(&tables(&plain)) {
        if !a.title.starts_with("Where in the response") {
            assert_eq!(a.text(80), b.text(80));
        }
    }
    let data: Value = serde_json::from_str(&data(&turns.html().unwrap())).unwrap();
    let response = &data["responses"][0];
    assert_eq!(response["given"], json!([[1, 3]]));
    assert_eq!(response["pieces"], json!(["1", "given", "given", "+", "wait"]));
    assert_eq!(response["entropies"], json!([0.5, null, null, 0.5, 0.5]));
    assert_eq!(response["covariances"], json!([-1.0, null, null, 0.0, 1.0]));
    assert_eq!(data["scales"]["entropy"], json!(0.5));
}

#[test]
fn malformed_records_are_named_by_file_and_line() {
    let sound = record(2, &["a", "b"], 1.0);
    let with = |key: &str, value: Value| {
        let mut line = sound.clone();
        line[key] = value;
        line
    };
    for (line, what) in [
        (json!("x"), "line 2: invalid type"),
        (json!({"step": 2}), "line 2: missing field"),
        (
            with("logprobs", json!([1.0])),
            "line 2: \"logprobs\" has 1 entries, and the response has 2 tokens",
        ),
        (with("pieces", json!([])), "line 2: \"pieces\" has 0 entries"),
        (with("covariances", json!([1, 2, 3])), "line 2: \"covariances\" has 3 entries"),
        (with("advantages", json!([1])), "line 2: \"advantages\" has 1 entries"),
        (with("advantages", json!(null)), "line 2: has \"covariances\" and no \"advantages\""),
        (with("prompt_tokens", json!(0)), "line 2: \"prompt_tokens\" is 0"),
        (with("prompt_tokens", json!(4)), "line 2: \"prompt_tokens\" is 4"),
        (with("selected", json!([2])), "line 2: \"selected\" must be ascending places"),
        (with("clipped", json!([1, 0])), "line 2: \"clipped\" must be ascending places"),
        (with("tokens", json!([1, 2, -3])), "line 2: invalid value"),
        (with("given", json!([[1, 0]])), "line 2: \"given\" must be ranges of tokens"),
        (with("given", json!([[1, 2]])), "line 2: \"given\" must be ranges of tokens"),
        (with("step", json!(3)), "response 2: \"step\" is 3, and the file is that of step 2"),
    ] {
        let said = refused(&run(2, &[sound.clone(), line]));
        assert!(said.contains("step-000002.jsonl: ") && said.contains(what), "{what}: {said}");
    }
    let dir = run(2, std::slice::from_ref(&sound));
    let path = dir.path().join("tokens/step-000002.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    assert!(refused(&dir).contains("step-000002.jsonl: line 2: EOF"), "{}", refused(&dir));
}

#[test]
fn hostile_text_stays_text() {
    let mut hostile =
        record(1, &["</script><img src=x>", "a\u{202e}b", "\u{1b}[2J", "<b>&\n"], 1.0);
    for key in ["origin", "verdict", "prompt_text"] {
        hostile[key] = json!("</script><script>alert(1)</script>\u{2066}");
    }
    let inspection = open(&run(1, &[hostile]));
    let (page, text) = (inspection.html().unwrap(), inspection.text(80));
    assert_eq!(page.matches("</script>").count(), 2, "the page's own, and its data");
    assert!(!page.contains("<img") && !page.contains("<b>&"), "{page}");
    let data = data(&page);
    for shown in [&page, &data, &text] {
        let hidden = |c: char| matches!(c, '\u{202e}' | '\u{2066}' | '\u{1b}');
        assert!(!shown.contains(hidden), "{shown}");
    }
    assert!(data.contains("a\\\\u{202e}b"), "{data}");
}

#[test]
#[ignore = "deep: 360000 tokens"]
fn a_page_has_no_more_tokens_than_a_browser_takes() {
    let long = record(1, &vec!["a"; 60_000], 1.0);
    let inspection = open(&run(1, &vec![long; 6]));
    let page = inspection.html().unwrap();
    assert!(page.contains("The page has the first 4 of the 6 recorded responses"));
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert_eq!(row(&inspection, 0, "how many")[5], "360000");
}

#[test]
#[ignore = "deep: 300 MB of text"]
fn a_file_of_long_texts_is_read_in_part() {
    let mut long = record(1, &["a"], 1.0);
    long["padding"] = json!("x".repeat(60 << 20));
    let line = format!("{long}\n");
    let path = PathBuf::from("step-1.jsonl");
    let lines = line.as_bytes();
    let of = |text: &mut dyn Read| read_from(BufReader::new(text), &path).unwrap();
    let four = of(&mut lines.chain(lines).chain(lines).chain(lines));
    assert_eq!((four.records.len(), four.cut_at), (4, None));
    let five = of(&mut lines.chain(lines).chain(lines).chain(lines).chain(lines));
    assert_eq!((five.records.len(), five.cut_at.as_deref()), (4, Some("256 MiB")));
}

#[test]
#[ignore = "deep: 200 MB of text"]
fn a_page_has_no_more_text_than_a_browser_takes() {
    let (mut prompt, mut piece) = (record(1, &["a"], 1.0), record(1, &["a"], 1.0));
    prompt["prompt_text"] = json!("é".repeat(5_000_000));
    piece["pieces"] = json!(["é".repeat(5_000_000)]);
    let data = data(&open(&run(1, &[prompt.clone(), piece])).html().unwrap());
    assert!(data.len() < 2_000_000 && data.contains("é… (8951424 bytes more)"), "{}", data.len());
    let page = open(&run(1, &vec![prompt; 20])).html().unwrap();
    assert!(page.contains("The page has the first 15 of the 20 recorded responses"));
}

#[test]
fn numbers_have_their_columns_whatever_they_are() {
    let mut huge = record(1, &["a", "b"], 1.0);
    huge["covariances"] = json!([3e38, -3e38]);
    huge["entropies"] = json!([3e38, 0.5]);
    let inspection = open(&run(1, &[huge]));
    let text = inspection.text(80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(row(&inspection, 3, "\"a\"")[2..4], ["3.00e38", "3.00e38"]);
    assert_eq!(row(&inspection, 0, "recorded tokens")[5], "0.000");
    let page = inspection.html().unwrap();
    assert!(page.contains("<td>3.00e38</td>") && page.contains("<td>–</td>"), "{page}");
    assert!(page.contains("<td>−0.250</td>"), "signs are as wide as a plus");
}
