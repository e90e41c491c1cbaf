//! Properties of the generator.

use super::*;
use isentrope_reward::countdown::Operation;
use isentrope_reward::{Item, Verdict, VerifierName};
use proptest::prelude::*;

fn text(problem: &Problem) -> &str {
    match &problem.prompt {
        Prompt::Text(text) => text,
        other => panic!("countdown prompts are text, not {other:?}"),
    }
}

fn challenge(problem: &Problem) -> Challenge {
    Challenge::from_value(&problem.ground_truth).unwrap()
}

fn canonical(problem: &Problem) -> Challenge {
    let mut challenge = challenge(problem);
    challenge.numbers.sort_unstable();
    challenge
}

fn judge(problem: &Problem, response: &str) -> Verdict {
    let item = Item {
        ground_truth: &problem.ground_truth,
        prompt: text(problem),
        data_source: &problem.data_source,
        extra_info: &problem.extra_info,
        ..Item::default()
    };
    VerifierName::Countdown.verify(&item, response).verdict
}

/// Whether the target can be reached within the bound, by an exhaustive search that shares no code
/// with the generator.
fn solvable(values: &[i64], target: i64, largest: i64) -> bool {
    if let [last] = values {
        return *last == target;
    }
    (0..values.len()).any(|i| {
        (0..values.len()).filter(|&j| j != i).any(|j| {
            let (a, b) = (values[i], values[j]);
            let rest: Vec<i64> =
                (0..values.len()).filter(|&k| k != i && k != j).map(|k| values[k]).collect();
            let quotient = if b > 0 && a % b == 0 { a / b } else { 0 };
            [a + b, a - b, a * b, quotient].into_iter().any(|result| {
                (1..=largest).contains(&result) && {
                    let mut next = rest.clone();
                    next.push(result);
                    solvable(&next, target, largest)
                }
            })
        })
    })
}

fn numbers_of(challenge: &Challenge) -> Vec<i64> {
    challenge.numbers.iter().map(|&n| n as i64).collect()
}

#[test]
fn prompts_are_exact() {
    let problem = problem(&Challenge { numbers: vec![3, 5, 7], target: 22 }, Split::Train, 4);
    assert_eq!(text(&problem), "3 5 7>22:");
    assert_eq!(problem.ground_truth, serde_json::json!({"numbers": [3, 5, 7], "target": 22}));
    assert_eq!(problem.origin, "countdown train 4");
}

#[test]
fn problems_depend_on_seed_and_position_alone() {
    let countdown = Countdown::new(&CountdownSettings::default()).unwrap();
    let first: Vec<_> = (0..64).map(|i| countdown.train(1, i)).collect();
    let backwards: Vec<_> = (0..64).rev().map(|i| countdown.clone().train(1, i)).collect();
    assert!(first.iter().eq(backwards.iter().rev()));
    let distinct = |problems: &[Problem]| {
        problems.iter().map(|p| text(p).to_owned()).collect::<HashSet<_>>().len()
    };
    assert!(distinct(&first) > 60, "{}", distinct(&first));
    assert_ne!(countdown.train(2, 0).prompt, first[0].prompt);
    assert_eq!(
        countdown.demonstration(Split::Train, 1, 5),
        countdown.demonstration(Split::Train, 1, 5)
    );
    assert_ne!(
        countdown.demonstration(Split::Train, 1, 5),
        countdown.demonstration(Split::Train, 2, 5)
    );
}

#[test]
fn splits_share_no_problem_and_counts_have_their_weights() {
    let countdown = Countdown::new(&CountdownSettings::default()).unwrap();
    let test = countdown.test_set(1024).unwrap();
    assert_eq!(test.iter().map(text).collect::<HashSet<_>>().len(), 1024);
    let test: HashSet<_> = test.iter().map(canonical).map(|c| (c.numbers, c.target)).collect();
    let mut three = 0;
    let mut train = HashSet::new();
    for i in 0..100_000 {
        let challenge = canonical(&countdown.train(3, i));
        three += usize::from(challenge.numbers.len() == 3);
        assert!(!test.contains(&(challenge.numbers.clone(), challenge.target)), "{challenge:?}");
        train.insert((challenge.numbers, challenge.target));
    }
    // Standard deviation 145.
    assert!((69_400..70_600).contains(&three), "{three}");
    // No training problem is among the first 1024 test problems.
    assert!(train.len() > 10_000, "{}", train.len());
    let shares = train
        .iter()
        .chain(&test)
        .filter(|(numbers, target)| {
            split_of(&Challenge { numbers: numbers.clone(), target: *target }) == Split::Test
        })
        .count();
    assert_eq!(shares, test.len());
}

