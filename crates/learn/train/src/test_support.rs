//! Models, learners and groups of responses for tests.

use crate::group::Group;
use crate::learner::Learner;
use crate::optimizer::Optimizer;
use crate::ranks::TrainingRanks;
use crate::settings::{OptimizerSettings, POLICY_OPTIMIZER};
use isentrope_budget::PassLimits;
use isentrope_data::{Problem, Prompt, Row};
use isentrope_kernels::{Cpu, Isa, Role};
use isentrope_model::{Model, ModelConfig};
use isentrope_reward::{Judgement, Verdict};
use isentrope_rollout::Response;
use isentrope_run::tokens::GivenRanges;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn model_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compute/model/tests/fixtures/models/qwen3")
}

pub fn config() -> ModelConfig {
    ModelConfig::read(&model_dir()).unwrap()
}

pub fn cpu() -> Cpu {
    Cpu::new(Isa::available()[0], 1).unwrap()
}

pub fn learner(ranks: &TrainingRanks, limits: PassLimits) -> Learner {
    learner_of(Model::load(&model_dir(), Arc::new(cpu())).unwrap(), ranks, limits)
}

pub fn learner_of(model: Model, ranks: &TrainingRanks, limits: PassLimits) -> Learner {
    let optimizer =
        Optimizer::new(&model, POLICY_OPTIMIZER, OptimizerSettings::default(), ranks, Role::Moment)
            .unwrap();
    Learner::new(model, optimizer, limits, ranks.clone()).unwrap()
}

pub fn problem() -> Problem {
    Problem {
        prompt: Prompt::Text("?".into()),
        ground_truth: Value::Null,
        data_source: String::new(),
        extra_info: Value::Null,
        columns: Row::new(),
        hint: None,
        origin: "made up".into(),
    }
}

/// A response of three tokens with this reward, or one that could not be judged.
pub fn response(reward: Option<f64>) -> Response {
    let verdict = if reward.is_some() { Verdict::Correct } else { Verdict::TimedOut };
    Response {
        text: String::new(),
        tokens: vec![1, 2, 3],
        given: GivenRanges::default(),
        logprobs: vec![-1.0; 3],
        entropies: vec![1.0; 3],
        masks: None,
        truncated: false,
        given_text: Vec::new(),
        out_of_turns: false,
        judgement: Judgement::new(verdict, None, ""),
        reward: reward.unwrap_or_default(),
        activation_slots: None,
        vote: None,
    }
}

/// Responses with these rewards, and a greedy one, if there is one.
pub fn group(rewards: &[Option<f64>], greedy: Option<Option<f64>>) -> Group {
    Group {
        step: 1,
        position: 0,
        problem: problem(),
        prompt: vec![1],
        responses: rewards.iter().map(|&reward| response(reward)).collect(),
        greedy: greedy.map(response),
    }
}
