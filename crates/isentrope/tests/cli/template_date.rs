//! Chat templates that ask for the date: a run has one, whatever the day on which it goes on, and wherever its ranks are.

use crate::program::{isentrope, stdout_of};
use crate::train_ranks::Launcher;
use crate::training::{Bench, assert_same_results, base, succeed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where it is never the same day.
const EAST: &str = "EAST-14";
const WEST: &str = "WEST+12";

/// Runs with prompts that begin with the day of the month.
struct Dated {
    bench: Bench,
    model: String,
}

impl Dated {
    fn new() -> Self {
        let bench = Bench::train();
        let dir = bench.scratch.copy(Path::new(base()), "dated");
        fs::write(dir.join("chat_template.jinja"), "{{ strftime_now('%d') }} {{ messages[-1].content }}")
            .unwrap();
        Self { bench, model: format!("model.path={}", dir.display()) }
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
    succeed(dated.command("whole", 4, &[]).env("TZ", EAST));
    let date = dated.date("whole").unwrap();

    succeed(dated.command("cut", 2, &[]).env("TZ", EAST));
    let said = succeed(dated.command("cut", 4, &["--resume"]).env("TZ", WEST));
    assert!(!said.contains("data.date"), "{said}");
    assert_same_results(&out("whole"), &out("cut"));
    assert_eq!(dated.date("cut").unwrap(), date);

    // Its own recipe says all that is needed to repeat it.
    let (recipe, again) = (out("whole").join("recipe.toml"), format!("run.out={}", out("again").display()));
    let arguments = ["train", &recipe.to_string_lossy(), "--set", &again];
    succeed(isentrope(&arguments).env("TZ", WEST).env("ISENTROPE_THREADS", "1"));
    assert_same_results(&out("whole"), &out("again"));

    let shown = stdout_of(dated.command("other", 3, &["--dry-run"]).env("TZ", WEST));
    let today = shown.lines().find(|line| line.starts_with("date = ")).unwrap();
    assert_ne!(today, date);
    let given = stdout_of(&mut dated.command("other", 3, &["--dry-run", "--set", "data.date=2024-07-09"]));
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
    let command = || isentrope(&[&["sweep", &sweep, "--out", &out, "--threads", "1"], &sets[..]].concat());
    succeed(command().env("TZ", EAST));
    let said = succeed(command().env("TZ", WEST));
    assert!(said.contains("2 done, 0 left"), "{said}");
}

#[test]
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
