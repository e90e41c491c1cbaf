//! Texts of reports.

use crate::planted::{self, recipe, run, step, whole};
use isentrope_lab::report::{Report, RunPlan};
use isentrope_lab::seeds::Control;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn page(paths: &[PathBuf]) -> String {
    let html = Report::open(paths).unwrap().html().unwrap();
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    html
}

/// The page of a run that is called `name`.
fn page_of(name: &str, rows: &[Map<String, Value>], recipe: Value) -> String {
    let dir = tempfile::tempdir().unwrap();
    page(&[run(dir.path(), name, rows, recipe)])
}

/// The page of a run of these rows, without a recipe.
fn page_of_rows(rows: impl Iterator<Item = Value>) -> String {
    page_of("run", &rows.map(map).collect::<Vec<_>>(), Value::Null)
}

fn map(row: Value) -> Map<String, Value> {
    row.as_object().unwrap().clone()
}

fn rows(steps: u64) -> Vec<Map<String, Value>> {
    (0..=steps).map(|s| step(s, 40.0, 4, 0)).collect()
}

/// The page without its packed parts and scripts, as text with single spaces.
fn words(html: &str) -> String {
    let body = html.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0;
    let (mut text, mut inside) = (String::new(), false);
    for c in body.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The summary alone.
fn summary(html: &str) -> String {
    let (_, rest) = html.split_once("<section id=\"summary\">").unwrap();
    words(&format!("<main>{}</main>", rest.split_once("</section>").unwrap().0))
}

#[track_caller]
fn says(html: &str, parts: &[&str]) {
    crate::says(&words(html), parts);
}

#[test]
fn a_summary_has_the_numbers_of_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = whole(dir.path(), "grpo", 200, 40.0, "kl-cov", 0);
    let html = page(std::slice::from_ref(&path));
    let [first, last] = [0, 200].map(|step| planted::entropy(step, 40.0));
    says(
        &html,
        &[
            "It ran for all 200 steps of its recipe",
            "Entropy in evaluations on held-out (eval/held-out/entropy)",
            &format!("fell from {first:.3} to {last:.3} nats"),
            "half of the fall was over by step 28 of 200",
            "Accuracy on held-out (eval/held-out/mean@8) rose from",
            "KL-Cov picked 1,400 tokens in all, 0.2 % of those that it could pick from; its term \
             was 8.0 % of the gradient",
            "accuracy is eval/held-out/mean@8, entropy is eval/held-out/entropy, of the same \
             responses",
            "“groups trained on” is the same as “all responses”.",
            "0 in every step: “timed out”, “could not be judged”.",
            &format!("was read from {}", path.display()),
        ],
    );
    let drawn = ["law-0", "entropy", "accuracy", "reward", "length", "covariance", "clip", "kl"];
    for id in drawn.into_iter().chain(["gradient", "throughput", "others"]) {
        assert!(html.contains(&format!("id=\"plot-{id}\"")), "{id}");
    }
    assert!(!html.contains("id=\"plot-parts") && !html.contains("id=\"plot-loss-of"));
    let visible = html.split("<script type=\"application/gzip\"").next().unwrap();
    assert!(!visible.contains("http://") && !visible.contains("https://"));
}

#[test]
fn a_summary_names_the_parts_of_the_objective() {
    let says = |objective: Value, expected: &str| {
        says(&page_of("run", &rows(4), json!({ "objective": objective })), &[expected]);
    };
    let methods = json!({ "steer": { "weight_min": 0.8 }, "erc": null, "clip_v": { "mu": 8.5 } });
    says(
        json!({
            "loss": "ce-gppo", "advantage": "maxrl", "methods": methods,
            "covariance": { "method": "none" }, "entropy_bonus": { "coefficient": 0.0 },
            "reference_kl": { "coefficient": 0.01 }, "entropy_mask_fraction": null,
        }),
        "Its objective is CE-GPPO (loss), MaxRL (advantage), STEER (weight), Clip_V (weight) and \
         KL to the reference (term).",
    );
    says(json!({ "loss": "clip" }), "Its objective is PPO-clip (loss).");
    let teacher = |divergence: &str| json!({ "distillation": { "teacher": "a", "self_teacher": null, "divergence": divergence } });
    says(teacher("sampled-token"), "Its objective is On-policy distillation (advantage).");
    says(teacher("reverse-kl"), "Its objective is Exact reverse KL to the teacher (term).");
    assert!(
        !summary(&page_of_rows((0..4).map(|step| json!({ "step": step }))))
            .contains("Its objective")
    );
}