/// Test problems must be what training problems are, however many are taken.
#[test]
fn any_number_of_test_problems_has_the_training_mix() {
    let of = |settings: &CountdownSettings, n: usize| {
        Countdown::new(settings).unwrap().test_set(n).unwrap()
    };
    let size = |problem: &Problem| challenge(problem).numbers.len();
    let settings = CountdownSettings::default();
    let test = of(&settings, 1024);
    for n in 1..=test.len() {
        let four = test[..n].iter().filter(|problem| size(problem) == 4).count();
        assert!((four as f64 - 0.3 * n as f64).abs() <= 1.0, "{four} of {n}");
    }
    assert_eq!(of(&settings, 100), test[..100], "fewer are the first of more");
    // A size without weight has none, and one that is named twice has both weights.
    let odd = CountdownSettings {
        numbers: vec![3, 5, 4, 3],
        weights: vec![1.0, 0.0, 2.0, 1.0],
        ..settings
    };
    let test = of(&odd, 100);
    let count = |wanted: usize| test.iter().filter(|problem| size(problem) == wanted).count();
    assert_eq!((count(3), count(4), count(5)), (50, 50, 0));
}

#[test]
fn one_in_eight_of_all_problems_is_for_test() {
    let test = (0..8000u64)
        .filter(|i| {
            let numbers = vec![1 + i % 9, 1 + i / 9 % 9, 1 + i / 81];
            split_of(&Challenge { numbers, target: 1 + i % 97 }) == Split::Test
        })
        .count();
    // Standard deviation 30.
    assert!((880..1120).contains(&test), "{test}");
    let order = |numbers: &[u64]| split_of(&Challenge { numbers: numbers.to_vec(), target: 22 });
    assert!((1..50).all(|n| order(&[n, 5, 7]) == order(&[7, n, 5])));
}

#[test]
fn demonstrations_are_what_the_settings_say() {
    let settings = CountdownSettings::default();
    let countdown = Countdown::new(&settings).unwrap();
    let (mut correct, mut attempts, mut abandoned, mut failed) = (0, 0, 0, 0);
    let n = 10_000;
    for i in 0..n {
        let (problem, response) = countdown.demonstration(Split::Train, 7, i);
        assert_eq!(split_of(&challenge(&problem)), Split::Train);
        let success = response.ends_with('!');
        assert_eq!(judge(&problem, &response) == Verdict::Correct, success, "{response}");
        assert_ne!(judge(&problem, &response), Verdict::Unparseable, "{response}");
        correct += usize::from(success);
        let all: Vec<&str> = response[..response.len() - 1].split(';').collect();
        attempts += all.len();
        let steps = challenge(&problem).numbers.len() - 1;
        for (place, attempt) in all.iter().enumerate() {
            let failure = !success || place + 1 < all.len();
            if failure {
                assert_eq!(judge(&problem, &format!("{attempt}!")), Verdict::Wrong, "{response}");
                failed += 1;
                abandoned += usize::from(attempt.split(',').count() < steps);
            }
            for step in attempt.split(',') {
                let (operation, result) = step.split_once('=').unwrap();
                let place = operation.find(['+', '-', '*', '/']).unwrap();
                let a: u64 = operation[..place].parse().unwrap();
                let b: u64 = operation[place + 1..].parse().unwrap();
                let exact = match &operation[place..=place] {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    _ => a / b,
                };
                let result: u64 = result.parse().unwrap();
                assert!(exact == result && (1..=99).contains(&result), "{step}");
            }
        }
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{response}");
    }
    // Standard deviation 50 for correct; the cap takes 1/128 off the mean of 2 attempts.
    assert!((4800..5200).contains(&correct), "{correct}");
    let mean = attempts as f64 / n as f64;
    assert!((1.93..2.05).contains(&mean), "{mean}");
    let share = f64::from(abandoned as u32) / f64::from(failed as u32);
    assert!((0.09..0.13).contains(&share), "{share}");
}

#[test]
fn worked_examples_of_a_split_are_of_its_problems() {
    let countdown = Countdown::new(&CountdownSettings::default()).unwrap();
    for split in [Split::Train, Split::Test] {
        for i in 0..500 {
            let (problem, _) = countdown.demonstration(split, 7, i);
            assert_eq!(split_of(&challenge(&problem)), split);
        }
    }
}

/// A shipped base model can only be made again while these stay the same.
#[test]
fn demonstrations_are_reproducible_everywhere() {
    let countdown = Countdown::new(&CountdownSettings::default()).unwrap();
    for (position, expected) in [
        (0, "5 9 1>40:5+9=14;9/1=9,5+9=14;9-1=8,8*5=40!"),
        (1, "3 6 1>3:6-3=3,3/1=3!"),
        (4, "3 9 6 1>2:3*9=27,27+6=33,33*1=33?"),
    ] {
        let (problem, response) = countdown.demonstration(Split::Train, 1, position);
        assert_eq!(format!("{}{response}", text(&problem)), expected);
    }
}

