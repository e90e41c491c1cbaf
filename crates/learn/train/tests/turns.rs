//! Training on responses of several turns: only sampled tokens are learnt from.

use crate::learner::sample;
use crate::ranks_pulled::{differences, patient, recipe, run};
use crate::support::{learner, limits, model};
use isentrope_budget::PassLimits;
use isentrope_data::{Problem, Prompt, Row};
use isentrope_kernels::SamplingMasks;
use isentrope_model::{ActivationCache, Model, Sequence};
use isentrope_objective::{Estimator, LossTerms, Method, ObjectiveSettings, TeacherDivergence};
use isentrope_ranks::Watch;
use isentrope_reward::{Judgement, Verdict};
use isentrope_rollout::Response;
use isentrope_run::tokens::GivenRanges;
use isentrope_train::Result;
use isentrope_train::advantage::{group_advantages, trained_advantages};
use isentrope_train::group::Group;
use isentrope_train::learner::{Coefficients, Learner, UpdateBatch, UpdateTeacher};
use isentrope_train::minibatch::{BatchLoss, LossInputs, Teaching, TrainingBatch};
use isentrope_train::observer::Progress;
use isentrope_train::process_model::ProcessBatch;
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::rl::Recipe;
use isentrope_train::settings::OptimizerSettings;
use isentrope_train::trainer::TrainingRecipe;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const TEMPERATURE: f32 = 0.9;
const PROMPT: [u32; 4] = [7, 21, 3, 40];
/// The lengths of the responses, and their given tokens. Sixteen tokens are sampled, so that
/// derivatives by hand are exact.
const RESPONSES: [(usize, &[[usize; 2]]); 2] = [(14, &[[3, 6], [8, 10]]), (7, &[])];

fn tokens(response: usize) -> Vec<u32> {
    let (length, _) = RESPONSES[response];
    (0..length as u32).map(|i| (i * i + 5 * i + 11 * response as u32 + 3) % 61).collect()
}

fn given(response: usize) -> GivenRanges {
    let mut given = GivenRanges::default();
    RESPONSES[response].1.iter().for_each(|&[from, to]| given.push(from..to));
    given
}

fn learner_of(limits: PassLimits) -> Learner {
    learner(model("qwen3", 1), OptimizerSettings::default(), limits, TrainingRanks::alone(1))
}

fn sequence(response: usize) -> Vec<u32> {
    [&PROMPT[..], &tokens(response)].concat()
}

/// A right response of several turns and a wrong one of one turn, as the policy samples them.
fn groups(learner: &Learner) -> Vec<Group> {
    let response = |number: usize| {
        let whole = sequence(number);
        let targets = [Sequence { tokens: &whole, score_from: PROMPT.len() }];
        let scores = learner.score(&targets, TEMPERATURE).unwrap();
        let given = given(number);
        let sampled = |of: &[f32]| -> Vec<f32> {
            let value = |(at, &value): (usize, &f32)| if given.contains(at) { 0.0 } else { value };
            of.iter().enumerate().map(value).collect()
        };
        let verdict = if number == 0 { Verdict::Correct } else { Verdict::Wrong };
        Response {
            text: String::new(),
            tokens: tokens(number),
            logprobs: sampled(&scores.logprobs),
            entropies: sampled(&scores.entropies),
            given: given.clone(),
            masks: None,
            truncated: false,
            given_text: Vec::new(),
            out_of_turns: false,
            judgement: Judgement::new(verdict, None, ""),
            reward: if number == 0 { 1.0 } else { 0.0 },
            activation_slots: None,
            vote: None,
        }
    };
    vec![Group {
        step: 1,
        position: 0,
        problem: Problem {
            prompt: Prompt::Text("?".into()),
            ground_truth: Value::Null,
            data_source: String::new(),
            extra_info: Value::Null,
            columns: Row::new(),
            hint: None,
            origin: "made up".into(),
        },
        prompt: PROMPT.to_vec(),
        responses: (0..2).map(response).collect(),
        greedy: None,
    }]
}

fn settings() -> ObjectiveSettings {
    ObjectiveSettings { advantage: Estimator::DrGrpo, ..ObjectiveSettings::default() }
}

