//! Commands as verifiers: workers that answer, and workers that do anything else.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use isentrope_reward::Verdict::{Correct, Fault, Unparseable, Wrong};
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierError, VerifierSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A worker in the shell. What it does depends on the response; `$id` and `$line` are the
/// question's.
const WORKER: &str = r#"
while read -r line; do
    id=${line#*:}; id=${id%%,*}
    case $line in
        *'"response":"right"'*) echo "{\"id\":$id,\"score\":1}";;
        *'"response":"half"'*) echo "{\"id\":$id,\"score\":0.5,\"metrics\":{\"steps\":3}}";;
        *'"response":"slow"'*) sleep 0.1; echo "{\"id\":$id,\"score\":1}";;
        *'"response":"dies"'*) echo "first" >&2; echo "it was too much" >&2; exit 3;;
        *'"response":"killed"'*) kill -9 $$;;
        *'"response":"hangs"'*) sleep 1000;;
        *'"response":"turn"'*) echo "{\"id\":$((id + 7)),\"score\":1}";;
        *'"response":"twice"'*) echo "{\"id\":$id,\"score\":1}"; echo "{\"id\":$id,\"score\":1}";;
        *'"response":"text"'*) echo "correct!";;
        *'"response":"bytes"'*) printf '\377\000\n';;
        *'"response":"nan"'*) echo "{\"id\":$id,\"score\":NaN}";;
        *'"response":"verdict"'*) echo "{\"id\":$id,\"score\":1,\"verdict\":\"excellent\"}";;
        *'"response":"half-line"'*) printf '{"id":'; exit 0;;
        *'"response":"flood"'*) yes '{"id":0,"score":1}';;
        *'"response":"long"'*) head -c 3000000 /dev/zero | tr '\0' 'x'; sleep 1000;;
        *'"response":"noisy"'*) head -c 3000000 /dev/zero >&2; echo "{\"id\":$id,\"score\":1}";;
        *'"response":"child"'*) sleep 1000 & echo $! > child.pid; sleep 1000;;
        *) echo "{\"id\":$id,\"score\":0}";;
    esac
done
"#;

fn script(directory: &TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("worker.sh");
    fs::write(&path, text).unwrap();
    path
}

fn settings(command: &[&str], workers: usize) -> VerifierSettings {
    serde_json::from_value(
        json!({"command": command, "workers": workers, "timeout_s": 0.5, "startup_s": 0.5}),
    )
    .unwrap()
}

fn start(directory: &TempDir, text: &str, workers: usize) -> Box<dyn Verifier> {
    settings(&["sh", script(directory, text).to_str().unwrap()], workers).build().unwrap()
}

fn judge(verifier: &dyn Verifier, responses: &[&str]) -> Result<Vec<Judgement>, VerifierError> {
    let item = Item {
        ground_truth: &json!({"a": [1]}),
        prompt: "why?\n",
        data_source: "s",
        ..Item::default()
    };
    verifier.verify_batch(&responses.iter().map(|&response| (item, response)).collect::<Vec<_>>())
}

