//! The entropy law while a run makes it, on evaluations that are made up.

use isentrope_evaluation::Evaluation;
use isentrope_run::law::{Point, SEED, Study};
use isentrope_train::rl::Laws;
use isentrope_train::run::StepRecord;

fn evaluation(name: &str, entropy: f64, accuracy: Option<f64>) -> Evaluation {
    Evaluation {
        name: name.into(),
        samples: 1,
        mean: accuracy,
        is_further: false,
        parts: Vec::new(),
        score: accuracy,
        is_graded: false,
        pass: Vec::new(),
        majority: accuracy,
        entropy: Some(entropy),
        length: 3.0,
        truncated: 0.0,
        faults: 0.0,
        of_verifier: std::collections::BTreeMap::new(),
        note: None,
    }
}

/// Entropy after so many evaluations, and an accuracy that follows the law but for a little.
fn lawful(i: u64) -> (f64, f64) {
    let entropy = 0.1 + 1.1 * (-0.4 * i as f64).exp();
    let noise = [0.004, -0.003, 0.001, -0.004, 0.002][i as usize % 5];
    (entropy, 0.8 - 0.2 * entropy.exp() + noise)
}

#[test]
fn a_run_says_what_its_evaluations_come_to() {
    let mut laws = Laws::default();
    for i in 0..12 {
        let (entropy, accuracy) = lawful(i);
        let sets =
            [evaluation("test", entropy, Some(accuracy)), evaluation("held", 0.5, Some(accuracy))];
        let mut record = StepRecord::default();
        assert_eq!(laws.evaluated(5 * i, &sets, &mut record), [""; 0]);
        let number = |name: &str| record.metrics.get(name);
        let spent = number("law/test/entropy_spent").unwrap();
        assert!((spent - (1.0 - entropy / 1.2)).abs() < 1e-9, "{spent}");
        assert_eq!(number("law/held/entropy_spent"), Some(0.0));
        assert_eq!(number("law/held/ceiling"), None, "its entropy is held");
        let [ceiling, low, high] = ["ceiling", "ceiling_low", "ceiling_high"]
            .map(|name| number(&format!("law/test/{name}")));
        match i {
            0 => assert_eq!(record.remarks, [""; 0], "one point says nothing"),
            1..5 => {
                assert_eq!(ceiling, None);
                assert!(
                    record.remarks[0].contains("law, test: none, too few points"),
                    "{:?}",
                    record.remarks
                );
            }
            _ => {
                assert!(
                    low < ceiling && ceiling < high && (ceiling.unwrap() - 0.6).abs() < 0.02,
                    "{ceiling:?}"
                );
                assert!(
                    record.remarks[0].starts_with("law, test: ceiling 0."),
                    "{:?}",
                    record.remarks
                );
                assert!(record.remarks[1].contains("every entropy is"), "{:?}", record.remarks);
            }
        }
    }
    assert_eq!(laws.sentences(55, &[]).len(), 2);
}

#[test]
fn leaving_the_law_raises_one_alarm_and_a_checkpoint_changes_nothing() {
    let mut laws = Laws::default();
    let (mut alarms, mut records) = (Vec::new(), Vec::new());
    let run = |laws: &mut Laws, i: u64| {
        let (entropy, accuracy) = lawful(i);
        let accuracy = if i < 9 { accuracy } else { 0.95 };
        let mut record = StepRecord::default();
        let alarms =
            laws.evaluated(5 * i, &[evaluation("test", entropy, Some(accuracy))], &mut record);
        (alarms, record.metrics)
    };
    for i in 0..14 {
        let (said, metrics) = run(&mut laws, i);
        alarms.extend(said.into_iter().map(|said| (i, said)));
        records.push(metrics);
    }
    let [(10, alarm)] = alarms.as_slice() else { panic!("{alarms:?}") };
    assert!(
        alarm
            .starts_with("test: accuracy has left the interval of the law, above it since step 45"),
        "{alarm}"
    );
    assert_eq!(records[13].get("law/test/ceiling"), None);
    // From a checkpoint after any evaluation.
    for stopped in 0..14 {
        let mut laws = Laws::default();
        (0..=stopped).for_each(|i| drop(run(&mut laws, i)));
        let mut laws: Laws = serde_json::from_str(&serde_json::to_string(&laws).unwrap()).unwrap();
        for i in stopped + 1..14 {
            let (said, metrics) = run(&mut laws, i);
            assert_eq!((said.len(), &metrics), (usize::from(i == 10), &records[i as usize]));
        }
    }
}

