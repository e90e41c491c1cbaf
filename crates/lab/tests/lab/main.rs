//! What the laboratory makes of logs, through its public face.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod run_directory;
mod show;
mod text_plot;
