//! The list of fuzz targets.

use std::fs;
use std::io::Write;
use std::path::Path;

use isentrope_data::{DataSettings, Problem, Records};
use isentrope_files::masked_crc;
use isentrope_grader::{GroundTruth, Options};
use isentrope_lab::alarms;
use isentrope_lab::inspect::{Inspection, StepChoice};
use isentrope_lab::run::Run;
use isentrope_lab::show::{self, Look, PageOptions};
use isentrope_model::chat_template::ChatTemplate;
use isentrope_model::generation_config::GenerationConfig;
use isentrope_model::tokenizer::{SpecialTokens, Tokenizer};
use isentrope_model::{AdapterConfig, Checkpoint, Layout, ModelConfig};
use isentrope_reward::VerifierSettings;
use isentrope_rollout::{PlayedTurn, Sampling};
use isentrope_train::run::{Heading, Journal, ResponseKey};
use isentrope_train::{rl, sft};
use serde_json::{Map, Value, json};

use crate::Target;

pub(crate) const ALL: &[Target] = &[
    framed("safetensors", safetensors, repair_header_length, 2000),
    plain("config", config, 3000),
    plain("tokenizer", tokenizer, 1500),
    plain("template", template, 400),
    plain("jsonl", |data| rows(data, "rows.jsonl"), 1000),
    plain("json", |data| rows(data, "rows.json"), 1000),
    plain("separated", separated, 1000),
    framed("parquet", |data| rows(data, "rows.parquet"), repair_parquet_end, 600),
    plain("recipe", recipe, 600),
    plain("script", script, 600),
    plain("grader", grader, 600),
    framed("event_file", |data| log(data, "events.out.tfevents.1"), repair_checksums, 3000),
    plain("log_lines", |data| log(data, "log.jsonl"), 3000),
    plain("log_state", |data| log(data, "trainer_state.json"), 3000),
    plain("log_table", |data| log(data, "log.csv"), 3000),
    plain("tokens", tokens, 1000),
    framed("journal", journal, repair_lines, 1000),
];

const fn plain(name: &'static str, run: fn(&[u8]), executions: u32) -> Target {
    Target { name, run, repair: None, executions }
}

const fn framed(
    name: &'static str,
    run: fn(&[u8]),
    repair: fn(&mut [u8]),
    executions: u32,
) -> Target {
    Target { name, run, repair: Some(repair), executions }
}

/// Calls `read` with a directory that holds `data` under a name.
fn with_file(name: &str, data: &[u8], read: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join(name), data).expect("a temporary file");
    read(dir.path());
}

/// Checks that an error says something, but does not quote the whole input.
fn check_message(error: &impl ToString) {
    let length = error.to_string().len();
    assert!(length > 0, "an error without words");
    assert!(length < 100_000, "an error of {length} bytes");
}

fn safetensors(data: &[u8]) {
    with_file("model.safetensors", data, tensors);
}

/// Reads every tensor of a checkpoint.
fn tensors(dir: &Path) {
    match Checkpoint::open(dir) {
        Ok(checkpoint) => {
            for name in checkpoint.names() {
                let shape = checkpoint.shape(name).unwrap_or_default();
                if let Err(error) = checkpoint.read_f32(name, shape) {
                    check_message(&error);
                }
            }
        }
        Err(error) => check_message(&error),
    }
}

/// The JSON files of a model, each read from the same bytes.
fn config(data: &[u8]) {
    with_file("config.json", data, |dir| {
        ModelConfig::read(dir).map_or_else(|error| check_message(&error), drop);
        GenerationConfig::read(dir).map_or_else(|error| check_message(&error), drop);
    });
    with_file("generation_config.json", data, |dir| {
        GenerationConfig::read(dir).map_or_else(|error| check_message(&error), drop);
    });
    with_file("model.safetensors.index.json", data, |dir| {
        // A shard with one tensor, `a`, for an index that names it.
        let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let shard = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
        fs::write(dir.join("1.safetensors"), shard).expect("a temporary file");
        tensors(dir);
    });
    with_file("adapter_config.json", data, |dir| {
        // A model, for its targets and patterns.
        let model =
            br#"{"model_type":"llama","vocab_size":8,"hidden_size":8,"num_attention_heads":2,
            "intermediate_size":8,"num_hidden_layers":2}"#;
        fs::write(dir.join("config.json"), model).expect("a temporary file");
        let layout = Layout::new(&ModelConfig::read(dir).expect("a configuration"));
        AdapterConfig::read(dir)
            .and_then(|config| config.layout(&layout))
            .map_or_else(|error| check_message(&error), drop);
    });
    with_file("tokenizer_config.json", data, |dir| {
        SpecialTokens::read(dir).map_or_else(|error| check_message(&error), drop);
    });
}