/// The bits of a learner's gradient.
fn gradient(learner: &mut Learner) -> Vec<u32> {
    let tensors = learner.gradient().unwrap().into_iter();
    tensors.flat_map(|t| (t.values)().unwrap().into_owned()).map(f32::to_bits).collect()
}

/// The trainer's loss and its gradient.
fn trained(limits: PassLimits, on_policy_step: Option<u64>) -> (BatchLoss, Vec<u32>) {
    trained_after(limits, on_policy_step, |_| {})
}

/// As [`trained`]; if there are slots, a sampler has cached activations. `act` comes before the
/// update.
fn trained_after(
    limits: PassLimits,
    on_policy_step: Option<u64>,
    act: impl FnOnce(&mut Learner),
) -> (BatchLoss, Vec<u32>) {
    let mut learner = learner_of(limits);
    let (mut groups, settings) = (groups(&learner), settings());
    if learner.activation_cache.is_some() {
        let wholes = [0, 1].map(sequence);
        let score_from = PROMPT.len();
        let sequences = wholes.each_ref().map(|tokens| Sequence { tokens, score_from });
        let slots = sample(&mut learner, &sequences);
        let responses = groups[0].responses.iter_mut().zip(slots);
        responses.for_each(|(response, slots)| response.activation_slots = Some(slots));
    }
    act(&mut learner);
    let advantages = group_advantages(&settings, &groups);
    let learnt = trained_advantages(&groups, &advantages, false);
    let batch = TrainingBatch::minibatches(&groups, &learnt, 1).next().unwrap();
    assert_eq!((batch.response_tokens(), batch.all_tokens()), (16, 29));
    let terms = LossTerms { entropy_coefficient: 0.5, ..LossTerms::default() };
    let (temperature, teaching) = (TEMPERATURE, None);
    let inputs = LossInputs { settings: &settings, temperature, on_policy_step, terms, teaching };
    let loss = batch.accumulate(&mut learner, &inputs).unwrap();
    (loss, gradient(&mut learner))
}

#[test]
fn the_gradient_is_that_of_the_whole_sequence_with_zeros_for_given_tokens() {
    let (loss, found) = trained(limits(1000), None);

    // With the policy that sampled, a token's loss is -A rho / N - c H / N, rho being 1.
    let (by_hand, entropies) = gradient_by_hand([-0.5 / 16.0, 0.5 / 16.0], [-0.5 / 16.0; 2]);
    assert!(found.iter().any(|&bits| f32::from_bits(bits) != 0.0));
    assert!(by_hand == found, "gradients differ");

    let mut first = 0;
    let means = (0..2).map(|number| {
        let own = &entropies[first..first + RESPONSES[number].0];
        first += RESPONSES[number].0;
        let sampled: Vec<f64> =
            given(number).sampled(own.len()).map(|at| f64::from(own[at])).collect();
        sampled.iter().sum::<f64>() / sampled.len() as f64
    });
    assert_eq!(loss.entropy, means.sum::<f64>() / 2.0, "of sampled tokens alone");
    assert_eq!(loss.objective.d_logprobs.len(), 16);
}

/// The gradient of a loss with these derivatives by the log-prob and the entropy of each sampled
/// token of a response, `[responses]`; and the entropies of all tokens.
fn gradient_by_hand(d_logprobs: [f32; 2], d_entropies: [f32; 2]) -> (Vec<u32>, Vec<f32>) {
    let (gradient, entropies, _) = by_hand([d_logprobs, d_entropies, [0.0; 2]], None);
    (gradient, entropies)
}