#[test]
fn runs_stand_side_by_side_with_the_settings_that_differ() {
    let dir = tempfile::tempdir().unwrap();
    let runs = [
        whole(dir.path(), "a/grpo", 100, 20.0, "none", 1),
        whole(dir.path(), "b/grpo", 100, 80.0, "kl-cov", 2),
        whole(dir.path(), "kl", 60, 80.0, "kl-cov", 3),
    ];
    let html = page(&runs);
    let parts = ["Report on 3 runs", "a/grpo", "b/grpo", "The other 4 settings are equal."];
    says(&html, &parts);
    let settings = html.split_once("<section id=\"settings\">").unwrap().1;
    let settings = settings.split_once("</section>").unwrap().0;
    for part in ["run.steps", "objective.covariance.method", "<td>none</td>"] {
        assert!(settings.contains(part), "{settings}");
    }
    assert!(!settings.contains("run.out") && !settings.contains("run.seed"), "{settings}");
    assert_eq!(html.matches("aria-pressed=\"true\"").count(), 2 * 3);
    assert_eq!(page(&runs), html, "the same runs make the same page");
}

/// Seeds of a sweep lie in directories that are called "1" and "2".
#[test]
fn runs_of_one_tree_are_told_apart_alike() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [map(json!({"step": 1, "eval/set/mean@2": 0.5, "eval/set/entropy": 1.0}))];
    let made =
        |name: &str| run(&dir.path().join("sweep"), name, &rows, json!({"run": {"steps": 1}}));
    for (names, labels) in [
        (&["grpo/1", "kl-cov/1", "kl-cov/2"][..], &["grpo/1", "kl-cov/1", "kl-cov/2"][..]),
        (&["a/64/1", "a/32/1", "b/64/1"], &["a/64/1", "a/32/1", "b/64/1"]),
        (&["1", "2"], &["sweep/1", "sweep/2"]),
        (&["grpo", "kl-cov"], &["grpo", "kl-cov"]),
        (&["x/grpo", "y/grpo", "other"], &["x/grpo", "y/grpo", "other"]),
    ] {
        let html = page(&names.iter().map(|name| made(name)).collect::<Vec<_>>());
        for label in labels {
            assert!(html.contains(&format!("<bdi>{label}</bdi>")), "{label}");
        }
    }
}

/// Names and settings are only text, and what is hidden in them is written out.
#[test]
fn hostile_names_and_settings_stay_text() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = "\u{202e}\u{2066}\u{1b}[31m\u{7}";
    let (evil, set) = (format!("<script>alert(1)<{hidden}"), format!("<img src=x>{hidden}"));
    let rows = [map(json!({"step": 1, format!("eval/{set}/mean@2"): 0.5,
        format!("eval/{set}/entropy"): 1.0, "</script>": 2.0, format!("own/{hidden}"): 2.0,
        "policy/entropy": 1.0}))];
    let recipe =
        json!({"run": {"steps": 1}, "model": {"path": "</td><b onclick=1>", hidden: hidden}});
    let first = run(dir.path(), &evil, &rows, recipe);
    let other = run(dir.path(), "other", &rows, json!({"model": {"path": "x\" y='"}}));
    let html = page(&[first.clone(), other, first.clone()]);
    for raw in ["<script>alert", "<img", "<b onclick", "x\" y="] {
        assert!(!html.contains(raw), "{raw}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;") && html.contains(" (2)</bdi>"));
    assert!(!html.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}']));
    // Every element that opens closes: nothing has left its place.
    assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    says(
        &page(&[first]),
        &["alert(1)&lt;\\u{202e}\\u{2066}\\u{1b}[31m\\u{7}", "src=x&gt;\\u{202e}"],
    );
}

