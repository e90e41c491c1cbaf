//! Settings with every kind of key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of an invented trainer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Directory of the model.
    pub model: PathBuf,
    /// Seed of
    /// everything random.
    ///
    /// Another seed is another run.
    pub seed: u64,
    /// The run's directory.
    pub output: Option<PathBuf>,
    /// Text after each prompt.
    pub suffix: String,
    /// Most tokens at a time.
    pub micro_batch_tokens: Size,
    /// Numbers of samples to report.
    pub k: Vec<u32>,
    /// The loss that is minimised.
    pub objective: Objective,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Sets to measure on.
    pub evaluation: Vec<Evaluation>,
    /// Weight of each data source, by | name.
    pub weights: BTreeMap<String, f64>,
    /// Limits of each data source.
    pub limits: BTreeMap<String, Limit>,
    /// A term that keeps close to a reference.
    pub kl: Option<Kl>,
    /// Who judges.
    pub judge: Judge,
}

/// A count, or a choice of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Size {
    Chosen(Auto),
    Given(u32),
}

/// Left to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Auto {
    /// As memory allows.
    Auto,
}

/// One judge or a panel of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Judge {
    One(OneJudge),
    Panel(Panel),
}

/// One who judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneJudge {
    Chosen(Auto),
    Program(Program),
}

/// A program that judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its file.
    pub program: PathBuf,
    /// How often it runs.
    #[serde(default = "eight")]
    pub copies: i64,
}

/// Several who judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// Its members.
    pub panel: Vec<Member>,
    /// Who decides between equals.
    pub chair: Option<OneJudge>,
}

/// A member of a panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Who it is.
    pub judge: OneJudge,
    /// Weight of the vote.
    pub weight: f64,
}

/// The loss that is minimised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Objective {
    /// How tokens are summed.
    pub aggregation: Aggregation,
    /// Whether ratios are clipped.
    pub is_clipped: bool,
    /// Lower clip range.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub clip_low: f32,
    /// Clip range of negative advantages.
    #[schemars(extend("exclusiveMinimum" = 1.0))]
    pub dual_clip: Option<f64>,
    /// Another way to sum, for comparison.
    pub also: Option<Aggregation>,
    /// The covariance term.
    pub covariance: Covariance,
}

/// How tokens are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Mean over all tokens.
    #[default]
    TokenMean,
    /// Mean over responses of their means.
    SeqMeanTokenMean,
    SeqMeanTokenSum,
}

/// A term on tokens of high covariance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Covariance {
    /// No term.
    #[default]
    None,
    /// Tokens drawn at random get no gradient.
    ClipCov {
        /// Share of the tokens.
        fraction: f64,
        /// Least covariance.
        #[serde(default = "one")]
        low: f32,
        /// Greatest covariance.
        high: Option<f32>,
    },
    /// The tokens of largest covariance are held back.
    KlCov(KlCov),
}

fn one() -> f32 {
    1.0
}

/// Settings of KL-Cov.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KlCov {
    /// Coefficient.
    pub beta: f64,
}

/// AdamW.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// Step size.
    pub learning_rate: f32,
    /// Decay rates of the moments.
    pub betas: [f32; 2],
    /// Steps of warm-up.
    pub warm_up: u8,
    /// How the step size changes.
    pub schedule: Schedule,
}

/// How the step size changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// Steps it takes.
    pub steps: u32,
}

/// A set to measure on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// File of problems.
    pub data: PathBuf,
    /// Samples of each.
    #[serde(default = "eight")]
    pub samples: i64,
    /// Ends at these.
    #[serde(default)]
    pub stop: Vec<String>,
    /// A further limit to keep.
    #[serde(default)]
    pub limit: Option<Limit>,
}

fn eight() -> i64 {
    8
}

/// A limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Most rows.
    pub rows: u32,
}

/// A term that keeps close to a reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Kl {
    /// Its weight.
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
            judge: Judge::One(OneJudge::Chosen(Auto::Auto)),
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

impl Default for KlCov {
    fn default() -> Self {
        Self { beta: 1.0 }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self { learning_rate: 1e-6, betas: [0.9, 0.999], warm_up: 0, schedule: Schedule::default() }
    }
}