/// As [`gradient_by_hand`], with derivatives by the divergence from a teacher, which comes third.
fn by_hand(
    [d_logprobs, d_entropies, d_divergences]: [[f32; 2]; 3],
    teacher: Option<UpdateTeacher<'_>>,
) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
    let mut by_hand = learner_of(limits(1000));
    let wholes: Vec<Vec<u32>> = (0..2).map(sequence).collect();
    let sequences: Vec<Sequence<'_>> =
        wholes.iter().map(|tokens| Sequence { tokens, score_from: PROMPT.len() }).collect();
    let each = |of: [f32; 2]| -> Vec<f32> {
        let of_response = |number: usize| {
            let (length, given) = (RESPONSES[number].0, given(number));
            (0..length).map(move |at| if given.contains(at) { 0.0 } else { of[number] })
        };
        (0..2).flat_map(of_response).collect()
    };
    let masks = SamplingMasks::default();
    let forward = by_hand
        .forward(UpdateBatch {
            sequences: &sequences,
            masks: &masks,
            idle: &[false; 2],
            on_policy: &[None, None],
            temperature: TEMPERATURE,
            teacher,
        })
        .unwrap();
    let entropies = forward.scores.entropies.clone();
    let coefficients = Coefficients {
        d_logprobs: each(d_logprobs),
        d_entropies: each(d_entropies),
        d_divergences: teacher.map(|_| each(d_divergences)).unwrap_or_default(),
        ..Coefficients::default()
    };
    let divergences = by_hand.backward(forward, &coefficients).unwrap();
    (gradient(&mut by_hand), entropies, divergences)
}

/// The teacher's prompt of each group, in place of [`PROMPT`].
const TAUGHT_PROMPTS: [&[u32]; 2] = [&[9, 50], &[33, 1, 14, 5, 27, 60]];

/// The two responses in groups of their own, and the settings of a loss that is the exact
/// divergence alone.
fn taught_groups(learner: &Learner) -> (Vec<Group>, ObjectiveSettings) {
    let (mut groups, mut second) = (groups(learner), groups(learner));
    groups[0].responses.truncate(1);
    second[0].responses.remove(0);
    groups.append(&mut second);
    let mut settings = ObjectiveSettings { advantage: Estimator::Distill, ..settings() };
    settings.distillation.teacher = Some("a test's".into());
    settings.distillation.divergence = TeacherDivergence::ReverseKl;
    (groups, settings)
}

/// The loss of a minibatch, by its number, of this many groups. Its gradient is the learner's.
fn taught(
    learner: &mut Learner,
    (groups, settings): &(Vec<Group>, ObjectiveSettings),
    teacher: &Model,
    (prompts, number): (usize, usize),
) -> Result<BatchLoss> {
    let shown = TAUGHT_PROMPTS.map(<[u32]>::to_vec);
    let advantages = group_advantages(settings, groups);
    let learnt = trained_advantages(groups, &advantages, false);
    let inputs = LossInputs {
        settings,
        temperature: TEMPERATURE,
        on_policy_step: None,
        terms: LossTerms::default(),
        teaching: Some(Teaching { model: Some(teacher), prompts: &shown }),
    };
    let batch = TrainingBatch::minibatches(groups, &learnt, prompts).nth(number).unwrap();
    batch.accumulate(learner, &inputs)
}

#[test]
fn a_teacher_reads_each_response_behind_its_groups_prompt_and_given_tokens_teach_nothing() {
    let (mut learner, teacher) = (learner_of(limits(1000)), model("llama3", 1));
    let rollout = taught_groups(&learner);
    let loss = taught(&mut learner, &rollout, &teacher, (2, 0)).unwrap();
    let found = gradient(&mut learner);

    let texts = [0, 1].map(|of: usize| [TAUGHT_PROMPTS[of], &tokens(of)].concat());
    let sequences =
        [0, 1].map(|of| Sequence { tokens: &texts[of], score_from: TAUGHT_PROMPTS[of].len() });
    let of_update = UpdateTeacher { model: Some(&teacher), sequences: &sequences };
    let slopes = [[0.0; 2], [0.0; 2], [1.0 / 16.0; 2]];
    let (by_hand, _, divergences) = by_hand(slopes, Some(of_update));
    assert!(found == by_hand && found.iter().any(|&bits| f32::from_bits(bits) != 0.0));

    let (first, second) = divergences.split_at(RESPONSES[0].0);
    let sampled = |of: usize, own: &[f32]| -> Vec<f64> {
        given(of).sampled(own.len()).map(|at| f64::from(own[at])).collect()
    };
    let mean = |own: &[f64]| own.iter().sum::<f64>() / own.len() as f64;
    let each = [sampled(0, first), sampled(1, second)];
    let measured = |loss: &BatchLoss| loss.objective.statistics.kl_teacher.unwrap();
    assert!((measured(&loss) - mean(&each.concat())).abs() < 1e-12);
    // In minibatches of one group the second has the second prompt, too.
    for (number, own) in each.iter().enumerate() {
        learner.free_gradient();
        let loss = taught(&mut learner, &rollout, &teacher, (1, number)).unwrap();
        assert!((measured(&loss) - mean(own)).abs() < 1e-12, "{number}");
    }
}

