//! `isentrope sweep`: many runs along axes. `src/commands/sweep` tests what a file may say.

use crate::processes::{send, until, wait_until};
use crate::program::{
    Scratch, all_pages, assert_parts, failure, failure_saying, isentrope, json_of, names, outcome,
    spoken, stderr, stdout_of, text,
};
use crate::text_model::text_model;
use crate::train_distill::distill;
use crate::training::{Bench, assert_same_results, base, tree, weights};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

const METHODS: &str = "base = \"recipe.toml\"\n[axes.method.kl-cov]\n[axes.method.plain]\n\
                       objective.covariance.method = \"none\"\n[axes]\n\
                       seed = { key = \"run.seed\", values = [3, 4] }\n";

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

    /// A sweep along seeds alone.
    fn of_seeds(values: &str) -> Self {
        Self::new(&format!(
            "base = \"recipe.toml\"\n[axes]\nseed = {{ key = \"run.seed\", values = {values} }}\n"
        ))
    }

    fn out(&self, path: &str) -> PathBuf {
        PathBuf::from(self.bench.scratch.path("out")).join(path)
    }

    fn command(&self, flags: &str) -> Command {
        let out = self.bench.scratch.path("out");
        isentrope(format!("sweep {} --out {out} --threads 2 {flags}", self.file))
    }

    /// A sweep that must succeed: what it prints and what it says.
    fn run(&self, flags: &str) -> (String, String) {
        spoken(self.command(flags))
    }

    fn lines(&self, run: &str) -> usize {
        crate::training::lines(&self.out(run))
    }
}

#[test]
fn every_combination_is_the_run_that_train_makes() {
    let sweep = Sweep::new(METHODS);
    let plan = stdout_of(sweep.command("--dry-run"));
    assert_parts(&plan, &["kl-cov/3  to do, 2 steps", "4 runs: 0 done, 4 left, about "]);
    assert!(plan.lines().all(|line| line.chars().count() <= 80), "{plan}");
    assert!(!sweep.out("").exists(), "a dry run writes nothing");

    let (table, said) = sweep.run("");
    for run in ["kl-cov/3", "kl-cov/4", "plain/3", "plain/4"] {
        assert_parts(&said, &[&format!("{run}: begins\n"), &format!("{run}: done, 2 steps in ")]);
    }
    let begins = |run: &str| said.find(&format!("{run}: begins\n"));
    assert!(begins("plain/3") < begins("kl-cov/4"), "seed by seed: {said}");
    assert_parts(&said, &["4 done, 0 left\n"]);
    assert_parts(&table, &["problems: mean@2 at the end, %", "  against kl-cov"]);
    for (run, sets) in [("kl-cov/4", "run.seed=4"), ("plain/3", "objective.covariance.method=none")]
    {
        assert_same_results(&sweep.bench.run(&run.replace('/', "-"), sets, ""), &sweep.out(run));
    }
    let written = [".log", ".toml", ""].map(|ending| format!("3{ending}"));
    assert!(written.iter().all(|name| names(&sweep.out("kl-cov")).contains(name)));
    let summary = json_of(&sweep.out("table.json"));
    assert_eq!(summary["groups"][1]["name"], "plain");
    assert_eq!(summary["groups"][1]["seeds"], json!([3, 4]));
    let ends = ["kl-cov/3", "kl-cov/4"].map(|run| {
        crate::training::metrics(&sweep.out(run)).pop().unwrap()["eval/problems/mean@2"].clone()
    });
    assert_eq!(summary["rows"][0]["means"][0]["runs"], json!(ends));
    let markdown = fs::read_to_string(sweep.out("table.md")).unwrap();
    assert!(markdown.starts_with("# sweep\n\n| "), "{markdown}");
    let report = fs::read_to_string(sweep.out("report.html")).unwrap();
    assert_parts(&report, &["<bdi>kl-cov/3</bdi>", "<bdi>plain/4</bdi>"]);

    // Once more: nothing is left to do.
    let before = tree(&sweep.out("plain"));
    let (again, said) = sweep.run("");
    assert_eq!(again, table);
    assert!(said.contains("plain/4   done, 2 steps") && !said.contains("begins"), "{said}");
    assert!(before == tree(&sweep.out("plain")));
    // Settings that change no result are no others.
    let same = ["checkpoint.keep=1", "device.kind=cpu", "memory.budget_gib=2"];
    let same = same.map(|set| format!("--set {set}")).join(" ");
    let said = stdout_of(sweep.command(&format!("{same} --dry-run")));
    assert_parts(&said, &["4 runs: 4 done, 0 left"]);
    let other =
        "kl-cov/3 and 3 other runs: was begun with other settings: optimizer.clip_norm 1.0 -> 0.5";
    let said = failure(sweep.command("--set optimizer.clip_norm=0.5"));
    assert_parts(&said, &[other, "--out"]);
}

