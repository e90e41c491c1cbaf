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
fn keys_of_other_trainers_are_translated() {
    for (text, message) in [
        (
            "num_generations = 8",
            "unknown key `num_generations`; here it is `rollout.responses` in recipes for",
        ),
        (
            "[trainer]\nper_device_train_batch_size = 4\nsome_flag = 1",
            "unknown key `trainer.per_device_train_batch_size`; here it is `update.prompts` in recipes for `isentrope \
             train`, which counts the prompts of a whole update, each with all its responses\n\
             x.toml:3: unknown key `trainer.some_flag`",
        ),
        (
            "actor_rollout_ref.rollout.n = 4",
            "unknown key `actor_rollout_ref.rollout.n`; here it is `rollout.responses` in recipes for",
        ),
        ("sft.batch = 3", "unknown key `sft`, which recipes for `isentrope sft` have"),
    ] {
        let error = error(text, &[]);
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn wrong_types_and_values_say_what_is_expected() {
    for (text, message) in [
        (
            "\n[optimizer]\nlearning_rate = \"a\"",
            "x.toml:3: optimizer.learning_rate must be a number, found a string",
        ),
        ("model = 3", "x.toml:1: model must be a string, found 3"),
        ("model = 2024-01-01", "x.toml:1: model must be a string, found a date or time"),
        ("seed = -1", "x.toml:1: seed must be a whole number, at least 0, found -1"),
        ("seed = 0.5", "x.toml:1: seed must be a whole number, at least 0, found 0.5"),
        (
            "optimizer.warm_up = 256",
            "x.toml:1: optimizer.warm_up must be a whole number from 0 to 255, found 256",
        ),
        (
            "[optimizer.schedule]\nsteps = 4294967296",
            "x.toml:2: optimizer.schedule.steps must be a whole number from 0 to 4294967295, found 4294967296",
        ),
        ("objective = true", "x.toml:1: objective must be a table, found true"),
        (
            "objective.is_clipped = 1",
            "x.toml:1: objective.is_clipped must be true or false, found 1",
        ),
        (
            "objective.clip_low = 1.5",
            "x.toml:1: objective.clip_low must be a number from 0 to 1, found 1.5",
        ),
        (
            "objective.clip_low = nan",
            "x.toml:1: objective.clip_low must be a number from 0 to 1, found nan",
        ),
        (
            "objective.dual_clip = 1",
            "x.toml:1: objective.dual_clip must be a number, above 1, found 1",
        ),
        (
            "objective.aggregation = \"tokenmean\"",
            "x.toml:1: objective.aggregation must be one of \"seq-mean-token-sum\", \"token-mean\", \
             \"seq-mean-token-mean\", found \"tokenmean\"; did you mean \"token-mean\"?",
        ),
        (
            "k = [1,\n\"two\"]",
            "x.toml:2: k.1 must be a whole number from 0 to 4294967295, found a string",
        ),
        (
            "optimizer.betas = [0.9]",
            "x.toml:1: optimizer.betas must be an array of 2, found an array of 1",
        ),
        (
            "micro_batch_tokens = \"all\"",
            "x.toml:1: micro_batch_tokens must be \"auto\", or a whole number from 0 to 4294967295, found \"all\"",
        ),
        ("[weights]\n\"a b\" = true", "x.toml:2: weights.a b must be a number, found true"),
        ("[limits.math]\nrow = 1", "x.toml:2: unknown key `limits.math.row`; did you mean `rows`?"),
        (
            "[[evaluation]]\nsamples = 1",
            "x.toml:1: the key `evaluation.0.data` is missing; it must be a string",
        ),
    ] {
        assert_eq!(error(text, &[]), message, "{text}");
    }
}

#[test]
fn tagged_tables_say_what_goes_with_what() {
    let covariance = |text: &str| error(&format!("[objective.covariance]\n{text}"), &[]);
    assert_eq!(
        covariance("kind = \"clipcov\"\nfraction = 1e-4"),
        "x.toml:2: objective.covariance.kind must be one of \"none\", \"clip-cov\", \"kl-cov\", found \"clipcov\"; did \
         you mean \"clip-cov\"?"
    );
    assert_eq!(
        covariance("fraction = 1e-4"),
        "x.toml:1: the key `objective.covariance.kind` is missing; it must be one of \"none\", \"clip-cov\", \"kl-cov\""
    );
    assert_eq!(
        covariance("kind = \"clip-cov\""),
        "x.toml:1: the key `objective.covariance.fraction` is missing; it must be a number"
    );
    assert_eq!(
        covariance("kind = \"kl-cov\"\nfraction = 1e-4"),
        "x.toml:3: `objective.covariance.fraction` does not go with kind = \"kl-cov\", only with kind = \"clip-cov\""
    );
}

#[test]
fn tables_told_apart_by_a_key_are_checked_by_it() {
    let forms = "judge must be \"auto\", or a table with the key `program`, or a table with the key `panel`";
    for (text, message) in [
        ("judge = \"autos\"", format!("{forms}, found \"autos\"; did you mean \"auto\"?")),
        ("judge = 3", format!("{forms}, found 3")),
        ("judge = {}", format!("{forms}, found a table")),
        ("judge = { copies = 2 }", format!("{forms}, found a table")),
        (
            "judge = { progam = \"a\" }",
            "unknown key `judge.progam`; did you mean `program`?".into(),
        ),
        ("judge = { program = 3 }", "judge.program must be a string, found 3".into()),
        (
            "judge = { program = \"a\", copie = 2 }",
            "unknown key `judge.copie`; did you mean `copies`?".into(),
        ),
        (
            "judge = { panel = [{ judge = \"auto\" }] }",
            "the key `judge.panel.0.weight` is missing; it must be a number".into(),
        ),
        (
            "judge = { panel = [{ judge = { panel = [] }, weight = 1 }] }",
            "unknown key `judge.panel.0.judge.panel`".into(),
        ),
    ] {
        assert!(
            error(text, &[]).starts_with(&format!("x.toml:1: {message}")),
            "{text}: {}",
            error(text, &[])
        );
    }
}

#[test]
fn errors_of_set_name_it() {
    for (set, message) in [
        ("objective.cliplow=1", "unknown key `objective.cliplow`; did you mean `clip_low`?"),
        (
            "objective.clip_low=low",
            "objective.clip_low must be a number from 0 to 1, found a string",
        ),
        ("model.name=a", "`model` is not a table, so it has no key `name`"),
        ("k.9=1", "`k` is an array of 1, and `9` is not the number of an item (the first is 0)"),
        (
            "seed=99999999999999999999",
            "seed must be a whole number, at least 0, found 99999999999999999999: the number is too large",
        ),
        (
            "seed=18446744073709551616",
            "seed must be a whole number, at least 0, found 18446744073709551616: the number is too large",
        ),
        (
            "objective.clip_low=-10.5e+400",
            "objective.clip_low must be a number from 0 to 1, found -10.5e+400: the number is too large",
        ),
        (
            "model=99999999999999999999",
            "model must be a string, found 99999999999999999999: the number is too large",
        ),
        // These are texts: no number begins with 0, or has two points.
        ("seed=09999999999999999999", "seed must be a whole number, at least 0, found a string"),
        ("seed=1.2.3", "seed must be a whole number, at least 0, found a string"),
        ("seed=e9", "seed must be a whole number, at least 0, found a string"),
        ("seed", "has no '='; write --set key.path=value"),
        ("a b=1", "\"a b\" is not a path of keys such as a.b.c"),
        ("a={}#=1", "\"#=1\" follows the value"),
        ("model=\"m\" # n", "\"# n\" follows the value"),
        ("seed=1#2", "seed must be a whole number, at least 0, found a string"),
        ("seed=1\nk = 2", "seed must be a whole number, at least 0, found a string"),
        ("=1", "\"\" is not a path of keys such as a.b.c"),
        ("k=[1, 2", "not valid TOML"),
    ] {
        let error = error("model = \"m\"\nk = [1]", &[set]);
        let rest =
            error.strip_prefix(&format!("--set {set}: ")).unwrap_or_else(|| panic!("{error}"));
        assert!(rest.starts_with(message), "{error}");
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
