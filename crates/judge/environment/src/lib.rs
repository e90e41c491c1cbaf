//! Environments, which answer the model between the turns of a response. Knows no tokens.
//!
//! `episode` has what an environment is asked and answers, `settings` the recipe's table
//! `[environment]`. `tools` is the environment of tools, `processes` the environments of the user's
//! own.

mod episode;
mod processes;
mod settings;
mod tools;

pub use episode::{Environment, Episode, Fault, Reply};
pub use settings::{
    CommandSettings, EnvironmentSettings, EpisodeLimits, ProcessSettings, PythonSettings, ToolName,
    ToolsSettings,
};
pub use tools::{Call, before_calls, calls};