#[test]
fn somebody_elses_directory_is_left_alone() {
    let sweep = Sweep::new(METHODS);
    let run = sweep.bench.copy_of_run("run", "run.steps=1");
    let before = tree(&run);
    for (out, why) in [
        (text(&run), "holds a run; name another directory with --out"),
        (text(&run.join("checkpoints")), "has files in it and is no sweep; name another"),
        ("/proc/x".to_owned(), "--out is /proc/x, and one cannot write in /proc: "),
    ] {
        for flag in ["", "--dry-run"] {
            let line = format!("sweep {} --out {out} {flag}", sweep.file);
            failure_saying(isentrope(line), &[&out, why]);
        }
    }
    assert_eq!(tree(&run), before);
    for (flags, parts) in [
        ("--jobs 0", ["--jobs is 0", ""]),
        ("--set model.path=no/such/model", ["kl-cov/3", "no/such/model"]),
        ("--set memory.budget_gib=0.001", ["kl-cov/3 and ", "memory"]),
    ] {
        failure_saying(sweep.command(flags), &parts);
    }
}

#[test]
fn a_wrong_number_of_threads_is_named_where_it_stands() {
    let sweep = Sweep::new(METHODS);
    let out = sweep.bench.scratch.path("out");
    let mut command = isentrope(format!("sweep {} --out {out} --dry-run", sweep.file));
    let said = failure(command.env("ISENTROPE_THREADS", "none"));
    assert!(said.contains("ISENTROPE_THREADS") && !said.contains("--threads"), "{said}");
}

#[test]
fn runs_may_be_made_longer_where_the_learning_rate_is_constant_and_seeds_added() {
    let sweep = Sweep::of_seeds("[3]");
    let steps = |steps: u64| format!("--set optimizer.schedule=constant --set run.steps={steps}");
    sweep.run(&steps(1));
    let (_, said) = sweep.run(&steps(2));
    assert_parts(&said, &["3: goes on after step 1 of 2"]);
    let longer = sweep.bench.run("longer", "run.steps=2 optimizer.schedule=constant", "");
    assert!(weights(&longer, 2) == weights(&sweep.out("3"), 2));
    let shorter = failure(sweep.command(&steps(1)));
    assert_parts(&shorter, &["was begun with other settings: run.steps 2 -> 1;"]);
    let falling = failure(sweep.command("--set run.steps=3"));
    assert_parts(&falling, &["optimizer.schedule \"constant\" -> \"cosine\""]);
    // A program that has one setting more takes over what an older one has made.
    let values = sweep.out("3/.recipe.json");
    let mut older = json_of(&values);
    assert!(older["lab"].as_object_mut().unwrap().remove("track_theory").is_some());
    fs::write(&values, older.to_string()).unwrap();
    let file = fs::read_to_string(&sweep.file).unwrap();
    fs::write(&sweep.file, file.replace("[3]", "[3, 4]")).unwrap();
    let (table, _) = sweep.run(&steps(2));
    assert_parts(&table, &["  2 seeds"]);
    let report = fs::read_to_string(sweep.out("report.html")).unwrap();
    assert_parts(&report, &["<h2>Over seeds</h2>", ">2 seeds<"]);
}

