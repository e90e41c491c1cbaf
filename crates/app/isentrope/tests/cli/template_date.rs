//! Chat templates that ask for the date: a run has one, whatever the day on which it goes on, and
//! wherever its ranks are; so has an evaluation, and other commands are told one.

use crate::program::{assert_parts, failure_saying, isentrope, json_of, lines_of, stdout_of, text};
use crate::train_ranks::Launcher;
use crate::training::{Bench, assert_same_results, base, problems, succeed, tree};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A time zone in which it is never the same day.
const EAST: &str = "EAST-14";
const WEST: &str = "WEST+12";

/// Runs with prompts that begin with the day of the month.
struct Dated {
    bench: Bench,
    /// The model's directory.
    dir: String,
}

impl Dated {
    fn new() -> Self {
        let bench = Bench::train();
        let dir = bench.scratch.copy(Path::new(base()), "dated");
        let template = "{{ strftime_now('%d') }} {{ messages[-1].content }}";
        fs::write(dir.join("chat_template.jinja"), template).unwrap();
        Self { bench, dir: text(&dir) }
    }

    /// A run of so many steps.
    fn command(&self, out: &str, steps: u64, flags: &str) -> Command {
        let sets = format!(
            "model.path={} run.steps={steps} optimizer.schedule=constant rollout.filter=false \
             optimizer.final_fraction=0 update.shards=2 eval.every=1 checkpoint.every=1",
            self.dir
        );
        self.bench.command(out, sets, flags)
    }

    /// The line of its own recipe that states the date, if one does.
    fn date(&self, out: &str) -> Option<String> {
        let recipe = fs::read_to_string(self.bench.out(out).join("recipe.toml")).unwrap();
        recipe.lines().find(|line| line.starts_with("date = ")).map(str::to_owned)
    }
}

#[test]
fn a_run_keeps_the_day_on_which_it_began() {
    let dated = Dated::new();
    let out = |name: &str| dated.bench.out(name);
    let printed = stdout_of(dated.command("whole", 2, "").env("TZ", EAST));
    let date = dated.date("whole").unwrap();
    // The command that it prints asks as the run did.
    assert_parts(&printed, &[&date.replace("date = ", " --date ").replace('"', "")]);

    succeed(dated.command("cut", 1, "").env("TZ", EAST));
    let said = succeed(dated.command("cut", 2, "--resume").env("TZ", WEST));
    assert!(!said.contains("data.date"), "{said}");
    assert_same_results(&out("whole"), &out("cut"));
    assert_eq!(dated.date("cut").unwrap(), date);

    // Its own recipe says all that is needed to repeat it.
    let recipe = text(&out("whole").join("recipe.toml"));
    let again = format!("train {recipe} --set run.out={}", text(&out("again")));
    succeed(isentrope(again).env("TZ", WEST).env("ISENTROPE_THREADS", "1"));
    assert_same_results(&out("whole"), &out("again"));

    let given = stdout_of(dated.command("other", 3, "--dry-run --set data.date=2024-07-09"));
    assert_parts(&given, &["date = \"2024-07-09\"", "09 "]);
    // A template that does not ask is told nothing.
    dated.bench.copy_of_run("plain", "run.steps=1");
    assert_eq!(dated.date("plain"), None);

    // A sweep goes on with runs of another day.
    let axes = "base = \"recipe.toml\"\n[axes]\nseed = { key = \"run.seed\", values = [3] }\n";
    let sweep = dated.bench.scratch.file("sweep.toml", axes);
    let sweep = format!(
        "sweep {sweep} --out {} --threads 1 --set model.path={} --set run.steps=1 \
         --set rollout.filter=false",
        dated.bench.scratch.path("sweep"),
        dated.dir
    );
    succeed(isentrope(&sweep).env("TZ", EAST));
    let said = succeed(isentrope(&sweep).env("TZ", WEST));
    assert_parts(&said, &["1 done, 0 left"]);
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn ranks_take_the_day_of_the_first() {
    let dated = Dated::new();
    succeed(dated.command("whole", 2, "").env("TZ", EAST));
    for launcher in Launcher::installed() {
        let out = format!("ranks-{}", launcher.is_open_mpi);
        let zones = [(1, &*format!("TZ={EAST}")), (1, &*format!("TZ={WEST}"))];
        succeed(launcher.jobs(&zones, &dated.command(&out, 2, "")));
        assert_same_results(&dated.bench.out("whole"), &dated.bench.out(&out));
    }
}

#[test]
fn an_evaluation_keeps_the_day_on_which_it_began() {
    let dated = Dated::new();
    let scratch = &dated.bench.scratch;
    let file = scratch.lines("asked.jsonl", &problems());
    let evaluate = |model: &str, out: &str, zone: &str, flags: &str| {
        let sampled = format!("-n 2 --temperature 1 --max-tokens 16 --out {}", scratch.path(out));
        let mut command = isentrope(format!("eval {model} --bench mine={file} {sampled} {flags}"));
        command.env("TZ", zone).env("ISENTROPE_THREADS", "1");
        command
    };
    let manifest = |out: &str| -> Value { json_of(&dated.bench.out(out).join("manifest.json")) };
    stdout_of(evaluate(&dated.dir, "east", EAST, ""));
    stdout_of(evaluate(&dated.dir, "west", WEST, ""));
    let (east, west) = (dated.bench.out("east"), dated.bench.out("west"));
    assert_ne!(manifest("east")["date"], manifest("west")["date"]);

    // It goes on elsewhere to the same bytes, and another day makes others.
    let (whole, lines) = (tree(&east), east.join("responses/mine.jsonl"));
    let all = fs::read_to_string(&lines).unwrap();
    assert_ne!(all, fs::read_to_string(west.join("responses/mine.jsonl")).unwrap());
    let half: String = all.lines().take(24).map(|line| format!("{line}\n")).collect();
    fs::write(east.join("responses/mine.jsonl.partial"), half).unwrap();
    fs::remove_file(&lines).unwrap();
    fs::remove_file(east.join("results.json")).unwrap();
    stdout_of(evaluate(&dated.dir, "east", WEST, ""));
    assert!(tree(&east) == whole);

    // Another day is another setting.
    let other = format!("date {} -> \"2024-07-09\"", manifest("east")["date"]);
    let given = evaluate(&dated.dir, "east", EAST, "--date 2024-07-09");
    failure_saying(given, &[&other, "--out"]);
    // A template that does not ask is told nothing.
    stdout_of(evaluate(base(), "plain", EAST, "--date 2024-07-09"));
    assert_eq!(manifest("plain").get("date"), None);
}

#[test]
fn commands_are_told_a_day() {
    let dated = Dated::new();
    let chat = json!({"messages": [{"role": "user", "content": "1 2 3>6:"}]});
    let file = dated.bench.scratch.lines("chat.jsonl", &[chat]);
    for command in ["generate --max-tokens 8 --prompts", "score --in"] {
        let told = |flags: &str, zone: &str| {
            let line = format!("{command} {file} {} {flags}", dated.dir);
            lines_of(isentrope(line).env("TZ", zone))
        };
        let given = told("--date 2024-07-09", EAST);
        // The template asks for the day of the month.
        assert_eq!(given, told("--date 2024-08-09", WEST));
        assert_ne!(given, told("--date 2024-07-10", EAST));
        assert_ne!(told("", EAST), told("", WEST));
    }
}
