//! Chat templates that ask for the date: a run has one, whatever the day on which it goes on, and
//! wherever its ranks are; so has an evaluation, and other commands are told one.

use crate::program::{failure_saying, isentrope, lines_of, stdout_of, text, wrong_usage};
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
    model: String,
}

impl Dated {
    fn new() -> Self {
        let bench = Bench::train();
        let dir = bench.scratch.copy(Path::new(base()), "dated");
        fs::write(
            dir.join("chat_template.jinja"),
            "{{ strftime_now('%d') }} {{ messages[-1].content }}",
        )
        .unwrap();
        let dir = text(&dir);
        Self { bench, model: format!("model.path={dir}"), dir }
    }

    /// A run of so many steps.
    fn command(&self, out: &str, steps: u64, flags: &[&str]) -> Command {
        let steps = format!("run.steps={steps}");
        let sets = [
            &self.model,
            &steps,
            "optimizer.schedule=constant",
            "optimizer.final_fraction=0",
            "rollout.filter=false",
            "update.shards=2",
            "eval.every=1",
            "checkpoint.every=1",
        ];
        self.bench.command(out, &sets, flags)
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
    let printed = stdout_of(dated.command("whole", 2, &[]).env("TZ", EAST));
    let date = dated.date("whole").unwrap();
    // The command that it prints asks as the run did.
    assert!(printed.contains(&date.replace("date = ", " --date ").replace('"', "")), "{printed}");

    succeed(dated.command("cut", 1, &[]).env("TZ", EAST));
    let said = succeed(dated.command("cut", 2, &["--resume"]).env("TZ", WEST));
    assert!(!said.contains("data.date"), "{said}");
    assert_same_results(&out("whole"), &out("cut"));
    assert_eq!(dated.date("cut").unwrap(), date);

    // Its own recipe says all that is needed to repeat it.
    let (recipe, again) =
        (out("whole").join("recipe.toml"), format!("run.out={}", out("again").display()));
    let arguments = ["train", &recipe.to_string_lossy(), "--set", &again];
    succeed(isentrope(&arguments).env("TZ", WEST).env("ISENTROPE_THREADS", "1"));
    assert_same_results(&out("whole"), &out("again"));

    let shown = stdout_of(dated.command("other", 3, &["--dry-run"]).env("TZ", WEST));
    let today = shown.lines().find(|line| line.starts_with("date = ")).unwrap();
    assert_ne!(today, date);
    let given =
        stdout_of(&mut dated.command("other", 3, &["--dry-run", "--set", "data.date=2024-07-09"]));
    assert!(given.contains("date = \"2024-07-09\"") && given.contains("09 "), "{given}");

    // A template that does not ask is told nothing.
    let model = format!("model.path={}", base());
    dated.bench.run("plain", &[&model, "run.steps=1", "rollout.filter=false"], &[]);
    assert_eq!(dated.date("plain"), None);
}

#[test]
fn a_sweep_goes_on_with_runs_of_another_day() {
    let dated = Dated::new();
    let sweep = dated.bench.scratch.file(
        "sweep.toml",
        "base = \"recipe.toml\"\n[axes]\nseed = { key = \"run.seed\", values = [3, 4] }\n",
    );
    let out = dated.bench.scratch.path("sweep");
    let sets = ["--set", &dated.model, "--set", "run.steps=1", "--set", "rollout.filter=false"];
    let command =
        || isentrope(&[&["sweep", &sweep, "--out", &out, "--threads", "1"], &sets[..]].concat());
    succeed(command().env("TZ", EAST));
    let said = succeed(command().env("TZ", WEST));
    assert!(said.contains("2 done, 0 left"), "{said}");
}

#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn ranks_take_the_day_of_the_first() {
    let dated = Dated::new();
    succeed(dated.command("whole", 2, &[]).env("TZ", EAST));
    for launcher in Launcher::installed() {
        let out = format!("ranks-{}", launcher.is_open_mpi);
        let zones = [(1, &*format!("TZ={EAST}")), (1, &*format!("TZ={WEST}"))];
        succeed(&mut launcher.jobs(&zones, &dated.command(&out, 2, &[])));
        assert_same_results(&dated.bench.out("whole"), &dated.bench.out(&out));
    }
}

