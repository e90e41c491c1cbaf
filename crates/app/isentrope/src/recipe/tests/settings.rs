//! Settings of an invented trainer, with every kind of key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub model: PathBuf,
    pub seed: u64,
    pub output: Option<PathBuf>,
    pub suffix: String,
    pub micro_batch_tokens: Size,
    pub k: Vec<u32>,
    pub objective: Objective,
    pub optimizer: Optimizer,
    pub evaluation: Vec<Evaluation>,
    pub weights: BTreeMap<String, f64>,
    pub limits: BTreeMap<String, Limit>,
    pub kl: Option<Kl>,
    pub judge: Judge,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Size {
    Chosen(Auto),
    Given(u32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Auto {
    Auto,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Judge {
    Chosen(Auto),
    Program(Program),
    Panel(Panel),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub program: PathBuf,
    #[serde(default = "eight")]
    pub copies: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    pub panel: Vec<Program>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Objective {
    pub aggregation: Aggregation,
    pub is_clipped: bool,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub clip_low: f32,
    #[schemars(extend("exclusiveMinimum" = 1.0))]
    pub dual_clip: Option<f64>,
    pub also: Option<Aggregation>,
    pub covariance: Covariance,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    #[default]
    TokenMean,
    SeqMeanTokenMean,
    SeqMeanTokenSum,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Covariance {
    #[default]
    None,
    ClipCov {
        fraction: f64,
        #[serde(default = "one")]
        low: f32,
        high: Option<f32>,
    },
    KlCov {
        #[serde(default = "one")]
        beta: f32,
    },
}

fn one() -> f32 {
    1.0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    pub learning_rate: f32,
    pub betas: [f32; 2],
    pub warm_up: u8,
    pub schedule: Schedule,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    pub steps: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    pub data: PathBuf,
    #[serde(default = "eight")]
    pub samples: i64,
    #[serde(default)]
    pub stop: Vec<String>,
    #[serde(default)]
    pub limit: Option<Limit>,
}

fn eight() -> i64 {
    8
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    pub rows: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Kl {
    pub coefficient: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: "models/tiny".into(),
            seed: 7,
            output: None,
            suffix: "\nLet's \"think\" about \\boxed{}.\t\u{7f}".into(),
            micro_batch_tokens: Size::Chosen(Auto::Auto),
            k: vec![1, 8],
            objective: Objective::default(),
            optimizer: Optimizer::default(),
            evaluation: Vec::new(),
            weights: BTreeMap::new(),
            limits: BTreeMap::new(),
            kl: None,
            judge: Judge::Chosen(Auto::Auto),
        }
    }
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            aggregation: Aggregation::TokenMean,
            is_clipped: true,
            clip_low: 0.2,
            dual_clip: None,
            also: None,
            covariance: Covariance::None,
        }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self { learning_rate: 1e-6, betas: [0.9, 0.999], warm_up: 0, schedule: Schedule::default() }
    }
}
