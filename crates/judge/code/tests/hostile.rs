//! Hostile programs: each file of `hostile/` is one. It says what it tries and what must come of
//! it, in the form
//!
//! ```text
//! # Tries: <what>
//! # Scripts: <verdict>                    as a program that reads a number and prints its answer
//! # Calls: <verdict>                      as one whose function `answer` is called
//! # Assertions: <verdict>                 as one whose function is tested by assertion code
//! # Assertions in every style: <verdict>  the same, by assertion code of every kind
//! # Assertions about a method: <verdict>  the same, where the function is a method of its class `Solution`
//! # Variants: <number>                    it stands for as many programs, numbered `@VARIANT@`
//! # Unprotected: passes                   it gets what it wants where it is not in a jail
//! # Greedy: yes                           it takes all of the machine that it can
//! ```
//!
//! A verdict is the name of one, or several with " or " between them, each with a part of the
//! reason behind a colon if that is to be seen too. A form that is not named is not run.
//!
//! The programs are after bait: random answers, which lie in files and behind sockets of this
//! machine.

#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![cfg(target_os = "linux")]

#[path = "hostile/bait.rs"]
mod bait;
#[path = "hostile/fixture.rs"]
mod fixture;
#[path = "hostile/processes.rs"]
mod processes;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use isentrope_code::{CodeSettings, Judge, Report};
use serde_json::{Value, json};

use bait::Bait;
use fixture::{Fixture, Form};

/// How often a right program is judged again that a busy machine has kept from its verdict.
const RETRIES: usize = 10;

/// Most time for a response of two tests: limits are half a second, half a minute on a busy
/// machine, and ten seconds to clean a jail.
const LONGEST: Duration = Duration::from_secs(60);

/// Programs whose first message is refused before a test of any style sees it. Their further
/// variants are tried in one style.
const REFUSED: [&str; 2] = ["forged_questions", "forged_results"];

/// Memory that this process may ever have, in KiB, whatever programs print and return.
const MEMORY_KIB: u64 = 384 << 10;

fn settings() -> CodeSettings {
    CodeSettings {
        workers: Some(1),
        timeout_s: 1.0,
        memory_mib: 192,
        output_mib: 1,
        ..CodeSettings::default()
    }
}

fn start(settings: &CodeSettings) -> Judge {
    Judge::start(settings).unwrap_or_else(|e| panic!("{e}"))
}

fn judge(judge: &Judge, tests: &Value, program: &str) -> Report {
    let response = format!("```python\n{program}\n```\n");
    judge.judge(&[(tests, response.as_str())]).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

/// Who judges on a thread.
struct Judges {
    /// Gives little time, so that programs without end are soon done.
    hasty: Judge,
    /// Gives as much time as a program may need on a busy machine that has an end.
    patient: OnceCell<Judge>,
}

impl Judges {
    fn new() -> Self {
        Self { hasty: start(&settings()), patient: OnceCell::new() }
    }

    /// Judges a hostile program, then a right one by the same worker; what is wrong with that.
    fn attack(&self, fixture: &Fixture, variant: usize, form: &Form, bait: &Bait) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut complain = |what: String| {
            wrong.push(format!("{} {variant}, {}: {what}", fixture.name, form.style));
        };
        let tests = bait.tests(form.style);
        let program = bait.program(&fixture.program).replace("@VARIANT@", &variant.to_string());
        let begun = Instant::now();
        let (mut by, mut report) = (&self.hasty, judge(&self.hasty, &tests, &program));
        if !form.expects(&report) && report.verdict.name() == "time_limit" {
            by =
                self.patient.get_or_init(|| start(&CodeSettings { timeout_s: 30.0, ..settings() }));
            report = judge(by, &tests, &program);
        }
        if !form.expects(&report) {
            complain(format!(
                "expected {}, found {}: {}",
                form.verdicts,
                report.verdict.name(),
                report.reason()
            ));
        }
        if report.passed > 0 {
            complain(format!("it passed {} of its tests", report.passed));
        }
        if begun.elapsed() > LONGEST {
            complain(format!("it took {:?}", begun.elapsed()));
        }
        if let Some(left) = processes::of_runs() {
            complain(format!("processes are left: {left}"));
        }
        let right = bait.right_program();
        let mut report = judge(by, &tests, &right);
        for _ in 0..RETRIES {
            if report.verdict.name() == "time_limit" {
                report = judge(by, &tests, &right);
            }
        }
        if report.verdict.name() != "passed" {
            complain(format!("then a right program: {}", report.reason()));
        }
        wrong
    }
}

