//! What covariance methods pick inside micro-batches, of records whose picks are known.

use isentrope_lab::selection::{Compared, Grouping, Method, Quadrants, Rule, SelectionOfRun, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

/// A response to be planted: its log-probs and its advantage.
type Response<'a> = (&'a [f64], f64);

/// The records of an update made of these responses, with the means over all of them.
fn update(step: u64, number: usize, responses: &[Response<'_>]) -> Vec<Value> {
    let tokens: Vec<(f64, f64)> = responses
        .iter()
        .flat_map(|(logprobs, advantage)| logprobs.iter().map(|l| (*l, *advantage)))
        .collect();
    let n = tokens.len() as f64;
    let (logprob, advantage) =
        (tokens.iter().map(|t| t.0).sum::<f64>() / n, tokens.iter().map(|t| t.1).sum::<f64>() / n);
    let record = |(sample, (logprobs, own)): (usize, &Response<'_>)| {
        let n = logprobs.len();
        let covariances: Vec<f64> = logprobs.iter().map(|l| (l - logprob) * (own - advantage)).collect();
        // Later updates come from another policy than the one that has sampled.
        let sampled: Vec<f64> = logprobs.iter().map(|l| if number == 1 { *l } else { l - 0.5 }).collect();
        json!({
            "step": step, "sampled_step": step, "position": number, "origin": "x:1", "sample": sample, "verdict": "wrong",
            "reward": 0.0, "truncated": false, "temperature": 1.0, "prompt_text": "?", "prompt_tokens": 1,
            "tokens": vec![0; n + 1], "pieces": vec!["x"; n], "logprobs": sampled, "entropies": vec![0.5; n],
            "logprobs_after": sampled, "update": number, "advantages": own, "mean_advantage": advantage,
            "mean_logprob": logprob, "covariances": covariances,
        })
    };
    responses.iter().enumerate().map(record).collect()
}

fn run(steps: &[(u64, Vec<Value>)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tokens")).unwrap();
    for (step, lines) in steps {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(dir.path().join(format!("tokens/step-{step:06}.jsonl")), text).unwrap();
    }
    dir
}

const KL: Rule = Rule { method: Method::KlCov, fraction: 0.25, band: [1.0, 5.0] };

fn of_size(compared: &[Compared], size: Option<usize>) -> &Compared {
    compared.iter().find(|row| row.micro_batch == size && row.grouping != Some(Grouping::Mixed)).unwrap()
}

/// Four responses of two tokens. Means -3 and 0; covariances by them:
///   (-1, -3) at +1: 2, 0;  (-2, -6) at -1: -1, 3;  (-2, -4) at -1: -1, 1;  (-1, -5) at +1: 2, -2.
const FOUR: [Response<'_>; 4] =
    [(&[-1.0, -3.0], 1.0), (&[-2.0, -6.0], -1.0), (&[-2.0, -4.0], -1.0), (&[-1.0, -5.0], 1.0)];

#[test]
fn planted_tokens_are_picked_as_by_hand() {
    for number in [1, 2] {
        let dir = run(&[(3, update(3, number, &FOUR))]);
        let selection = SelectionOfRun::open(dir.path(), KL, &[2, 1], &BTreeMap::new()).unwrap();
        assert_eq!((selection.updates, selection.responses, selection.tokens), (1, 4, 8));
        assert_eq!(selection.all, selection.steps[0].compared);
        let sizes: Vec<Option<usize>> = selection.all.iter().map(|row| row.micro_batch).collect();
        assert_eq!(sizes, [None, Some(2), Some(2), Some(1)]);
        // A quarter of eight tokens: covariances 3 and, the first of two, 2.
        let whole = of_size(&selection.all, None);
        assert_eq!(
            (whole.picked, whole.times, whole.overlap, whole.kept),
            (2.0, Some(1.0), Some(1.0), Some(1.0))
        );
        assert_eq!((whole.covariance, whole.eligible, whole.arbitrary), (Some(2.5), 8.0, 0.0));
        let quadrants =
            Quadrants { unlikely_worse: 0.5, likely_better: 0.5, unlikely_better: 0.0, likely_worse: 0.0 };
        assert_eq!(whole.quadrants, Some(quadrants));
        // Two responses each: the first pair's means are -3 and 0, so that its one token is that of covariance 3 again. The
        // second pair's are -3 and 0 too: its largest is 2, of its last response, which the minibatch has not picked.
        let two = of_size(&selection.all, Some(2));
        assert_eq!((two.picked, two.micro_batches, two.covariance), (2.0, 2.0, Some(2.5)));
        assert!((two.overlap.unwrap() - 1.0 / 3.0).abs() < 1e-12 && two.kept == Some(0.5), "{two:?}");
        // One response each: one advantage, no covariance, and one of two tokens at random. Of the four that are picked, one half
        // each of both picked tokens is met.
        let one = of_size(&selection.all, Some(1));
        assert_eq!((one.picked, one.times, one.micro_batches, one.arbitrary), (4.0, Some(2.0), 4.0, 4.0));
        assert_eq!((one.kept, one.overlap), (Some(0.5), Some(1.0 / 5.0)));
        assert_eq!(one.covariance, Some(0.5), "the mean of all tokens");
        let shown = text(&selection);
        assert!(shown.contains("  each 1 response              4     2.00    20 %         50 %"), "{shown}");
        assert!(shown.contains("what KL-Cov picks, fraction 0.2500 of the tokens"), "{shown}");
        assert!(shown.contains("those of a random choice"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 128), "{shown}");
    }
}

/// Means inside micro-batches move tokens into the band and out of it.
#[test]
fn clip_cov_is_compared_by_what_it_may_draw() {
    let dir = run(&[(1, update(1, 1, &FOUR))]);
    let rule = Rule { method: Method::ClipCov, fraction: 0.25, band: [1.5, 2.5] };
    let selection = SelectionOfRun::open(dir.path(), rule, &[], &BTreeMap::new()).unwrap();
    let sizes: Vec<Option<usize>> = selection.all.iter().map(|row| row.micro_batch).collect();
    assert_eq!(sizes, [None, Some(2), Some(2), Some(1)], "1, 2, 4, ... below the minibatch");
    // Two tokens of covariance 2 lie in the band, both are drawn.
    let whole = of_size(&selection.all, None);
    assert_eq!((whole.picked, whole.eligible, whole.covariance), (2.0, 2.0, Some(2.0)));
    let two = of_size(&selection.all, Some(2));
    assert_eq!((two.picked, two.eligible, two.overlap), (2.0, 2.0, Some(1.0)));
    let one = of_size(&selection.all, Some(1));
    assert_eq!((one.picked, one.eligible, one.overlap, one.kept), (0.0, 0.0, Some(0.0), Some(0.0)));
    assert_eq!((one.covariance, one.quadrants), (None, None));
    let shown = text(&selection);
    assert!(shown.contains("Clip-Cov draws at random"), "{shown}");
    assert!(shown.contains("the clip that counts is the recorded run's"), "{shown}");

    // With a wider band more may be drawn than are, and clipped tokens are not.
    let mut records = update(1, 1, &FOUR);
    records[0]["clipped"] = json!([0]);
    let dir = run(&[(1, records)]);
    let rule = Rule { band: [0.5, 5.0], ..rule };
    let whole = SelectionOfRun::open(dir.path(), rule, &[4], &BTreeMap::new()).unwrap().all.remove(0);
    assert_eq!((whole.picked, whole.eligible, whole.covariance), (2.0, 3.0, Some(2.0)));
}

#[test]
fn steps_add_up() {
    let dir = run(&[(1, update(1, 1, &FOUR)), (4, [update(4, 1, &FOUR), update(4, 2, &FOUR[..2])].concat())]);
    let selection = SelectionOfRun::open(dir.path(), KL, &[2], &BTreeMap::new()).unwrap();
    let updates: Vec<(u64, usize)> = selection.steps.iter().map(|step| (step.step, step.updates)).collect();
    assert_eq!((updates, selection.updates), (vec![(1, 1), (4, 2)], 3));
    let of = |compared: &[Compared]| of_size(compared, Some(2)).picked;
    assert_eq!(
        (of(&selection.all), of(&selection.steps[0].compared), of(&selection.steps[1].compared)),
        (5.0, 2.0, 3.0)
    );
    assert!(text(&selection).contains("by step"), "{}", text(&selection));
}

#[test]
fn a_sample_is_refused_with_a_remedy() {
    let refused =
        |dir: &TempDir| SelectionOfRun::open(dir.path(), KL, &[], &BTreeMap::new()).unwrap_err().to_string();
    let dir = run(&[]);
    assert!(
        refused(&dir).contains("has no token records: train with lab.record_tokens"),
        "{}",
        refused(&dir)
    );
    let sample = || update(1, 1, &FOUR)[..3].to_vec();
    let dir = run(&[(1, sample())]);
    let said = refused(&dir);
    assert!(
        said.contains("a sample") && said.contains("as large as all response tokens of a step"),
        "{said}"
    );
    let recipe = json!({"rollout": {"prompts": 4, "responses": 8, "max_tokens": 40}});
    fs::write(dir.path().join(".recipe.json"), recipe.to_string()).unwrap();
    assert!(refused(&dir).contains("--set lab.record_tokens=1280"), "{}", refused(&dir));
    // Steps that are complete count, and the others are named.
    let dir = run(&[(1, sample()), (2, update(2, 1, &FOUR))]);
    let selection = SelectionOfRun::open(dir.path(), KL, &[], &BTreeMap::new()).unwrap();
    assert_eq!((selection.updates, selection.incomplete), (1, 1));
    assert!(text(&selection).contains("1 update left out"), "{}", text(&selection));
    // Where all advantages are equal, any sample has the means of all.
    let still: Vec<Response<'_>> = FOUR.iter().map(|(logprobs, _)| (*logprobs, 0.0)).collect();
    let dir = run(&[(1, update(1, 2, &still)[..2].to_vec())]);
    assert!(refused(&dir).contains("nothing to pick by"), "{}", refused(&dir));
    let dir = run(&[(1, update(1, 2, &still)[..2].to_vec()), (2, update(2, 1, &FOUR))]);
    let selection = SelectionOfRun::open(dir.path(), KL, &[], &BTreeMap::new()).unwrap();
    assert_eq!((selection.updates, selection.incomplete, selection.without_signal), (1, 0, 1));
}

/// Responses to one prompt have one advantage here: side by side their covariances are 0, mixed they are not.
#[test]
fn mixed_micro_batches_hold_responses_to_several_prompts() {
    let better: Response<'_> = (&[-1.0, -3.0, -1.5, -2.0], 1.0);
    let worse: Response<'_> = (&[-2.0, -6.0, -0.5, -1.0], -1.0);
    let responses = [[better; 4], [worse; 4]].concat();
    let dir = run(&[(1, update(1, 1, &responses))]);
    let open = || SelectionOfRun::open(dir.path(), KL, &[4, 8], &BTreeMap::new()).unwrap();
    let selection = open();
    assert_eq!(selection, open(), "orders are the same in every call");
    let of = |size: usize, grouping: Grouping| {
        let is_it = |row: &&Compared| row.micro_batch == Some(size) && row.grouping == Some(grouping);
        selection.all.iter().find(is_it).unwrap()
    };
    let (consecutive, mixed) = (of(4, Grouping::Consecutive), of(4, Grouping::Mixed));
    assert_eq!((consecutive.micro_batches, consecutive.arbitrary), (2.0, 2.0));
    // Of 70 ways to deal eight responses to two, two keep the prompts apart.
    assert!(mixed.micro_batches == 2.0 && mixed.arbitrary < 0.5, "{mixed:?}");
    assert!((mixed.picked - 8.0).abs() < 1e-9, "{mixed:?}");
    assert!(
        mixed.kept > consecutive.kept && mixed.covariance > consecutive.covariance,
        "{mixed:?} {consecutive:?}"
    );
    // One micro-batch of all is the minibatch, in whatever order.
    let all = of(8, Grouping::Mixed);
    assert!((all.overlap.unwrap() - 1.0).abs() < 1e-9, "{all:?}");
    let shown = text(&selection);
    assert!(shown.contains("  each 4 responses ") && shown.contains("  each 4, mixed "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 128), "{shown}");
    let json = serde_json::to_value(&selection).unwrap();
    let groupings: Vec<&Value> = json["all"].as_array().unwrap().iter().map(|row| &row["grouping"]).collect();
    assert_eq!(
        groupings,
        [&Value::Null, &json!("consecutive"), &json!("mixed"), &json!("consecutive"), &json!("mixed")]
    );
}

/// Where the fraction was steered, each step picks by its own, and says so.
#[test]
fn steps_pick_by_the_fraction_that_was_in_force() {
    let dir = run(&[(1, update(1, 1, &FOUR)), (2, update(2, 1, &FOUR)), (3, update(3, 1, &FOUR))]);
    let fractions = BTreeMap::from([(2, 0.5), (3, 0.75)]);
    let selection = SelectionOfRun::open(dir.path(), KL, &[2], &fractions).unwrap();
    let picked: Vec<(f64, f64)> =
        selection.steps.iter().map(|step| (step.fraction, of_size(&step.compared, None).picked)).collect();
    assert_eq!(picked, [(0.25, 2.0), (0.5, 4.0), (0.75, 6.0)]);
    let shown = text(&selection);
    assert!(shown.contains("the fraction of the tokens that was in force, 0.2500 to 0.7500"), "{shown}");
}