/// A model whose scores are not finite.
fn spoil(model: &mut Model) {
    let (list, backend) = (model.layout.trained().clone(), model.backend.clone());
    let (id, parameter, tensor) =
        list.tensors().find(|(_, _, tensor)| tensor.name == "model.norm.weight").unwrap();
    model.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &[f32::NAN; 1]);
}

#[test]
fn a_policy_that_overflows_is_skipped_and_a_damaged_teacher_ends_the_run() {
    let (mut learner, mut teacher) = (learner_of(limits(1000)), model("llama3", 1));
    let rollout = taught_groups(&learner);
    spoil(&mut learner.model);
    let loss = taught(&mut learner, &rollout, &teacher, (2, 0)).unwrap();
    assert!(loss.objective.loss.is_nan());
    assert!(!learner.step(1e-3).unwrap().is_finite(), "the update is skipped");

    spoil(&mut teacher);
    let mut learner = learner_of(limits(1000));
    let said = taught(&mut learner, &rollout, &teacher, (2, 0)).err().unwrap().to_string();
    assert!(
        said.contains("weights in the model that objective.distillation.teacher names"),
        "{said}"
    );
}

#[test]
fn a_process_model_scores_and_learns_from_sampled_tokens_alone() {
    let (mut phi, reference) = (learner_of(limits(1000)), model("qwen3", 1));
    let groups = groups(&phi);
    let responses = groups[0].responses.iter().map(|one| (&PROMPT[..], one, one.reward == 1.0));
    let batch = ProcessBatch::new(responses, &reference, &phi, TEMPERATURE).unwrap();
    let ratios = batch.accumulate(&[0, 1], &mut phi, 0.5, TEMPERATURE).unwrap();
    assert_eq!(ratios, [vec![0.0; 9], vec![0.0; 7]], "it begins as the reference");
    // beta (sigmoid(0) - verdict), as a mean over two responses.
    let (by_hand, _) = gradient_by_hand([-0.125, 0.125], [0.0; 2]);
    assert!(gradient(&mut phi) == by_hand, "gradients differ");

    let responses = groups[0].responses.iter().map(|one| (&PROMPT[..], one, one.reward == 1.0));
    let mut phi = learner_of(limits(1000));
    let batch = ProcessBatch::new(responses, &reference, &phi, TEMPERATURE).unwrap();
    batch.accumulate(&[0, 1], &mut phi, 0.5, TEMPERATURE).unwrap();
    phi.step(1e-3).unwrap();
    let found = batch.log_ratios(&phi, TEMPERATURE).unwrap();
    for (number, found) in found.iter().enumerate() {
        let whole = sequence(number);
        let targets = [Sequence { tokens: &whole, score_from: PROMPT.len() }];
        let [own, theirs] = [
            phi.score(&targets, TEMPERATURE).unwrap().logprobs,
            phi.score_with(&reference, &targets, TEMPERATURE).unwrap().logprobs,
        ];
        let ratio = |at: usize| f64::from(own[at]) - f64::from(theirs[at]);
        let expected: Vec<f64> = given(number).sampled(own.len()).map(ratio).collect();
        assert!(*found == expected && expected.iter().all(|ratio| *ratio != 0.0), "{number}");
    }
}

#[test]
fn a_gradients_bits_do_not_depend_on_micro_batches_or_on_what_is_known_from_sampling() {
    let expected = trained(limits(1000), None).1;
    for (micro_batch_tokens, tape_bytes, activation_slots, on_policy_step) in [
        (20, usize::MAX, 0, None),
        (1000, 0, 0, None),
        (1000, usize::MAX, 0, Some(1)),
        (1, 0, 0, Some(1)),
        (1000, usize::MAX, 40, Some(1)),
        (1, 0, 40, Some(1)),
    ] {
        let limits = PassLimits { tape_bytes, activation_slots, ..limits(micro_batch_tokens) };
        assert!(
            trained(limits, on_policy_step).1 == expected,
            "{micro_batch_tokens} {tape_bytes} {activation_slots} {on_policy_step:?}"
        );
    }
}

