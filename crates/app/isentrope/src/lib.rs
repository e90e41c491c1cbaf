//! The isentrope command line: commands, progress and exit codes, nothing else. It is a library so
//! that tests can check recipes and run the program with emulated GPUs.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (by Ctrl-C or another signal that
//! asks a program to end).

mod adapters;
mod commands;
mod device;
mod disk;
pub mod gpus;
mod interrupt;
mod lines;
mod loaded_model;
mod memory;
mod messages;
mod output;
mod progress;
mod ranks;
pub mod recipe;
mod results_table;
mod run_directory;
mod sampling_flags;
mod server_flags;
mod standard_output;
mod template_flags;
mod terminal;
mod trace;
mod visible;

use clap::{Parser, Subcommand};
use gpus::Gpus;
use isentrope_train::{rl, sft};
use standard_output::ReaderGone;
use std::borrow::Cow;
use std::ffi::OsString;
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
    Init(commands::init::Init),
    Train(commands::train::Train),
    Sft(commands::sft::Sft),
    Sweep(commands::sweep::Sweep),
    Eval(Box<commands::eval::Eval>),
    Generate(commands::generate::Generate),
    Chat(commands::chat::Chat),
    Serve(commands::serve::Serve),
    Tinker(commands::tinker::Tinker),
    Merge(commands::merge::Merge),
    Show(commands::show::Show),
    Score(commands::score::Score),
    Grade(commands::grade::Grade),
    Lab(commands::lab::Lab),
    Inspect(commands::inspect::Inspect),
    Report(commands::report::Report),
    Law(commands::law::Law),
    Objectives(commands::objectives::Objectives),
    Doctor(commands::doctor::Doctor),
    Examples(commands::examples::Examples),
}

/// The program. If it computes on a GPU, it takes one of these.
pub fn main(gpus: Box<dyn Gpus>) -> ExitCode {
    // This program also supervises the user's commands.
    #[cfg(unix)]
    if let Some(code) = isentrope_reward::command::supervision() {
        return code;
    }
    device::set_gpus(gpus);
    interrupt::listen();
    isentrope_reward::command::show_printed(messages::labelled);
    let result = match Arguments::try_parse() {
        Ok(arguments) => run(arguments.command),
        Err(wrong) if wrong.use_stderr() => return refuse(&wrong),
        Err(help) => standard_output::print_help(&help),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<ReaderGone>() => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(silent) = error.downcast_ref::<ranks::Silent>() {
                return silent.exit_code();
            }
            messages::error(&sentence(&error));
            match () {
                () if error.is::<interrupt::Interrupted>() => {
                    ExitCode::from(interrupt::EXIT_STATUS)
                }
                () if ranks::is_setup_error(&error) => ExitCode::from(ranks::EXIT_SETUP),
                () => ExitCode::FAILURE,
            }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Init(command) => command.run(),
        Command::Train(command) => command.arguments.train::<rl::Recipe>("train"),
        Command::Sft(command) => command.arguments.train::<sft::Recipe>("sft"),
        Command::Sweep(command) => command.run(),
        Command::Eval(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Tinker(command) => command.run(),
        Command::Merge(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Score(command) => command.run(),
        Command::Grade(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Law(command) => command.run(),
        Command::Objectives(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Examples(command) => command.run(),
    }
}

/// Prints the fault in the arguments. The message may quote them: control characters are escaped.
fn refuse(wrong: &clap::Error) -> ExitCode {
    let is_plain = |argument: OsString| {
        matches!(visible::visible(&argument.to_string_lossy()), Cow::Borrowed(_))
    };
    if std::env::args_os().all(is_plain) {
        let _ = wrong.print(); // in colours
    } else {
        messages::say(wrong.render().to_string().trim_end());
    }
    ExitCode::from(2)
}

/// The error and its causes. A cause that ends the message before it is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |said, cause| {
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    })
}