#[test]
fn impossible_settings_are_named() {
    let default = CountdownSettings::default;
    let demonstrations = |change: fn(&mut Demonstrations)| {
        let mut settings = default();
        change(&mut settings.demonstrations);
        settings
    };
    for (settings, key) in [
        (CountdownSettings { numbers: vec![], ..default() }, "data.countdown.numbers"),
        (CountdownSettings { numbers: vec![2, 3], ..default() }, "data.countdown.numbers.0"),
        (CountdownSettings { numbers: vec![3, 7], ..default() }, "data.countdown.numbers.1"),
        (CountdownSettings { numbers: vec![3], ..default() }, "data.countdown.weights"),
        (CountdownSettings { weights: vec![0.0, 0.0], ..default() }, "data.countdown.weights"),
        (CountdownSettings { weights: vec![-1.0, 2.0], ..default() }, "data.countdown.weights"),
        (CountdownSettings { weights: vec![f64::NAN, 1.0], ..default() }, "data.countdown.weights"),
        (
            CountdownSettings { weights: vec![f64::INFINITY, 1.0], ..default() },
            "data.countdown.weights",
        ),
        (CountdownSettings { largest_number: 0, ..default() }, "data.countdown.largest_number"),
        (CountdownSettings { largest_number: 100, ..default() }, "data.countdown.largest_number"),
        (
            CountdownSettings { largest_intermediate: 8, ..default() },
            "data.countdown.largest_intermediate",
        ),
        (CountdownSettings { operations: vec![], ..default() }, "data.countdown.operations"),
        // All numbers are 1 and so is every result: there are not enough problems for two splits.
        (
            CountdownSettings { largest_number: 1, largest_intermediate: 1, ..default() },
            "data.countdown.numbers",
        ),
        (demonstrations(|d| d.success = 1.5), "data.countdown.demonstrations.success"),
        (demonstrations(|d| d.abandon = f64::NAN), "data.countdown.demonstrations.abandon"),
        (demonstrations(|d| d.attempts = 0.5), "data.countdown.demonstrations.attempts"),
        (demonstrations(|d| d.max_attempts = 0), "data.countdown.demonstrations.max_attempts"),
    ] {
        match Countdown::new(&settings) {
            Err(Error::Setting { key: named, .. }) => assert_eq!(named, key),
            other => panic!("{key}: {other:?}"),
        }
    }
    let few =
        CountdownSettings { numbers: vec![3], weights: vec![1.0], largest_number: 3, ..default() };
    let error = Countdown::new(&few).unwrap().test_set(1000).unwrap_err().to_string();
    for part in ["eval.problems is 1000", "test problems of 3 numbers", "ask for fewer"] {
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An independent search solves every problem within its settings.
    #[test]
    fn problems_can_be_solved(
        seed in any::<u64>(),
        position in any::<u64>(),
        count in 3usize..=5,
        largest_number in 5u64..30,
        room in 0u64..200,
    ) {
        let settings = CountdownSettings {
            numbers: vec![count],
            weights: vec![1.0],
            largest_number,
            largest_intermediate: largest_number + room,
            ..CountdownSettings::default()
        };
        let countdown = Countdown::new(&settings).unwrap();
        let tests = countdown.test_set(3).unwrap();
        for problem in tests.iter().chain([&countdown.train(seed, position)]) {
            let challenge = challenge(problem);
            prop_assert_eq!(challenge.numbers.len(), count);
            prop_assert!(challenge.numbers.iter().all(|n| (1..=largest_number).contains(n)));
            let largest = settings.largest_intermediate as i64;
            prop_assert!(solvable(&numbers_of(&challenge), challenge.target as i64, largest));
        }
    }

    /// Any settings give demonstrations that the verifier judges as their mark says.
    #[test]
    fn demonstrations_end_as_they_claim(
        seed in any::<u64>(),
        position in any::<u64>(),
        count in 3usize..=6,
        adds_only in any::<bool>(),
        success in 0.0f64..=1.0,
        attempts in 1.0f64..6.0,
        max_attempts in 1usize..12,
        abandon in 0.0f64..=1.0,
    ) {
        // With additions alone nearly every attempt succeeds.
        let operations =
            if adds_only { vec![Operation::Add] } else { CountdownSettings::default().operations };
        let settings = CountdownSettings {
            numbers: vec![count],
            weights: vec![1.0],
            operations,
            demonstrations: Demonstrations { success, attempts, max_attempts, abandon },
            ..CountdownSettings::default()
        };
        let (problem, response) = Countdown::new(&settings).unwrap().demonstration(Split::Train, seed, position);
        let expected = if response.ends_with('!') { Verdict::Correct } else { Verdict::Wrong };
        prop_assert_eq!(judge(&problem, &response), expected, "{}", response);
        prop_assert!(response.split(';').count() <= max_attempts);
    }
}
