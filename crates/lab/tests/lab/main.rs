//! What the laboratory makes of logs, through its public face.

mod browser;
mod planted;
mod report;
mod report_in_browser;
mod run_directory;
