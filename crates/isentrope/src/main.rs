//! The isentrope command line: commands, progress and exit codes, nothing else.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

mod commands;
mod device;
mod interrupt;
mod lines;
mod loaded_model;
mod memory;
mod output;
mod progress;
mod results_table;
mod terminal;

use clap::{Parser, Subcommand};
use isentrope::recipe;
use isentrope_train::{rl, sft};
use std::process::ExitCode;

/// Reinforcement learning of reasoning language models with controlled entropy and exact numerics.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Train(commands::train::Train),
    Sft(commands::sft::Sft),
    Eval(commands::eval::Eval),
    Generate(commands::generate::Generate),
    Score(commands::score::Score),
    Grade(commands::grade::Grade),
    Doctor(commands::doctor::Doctor),
}

fn main() -> ExitCode {
    interrupt::listen();
    let result = match Arguments::parse().command {
        Command::Train(command) => command.arguments.train::<rl::Recipe>("train"),
        Command::Sft(command) => command.arguments.train::<sft::Recipe>("sft"),
        Command::Eval(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Score(command) => command.run(),
        Command::Grade(command) => command.run(),
        Command::Doctor(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", sentence(&error));
            if error.is::<interrupt::Interrupted>() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// The error and what caused it; a cause that the message before it ends with already is not said twice.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |said, cause| {
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    })
}

/// A reader that has seen enough, such as `head`, is no failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
