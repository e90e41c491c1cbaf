//! Runs that end before their time, and go on. `crates/learn/train` tests what a run's directory
//! accepts and what ranks save.

use crate::processes::{kill, start, until_reached};
use crate::program::{assert_parts, failure, failure_last, isentrope, names, outcome, text};
use crate::training::{
    Bench, assert_resumes, assert_same_results, base, checkpoint, differences, lines, metrics,
    results, state, succeed, tree,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Whether a checkpoint is being written or removed.
fn is_saving(out: &Path) -> bool {
    fs::read_dir(out.join("checkpoints")).is_ok_and(|entries| {
        entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with('.'))
    })
}

/// The files that have changed, but for event files, since each process writes a new one.
fn changed(before: &Path, out: &Path) -> Vec<String> {
    let mut changed = differences(&tree(before), &tree(out));
    changed.retain(|name| !name.starts_with("tensorboard/"));
    changed
}

#[test]
fn a_run_that_is_killed_after_a_step_ends_with_the_same_bytes() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = "run.steps=5 eval.every=0";
        let whole = bench.run("whole", sets, "");
        let killed = bench.out("killed");
        for step in [1, 3] {
            let mut child = start(bench.command("killed", sets, "--resume"));
            until_reached(&mut child, || lines(&killed) > step);
            kill(&mut child);
        }
        succeed(bench.command("killed", sets, "--resume"));
        assert_same_results(&whole, &killed);
    }
}

#[test]
#[ignore = "deep: kills runs again and again"]
fn a_run_that_is_killed_at_any_moment_ends_with_the_same_bytes() {
    let adapters = "lora.rank=3 rollout.when_short=train";
    for (bench, more) in [(Bench::train(), ""), (Bench::train(), adapters), (Bench::sft(), "")] {
        let sets = &format!("run.steps=9 checkpoint.every=1 checkpoint.keep=1 {more}");
        let whole = bench.run("whole", sets, "");
        let killed = bench.out("killed");
        let resume = || bench.command("killed", sets, "--resume");
        // In its first moments, which differ by what an earlier one has left behind.
        for milliseconds in [0, 5, 10, 20] {
            let mut child = start(resume());
            std::thread::sleep(Duration::from_millis(milliseconds));
            kill(&mut child);
        }
        let mut kills = 0;
        // And all over its length, at different moments of a step.
        for step in 1..=9 {
            let mut child = start(resume());
            until_reached(&mut child, || lines(&killed) > step);
            std::thread::sleep(Duration::from_micros(2357 * step as u64 % 7000));
            kills += u32::from(kill(&mut child));
        }
        assert!(kills >= 4, "only {kills} runs were killed after a step");
        // And while it saves.
        for delay in [0, 300, 1000, 2000, 4000] {
            let mut child = start(resume());
            until_reached(&mut child, || is_saving(&killed));
            std::thread::sleep(Duration::from_micros(delay));
            kill(&mut child);
        }
        succeed(resume());
        assert_same_results(&whole, &killed);
    }
}

#[test]
fn a_run_that_must_be_resumed_and_cannot_is_an_error() {
    let bench = Bench::sft();
    let sets = "run.steps=2 eval.every=0 optimizer.schedule=constant";
    let parts = ["checkpoints: there is no checkpoint", "--resume=must", "--resume begins"];
    failure_last(bench.command("run", sets, "--resume=must"), &parts);
    assert!(!bench.out("run").exists());
    bench.run("run", "run.steps=1 eval.every=0 optimizer.schedule=constant", "--resume=if-any");
    let said = succeed(bench.command("run", sets, "--resume=must"));
    assert_parts(&said, &["resuming after step 1"]);
    fs::remove_dir_all(bench.out("run").join("checkpoints")).unwrap();
    for flags in ["--resume=must", "--resume=must --dry-run"] {
        failure_last(bench.command("run", sets, flags), &parts);
    }
}