#[test]
fn turns_have_a_chart_where_there_are_turns() {
    let row = |turns: bool| {
        move |step: u64| {
            let mut row = json!({"step": step, "policy/entropy": 1.0});
            if turns {
                row["policy/entropy_turn_1"] = json!(0.5);
                row["policy/entropy_turn_12"] = json!(0.25);
            }
            row
        }
    };
    says(&page_of_rows((1..4).map(row(true))), &["Entropy of turns"]);
    assert!(!words(&page_of_rows((1..4).map(row(false)))).contains("Entropy of turns"));
}

#[test]
fn runs_without_numbers_and_runs_that_were_cut_off_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let empty = run(dir.path(), "empty", &[], Value::Null);
    let html = page(std::slice::from_ref(&empty));
    says(&html, &["Nothing has been measured yet", "No recipe beside the log of empty"]);
    assert!(!html.contains("packed-plotly") && !html.contains("id=\"plot-"), "no charts");
    let other = run(dir.path(), "other", &rows(8), recipe(8, "none"));
    says(&page(&[empty, other]), &["Nothing has been measured yet", "all 8 steps"]);

    let first = page_of("first", &rows(0), recipe(100, "none"));
    says(&first, &["the only measurement", "come to step 0 of the 100"]);
    says(&first, &["No law to rely on: too few points: 1"]);
    assert!(!words(&first).contains('→'), "one measurement is no change: {}", words(&first));

    let path = run(dir.path(), "cut", &rows(20), recipe(50, "clip-cov"));
    let mut metrics = fs::read_to_string(path.join("metrics.jsonl")).unwrap();
    metrics.truncate(metrics.len() - 30);
    fs::write(path.join("metrics.jsonl"), metrics).unwrap();
    let parts = ["It has come to step 19 of the 50", "line 21 is cut off and is left out"];
    says(&page(&[path]), &parts);
}

#[test]
fn a_run_that_diverged_is_said_to_have_lost_its_numbers() {
    let mut all = rows(30);
    for row in &mut all[13..] {
        let is_lost = |name: &str| ["policy", "grad", "cov"].iter().any(|p| name.starts_with(p));
        for (name, value) in row.iter_mut().filter(|(name, _)| is_lost(name)) {
            *value = if name == "cov/max" { json!(1e300) } else { Value::Null };
        }
        row.insert("optimizer/skipped".into(), json!(5.0));
    }
    let said = summary(&page_of("broken", &all, recipe(30, "none")));
    let parts = [
        "It may have diverged",
        "policy/loss after step 12",
        "goes on to step 30",
        "5 updates were left out",
    ];
    crate::says(&said, &parts);
    assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
}

#[test]
fn too_many_runs_are_refused() {
    assert!(Report::open(&[]).is_err() && Report::open(&vec![PathBuf::from("x"); 65]).is_err());
    let many = tempfile::tempdir().unwrap();
    for i in 0..65 {
        fs::write(many.path().join(format!("{i}.jsonl")), "{\"step\":1,\"a\":1}\n").unwrap();
    }
    let error = Report::open(&[many.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("1 to 64 runs") && error.contains("these are 65"), "{error}");
}

#[test]
#[ignore = "deep: 80000 steps"]
fn eight_very_long_runs_take_seconds_and_stay_below_5_megabytes() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<PathBuf> =
        (0..8).map(|i| whole(dir.path(), &format!("run-{i}"), 10_000, 2000.0, "none", i)).collect();
    let begun = Instant::now();
    let html = page(&runs);
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(60), "{taken:?} in a build that is not optimised");
    let thinned = "of each stretch of steps the least and the largest value";
    says(&html, &["all 10,000 steps of its recipe", thinned]);
}