/// Every program and every variant, by each of its forms of tests, but for [`REFUSED`].
#[test]
#[ignore = "deep: waits for the limits of dozens of programs"]
fn hostile_programs_come_to_nothing_in_every_form() {
    let bait = Bait::lay();
    let fixtures = fixture::all();
    assert!(fixtures.len() >= 40, "{} programs", fixtures.len());
    let only = std::env::var("HOSTILE").unwrap_or_default(); // a part of a name, to look at one
    let mut attacks = Vec::new();
    for fixture in fixtures.iter().filter(|fixture| fixture.name.contains(&only)) {
        for variant in 0..fixture.variants {
            let is_alike = variant > 0 && REFUSED.contains(&fixture.name.as_str());
            let is_tried = |form: &&Form| !is_alike || ["calls", "check"].contains(&form.style);
            let tried = fixture.forms.iter().filter(is_tried);
            attacks.extend(tried.map(|form| (fixture, variant, form)));
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let judges = Judges::new();
        let mut wrong = Vec::new();
        while let Some((fixture, variant, form)) = attacks.get(next.fetch_add(1, Ordering::Relaxed))
        {
            wrong.extend(judges.attack(fixture, *variant, form, &bait));
        }
        wrong
    };
    let mut wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    wrong.extend(bait.taken().map(|what| format!("somebody has taken bait: {what}")));
    let memory = processes::most_memory_kib();
    if memory > MEMORY_KIB {
        wrong.push(format!("this process has had {} MiB", memory >> 10));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Assertion code is somebody else's too. It may judge as it likes, but not beyond its own
/// judgement.
#[test]
fn hostile_tests_spoil_nothing() {
    let bait = Bait::lay();
    let by = start(&settings());
    let right = bait.right_program();
    for (code, verdicts) in [
        ("while True:\n    pass", "time_limit"),
        (
            "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
            "time_limit memory_limit",
        ),
        ("x = []\nwhile True:\n    x.append(bytearray(1 << 20))", "memory_limit time_limit"),
        ("import os\nos._exit(0)", "runtime_error unusable_tests"),
        ("import os\nos.kill(0, 9)", "memory_limit runtime_error"),
        (
            "import os\nwhile True:\n    os.write(4, b'\\xff' * 65536)",
            "runtime_error output_limit fault",
        ),
        ("import os\nos.write(4, b'u\\x02\\0\\0\\0{]')\nos._exit(3)", "unusable_tests"),
        ("import os\nos.write(4, b'c\\x02\\0\\0\\0[]')\nos._exit(3)", "unusable_tests"),
        (
            "import os\nos.write(4, b'c\\6\\0\\0\\0[0, 9]z\\0\\0\\0\\0')\nos._exit(3)",
            "unusable_tests",
        ),
        ("import os\nos.write(4, b'?\\x02\\0\\0\\0[]')\nos._exit(3)", "unusable_tests"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 1))", "wrong_answer"),
        ("answer(1, 2, 3, 4, 5)", "runtime_error"),
        (
            "import os\nfor n in range(300):\n    os.mkdir('d')\n    os.chdir('d')\nos.chmod('/tmp', 0)\nassert False",
            "wrong_answer",
        ),
        ("answer.__class__.__bases__[0].__call__ = lambda *_: '3'\nassert False", "unusable_tests"),
    ] {
        let report =
            judge(&by, &json!({"functional": format!("assert answer(3)\n{code}")}), &right);
        assert!(
            verdicts.split(' ').any(|name| name == report.verdict.name()),
            "{code}: {}",
            report.reason()
        );
        assert_eq!(processes::of_runs(), None, "{code}");
        let passes = || judge(&by, &bait.tests("check"), &right).verdict.name() == "passed";
        assert!((0..RETRIES).any(|_| passes()), "{code}");
    }
}

/// Outside of a jail the bait can be taken: otherwise it would prove nothing that programs in jails
/// do not get it.
#[test]
fn the_bait_can_be_taken() {
    let fixtures = fixture::all();
    let unprotected: Vec<&Fixture> =
        fixtures.iter().filter(|fixture| fixture.unprotected).collect();
    assert!(unprotected.len() >= 5);
    for fixture in unprotected {
        let bait = Bait::lay();
        let (number, answer) = bait.answers().next().unwrap();
        let printed = fixture::run_unprotected(&bait.program(&fixture.program), number);
        assert_eq!(printed.trim(), answer, "{}", fixture.name);
    }
}

/// Who shares the machine with programs that take all they can is slowed, but not beyond what a
/// limit of some seconds covers.
#[test]
fn others_are_not_slowed_beyond_reason() {
    let bait = Bait::lay();
    let fixtures = fixture::all();
    let greedy = fixtures
        .iter()
        .filter(|fixture| fixture.greedy)
        .map(|fixture| bait.program(&fixture.program));
    let greedy: Vec<String> = greedy.collect();
    assert!(greedy.len() >= 3);
    let tests = bait.tests("scripts");
    // One that makes no file keeps its jail.
    let right: Vec<String> = bait.right_program().lines().map(str::to_owned).collect();
    let is_of_file = |line: &&String| line.contains("/tmp/file") || line.contains("file.write");
    let kept: Vec<String> = right.iter().filter(|line| !is_of_file(line)).cloned().collect();
    assert_eq!(kept.len() + 3, right.len());
    let right = kept.join("\n");
    let others = start(&CodeSettings { timeout_s: 20.0, ..settings() });
    assert_eq!(judge(&others, &tests, &right).verdict.name(), "passed");
    thread::scope(|scope| {
        let attackers = scope.spawn(|| {
            let by = start(&settings());
            greedy
                .iter()
                .map(|program| judge(&by, &tests, program).verdict.name())
                .collect::<Vec<_>>()
        });
        let mut judged = 0;
        while !attackers.is_finished() {
            let report = judge(&others, &tests, &right);
            assert_eq!(report.verdict.name(), "passed", "{}", report.reason());
            judged += 1;
        }
        assert!(judged >= greedy.len(), "{judged} programs were judged meanwhile");
        assert!(!attackers.join().unwrap().contains(&"passed"));
    });
}