/// Also one that a kill in its first moments has left, or that was never started.
#[test]
fn a_run_that_was_hardly_begun_is_resumed_from_the_beginning() {
    let bench = Bench::sft();
    let sets = "run.steps=3 checkpoint.every=0 eval.every=0";
    let whole = bench.run("whole", sets, "");
    for (i, left) in
        [&[][..], &[".recipe.partial"], &[".recipe.json", "recipe.partial"]].iter().enumerate()
    {
        let dir = bench.out(&format!("begun-{i}"));
        fs::create_dir(&dir).unwrap();
        for file in *left {
            let is_whole = *file == ".recipe.json";
            let bytes = if is_whole { fs::read(whole.join(file)).unwrap() } else { b"{".to_vec() };
            fs::write(dir.join(file), bytes).unwrap();
        }
        succeed(bench.command(&format!("begun-{i}"), sets, "--resume"));
        assert_same_results(&whole, &dir);
    }
    let bench = Bench::train();
    let sets = "run.steps=8 checkpoint.every=0 eval.every=0";
    let whole = bench.run("whole", sets, "");
    let killed = bench.out("killed");
    let mut child = start(bench.command("killed", sets, ""));
    until_reached(&mut child, || lines(&killed) > 1);
    assert!(kill(&mut child), "it ended before it was killed");
    let said = succeed(bench.command("killed", sets, "--resume"));
    assert_parts(&said, &["no checkpoint to resume from"]);
    assert_same_results(&whole, &killed);
}

#[test]
fn a_finished_run_goes_on_when_it_is_given_more_steps() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = "optimizer.schedule=constant eval.every=2";
        let whole = bench.run("whole", format!("{sets} run.steps=4"), "");
        bench.run("parts", format!("{sets} run.steps=2"), "");
        let said = succeed(bench.command("parts", format!("{sets} run.steps=4"), "--resume"));
        assert_parts(&said, &["run.steps 2 -> 4", "resuming after step 2"]);
        assert_same_results(&whole, &bench.out("parts"));
        // And once more, with nothing left to do; with other settings, its recipe stays.
        let recipe = fs::read(bench.out("parts").join("recipe.toml")).unwrap();
        let other = format!("{sets} run.steps=4 run.seed=7");
        let said = succeed(bench.command("parts", other, "--resume"));
        assert_parts(&said, &["than the run was last started with", "has made 4 of 4 steps"]);
        assert_same_results(&whole, &bench.out("parts"));
        assert_eq!(fs::read(bench.out("parts").join("recipe.toml")).unwrap(), recipe);
    }
    // Evaluations that cannot be compared with those before are named, and the best checkpoint is
    // chosen anew: nothing is better than 0 % here.
    let bench = Bench::train();
    let out = bench.run("other", "eval.every=1 checkpoint.every=1 run.steps=1", "");
    let checkpoint = |step: u64| out.join(format!("checkpoints/step-{step:06}"));
    let resume = |steps: u64, otherwise: &str| {
        let sets = format!("eval.every=1 checkpoint.every=1 run.steps={steps} {otherwise}");
        let said = succeed(bench.command("other", sets, "--resume"));
        let state = fs::read(checkpoint(steps).join("trainer/state.json")).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        (said, state["best"][0].as_u64().unwrap())
    };
    for (steps, otherwise) in
        [(2, "eval.samples=3"), (3, "eval.top_p=0.5"), (4, "eval.stop=[\"1\"]")]
    {
        let (said, best) = resume(steps, otherwise);
        let named = format!("drawn otherwise, than up to step {}: problems", steps - 1);
        assert_parts(&said, &[&named]);
        assert_eq!(best, steps);
    }
    let (said, best) = resume(5, "eval.stop=[\"1\"]");
    assert!(!said.contains("drawn otherwise") && best == 4, "{best}: {said}");
    // Nor is a checkpoint the best that is no longer there.
    fs::remove_dir_all(checkpoint(4)).unwrap();
    assert_eq!(resume(6, "eval.stop=[\"1\"]").1, 6);
}

