//! The teacher's part of advantages against scores of each response alone.

use super::*;
use crate::advantage::{group_advantages, share_without_signal, trained_advantages};
use crate::observer::{Observer, ProgressObserver, StepReport};
use crate::ranks::TrainingRanks;
use crate::run::StepRecord;
use crate::test_support::{self, group, learner};
use isentrope_budget::PassLimits;
use isentrope_model::{Model, Packed};
use isentrope_objective::{Estimator, TeacherDivergence};
use std::path::Path;
use std::sync::Arc;

const TEMPERATURE: f32 = 0.8;

struct Silent;

impl ProgressObserver for Silent {
    fn note(&mut self, _: &str) {}
}

impl Observer for Silent {
    fn step(&mut self, _: &StepReport<'_>) {}
}

fn recipe(advantage: Estimator, coefficient: f64) -> Recipe {
    let mut recipe = Recipe::default();
    recipe.objective.advantage = advantage;
    recipe.objective.distillation =
        Distillation { teacher: Some("a test's".into()), coefficient, ..Distillation::default() };
    (recipe.rollout.temperature, recipe.rollout.prompts) = (TEMPERATURE, 3);
    (recipe.update.prompts, recipe.reward.mask_truncated) = (Some(2), true);
    recipe
}

/// Three prompts of several lengths; the responses' log-probs are made up. One response was cut
/// off, and one could not be judged.
fn groups() -> Vec<Group> {
    let rewards = [Some(1.0), Some(0.0), Some(0.5), None];
    let mut groups: Vec<Group> = (0..3).map(|_| group(&rewards, None)).collect();
    for (number, group) in groups.iter_mut().enumerate() {
        group.prompt = (3..6 + 2 * number as u32).collect();
        for (sample, response) in group.responses.iter_mut().enumerate() {
            let length = 2 + (5 * sample + number) % 7;
            response.tokens =
                (0..length as u32).map(|i| (11 * i + 7 * sample as u32) % 61).collect();
            response.logprobs = (0..length).map(|i| -0.25 - 0.125 * i as f32).collect();
            response.entropies = vec![1.0; length];
            response.truncated = sample == 2;
        }
    }
    groups
}

/// Renders prompts by a tokenizer of characters, without a chat template.
fn prompter() -> Prompter {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures");
    let dir = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(fixtures.join("tokenizer/character").join(name), dir.path().join(name))
            .unwrap();
    }
    let config = dir.path().join("config.json");
    std::fs::copy(test_support::model_dir().join("config.json"), config).unwrap();
    Prompter::read(dir.path(), 61, &isentrope_data::DataSettings::default()).unwrap()
}

/// The advantages with the teacher's part, and the reverse KL that is recorded. `other` is the
/// teacher, or the model that training started from if the policy is its own teacher.
fn taught(
    recipe: &Recipe,
    groups: &[Group],
    other: &Model,
    micro_batch_tokens: usize,
) -> (Vec<Vec<Option<Advantages>>>, f64) {
    let (advantages, reverse_kl) = outcome(recipe, groups, other, micro_batch_tokens);
    (advantages, reverse_kl.unwrap())
}

/// As [`taught`], or the error.
fn outcome(
    recipe: &Recipe,
    groups: &[Group],
    other: &Model,
    micro_batch_tokens: usize,
) -> (Vec<Vec<Option<Advantages>>>, Result<f64>) {
    let mut advantages = group_advantages(&recipe.objective, groups);
    let reverse_kl = in_context(recipe, other, micro_batch_tokens, |context| {
        add_teaching(recipe, groups, &mut advantages, context)?;
        Ok(context.record.metrics.get("kl/teacher").unwrap())
    });
    (advantages, reverse_kl)
}

