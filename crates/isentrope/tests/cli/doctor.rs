//! What `doctor` reports.

use crate::program::{Scratch, isentrope, stderr, stdout_of};
use crate::train_ranks::Launcher;
use serde_json::{Value, json};

#[test]
fn json_is_one_object_with_sane_values() {
    let report: Value =
        serde_json::from_str(&stdout_of(&mut isentrope(&["doctor", "--json", "--threads", "2"]))).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["threads"], 2);
    let (total, available) =
        (report["memory_bytes"].as_u64().unwrap(), report["memory_available_bytes"].as_u64().unwrap());
    assert!(available > 0 && available <= total && total >= 64 << 20, "{available} of {total}");
    assert!((1..=65536).contains(&report["cores"].as_u64().unwrap()));
    assert!(report["instruction_sets_available"].as_array().unwrap().contains(&report["instruction_set"]));
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
}

/// One report for all ranks, with what each of them has.
#[test]
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
            assert!(rank["memory_bytes"].as_u64().unwrap() <= report["memory_bytes"].as_u64().unwrap() / 2);
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

#[test]
fn text_names_the_same_things_and_no_secret() {
    let mut command = isentrope(&["doctor"]);
    let text = stdout_of(command.env("HF_TOKEN", "hf_secret").env("ISENTROPE_THREADS", "1"));
    for part in [
        "instruction set   ",
        "threads           1 on",
        "memory",
        "GFLOP/s",
        "with a token",
        "code sandbox",
        "Python            ",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("hf_secret"));
}
