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
        failed: 0.0,
        of_verifier: std::collections::BTreeMap::new(),
        note: None,
    }
}

/// Entropy and accuracy of evaluation `i`; accuracy follows the law but for a little.
fn lawful(i: u64) -> (f64, f64) {
    let entropy = 0.1 + 1.1 * (-0.4 * i as f64).exp();
    let noise = [0.004, -0.003, 0.001, -0.004, 0.002][i as usize % 5];
    (entropy, 0.8 - 0.2 * entropy.exp() + noise)
}

/// A set's evaluation that leaves the law after nine.
fn leaving(i: u64) -> Evaluation {
    let (entropy, accuracy) = lawful(i);
    evaluation("test", entropy, Some(if i < 9 { accuracy } else { 0.95 }))
}

/// Takes in evaluations after a step. Returns the alarms and the record.
fn take(laws: &mut Laws, step: u64, sets: &[Evaluation]) -> (Vec<String>, StepRecord) {
    let mut record = StepRecord::default();
    (laws.evaluated(step, sets, &mut record), record)
}

/// A set's law after lawful evaluations, and the record of the last.
fn after(evaluations: u64) -> (Laws, StepRecord) {
    let (mut laws, mut record) = (Laws::default(), StepRecord::default());
    for i in 0..evaluations {
        let (entropy, accuracy) = lawful(i);
        (_, record) = take(&mut laws, 5 * i, &[evaluation("test", entropy, Some(accuracy))]);
    }
    (laws, record)
}

#[test]
fn a_run_says_of_its_evaluations_what_every_command_says_of_their_points() {
    let mut points = Vec::new();
    for i in 0..12 {
        let (entropy, accuracy) = lawful(i);
        points.push(Point { step: 5 * i, entropy, accuracy });
        let study = Study::of(points.clone(), SEED);
        let (laws, record) = after(i + 1);
        let numbers: Vec<(&str, f64)> = record.metrics.iter().collect();
        let metrics = study.metrics().into_iter();
        let expected: Vec<(String, f64)> =
            metrics.map(|(name, value)| (format!("law/test/{name}"), value)).collect();
        assert_eq!(numbers, expected.iter().map(|(n, v)| (&**n, *v)).collect::<Vec<_>>());
        assert_eq!(record.metrics.get("law/test/ceiling").is_some(), i >= 5, "{i}: {numbers:?}");
        let spent = record.metrics.get("law/test/entropy_spent").unwrap();
        assert!((spent - (1.0 - entropy / 1.2)).abs() < 1e-9, "{spent}");
        // One point says nothing.
        let sentences = if i > 0 { vec![study.sentence()] } else { vec![] };
        let with = |prefix: &str| -> Vec<String> {
            sentences.iter().map(|sentence| format!("{prefix}{sentence}")).collect()
        };
        assert_eq!((record.remarks, laws.sentences(0, &[])), (with("law, test: "), with("test: ")));
    }
    let (_, record) = after(12);
    assert_eq!(record.metrics.iter().count(), 7);
    let [ceiling, low, high] = ["ceiling", "ceiling_low", "ceiling_high"]
        .map(|name| record.metrics.get(&format!("law/test/{name}")).unwrap());
    assert!(low < ceiling && ceiling < high && (ceiling - 0.6).abs() < 0.02, "{ceiling}");
    let mut held = Laws::default();
    for i in 0..12 {
        let (_, record) = take(&mut held, 5 * i, &[evaluation("held", 0.5, Some(lawful(i).1))]);
        assert_eq!(record.metrics.get("law/held/entropy_spent"), Some(0.0));
        assert_eq!(record.metrics.get("law/held/ceiling"), None);
    }
}

#[test]
fn leaving_the_law_raises_one_alarm_and_a_checkpoint_changes_nothing() {
    let mut laws = Laws::default();
    let (mut alarms, mut records) = (Vec::new(), Vec::new());
    for i in 0..14 {
        // A set at a further temperature has a law, and no alarm beside its set's.
        let further = Evaluation { name: "test_t0.6".into(), is_further: true, ..leaving(i) };
        let (notes, record) = take(&mut laws, 5 * i, &[leaving(i), further]);
        alarms.extend(notes.into_iter().map(|alarm| (i, alarm)));
        let ceiling = |set: &str| record.metrics.get(&format!("law/{set}/ceiling"));
        assert_eq!(ceiling("test_t0.6"), ceiling("test"));
        assert!(i != 8 || ceiling("test").is_some());
    }
    let [(10, alarm)] = alarms.as_slice() else { panic!("{alarms:?}") };
    let left = "test: accuracy has left the interval of the law, above it since step 45";
    assert!(alarm.starts_with(left), "{alarm}");

    let mut laws = Laws::default();
    records.extend((0..14).map(|i| take(&mut laws, 5 * i, &[leaving(i)]).1.metrics));
    assert_eq!(records[13].get("law/test/ceiling"), None);
    for stopped in 0..14 {
        let mut laws = Laws::default();
        (0..=stopped).for_each(|i| drop(take(&mut laws, 5 * i, &[leaving(i)])));
        let mut laws: Laws = serde_json::from_str(&serde_json::to_string(&laws).unwrap()).unwrap();
        for i in stopped + 1..14 {
            let (notes, record) = take(&mut laws, 5 * i, &[leaving(i)]);
            assert_eq!(
                (notes.len(), &record.metrics),
                (usize::from(i == 10), &records[i as usize])
            );
        }
    }
}

#[test]
fn an_evaluation_that_is_taken_in_twice_is_one_point() {
    let (once, record) = after(9);
    let (entropy, accuracy) = lawful(8);
    let last = [evaluation("test", entropy, Some(accuracy))];
    let mut twice = once.clone();
    let (_, again) = take(&mut twice, 40, &last);
    assert_eq!((&twice, &again.metrics), (&once, &record.metrics));
    // The summary at the end has the last evaluation, whether or not it is kept.
    assert_eq!(once.sentences(40, &last), once.sentences(0, &[]));
    assert_eq!(after(8).0.sentences(40, &last), once.sentences(0, &[]));
}

#[test]
fn an_evaluation_that_is_not_judged_or_not_finite_is_no_point() {
    let diverged = "law, test: none, 1 of 9 points are not finite: the run has diverged";
    for (entropy, accuracy, remarks) in [
        (f64::NAN, Some(0.5), vec![diverged]),
        (0.2, Some(f64::INFINITY), vec![diverged]),
        (1.0, None, vec![]),
    ] {
        let (mut laws, _) = after(8);
        let lost = [evaluation("test", entropy, accuracy)];
        let (alarms, record) = take(&mut laws, 40, &lost);
        assert_eq!((alarms, record.metrics.iter().count()), (vec![], 0));
        assert_eq!(record.remarks, remarks);
        assert_eq!(laws, after(8).0);
        assert_eq!(laws.sentences(40, &lost), after(8).0.sentences(0, &[]));
    }
}
