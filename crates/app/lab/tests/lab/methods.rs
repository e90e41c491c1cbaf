//! Objectives side by side on planted token records.

use crate::inspect::{open, record, run, with_and_without_given};
use isentrope_lab::inspect::{Inspection, tables};
use isentrope_lab::methods::{Comparison, MethodMap, NamedObjective};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// Two responses of two tokens, advantages 1 and -1, whose ratios are 1 but for one of 2. Slopes of
/// the entropy: -0.5, 0.25, 0.5, -1.
fn records() -> [Value; 2] {
    let with = |mut record: Value, after: [f64; 2], slopes: [f64; 2]| {
        record["logprobs_after"] = json!(after);
        record["entropies_after"] = json!([0.5, 0.6]);
        record["entropy_slopes_after"] = json!(slopes);
        record
    };
    [
        with(record(3, &["a", "b"], 1.0), [-1.0, -2.0 + f64::ln(2.0)], [-0.5, 0.25]),
        with(record(3, &["c", "d"], -1.0), [-1.0, -2.0], [0.5, -1.0]),
    ]
}

fn named(name: &str, settings: Value) -> NamedObjective {
    NamedObjective { name: name.into(), settings: serde_json::from_value(settings).unwrap() }
}

fn map(lines: &[Value], objectives: &[NamedObjective]) -> MethodMap {
    MethodMap::of(&open(&run(3, lines)), objectives).unwrap()
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-5, "{a} instead of {b}");
}

/// Coefficients by hand: -rho A is -1, -2, 1, 1; clipping takes the second.
#[test]
fn planted_tokens_have_the_coefficients_of_the_formulas() {
    let objectives = [
        named("free", json!({ "loss": "importance" })),
        named("clip", json!({})),
        named(
            "half",
            json!({ "loss": "importance", "methods": { "w_reinforce": { "lambda": 0.5 } } }),
        ),
        named("erc", json!({ "loss": "importance", "methods": { "erc": {} } })),
        named("same", json!({ "loss": "importance", "aggregation": "seq-mean-token-mean" })),
        named("bonus", json!({ "loss": "importance", "entropy_bonus": { "coefficient": 0.1 } })),
    ];
    let map = map(&records(), &objectives);
    let [free, clip, half, erc, same, bonus] = &map.comparisons[..] else { panic!() };
    // -(1 / 4) sum of coefficients times slopes.
    let change = |c: &Comparison| c.entropy_change.unwrap();
    near(change(free), -(0.5 - 0.5 + 0.5 - 1.0) / 4.0);
    near(change(clip), -(0.5 + 0.5 - 1.0) / 4.0);
    near(change(half), -(0.25 - 0.25 + 0.5 - 1.0) / 4.0);
    // Without clipping the responses change the entropy by 0 and 0.125, with it, at equal norm, by
    // -x and x = sqrt(7 / 3) / 8.
    let [difference, error] = clip.entropy_difference.unwrap();
    near(difference, -0.125);
    near(error, 2.0 * (7.0f64 / 3.0).sqrt() / 8.0 - 0.125);
    near(free.entropy_difference.unwrap()[0], 0.125);
    assert_eq!([free.touched, clip.touched, half.touched], [0.0, 0.25, 0.5]);
    near(clip.norm, (3.0f64 / 7.0).sqrt());
    near(clip.cosine.unwrap(), 3.0 / (21.0f64).sqrt());
    // Changes from `free`: 0, 2, 0, 0 and 0.5, 1, 0, 0. ERC drops the tokens whose entropy has gone
    // from 0.5 to 0.6: 0, 2, 0, -1.
    near(clip.change_cosines[2].unwrap(), 1.0 / (1.25f64).sqrt());
    assert_eq!(erc.touched, 0.5);
    near(erc.change_cosines[1].unwrap(), 2.0 / (5.0f64).sqrt());
    // Aggregations are set aside, and a bonus has no coefficient of a log-prob.
    assert_eq!([same.touched, bonus.touched], [0.0, 0.0]);
    assert_eq!(same.change_cosines[1], None);
    assert!(map.notes.len() == 1 && map.notes[0].starts_with("bonus acts by"), "{:?}", map.notes);
}

#[test]
fn other_estimators_have_advantages_of_their_own_from_the_recorded_rewards() {
    let [mut better, worse] = records();
    better["reward"] = json!(1.0);
    let objectives = [named("grpo", json!({})), named("maxrl", json!({ "advantage": "maxrl" }))];
    // Rewards 1 and 0 in one group: MaxRL's advantages are 1 and -1, as recorded.
    let map = map(&[better, worse], &objectives);
    near(map.comparisons[1].norm, 1.0);
    near(map.comparisons[1].cosine.unwrap(), 1.0);
}

