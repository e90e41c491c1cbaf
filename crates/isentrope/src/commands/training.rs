//! What `train` and `sft` share: a recipe in, a run directory out.

use crate::device::{self, Device};
use crate::engine::file_hashes;
use crate::interrupt::{self, Interrupted};
use crate::memory::Memory;
use crate::output::print;
use crate::progress::Download;
use crate::recipe;
use crate::terminal::{self, Terminal};
use anyhow::{Context, Error, Result, anyhow};
use clap::Args;
use isentrope_data::FileHash;
use isentrope_model::hub;
use isentrope_train::observer::Observer;
use isentrope_train::run::Ending;
use isentrope_train::run_directory::{Existing, Place};
use isentrope_train::training::Training;
use serde_json::{Map, Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Prompts or examples that a dry run shows.
const SHOWN: usize = 3;

/// What every command that trains takes.
#[derive(Args)]
pub struct TrainingArguments {
    /// The recipe, a TOML file; docs/recipe.md has every key
    #[arg(value_name = "RECIPE", required_unless_present = "keys")]
    recipe: Option<PathBuf>,
    /// Sets a key of the recipe, as in --set optimizer.learning_rate=1e-5 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Goes on from the run's latest checkpoint, to the same bits as if it had never stopped
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Removes the run that is in the directory, and starts anew
    #[arg(long)]
    overwrite: bool,
    /// Shows the recipe with every default, the memory plan and the first prompts, and trains nothing
    #[arg(long)]
    dry_run: bool,
    /// Prints what every key of a recipe means, as Markdown, and does nothing else
    #[arg(long, exclusive = true)]
    keys: bool,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl TrainingArguments {
    pub fn run<T: Training>(self, command: &str) -> Result<()> {
        let path = match &self.recipe {
            Some(path) if !self.keys => path,
            _ => return print(&recipe::reference::<T::Recipe>()),
        };
        let mut recipe: T::Recipe = recipe::load(path, &self.set)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let (run, _) = T::tables(&mut recipe);
        let directory = run.out.get_or_insert_with(|| Path::new("runs").join(&*name)).clone();
        T::resolve(&mut recipe).with_context(|| path.display().to_string())?;
        let (_, model) = T::tables(&mut recipe);
        refuse_misplaced(Path::new(&model.path), path)?;
        if self.dry_run {
            return self.dry_run::<T>(recipe);
        }
        let place = Place {
            dir: directory,
            existing: match (self.resume, self.overwrite) {
                (true, _) => Existing::Resume,
                (_, true) => Existing::Overwrite,
                _ => Existing::Refuse,
            },
            source: path.clone(),
            recipe: (recipe::render(&recipe), serde_json::to_value(&recipe)?),
        };
        place.check()?;
        let device = device::open(self.threads)?;
        let (run, model) = T::tables(&mut recipe);
        let seed = run.seed;
        let model_path = model.path.clone();
        let dir = hub::resolve(&model_path, &Download::default())?;
        let mut terminal = Terminal::new();
        terminal.heading(&format!("{} on {}", model_path, place.dir.display()));
        let prepared = T::prepare(recipe, &dir, &device, Memory::now().available as usize)?;
        for note in prepared.notes() {
            terminal.note(note);
        }
        terminal.heading(&prepared.plan().to_string());
        let manifest = manifest(&device, seed, &model_path, &dir, prepared.data_files())?;
        interrupt::wind_up_first("finishing the current step");
        let summary = prepared
            .train(&place, Arc::new(device), manifest, &mut terminal)
            .map_err(|error| or_free_space(error.into()))?;
        terminal.finish();
        terminal::print_summary(&summary, command)?;
        match summary.ending {
            Ending::Complete => Ok(()),
            Ending::Interrupted => {
                let kept = match summary.checkpoint {
                    Some(saved) => {
                        format!("step {} is saved in {}; --resume goes on", summary.step, saved.display())
                    }
                    None => "nothing has been trained yet; --resume starts again".into(),
                };
                Err(Interrupted { kept }.into())
            }
        }
    }

    /// Everything that can be known before step 1. What the run would need and is not here is said, since a recipe can
    /// be looked at before its model and its data have been fetched.
    fn dry_run<T: Training>(&self, mut recipe: T::Recipe) -> Result<()> {
        print(&recipe::render(&recipe))?;
        let (_, model) = T::tables(&mut recipe);
        let path = model.path.clone();
        let Some(dir) = hub::cached(&path)? else {
            let (what, then) = match hub::neighbours(&path).filter(|_| path.contains('/')) {
                Some(there) => (
                    format!("looks like a path, and there is no such directory ({there})"),
                    "ask the hub for a model of this name",
                ),
                None => ("is not here yet".to_owned(), "download it"),
            };
            return print(&format!(
                "\n# The recipe is well-formed. The model {path} {what}, so its memory plan and prompts cannot be shown; \
                 training would {then}.\n"
            ));
        };
        let device = device::open(self.threads)?;
        let mut prepared = T::prepare(recipe, &dir, &device, Memory::now().available as usize)?;
        print(&format!("\n# {}\n", prepared.plan()))?;
        for note in prepared.notes() {
            print(&format!("# note: {}\n", note.replace('\n', "\n# ")))?;
        }
        for (i, text) in prepared.preview(SHOWN)?.iter().enumerate() {
            print(&format!("\n# ── {} of the data ──\n{text}\n", i + 1))?;
        }
        Ok(())
    }
}

/// Adds what to do about a disk without space.
fn or_free_space(error: Error) -> Error {
    let is_full = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().is_some_and(|e: &io::Error| e.kind() == io::ErrorKind::StorageFull)
    };
    match error.chain().any(is_full) {
        true => {
            let said = crate::sentence(&error);
            anyhow!("{said}; free some space, then --resume goes on from the last checkpoint")
        }
        false => error,
    }
}

/// A model directory that is not where the command looks, but beside the recipe, would else be taken for a hub id.
fn refuse_misplaced(model: &Path, recipe: &Path) -> Result<()> {
    let beside = recipe.ancestors().skip(1).take(2).map(|dir| dir.join(model)).find(|dir| dir.is_dir());
    match beside {
        Some(found) if !model.is_dir() => Err(anyhow!(
            "model.path: there is no directory {} here, and paths are relative to the current directory; there is {}",
            model.display(),
            found.display()
        )),
        _ => Ok(()),
    }
}

/// Under what the run was made.
fn manifest(device: &Device, seed: u64, model: &str, dir: &Path, data: &[FileHash]) -> Result<Value> {
    let data: Map<String, Value> =
        data.iter().map(|file| (file.path.display().to_string(), file.sha256.clone().into())).collect();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(json!({
        "isentrope": env!("CARGO_PKG_VERSION"),
        "started_unix_s": now,
        "seed": seed,
        "instruction_set": device.isa().to_string(),
        "threads": device.threads(),
        "model": { "path": model, "sha256": file_hashes(dir)? },
        "data": { "sha256": data },
        "command": std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_is_to_be_freed() {
        let told = |kind: io::ErrorKind| {
            let source = io::Error::from(kind);
            let path = PathBuf::from("out/model");
            crate::sentence(&or_free_space(isentrope_train::Error::Io { path, source }.into()))
        };
        let full = told(io::ErrorKind::StorageFull);
        let cause = io::Error::from(io::ErrorKind::StorageFull).to_string();
        assert_eq!(
            full,
            format!("out/model: {cause}; free some space, then --resume goes on from the last checkpoint")
        );
        let other = io::Error::from(io::ErrorKind::PermissionDenied).to_string();
        assert_eq!(told(io::ErrorKind::PermissionDenied), format!("out/model: {other}"));
    }
}