#[test]
fn whatever_a_run_learns_by_goes_on() {
    let bench = Bench::train();
    for (name, sets) in [
        ("remax", "objective.advantage=remax objective.reference_kl.coefficient=0.1"),
        (
            "clip-cov",
            "objective.loss=clip checkpoint.dtype=float16 \
             objective.covariance={method=\"clip-cov\",fraction=0.2,low=0.0,high=100.0}",
        ),
        ("++", "objective.advantage=reinforce++ reward.overlong={buffer=4,factor=0.3}"),
    ] {
        assert_resumes(&bench, name, sets, 1, 2);
    }
    // A changed coefficient counts from the first update on.
    let bonus = |coefficient| format!("objective.entropy_bonus={{coefficient={coefficient}}}");
    let out = bench.run("bonus", format!("{} run.steps=1", bonus(0.25)), "");
    bench.run("bonus", format!("{} run.steps=2", bonus(0.5)), "--resume");
    let of = |line: &serde_json::Value| line["entropy/bonus_coefficient"].as_f64().unwrap();
    assert_eq!(metrics(&out)[1..].iter().map(of).collect::<Vec<_>>(), [0.25, 0.5]);
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn truncate(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
}

fn first_in(dir: &Path) -> std::path::PathBuf {
    dir.join(&names(dir)[0])
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("flipped weights", |dir| flip(&dir.join("model.safetensors"))),
        ("truncated moments", |dir| truncate(&first_in(&dir.join("trainer/moments")))),
        ("flipped exact weights", |dir| flip(&first_in(&dir.join("trainer/weights")))),
        ("no tokenizer", |dir| fs::remove_file(dir.join("tokenizer.json")).unwrap()),
        ("flipped state", |dir| flip(&dir.join("trainer/state.json"))),
        ("no list", |dir| fs::remove_file(dir.join("trainer/files.json")).unwrap()),
    ];
    let bench = Bench::train();
    let sets = "run.steps=2 checkpoint.every=1 eval.every=0";
    let run = bench.run("run", sets, "");
    let whole = results(&run);
    for (what, damage) in damages {
        damage(&checkpoint(&run, 2));
        // Responses of a step that the run went back behind and will not make again.
        for left in ["rollouts/step-000007.jsonl", "tokens/step-000007.jsonl"] {
            fs::write(run.join(left), "").unwrap();
        }
        let said = succeed(bench.command("run", sets, "--resume"));
        let passed = ["passing over a damaged checkpoint", "step-000002", "resuming after step 1"];
        assert_parts(&said, &passed);
        // Damaged files are made again, and responses of later steps are gone.
        assert_eq!(differences(&whole, &results(&run)), [""; 0], "{what}");
    }
    // With every checkpoint damaged the run says what to do, and loses nothing.
    for step in [1, 2] {
        truncate(&checkpoint(&run, step).join("model.safetensors"));
    }
    let before = tree(&run);
    let (output, said) = outcome(bench.command("run", "run.steps=3 eval.every=0", "--resume"));
    assert_eq!(output.status.code(), Some(1));
    assert_parts(&said, &["every checkpoint is damaged", "--overwrite", "run.steps 2 -> 3"]);
    assert_eq!(differences(&before, &tree(&run)), [""; 0]);
}

#[test]
fn the_last_checkpoints_and_the_best_are_kept() {
    let bench = Bench::train();
    let sets = "checkpoint.every=1 eval.every=1 checkpoint.keep=2 rollout.filter=false \
                optimizer.learning_rate=3e-3";
    let out = bench.run("run", format!("{sets} run.steps=5"), "");
    let accuracy = |line: &serde_json::Value| line["eval/problems/mean@2"].as_f64().unwrap();
    let lines = metrics(&out);
    let better = |best, line| if accuracy(line) > accuracy(best) { line } else { best };
    let best = lines[1..].iter().fold(&lines[1], better)["step"].as_u64().unwrap();
    let kept = std::collections::BTreeSet::from([best, 4, 5]);
    let kept: Vec<String> = kept.into_iter().map(|step| format!("step-{step:06}")).collect();
    assert_eq!(names(&out.join("checkpoints")), kept);
    assert_eq!(state(&out, 5)["best"][0], best);
}

/// A disk that is full is played by a limit on the size of files.
#[test]
fn a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room() {
    let bench = Bench::train();
    let sets = "run.steps=2 optimizer.schedule=constant eval.every=0 checkpoint.every=1";
    let whole = bench.run("whole", sets, "");
    bench.run("full", sets.replace("steps=2", "steps=1"), "");
    let before = tree(&checkpoint(&bench.out("full"), 1));
    let command = bench.command("full", sets, "--resume");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args()).env("HF_HUB_OFFLINE", "1");
    failure_last(limited, &["safetensors", "too large"]);
    assert_eq!(names(&bench.out("full").join("checkpoints")), ["step-000001"]);
    assert_eq!(differences(&before, &tree(&checkpoint(&bench.out("full"), 1))), [""; 0]);
    succeed(bench.command("full", sets, "--resume"));
    assert_same_results(&whole, &bench.out("full"));
}

