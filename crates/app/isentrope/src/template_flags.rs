//! Flags that say how prompts are put to a model, as a recipe's `data` does.

use crate::recipe;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use isentrope_data::{DataSettings, Template, TemplateVariable};
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

/// Flags of commands whose prompts need not be chats.
#[derive(Args)]
pub struct PromptFlags {
    /// Whether prompts go through the model's chat template, as data.template of a recipe
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = templates())]
    template: Template,
    /// System message of prompts that go through the template and have none, as data.system
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    #[command(flatten)]
    pub template_flags: TemplateFlags,
}

fn templates() -> impl TypedValueParser<Value = Template> {
    let values = [
        PossibleValue::new("auto").help("messages do, and so do texts if the model has a template"),
        PossibleValue::new("chat").help("all do; a text becomes a message of the user"),
        PossibleValue::new("none")
            .help("none does; of messages there must be one, whose text is the prompt"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "chat" => Template::Chat,
        "none" => Template::None,
        _ => Template::Auto,
    })
}

impl PromptFlags {
    /// The default data settings with the flags' values.
    pub fn settings(&self) -> DataSettings {
        let Self { template, system, template_flags } = self;
        DataSettings { template: *template, system: system.clone(), ..template_flags.settings() }
    }
}

impl TemplateFlags {
    /// The default data settings with the flags' values.
    pub fn settings(&self) -> DataSettings {
        let template_variables = self.variables.iter().cloned().collect();
        DataSettings { template_variables, date: self.date, ..DataSettings::default() }
    }
}