/// They have the problems of another set, which says it.
#[test]
fn sets_at_further_temperatures_have_a_law_and_no_alarm() {
    let mut laws = Laws::default();
    let mut alarms = Vec::new();
    for i in 0..14 {
        let (entropy, accuracy) = lawful(i);
        let accuracy = Some(if i < 9 { accuracy } else { 0.95 });
        let further = Evaluation { is_further: true, ..evaluation("test_t0.6", entropy, accuracy) };
        let mut record = StepRecord::default();
        alarms.extend(laws.evaluated(
            5 * i,
            &[evaluation("test", entropy, accuracy), further],
            &mut record,
        ));
        let ceiling = |set: &str| record.metrics.get(&format!("law/{set}/ceiling"));
        assert_eq!(ceiling("test_t0.6"), ceiling("test"));
        assert!(i != 8 || ceiling("test").is_some());
    }
    assert!(
        matches!(&alarms[..], [alarm] if alarm.starts_with("test: accuracy has left")),
        "{alarms:?}"
    );
}

/// A set's law after so many evaluations, and what is recorded of the last.
fn after(evaluations: u64) -> (Laws, StepRecord) {
    let (mut laws, mut record) = (Laws::default(), StepRecord::default());
    for i in 0..evaluations {
        let (entropy, accuracy) = lawful(i);
        record = StepRecord::default();
        laws.evaluated(5 * i, &[evaluation("test", entropy, Some(accuracy))], &mut record);
    }
    (laws, record)
}

#[test]
fn a_run_says_what_every_command_says_of_the_same_points() {
    let points = (0..12).map(|i| {
        let (entropy, accuracy) = lawful(i);
        Point { step: 5 * i, entropy, accuracy }
    });
    let study = Study::of(points.collect(), SEED);
    let (laws, record) = after(12);
    let numbers: Vec<(String, f64)> =
        record.metrics.iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let expected: Vec<(String, f64)> = study
        .metrics()
        .into_iter()
        .map(|(name, value)| (format!("law/test/{name}"), value))
        .collect();
    assert_eq!(numbers, expected);
    assert_eq!(numbers.len(), 7, "{numbers:?}");
    assert_eq!(laws.sentences(0, &[]), [format!("test: {}", study.sentence())]);
}

#[test]
fn an_evaluation_that_is_taken_in_twice_is_one_point() {
    let (once, record) = after(9);
    let (entropy, accuracy) = lawful(8);
    let last = [evaluation("test", entropy, Some(accuracy))];
    let (mut twice, mut again) = (once.clone(), StepRecord::default());
    twice.evaluated(40, &last, &mut again);
    assert_eq!((&twice, &again.metrics), (&once, &record.metrics));
    // The summary at the end has the last evaluation, whether or not it is kept.
    assert_eq!(once.sentences(40, &last), once.sentences(0, &[]));
    assert_eq!(after(8).0.sentences(40, &last), once.sentences(0, &[]));
}

#[test]
fn nothing_is_recorded_of_an_evaluation_that_is_not_finite() {
    let (mut laws, before) = after(8);
    assert!(before.metrics.get("law/test/ceiling").is_some());
    for (entropy, accuracy) in [(f64::NAN, 0.5), (0.2, f64::INFINITY)] {
        let mut record = StepRecord::default();
        let lost = [evaluation("test", entropy, Some(accuracy))];
        assert_eq!(laws.evaluated(40, &lost, &mut record), [""; 0]);
        assert_eq!(record.metrics.iter().count(), 0);
        assert_eq!(
            record.remarks,
            ["law, test: none, 1 of 9 points are not finite: the run has diverged"]
        );
        assert_eq!(laws, after(8).0);
        assert_eq!(laws.sentences(40, &lost), after(8).0.sentences(0, &[]));
    }
}

#[test]
fn what_was_not_judged_or_is_not_finite_is_no_point() {
    let mut laws = Laws::default();
    let mut record = StepRecord::default();
    let sets = [evaluation("faults", 1.0, None), evaluation("diverged", f64::NAN, Some(0.5))];
    assert_eq!(laws.evaluated(5, &sets, &mut record), [""; 0]);
    assert_eq!(record.metrics.iter().count(), 0);
    let text = serde_json::to_string(&laws).unwrap();
    assert_eq!(serde_json::from_str::<Laws>(&text).unwrap(), laws);
}
