//! Recipes that are refused, and the messages.

use super::load_text;
use super::settings::Settings;

fn error(text: &str, sets: &[&str]) -> String {
    load_text::<Settings>(text, sets).unwrap_err().to_string()
}

#[test]
fn unknown_keys_are_named_together_with_lines_and_nearest_keys() {
    let text = "modle = \"a\"\n\n[objective]\ncliplow = 0.1\nlearning_rate = 1e-5\nqqq = 1\nlearing_rate = 1\n\
                [nothing.like.it]\n";
    assert_eq!(
        error(text, &[]),
        "x.toml:1: unknown key `modle`; did you mean `model`?\n\
         x.toml:4: unknown key `objective.cliplow`; did you mean `clip_low`?\n\
         x.toml:5: unknown key `objective.learning_rate`; did you mean `optimizer.learning_rate`?\n\
         x.toml:6: unknown key `objective.qqq`; `objective` has aggregation, also, clip_low, covariance, dual_clip, is_clipped\n\
         x.toml:7: unknown key `objective.learing_rate`; did you mean `optimizer.learning_rate`?\n\
         x.toml:8: unknown key `nothing`"
    );
}

#[test]
fn recipes_and_sets_that_are_refused_say_why() {
    let cases: toml::Table = toml::from_str(include_str!("errors.toml")).unwrap();
    let rows = |name: &str| -> Vec<[String; 2]> { cases[name].clone().try_into().unwrap() };
    for [text, message] in rows("recipes") {
        let error = error(&text, &[]);
        assert!(error.starts_with(&message), "{text}: {error}");
    }
    for [text, message] in rows("foreign") {
        let error = error(&text, &[]);
        assert!(error.contains(&message), "{text}: {error}");
    }
    for [set, message] in rows("sets") {
        let error = error("model = \"m\"\nk = [1]", &[&set]);
        let begin = format!("--set {set}: {message}");
        assert!(error.starts_with(&begin), "{begin} is not the beginning of: {error}");
    }
}

#[test]
fn what_is_not_a_recipe_is_refused() {
    assert!(error("a = \n", &[]).starts_with("x.toml:1: not valid TOML: "));
    assert!(
        error("seed = 1\nseed = 2", &[]).starts_with("x.toml:2: not valid TOML: duplicate key")
    );
    assert!(error("\nseed = 99999999999999999999", &[]).starts_with("x.toml:2: "));
    assert!(
        error(&" ".repeat(300_000), &[])
            .ends_with("x.toml: is larger than 256 KiB, which no recipe is")
    );
    assert!(error(&format!("{}a = 1", "a.".repeat(40)), &[]).contains("nested more than 32 deep"));
    for deep in [format!("{}a = 1", "a.".repeat(120_000)), format!("a = {}", "[".repeat(250_000))] {
        assert!(error(&deep, &[]).starts_with("x.toml:1: "));
    }
    let missing = super::load::<Settings>("no/such.toml".as_ref(), &[]).unwrap_err();
    assert!(format!("{missing:#}").starts_with("no/such.toml: "));
    let dir = tempfile::tempdir().unwrap();
    let directory = super::load::<Settings>(dir.path(), &[]).unwrap_err();
    assert!(format!("{directory:#}").ends_with("is a directory, not a regular file"));
    let path = dir.path().join("x.toml");
    std::fs::write(&path, b"a = \"\xff\"").unwrap();
    assert!(
        super::load::<Settings>(&path, &[]).unwrap_err().to_string().ends_with("is not UTF-8 text")
    );
}
