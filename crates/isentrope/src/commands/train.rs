//! `isentrope train`: reinforcement learning.

use super::training::TrainingArguments;
use anyhow::Result;
use clap::Args;
use isentrope_train::rl;

/// Train a model by reinforcement learning
///
/// A recipe names the model, the problems, the verifier, the objective and everything else; recipes/ has some to start from.
/// The run directory gets the resolved recipe, metrics.jsonl (the same bytes whenever the same recipe runs), TensorBoard
/// events, every sampled response with its verdict, and checkpoints that transformers and vLLM load.
///
/// Ctrl-C ends the run after the current step and saves it; --resume goes on from the last checkpoint, also after a crash.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    training: TrainingArguments,
}

impl Train {
    pub fn run(self) -> Result<()> {
        self.training.run::<rl::Prepared>("train")
    }
}
