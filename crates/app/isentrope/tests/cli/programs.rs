//! The built-in task programs: a policy learns to write functions from what tests say of them in
//! sandboxes.

use crate::program::{
    Scratch, can_judge_programs, isentrope, json_lines, json_of, stdout_of, text,
};
use crate::training::{Bench, assert_same_results, checkpoint, metrics, rollouts};
use serde_json::json;
use std::path::{Path, PathBuf};

fn base() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/programs-base")
}

/// Short runs from the shipped base.
fn bench() -> Bench {
    let recipe = format!(
        r#"
run.steps = 1
run.seed = 3
model.path = {:?}
data.task = "programs"
reward.verifier = "code"
[rollout]
prompts = 8
responses = 4
max_tokens = 48
[update]
prompts = 4
[objective]
loss = "importance"
[objective.covariance]
method = "kl-cov"
fraction = 0.002
[optimizer]
learning_rate = 3e-4
[eval]
every = 1
problems = 8
samples = 2
"#,
        text(&base())
    );
    Bench::new(Scratch::new(), "train", &recipe)
}

#[test]
fn every_response_is_judged_by_running_it() {
    if !can_judge_programs() {
        return;
    }
    let bench = bench();
    let out = bench.run("run", "", "");
    let lines = metrics(&out);
    for (step, line) in (1..).zip(&lines[1..]) {
        let responses = rollouts(&out, step);
        assert_eq!(responses.len(), 32);
        let correct = responses.iter().filter(|response| response["verdict"] == "correct").count();
        for response in &responses {
            let reason = response["reason"].as_str().unwrap();
            assert_eq!(reason == "passed 8 tests", response["verdict"] == "correct", "{response}");
        }
        assert!((1..32).contains(&correct), "{correct} of 32 are right");
        let share = |name: &str| line[name].as_f64().unwrap();
        assert!((share("reward/mean") - correct as f64 / 32.0).abs() < 1e-9);
        assert_eq!(share("verdict/fault"), 0.0);
        assert!(share("reward/code/wrong_answer") > 0.0);
    }
    // Any number of workers, in whatever order they are done, makes the same run.
    let again = bench.run("again", "reward.verifier={code={workers=3}}", "");
    assert_same_results(&out, &again);

    let results = bench.scratch.path("eval");
    let model = text(&checkpoint(&out, 1));
    let asked = format!("--bench programs --limit 16 --max-tokens 48 --out {results}");
    let table = stdout_of(isentrope(format!("eval {model} {asked}")));
    assert!(table.contains("programs: 16 problems, 4 responses each"), "{table}");
    let manifest = json_of(&Path::new(&results).join("manifest.json"));
    assert_eq!(manifest["benchmarks"]["programs"]["verifier"], json!("code"));
    let responses = json_lines(&Path::new(&results).join("responses/programs.jsonl"));
    let correct = responses.iter().filter(|response| response["verdict"] == "correct").count();
    let count = responses.len();
    assert!(count == 64 && (5..60).contains(&correct), "{correct} of {count}");
}
