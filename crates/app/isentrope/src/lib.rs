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

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
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
    let result = match parse() {
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

/// Reads the command line. A flag takes a negative number as its value, so that the flag's own
/// range refuses it; clap would take `-3` for another flag.
fn parse() -> Result<Arguments, clap::Error> {
    fn with_negative_numbers(command: clap::Command) -> clap::Command {
        let takes = |arg: clap::Arg| match arg.get_action() {
            ArgAction::Set | ArgAction::Append if !arg.is_positional() => {
                arg.allow_negative_numbers(true)
            }
            _ => arg,
        };
        command.mut_args(takes).mut_subcommands(with_negative_numbers)
    }
    let mut command = with_negative_numbers(Arguments::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
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

/// The standard library's words for a text that is no unsigned integer.
const NO_INTEGER: &str = "invalid digit found in string";

/// Prints the fault in the arguments. The message may quote them: control characters are escaped.
fn refuse(wrong: &clap::Error) -> ExitCode {
    let is_plain = |argument: OsString| {
        matches!(visible::visible(&argument.to_string_lossy()), Cow::Borrowed(_))
    };
    let text = wrong.render().to_string();
    if text.contains(NO_INTEGER) {
        messages::say(text.replace(NO_INTEGER, "expected a whole number, not negative").trim_end());
    } else if std::env::args_os().all(is_plain) {
        let _ = wrong.print(); // in colours
    } else {
        messages::say(text.trim_end());
    }
    ExitCode::from(2)
}

/// The error and its causes. A cause that ends the message before it is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |said, cause| {
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    })
}
