//! `isentrope sweep`: many runs along axes.

use crate::output::SmallDisk;
use crate::processes::{send, until};
use crate::program::{
    Scratch, all_pages, failure, failure_saying, isentrope, json_of, names, skipped, stderr,
    stdout_of, text,
};
use crate::text_model::text_model;
use crate::training::{Bench, assert_same_results, base, tree, weights};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

const METHODS: &str = "base = \"recipe.toml\"\n[axes.method.kl-cov]\n[axes.method.plain]\n\
                       objective.covariance.method = \"none\"\n[axes]\nseed = { key = \"run.seed\", values = [3, 4] }\n";

/// A sweep beside a bench's recipe.
struct Sweep {
    bench: Bench,
    file: String,
}

impl Sweep {
    fn new(sweep: &str) -> Self {
        let bench = Bench::train();
        let recipe = fs::read_to_string(bench.scratch.path("recipe.toml")).unwrap();
        bench.scratch.file("recipe.toml", recipe.replace("steps = 6", "steps = 2"));
        let file = bench.scratch.file("sweep.toml", sweep);
        Self { bench, file }
    }

    fn out(&self, path: &str) -> PathBuf {
        PathBuf::from(self.bench.scratch.path("out")).join(path)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let out = self.bench.scratch.path("out");
        isentrope(&[&["sweep", &self.file, "--out", &out, "--threads", "2"], flags].concat())
    }

    /// A sweep that must succeed: what it prints and what it says.
    fn run(&self, flags: &[&str]) -> (String, String) {
        let output = self.command(flags).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    }

    fn lines(&self, run: &str) -> usize {
        fs::read_to_string(self.out(run).join("metrics.jsonl"))
            .map_or(0, |text| text.lines().count())
    }
}

#[test]
fn somebody_elses_directory_is_left_alone() {
    let sweep = Sweep::new(METHODS);
    let run = sweep.bench.run("run", &["run.steps=1"], &[]);
    let checkpoints = run.join("checkpoints");
    let before = tree(&run);
    for (out, why) in [
        (text(&run), "holds a run; name another directory with --out"),
        (text(&checkpoints), "has files in it and is no sweep; name another directory with --out"),
        ("/proc/x".to_owned(), "--out is /proc/x, and one cannot write in /proc: "),
    ] {
        for flags in [&[][..], &["--dry-run"]] {
            let arguments = [&["sweep", &sweep.file, "--out", &out], flags].concat();
            failure_saying(&mut isentrope(&arguments), &[&out, why]);
        }
    }
    assert_eq!(tree(&run), before);
}

