//! The default directory of a run, and refusals of a run's directory where a model or a recipe is
//! expected.

use anyhow::{Context, Result, bail};
use isentrope_files::{names, parent};
use isentrope_lab::run_files::{METRICS, RECIPE, VALUES};
use isentrope_model::adapter::AdapterConfig;
use isentrope_train::run::word;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of a run whose recipe names none: of `NAME.toml`, and of `recipe.toml` in a folder
/// NAME, it is `runs/NAME`.
pub fn default_out(recipe: &Path) -> PathBuf {
    let is_in_its_folder = recipe.file_name().is_some_and(|name| name == RECIPE);
    let folder = fs::canonicalize(parent(recipe)).ok().filter(|_| is_in_its_folder);
    let name = folder.as_deref().and_then(Path::file_name).or(recipe.file_stem());
    Path::new("runs").join(&*name.unwrap_or_default().to_string_lossy())
}

/// Refuses the directory of a run, or of its checkpoints, where a model's directory is expected.
///
/// # Errors
/// With the model that is probably meant.
pub fn refuse_as_model(dir: &Path) -> Result<()> {
    if dir.join("config.json").exists() || AdapterConfig::is_in(dir) {
        return Ok(());
    }
    let shown = dir.display();
    match latest_checkpoint(&dir.join("checkpoints")).or_else(|| latest_checkpoint(dir)) {
        Some(latest) => {
            bail!("{shown}: is a run's, and no model; its latest model is {}", latest.display())
        }
        None if dir.join(VALUES).exists() => {
            bail!("{shown}: is a run, which has saved no model yet")
        }
        None => Ok(()),
    }
}

/// Refuses the directory of a run where a recipe is expected.
///
/// # Errors
/// With the recipe that is probably meant.
pub fn refuse_as_recipe(dir: &Path) -> Result<()> {
    let recipe = dir.join(RECIPE);
    if recipe.is_file() {
        bail!(
            "{}: is a directory, and no recipe; its recipe is {}",
            dir.display(),
            recipe.display()
        );
    }
    Ok(())
}

/// Refuses the recipe of a run that was copied or moved: `out` is the directory that it names, in
/// which another run may be.
///
/// # Errors
/// With the setting that names either directory.
pub fn refuse_as_moved(recipe: &Path, out: &Path) -> Result<()> {
    let here = recipe.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_of_run = recipe.file_name().is_some_and(|name| name == RECIPE);
    if !is_of_run || !here.join(METRICS).exists() {
        return Ok(());
    }
    let dir = fs::canonicalize(here).with_context(|| here.display().to_string())?;
    if fs::canonicalize(out).ok() != Some(dir.clone()) {
        let set = |dir: &Path| word(&format!("run.out={}", dir.display()));
        bail!(
            "{}: the run here was copied or moved, since its recipe names {} (run.out); --set {} \
             means the run here, --set {} the other directory",
            recipe.display(),
            out.display(),
            set(&dir),
            set(out)
        );
    }
    Ok(())
}

/// The directory `step-N` of the last step.
pub fn latest_checkpoint(dir: &Path) -> Option<PathBuf> {
    let names = names(dir).ok()?;
    let step = |name: &str| name.strip_prefix("step-")?.parse::<u64>().ok();
    let steps = names.iter().filter_map(|name| Some((step(name.to_str()?)?, dir.join(name))));
    steps.filter(|(_, path)| path.is_dir()).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recipe_has_a_directory_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("clip-cov");
        fs::create_dir(&folder).unwrap();
        let here = std::env::current_dir().unwrap();
        for (recipe, name) in [
            (folder.join("recipe.toml"), "clip-cov"),
            (folder.join("../clip-cov/./recipe.toml"), "clip-cov"),
            (folder.join("seed-2.toml"), "seed-2"),
            ("recipe.toml".into(), here.file_name().unwrap().to_str().unwrap()),
            ("/recipe.toml".into(), "recipe"),
        ] {
            assert_eq!(default_out(&recipe), Path::new("runs").join(name), "{}", recipe.display());
        }
    }

    #[test]
    fn what_is_meant_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let run = scratch.path().join("run");
        let said = |dir: &Path| refuse_as_model(dir).map_err(|error| error.to_string());
        fs::create_dir_all(run.join("checkpoints")).unwrap();
        assert_eq!(said(&run), Ok(()));
        fs::write(run.join(VALUES), "{}").unwrap();
        assert!(said(&run).unwrap_err().ends_with("is a run, which has saved no model yet"));
        for step in ["step-000009", "step-1000000", "step-x", ".step-2000000"] {
            fs::create_dir(run.join("checkpoints").join(step)).unwrap();
        }
        for dir in [run.clone(), run.join("checkpoints")] {
            let said = said(&dir).unwrap_err();
            assert!(said.starts_with(&dir.display().to_string()), "{said}");
            assert!(
                said.contains("its latest model is ")
                    && said.ends_with("run/checkpoints/step-1000000"),
                "{said}"
            );
        }
        fs::write(run.join("config.json"), "{}").unwrap();
        assert_eq!(said(&run), Ok(()));

        refuse_as_recipe(&run).unwrap();
        fs::write(run.join(RECIPE), "").unwrap();
        assert!(refuse_as_recipe(&run).unwrap_err().to_string().ends_with("run/recipe.toml"));
        refuse_as_recipe(&run.join(RECIPE)).unwrap();
    }

    #[test]
    fn a_copied_run_is_not_taken_for_the_first() {
        let scratch = tempfile::tempdir().unwrap();
        let (run, copy) = (scratch.path().join("run"), scratch.path().join("copy"));
        for dir in [&run, &copy] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join(METRICS), "").unwrap();
        }
        let said = refuse_as_moved(&copy.join(RECIPE), &run).unwrap_err().to_string();
        let there = copy.canonicalize().unwrap();
        assert!(said.contains(&format!("--set run.out={} means", there.display())), "{said}");
        refuse_as_moved(&run.join(RECIPE), &run.join("../run")).unwrap();
        refuse_as_moved(Path::new(RECIPE), &run).unwrap(); // no run is here
        // A directory that is gone is another one; a file of another name is no run's recipe.
        assert!(refuse_as_moved(&copy.join(RECIPE), &scratch.path().join("gone")).is_err());
        refuse_as_moved(&copy.join("other.toml"), &run).unwrap();
    }
}
