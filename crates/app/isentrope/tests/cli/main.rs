//! The program as its users meet it: files and flags in, files, messages and exit codes out.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod autopilot;
mod bad_model;
mod chat;
mod data_files;
mod doctor;
#[cfg(target_os = "linux")]
mod emulated;
mod eval;
mod examples;
mod generate;
mod grade;
mod init;
mod initial_states;
mod merge;
mod metrics;
#[cfg(target_os = "linux")]
mod output;
mod pages;
#[cfg(unix)]
mod processes;
mod program;
mod programs;
mod recipes;
mod refusals;
mod result_tables;
mod score;
#[cfg(unix)]
mod serve;
mod shipped_problems;
#[cfg(target_os = "linux")]
mod show;
#[cfg(target_os = "linux")]
mod signals;
mod sweep;
#[cfg(target_os = "linux")]
mod template_date;
#[cfg(target_os = "linux")]
mod terminal;
mod text_model;
#[cfg(unix)]
mod tinker;
mod trace;
mod train_bad_recipe;
mod train_data;
mod train_distill;
mod train_evaluations;
mod train_journal;
mod train_learns;
mod train_lora;
mod train_objectives;
#[cfg(unix)]
mod train_prime;
#[cfg(target_os = "linux")]
mod train_ranks;
mod train_ranks_here;
mod train_ranks_start;
mod train_reproducible;
#[cfg(unix)]
mod train_resume;
#[cfg(unix)]
mod train_reward;
#[cfg(unix)]
mod train_turns;
mod training;
