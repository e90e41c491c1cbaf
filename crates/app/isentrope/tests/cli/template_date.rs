//! Chat templates that ask for the date: a run and an evaluation keep the day on which they began,
//! whenever and wherever they go on; other commands take one from a flag.

use crate::program::{assert_parts, failure_saying, isentrope, json_of, lines_of, stdout_of, text};
use crate::train_ranks::Launcher;
use crate::training::{Bench, assert_same_results, base, problems, succeed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Time zones in which it is never the same day.
const EAST: &str = "EAST-14";
const WEST: &str = "WEST+12";

/// A bench with a model whose prompts begin with the day of the month.
fn dated() -> (Bench, String) {
    let bench = Bench::train();
    let dir = bench.scratch.copy(Path::new(base()), "dated");
    let template = "{{ strftime_now('%d') }} {{ messages[-1].content }}";
    fs::write(dir.join("chat_template.jinja"), template).unwrap();
    (bench, text(&dir))
}

/// A run of this many steps.
fn run((bench, model): &(Bench, String), out: &str, steps: u64, flags: &str) -> Command {
    let sets = format!(
        "model.path={model} run.steps={steps} optimizer.schedule=constant rollout.filter=false \
         optimizer.final_fraction=0 update.shards=2 eval.every=1 checkpoint.every=1"
    );
    bench.command(out, sets, flags)
}

#[test]
fn a_run_keeps_the_day_on_which_it_began() {
    let dated = dated();
    let out = |name: &str| dated.0.out(name);
    let date = |name: &str| {
        let recipe = fs::read_to_string(out(name).join("recipe.toml")).unwrap();
        recipe.lines().find(|line| line.starts_with("date = ")).map(str::to_owned)
    };
    let printed = stdout_of(run(&dated, "whole", 2, "").env("TZ", EAST));
    let day = date("whole").unwrap();
    // The command that it prints asks as the run did.
    assert_parts(&printed, &[&day.replace("date = ", " --date ").replace('"', "")]);
    succeed(run(&dated, "cut", 1, "").env("TZ", EAST));
    succeed(run(&dated, "cut", 2, "--resume").env("TZ", WEST));
    assert_same_results(&out("whole"), &out("cut"));
    assert_eq!(date("cut").unwrap(), day);
    // Its own recipe repeats it.
    let recipe = text(&out("whole").join("recipe.toml"));
    let again = format!("train {recipe} --set run.out={}", text(&out("again")));
    succeed(isentrope(again).env("TZ", WEST).env("ISENTROPE_THREADS", "1"));
    assert_same_results(&out("whole"), &out("again"));
    let given = stdout_of(run(&dated, "other", 3, "--dry-run --set data.date=2024-07-09"));
    assert_parts(&given, &["date = \"2024-07-09\"", "09 "]);
    // A recipe gets no date for a template that does not ask.
    dated.0.copy_of_run("plain", "run.steps=1");
    assert_eq!(date("plain"), None);
}

#[test]
#[ignore = "deep: several runs"]
fn ranks_take_the_day_of_the_first() {
    let dated = dated();
    succeed(run(&dated, "whole", 2, "").env("TZ", EAST));
    let zones = [(1, &*format!("TZ={EAST}")), (1, &*format!("TZ={WEST}"))];
    succeed(Launcher::tcp().jobs(&zones, &run(&dated, "ranks", 2, "")));
    assert_same_results(&dated.0.out("whole"), &dated.0.out("ranks"));
}

#[test]
fn an_evaluation_keeps_the_day_on_which_it_began() {
    let (bench, dir) = dated();
    let file = bench.scratch.lines("asked.jsonl", &problems()[..4]);
    let evaluate = |out: &str, zone: &str, flags: &str| {
        let sampled = format!("--max-tokens 16 --out {}", bench.scratch.path(out));
        let mut command = isentrope(format!("eval {dir} --bench mine={file} {sampled} {flags}"));
        command.env("TZ", zone).env("ISENTROPE_THREADS", "1");
        command
    };
    let date =
        |out: &str| -> Value { json_of(&bench.out(out).join("manifest.json"))["date"].clone() };
    stdout_of(evaluate("east", EAST, ""));
    stdout_of(evaluate("west", WEST, ""));
    assert_ne!(date("east"), date("west"));
    stdout_of(evaluate("east", WEST, "")); // it goes on with the day of its results
    let other = format!("date {} -> \"2024-07-09\"", date("east"));
    failure_saying(evaluate("east", EAST, "--date 2024-07-09"), &[&other, "--out"]);
}

#[test]
fn commands_take_a_day_from_a_flag() {
    let (bench, dir) = dated();
    let chat = json!({"messages": [{"role": "user", "content": "1 2 3>6:"}]});
    let file = bench.scratch.lines("chat.jsonl", &[chat]);
    for command in ["generate --max-tokens 8 --prompts", "score --in"] {
        let on = |flags: &str, zone: &str| {
            lines_of(isentrope(format!("{command} {file} {dir} {flags}")).env("TZ", zone))
        };
        // The template asks for the day of the month alone.
        assert_eq!(on("--date 2024-07-09", EAST), on("--date 2024-08-09", WEST));
        assert_ne!(on("", EAST), on("", WEST));
    }
}
