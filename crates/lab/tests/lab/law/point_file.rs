//! Tables of points that anybody has made.

use isentrope_lab::law::Point;
use isentrope_lab::law::point_file::{Columns, read};
use isentrope_lab::law::points::Measured;
use std::fs;

fn table(name: &str, text: &str, columns: &Columns) -> Result<Measured, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    read(&path, columns).map_err(|error| error.to_string())
}

fn named(step: &str, entropy: &str, accuracy: &str) -> Columns {
    let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    Columns { step: name(step), entropy: name(entropy), accuracy: name(accuracy) }
}

#[test]
fn csv_and_json_lines_give_the_same_points() {
    let csv = table(
        "run.csv",
        "\u{feff}\"step\",entropy,accuracy,note\n0,1.5,0.1,\"a, b\"\n\n5, 1.0 ,0.25,\n",
        &Columns::default(),
    );
    let json = "{\"step\":0,\"entropy\":1.5,\"accuracy\":0.1}\n\n{\"accuracy\":0.25,\"step\":5,\"entropy\":1,\"x\":[]}";
    let json = table("run.jsonl", json, &Columns::default());
    let expected =
        [Point { step: 0, entropy: 1.5, accuracy: 0.1 }, Point { step: 5, entropy: 1.0, accuracy: 0.25 }];
    for measured in [csv.unwrap(), json.unwrap()] {
        assert_eq!(measured.points, expected);
        assert_eq!((measured.set.as_str(), measured.notes.len()), ("run", 0));
    }
}

#[test]
fn columns_have_any_name_and_rows_may_lack_numbers() {
    let text = "trainer step;no,run - actor/entropy,run - acc\n1,2.0,\n2,,0.5\n3,1.0,0.75\n";
    let measured = table("w.csv", text, &named("", "run - actor/entropy", "run - acc")).unwrap();
    assert_eq!(measured.points, [Point { step: 2, entropy: 1.0, accuracy: 0.75 }]);
    assert!(
        measured.notes[0].contains("no column of steps") && measured.notes[1].contains("2 rows"),
        "{measured:?}"
    );
    let percent = table("p.csv", "step,H,R\n0,1,45\n", &Columns::default()).unwrap();
    assert!(percent.notes[0].contains("accuracies above 1"), "{percent:?}");
    let diverged = table("d.jsonl", "{\"step\":1,\"H\":Infinity,\"R\":1}\n", &Columns::default()).unwrap();
    assert!(!diverged.points[0].entropy.is_finite());
}

#[test]
fn what_is_malformed_is_named_by_line_and_column() {
    for (name, text, columns, parts) in [
        (
            "a.csv",
            "step,entropy,accuracy\n0,1,1\n1,x,1\n",
            Columns::default(),
            &["line 3: column \"entropy\": \"x\""][..],
        ),
        (
            "a.csv",
            "step,entropy,accuracy\n0,1,1\n\n\n1,x,1\n",
            Columns::default(),
            &["line 5: column \"entropy\": \"x\""],
        ),
        ("a.csv", "step,entropy,accuracy\n0,1\n", Columns::default(), &["line 2: 2 fields"]),
        (
            "a.csv",
            "step,entropy,accuracy\n5,1,1\n5,1,1\n",
            Columns::default(),
            &["line 3: step 5 does not come after"],
        ),
        (
            "a.csv",
            "step,entropy,accuracy\n-1,1,1\n",
            Columns::default(),
            &["line 2: \"step\" must be a whole number"],
        ),
        (
            "a.csv",
            "step,entropy,accuracy\n,1,1\n",
            Columns::default(),
            &["line 2: \"step\" must be a whole number"],
        ),
        ("a.csv", "step,entropy,accuracy\n0,1,\n", Columns::default(), &["no row has both"]),
        ("a.csv", "", Columns::default(), &["which column is the entropy?"]),
        (
            "a.csv",
            "step,x,y\n0,1,1\n",
            Columns::default(),
            &["which column is the entropy? Name it with --entropy", "\"x\", \"y\""],
        ),
        ("a.csv", "step,x,y\n0,1,1\n", named("", "x", "z"), &["no column \"z\" (--accuracy)"]),
        ("a.jsonl", "{\"H\":1,\"R\":1}\n[1]\n", Columns::default(), &["line 2: "]),
        ("a.jsonl", "{\"H\":\"1\",\"R\":1}\n", Columns::default(), &["line 1: \"H\" must be a number"]),
        ("a.jsonl", "nonsense", Columns::default(), &["no line is a JSON object", "line 1 is cut off"]),
        ("a.jsonl", "{\"H\":1,\"R\":1}\n\nnonsense\n", Columns::default(), &["line 3: "]),
    ] {
        let error = table(name, text, &columns).unwrap_err();
        for part in parts.iter().chain(&[name]) {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }
}

#[test]
fn what_programs_write_for_nothing_is_nothing() {
    let csv = "step,entropy,accuracy\n0,None,0.5\n1,1.0,nan\n2,1.0,0.5\n3,NaN,0.5\n";
    let json = "{\"step\":1,\"H\":1,\"R\":null}\n{\"step\":2,\"H\":1,\"R\":0.5}\n{\"step\":3,\"H\":null,\"R\":0.5}\n";
    for (name, text, passed) in [("a.csv", csv, 3), ("a.jsonl", json, 2)] {
        let measured = table(name, text, &Columns::default()).unwrap();
        assert_eq!(measured.points, [Point { step: 2, entropy: 1.0, accuracy: 0.5 }]);
        assert!(measured.notes[0].starts_with(&format!("{passed} rows without both")), "{measured:?}");
    }
    let text = "{\"step\":0,\"H\":NaN,\"R\":0.5}\n{\"step\":1,\"H\":1,\"R\":0.5}\n{\"step\":2,\"H";
    let measured = table("a.jsonl", text, &Columns::default()).unwrap();
    assert!(measured.points[0].entropy.is_nan() && measured.points.len() == 2, "{measured:?}");
    assert!(measured.notes[0].contains("line 3 is cut off"), "{measured:?}");
}
