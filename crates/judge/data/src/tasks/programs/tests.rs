//! Properties of the generator, and programs that Python runs.

use super::*;
use proptest::prelude::*;

fn programs() -> Programs {
    Programs::new(&ProgramsSettings::default()).unwrap()
}

fn text(problem: &Problem) -> &str {
    match &problem.prompt {
        Prompt::Text(text) => text,
        other => panic!("prompts are text, not {other:?}"),
    }
}

#[test]
fn problems_depend_on_seed_and_position_alone() {
    let problems = programs().problems(1);
    let first: Vec<_> = (0..64).map(|i| problems.at(i)).collect();
    let again = programs().problems(1);
    let backwards: Vec<_> = (0..64).rev().map(|i| again.at(i)).collect();
    assert!(first.iter().eq(backwards.iter().rev()));
    assert!(first.iter().map(text).collect::<HashSet<_>>().len() > 60);
    assert_ne!(programs().problems(2).at(0), first[0]);
    assert_eq!(
        programs().demonstration(Split::Train, 1, 5),
        programs().demonstration(Split::Train, 1, 5)
    );
    assert_ne!(
        programs().demonstration(Split::Train, 1, 5),
        programs().demonstration(Split::Train, 2, 5)
    );
}

/// A shipped base model can only be made again while these stay the same.
#[test]
fn demonstrations_are_reproducible_everywhere() {
    for (position, expected) in [
        (0, "# f(a,b): a negated, plus 9, at least 8\ndef f(a,b):return max(9+(-a),8)"),
        (1, "# f(a,b): a at most 4, minus 9\ndef f(a,b):return b*min(a,4)"),
        (
            5,
            "# f(x): sort, square, keep even\ndef f(x):\n x=[v*2 for v in x]\n x=[v*v for v in \
             x]\n \
             x=[v for v in x if v%2==0]\n return x",
        ),
    ] {
        let (problem, response) = programs().demonstration(Split::Train, 1, position);
        assert_eq!(format!("{}{response}", text(&problem)), expected);
    }
}

/// The generator computes results without Python; here Python checks them. Programs without a
/// mistake pass all their tests, and those with one fail.
#[cfg(target_os = "linux")]
#[test]
fn worked_examples_are_right_unless_they_are_mistaken() {
    use isentrope_reward::{Item, Verdict, VerifierName, VerifierSettings};
    let verifier = VerifierSettings::from(VerifierName::Code).build().unwrap();
    let mut right = 0;
    for mistakes in [0.0, 0.5] {
        let programs =
            Programs::new(&ProgramsSettings { steps: vec![1, 2, 3, 4], mistakes, tests: 8 })
                .unwrap();
        let exact = Programs::new(&ProgramsSettings { mistakes: 0.0, ..programs.settings.clone() })
            .unwrap();
        for position in 0..250 {
            let mut stream = Stream::new(Draws::of(11, Purpose::Demonstration, position, TRAIN));
            let tested = exact.drawn(Split::Train, &mut stream);
            let written = programs.written(&tested, &mut stream);
            let expected =
                if written == tested.function { Verdict::Correct } else { Verdict::Wrong };
            let (problem, program) = (problem(&tested, String::new()), written.python(&mut stream));
            let item = Item { ground_truth: &problem.ground_truth, ..Item::default() };
            let judgement = verifier.verify_batch(&[(item, &program)]).unwrap().remove(0);
            assert_eq!(
                judgement.verdict,
                expected,
                "{}{program}\n{}",
                text(&problem),
                judgement.reason
            );
            right += usize::from(expected == Verdict::Correct);
        }
    }
    assert!((270..400).contains(&right), "{right} of 500");
}

#[test]
fn no_problem_is_both_for_training_and_for_test() {
    let test = programs().test_set(1024).unwrap();
    let test: HashSet<&str> = test.iter().map(text).collect();
    assert_eq!(test.len(), 1024);
    let problems = programs().problems(3);
    let train: HashSet<String> = (0..20_000).map(|i| text(&problems.at(i)).to_owned()).collect();
    assert!(train.len() > 10_000, "{}", train.len());
    assert!(train.iter().all(|prompt| !test.contains(&prompt[..])));
}