/// A directory in which nobody can make a file, not even root, takes the place of that of the token
/// records.
#[cfg(target_os = "linux")]
#[test]
fn a_step_whose_token_records_cannot_be_written_is_saved_and_goes_on_to_the_same_bytes() {
    let bench = Bench::train();
    let sets = "run.steps=3 optimizer.schedule=constant eval.every=1";
    let whole = bench.run("whole", sets, "");
    bench.run("parts", sets.replace("steps=3", "steps=1"), "");
    let (out, tokens) = (bench.out("parts"), bench.out("parts").join("tokens"));
    let aside = out.join("aside");
    fs::rename(&tokens, &aside).unwrap();
    std::os::unix::fs::symlink("/proc/self/fdinfo", &tokens).unwrap();
    failure_last(bench.command("parts", sets, "--resume"), &["tokens/step-000002.jsonl"]);
    assert_eq!(lines(&out), 2, "steps 0 and 1 are recorded");
    let unrecorded = &state(&out, 2)["unrecorded"]["update/count"];
    assert_eq!(unrecorded, &metrics(&whole)[2]["update/count"]);
    fs::remove_file(&tokens).unwrap();
    fs::rename(&aside, &tokens).unwrap();
    let said = succeed(bench.command("parts", sets, "--resume"));
    assert_parts(&said, &["resuming after step 2"]);
    let recipe_alone = |out: &Path| {
        let mut results = results(out);
        results.retain(|name, _| !name.starts_with("checkpoints/") || name.contains("step-000003"));
        results
    };
    assert_eq!(differences(&recipe_alone(&whole), &recipe_alone(&out)), [""; 0]);
}

#[test]
fn an_evaluation_out_of_turn_leaves_no_trace_in_a_longer_run() {
    let bench = Bench::train();
    let sets = "optimizer.schedule=constant eval.every=2";
    let whole = bench.run("whole", format!("{sets} run.steps=4"), "");
    let said = succeed(bench.command("parts", format!("{sets} run.steps=3"), ""));
    assert_parts(&said, &["too few points: 3"]); // the evaluations after steps 0, 2 and 3
    succeed(bench.command("parts", format!("{sets} run.steps=4"), "--resume"));
    let parts = bench.out("parts");
    assert!(metrics(&parts)[3].get("law/problems/entropy_spent").is_some());
    assert_eq!(metrics(&parts)[4..], metrics(&whole)[4..]);
    assert_eq!(state(&parts, 4)["trainer"], state(&whole, 4)["trainer"]);
}

#[test]
fn a_run_is_not_mistaken_for_another() {
    let bench = Bench::sft();
    let out = bench.copy_of_run("run", "run.steps=1");
    let (before, decided) = (tree(&out), results(&out));
    let sentence = failure(bench.command("run", "run.steps=1", ""));
    assert_parts(&sentence, &["--resume", "--overwrite", "run.out"]);
    assert_eq!(differences(&before, &tree(&out)), [""; 0]);
    // Somebody's own directory is never overwritten, though it holds a recipe.
    let own = bench.out("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("recipe.toml"), "mine").unwrap();
    for flag in ["", "--resume", "--overwrite"] {
        let sentence = failure(bench.command("own", "run.steps=1", flag));
        assert_parts(&sentence, &["is no run", "run.out"]);
    }
    assert_eq!(fs::read_to_string(own.join("recipe.toml")).unwrap(), "mine");
    // Anew means anew, and leaves other files alone.
    fs::create_dir_all(out.join("rollouts")).unwrap();
    fs::write(out.join("rollouts/left-over"), "x").unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    bench.run("run", "run.steps=1", "--overwrite");
    assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "mine");
    assert_eq!(differences(&decided, &results(&out)), [""; 0]);
    // The directory of a run where a model or a recipe is wanted.
    let (run, model) = (text(&out), text(&checkpoint(&out, 1)));
    let sentence = failure(isentrope(format!("generate {run} --prompt x")));
    assert_parts(&sentence, &[&format!("its latest model is {model}")]);
    let sentence = failure(isentrope(format!("train {run} --resume")));
    assert_parts(&sentence, &[&format!("its recipe is {run}/recipe.toml")]);
}

