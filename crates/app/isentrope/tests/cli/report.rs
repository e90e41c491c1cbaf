//! `isentrope report`: where the page goes, and what is refused. What is on it is tested in
//! crates/app/lab.

use crate::program::{Scratch, failure_saying, isentrope, stderr, stdout_of, wrong_usage};
use std::fs;

/// A run of two steps.
fn run(scratch: &Scratch, name: &str) -> String {
    fs::create_dir(scratch.path(name)).unwrap();
    let metrics = "{\"step\":1,\"policy/entropy\":1.5}\n{\"step\":2,\"policy/entropy\":1.25}\n";
    scratch.file(&format!("{name}/metrics.jsonl"), metrics);
    scratch.path(name)
}

#[test]
fn the_page_is_in_the_run_or_here_or_where_it_is_asked_for() {
    let scratch = Scratch::new();
    let (a, b) = (run(&scratch, "a"), run(&scratch, "b"));
    let said = stderr(&isentrope(&["report", &a]).output().unwrap());
    assert!(said.contains("a/report.html: ") && said.contains("open it in a browser"), "{said}");
    let page = fs::read_to_string(scratch.path("a/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("fell from 1.500 to <b>1.250</b> nats"), "no sentence on entropy");

    stdout_of(isentrope(&["report", &a, &b]).current_dir(scratch.path("")));
    assert!(fs::read_to_string(scratch.path("report.html")).unwrap().contains("Report on 2 runs"));
    assert_eq!(stdout_of(&mut isentrope(&["report", &a, "--out", "-"])), page);
    stdout_of(&mut isentrope(&["report", &a, "--out", &scratch.path("other.html")]));
    assert_eq!(fs::read_to_string(scratch.path("other.html")).unwrap(), page);
    assert_eq!(scratch.names(), ["a", "b", "other.html", "report.html"]);
}

/// A sweep's directory has a report of its own, with other comparisons.
#[test]
fn the_page_of_a_directory_above_runs_does_not_take_the_place_of_what_is_there() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("sweep/grpo")).unwrap();
    for seed in ["1", "2"] {
        run(&scratch, &format!("sweep/grpo/{seed}"));
        fs::create_dir(scratch.path(&format!("sweep/grpo/{seed}/tensorboard"))).unwrap();
        scratch.file(&format!("sweep/grpo/{seed}/tensorboard/events.out.tfevents.1.host.1.0"), "");
        // The second was begun with a program that has all settings of today, the first with an
        // older one.
        let lab = if seed == "1" { "{}" } else { "{\"track_theory\":false}" };
        let recipe =
            format!("{{\"run\":{{\"seed\":{seed},\"steps\":2}},\"rollout\":{{}},\"lab\":{lab}}}");
        scratch.file(&format!("sweep/grpo/{seed}/.recipe.json"), &recipe);
    }
    scratch.file("sweep/report.html", "the sweep's own");
    stdout_of(isentrope(&["report", &scratch.path("sweep")]).current_dir(scratch.path("")));
    assert_eq!(fs::read_to_string(scratch.path("sweep/report.html")).unwrap(), "the sweep's own");
    let page = fs::read_to_string(scratch.path("report.html")).unwrap();
    assert!(page.contains("Report on 2 runs") && page.contains("<h2>Over seeds</h2>"));
    assert_eq!(scratch.names(), ["report.html", "sweep"]);
}

#[test]
fn what_cannot_be_read_is_named_and_no_page_is_written() {
    let scratch = Scratch::new();
    let (a, b) = (run(&scratch, "a"), run(&scratch, "b"));
    scratch.file("b/metrics.jsonl", "{\"step\":1}\n{\"step\":one}\n");
    failure_saying(
        &mut isentrope(&["report", &a, &b, "--out", &scratch.path("x.html")]),
        &["b/metrics.jsonl: line 2: "],
    );
    failure_saying(&mut isentrope(&["report", &scratch.path("none")]), &["none: "]);
    failure_saying(
        &mut isentrope(&["report", &a, "--out", &scratch.path("no/x.html")]),
        &["cannot write there"],
    );
    failure_saying(&mut isentrope(&["report", &a, "--out", &b]), &["is a directory"]);
    wrong_usage(&mut isentrope(&["report"]), "RUN");
    assert_eq!(scratch.names(), ["a", "b"]);
}
