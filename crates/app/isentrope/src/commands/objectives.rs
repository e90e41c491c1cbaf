//! `isentrope objectives`: what a recipe's `[objective]` can be made of.

use crate::messages::{PLAIN_WIDTH, fitted};
use crate::standard_output::{print, width};
use anyhow::Result;
use clap::Args;
use isentrope_objective::{About, catalogue};
use std::fmt::Write;

/// List the losses, advantages and entropy methods: formula, source, setting, cost
///
/// rho = pi / pi_old is a token's probability ratio, clip(rho) the ratio within 1 - clip_low and
/// 1 + clip_high, A its advantage, r its response's reward, H the entropy of the policy in its
/// place, and sg holds constant.
/// docs/reference/objectives.md has the same table; docs/reference/recipe.md has every setting.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope objectives
  isentrope objectives --markdown > objectives.md")]
pub struct Objectives {
    /// Prints a table in Markdown
    #[arg(long)]
    markdown: bool,
}

impl Objectives {
    pub fn run(&self) -> Result<()> {
        let all = catalogue();
        match self.markdown {
            true => print(&table(&all)),
            false => print(&fitted(&list(&all), width().or(Some(PLAIN_WIDTH)))),
        }
    }
}

/// A row for each.
fn table(all: &[About]) -> String {
    let mut text =
        "| method | changes | equation | source | setting | cost |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for About { name, kind, equation, source, setting, cost } in all {
        let equation = equation.replace('|', "\\|");
        let _ =
            writeln!(text, "| {name} | {kind} | {equation} | {source} | `{setting}` | {cost} |");
    }
    text
}

/// A few lines for each.
fn list(all: &[About]) -> String {
    let mut text = String::new();
    for About { name, kind, equation, source, setting, cost } in all {
        let _ = write!(
            text,
            "{name}\n  changes   {kind}\n  equation  {equation}\n  source    {source}\n  setting   \
             {setting}\n  cost      {cost}\n\n"
        );
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}