/// The records of a run that samples this number of responses to each prompt.
fn with_responses(lines: &[&Value], responses: usize) -> (TempDir, Inspection) {
    let lines: Vec<Value> = lines.iter().map(|&line| line.clone()).collect();
    let dir = run(3, &lines);
    let recipe = json!({ "rollout": { "responses": responses } });
    fs::write(dir.path().join(".recipe.json"), recipe.to_string()).unwrap();
    let inspection = open(&dir);
    (dir, inspection)
}

/// Rewards 1, 0, 0 and 0 give MaxRL's advantages 3 and -1 to the first two, the others being left
/// out of the loss and not scored again; a fifth could not be judged. Clipping takes the second
/// token.
#[test]
fn other_estimators_compare_responses_whose_tokens_are_not_known_too() {
    let [mut better, worse] = records();
    better["reward"] = json!(1.0);
    let mut masked = worse.clone();
    for key in ["update", "advantages", "mean_advantage", "mean_logprob", "covariances"] {
        masked.as_object_mut().unwrap().remove(key);
    }
    let mut faulty = masked.clone();
    (faulty["verdict"], faulty["reward"]) = (json!("fault"), json!(1.0));
    let mut unscored = worse.clone();
    unscored["logprobs_after"] = json!([null, null]);
    let (_dir, inspection) = with_responses(&[&better, &masked, &worse, &unscored, &faulty], 5);
    let objectives = [named("grpo", json!({})), named("maxrl", json!({ "advantage": "maxrl" }))];
    let map = MethodMap::of(&inspection, &objectives).unwrap();
    near(map.comparisons[1].norm, f64::sqrt(11.0 / 3.0));
    assert!(
        map.notes.len() == 1 && map.notes[0].contains("of 2 of 3 responses"),
        "{:?}",
        map.notes
    );
}

/// MaxRL's advantages of the whole group are 1 and -1, as recorded. Alone, a response of reward 1
/// would have an advantage of 1 for the 0.5 that it had among others.
#[test]
fn other_estimators_compare_only_the_prompts_whose_responses_are_all_recorded() {
    let [mut better, worse] = records();
    better["reward"] = json!(1.0);
    let mut alone = better.clone();
    (alone["position"], alone["advantages"]) = (json!(8), json!(0.5));
    let objectives = [named("grpo", json!({})), named("maxrl", json!({ "advantage": "maxrl" }))];
    let [plain, maxrl] = &objectives;
    let (_dir, mut inspection) = with_responses(&[&better, &worse, &alone], 2);
    let map = MethodMap::of(&inspection, &objectives).unwrap();
    assert_eq!(map.comparisons.len(), 1);
    let note = "maxrl: left out, for want of all responses to each prompt. ";
    assert!(map.notes.iter().any(|own| own.starts_with(note)), "{:?}", map.notes);
    inspection.add_method(maxrl, plain).unwrap();
    let all = tables(&inspection);
    let sums = &all[all.len() - 2].rows[0].1;
    assert_eq!([&sums[0], &sums[2]], ["4", "1.000"]);
    let note = "all of them are recorded of 1 of 2 prompts: the others are left out";
    assert!(inspection.notes.iter().any(|own| own.contains(note)), "{:?}", inspection.notes);
    let (_dir, mut single) = with_responses(&[&alone], 2);
    let refused = single.add_method(maxrl, plain).unwrap_err().to_string();
    assert!(refused.contains("no records of all responses to a prompt"), "{refused}");
    let (_dir, whole) = with_responses(&[&better, &worse], 2);
    assert_eq!(MethodMap::of(&whole, &objectives).unwrap().comparisons.len(), 2);
}

