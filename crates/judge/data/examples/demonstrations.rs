//! Prints worked examples of a built-in task as JSON lines with `prompt` and `response`, such as a
//! tokenizer can be made of: `cargo run -p isentrope-data --example demonstrations -- programs
//! 20000 > demonstrations.jsonl`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use isentrope_data::{Content, DataSettings, Examples, Prompt, Split};
use serde_json::json;

const USAGE: &str = "the arguments are a built-in task and how many examples: programs 20000";

/// No recipe of ours has this seed.
const SEED: u64 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(task), Some(count), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(USAGE.into());
    };
    let task = serde_json::from_value(json!(task))?;
    let (mut examples, _) = Examples::open(
        &DataSettings { task: Some(task), ..DataSettings::default() },
        Split::Train,
        SEED,
    )?;
    for position in 0..count.parse()? {
        if let Content::Response { prompt: Prompt::Text(prompt), response } =
            examples.example(position).content
        {
            println!("{}", json!({ "prompt": prompt, "response": response }));
        }
    }
    Ok(())
}