/// A run that cannot start or go on changes nothing of what is there.
#[test]
fn what_cannot_start_leaves_the_run_as_it_was() {
    let bench = Bench::train();
    let model = bench.scratch.copy(base().as_ref(), "model");
    let reference = "objective.reference_kl.coefficient=0.1 eval.every=0";
    let sets = format!("model.path={} {reference}", model.display());
    let out = bench.run("run", format!("{sets} run.steps=1"), "");
    let before = bench.scratch.path("before");
    assert!(Command::new("cp").args(["-r", &text(&out), &before]).status().unwrap().success());
    let other = bench.scratch.copy(base().as_ref(), "other");
    let tokenizer = other.join("tokenizer.json");
    fs::write(&tokenizer, [&fs::read(&tokenizer).unwrap()[..], b"\n"].concat()).unwrap();
    let own = format!("model.path={}", checkpoint(&out, 1).display());
    let other = format!("model.path={} run.steps=2", other.display());
    let broken = bench.scratch.copy(&checkpoint(&out, 1), "broken");
    fs::remove_file(broken.join("model.safetensors")).unwrap();
    let broken = format!("model.path={}", broken.display());
    fs::remove_file(model.join("model.safetensors")).unwrap();
    for (sets, flag, parts) in [
        (&own, "--overwrite", &["model.path", "run.out"][..]),
        (&broken, "--overwrite", &["model.safetensors"]),
        // The run needs its own tokenizer.
        (&other, "--resume", &["model.path is ", "whose tokenizer.json is another than that of "]),
        // The reference model is gone.
        (&format!("{sets} run.steps=2"), "--resume", &["model.safetensors"]),
    ] {
        failure_last(bench.command("run", sets, flag), parts);
        assert_eq!(changed(before.as_ref(), &out), [""; 0], "{sets}");
    }
    let metrics = out.join("metrics.jsonl");
    fs::write(&metrics, [&fs::read(&metrics).unwrap()[..], b"junk\n"].concat()).unwrap();
    failure_last(bench.command("run", "run.steps=9", "--resume"), &["metrics.jsonl:"]);
    assert_eq!(changed(before.as_ref(), &out), ["metrics.jsonl"]);
}

#[test]
fn weights_that_are_not_finite_are_not_saved_over_a_good_checkpoint() {
    for bench in [Bench::train(), Bench::sft()] {
        let sets = "optimizer.schedule=constant checkpoint.every=1 checkpoint.keep=1 eval.every=0";
        let out = bench.run("run", format!("{sets} run.steps=1"), "");
        let before = tree(&checkpoint(&out, 1));
        let more = format!("{sets} run.steps=4 optimizer.learning_rate=1e37");
        let (output, message) = outcome(bench.command("run", more, "--resume"));
        assert_eq!(output.status.code(), Some(1), "{message}");
        let parts = ["step 2 is not saved: after it the model's numbers are not finite"];
        assert_parts(&message, &parts);
        assert_eq!(names(&out.join("checkpoints")), ["step-000001"], "{message}");
        assert_eq!(differences(&before, &tree(&checkpoint(&out, 1))), [""; 0]);
        // Nor has a run succeeded whose last step is not finite.
        let sets = "run.steps=1 optimizer.learning_rate=1e37 eval.every=0";
        let parts = ["step 1 is not saved", "optimizer.learning_rate"];
        failure_last(bench.command("last", sets, ""), &parts);
        assert_eq!(names(&bench.out("last").join("checkpoints")), [""; 0]);
    }
}

#[test]
fn a_second_process_is_kept_out_of_a_run() {
    let bench = Bench::train();
    let mut first = start(bench.command("shared", "run.steps=500", ""));
    let out = bench.out("shared");
    until_reached(&mut first, || lines(&out) > 1);
    for flag in ["--resume", "--overwrite"] {
        let parts = ["another process is training in"];
        failure_last(bench.command("shared", "run.steps=500", flag), &parts);
    }
    assert!(kill(&mut first), "the first run ended before it was killed");
    succeed(bench.command("shared", "run.steps=1", "--overwrite"));
}

#[test]
fn a_history_that_is_gone_is_not_passed_over_in_silence() {
    let bench = Bench::sft();
    let out = bench.run("run", "run.steps=2", "");
    let (metrics, timings) = (out.join("metrics.jsonl"), out.join("timings.jsonl"));
    fs::remove_file(&metrics).unwrap();
    let before = tree(&out);
    let parts = ["metrics.jsonl: is not there", "2 steps", "put it back", "empty file"];
    failure_last(bench.command("run", "run.steps=4", "--resume"), &parts);
    assert_eq!(differences(&before, &tree(&out)), [""; 0]);
    // The remedy, and what else may be missing.
    fs::write(&metrics, "").unwrap();
    fs::remove_file(&timings).unwrap();
    fs::remove_dir_all(out.join("tensorboard")).unwrap();
    let said = succeed(bench.command("run", "run.steps=4", "--resume"));
    let missing = "metrics.jsonl: the numbers of steps 0 to 2 are missing";
    assert_parts(&said, &[missing, "timings.jsonl: the numbers", "tensorboard: is not"]);
}