#[test]
fn every_combination_is_the_run_that_train_makes() {
    let sweep = Sweep::new(METHODS);
    let plan = stdout_of(&mut sweep.command(&["--dry-run"]));
    assert!(
        plan.contains("kl-cov/3  to do, 2 steps")
            && plan.contains("4 runs: 0 done, 4 left, about "),
        "{plan}"
    );
    assert!(plan.lines().all(|line| line.chars().count() <= 80), "{plan}");
    assert!(!sweep.out("").exists(), "a dry run writes nothing");

    // Where it is ended early, there is a table of the runs that are done.
    let mut child = sweep
        .command(&["--jobs", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let so_far = || fs::read_to_string(sweep.out("table.md")).unwrap_or_default();
    crate::processes::wait_until(PATIENCE, &mut child, || !so_far().is_empty());
    send("TERM", &child);
    child.wait().unwrap();
    assert!(so_far().contains(" of 4 runs so far\n"), "{}", so_far());
    fs::remove_dir_all(sweep.out("")).unwrap();

    let (table, said) = sweep.run(&[]);
    assert!(!so_far().contains("so far"), "{}", so_far());
    for run in ["kl-cov/3", "kl-cov/4", "plain/3", "plain/4"] {
        assert!(
            said.contains(&format!("{run}: begins\n"))
                && said.contains(&format!("{run}: done, 2 steps in ")),
            "{said}"
        );
    }
    let begins = |run: &str| said.find(&format!("{run}: begins\n"));
    assert!(begins("plain/3") < begins("kl-cov/4"), "seed by seed: {said}");
    assert!(said.contains("4 done, 0 left\n"), "{said}");
    assert!(
        table.contains("problems: mean@2 at the end, %") && table.contains("  against kl-cov"),
        "{table}"
    );
    for (run, sets) in
        [("kl-cov/4", &["run.seed=4"][..]), ("plain/3", &["objective.covariance.method=none"])]
    {
        assert_same_results(&sweep.bench.run(&run.replace('/', "-"), sets, &[]), &sweep.out(run));
    }
    let written = [".log", ".toml", ""].map(|ending| format!("3{ending}"));
    assert!(written.iter().all(|name| names(&sweep.out("kl-cov")).contains(name)));
    let summary = json_of(&sweep.out("table.json"));
    assert_eq!(summary["groups"][1]["name"], "plain");
    assert_eq!(summary["groups"][1]["seeds"], serde_json::json!([3, 4]));
    let means = &summary["rows"][0]["means"];
    let of_runs: Vec<f64> = ["kl-cov/3", "kl-cov/4"]
        .iter()
        .map(|run| {
            let metrics = fs::read_to_string(sweep.out(run).join("metrics.jsonl")).unwrap();
            let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
            last["eval/problems/mean@2"].as_f64().unwrap()
        })
        .collect();
    assert_eq!(means[0]["runs"], serde_json::json!(of_runs));
    assert!(fs::read_to_string(sweep.out("table.md")).unwrap().starts_with("# sweep\n\n| "));

    let report = fs::read_to_string(sweep.out("report.html")).unwrap();
    for label in ["kl-cov/3", "plain/4"] {
        assert!(report.contains(&format!("<bdi>{label}</bdi>")), "{label}");
    }

    // Once more: nothing is left to do.
    let before = tree(&sweep.out("plain"));
    let (again, said) = sweep.run(&[]);
    assert_eq!(again, table);
    assert!(said.contains("plain/4   done, 2 steps") && !said.contains("begins"), "{said}");
    assert!(before == tree(&sweep.out("plain")));

    // With another recipe it is refused, and nothing is touched.
    let said = failure(&mut sweep.command(&["--set", "optimizer.clip_norm=0.5"]));
    for part in [
        "kl-cov/3 and 3 other runs: was begun with other settings: optimizer.clip_norm 1.0 -> 0.5",
        "--out",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    // So it is of a run whose numbers are there alone, and settings that change no result are no
    // others.
    let plain = sweep.out("plain/4");
    fs::remove_dir_all(plain.join("checkpoints")).unwrap();
    fs::remove_file(plain.join("timings.jsonl")).unwrap();
    let said = failure(&mut sweep.command(&["--set", "optimizer.clip_norm=0.5"]));
    assert!(said.contains("kl-cov/3 and 3 other runs: was begun with other settings"), "{said}");
    let as_well = [
        "checkpoint.keep=1",
        "checkpoint.every=1",
        "device.kind=cpu",
        "ranks.timeout_s=60",
        "memory.budget_gib=2",
    ];
    let flags: Vec<&str> =
        as_well.iter().flat_map(|set| ["--set", set]).chain(["--dry-run"]).collect();
    let said = stdout_of(&mut sweep.command(&flags));
    assert!(said.contains("4 runs: 4 done, 0 left"), "{said}");

    // Another sweep's directory is said to be one.
    let other = sweep.bench.scratch.file("other.toml", "base = \"recipe.toml\"\n[axes.way.one]\n");
    let output = isentrope(&["sweep", &other, "--out", &text(&sweep.out("")), "--dry-run"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(
        output.status.success() && said.contains(" holds a run that is not of this sweep"),
        "{said}"
    );
}

#[test]
fn runs_may_be_made_longer_where_the_learning_rate_is_constant() {
    let sweep = Sweep::new(METHODS);
    let steps = |steps: &'static str| ["--set", "optimizer.schedule=constant", "--set", steps];
    sweep.run(&steps("run.steps=1"));
    let (_, said) = sweep.run(&steps("run.steps=2"));
    assert!(said.contains("plain/4: goes on after step 1 of 2"), "{said}");
    let sets = [
        "run.steps=2",
        "optimizer.schedule=constant",
        "objective.covariance.method=none",
        "run.seed=4",
    ];
    assert!(
        weights(&sweep.bench.run("longer", &sets, &[]), 2) == weights(&sweep.out("plain/4"), 2)
    );

    let shorter = failure(&mut sweep.command(&steps("run.steps=1")));
    assert!(shorter.contains("was begun with other settings: run.steps 2 -> 1;"), "{shorter}");
    // A finished run needs its checkpoints no more; one that is to go on does.
    let plain = sweep.out("plain/4");
    fs::remove_dir_all(plain.join("checkpoints")).unwrap();
    let before = tree(&plain);
    assert!(
        stdout_of(&mut sweep.command(&[&steps("run.steps=2")[..], &["--dry-run"]].concat()))
            .contains("4 done")
    );
    for flags in [&[][..], &["--dry-run"]] {
        let said = failure(&mut sweep.command(&[&steps("run.steps=3")[..], flags].concat()));
        assert!(
            said.contains("plain/4 has the numbers of 2 steps, and its checkpoints are gone"),
            "{said}"
        );
    }
    assert!(tree(&plain) == before);
    let falling = failure(&mut sweep.command(&["--set", "run.steps=3"]));
    assert!(
        falling.contains("optimizer.schedule \"constant\" -> \"cosine\"")
            && falling.contains("run.steps 2 -> 3"),
        "{falling}"
    );
}

/// A program that has one setting more takes over what an older one has made, in the table and in
/// the report.
#[test]
fn seeds_that_are_added_join_those_of_an_older_program() {
    let seeds = |seeds: &str| {
        format!(
            "base = \"recipe.toml\"\n[axes.method.kl-cov]\n[axes]\nseed = {{ key = \"run.seed\", values = {seeds} }}\n"
        )
    };
    let sweep = Sweep::new(&seeds("[3]"));
    let steps = ["--set", "run.steps=2"];
    sweep.run(&steps);
    let values = sweep.out("kl-cov/3/.recipe.json");
    let mut older: Value = serde_json::from_slice(&fs::read(&values).unwrap()).unwrap();
    assert!(older["lab"].as_object_mut().unwrap().remove("track_theory").is_some());
    fs::write(&values, older.to_string()).unwrap();
    fs::write(&sweep.file, seeds("[3, 4]")).unwrap();
    let (table, _) = sweep.run(&steps);
    assert!(table.contains("  2 seeds"), "{table}");
    let report = fs::read_to_string(sweep.out("report.html")).unwrap();
    assert!(report.contains("<h2>Over seeds</h2>") && report.contains(">2 seeds<"));
}

const TWO_AXES: &str = "base = \"recipe.toml\"\n[axes.method.kl-cov]\n[axes.method.plain]\n\
                        objective.covariance.method = \"none\"\n[axes]\nrate = { key = \"optimizer.learning_rate\", \
                        values = [1e-3, 1e-4] }\nseed = { key = \"run.seed\", values = [3, 4] }\n";

#[test]
fn groups_are_compared_with_what_the_file_names() {
    let compare = "[compare]\nplain = \"kl-cov\"\n\"kl-cov/0.0001\" = \"plain/0.0001\"\n";
    let sweep = Sweep::new(&format!("{TWO_AXES}{compare}"));
    let (text, _) = sweep.run(&["--set", "run.steps=2"]);
    assert!(
        text.contains("  against kl-cov/0.0001") && text.contains("  against plain/0.0001"),
        "{text}"
    );
    let summary = json_of(&sweep.out("table.json"));
    let against: Vec<[&Value; 2]> = (0..4)
        .map(|i| [&summary["groups"][i]["name"], &summary["rows"][0]["against"][i]["group"]])
        .collect();
    let expected = serde_json::json!([
        ["kl-cov/0.001", null],
        ["kl-cov/0.0001", "plain/0.0001"],
        ["plain/0.001", "kl-cov/0.001"],
        ["plain/0.0001", "kl-cov/0.0001"]
    ]);
    assert_eq!(serde_json::json!(against), expected);
    let markdown = fs::read_to_string(sweep.out("table.md")).unwrap();
    assert!(markdown.contains("| plain/0.001 against kl-cov/0.001 | "), "{markdown}");
    let report = fs::read_to_string(sweep.out("report.html")).unwrap();
    assert!(report.contains("against plain/0.0001, ") && report.contains("against kl-cov/0.001, "));

    for (compare, said) in [
        (
            "plain = \"kl-cow\"",
            "compare names \"kl-cow\", which is neither a value of an axis (kl-cov, plain, 0.001, 0.0001)",
        ),
        ("plain = \"kl-cow\"", "nor a group, as in \"METHOD/RATE\"; did you mean `kl-cov`?"),
        ("other = \"plain\"", "compare names \"other\""),
        ("\"plain/0.01\" = \"plain\"", "compare names \"plain/0.01\""),
        ("plain = \"plain\"", "compares a group with itself"),
        ("\"plain/0.001\" = \"plain\"", "compares a group with itself"),
        ("plain = 0.001", "values of different axes"),
        ("plain = \"kl-cov\"\n\"0.001\" = 0.0001", "a group may have both: name whole groups"),
        ("plain = \"3\"", "of the axis `seed`: groups differ in other axes"),
        ("0.001 = 0.0001", "put a name that has dots in quotes"),
        ("plain = [1]", "compare.plain must be the name of a value or group"),
    ] {
        let sweep = Sweep::new(&format!("{TWO_AXES}[compare]\n{compare}\n"));
        failure_saying(&mut sweep.command(&["--dry-run"]), &["sweep.toml:", said]);
    }
}

/// A group that a quick look leaves out cannot be compared with.
#[test]
fn a_control_that_is_left_out_is_said() {
    let sweep = Sweep::new(&format!(
        "{METHODS}[axes.method.bonus]\nobjective.entropy_bonus.coefficient = 0.01\n[compare]\nbonus = \"plain\"\n\
         [quick]\nmethod = [\"kl-cov\", \"bonus\"]\nset.run.steps = 2\n"
    ));
    let (text, _) = sweep.run(&["--quick"]);
    assert!(text.contains("bonus is not compared: of plain, which it is to be"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_interrupted_goes_on_to_the_same_bits() {
    let sets = ["--set", "run.steps=24", "--set", "eval.every=0", "--set", "checkpoint.every=6"];
    let sweep = Sweep::new(
        "base = \"recipe.toml\"\n[axes]\nseed = { key = \"run.seed\", values = [3, 4, 5] }\n",
    );
    let whole =
        sweep.bench.run("whole", &["run.steps=24", "eval.every=0", "checkpoint.every=6"], &[]);
    let start = || {
        let mut child =
            sweep.command(&sets).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = sweep.lines("3");
        crate::processes::wait_until(PATIENCE, &mut child, || sweep.lines("3") > begun.max(2));
        child
    };
    let child = start();
    failure_saying(&mut sweep.command(&sets), &["another process is sweeping in"]);
    send("TERM", &child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("SIGTERM: finishing the current steps") && said.contains("3: ended at step"),
        "{said}"
    );
    assert!(
        said.contains("error: interrupted: 0 done, 3 left")
            && said.contains("the same command goes on"),
        "{said}"
    );
    assert!(!names(&sweep.out("3/checkpoints")).is_empty());

    // Killed, it takes its runs with it: they save what they have, and the next sweep waits for
    // them.
    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    let log = |run: &str| fs::read_to_string(sweep.out(&format!("{run}.log"))).unwrap();
    let (_, said) = sweep.run(&sets);
    assert!(said.contains("3: goes on after step "), "{said}");
    assert_same_results(&whole, &sweep.out("3"));
    assert_eq!(log("3").matches("$ isentrope train").count(), 3);
}

/// The second signal does not wait for a step that never ends, and leaves no run behind.
#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_the_runs_too() {
    let sweep = Sweep::new(
        "base = \"recipe.toml\"\n[axes]\nseed = { key = \"run.seed\", values = [1, 2] }\n",
    );
    let asked = sweep.bench.scratch.path("asked");
    let script = format!("read -r line; echo >> '{asked}'; sleep 1000");
    let set =
        format!("reward.verifier={{ command = [\"sh\", \"-c\", {script:?}], timeout_s = 1000 }}");
    let mut command = sweep.command(&["--set", &set, "--set", "eval.every=0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let both = || fs::read_to_string(&asked).is_ok_and(|text| text.lines().count() >= 2);
    crate::processes::wait_until(PATIENCE, &mut child, both);
    let ps = Command::new("ps")
        .args(["-o", "pid=", "--ppid", &child.id().to_string()])
        .output()
        .unwrap();
    let runs: Vec<String> =
        String::from_utf8(ps.stdout).unwrap().split_whitespace().map(str::to_owned).collect();
    assert_eq!(runs.len(), 2);
    send("TERM", &child);
    std::thread::sleep(Duration::from_millis(300));
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until(PATIENCE, "the runs go on", || !runs.iter().any(|run| crate::processes::runs(run)));
}

#[test]
fn supervised_fine_tuning_is_swept_too() {
    let sweep = Sweep::new(
        "command = \"sft\"\nbase = \"sft.toml\"\n[axes]\nrate = { key = \"optimizer.learning_rate\", \
         values = [1e-3, 1e-4] }\nseed = { key = \"run.seed\", values = [1, 2] }\n",
    );
    let sft = format!(
        "run.steps = 4\nmodel.path = {:?}\ndata.task = \"countdown\"\nsft.batch = 4\neval.every = 0\n",
        base()
    );
    sweep.bench.scratch.file("sft.toml", sft);
    let (table, said) = sweep.run(&[]);
    assert!(said.contains("0.0001/2: done, 4 steps"), "{said}");
    assert!(
        table.contains("sft/loss over the last tenth of the steps, nats")
            && table.contains("    0.001  "),
        "{table}"
    );
    assert!(table.contains("  against 0.001") && !table.contains("n/a"), "{table}");
}

#[test]
fn one_that_fails_is_named_and_the_others_go_on() {
    let sweep = Sweep::new(METHODS);
    // A run that has made no step, and cannot: a file is where its responses are to be.
    let other = sweep.bench.run("other", &["run.steps=1"], &[]);
    let broken = sweep.out("kl-cov/3");
    fs::create_dir_all(&broken).unwrap();
    fs::copy(other.join(".recipe.json"), broken.join(".recipe.json")).unwrap();
    fs::write(broken.join("rollouts"), "").unwrap();
    let output = sweep.command(&["--jobs", "1"]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("warning: kl-cov/3: failed after ") && said.contains("plain/4: done"),
        "{said}"
    );
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("error: 1 of 4 runs failed: kl-cov/3: ") && last.contains("kl-cov/3.log"),
        "{said}"
    );
    assert!(last.contains("rollouts: "), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("1 of 2 seeds finished, so no interval"), "{table}");
    assert!(table.contains("kl-cov/3 has recorded nothing and is left out."), "{table}");

    fs::remove_dir_all(sweep.out("plain")).unwrap();
    let output = sweep.command(&["--jobs", "1", "--fail-fast"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!sweep.out("plain").exists(), "{}", stderr(&output));

    fs::remove_dir_all(&broken).unwrap();
    let (_, said) = sweep.run(&[]);
    assert!(said.contains("kl-cov/3: begins") && said.contains("4 done"), "{said}");
}

/// A full disk is found once, before each run finds it at its first checkpoint.
#[test]
fn a_full_disk_ends_a_sweep() {
    let sweep = Sweep::new(METHODS);
    fs::create_dir(sweep.out("")).unwrap();
    let Some(disk) = SmallDisk::new(text(&sweep.out("")), "200k") else {
        skipped("mounting a small disk needs root");
        return;
    };
    let said = stderr(&sweep.command(&["--jobs", "1"]).output().unwrap());
    assert!(
        said.contains("warning: kl-cov/3: failed after ") && said.contains("No space left"),
        "{said}"
    );
    assert!(
        said.contains("the disk is full: no other run is begun")
            && !said.contains("plain/3: begins"),
        "{said}"
    );
    disk.resize("64m");
    let (_, said) = sweep.run(&[]);
    assert!(said.contains("4 done, 0 left"), "{said}");
}

#[test]
#[ignore = "deep: makes models anew again and again"]
fn models_are_made_before_the_runs_that_begin_with_them() {
    let sweep = Sweep::new(
        "base = \"recipe.toml\"\n[models.short]\nbase = \"sft.toml\"\nset.run.steps = 3\n\
         [models.long]\nbase = \"sft.toml\"\n\
         [axes.base.short]\nmodel.path = \"{short}\"\n[axes.base.long]\nmodel.path = \"{long}\"\n",
    );
    let sft = format!(
        "run.steps = 5\nmodel.path = {:?}\ndata.task = \"countdown\"\nsft.batch = 4\neval.every = 0\nrun.out = \"elsewhere\"\n",
        base()
    );
    sweep.bench.scratch.file("sft.toml", &sft);
    let sets = ["--set", "run.steps=2"];
    let plan = stdout_of(&mut sweep.command(&[&sets[..], &["--dry-run"]].concat()));
    assert!(
        plan.contains("models/short  to do, 3 steps")
            && plan.contains("short         to do, 2 steps"),
        "{plan}"
    );
    // Like runs are expected to take as long: speed is measured once.
    let times: Vec<&str> = plan
        .lines()
        .filter(|line| line.contains("to do, 2 steps"))
        .map(|line| line.split("about").last().unwrap())
        .collect();
    assert!(times.len() == 2 && times[0] == times[1], "{plan}");
    let (_, said) = sweep.run(&sets);
    assert!(
        said.find("models/short: done").unwrap() < said.find("\nshort: begins").unwrap(),
        "{said}"
    );
    let recipe = fs::read_to_string(sweep.out("short/recipe.toml")).unwrap();
    assert!(recipe.contains(&text(&sweep.out("models/short/checkpoints/step-000003"))), "{recipe}");

    // Called otherwise or copied, it is the same sweep.
    sweep.run(&sets);
    let copy = sweep.bench.scratch.path("copy");
    assert!(
        Command::new("cp").args(["-r", &text(&sweep.out("")), &copy]).status().unwrap().success()
    );
    let arguments = [&["sweep", &sweep.file, "--out", &copy, "--dry-run"], &sets[..]].concat();
    let said = stdout_of(&mut isentrope(&arguments));
    assert!(said.contains("4 runs: 4 done, 0 left"), "{said}");

    // A model that nothing has begun with is made anew where its checkpoint was removed.
    for gone in ["long", "models/long/checkpoints"] {
        fs::remove_dir_all(sweep.out(gone)).unwrap();
    }
    let (_, said) = sweep.run(&sets);
    assert!(said.contains("models/long: done, 5 steps") && said.contains("\nlong: done"), "{said}");

    // A run that has begun with a model stays with it: changed, it is refused, and so are others in
    // its place.
    sweep.bench.scratch.file("sft.toml", format!("{sft}optimizer.learning_rate = 2e-3\n"));
    let changed = || {
        let output = sweep.command(&sets).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let said = changed();
    for part in [
        "models/short: was begun with other settings: optimizer.learning_rate ",
        "with it those of the runs that have begun with it: short\n",
        "with it those of the runs that have begun with it: long",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    let model = sweep.out("models/short");
    fs::remove_dir_all(sweep.out("models/long")).unwrap();
    fs::remove_dir_all(&model).unwrap();
    let said = changed();
    assert!(
        said.contains("models/short: there is no ")
            && said.contains("runs have begun with it: short; remove"),
        "{said}"
    );
    // Made anew by hand.
    let remade = isentrope(&[
        "sft",
        &text(&sweep.out("models/short.toml")),
        "--set",
        "optimizer.learning_rate=2e-3",
    ])
    .output()
    .unwrap();
    assert!(remade.status.success(), "{}", stderr(&remade));
    fs::remove_dir_all(sweep.out("long")).unwrap();
    let said = changed();
    assert!(said.contains("step-000003 is not what runs have begun with: short; remove"), "{said}");
    fs::remove_dir_all(sweep.out("short")).unwrap();
    let (_, said) = sweep.run(&sets);
    assert!(said.contains("long: done") && said.contains("short: done"), "{said}");

    sweep.bench.scratch.file(
        "sweep.toml",
        "base = \"recipe.toml\"\nset.model.path = \"{shrt}\"\n[models.short]\nbase = \"sft.toml\"\n\
         [axes]\nseed = { key = \"run.seed\", values = [1] }\n",
    );
    failure_saying(
        &mut sweep.command(&[]),
        &["sweep.toml:2", "there is no [models.shrt]", "did you mean `short`"],
    );
}

/// A model that all runs wait for has the whole machine, and these share it.
#[test]
fn what_runs_alone_has_all_threads() {
    let sweep = Sweep::new(
        "base = \"recipe.toml\"\nset.model.path = \"{start}\"\n[models.start]\nbase = \"sft.toml\"\n\
         [axes]\nseed = { key = \"run.seed\", values = [1, 2] }\n",
    );
    let sft = format!(
        "run.steps = 3\nmodel.path = {:?}\ndata.task = \"countdown\"\nsft.batch = 4\neval.every = 0\n",
        base()
    );
    sweep.bench.scratch.file("sft.toml", sft);
    let sets = ["--jobs", "2", "--set", "run.steps=2"];
    sweep.run(&sets);
    let threads =
        |run: &str| -> Value { json_of(&sweep.out(run).join("manifest.json"))["threads"].clone() };
    assert_eq!(
        (threads("models/start"), threads("1"), threads("2")),
        (2.into(), 1.into(), 1.into())
    );
    fs::remove_dir_all(sweep.out("2")).unwrap();
    sweep.run(&sets);
    assert_eq!(threads("2"), 2, "the last one alone");
}

#[test]
fn what_is_wrong_with_a_sweep_is_named_before_it_begins() {
    let cases: toml::Table = toml::from_str(include_str!("sweep_refusals.toml")).unwrap();
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let case: Vec<&str> =
            case.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        let (file, parts) = (case[0], &case[1..]);
        let sweep = Sweep::new(file);
        let output = sweep.command(&[]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{file}: {said}");
        let missing = parts.iter().filter(|part| !said.contains(**part));
        wrong.extend(missing.map(|part| format!("{part:?} is not in: {said}")));
        assert!(!said.contains('\u{1b}') && !said.contains("panicked"), "{said}");
        assert!(!sweep.out("").exists(), "{file}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let scratch = Scratch::new();
    failure_saying(
        &mut isentrope(&["sweep", &scratch.path("none.toml")]),
        &["none.toml", "No such file"],
    );
    let sweep = Sweep::new(METHODS);
    for (flags, parts) in [
        (["--jobs", "0"], ["--jobs is 0", ""]),
        (["--set", "model.path=no/such/model"], ["kl-cov/3", "no/such/model"]),
        (["--set", "memory.budget_gib=0.001"], ["kl-cov/3 and ", "memory"]),
    ] {
        failure_saying(&mut sweep.command(&flags), &parts);
    }
}

#[test]
fn combinations_can_be_left_out() {
    let sweep = Sweep::new(
        &METHODS
            .replace(
                "[axes]\n",
                "[axes]\nsize = { key = \"rollout.responses\", values = [4, 2] }\n",
            )
            .replace(
                "base =",
                "exclude = [{ method = \"plain\", size = 2 }, { seed = 4, size = 4 }]\nbase =",
            ),
    );
    let plan = stdout_of(&mut sweep.command(&["--dry-run"]));
    let runs: Vec<&str> = plan
        .lines()
        .filter_map(|line| line.trim().split_once("  to do").map(|(name, _)| name.trim()))
        .collect();
    assert_eq!(runs, ["kl-cov/4/3", "kl-cov/2/3", "kl-cov/2/4", "plain/4/3"]);
}

/// The pages' examples stand beside the recipes, where their bases are.
#[test]
fn the_sweeps_of_the_pages_are_sound() {
    let scratch = Scratch::new();
    stdout_of(isentrope(&["examples", &scratch.path("")]).current_dir(scratch.path("")));
    let page = all_pages();
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let mut shown = 0;
    for block in blocks.filter(|block| block.contains("base =") && block.contains("axes")) {
        let file = scratch.file("recipes/sweep.toml", block);
        let plan =
            stdout_of(isentrope(&["sweep", &file, "--dry-run"]).current_dir(scratch.path("")));
        assert!(plan.lines().last().unwrap().contains(" left, about "), "{plan}");
        shown += 1;
    }
    assert!(shown >= 1, "{shown}");
}

/// With a small model in the place of those that are the hub's, which is not asked in tests, and of
/// what another run makes.
#[test]
fn the_experiments_are_sound() {
    let scratch = Scratch::new();
    stdout_of(&mut isentrope(&["examples", &scratch.path("")]));
    let model = text_model(&scratch, "model");
    let elsewhere = [
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "Qwen/Qwen2.5-Coder-1.5B-Instruct",
        "runs/smollm2-135m-arithmetic/checkpoints/step-000060",
    ];
    let of = |directory: &str| {
        let names = names(Path::new(&scratch.path(directory)));
        names.into_iter().filter(|name| name.ends_with(".toml"))
    };
    for directory in ["recipes", "experiments"] {
        for name in of(directory) {
            let path = scratch.path(&format!("{directory}/{name}"));
            let text = elsewhere.iter().fold(fs::read_to_string(&path).unwrap(), |text, path| {
                text.replace(&format!("\"{path}\""), &format!("{:?}", model.display().to_string()))
            });
            // Its tokens are shorter, so examples have more of them.
            fs::write(
                path,
                text.replace(
                    "[sft]\nbatch = 16\nmax_tokens = 128",
                    "[sft]\nbatch = 16\nmax_tokens = 512",
                ),
            )
            .unwrap();
        }
    }
    for name in of("experiments") {
        let path = format!("experiments/{name}");
        let mut sweep = isentrope(&["sweep", &path, "--dry-run", "--threads", "2"]);
        let plan = stdout_of(sweep.current_dir(scratch.path("")));
        assert!(
            plan.contains(" to do, ") && plan.lines().last().unwrap().contains(" left, about "),
            "{name}: {plan}"
        );
    }
}

/// `[quick]` is laid over the axes, keeps some of their values, and has a directory of its own.
#[test]
fn a_quick_look_is_a_smaller_sweep_elsewhere() {
    let file = METHODS.replace("[axes]\n", "run.steps = 5\n[axes]\n")
        + "[quick]\nset.run.steps = 2\nset.eval.every = 0\nmethod = \"plain\"\nseed = [4]\n";
    let sweep = Sweep::new(&format!("out = \"sub/whole/\"\n{file}"));
    let here = sweep.bench.scratch.path("");
    let run = |flags: &[&str]| {
        stdout_of(
            isentrope(&[&["sweep", &sweep.file, "--dry-run"], flags].concat()).current_dir(&here),
        )
    };
    let whole = run(&[]);
    assert!(
        whole.contains("4 left") && whole.contains("plain/3") && whole.contains("to do, 5 steps"),
        "{whole}"
    );
    let quick = run(&["--quick"]);
    assert!(quick.contains("plain/4  to do, 2 steps") && quick.contains("1 left"), "{quick}");
    let flags_first = run(&["--quick", "--set", "run.steps=3"]);
    assert!(flags_first.contains("to do, 3 steps"), "{flags_first}");
    let made = isentrope(&["sweep", &sweep.file, "--quick"]).current_dir(&here).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let out = PathBuf::from(&here).join("sub/whole-quick");
    assert!(
        out.join("plain/4/metrics.jsonl").is_file()
            && !PathBuf::from(&here).join("sub/whole").exists()
    );
    assert!(
        fs::read_to_string(out.join("table.md")).unwrap().starts_with("# sweep, a quick look\n")
    );

    let plain = Sweep::new(METHODS);
    failure_saying(
        &mut plain.command(&["--quick"]),
        &["sweep.toml: --quick: the file has no table [quick]", "seed = [1]"],
    );
    for empty in ["[quick]\n", "[quick.set]\n", "[quick]\nseed = [3, 4]\n"] {
        let same = Sweep::new(&format!("{METHODS}{empty}"));
        failure_saying(
            &mut same.command(&["--quick"]),
            &["--quick: the file has a table [quick] that changes nothing"],
        );
    }
}

/// Models that are made first may be made in fewer steps too.
#[test]
fn a_quick_look_may_make_its_models_quickly() {
    let models = "[models.short]\nbase = \"sft.toml\"\nset.run.steps = 9\n[axes.start.short]\nmodel.path = \"{short}\"\n";
    let sweep = Sweep::new(&format!(
        "base = \"recipe.toml\"\n{models}[quick.models]\nshort.run.steps = 3\n"
    ));
    let sft = Bench::sft();
    sweep
        .bench
        .scratch
        .file("sft.toml", fs::read_to_string(sft.scratch.path("recipe.toml")).unwrap());
    for (flags, steps) in [(&["--dry-run"][..], "9 steps"), (&["--dry-run", "--quick"], "3 steps")]
    {
        let plan = stdout_of(&mut sweep.command(flags));
        let model = plan.lines().find(|line| line.contains("models/short")).unwrap();
        assert!(model.contains(steps), "{plan}");
    }
}