/// Otherwise the test above could not tell whether they were.
#[test]
fn cached_activations_of_several_turns_are_used() {
    let limits = PassLimits { activation_slots: 40, ..limits(1000) };
    let trained = |act: fn(&mut Learner)| trained_after(limits, Some(1), act).1;
    let zeros = |learner: &mut Learner| {
        learner.activation_cache = Some(ActivationCache::new(&learner.model, 40).unwrap());
    };
    assert_ne!(trained(|_| {}), trained(zeros));
}

/// Episodes of the built-in task's problems, with everything that reads their tokens.
fn episodes() -> Recipe {
    let mut recipe = recipe();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/turns/environment.py");
    let environment = json!({
        "kind": "python", "python": format!("{}:Numbers", script.display()), "max_turns": 4
    });
    recipe.environment = Some(serde_json::from_value(environment).unwrap());
    // Short turns.
    recipe.rollout.stop = vec![",".into(), "!".into()];
    (recipe.rollout.top_p, recipe.update.epochs) = (0.95, 2);
    recipe.objective.covariance.method = Method::KlCov;
    recipe.objective.covariance.fraction = Some(0.02);
    recipe.objective.reference_kl.coefficient = 0.01;
    recipe.objective.distillation.teacher = Some(recipe.model.path.clone());
    recipe.objective.entropy_bonus.coefficient = 0.001;
    (recipe.lab.track_theory, recipe.lab.track_states) = (true, true);
    (recipe.eval.every, recipe.eval.problems, recipe.eval.samples) = (1, Some(4), Some(2));
    recipe
}

/// The JSON lines of a file of a run.
fn lines(dir: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
#[ignore = "deep: several runs on ranks"]
fn a_run_of_episodes_has_the_same_bytes_on_ranks_and_after_it_was_broken_off() {
    let (recipe, dirs) = (episodes(), tempfile::tempdir().unwrap());
    let alone = dirs.path().join("alone");
    let ran = run(&recipe, &alone, 1, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None]);
    for row in &lines(&alone, "metrics.jsonl")[1..] {
        let of = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
        assert!(of("response/turns_mean") > 1.5 && of("response/turns_max") == 3.0, "{row}");
        assert!(of("response/given_tokens_mean") > 2.0 && of("policy/entropy_turn_3") > 0.0);
        assert!(of("response/out_of_turns") <= of("response/truncated"), "{row}");
        assert!(of("reward/characters") > 0.0 && of("verdict/unparseable") > 0.0);
        assert!(of("rollout/tokens") < 24.0 * 120.0);
    }
    for name in ["rollouts/step-000001.jsonl", "tokens/step-000001.jsonl"] {
        assert!(lines(&alone, name).iter().any(|line| line.get("given").is_some()), "{name}");
    }
    for line in lines(&alone, "rollouts/step-000001.jsonl") {
        let text: Vec<char> = line["response"].as_str().unwrap().chars().collect();
        for range in line["given_text"].as_array().into_iter().flatten() {
            let [from, to] = [0, 1].map(|end| range[end].as_u64().unwrap() as usize);
            let given: String = text[from..to].iter().collect();
            // The tokenizer has no newline.
            let is_number = given.chars().all(|c| c.is_ascii_digit());
            assert!(is_number && !given.is_empty(), "{given:?} of {line}");
        }
        assert_eq!(line.get("given").is_some(), line.get("given_text").is_some(), "{line}");
    }

    // Episodes that have not begun go to a rank that has run out of work, where one is slow.
    let ranks = dirs.path().join("ranks");
    let ran = run(&recipe, &ranks, 2, patient(1), &|_, rank, _, Progress { done, .. }| {
        if rank == 0 && done == 0 {
            sleep(Duration::from_millis(500));
        }
    });
    assert_eq!(ran.errors, vec![None; 2]);
    assert!(ran.moved > 0.0);
    assert_eq!(differences(&alone, &ranks), [""; 0]);

    let broken = dirs.path().join("broken");
    let watch = Watch { silent: Some(Duration::from_secs(2)), ..patient(1) };
    let ran = run(&recipe, &broken, 2, watch, &|faults, rank, step, progress| {
        let Progress { done, total, .. } = progress;
        if rank == 0 && step == 2 && 2 * done > total {
            faults.silence(rank);
        }
    });
    assert!(ran.errors.iter().all(Option::is_some), "it has come to its end");
    let ran = run(&recipe, &broken, 1, patient(1), &|_, _, _, _| {});
    assert_eq!(ran.errors, [None]);
    let known = |note: &String| note.contains("sampled before the run was broken off");
    assert!(ran.notes.iter().any(known), "{:?}", ran.notes);
    assert_eq!(differences(&alone, &broken), [""; 0]);
}

