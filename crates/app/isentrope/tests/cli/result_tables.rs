//! `isentrope lab seeds` on the tables that docs/paper/results keeps of the experiments.

use crate::program::{failure_saying, isentrope, names, stdout_of};
use serde_json::Value;
use std::path::Path;

#[test]
fn kept_tables_have_their_statistics() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/paper/results");
    for file in names(&kept) {
        let path = kept.join(&file).display().to_string();
        let said = stdout_of(isentrope(format!("lab seeds {path}")));
        for part in [": entropy at the end, nats", "## The law R = -a exp(H) + b"] {
            assert!(said.contains(part), "{file}: {said}");
        }
    }
    let path = kept.join("countdown-autopilot.csv.gz").display().to_string();
    let said = stdout_of(isentrope(format!("lab seeds {path} --target 0.25")));
    for part in ["## Entropy held at a target", "where entropy falls to 0.25 nats, %"] {
        assert!(said.contains(part), "{said}");
    }
    let missing = isentrope(format!("lab seeds {path} --group nothing"));
    failure_saying(missing, &["no group \"nothing\"; it has any-token"]);
    let json = stdout_of(isentrope(format!("lab seeds {path} --group any-token --json")));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["name"], "any-token");
    let curve = &json["curves"][0]["curves"]["policy/entropy"];
    assert_eq!(curve["steps"].as_array().unwrap().len(), curve["mean"].as_array().unwrap().len());
    assert!(
        json["curves"][0]["laws"]["countdown"]["r_squared"].is_f64(),
        "{}",
        json["curves"][0]["laws"]
    );
}