#[test]
fn runs_without_entropies_or_evaluations_have_others() {
    let row = |s: u64| {
        map(json!({"step": s, "sft/loss": 2.0 / s as f64, "sft/entropy": 3.0 - 0.1 * s as f64,
            "eval/loss": 1.0}))
    };
    let tuned =
        page_of("sft", &(1..=10).map(row).collect::<Vec<_>>(), json!({"run": {"steps": 10}}));
    let fell = "Entropy (sft/entropy) fell from 2.900 to 2.000 nats, by 0.900 nats [0.674, 1.126].";
    says(&tuned, &[fell, "all 10 steps"]);
    assert!(tuned.contains("id=\"plot-loss\"") && !tuned.contains("id=\"law\""));

    let mut rollouts = rows(40);
    rollouts.remove(0);
    rollouts.iter_mut().for_each(|row| row.retain(|name, _| !name.starts_with("eval/")));
    says(
        &page_of("rollouts", &rollouts, Value::Null),
        &[
            "Accuracy on the training prompts (reward/score)",
            "Entropy of the responses sampled for training (policy/entropy)",
            "there, not on held-out problems, does this law hold",
        ],
    );
    // An evaluation without an entropy takes that of the next rollout.
    let mut borrowed = rows(40);
    borrowed.iter_mut().for_each(|row| drop(row.remove("eval/held-out/entropy")));
    says(
        &page_of("verl", &borrowed, Value::Null),
        &[
            "entropy is policy/entropy; the entropy is not the evaluation&#39;s own: that of the \
             nearest rollout",
            &format!("from {:.3} to", 1.1 * planted::entropy(1, 40.0)),
        ],
    );
}

/// A mean score may be any number: a ceiling of 2.4 is neither above 100 % nor 240 %.
#[test]
fn mean_scores_are_no_shares() {
    let mut all = rows(40);
    for row in &mut all {
        if let Some(share) = row.remove("eval/held-out/mean@8") {
            row.insert("eval/held-out/score".into(), json!(4.0 * share.as_f64().unwrap()));
        }
    }
    let html = page_of("scored", &all, recipe(40, "none"));
    says(&html, &["(eval/held-out/score) rose from 0.4", "accuracy ends at 2."]);
    for wrong in ["which cannot be", "above 100"] {
        assert!(!words(&html).contains(wrong), "{wrong:?} is in: {}", words(&html));
    }
}

#[test]
fn small_changes_are_said_to_be_small_and_charts_of_nothing_are_left_out() {
    let row = |s: u64| json!({"step": s, "eval/a/mean@2": 0.5, "eval/a/entropy": 0.368 - 0.0007 * s as f64});
    let html = page_of_rows((0..=10).map(row));
    let fell =
        "(eval/a/entropy) fell from 0.368 to 0.361 nats, by 7.00e−3 nats [5.44e−3, 8.56e−3].";
    says(&html, &[fell]);
    // No share is spent of an entropy that begins at 0.
    let row =
        |s: u64| json!({"step": s, "eval/set/mean@1": 0.5, "eval/set/entropy": -0.125 * s as f64});
    let said = summary(&page_of_rows((0..=20).map(row)));
    let fell = "nats, by 2.500 nats [2.239, 2.761]; half of the fall was over by step 10 of 20";
    assert!(said.contains(fell), "{said}");

    let row = |s: u64| {
        json!({"step": s, "policy/entropy": 1.5, "cov/selected": 0, "cov/eligible": 0,
            "grad/norm": 1e300, "eval/a/mean@1": 0.5, "eval/a/pass@1": 0.5, "eval/a/maj@1": 0.5,
            "response/length_mean": 1e300})
    };
    let html = page_of_rows((0..=5).map(row));
    let zero = "0 in every step, and so not drawn: “Tokens that the covariance method picked”.";
    says(&html, &[zero]);
    for id in ["picked", "accuracy-of-several", "gradient"] {
        assert!(!html.contains(&format!("id=\"plot-{id}\"")), "{id}");
    }
    assert!(!words(&html).contains("0000000000"), "{}", words(&html));
}