/// Acts in a step whose policy is the fixture qwen3. `other` is as in [`taught`].
fn in_context<T>(
    recipe: &Recipe,
    other: &Model,
    micro_batch_tokens: usize,
    act: impl FnOnce(&mut LearnContext<'_>) -> T,
) -> T {
    let limits = PassLimits {
        micro_batch_tokens,
        tape_bytes: 0,
        activation_slots: 0,
        by_layer: false,
        offloads_inputs: false,
        weights_in_slices: false,
    };
    let mut learner = learner(&TrainingRanks::alone(1), limits);
    let mut record = StepRecord::default();
    act(&mut LearnContext {
        step: 1,
        learner: &mut learner,
        process_model: None,
        reference: Some(other),
        teacher: Some(other).filter(|_| recipe.objective.distillation.teacher.is_some()),
        prompter: &prompter(),
        is_tight: true,
        learning_rate: 0.0,
        record: &mut record,
        observer: &mut Silent,
    })
}

fn model(name: &str) -> Model {
    let models = "../../compute/model/tests/fixtures/models";
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(models).join(name);
    Model::load(&dir, Arc::new(test_support::cpu())).unwrap()
}

/// The log-probs of a response's tokens, scored alone.
fn scores(model: &Model, group: &Group, response: &Response) -> Vec<f32> {
    scores_behind(model, &group.prompt, response)
}

fn scores_behind(model: &Model, prompt: &[u32], response: &Response) -> Vec<f32> {
    let tokens = [prompt, &response.tokens].concat();
    let sequence = Sequence { tokens: &tokens, score_from: prompt.len() };
    model.score(&Packed::new(&[sequence]), TEMPERATURE).logprobs
}

#[test]
fn each_token_has_the_teachers_log_prob_less_the_students_beside_the_outcome() {
    let (groups, teacher) = (groups(), model("llama3")); // of another family than the policy
    for (estimator, coefficient) in
        [(Estimator::Distill, 1.0), (Estimator::Distill, 0.25), (Estimator::Rloo, 0.5)]
    {
        let recipe = recipe(estimator, coefficient);
        let (advantages, reverse_kl) = taught(&recipe, &groups, &teacher, 4096);
        let outcomes = group_advantages(&recipe.objective, &groups);
        let (mut sum, mut count) = (0.0, 0);
        for (number, group) in groups.iter().enumerate() {
            for (sample, response) in group.responses.iter().enumerate() {
                let (ours, outcome) = (&advantages[number][sample], &outcomes[number][sample]);
                // The first is cut off; the second is judged by no verifier, only by the teacher.
                if sample == 2 || (sample == 3 && estimator.reads_rewards()) {
                    assert_eq!(ours, outcome, "{number}, {sample}: it is not trained on");
                    continue;
                }
                let (ours, outcome) = (ours.as_ref().unwrap(), outcome.as_ref().unwrap());
                let theirs = scores(&teacher, group, response);
                assert_eq!(theirs.len(), response.tokens.len());
                for (token, (theirs, own)) in theirs.iter().zip(&response.logprobs).enumerate() {
                    let difference = f64::from(*theirs) - f64::from(*own);
                    let expected = outcome.at(token) + coefficient * difference;
                    assert_eq!(ours.at(token).to_bits(), expected.to_bits());
                    sum -= difference;
                    count += 1;
                }
            }
        }
        assert!((reverse_kl - sum / f64::from(count)).abs() < 1e-12);
        // How scoring is cut into passes does not show.
        for micro_batch_tokens in [11, 40] {
            let cut = taught(&recipe, &groups, &teacher, micro_batch_tokens);
            assert_eq!(cut, (advantages.clone(), reverse_kl), "{micro_batch_tokens}");
        }
    }
}

#[test]
fn a_teacher_equal_to_the_student_has_nothing_to_say() {
    let (mut groups, teacher) = (groups(), model("qwen3"));
    for group in &mut groups {
        for sample in 0..group.responses.len() {
            let logprobs = scores(&teacher, group, &group.responses[sample]);
            group.responses[sample].logprobs = logprobs;
        }
    }
    let (advantages, reverse_kl) = taught(&recipe(Estimator::Distill, 1.0), &groups, &teacher, 40);
    assert!(advantages.iter().flatten().flatten().all(Advantages::are_zero), "{advantages:?}");
    assert_eq!(reverse_kl, 0.0);
    let learnt = trained_advantages(&groups, &advantages, true);
    assert_eq!(share_without_signal(&learnt, false), Some(1.0));
    // Beside rewards, these are what is left.
    let (advantages, _) = taught(&recipe(Estimator::Rloo, 1.0), &groups, &teacher, 40);
    let outcomes = group_advantages(&recipe(Estimator::Rloo, 1.0).objective, &groups);
    for (ours, outcome) in advantages.iter().flatten().zip(outcomes.iter().flatten()) {
        assert_eq!(ours.as_ref().map(|a| a.at(1)), outcome.as_ref().map(|a| a.at(1)));
    }
    // Equal rewards: groups that rewards leave idle are learnt from.
    let even = [group(&[Some(1.0), Some(1.0)], None)];
    let (advantages, _) = taught(&recipe(Estimator::Grpo, 1.0), &even, &teacher, 40);
    let learnt = trained_advantages(&even, &advantages, true);
    assert_eq!(share_without_signal(&learnt, false), Some(0.0));
}

/// The policy is the fixture qwen3; "base" is another model here, to tell the two apart.
#[test]
fn a_policy_is_its_own_teacher_behind_a_prompt_that_shows_more() {
    let (mut groups, base) = (groups(), model("llama3"));
    // Ids in the tokenizer of characters: digits from 3, letters from 28.
    let behind: [&[u32]; 3] =
        [&[28, 4, 26, 29, 5, 23], &[28, 7, 26, 28, 23], &[28, 26, 30, 30, 23]];
    let of_problems = [("1", "b2"), ("4", "a"), ("", "cc")];
    for (group, (question, hint)) in groups.iter_mut().zip(of_problems) {
        group.problem.prompt = isentrope_data::Prompt::Text(question.into());
        group.problem.hint = Some(hint.into());
    }
    let mut recipe = recipe(Estimator::Rloo, 0.5);
    let settings = &mut recipe.objective.distillation;
    (settings.teacher, settings.teacher_prompt) = (None, Some("a{prompt} {hint}!".into()));
    for kind in [SelfTeacher::Base, SelfTeacher::Live] {
        recipe.objective.distillation.self_teacher = Some(kind);
        let scorer = if kind == SelfTeacher::Base { &base } else { &model("qwen3") };
        let (advantages, reverse_kl) = taught(&recipe, &groups, &base, 4096);
        let outcomes = group_advantages(&recipe.objective, &groups);
        for (number, (group, prompt)) in groups.iter().zip(behind).enumerate() {
            for sample in [0, 1] {
                let response = &group.responses[sample];
                let theirs = scores_behind(scorer, prompt, response);
                let [ours, outcome] =
                    [&advantages, &outcomes].map(|all| all[number][sample].as_ref().unwrap());
                for (token, (theirs, own)) in theirs.iter().zip(&response.logprobs).enumerate() {
                    let difference = f64::from(*theirs) - f64::from(*own);
                    let expected = outcome.at(token) + 0.5 * difference;
                    assert_eq!(ours.at(token).to_bits(), expected.to_bits(), "{kind:?} {number}");
                }
            }
        }
        for micro_batch_tokens in [11, 40] {
            let cut = taught(&recipe, &groups, &base, micro_batch_tokens);
            assert_eq!(cut, (advantages.clone(), reverse_kl), "{micro_batch_tokens}");
        }
    }
    // A problem that a recipe's check could not see, since tasks have no end.
    groups[1].problem.hint = None;
    let (_, failed) = outcome(&recipe, &groups, &base, 40);
    let said = failed.unwrap_err().to_string();
    assert!(said.starts_with("made up: the row has no hint"), "{said}");
}

/// The exact divergence's teacher reads the responses that are trained on, and no others.
#[test]
fn a_response_that_is_not_trained_on_may_exceed_the_teachers_context() {
    let (mut groups, teacher) = (groups(), model("llama3"));
    let mut recipe = recipe(Estimator::Rloo, 1.0);
    let settings = &mut recipe.objective.distillation;
    settings.divergence = TeacherDivergence::ReverseKl;
    settings.teacher_prompt = Some("{prompt} {hint}".into());
    groups.iter_mut().for_each(|group| group.problem.hint = Some("b".into()));
    // One response was cut off; of the last group none could be judged, and it has no hint.
    groups[0].responses[2].tokens = vec![3; teacher.config.context()];
    for response in &mut groups[2].responses {
        response.judgement = test_support::response(None).judgement;
    }
    groups[2].problem.hint = None;
    let prompts = |mask_truncated| {
        let advantages = group_advantages(&recipe.objective, &groups);
        let learnt = trained_advantages(&groups, &advantages, mask_truncated);
        in_context(&recipe, &teacher, 40, |context| {
            taught_prompts(&recipe, &groups, &learnt, context)
        })
    };
    let lengths: Vec<usize> = prompts(true).unwrap().unwrap().iter().map(Vec::len).collect();
    assert!(lengths[0] > 0 && lengths[1] > 0 && lengths[2] == 0, "{lengths:?}");
    let said = prompts(false).unwrap_err().to_string();
    assert!(said.contains("the teacher's context is 512: lower rollout.max_tokens"), "{said}");
}