/// Input: a tokenizer.json, and after a zero byte an optional text.
fn tokenizer(data: &[u8]) {
    let (file, text) = parts(data);
    let text = String::from_utf8_lossy(text);
    with_file("tokenizer.json", file, |dir| match Tokenizer::read(dir) {
        Ok(Some(tokenizer)) => {
            for text in ["", "Why is the sky blue?", " a  b\n<s>é\u{FDFA}", &text] {
                match tokenizer.encode(text, true) {
                    Ok(ids) => {
                        tokenizer
                            .decode(&ids, true)
                            .map_or_else(|error| check_message(&error), drop);
                        let mut stream = tokenizer.decode_stream(false);
                        ids.iter().take(100).for_each(|&id| drop(stream.push(id)));
                        drop(stream.finish());
                    }
                    Err(error) => check_message(&error),
                }
            }
        }
        Ok(None) => {}
        Err(error) => check_message(&error),
    });
}

/// Input: a template, and after a zero byte an optional conversation.
fn template(data: &[u8]) {
    let (source, conversation) = parts(data);
    let messages = match serde_json::from_slice(conversation) {
        Ok(Value::Array(messages)) => messages,
        _ => vec![json!({"role": "user", "content": "Why is the sky blue?"})],
    };
    with_file("chat_template.jinja", source, |dir| {
        let template = ChatTemplate::read(dir, &SpecialTokens::default(), None);
        match template {
            Ok(Some(template)) => {
                template
                    .render(&messages, true, &Map::new())
                    .map_or_else(|error| check_message(&error), drop);
            }
            Ok(None) => {}
            Err(error) => check_message(&error),
        }
    });
}

fn rows(data: &[u8], name: &str) {
    with_file(name, data, |dir| {
        let settings = DataSettings { files: vec![dir.join(name)], ..DataSettings::default() };
        match Records::<Problem>::open(&settings, 1, &VerifierSettings::default()) {
            Ok((mut records, _)) => drop(records.problem(0)),
            Err(error) => check_message(&error),
        }
    });
}

/// Rows with commas and with tabs between their values.
fn separated(data: &[u8]) {
    rows(data, "rows.csv");
    rows(data, "rows.tsv");
}

fn recipe(data: &[u8]) {
    with_file("recipe.toml", data, |dir| {
        let path = dir.join("recipe.toml");
        match isentrope::recipe::load::<rl::Recipe>(&path, &[]) {
            Ok(recipe) => {
                // The printed recipe equals the one that was read.
                fs::write(&path, isentrope::recipe::render(&recipe)).expect("a temporary file");
                let again =
                    isentrope::recipe::load::<rl::Recipe>(&path, &[]).expect("a recipe as printed");
                assert_eq!(serde_json::to_value(&again).ok(), serde_json::to_value(&recipe).ok());
            }
            Err(error) => check_message(&error),
        }
        isentrope::recipe::load::<sft::Recipe>(&path, &[])
            .map_or_else(|error| check_message(&error), drop);
    });
}

/// A script of another trainer, in Python and as command lines.
fn script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // Names for what a script may lack, so that the rest of it is converted too.
    let own = [("model.path", "\"m\"".to_owned()), ("data.files", "[\"a.jsonl\"]".to_owned())];
    for name in ["train.py", "train.sh"] {
        match isentrope::recipe::convert(&text, Path::new(name), &own) {
            // A recipe that is not TOML would lose every setting.
            Ok(made) => drop(made.recipe.parse::<toml::Table>().expect("a recipe")),
            Err(error) => check_message(&error),
        }
    }
}

/// Input: a ground truth, and after a zero byte a response.
fn grader(data: &[u8]) {
    let (ground_truth, response) = parts(data);
    let (ground_truth, response) =
        (String::from_utf8_lossy(ground_truth), String::from_utf8_lossy(response));
    let options = Options::default();
    match GroundTruth::from_value(&Value::String(ground_truth.to_string())) {
        Ok(read) => drop(isentrope_grader::grade(&read, &response, &options)),
        Err(error) => check_message(&error),
    }
    let _ = isentrope_grader::same_answer(&ground_truth, &response, &options);
    drop(isentrope_grader::explain(&ground_truth, &response, &options));
}

