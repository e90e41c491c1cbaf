//! What the laboratory makes of logs, through its public face.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod browser;
mod planted;
mod report;
mod report_in_browser;
mod run_directory;
