//! What the laboratory makes of logs, through its public face.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod alarms;
mod csv_logs;
mod json_logs;
mod metric_names;
mod inspect;
mod browser;
mod csv_logs;
mod json_logs;
mod law;
mod metric_names;
mod planted;
mod report;
mod report_in_browser;
mod law;
mod run_directory;
mod show;
mod text_plot;
mod tensorboard_logs;
mod trainer_logs;
mod theory;
mod seeds;
mod run_directory;
mod seeds;
mod tensorboard_logs;
mod trainer_logs;