/// Reads a log of a run and renders it for a terminal: alarms, tables and the law.
fn log(data: &[u8], name: &str) {
    let look = Look { width: 100, colors: false };
    with_file(name, data, |dir| {
        // As a file, and as the content of a directory.
        for path in [dir.join(name), dir.to_owned()] {
            match Run::read(&path) {
                Ok(runs) => {
                    for run in &runs {
                        run.log.notes.iter().for_each(check_message);
                        alarms::of_log(&run.log)
                            .iter()
                            .for_each(|(_, alarm)| check_message(&alarm.text));
                        assert!(
                            run.log.all().all(|(_, series)| series.steps.is_sorted()),
                            "steps out of order"
                        );
                    }
                    drop(show::page(
                        &runs,
                        &PageOptions { metrics: Vec::new(), responses: 1 },
                        &look,
                    ));
                }
                Err(error) => check_message(&error),
            }
        }
    });
}

/// Reads the token records of a step and renders page and tables.
fn tokens(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(dir.path().join("tokens")).expect("a temporary directory");
    fs::write(dir.path().join("tokens/step-000001.jsonl"), data).expect("a temporary file");
    match Inspection::open(dir.path(), StepChoice::Last) {
        Ok(inspection) => {
            let page = inspection.html().expect("numbers and texts can be written");
            // One of the data, one of the script.
            assert_eq!(page.matches("</script").count(), 2, "text has become a part of the page");
            drop(inspection.text(80));
        }
        Err(error) => check_message(&error),
    }
}

/// Reads the lines behind a journal's heading, and takes the entries of a few responses.
fn journal(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let heading = Heading::new(1, "f32", &()).expect("a heading");
    let open = || Journal::open(dir.path(), 1, 0, &heading).expect("a regular file");
    open().begin_writing().expect("a temporary file");
    let path = dir.path().join("step-000001.rank-0.journal");
    let mut file = fs::File::options().append(true).open(path).expect("a temporary file");
    file.write_all(data).expect("a temporary file");
    let mut journal = open();
    let _ = journal.known_turns();
    let sampling = Sampling { max_tokens: 8, ..Sampling::default() };
    for (prompt, sample) in [(0, 0), (0, 1), (1, 0)] {
        let key = ResponseKey { prompt, greedy: false, sample };
        if let Some(response) = journal.take(key, 1).expect("a response") {
            let _ = response.can_be_of(10, &sampling, 6);
        }
        let turns = journal.take_turns(key, 1).expect("turns");
        PlayedTurn::in_order(turns, 10, &sampling, 6)
            .iter()
            .for_each(|turn| assert!(turn.sampled_tokens() <= 6, "it does not fit the context"));
    }
}

/// The bytes before and after the first zero byte.
fn parts(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|&byte| byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// Writes the length of a safetensors header that ends with the last brace.
fn repair_header_length(data: &mut [u8]) {
    let end = data.iter().rposition(|&byte| byte == b'}').map_or(data.len(), |at| at + 1);
    if let Some(length) = end.checked_sub(8) {
        data[..8].copy_from_slice(&(length as u64).to_le_bytes());
    }
}

/// Repairs the checksums of a journal's lines.
fn repair_lines(data: &mut [u8]) {
    for line in data.split_mut(|&byte| byte == b'\n') {
        if let Some((checksum, json)) = line.split_at_mut_checked(9) {
            checksum.copy_from_slice(format!("{:08x} ", crc32c::crc32c(json)).as_bytes());
        }
    }
}

/// Writes the magic bytes at both ends of a parquet file.
fn repair_parquet_end(data: &mut [u8]) {
    if data.len() >= 12 {
        let end = data.len() - 4;
        data[..4].copy_from_slice(b"PAR1");
        data[end..].copy_from_slice(b"PAR1");
    }
}

/// Repairs the checksums of an event file's records, as far as the lengths lead.
fn repair_checksums(data: &mut [u8]) {
    let mut rest = data;
    while let Some((head, behind)) = rest.split_at_mut_checked(12) {
        let length = head.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        let crc = masked_crc(&head[..8]);
        head[8..].copy_from_slice(&crc.to_le_bytes());
        let Some((event, behind)) = behind.split_at_mut_checked(length) else { return };
        let Some((crc, behind)) = behind.split_at_mut_checked(4) else { return };
        crc.copy_from_slice(&masked_crc(event).to_le_bytes());
        rest = behind;
    }
}
