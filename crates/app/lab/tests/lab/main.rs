//! The laboratory on logs, through its public face.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod alarms;
mod browser;
mod csv_logs;
mod inspect;
mod inspect_in_browser;
mod json_logs;
mod law;
mod methods;
mod metric_names;
mod parts;
mod planted;
mod report;
mod report_in_browser;
mod run_directory;
mod seeds;
mod show;
mod tensorboard_logs;
mod text_plot;
mod theory;
mod trainer_logs;

/// Asserts that a text has these parts.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in:\n{text}"));
}
