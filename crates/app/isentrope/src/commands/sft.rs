//! `isentrope sft`: supervised fine-tuning.

use super::train::RunArguments;
use clap::Args;

/// Fine-tune a model on examples
///
/// Cross-entropy on the responses of prompt/response pairs, or on the assistant's turns of chats,
/// with the optimizer, checkpoints and metrics of `train`. Examples come from parquet or JSONL
/// files, or from a built-in task.
///
/// Ctrl-C ends the run after the current step and saves it; --resume goes on from the last
/// checkpoint, also after a crash.
#[derive(Args)]
pub struct Sft {
    #[command(flatten)]
    pub arguments: RunArguments,
}
