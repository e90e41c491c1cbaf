//! Run directories with numbers that are known.

use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Noise from -1 to 1 that is the same in every run.
pub fn noise(i: u64) -> f64 {
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 11) as f64 / (1u64 << 53) as f64) * 2.0 - 1.0
}

/// Entropy left at a step of a run whose entropy decays over `decay` steps.
pub fn entropy(step: u64, decay: f64) -> f64 {
    0.05 + 1.2 * (-(step as f64) / decay).exp()
}

/// The metrics of a step, as a run of this program writes them. Accuracy follows R = -0.2 exp(H) +
/// 0.8 on the set.
pub fn step(step: u64, decay: f64, every: u64, salt: u64) -> Map<String, Value> {
    let h = entropy(step, decay);
    let wave = |k: u64| noise(step * 64 + k + salt * 1_000_003);
    let mut row = json!({ "step": step });
    let map = row.as_object_mut().unwrap();
    if step > 0 {
        let correct = (0.8 - 0.2 * h.exp() + 0.05 * wave(0)).clamp(0.0, 1.0);
        let metrics = json!({
            "reward/mean": correct, "reward/score": correct, "reward/solved_all": 0.4 * correct,
            "reward/solved_none": 0.3,
            "verdict/correct": correct, "verdict/wrong": 0.9 - 0.9 * correct,
            "verdict/unparseable": 0.1 - 0.1 * correct,
            "verdict/timed_out": 0.0, "verdict/fault": 0.0,
            "response/length_mean": 40.0 + 3.0 * wave(1), "response/length_max": 160.0,
            "response/truncated": 0.1 + 0.02 * wave(2),
            "policy/entropy": h * 1.1, "policy/entropy_token_mean": h * 1.05,
            "policy/entropy_filtered": h * 1.1,
            "policy/entropy_token_mean_filtered": h * 1.05, "policy/loss": 0.02 * wave(3),
            "policy/clip_fraction": 0.004 + 0.003 * wave(4), "policy/clip_fraction_low": 0.001,
            "policy/clip_fraction_high": 0.003,
            "policy/dual_clip_fraction": 0.0, "policy/kl_old": 2e-4 * (1.0 + wave(5)),
            "policy/log_ratio_abs": 0.01,
            "policy/ratio_max": 1.5 + wave(6),
        });
        map.extend(metrics.as_object().unwrap().clone());
        let metrics = json!({
            "cov/mean": 0.01 + 0.005 * wave(7), "cov/max": 6.0 + wave(8),
            "cov/p99": 2.5 + 0.5 * wave(9), "cov/top_0.02_percent": 5.5,
            "cov/top_0.2_percent": 4.5 + 0.4 * wave(10),
            "cov/top_2_percent": 2.6, "cov/top_20_percent": 0.4, "cov/top_50_percent": 0.17,
            "cov/selected": 7.0,
            "cov/eligible": 3500.0, "cov/quadrant_low_logprob_negative_advantage": 0.9,
            "cov/quadrant_low_logprob_positive_advantage": 0.1,
            "cov/quadrant_high_logprob_negative_advantage": 0.0,
            "cov/quadrant_high_logprob_positive_advantage": 0.0, "cov/gradient_share": 0.08,
            "grad/norm": 0.4 + 0.1 * wave(11),
            "grad/norm_max": 0.6, "optimizer/learning_rate": 1e-6, "optimizer/skipped": 0.0,
            "update/count": 4.0,
        });
        map.extend(metrics.as_object().unwrap().clone());
    }
    if step.is_multiple_of(every) {
        let accuracy = 0.8 - 0.2 * h.exp() + 0.002 * wave(12);
        let metrics = json!({
            "eval/held-out/mean@8": accuracy, "eval/held-out/pass@8": 0.5 + accuracy / 2.0,
            "eval/held-out/maj@8": accuracy + 0.05,
            "eval/held-out/entropy": h, "eval/held-out/length_mean": 39.0,
            "eval/held-out/truncated": 0.0,
        });
        map.extend(metrics.as_object().unwrap().clone());
    }
    map.clone()
}

/// Writes a run directory: metrics, timings and, unless it is null, a recipe.
pub fn run(dir: &Path, name: &str, rows: &[Map<String, Value>], recipe: Value) -> PathBuf {
    let dir = dir.join(name);
    fs::create_dir_all(&dir).unwrap();
    let lines: String =
        rows.iter().map(|row| format!("{}\n", Value::Object(row.clone()))).collect();
    fs::write(dir.join("metrics.jsonl"), lines).unwrap();
    let timing = |row: &Map<String, Value>| {
        let rollout = 900.0 + 30.0 * noise(row["step"].as_u64().unwrap());
        json!({"step": row["step"], "time/step_s": 2.5, "time/rollout_s": 1.0,
            "throughput/rollout_tokens_per_s": rollout})
    };
    let lines: String = rows.iter().map(|row| format!("{}\n", timing(row))).collect();
    fs::write(dir.join("timings.jsonl"), lines).unwrap();
    if !recipe.is_null() {
        fs::write(dir.join(".recipe.json"), recipe.to_string()).unwrap();
    }
    dir
}

/// A recipe of `steps` steps with a covariance method.
pub fn recipe(steps: u64, method: &str) -> Value {
    json!({
        "run": {"out": format!("runs/{method}"), "seed": 1, "steps": steps},
        "rollout": {"max_tokens": 160},
        "objective": {"loss": "clip", "covariance": {"method": method, "fraction": 0.002}},
    })
}

/// A whole run of `steps` steps.
pub fn whole(dir: &Path, name: &str, steps: u64, decay: f64, method: &str, salt: u64) -> PathBuf {
    let rows: Vec<_> = (0..=steps).map(|s| step(s, decay, 4, salt)).collect();
    run(dir, name, &rows, recipe(steps, method))
}
