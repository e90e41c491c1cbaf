//! From logs to points.

use isentrope_lab::law::Point;
use isentrope_lab::law::points::{of_metrics, of_rollout, of_run};
use isentrope_lab::log::RunLog;
use std::fs;

fn log(metrics: &str) -> RunLog {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("metrics.jsonl"), metrics).unwrap();
    RunLog::open(dir.path()).unwrap()
}

fn point(step: u64, entropy: f64, accuracy: f64) -> Point {
    Point { step, entropy, accuracy }
}

#[test]
fn evaluations_have_their_own_entropy() {
    let log = log(concat!(
        r#"{"step":0,"eval/a/mean@1":0.1,"eval/a/mean@8":0.2,"eval/a/entropy":1.5,"eval/b/c/mean@4":0.3,"eval/b/c/entropy":2}"#,
        "\n{\"step\":1,\"policy/entropy\":9,\"reward/score\":0.5}\n",
        r#"{"step":2,"eval/a/mean@8":0.4,"eval/a/mean@8_3_numbers":0.9,"eval/a/part/mean@8":0.9,"#,
        r#""eval/a/part/entropy":0.5,"eval/a/entropy":1.0,"eval/b/c/mean@4":0.5}"#,
        "\n",
    ));
    let measured = of_run(&log);
    assert_eq!(measured.iter().map(|m| m.set.as_str()).collect::<Vec<_>>(), ["a", "b/c"]);
    assert_eq!(
        (measured[0].accuracy.as_str(), measured[0].entropy.as_str()),
        ("eval/a/mean@8", "eval/a/entropy")
    );
    assert_eq!(measured[0].points, [point(0, 1.5, 0.2), point(2, 1.0, 0.4)]);
    assert!(measured[0].notes.is_empty());
    assert_eq!(measured[1].points, [point(0, 2.0, 0.3)]);
    assert!(
        measured[1].notes[0].contains("1 of 2 evaluations have no entropy"),
        "{:?}",
        measured[1].notes
    );
    let rollout = of_rollout(&log).unwrap();
    assert_eq!(
        (rollout.set.as_str(), rollout.points.as_slice()),
        ("rollout", &[point(1, 9.0, 0.5)][..])
    );
}

#[test]
fn evaluations_without_entropy_have_that_of_the_rollout_after_them() {
    let mut metrics = String::from("{\"step\":0,\"eval/a/mean@1\":0.0}\n");
    for step in 1..=6 {
        let eval =
            if step % 2 == 0 { format!(",\"eval/a/mean@1\":0.{step}") } else { String::new() };
        metrics += &format!(
            "{{\"step\":{step},\"policy/entropy_token_mean_filtered\":{}.5{eval}}}\n",
            10 - step
        );
    }
    metrics += "{\"step\":30,\"eval/a/mean@1\":0.9}\n";
    let measured = of_run(&log(&metrics)).remove(0);
    assert_eq!(measured.entropy, "policy/entropy_token_mean_filtered");
    // After the last step that was sampled, its own entropy is the nearest.
    let expected = [point(0, 9.5, 0.0), point(2, 7.5, 0.2), point(4, 5.5, 0.4), point(6, 4.5, 0.6)];
    assert_eq!(measured.points, expected);
    assert!(measured.notes[0].contains("not the evaluation's own"), "{:?}", measured.notes);
    assert!(measured.notes[1].contains("1 evaluation is left out"), "{:?}", measured.notes);
}

#[test]
fn runs_without_evaluations_have_their_rollouts() {
    let measured = of_run(&log(
        "{\"step\":1,\"policy/entropy\":1.0,\"policy/entropy_token_mean\":2,\"reward/mean\":0.1,\"reward/score\":0.2}\n\
         {\"step\":2,\"policy/entropy\":0.5,\"reward/mean\":0.3,\"reward/score\":0.4}\n",
    ));
    let [rollout] = measured.as_slice() else { panic!("{measured:?}") };
    assert_eq!(
        (rollout.accuracy.as_str(), rollout.entropy.as_str()),
        ("reward/score", "policy/entropy")
    );
    assert_eq!(rollout.points, [point(1, 1.0, 0.2), point(2, 0.5, 0.4)]);
    assert!(rollout.notes[0].contains("of the rollout"), "{:?}", rollout.notes);
    assert!(of_run(&log("{\"step\":1,\"sft/loss\":1.0}\n")).is_empty());
    let scored =
        of_run(&log("{\"step\":0,\"eval/a/score\":2.5,\"eval/a/entropy\":1.0}\n")).remove(0);
    assert_eq!(scored.accuracy, "eval/a/score");
    assert!(scored.notes[0].contains("mean score"), "{:?}", scored.notes);
}

#[test]
fn accuracies_without_an_entropy_are_counted() {
    let row = |step: u64| {
        let entropy = if step < 3 {
            format!(",\"eval/a/entropy\":1,\"policy/entropy\":0.{step}")
        } else {
            String::new()
        };
        format!("{{\"step\":{step},\"eval/a/score\":0.{step},\"reward/mean\":0.{step}{entropy}}}\n")
    };
    let log = log(&(1..=4).map(row).collect::<String>());
    let (set, rollout) = (of_run(&log).remove(0), of_rollout(&log).unwrap());
    assert!(set.notes[0].contains("mean score"), "{set:?}");
    assert_eq!(set.notes[1], "2 of 4 evaluations have no entropy and are left out");
    assert_eq!(rollout.notes[1], "2 of 4 rollouts have no entropy and are left out");
}

#[test]
fn metrics_by_name_are_paired_as_those_of_the_run() {
    let mut metrics = String::new();
    for step in 0..9 {
        let eval =
            if step % 2 == 0 { format!(",\"eval/a/mean@8\":0.{step}") } else { String::new() };
        metrics += &format!(
            "{{\"step\":{step},\"policy/entropy_token_mean_filtered\":{}.5{eval}}}\n",
            10 - step
        );
    }
    let log = log(&metrics);
    let whole = of_run(&log);
    assert_eq!(whole[0].points[1], point(2, 7.5, 0.2), "the policy after step 2 samples step 3");
    for (accuracy, entropy) in [
        (Some("eval/a/mean@8"), None),
        (None, Some("policy/entropy_token_mean_filtered")),
        (Some("eval/a/mean@8"), Some("policy/entropy_token_mean_filtered")),
        // As another trainer calls them.
        (Some("val-core/a/acc/mean@8"), Some("actor/entropy")),
    ] {
        let asked = of_metrics(&log, accuracy, entropy).unwrap().remove(0);
        assert_eq!(
            (&asked.points, &asked.notes),
            (&whole[0].points, &whole[0].notes),
            "{accuracy:?} {entropy:?}"
        );
    }
    assert!(
        of_metrics(&log, None, Some("nothing/else"))
            .unwrap_err()
            .to_string()
            .contains("has no metric")
    );
}
