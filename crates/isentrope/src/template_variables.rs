//! Variables of the chat template, from the command line.

use crate::recipe;
use anyhow::{Context, Result};
use clap::Args;
use isentrope_data::{DataSettings, TemplateVariable};

/// What every command that renders chats takes.
#[derive(Args, Default)]
pub struct TemplateVariables {
    /// Sets a variable of the chat template, as a recipe's data.template_variables does: enable_thinking=false (repeatable)
    #[arg(long = "template-variable", value_name = "NAME=VALUE", value_parser = parse)]
    given: Vec<(String, TemplateVariable)>,
}

fn parse(text: &str) -> Result<(String, TemplateVariable)> {
    let (name, value) = text.split_once('=').context("it has no '='; write NAME=VALUE")?;
    let variable = recipe::setting(name, value)?;
    Ok((name.to_owned(), variable))
}

impl TemplateVariables {
    /// Data settings that have the variables, and are otherwise as they are without a recipe.
    pub fn settings(&self) -> DataSettings {
        DataSettings { template_variables: self.given.iter().cloned().collect(), ..DataSettings::default() }
    }
}
