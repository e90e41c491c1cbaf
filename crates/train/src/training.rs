//! What every kind of training is to the command that runs it.

use crate::error::Result;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::run::Summary;
use crate::run_directory::Place;
use crate::settings::{ModelSource, Run};
use isentrope_data::FileHash;
use isentrope_kernels::Backend;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A run that is ready for its first step.
pub trait Training: Sized {
    /// What the user writes.
    type Recipe: DeserializeOwned + Serialize + JsonSchema;

    /// Checks every key and what keys say together, then writes out what unset ones come to.
    ///
    /// # Errors
    /// Names the first key that is wrong.
    fn resolve(recipe: &mut Self::Recipe) -> Result<()>;

    /// The tables that a command has a say in.
    fn tables(recipe: &mut Self::Recipe) -> (&mut Run, &ModelSource);

    /// Reads everything but the weights, and checks it all together for a run on this device. `available` is the memory in
    /// bytes that it may take unless the recipe says.
    ///
    /// # Errors
    /// What is wrong with the model's files or the data, or that the run would not fit the memory.
    fn prepare<B: Backend>(
        recipe: Self::Recipe,
        model_dir: &Path,
        backend: &B,
        available: usize,
    ) -> Result<Self>;

    /// Where the memory will go.
    fn plan(&self) -> &Plan;

    /// What the user should know before it starts: the data's defects, settings that will have no effect.
    fn notes(&self) -> &[String];

    /// The files that it learns from.
    fn data_files(&self) -> &[FileHash];

    /// The first texts it will learn from, as the model will see them.
    ///
    /// # Errors
    /// As rendering's.
    fn preview(&mut self, count: usize) -> Result<Vec<String>>;

    /// Runs to the last step, or until the observer asks to stop.
    ///
    /// # Errors
    /// A sentence that says what happened and what to do; checkpoints made until then stay.
    fn train<B: Backend>(
        self,
        place: &Place,
        backend: Arc<B>,
        manifest: Value,
        observer: &mut dyn Observer,
    ) -> Result<Summary>;
}
