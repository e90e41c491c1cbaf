//! Reports of `doctor`.

use crate::program::{Scratch, assert_parts, failure_last, isentrope, json_of, stdout_of};
use crate::train_ranks::Launcher;
use serde_json::{Value, json};
use std::net::TcpListener;

#[test]
fn json_is_one_object_with_sane_values() {
    let scratch = Scratch::new();
    let mut command = isentrope("doctor --json --threads 2");
    let printed = stdout_of(command.env("XDG_CACHE_HOME", scratch.path("cache")));
    let report = json_of(scratch.file("report.json", printed).as_ref());
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&report["threads"], &report["hub_token"]), (&json!(2), &json!(false)));
    let number = |value: &Value| value.as_f64().unwrap();
    let (total, free) = (&report["memory_bytes"], &report["memory_available_bytes"]);
    assert!(0.0 < number(free) && number(free) <= number(total), "{free} of {total}");
    let sets = report["instruction_sets_available"].as_array().unwrap();
    assert!(sets.contains(&report["instruction_set"]));
    for speed in report["linear"].as_array().unwrap() {
        assert!((0.01..1e6).contains(&number(&speed["gflop_per_s"])), "{speed}");
    }
    assert!((0.05..1e5).contains(&number(&report["memory_bandwidth_gb_per_s"])));
    // Where there is a sandbox, it holds.
    let attempts = report["sandbox"]["self_test"].as_array().unwrap();
    assert_eq!(report["sandbox"]["tier"].is_string(), attempts.len() > 25, "{}", report["sandbox"]);
    assert!(attempts.iter().all(|attempt| attempt["held"] == true), "{}", report["sandbox"]);
    // CUDA is there, or it is said what is missing.
    let cuda = &report["cuda"];
    assert_ne!(cuda["driver"].is_object(), cuda["no_driver"].is_object(), "{cuda}");
    if cuda["no_driver"].is_object() {
        assert!(cuda["no_driver"]["why"].as_str().unwrap().contains("NVIDIA"), "{cuda}");
    }
    let parts = report["optional"].as_array().unwrap();
    for name in ["GPU", "NVRTC", "cuBLASLt", "code sandbox", "Python", "MPI"] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert!(part["available"].is_boolean() && !part["why"].as_str().unwrap().is_empty());
    }
}

/// One report for all ranks, with what each of them has.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn ranks_are_shown_under_a_launcher() {
    let scratch = Scratch::new();
    for launcher in Launcher::installed() {
        let launched = |line: &str| {
            let mut command = launcher.ranks(2, isentrope(line).env("ISENTROPE_THREADS", "1"));
            stdout_of(command.current_dir(scratch.path("")))
        };
        let report: Value = serde_json::from_str(&launched("doctor --json")).unwrap();
        let ranks = report["ranks"]["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 2);
        for (number, rank) in ranks.iter().enumerate() {
            assert_eq!(rank["threads"], 1);
            assert!(rank["training_gflop_per_s"].as_f64().unwrap() > 0.01, "{rank}");
            assert_eq!(rank["neighbours"][0]["rank"], 1 - number);
            assert!(rank["neighbours"][0]["gb_per_s"].as_f64().unwrap() > 0.001, "{rank}");
        }
        assert_eq!(report["ranks"]["without_directory"], json!([]));
        let text = launched("doctor");
        assert_parts(&text, &["  ranks             2 over ", "shared directory  yes"]);
        assert_eq!(text.matches("isentrope 0").count(), 1, "{text}");
        assert_eq!(scratch.names(), [""; 0]);
    }
}

/// A file that is no library is named with what is wrong with it, and the way to a right one.
#[test]
fn text_names_libraries_that_do_not_load_and_no_secret() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("named")).unwrap();
    scratch.file("named/libnvrtc.so.13", "not a library");
    let mut command = isentrope("doctor");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HF_TOKEN", "hf_secret").env("XDG_CACHE_HOME", scratch.path("cache"));
    command.env("ISENTROPE_CUDA_LIBRARIES", scratch.path("named")).env("ISENTROPE_THREADS", "1");
    let text = stdout_of(command);
    let speeds = ["instruction set   ", "threads           1 on", "memory", "GFLOP/s"];
    assert_parts(&text, &speeds);
    assert!(text.contains("with a token") && !text.contains("hf_secret"));
    let line = text.lines().find(|line| line.contains("libnvrtc.so.13")).unwrap();
    assert!(line.contains("(ISENTROPE_CUDA_LIBRARIES): not taken, "), "{line}");
    let remedies = ["another NVRTC", "isentrope doctor --install-cuda"];
    assert!(remedies.iter().any(|remedy| line.contains(remedy)), "{line}");
}

/// `crates/compute/cuda` tests what is fetched and how.
#[test]
fn an_index_of_libraries_that_cannot_be_reached_is_named() {
    let scratch = Scratch::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = isentrope("doctor --install-cuda");
    command.env_clear().env("XDG_CACHE_HOME", scratch.path("cache"));
    command.env("PIP_INDEX_URL", format!("http://{nobody}/simple"));
    failure_last(command, &[&format!("error: http://{nobody}: "), "ISENTROPE_CUDA_LIBRARIES"]);
}
