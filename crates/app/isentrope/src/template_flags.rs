//! Flags with values for the chat template.

use crate::recipe;
use anyhow::{Context, Result};
use clap::Args;
use isentrope_data::{DataSettings, TemplateVariable};
use isentrope_model::chat_template::Date;

/// Flags of every command that renders chats.
#[derive(Args, Default)]
pub struct TemplateFlags {
    /// Sets a variable of the chat template, as a recipe's data.template_variables does:
    /// enable_thinking=false (repeatable)
    #[arg(long = "template-variable", value_name = "NAME=VALUE", value_parser = parse)]
    variables: Vec<(String, TemplateVariable)>,
    /// Date for chat templates that ask for one, as data.date of a recipe [default: today; eval
    /// keeps the date of the results that it continues]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub date: Option<Date>,
}

fn parse(text: &str) -> Result<(String, TemplateVariable)> {
    let (name, value) = text.split_once('=').context("it has no '='; write NAME=VALUE")?;
    let variable = recipe::setting(name, value)?;
    Ok((name.to_owned(), variable))
}

impl TemplateFlags {
    /// The default data settings with the flags' values.
    pub fn settings(&self) -> DataSettings {
        let template_variables = self.variables.iter().cloned().collect();
        DataSettings { template_variables, date: self.date, ..DataSettings::default() }
    }
}