#[test]
fn groups_are_compared_with_what_the_file_names() {
    let sweep = Sweep::new(&format!(
        "{METHODS}[axes.method.bonus]\nobjective.entropy_bonus.coefficient = 0.01\n\
         [compare]\nbonus = \"plain\"\n"
    ));
    let (text, _) = sweep.run("--set run.steps=1");
    assert_parts(&text, &["  against kl-cov", "  against plain"]);
    let summary = json_of(&sweep.out("table.json"));
    let against: Vec<&Value> = (0..3).map(|i| &summary["rows"][0]["against"][i]["group"]).collect();
    assert_eq!(json!(against), json!([null, "kl-cov", "plain"]));
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "deep: several sweeps, interrupted at many places"]
fn what_is_interrupted_goes_on_to_the_same_bits() {
    let sweep = Sweep::of_seeds("[3, 4, 5]");
    let sets = "run.steps=60 eval.every=0 checkpoint.every=6";
    let flags = sets.split(' ').map(|set| format!("--set {set}")).collect::<Vec<_>>().join(" ");
    let whole = sweep.bench.run("whole", sets, "");
    let start = || {
        let mut command = sweep.command(&flags);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = sweep.lines("3");
        wait_until(PATIENCE, &mut child, || sweep.lines("3") > begun.max(2));
        child
    };
    let child = start();
    failure_saying(sweep.command(&flags), &["another process is sweeping in"]);
    send("TERM", &child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    let parts = [
        "SIGTERM: finishing the current steps",
        "3: ended at step",
        "error: interrupted: 0 done, 3 left",
        "the same command goes on",
    ];
    assert_parts(&said, &parts);
    assert!(!names(&sweep.out("3/checkpoints")).is_empty());

    // Killed, it takes its runs with it: they save what they have, and the next sweep waits for
    // them.
    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, said) = sweep.run(&flags);
    assert_parts(&said, &["3: goes on after step "]);
    assert_same_results(&whole, &sweep.out("3"));
    let log = fs::read_to_string(sweep.out("3.log")).unwrap();
    assert_eq!(log.matches("$ isentrope train").count(), 3);
}

