//! `show`: runs on a terminal, once and while they train.

use crate::program::{
    Scratch, failure_saying, isentrope, skipped, stderr, stdout_of, text, wrong_usage,
};
use crate::terminal::on_terminal;
use crate::training::Bench;
use isentrope_files::{Lock, lock_directory};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Codes that enter and leave the screen that is drawn upon in place.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A run that this process trains, as far as others can tell.
struct Training {
    dir: PathBuf,
    lock: Option<Lock>,
}

impl Training {
    fn begin(scratch: &Scratch, name: &str, steps: u64) -> Self {
        let dir = PathBuf::from(scratch.path(name));
        fs::create_dir(&dir).unwrap();
        let lock = lock_directory(&dir, "training").unwrap();
        let recipe = json!({"run": {"steps": steps, "seed": 0}, "model": {"path": "m"}});
        fs::write(dir.join(".recipe.json"), recipe.to_string()).unwrap();
        fs::write(dir.join("metrics.jsonl"), "").unwrap();
        Self { dir, lock: Some(lock) }
    }

    fn step(&self, step: u64) {
        let entropy = 1.0 / (1.0 + step as f64);
        let mut row =
            json!({"step": step, "policy/entropy": entropy, "reward/mean": 0.125 * step as f64});
        if step.is_multiple_of(2) {
            row["eval/set/mean@1"] = json!(0.25);
            row["eval/set/entropy"] = json!(entropy);
        }
        self.write(&format!("{row}\n"));
    }

