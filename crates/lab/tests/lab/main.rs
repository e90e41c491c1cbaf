//! What the laboratory makes of logs, through its public face.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod alarms;
mod csv_logs;
mod json_logs;
mod metric_names;
mod run_directory;
mod tensorboard_logs;
mod trainer_logs;