#[test]
fn families_are_of_those_that_change_the_same() {
    let objectives = [
        named("grpo", json!({})),
        named("nsr", json!({ "methods": { "w_reinforce": { "lambda": 0 } } })),
        named("weak", json!({ "methods": { "w_reinforce": { "lambda": 0.9 } } })),
        named("erc", json!({ "methods": { "erc": {} } })),
        named("idle", json!({ "methods": { "w_reinforce": { "lambda": 1 } } })),
    ];
    let text = map(&records(), &objectives).text(80);
    assert!(text.ends_with("\n  nsr, weak\n  alone: erc\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_picture_has_a_panel_for_each_but_the_first_and_escapes_names() {
    let objectives = [named("a", json!({})), named("<b>", json!({ "loss": "importance" }))];
    let picture = map(&records(), &objectives).picture();
    assert_eq!(picture.matches("fill=\"#ddd\"").count(), 1);
    assert!(picture.contains("&lt;b&gt;") && !picture.contains("<b>"));
    for tag in ["svg", "text"] {
        let open = picture.matches(&format!("<{tag} ")).count();
        assert_eq!(open, picture.matches(&format!("</{tag}>")).count());
    }
}

#[test]
fn inspect_shows_a_method_in_tables_and_on_the_page() {
    let mut inspection = open(&run(3, &records()));
    let plain = named("free", json!({ "loss": "importance" }));
    inspection.add_method(&named("clip", json!({})), &plain).unwrap();
    let all = tables(&inspection);
    let [.., sums, largest] = &all[..] else { panic!() };
    // Clipping leaves 3 of the plain size 5. Tokens move the entropy by -0.5, 0.5, -0.5 and 1
    // parts, without the second by none in all.
    assert_eq!(sums.rows[0].1, ["4", "25.0", "0.600", "20.00", "0.00"]);
    assert_eq!(
        largest.rows,
        [(
            "\"b\"".into(),
            ["-2.000", "0.500", "1.000", "-2.000", "0.000"].map(String::from).to_vec()
        )]
    );
    assert!(inspection.text(80).lines().all(|line| line.chars().count() <= 80));
    let page = inspection.html().unwrap();
    assert!(page.contains("What clip would have done"));
    // A method that changes nothing has no table of changes.
    inspection.add_method(&named("idle", json!({ "loss": "importance" })), &plain).unwrap();
    assert_eq!(tables(&inspection).last().unwrap().title, "What idle would have done");
    assert_eq!(inspection.notes.last().unwrap(), "idle treats no token otherwise than free");
}

#[test]
fn given_tokens_have_no_coefficients() {
    let objectives = ["grpo", "rloo"].map(|name| named(name, json!({ "advantage": name })));
    let of = |record: Value| {
        let mut inspection = open(&run(3, &[record]));
        let batch = MethodMap::of(&inspection, &objectives).unwrap();
        let touched: Vec<_> = batch.comparisons.iter().map(|of| of.touched).collect();
        let [plain, other] = &objectives;
        inspection.add_method(other, plain).unwrap();
        let all = tables(&inspection);
        (touched, all[all.len() - 2..].iter().map(|table| table.text(80)).collect::<Vec<_>>())
    };
    let [turns, plain] = with_and_without_given(&["1", "+", "wait"], 1);
    assert_eq!(of(turns), of(plain));
}

#[test]
fn records_that_lack_numbers_say_so() {
    let objectives = [named("grpo", json!({})), named("erc", json!({ "methods": { "erc": {} } }))];
    let [mut older, mut unscored] = records();
    for record in [&mut older, &mut unscored] {
        for key in ["entropies_after", "entropy_slopes_after"] {
            record.as_object_mut().unwrap().remove(key);
        }
    }
    unscored["logprobs_after"] = json!([null, null]);
    let map = map(&[older, unscored.clone()], &objectives);
    let says = ["known of 1 of 2 responses", "no entropies after", "no slopes of the entropy"];
    assert_eq!(map.notes.len(), says.len());
    for (note, part) in map.notes.iter().zip(says) {
        assert!(note.contains(part), "{note}");
    }
    let [_, erc] = &map.comparisons[..] else { panic!() };
    assert_eq!((erc.touched, erc.entropy_change), (0.0, None));
    assert!(map.text(80).contains(" -"));
    let none = MethodMap::of(&open(&run(3, &[unscored])), &objectives).unwrap_err().to_string();
    assert!(none.contains("step 3 of") && none.contains("lab.track_theory=true"), "{none}");
    let dir = run(3, &records());
    fs::write(dir.path().join(".recipe.json"), "{").unwrap();
    let damaged = MethodMap::of(&open(&dir), &objectives).unwrap_err().to_string();
    assert!(damaged.contains(".recipe.json"), "{damaged}");
    let reference = [named("kl", json!({ "reference_kl": { "coefficient": 0.1 } }))];
    let refused = MethodMap::of(&open(&run(3, &records())), &reference).unwrap_err().to_string();
    assert_eq!(refused, "kl needs log-probs of the reference model, which are not recorded");
}