#[test]
fn an_evaluation_keeps_the_day_on_which_it_began() {
    let dated = Dated::new();
    let scratch = &dated.bench.scratch;
    let bench = format!("mine={}", scratch.lines("asked.jsonl", &problems()));
    let evaluate = |model: &str, out: &str, zone: &str, flags: &[&str]| {
        let out = scratch.path(out);
        let sampled = ["-n", "2", "--temperature", "1", "--max-tokens", "16", "--out", &out];
        let mut command =
            isentrope(&[&["eval", model, "--bench", &bench], &sampled[..], flags].concat());
        command.env("TZ", zone).env("ISENTROPE_THREADS", "1");
        command
    };
    let manifest = |out: &str| -> Value {
        let file = dated.bench.out(out).join("manifest.json");
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    };
    stdout_of(&mut evaluate(&dated.dir, "east", EAST, &[]));
    stdout_of(&mut evaluate(&dated.dir, "west", WEST, &[]));
    let (east, west) = (dated.bench.out("east"), dated.bench.out("west"));
    let changed = format!("date {} -> {}", manifest("east")["date"], manifest("west")["date"]);
    assert_ne!(manifest("east")["date"], manifest("west")["date"]);

    // It goes on elsewhere to the same bytes, and another day makes others.
    let (whole, lines) = (tree(&east), east.join("responses/mine.jsonl"));
    let all = fs::read_to_string(&lines).unwrap();
    assert_ne!(all, fs::read_to_string(west.join("responses/mine.jsonl")).unwrap());
    let half: String = all.lines().take(24).map(|line| format!("{line}\n")).collect();
    fs::write(east.join("responses/mine.jsonl.partial"), half).unwrap();
    fs::remove_file(&lines).unwrap();
    fs::remove_file(east.join("results.json")).unwrap();
    stdout_of(&mut evaluate(&dated.dir, "east", WEST, &[]));
    assert!(tree(&east) == whole);

    // Another day is another setting.
    let given = ["--date", "2024-07-09"];
    let other = format!("date {} -> \"2024-07-09\"", manifest("east")["date"]);
    failure_saying(&mut evaluate(&dated.dir, "east", EAST, &given), &[&other, "--out"]);
    stdout_of(&mut evaluate(&dated.dir, "given", EAST, &given));
    assert_eq!(manifest("given")["date"], "2024-07-09");
    let compared = ["eval", "--against", &scratch.path("east"), "--out", &scratch.path("west")];
    let table = stdout_of(&mut isentrope(&compared));
    assert!(table.contains(&format!("settings that differ\n    {changed}\n")), "{table}");

    // A manifest's day is read as what it is.
    let mut damaged = manifest("given");
    damaged["date"] = json!("July");
    fs::write(dated.bench.out("given").join("manifest.json"), damaged.to_string()).unwrap();
    failure_saying(
        &mut evaluate(&dated.dir, "given", EAST, &[]),
        &["manifest.json: date: \"July\" is no day"],
    );

    // A template that does not ask is told nothing.
    stdout_of(&mut evaluate(base(), "plain", EAST, &given));
    assert_eq!(manifest("plain").get("date"), None);
}

#[test]
fn commands_are_told_a_day() {
    let dated = Dated::new();
    let chat = json!({"messages": [{"role": "user", "content": "1 2 3>6:"}]});
    let file = dated.bench.scratch.lines("chat.jsonl", &[chat]);
    for command in [
        &["generate", &dated.dir, "--prompts", &file, "--max-tokens", "8"][..],
        &["score", &dated.dir, "--in", &file],
    ] {
        let told = |flags: &[&str], zone: &str| {
            let mut command = isentrope(&[command, flags].concat());
            command.env("TZ", zone);
            lines_of(command)
        };
        let given = told(&["--date", "2024-07-09"], EAST);
        assert_eq!(
            given,
            told(&["--date", "2024-08-09"], WEST),
            "the template asks for the day of the month"
        );
        assert_ne!(given, told(&["--date", "2024-07-10"], EAST));
        assert_ne!(told(&[], EAST), told(&[], WEST));
        wrong_usage(
            &mut isentrope(&[command, &["--date", "July"]].concat()),
            "is no day: write one such as 2026-11-26",
        );
    }
}
