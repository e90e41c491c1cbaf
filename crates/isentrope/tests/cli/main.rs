//! The program as its users meet it: files and flags in, files, messages and exit codes out.

mod bad_input;
mod bad_model;
mod bad_usage;
mod chat;
mod doctor;
mod generate;
mod independence;
#[cfg(unix)]
mod interrupt;
#[cfg(target_os = "linux")]
mod output;
mod program;
mod score;
mod text_model;