#[test]
fn worked_examples_of_a_split_are_of_its_problems() {
    // Even if there are few functions and many tests must tell them apart.
    for (steps, tests) in [(vec![2, 3], 8), (vec![1], 64)] {
        let programs =
            Programs::new(&ProgramsSettings { steps, tests, ..ProgramsSettings::default() })
                .unwrap();
        let prompts = |split| -> HashSet<String> {
            (0..500).map(|i| text(&programs.demonstration(split, 7, i).0).to_owned()).collect()
        };
        let (train, test) = (prompts(Split::Train), prompts(Split::Test));
        assert!(train.is_disjoint(&test) && !test.is_empty());
        assert!(programs.test_set(2).unwrap().iter().all(|problem| !train.contains(text(problem))));
    }
}

#[test]
fn test_problems_have_each_kind_and_size_in_turn() {
    let test = programs().test_set(40).unwrap();
    assert_eq!(programs().test_set(10).unwrap(), test[..10], "fewer are the first of more");
    let steps = |problem: &Problem| {
        let steps = text(problem).matches(", ").count() + 1;
        let reductions = [", sum\n", ", count\n", ", largest\n"];
        steps - usize::from(reductions.iter().any(|end| text(problem).ends_with(end)))
    };
    let counted = |kind: &str, size: usize| {
        test.iter().filter(|problem| problem.data_source == kind && steps(problem) == size).count()
    };
    for (kind, size) in [("expressions", 2), ("expressions", 3), ("lists", 2), ("lists", 3)] {
        assert_eq!(counted(kind, size), 10, "{kind} {size}");
    }
    let one =
        Programs::new(&ProgramsSettings { steps: vec![1], ..ProgramsSettings::default() }).unwrap();
    let error = one.test_set(1000).unwrap_err().to_string();
    assert!(
        error.contains("eval.problems is 1000") && error.contains("data.programs.steps = [1]"),
        "{error}"
    );
}

#[test]
fn about_one_in_eight_of_all_functions_is_for_test() {
    let mut stream = Stream::new(Draws::of(7, Purpose::Problem, 0, 0));
    let test = (0..8000).filter(|i| Function::draw(i % 2, 4, &mut stream).is_for_test()).count();
    // Standard deviation 30.
    assert!((880..1120).contains(&test), "{test}");
}

#[test]
fn impossible_settings_are_named() {
    let default = ProgramsSettings::default;
    for (settings, key) in [
        (ProgramsSettings { steps: vec![], ..default() }, "data.programs.steps"),
        (ProgramsSettings { steps: vec![2, 0], ..default() }, "data.programs.steps.1"),
        (ProgramsSettings { steps: vec![5], ..default() }, "data.programs.steps.0"),
        (ProgramsSettings { tests: 0, ..default() }, "data.programs.tests"),
        (ProgramsSettings { mistakes: 1.5, ..default() }, "data.programs.mistakes"),
        (ProgramsSettings { mistakes: f64::NAN, ..default() }, "data.programs.mistakes"),
    ] {
        match Programs::new(&settings) {
            Err(Error::Setting { key: named, .. }) => assert_eq!(named, key),
            other => panic!("{key}: {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any settings, tests tell functions apart and numbers are readable.
    #[test]
    fn tests_differ_and_numbers_are_small(
        seed in any::<u64>(),
        position in any::<u64>(),
        steps in 1usize..=4,
        tests in 1usize..=12,
        mistakes in 0.0f64..=1.0,
    ) {
        let settings = ProgramsSettings { steps: vec![steps], tests, mistakes };
        let programs = Programs::new(&settings).unwrap();
        let problem = programs.problems(seed).at(position);
        let of = |key: &str| problem.ground_truth[key].as_array().unwrap().clone();
        prop_assert_eq!((of("inputs").len(), of("outputs").len()), (tests, tests));
        let different: HashSet<String> = of("outputs").iter().map(Value::to_string).collect();
        prop_assert!(different.len() * 2 >= tests);
        for output in of("outputs") {
            let numbers = output.as_array().cloned().unwrap_or(vec![output]);
            prop_assert!(numbers.iter().all(|n| n.as_i64().unwrap().abs() <= 8 * LARGEST));
        }
        let (_, program) = programs.demonstration(Split::Train, seed, position);
        prop_assert!(program.starts_with("def f(") && program.contains("return "), "{}", program);
    }
}