/// The second signal does not wait for a step that never ends, and leaves no run behind.
#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_ends_the_runs_too() {
    let sweep = Sweep::of_seeds("[1, 2]");
    let asked = sweep.bench.scratch.path("asked");
    let script = sweep.bench.scratch.file("hang.sh", "read -r line; echo >> $1; sleep 1000");
    let verifier = format!("{{command=[\"sh\",{script:?},{asked:?}],timeout_s=1000}}");
    let mut command =
        sweep.command(&format!("--set reward.verifier={verifier} --set eval.every=0"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let both = || fs::read_to_string(&asked).is_ok_and(|text| text.lines().count() >= 2);
    wait_until(PATIENCE, &mut child, both);
    let children = ["-o", "pid=", "--ppid", &child.id().to_string()].map(str::to_owned);
    let ps = Command::new("ps").args(children).output().unwrap();
    let runs = String::from_utf8(ps.stdout).unwrap();
    assert_eq!(runs.split_whitespace().count(), 2);
    for _ in 0..2 {
        send("TERM", &child);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let goes_on = || runs.split_whitespace().any(crate::processes::runs);
    until(PATIENCE, "the runs go on", || !goes_on());
}

#[test]
fn supervised_fine_tuning_is_swept_too() {
    let sweep = Sweep::new(
        "command = \"sft\"\nbase = \"sft.toml\"\n[axes]\n\
         rate = { key = \"optimizer.learning_rate\", values = [1e-3, 1e-4] }\n\
         seed = { key = \"run.seed\", values = [1, 2] }\n",
    );
    let sft = "data.task = \"countdown\"\nsft.batch = 4\neval.every = 0\nrun.steps = 4\n";
    sweep.bench.scratch.file("sft.toml", format!("model.path = {:?}\n{sft}", base()));
    let (table, said) = sweep.run("");
    assert_parts(&said, &["0.0001/2: done, 4 steps"]);
    let loss = "sft/loss over the last tenth of the steps, nats";
    assert_parts(&table, &[loss, "    0.001  ", "  against 0.001"]);
    assert!(!table.contains("n/a"), "{table}");
}

#[test]
fn a_hub_is_asked_for_a_model_once() {
    let rates = "base = \"recipe.toml\"\n[axes]\n\
                 rate = { key = \"optimizer.learning_rate\", values = [1e-3, 1e-4] }\n";
    let taught = format!(" {}", distill("Qwen/Qwen2.5-0.5B")).replace(' ', " --set ");
    for (sweep, sets, said_of) in [
        (METHODS, " --set model.path=Qwen/Qwen2.5-0.5B", "kl-cov/3 and 3 other runs: Qwen/"),
        (rates, &*taught, "0.001 and 1 other run: objective.distillation.teacher is Qwen/"),
    ] {
        let sweep = Sweep::new(sweep);
        let mut plan = sweep.command(&format!("--dry-run{sets}"));
        plan.env("HF_ENDPOINT", "http://127.0.0.1:9").env("HF_HUB_OFFLINE", "0");
        let (output, said) = outcome(plan);
        assert!(!output.status.success());
        assert_eq!(said.matches("asking http://127.0.0.1:9").count(), 1, "{said}");
        assert_parts(&said, &[&format!("error: {said_of}")]);
        assert!(!said.contains("retry"), "{said}");
    }
}

#[test]
fn one_that_fails_is_named_and_the_others_go_on() {
    let sweep = Sweep::new(METHODS);
    // A run that has made no step, and cannot: a file is where its responses are to be.
    let other = sweep.bench.copy_of_run("other", "run.steps=1");
    let broken = sweep.out("kl-cov/3");
    fs::create_dir_all(&broken).unwrap();
    fs::copy(other.join(".recipe.json"), broken.join(".recipe.json")).unwrap();
    fs::write(broken.join("rollouts"), "").unwrap();
    let (output, said) = outcome(sweep.command("--jobs 1"));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_parts(&said, &["warning: kl-cov/3: failed after ", "plain/4: done"]);
    let last = said.lines().last().unwrap();
    let parts = ["error: 1 of 4 runs failed: kl-cov/3: ", "kl-cov/3.log", "rollouts: "];
    assert_parts(last, &parts);
    let table = String::from_utf8(output.stdout).unwrap();
    let left_out = "kl-cov/3 has recorded nothing and is left out.";
    assert_parts(&table, &["1 of 2 seeds finished, so no interval", left_out]);
    fs::remove_dir_all(&broken).unwrap();
    let (_, said) = sweep.run("");
    assert_parts(&said, &["kl-cov/3: begins", "4 done"]);
}

/// Plans the sweeps that pages show, or the experiments, and returns how many there are. Examples
/// of pages stand beside the recipes, where their bases are. A small model takes the place of a
/// model of the hub or of another run.
fn plan_all(of_pages: bool) -> usize {
    let scratch = Scratch::new();
    stdout_of(isentrope(format!("examples {}", scratch.path(""))));
    let page = all_pages();
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let shown = blocks.filter(|block| block.contains("base =") && block.contains("axes"));
    for (i, block) in shown.enumerate() {
        scratch.file(&format!("experiments/page-{i}.toml"), block);
    }
    let model = text(&text_model(&scratch, "model"));
    let (model, worked) = (format!("{model:?}"), format!("{:?}", format!("{model}/")));
    let elsewhere = [
        ("\"HuggingFaceTB/SmolLM2-135M-Instruct\"", &*model),
        ("\"Qwen/Qwen2.5-Coder-1.5B-Instruct\"", &model),
        ("\"runs/smollm2-135m-arithmetic/checkpoints/step-000060\"", &model),
        ("\"runs/smollm2-135m-worked/checkpoints/step-000020\"", &worked),
        // Other paths of one model are other models.
        ("\"runs/countdown-direct-base/checkpoints/step-000120\"", "\"assets/countdown-base\""),
        ("\"runs/countdown-brief-base/checkpoints/step-000120\"", "\"./assets/countdown-base\""),
        ("\"runs/countdown-early-base/checkpoints/step-000040\"", "\"assets/countdown-base/\""),
        ("\"runs/countdown-able-base/checkpoints/step-000240\"", "\"assets/countdown-base\""),
    ];
    for directory in ["recipes", "experiments"] {
        let directory = PathBuf::from(scratch.path(directory));
        for name in names(&directory).into_iter().filter(|name| name.ends_with(".toml")) {
            let recipe = fs::read_to_string(directory.join(&name)).unwrap();
            let recipe =
                elsewhere.iter().fold(recipe, |recipe, (path, here)| recipe.replace(path, here));
            // Its tokens are shorter, so examples have more of them.
            let short = "[sft]\nbatch = 16\nmax_tokens = 128";
            let recipe = recipe.replace(short, &short.replace("128", "512"));
            fs::write(directory.join(name), recipe).unwrap();
        }
    }
    let sweeps = names(Path::new(&scratch.path("experiments"))).into_iter();
    let is_meant = |name: &String| name.ends_with(".toml") && name.starts_with("page-") == of_pages;
    let plan = |name: String| {
        let mut sweep = isentrope(format!("sweep experiments/{name} --dry-run --threads 2"));
        let plan = stdout_of(sweep.current_dir(scratch.path("")));
        assert_parts(plan.lines().last().unwrap(), &[" left, about "]);
    };
    sweeps.filter(is_meant).map(plan).count()
}

#[test]
fn the_sweeps_of_pages_are_sound() {
    assert!(plan_all(true) > 0);
}

#[test]
#[ignore = "deep: reads the data of hundreds of runs"]
fn the_sweeps_of_experiments_are_sound() {
    assert!(plan_all(false) >= 12);
}