/// PRIME's advantages of tokens, and a verifier that compares the last turns of a group.
#[test]
#[ignore = "deep: runs with a process model, on ranks too"]
fn opened_episodes_are_rewarded_by_a_process_model_and_compared_in_groups() {
    let (mut recipe, dirs) = (episodes(), tempfile::tempdir().unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/turns/environment.py");
    let named = |name: &str| format!("{}:{name}", script.display());
    let environment = json!({ "kind": "python", "python": named("Opening"), "opens": true });
    recipe.environment = Some(serde_json::from_value(environment).unwrap());
    let verifier = json!({ "python": named("longest"), "batch": "group" });
    recipe.reward.verifier = serde_json::from_value(verifier).unwrap();
    recipe.objective = ObjectiveSettings { advantage: Estimator::Prime, ..settings() };
    (recipe.rollout.max_tokens, recipe.eval.every, recipe.lab.track_states) = (60, 0, false);
    let alone = dirs.path().join("alone");
    assert_eq!(run(&recipe, &alone, 1, patient(1), &|_, _, _, _| {}).errors, [None]);
    let rows = lines(&alone, "rollouts/step-000001.jsonl");
    for group in rows.chunks(recipe.rollout.responses) {
        assert!(group.iter().any(|row| row["reward"] == 1.0), "{group:?}");
        assert!(group.iter().all(|row| row["given"][0][0] == 0), "{group:?}");
    }
    let records = lines(&alone, "tokens/step-000001.jsonl");
    assert!(!records.is_empty());
    for record in records {
        let (advantages, given) = (&record["advantages"], record["given"][0][1].as_u64().unwrap());
        let each = advantages.as_array().unwrap_or_else(|| panic!("{record}"));
        let at = |place: usize| each[place].as_f64().unwrap();
        assert!((0..given as usize).all(|place| at(place) == 0.0), "{advantages}");
        assert!(at(given as usize) != at(each.len() - 1), "each token has its own: {advantages}");
    }
    let ranks = dirs.path().join("ranks");
    assert_eq!(run(&recipe, &ranks, 2, patient(1), &|_, _, _, _| {}).errors, vec![None; 2]);
    assert_eq!(differences(&alone, &ranks), [""; 0]);
}

#[test]
fn what_episodes_cannot_have_is_refused_by_its_key() {
    let refusal = |change: fn(&mut Recipe)| {
        let mut recipe = episodes();
        change(&mut recipe);
        recipe.resolve().unwrap_err().to_string()
    };
    let command = refusal(|recipe| {
        let environment = json!({ "kind": "command", "command": [] });
        recipe.environment = Some(serde_json::from_value(environment).unwrap());
    });
    assert!(command.starts_with("environment.command is []: it must be"), "{command}");
    // An environment may give all rewards, tools give none.
    let mut unjudged = episodes();
    unjudged.reward.verifier = serde_json::from_value(json!("none")).unwrap();
    unjudged.resolve().unwrap();
    let tools = refusal(|recipe| {
        recipe.reward.verifier = serde_json::from_value(json!("none")).unwrap();
        let environment = json!({ "kind": "tools", "tools": ["calculator"] });
        recipe.environment = Some(serde_json::from_value(environment).unwrap());
    });
    assert!(tools.starts_with("reward.verifier is \"none\""), "{tools}");
}