    fn write(&self, text: &str) {
        let mut file = File::options().append(true).open(self.dir.join("metrics.jsonl")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn end(&mut self) {
        self.lock = None;
    }

    fn path(&self) -> String {
        text(&self.dir)
    }
}

fn show(arguments: &[&str]) -> Command {
    let mut command = isentrope(&[&["show"][..], arguments].concat());
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE", "COLUMNS"] {
        command.env_remove(name);
    }
    command.env("LANG", "C.UTF-8").env("TERM", "xterm");
    command
}

#[test]
fn a_run_is_shown_after_it_has_been_trained_and_stopped() {
    let bench = Bench::train();
    let run = text(&bench.run("run", &["run.steps=3"], &[]));
    let shown = stdout_of(show(&[&run]).env("COLUMNS", "120"));
    for part in [
        "run: finished, step 3 of 3, ",
        "entropy, nats per token",
        "● rollouts   ■ evaluation of problems",
        "accuracy of evaluations",
        "mean reward",
        "response length, tokens",
        "evaluations problems\nstep  mean@2  entropy  length",
        "law problems\n",
        "last responses, step 3\n> ",
        "(ground truth: {\"numbers\":[",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(
        !shown.contains('\x1b') && shown.lines().all(|line| line.chars().count() <= 120),
        "{shown}"
    );
    assert!(!stdout_of(&mut show(&[&run, "--responses", "0"])).contains("last responses"));
    // Metrics that are asked for come first.
    let asked = stdout_of(&mut show(&[&run, "--metric", "grad/norm", "--metric", "cov/mean"]));
    let at =
        |what: &str| asked.find(what).unwrap_or_else(|| panic!("{what:?} is not in:\n{asked}"));
    assert!(at("grad/norm") < at("cov/mean") && at("cov/mean") < at("entropy, nats"), "{asked}");
    let list = stdout_of(&mut show(&[&run, "--metrics"]));
    assert!(
        list.starts_with("metric ")
            && list.contains("\ncov/mean  ")
            && list.contains("\ntime/step_s "),
        "{list}"
    );
    failure_saying(
        &mut show(&[&run, "--metric", "cov"]),
        &["no metric \"cov\"", "cov/mean", "--metrics lists"],
    );
    failure_saying(&mut show(&[&run, "--metric", "grad/nrom"]), &["grad/norm"]);
    let ascii = stdout_of(show(&[&run]).env("LC_ALL", "C"));
    assert!(ascii.is_ascii() && ascii.contains("* rollouts   o evaluation of problems"), "{ascii}");
    // With another recipe in the directory it would go on.
    let other = text(&bench.run("other", &["run.steps=1"], &[]));
    let both = stdout_of(show(&[&run, &other]).env("COLUMNS", "160"));
    assert!(
        both.contains("● run   ■ other") && both.contains("other: finished, step 1 of 1"),
        "{both}"
    );
}

#[test]
fn what_is_no_run_is_refused() {
    let scratch = Scratch::new();
    failure_saying(&mut show(&[&scratch.path("absent")]), &["absent"]);
    let training = Training::begin(&scratch, "run", 4);
    training.step(0);
    training.write("{\"step\": 1, \"a\": \"b\"}\n");
    failure_saying(
        &mut show(&[&training.path()]),
        &["metrics.jsonl: line 2: \"a\" must be a number"],
    );
    failure_saying(&mut show(&[&training.path(), "--follow"]), &["metrics.jsonl: line 2"]);
    wrong_usage(&mut show(&[]), "<RUN>");
    wrong_usage(&mut show(&[&training.path(), "--metrics", "--follow"]), "cannot be used with");
}

#[test]
fn without_a_terminal_a_run_is_followed_by_lines_until_it_ends() {
    let scratch = Scratch::new();
    let mut training = Training::begin(&scratch, "run", 4);
    let mut child = show(&[&training.path(), "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for step in 0..=4 {
        training.step(step);
        // A line that is being written is waited for.
        if step == 1 {
            training.write("{\"step\": 2, ");
            thread::sleep(Duration::from_millis(500));
            let half = fs::read_to_string(training.dir.join("metrics.jsonl")).unwrap();
            let whole = &half[..half.rfind('\n').unwrap() + 1];
            fs::write(training.dir.join("metrics.jsonl"), whole).unwrap();
        }
        if step == 0 {
            assert_eq!(lines.next().unwrap(), "run: training, step 0 of 4");
            assert_eq!(lines.next().unwrap(), "  m, seed 0");
        }
        let entropy = 1.0 / (1.0 + step as f64);
        let line = lines.next().unwrap();
        assert!(line.starts_with(&format!("step {step}/4  reward ")), "{line}");
        if step % 2 == 0 {
            let line = lines.next().unwrap();
            assert_eq!(
                line,
                format!("step {step}/4  evaluation set mean@1 25.0 %  entropy {entropy:.4}")
            );
        }
    }
    training.end();
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest[0], "run: finished, step 4 of 4");
    assert!(rest.contains(&"law set".to_owned()), "{rest:#?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // A run that has ended is shown, and that is all.
    let output = show(&[&training.path(), "--follow"]).output().unwrap();
    assert!(
        output.status.success() && String::from_utf8(output.stdout).unwrap().contains("step 4/4")
    );
}

#[test]
fn following_ends_when_it_is_asked_to() {
    let scratch = Scratch::new();
    let training = Training::begin(&scratch, "run", 4);
    training.step(0);
    let mut child = show(&["-f", &training.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("step 0/4")));
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let rest = lines.count();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(rest < 6 && stderr(&output).starts_with("error: interrupted: "), "{}", stderr(&output));
}

/// The text left on a terminal at the end: all that came after the screen was left.
fn left(shown: &str) -> &str {
    &shown[shown.rfind(LEAVE).unwrap() + LEAVE.len()..]
}

#[test]
fn on_a_terminal_a_run_is_drawn_in_place_and_the_terminal_is_restored() {
    let scratch = Scratch::new();
    let mut training = Training::begin(&scratch, "run", 3);
    training.step(0);
    let path = training.path();
    let grow = thread::spawn(move || {
        for step in 1..=3 {
            thread::sleep(Duration::from_millis(600));
            training.step(step);
        }
        training.end();
    });
    let shown = on_terminal(70, &show(&[&path, "--follow"]));
    grow.join().unwrap();
    let Some(shown) = shown else {
        skipped("there is no program `script` here");
        return;
    };
    assert_eq!((shown.matches(ENTER).count(), shown.matches(LEAVE).count()), (1, 1), "{shown:?}");
    assert!(shown.contains("\x1b[?25l") && shown.contains("\x1b[?25h"), "{shown:?}");
    let frames: Vec<&str> = shown.split("\x1b[H").skip(1).collect();
    assert!(frames.len() >= 3 && frames[0].contains("training"), "{shown:?}");
    assert!(
        frames.iter().all(|frame| frame.split("\x1b[J").next().unwrap().lines().count() <= 40),
        "{shown:?}"
    );
    let left = left(&shown);
    assert!(
        left.contains("finished") && left.contains(", step 3 of 3") && left.contains("\x1b[36m"),
        "{left:?}"
    );
    // Colours can be refused, and a dumb terminal has neither colours nor a cursor.
    let plain = on_terminal(70, show(&[&path, "--follow"]).env("NO_COLOR", "1")).unwrap();
    let escapes = plain.replace(ENTER, "").replace(LEAVE, "").replace("\x1b[?", "");
    assert!(!escapes.contains("\x1b[3") && !escapes.contains("\x1b[1m"), "{plain:?}");
    let dumb = on_terminal(70, show(&[&path, "-f"]).env("TERM", "dumb")).unwrap();
    assert!(!dumb.contains('\x1b') && dumb.contains("step 3/3  reward"), "{dumb:?}");
    assert!(on_terminal(70, &show(&[&path])).unwrap().contains("\x1b[36m"));
}

#[test]
fn ctrl_c_restores_the_terminal() {
    let scratch = Scratch::new();
    let training = Training::begin(&scratch, "run", 3);
    training.step(0);
    let following = show(&["--follow", &training.path()]);
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "-s", "INT", "2"])
        .arg(following.get_program())
        .args(following.get_args());
    command.env("TERM", "xterm").env("LANG", "C.UTF-8");
    let Some(shown) = on_terminal(70, &command) else { return };
    assert_eq!((shown.matches(ENTER).count(), shown.matches(LEAVE).count()), (1, 1), "{shown:?}");
    let left = left(&shown);
    assert!(left.contains("step 0 of 3") && left.contains("error: interrupted: "), "{left:?}");
}

#[test]
fn a_second_ctrl_c_while_it_is_drawn_restores_the_terminal_too() {
    let scratch = Scratch::new();
    let training = Training::begin(&scratch, "run", 9000);
    // Many points of many sets, whose law takes long.
    let rows = (0..6000u32).map(|step| {
        let mut row = json!({"step": step});
        for set in 0..8 {
            row[format!("eval/{set}/mean@1")] = json!(0.5 - f64::from(step) * 1e-4);
            row[format!("eval/{set}/entropy")] = json!(1.0 / f64::from(1 + step));
        }
        format!("{row}\n")
    });
    training.write(&rows.collect::<String>());
    // Its number comes first, and the signals when the screen has been entered.
    let following = format!(
        "echo $$; exec '{}' show --follow '{}'",
        env!("CARGO_BIN_EXE_isentrope"),
        training.path()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &following, "/dev/null"]).env("TERM", "xterm").env("LANG", "C.UTF-8");
    let Ok(mut child) = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else {
        return skipped("there is no program `script` here");
    };
    let mut output = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains(ENTER) {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&shown));
        shown.push(byte[0]);
    }
    let process = String::from_utf8_lossy(&shown).lines().next().unwrap().to_owned();
    for _ in 0..2 {
        assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
        thread::sleep(Duration::from_millis(300));
    }
    output.read_to_end(&mut shown).unwrap();
    child.wait().unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(left(&shown), "", "{shown:?}");
    assert!(shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l"), "{shown:?}");
}

#[test]
fn texts_of_a_run_cannot_drive_a_terminal() {
    let scratch = Scratch::new();
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7f}\r\n\tb";
    let training = Training::begin(&scratch, "\u{1b}[2Jrun", 3);
    training.write(&format!(
        "{}\n",
        json!({"step": 1, hostile: 1, (format!("eval/{hostile}/mean@1")): 0.5})
    ));
    let rollouts = training.dir.join("rollouts");
    fs::create_dir(&rollouts).unwrap();
    let row = json!({"prompt": hostile, "ground_truth": [hostile], "response": hostile, "verdict": hostile,
        "extracted": hostile, "reason": hostile});
    write_lines(&rollouts.join("step-000001.jsonl"), &[row]);
    let path = &*training.path();
    for arguments in
        [&[path][..], &[path, "--metrics"], &[path, "--metric", hostile], &[path, path]]
    {
        let shown = stdout_of(&mut show(arguments));
        let hidden = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}".contains(c);
        assert!(!shown.contains(hidden) && shown.contains("\\u{1b}"), "{arguments:?}: {shown:?}");
    }
}

fn write_lines(path: &Path, rows: &[Value]) {
    fs::write(path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
}
