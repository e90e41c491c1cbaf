//! Reports of `doctor`.

use crate::program::{Scratch, assert_parts, emulated, failure_last, isentrope, stderr, stdout_of};
use crate::train_ranks::Launcher;
use serde_json::{Value, json};
use std::net::TcpListener;

#[test]
fn json_is_one_object_with_sane_values() {
    let scratch = Scratch::new();
    let mut command = isentrope(&["doctor", "--json", "--threads", "2"]);
    let report: Value =
        serde_json::from_str(&stdout_of(command.env("XDG_CACHE_HOME", scratch.path("cache"))))
            .unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["threads"], 2);
    let (total, available) = (
        report["memory_bytes"].as_u64().unwrap(),
        report["memory_available_bytes"].as_u64().unwrap(),
    );
    assert!(available > 0 && available <= total && total >= 64 << 20, "{available} of {total}");
    assert!((1..=65536).contains(&report["cores"].as_u64().unwrap()));
    assert!(
        report["instruction_sets_available"]
            .as_array()
            .unwrap()
            .contains(&report["instruction_set"])
    );
    let speeds = report["linear"].as_array().unwrap();
    assert_eq!(speeds.len(), 2);
    for speed in speeds {
        let gflop = speed["gflop_per_s"].as_f64().unwrap();
        assert!(gflop > 0.01 && gflop < 1e6, "{speed}");
    }
    let bandwidth = report["memory_bandwidth_gb_per_s"].as_f64().unwrap();
    assert!(bandwidth > 0.05 && bandwidth < 1e5, "{bandwidth}");
    assert_eq!(report["hub_token"], false);
    for part in report["optional"].as_array().unwrap() {
        assert!(part["available"].is_boolean() && !part["why"].as_str().unwrap().is_empty());
    }
    // Where there is a sandbox, it holds.
    let attempts = report["sandbox"]["self_test"].as_array().unwrap();
    assert_eq!(report["sandbox"]["tier"].is_string(), attempts.len() > 25, "{}", report["sandbox"]);
    assert!(attempts.iter().all(|attempt| attempt["held"] == true), "{}", report["sandbox"]);
    // CUDA is there, or it is said what is missing.
    let cuda = &report["cuda"];
    assert_ne!(cuda["driver"].is_object(), cuda["no_driver"].is_object(), "{cuda}");
    if cuda["no_driver"].is_object() {
        assert!(cuda["no_driver"]["why"].as_str().unwrap().contains("NVIDIA"), "{cuda}");
    } else {
        assert!(cuda["driver"]["gpus"][0]["memory_bytes"].as_u64().unwrap() > 1 << 30, "{cuda}");
    }
    let names: Vec<&Value> =
        cuda["libraries"].as_array().unwrap().iter().map(|search| &search["library"]).collect();
    assert_eq!(names, ["NVRTC", "cuBLASLt"]);
    let parts = report["optional"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    assert_eq!(part("GPU")["available"], cuda["driver"].is_object());
    for name in ["NVRTC", "cuBLASLt"] {
        assert!(part(name)["why"].as_str().unwrap().len() > 20, "{parts:?}");
    }
}

/// With so many threads, and more of them.
#[test]
fn more_is_measured_when_it_is_asked_for() {
    let mut command = isentrope(&["doctor", "--json", "--measure", "--threads", "2"]);
    let report: Value = serde_json::from_str(&stdout_of(&mut command)).unwrap();
    let speeds = report["measured"]["cpu"].as_array().unwrap();
    assert_eq!(
        speeds.iter().map(|speed| speed["threads"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2]
    );
    for speed in speeds {
        for (key, least) in [
            ("training_gflop_per_s", 0.01),
            ("decoding_gflop_per_s", 0.01),
            ("memory_bandwidth_gb_per_s", 0.05),
        ] {
            let value = speed[key].as_f64().unwrap();
            assert!(value > least && value < 1e6, "{speed}");
        }
    }
}

/// The measured speed of an emulated GPU is nobody's idea of a GPU.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "deep: measures the emulated GPU"]
fn an_emulated_gpu_is_measured_and_called_one() {
    let text = stdout_of(&mut emulated(&["doctor", "--measure", "--threads", "1"]));
    let from = text
        .find("  GPU 0: emulated; these are the emulator's speeds")
        .unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> =
        text[from..].lines().skip(1).take_while(|line| line.starts_with("    ")).collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines.iter().all(|line| line.ends_with(" (emulated)")), "{text}");
    for what in [
        "copy, reading",
        "from locked",
        "to locked",
        "f32 products of 64",
        "bf16 products of 64, own",
        "a launch",
    ] {
        assert!(lines.iter().any(|line| line.trim().starts_with(what)), "{what}: {text}");
    }
}

/// One report for all ranks, with what each of them has.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn ranks_are_shown_under_a_launcher() {
    let scratch = Scratch::new();
    for launcher in Launcher::installed() {
        let launched = |arguments: &[&str]| {
            let mut command = launcher.ranks(2, isentrope(arguments).env("ISENTROPE_THREADS", "1"));
            command.current_dir(scratch.path("")).output().unwrap()
        };
        let output = launched(&["doctor", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ranks = report["ranks"]["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 2);
        for (number, rank) in ranks.iter().enumerate() {
            assert_eq!(rank["threads"], 1);
            assert!(rank["training_gflop_per_s"].as_f64().unwrap() > 0.01, "{rank}");
            assert!(
                rank["memory_bytes"].as_u64().unwrap()
                    <= report["memory_bytes"].as_u64().unwrap() / 2
            );
            assert_eq!(rank["neighbours"][0]["rank"], 1 - number);
            assert!(rank["neighbours"][0]["gb_per_s"].as_f64().unwrap() > 0.001, "{rank}");
        }
        assert_eq!(report["ranks"]["without_directory"], json!([]));
        let text = String::from_utf8(launched(&["doctor"]).stdout).unwrap();
        assert!(
            text.contains("  ranks             2 over ") && text.contains("shared directory  yes"),
            "{text}"
        );
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
    let mut command = isentrope(&["doctor"]);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HF_TOKEN", "hf_secret")
        .env("XDG_CACHE_HOME", scratch.path("cache"));
    let text = stdout_of(
        command
            .env("ISENTROPE_CUDA_LIBRARIES", scratch.path("named"))
            .env("ISENTROPE_THREADS", "1"),
    );
    let speeds = ["instruction set   ", "threads           1 on", "memory", "GFLOP/s"];
    assert_parts(
        &text,
        &[&speeds[..], &["with a token", "code sandbox", "Python            "]].concat(),
    );
    assert!(!text.contains("hf_secret"));
    let line = text
        .lines()
        .find(|line| line.contains("libnvrtc.so.13"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("(ISENTROPE_CUDA_LIBRARIES): not taken, "), "{line}");
    assert!(
        line.contains("another NVRTC") || line.contains("isentrope doctor --install-cuda"),
        "{line}"
    );
}

/// `crates/compute/cuda` tests what is fetched and how.
#[test]
fn an_index_of_libraries_that_cannot_be_reached_is_named() {
    let scratch = Scratch::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = isentrope(&["doctor", "--install-cuda"]);
    command.env_clear().env("XDG_CACHE_HOME", scratch.path("cache"));
    command.env("PIP_INDEX_URL", format!("http://{nobody}/simple"));
    failure_last(&mut command, &[&format!("error: http://{nobody}: "), "ISENTROPE_CUDA_LIBRARIES"]);
}