/// Three steps of four prompts with four responses, whose weights no update has changed.
#[test]
fn samples_of_the_same_weights_are_no_change() {
    let row = |step: u64| {
        let mut row = json!({"step": step});
        if step > 0 {
            let i = step as usize - 1;
            row["policy/entropy"] = json!([0.91, 0.84, 0.74][i]);
            row["reward/score"] = json!([0.0, 0.0625, 0.125][i]);
            row["grad/norm"] = json!([0.0, 0.0, 0.7][i]);
        }
        row
    };
    let with = |name: &str, values: [f64; 4]| {
        let rows = (0..4).map(|step| {
            let mut row = row(step);
            row[name] = json!(values[step as usize]);
            row
        });
        summary(&page_of_rows(rows))
    };
    // By the checksum of the weights, or in an older log by learning rates of 0.
    for said in
        [with("weights/crc32c", [7.0, 7.0, 7.0, 7.0]), with("optimizer/learning_rate", [0.0; 4])]
    {
        let parts = [
            "No update has changed the weights",
            "(policy/entropy) was 0.910 at step 1 and 0.740 nats at step 3, both of the same",
            "(reward/score) was 0.0 % at step 1 and 12.5 % at step 3, both of the same weights",
        ];
        crate::says(&said, &parts);
        assert!(!said.contains("fell") && !said.contains("rose"), "{said}");
    }
    // Steps that changed them are so few that they show no change all the same.
    for said in
        [with("weights/crc32c", [7.0, 8.0, 9.0, 9.0]), with("optimizer/learning_rate", [1e-6; 4])]
    {
        assert!(!said.contains("No update"), "{said}");
        crate::says(&said, &["(policy/entropy) shows no change beyond chance", "[", "]"]);
    }
}

/// Two evaluations are compared problem by problem where their responses are there.
#[test]
fn two_evaluations_change_as_their_problems_do() {
    let dir = tempfile::tempdir().unwrap();
    let row = |step: u64, accuracy: f64, entropy: f64| {
        map(json!({"step": step, "eval/set/mean@2": accuracy, "eval/set/entropy": entropy}))
    };
    let rows = [row(0, 0.25, 0.5), row(20, 0.75, 0.5)];
    let path = run(dir.path(), "run", &rows, recipe(20, "none"));
    let said = || summary(&page(std::slice::from_ref(&path)));
    let unknown = "(eval/set/mean@2) went from 25.0 % to 75.0 %: two measurements do not tell";
    assert!(said().contains(unknown), "{}", said());
    fs::create_dir(path.join("evaluations")).unwrap();
    let write = |step: u64, right: usize| {
        let line = |i: usize| {
            json!({"prompt": format!("{}", i / 2), "sample": i % 2, "tokens": 3, "entropy": 0.5,
                "verdict": if i / 2 < right { "correct" } else { "wrong" }})
        };
        let lines: String = (0..80).map(|i| format!("{}\n", line(i))).collect();
        fs::write(path.join(format!("evaluations/step-{step:06}-set.jsonl")), lines).unwrap();
    };
    write(0, 10);
    write(20, 30);
    let parts = [
        "(eval/set/mean@2) rose from 25.0 % to 75.0 %, by 50.0 points [33.8, 66.2]",
        "(eval/set/entropy) shows no change beyond chance: from 0.500 to 0.500 nats, by 0 nats [",
    ];
    crate::says(&said(), &parts);
    write(20, 11);
    crate::says(&said(), &["(eval/set/mean@2) shows no change beyond chance"]);
}

/// The page of another trainer's log with these rows.
fn page_of_foreign(name: &str, text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text.replace("\"NaN\"", "NaN")).unwrap();
    page(&[path])
}