/// Judges a response after one that is right, and checks that the verifier goes on.
fn misconduct(response: &str) -> Judgement {
    let directory = TempDir::new().unwrap();
    let verifier = start(&directory, WORKER, 1);
    let started = Instant::now();
    let judged = judge(&*verifier, &["right", response, "right", "wrong"]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{response}");
    let verdicts: Vec<Verdict> = judged.iter().map(|judgement| judgement.verdict).collect();
    assert_eq!([verdicts[0], verdicts[2], verdicts[3]], [Correct, Correct, Wrong], "{response}");
    judged[1].clone()
}

#[test]
fn answers_become_judgements() {
    let directory = TempDir::new().unwrap();
    let judged = judge(&*start(&directory, WORKER, 2), &["right", "half", "else"]).unwrap();
    assert_eq!(judged[0], Judgement::new(Correct, None, "the worker's score is 1"));
    assert_eq!((judged[1].verdict, judged[1].score), (Wrong, 0.5));
    assert_eq!(judged[1].metrics.iter().next(), Some((&"steps".to_owned(), &3.0)));
    assert_eq!((judged[2].verdict, judged[2].score), (Wrong, 0.0));
    assert!(judge(&*start(&directory, WORKER, 2), &[]).unwrap().is_empty());
}

#[test]
fn a_response_at_which_fresh_workers_fail_has_the_lowest_score() {
    for (response, reason) in [
        ("dies", "the worker ended (exit status: 3): it was too much"),
        ("killed", "the worker ended (signal: 9 (SIGKILL))"),
        ("hangs", "the worker gave no answer within 1 s"), // of which half is to start
        ("turn", "the worker answered question "),
        ("text", "the worker printed \"correct!\", which is no answer: expected value"),
        ("bytes", "the worker printed \"\u{fffd}\\0\", which is no answer"),
        ("nan", "which is no answer: expected"),
        ("verdict", "unknown variant `excellent`, expected one of `correct`"),
        ("half-line", "the worker ended (exit status: 0)"),
        ("flood", "the worker answered question 0 when asked question "),
        ("long", "the worker printed a line of more than 1048576 bytes"),
    ] {
        let Judgement { verdict, score, reason: said, failed, .. } = misconduct(response);
        assert_eq!((verdict, score, failed), (Unparseable, 0.0, true), "{response}: {said}");
        assert!(said.contains(reason), "{response}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

/// A worker that fails for another reason than the response's is replaced, and nothing is lost.
#[test]
fn a_response_is_judged_again_by_a_fresh_worker() {
    let directory = TempDir::new().unwrap();
    let judged = judge(&*start(&directory, WORKER, 1), &["twice", "right", "right"]).unwrap();
    assert!(judged.iter().all(|judgement| judgement.verdict == Correct), "{judged:?}");
}

/// Before it gives up, the verifier asks again what had an answer before.
#[test]
fn responses_that_end_workers_in_a_row_do_not_end_the_run_and_a_command_that_is_down_does() {
    let directory = TempDir::new().unwrap();
    let down = directory.path().join("down");
    let worker = WORKER.replacen("; do\n", "; do\n[ -e '{0}' ] && exit 4\n", 1);
    let worker = worker.replace("{0}", down.to_str().unwrap());
    let verifier = start(&directory, &worker, 1);
    let judged = judge(&*verifier, &[&["half"][..], &["dies"; 20], &["right"]].concat()).unwrap();
    assert_eq!((judged[0].score, judged[21].verdict), (0.5, Correct));
    assert!(judged[1..21].iter().all(|judgement| judgement.failed), "{judged:?}");
    fs::write(&down, "").unwrap();
    let error = judge(&*verifier, &["right"; 20]).unwrap_err().to_string();
    check_parts(&error, &["8 fresh workers in a row failed", "the last ended (exit status: 4)"]);
}

#[test]
fn a_command_may_judge_groups() {
    let directory = TempDir::new().unwrap();
    let worker = r#"
while read -r line; do
    id=${line#*:}; id=${id%%,*}
    case $line in
        *'"responses":["a","b"]'*) echo "{\"id\":$id,\"answers\":[{\"score\":1},{\"score\":0.5}]}";;
        *'"responses":["a","dies","b"]'*) exit 1;;
        *'"responses":["'[ab]'"]'*) echo "{\"id\":$id,\"answers\":[{\"score\":9}]}";;
        *) echo no >&2; exit 2;;
    esac
done"#;
    let script = script(&directory, worker);
    let settings = json!({"command": ["sh", script], "workers": 1, "batch": "group"});
    let verifier = serde_json::from_value::<VerifierSettings>(settings).unwrap().build().unwrap();
    assert!(verifier.judges_groups());
    let judged = judge(&*verifier, &["a", "dies", "b"]).unwrap();
    let scores: Vec<f64> = judged.iter().map(|judgement| judgement.score).collect();
    assert_eq!(scores, [1.0, 0.0, 0.5]);
    assert_eq!(judged[1].reason, "the worker ended (exit status: 2): no");
    assert!(judge(&*verifier, &[]).unwrap().is_empty());
}

#[test]
fn standard_error_is_drained() {
    let directory = TempDir::new().unwrap();
    let judged = judge(&*start(&directory, WORKER, 1), &["noisy", "noisy"]).unwrap();
    assert!(judged.iter().all(|judgement| judgement.verdict == Correct), "{judged:?}");
}

/// A question larger than any pipe, to workers that do not read it.
#[test]
fn a_worker_that_does_not_read_blocks_nobody() {
    let directory = TempDir::new().unwrap();
    let long = "x".repeat(4 << 20);
    let silent = start(&directory, "sleep 1000", 2);
    let judged = judge(&*silent, &[&long, &long, &long]).unwrap();
    let is_late = |j: &Judgement| j.failed && j.reason.contains("gave no answer within");
    assert!(judged.iter().all(is_late), "{judged:?}");

    // One that answers all the same: equal questions have equal numbers.
    let eager = r#"line=$(head -n 1 | cut -c 1-30); id=${line#*:}; id=${id%%,*}
        i=0; while [ $i -lt 9 ]; do echo "{\"id\":$id,\"score\":1}"; i=$((i + 1)); done; sleep 1000"#;
    let judged = judge(&*start(&directory, eager, 1), &[&long, &long, &long, &long]).unwrap();
    assert!(judged.iter().all(|judgement| judgement.verdict == Correct), "{judged:?}");
}

#[test]
fn order_and_numbers_do_not_depend_on_who_is_fast() {
    let directory = TempDir::new().unwrap();
    let responses: Vec<&str> = (0..40)
        .map(|i| match i % 5 {
            0 => "slow",
            1 | 2 => "right",
            3 => "half",
            _ => "wrong",
        })
        .collect();
    let first = start(&directory, WORKER, 1);
    let started = Instant::now();
    let one: Vec<Judgement> = judge(&*first, &responses).unwrap();
    let alone = started.elapsed();
    let turn = judge(&*first, &["turn"]).unwrap();
    assert!(turn[0].reason.starts_with("the worker answered question "), "{turn:?}");
    for workers in [2, 7] {
        let verifier = start(&directory, WORKER, workers);
        assert_eq!(verifier.workers(), workers);
        // The number is in the reason.
        assert_eq!(judge(&*verifier, &["turn"]).unwrap(), turn);
        let started = Instant::now();
        assert_eq!(judge(&*verifier, &responses).unwrap(), one);
        assert!(workers == 2 || started.elapsed() < alone, "they take turns");
    }
}

/// Each worker answers once all have been asked.
#[test]
fn threads_that_ask_about_a_response_each_keep_all_workers_busy() {
    let directory = TempDir::new().unwrap();
    let asked = directory.path().join("asked");
    let meeting = format!(
        r#"
while read -r line; do
    id=${{line#*:}}; id=${{id%%,*}}; echo asked >> '{0}'
    until [ $(wc -l < '{0}') -ge 3 ]; do sleep 0.01; done
    echo "{{\"id\":$id,\"score\":1}}"
done"#,
        asked.display()
    );
    let script = script(&directory, &meeting);
    let patient = json!({"command": ["sh", script], "workers": 3, "timeout_s": 60});
    let verifier = serde_json::from_value::<VerifierSettings>(patient).unwrap().build().unwrap();
    thread::scope(|scope| {
        // More threads than workers: who finds none free waits for one.
        for _ in 0..7 {
            scope.spawn(|| assert_eq!(judge(&*verifier, &["any"]).unwrap()[0].verdict, Correct));
        }
    });
    assert_eq!(fs::read_to_string(asked).unwrap().lines().count(), 7);
}

/// Why a command is refused before it is asked anything.
fn refusal(command: &[&str]) -> String {
    settings(command, 3).build().err().unwrap().to_string()
}

/// The error that ends the judging of a number of responses by a script.
fn surrender(directory: &TempDir, text: &str, responses: usize) -> String {
    let verifier = start(directory, text, 1);
    judge(&*verifier, &vec!["right"; responses]).unwrap_err().to_string()
}

fn check_parts(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_command_that_never_works_stops_with_its_last_words() {
    let directory = TempDir::new().unwrap();
    let error = refusal(&["no-such-program-anywhere", "x"]);
    let named =
        "reward.verifier.command = [\"no-such-program-anywhere\", \"x\"]: the command cannot";
    assert!(error.starts_with(named), "{error}");
    check_parts(
        &refusal(&["no-such-program-anywhere x"]),
        &["each word must be an entry of its own"],
    );
    // Seen before the first question.
    let script = script(&directory, "echo 'ModuleNotFoundError: numpy' >&2; exit 1");
    let error = refusal(&["sh", script.to_str().unwrap()]);
    let ended = ["a worker ended (exit status: 1)", "before it was asked anything"];
    check_parts(&error, &ended);
    check_parts(&error, &["\n  ModuleNotFoundError: numpy"]);
    assert_eq!(error.matches("numpy").count(), 1, "what it said is told once: {error}");
    assert!(!error.contains("must read lines"), "{error}");
    let unasked =
        "a worker printed \"ready\", which is no answer: it had not been asked; what is no";
    check_parts(&refusal(&["echo", "ready"]), &[unasked]);
    // Seen when none answers.
    let dying = "read -r line; echo 'no such\u{1b}[31m model' >&2; exit 1";
    let in_a_row = "8 fresh workers in a row failed at their first question; the last ended";
    check_parts(&surrender(&directory, dying, 100), &[in_a_row, "\n  no such [31m model"]);
    let silent = surrender(&directory, "read -r line; echo; sleep 1000", 100);
    check_parts(&silent, &["it wrote nothing to standard error"]);
}

/// The advice comes at whichever line the program ends. A program that fails says why itself.
#[test]
fn a_worker_that_ends_at_once_is_told_that_it_must_read_lines() {
    const ADVICE: &str = "; a worker must read lines until its standard input ends";
    for command in ["true", "false"] {
        let advised = format!("before it was asked anything{ADVICE}; it wrote nothing");
        check_parts(&refusal(&[command]), &[&advised]);
    }
    let directory = TempDir::new().unwrap();
    let unheard = surrender(&directory, "read -r line", 100);
    check_parts(&unheard, &[&format!("the last ended (exit status: 0){ADVICE}")]);
    let one = r#"read -r line; id=${line#*:}; echo "{\"id\":${id%%,*},\"score\":1}""#;
    let judged = judge(&*start(&directory, one, 1), &["right", "right", "right"]).unwrap();
    assert!(judged.iter().all(|judgement| judgement.verdict == Correct), "{judged:?}");
    check_parts(&surrender(&directory, one, 200), &["32 of the last 64 responses", ADVICE]);
}

#[test]
fn a_command_that_fails_half_the_time_stops_and_one_that_fails_less_goes_on() {
    let directory = TempDir::new().unwrap();
    // Each worker answers `answers` questions and ends with the next.
    let ends_after = |answers: usize| {
        format!(
            r#"n=0
            while read -r line; do
                if [ $n -eq {answers} ]; then echo "out of memory" >&2; exit 1; fi
                n=$((n + 1)); id=${{line#*:}}; echo "{{\"id\":${{id%%,*}},\"score\":1}}"
            done"#
        )
    };
    for workers in [1, 3] {
        let verifier = start(&directory, &ends_after(1), workers);
        let error = judge(&*verifier, &["right"; 200]).unwrap_err().to_string();
        // Workers may fail at the same time.
        let counts = 32..32 + workers;
        let said = |n| {
            format!(
                "worker.sh\"]: workers failed at {n} of the last 64 responses; the last ended (exit"
            )
        };
        assert!(counts.into_iter().any(|n| error.contains(&said(n))), "{error}");
        assert!(error.contains("\n  out of memory"), "{error}");
        // Faults that the command tells of itself are no failures of it.
        let tells = r#"while read -r line; do id=${line#*:}; echo "{\"id\":${id%%,*},\"verdict\":\"fault\"}"; done"#;
        let judged = judge(&*start(&directory, tells, workers), &["right"; 200]).unwrap();
        assert!(judged.iter().all(|judgement| judgement.verdict == Fault));
    }
    let judged = judge(&*start(&directory, &ends_after(3), 1), &["right"; 200]).unwrap();
    assert!(judged.iter().all(|judgement| judgement.verdict == Correct), "each is asked again");
}

/// Whether a process is there and is no zombie.
fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

fn children_of(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Workers write their process numbers and their children's into a file. No such process is left at
/// the end.
#[test]
fn nothing_is_left_of_workers() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pids");
    let text = format!("sleep 1000 &\necho $$ $! >> '{}'\n{WORKER}\nwait", file.display());
    let verifier = start(&directory, &text, 3);
    let judged = judge(&*verifier, &["right", "hangs", "dies", "right"]).unwrap();
    assert_eq!(judged[3].verdict, Correct);
    let all = children_of(&file);
    assert!(all.len() >= 6 && all.iter().any(|pid| runs(pid)), "{all:?}");
    drop(verifier);
    until("a process is left", || !all.iter().any(|pid| runs(pid)));
}

/// A worker that reads to the end of its standard input may finish what it does.
#[test]
fn workers_are_asked_to_end_before_they_are_made_to() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("goodbye");
    let text = format!("{WORKER}\nsleep 0.2; echo goodbye > '{}'", file.display());
    let verifier = start(&directory, &text, 1);
    judge(&*verifier, &["right"]).unwrap();
    drop(verifier);
    assert_eq!(fs::read_to_string(file).unwrap(), "goodbye\n");
}

#[test]
fn sums_have_the_first_parts_verdict_and_every_parts_faults_and_failures() {
    let directory = TempDir::new().unwrap();
    let script = script(&directory, WORKER);
    let command = json!({"command": ["sh", script], "workers": 2, "timeout_s": 0.5});
    let sum: VerifierSettings = serde_json::from_value(json!({"weighted": [
        {"verifier": "math", "weight": 0.75}, {"verifier": command, "weight": -0.5}, {"verifier": "math", "weight": 0}
    ]}))
    .unwrap();
    let verifier = sum.build().unwrap();
    assert_eq!(verifier.workers(), 2);
    let item = |ground_truth| Item { ground_truth, ..Item::default() };
    let (seven, null) = (json!("7"), Value::Null);
    let judged = verifier
        .verify_batch(&[
            (item(&seven), "7"),
            (item(&seven), "half"),
            (item(&null), "half"),
            (item(&seven), "dies"),
        ])
        .unwrap();
    assert_eq!((judged[0].verdict, judged[0].score), (Correct, 0.75));
    assert_eq!(judged[0].extracted.as_deref(), Some("7"));
    assert_eq!((judged[1].verdict, judged[1].score), (Wrong, -0.25));
    let metrics: Vec<(&str, f64)> =
        judged[1].metrics.iter().map(|(name, value)| (&name[..], *value)).collect();
    assert_eq!(metrics, [("part_1", 0.0), ("part_2", 0.5), ("part_2/steps", 3.0), ("part_3", 0.0)]);
    for (judgement, verdict, part) in [
        (&judged[2], Fault, "part_1 (weighted.0): the ground truth"),
        (&judged[3], Unparseable, "part_2 (weighted.1): the worker ended"),
    ] {
        assert_eq!((judgement.verdict, judgement.score), (verdict, 0.0));
        assert_eq!(judgement.failed, verdict == Unparseable);
        assert!(
            judgement.reason.starts_with(part) && judgement.metrics.is_empty(),
            "{judgement:?}"
        );
    }
}

#[test]
fn a_sum_that_is_not_finite_is_a_fault() {
    let part = json!({"verifier": "math", "weight": f64::MAX});
    let sum: VerifierSettings = serde_json::from_value(json!({"weighted": [part, part]})).unwrap();
    let seven = json!("7");
    let item = Item { ground_truth: &seven, ..Item::default() };
    let judged = sum.build().unwrap().verify_batch(&[(item, "7"), (item, "8")]).unwrap();
    assert_eq!((judged[0].verdict, judged[0].score), (Fault, 0.0));
    assert!(
        judged[0].reason.starts_with("the weighted sum of the scores is inf"),
        "{}",
        judged[0].reason
    );
    assert_eq!((judged[1].verdict, judged[1].score), (Wrong, 0.0));
}

#[test]
fn each_data_source_has_its_verifier() {
    let directory = TempDir::new().unwrap();
    let script = script(&directory, WORKER);
    let mut sources = json!({
        "by_data_source": {"sums": "math", "mine": {"command": ["sh", script]}},
        "otherwise": "countdown",
    });
    let verifier =
        serde_json::from_value::<VerifierSettings>(sources.clone()).unwrap().build().unwrap();
    assert_eq!(verifier.workers(), 2, "of the command; the built-in ones have none");
    let (seven, game) = (json!("7"), json!({"numbers": [1, 2], "target": 3}));
    let item = |ground_truth, data_source| Item { ground_truth, data_source, ..Item::default() };
    let batch = [
        (item(&game, ""), "1+2=3!"),
        (item(&seven, "mine"), "half"),
        (item(&seven, "sums"), "7"),
        (item(&seven, "mine"), "right"),
        (item(&seven, "sums"), "8"),
        (item(&seven, "Sums"), "7"),
    ];
    let judged = verifier.verify_batch(&batch).unwrap();
    let found: Vec<(Verdict, f64)> =
        judged.iter().map(|judgement| (judgement.verdict, judgement.score)).collect();
    let (right, wrong) = ((Correct, 1.0), (Wrong, 0.0));
    assert_eq!(found, [right, (Wrong, 0.5), right, right, wrong, (Fault, 0.0)]);

    sources.as_object_mut().unwrap().remove("otherwise");
    let strict: VerifierSettings = serde_json::from_value(sources).unwrap();
    assert!(strict.check_data_source("sums").is_ok());
    let error = strict.check_data_source("Sums").unwrap_err();
    assert!(
        error.contains("\"Sums\" has no verifier") && error.contains("reward.verifier.otherwise"),
        "{error}"
    );
    assert_eq!(strict.build().unwrap().verify_batch(&batch).unwrap()[5].verdict, Fault);
}