#[test]
fn an_entropy_of_others_that_is_lost_is_told_and_accuracy_goes_on() {
    let lines = |steps: u64, row: &dyn Fn(u64) -> Value| -> String {
        (1..=steps).map(|step| format!("{}\n", row(step))).collect()
    };
    let row = |step: u64| {
        let entropy = |of: f64| if step <= 12 { json!(of / step as f64) } else { json!("NaN") };
        json!({"step": step, "actor/entropy": entropy(1.0), "critic/score/mean": 0.01 * step as f64,
            "actor/grad_norm": "NaN"})
    };
    says(
        &page_of_foreign("verl.jsonl", &lines(20, &row)),
        &[
            "It may have diverged: there is no finite value of policy/entropy_token_mean_filtered \
             after step 12, while the log goes on to step 20",
            "(reward/score) rose from 1.0 % to 20.0 %",
            "that is its best",
            "1.0 % → 20.0 %",
            "8 of 20 rollouts have no entropy and are left out",
            "1 metric was never finite, such as actor/grad_norm",
        ],
    );
    // Evaluations are rarer than steps; what counts is whether their accuracy goes on.
    let row = |step: u64| {
        let mut row = json!({"step": step, "policy/entropy": 1.0, "policy/loss": 0.5});
        if step.is_multiple_of(5) {
            row["eval/a/score"] = json!(0.01 * step as f64);
            row["eval/a/entropy"] = if step <= 10 { json!(0.5) } else { Value::Null };
        }
        row
    };
    let said = |steps: u64| summary(&page_of_foreign("ours.jsonl", &lines(steps, &row)));
    assert!(!said(14).contains("diverged"), "{}", said(14));
    assert!(said(17).contains("no finite value of eval/a/entropy after step 10"), "{}", said(17));
    let unclear =
        "(eval/a/score) shows no change beyond chance: from 5.0 % to 15.0 %, by 10.0 points [";
    assert!(said(17).contains(unclear), "{}", said(17));
    // A trainer that logs every tenth step has not diverged at its end.
    let row = |i: u64| {
        json!({"step": 10 * i, "epoch": 0.1, "loss": 0.5, "reward": 0.5, "kl": 0.1,
            "step_time": 3.0})
    };
    let last = json!({"step": 43, "epoch": 0.5, "train_loss": 0.4});
    let rows: Vec<Value> = (1..=4).map(row).chain([last]).collect();
    let state = json!({ "log_history": rows }).to_string();
    let said = summary(&page_of_foreign("trainer_state.json", &state));
    assert!(!said.contains("diverged"), "{said}");
    assert!(said.contains("goes to step 43, in 2 min 00 s of training."), "{said}");
}

/// A seed of KL-Cov, with its recipe.
fn seed(dir: &Path, seed: u64, settings: Value) -> (PathBuf, Value) {
    let rows: Vec<_> = (0..=20).map(|s| step(s, 30.0, 4, seed)).collect();
    let mut recipe = recipe(20, "kl-cov");
    recipe["run"]["seed"] = json!(seed);
    recipe.as_object_mut().unwrap().extend(map(settings));
    (run(dir, &seed.to_string(), &rows, recipe.clone()), recipe)
}

#[test]
fn a_directory_of_runs_has_their_recipes() {
    let dir = tempfile::tempdir().unwrap();
    let [(one, _), _] = [1, 2].map(|number| seed(dir.path(), number, json!({})));
    let html = page(&[dir.path().to_owned()]);
    says(&html, &["It ran for all 20 steps of its recipe"]);
    assert!(!html.contains("No recipe beside the log") && html.contains("data-method=\"0\""));
    fs::remove_dir_all(dir.path().join("2")).unwrap();
    let is_of = |path: &Path| Report::open(&[path.to_owned()]).unwrap().is_of_directory(path);
    assert!(is_of(&one) && is_of(&one.join("")), "with a slash behind it or without");
    assert!(!is_of(dir.path()), "a directory above a run, though it is alone there");
    assert!(!is_of(&one.join("metrics.jsonl")));
}

/// Seeds that are added with a program which has one setting more are of the group of those before.
#[test]
fn seeds_of_an_older_program_are_of_the_same_group() {
    let dir = tempfile::tempdir().unwrap();
    let (old, _) = seed(dir.path(), 1, json!({"data": {"date": "2026-11-26"}}));
    let (new, recipe) = seed(dir.path(), 2, json!({"data": {"date": null, "new": true}}));
    let open = || Report::open(&[old.clone(), new.clone()]).unwrap();
    let html = |report: Report| report.html().unwrap();
    let unknown = html(open());
    assert!(!unknown.contains("<h2>Over seeds</h2>"), "nobody says what the older program did");

    let defaults = json!({"data": {"new": true}, "run": {"steps": 7}});
    let completed = html(open().with_defaults(|_| defaults.clone()));
    says(&completed, &["Over seeds", "2 seeds", "It ran for all 20 steps of its recipe"]);
    let settings = completed.split_once("<section id=\"settings\">").unwrap().1;
    assert!(!settings.contains("data.new"), "it is equal: {settings}");

    // A sweep knows better: its file may have another value than the default.
    let planned = |seed: u64| {
        let mut recipe = recipe.clone();
        recipe["run"]["seed"] = json!(seed);
        RunPlan { group: "kl".into(), control: Control::First, recipe }
    };
    says(&html(open().with_groups(vec![planned(1), planned(2)])), &["Over seeds", "kl 2 seeds"]);
}
