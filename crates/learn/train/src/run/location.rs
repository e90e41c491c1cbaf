//! The directory of a run, and the policy for an existing run there.

use super::journal::has_journal;
use super::sinks::JsonlSink;
use crate::error::{Error, Result};
use isentrope_files::{check_writable, dangling, names, write_json};
use isentrope_run::run_files::{MANIFEST, METRICS, RECIPE, ROLLOUTS, RunFiles, VALUES};
use isentrope_settings::{complete, differences};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory that a run is to be kept in.
#[derive(Clone, Debug)]
pub struct RunLocation {
    /// The directory.
    pub dir: PathBuf,
    /// The policy for an existing run in it.
    pub existing: Existing,
    /// The file that the recipe was read from.
    pub source: PathBuf,
    /// The resolved recipe, as text and as values.
    pub recipe: (String, Value),
    /// The values of a recipe that sets nothing. An older run's missing keys had these values.
    pub defaults: Value,
}

/// The policy for an existing run in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it alone: an error.
    Refuse,
    /// Go on from its latest checkpoint, or start it if it has no checkpoint.
    Resume,
    /// Remove it.
    Overwrite,
}

impl RunLocation {
    /// Checks that a run can be written there.
    pub fn check(&self) -> Result<()> {
        self.check_name()?;
        let shown = self.dir.display();
        if !self.dir.join(VALUES).exists() {
            // Hidden files come from a killed process or a file system, not from a user.
            if names(&self.dir)?.iter().all(|name| name.to_string_lossy().starts_with('.')) {
                return Ok(());
            }
            let what = if self.dir.join(METRICS).exists() {
                format!(
                    "{shown} has the metrics of a run and not its {VALUES}, which a copy must have \
                     too; or name another directory with --set run.out=..."
                )
            } else {
                format!(
                    "{shown} has files in it and is no run; name another with --set run.out=..."
                )
            };
            return Err(Error::Run(what));
        }
        match self.existing {
            Existing::Resume => Ok(()),
            Existing::Overwrite => self.check_inputs(),
            Existing::Refuse => Err(Error::Run(format!(
                "{shown} holds a run; --resume goes on with it, --overwrite starts it anew, and \
                 --set run.out=... starts another"
            ))),
        }
    }

    /// The last step with metrics; 0 if there is none.
    pub fn recorded(&self) -> Result<u64> {
        Ok(JsonlSink::last_step(&self.dir.join(METRICS))?.unwrap_or(0))
    }

    /// Checks that the run in the directory still has a checkpoint, if its other files show that it
    /// had one. Without it the run would begin again and remove its records.
    pub fn check_saved(&self) -> Result<()> {
        // The remains of a checkpoint after a kill count too, because it was the only one.
        let checkpoints = self.dir.join("checkpoints");
        if !names(&checkpoints)?.is_empty() {
            return Ok(());
        }
        let recorded = self.recorded()?;
        // A checkpoint removes the journals of its steps, so with the first step's there never was one.
        if recorded == 0 || has_journal(&self.dir.join(ROLLOUTS), 1)? {
            return Ok(());
        }
        // Without the journal of a first step that sampled there was one, and a run makes the
        // directory when it begins.
        let had_one = RunFiles::new(&self.dir).rollout(1).exists() || !checkpoints.exists();
        let recipe = self.saved_recipe()?;
        let number = |key: &str| recipe.pointer(key).and_then(Value::as_u64);
        let is_past_first = number("/checkpoint/every").is_some_and(|n| (1..recorded).contains(&n));
        let is_done = number("/run/steps").is_some_and(|steps| recorded >= steps);
        if !had_one && !is_past_first && !is_done {
            return Ok(());
        }
        Err(Error::Run(format!(
            "{} has the numbers of {recorded} steps and no checkpoint: they are gone, or none could \
             be saved. Put them back for --resume to go on from them, or take --overwrite to make \
             the run anew",
            self.dir.display()
        )))
    }

    /// Adds facts known at the end of a process to its entry in the manifest.
    pub fn add_to_manifest(&self, part: &str, key: &str, value: Value) -> Result<()> {
        let path = self.dir.join(MANIFEST);
        let text = fs::read(&path).map_err(|error| Error::io(&path, error))?;
        let mut manifest: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::Run(format!("{}: {error}", path.display())))?;
        let described = manifest
            .as_object_mut()
            .and_then(|all| all.entry(part).or_insert(json!({})).as_object_mut());
        let none = || Error::Run(format!("{}: it is not as a manifest is", path.display()));
        described.ok_or_else(none)?.insert(key.to_owned(), value);
        Ok(write_json(&path, &manifest)?)
    }

    /// Checks that the path is a writable directory, or can become one.
    pub fn check_name(&self) -> Result<()> {
        let shown = self.dir.display();
        let existing = self.dir.ancestors().find(|dir| dir.exists());
        let what = if self.dir.as_os_str().is_empty() {
            "is empty: name a directory, or leave it out for runs/ and the recipe's name".to_owned()
        } else if self.dir == Path::new("-") {
            "is -, and a run is a directory: name one (./- is one of that name)".to_owned()
        } else if let Some(leads_to) = dangling(&self.dir) {
            let leads_to = leads_to.display();
            format!("is {shown}, which goes through a link to {leads_to}, and that is not there")
        } else if let Some(file) = existing.filter(|existing| !existing.is_dir()) {
            format!("is {shown}, and {} is a file: name a directory", file.display())
        } else if let Err(error) = check_writable(&self.dir) {
            format!("is {shown}, and {error}; name another directory")
        } else {
            return Ok(());
        };
        Err(Error::setting("run.out", what))
    }

    /// Whether an existing run will be removed when the new one can start.
    pub(super) fn overwrites(&self) -> bool {
        self.existing == Existing::Overwrite && self.dir.join(VALUES).exists()
    }

    /// The value of a key such as `update.shards` in the recipe that the run in a directory was
    /// last started with; none if there is no run or its recipe cannot be read.
    pub fn saved_setting(dir: &Path, key: &str) -> Option<Value> {
        let values: Value = serde_json::from_slice(&fs::read(dir.join(VALUES)).ok()?).ok()?;
        values.pointer(&format!("/{}", key.replace('.', "/"))).cloned()
    }

    /// How this recipe's values differ from those that the run there was last started with.
    pub(super) fn changes(&self) -> Result<Vec<String>> {
        let mut before = self.saved_recipe()?;
        complete(&mut before, &self.defaults);
        let mut changes = Vec::new();
        differences("", &before, &self.recipe.1, &mut changes);
        Ok(changes)
    }

    /// The recipe's values that the run there was last started with.
    fn saved_recipe(&self) -> Result<Value> {
        let path = self.dir.join(VALUES);
        let text = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        serde_json::from_slice(&text).map_err(|e| Error::invalid(&path, e.to_string()))
    }

    /// The run that is removed must not hold the recipe, or anything that the recipe reads.
    fn check_inputs(&self) -> Result<()> {
        let dir = fs::canonicalize(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        // The run's own recipe may be removed, because it has been read and will be written again.
        let is_own = fs::canonicalize(&self.source).is_ok_and(|source| source == dir.join(RECIPE));
        let source = self.source.display().to_string();
        let (what, input) = match first_inside(&dir, "", &self.recipe.1) {
            Some((key, input)) => (key, input),
            None if !is_own && is_inside(&dir, &source) => ("the recipe".to_owned(), &*source),
            None => return Ok(()),
        };
        Err(Error::Run(format!(
            "{what} names {input}, which --overwrite would remove with the run in {}: move it out \
             of there, or start another run with --set run.out=...",
            self.dir.display()
        )))
    }
}

/// The first text in the value that is a path into the directory, and its key.
fn first_inside<'a>(dir: &Path, key: &str, value: &'a Value) -> Option<(String, &'a str)> {
    match value {
        Value::String(text) => {
            // A benchmark with a file is NAME=FILE.
            let file = text.split_once('=').map(|(_, file)| file);
            let mut paths = [Some(text.as_str()), file].into_iter().flatten();
            Some((key.to_owned(), paths.find(|path| is_inside(dir, path))?))
        }
        Value::Array(values) => values.iter().find_map(|value| first_inside(dir, key, value)),
        Value::Object(values) => values.iter().find_map(|(name, value)| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            first_inside(dir, &key, value)
        }),
        _ => None,
    }
}

/// Whether a path lies inside the directory. The longest part of the path that exists decides, so
/// that a pattern may end in wildcards.
fn is_inside(dir: &Path, path: &str) -> bool {
    let path = Path::new(path);
    let existing = path.ancestors().find(|part| part.exists());
    let is_whole = existing == Some(path);
    let leads_to = existing.and_then(|existing| fs::canonicalize(existing).ok());
    leads_to.is_some_and(|to| to.starts_with(dir) && !(is_whole && to == dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(dir: &Path, existing: Existing) -> RunLocation {
        RunLocation {
            dir: dir.to_owned(),
            existing,
            source: "recipe.toml".into(),
            recipe: (String::new(), json!({})),
            defaults: json!({}),
        }
    }

    #[test]
    fn a_run_is_not_overwritten_with_what_the_new_one_reads() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("run");
        let checkpoint = dir.join("checkpoints/step-000001");
        fs::create_dir_all(&checkpoint).unwrap();
        fs::write(dir.join(VALUES), "{}").unwrap();
        fs::write(dir.join("own.jsonl"), "").unwrap();
        let beside = scratch.path().join("run-2");
        fs::write(&beside, "").unwrap();
        let link = scratch.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&checkpoint, &link).unwrap();
        let check = |existing, values: Value| {
            let recipe = (String::new(), values);
            RunLocation { recipe, ..location(&dir, existing) }.check()
        };
        let own = dir.join("own.jsonl");
        let detour = dir.join("checkpoints/../own.jsonl");
        let mut inside = vec![
            ("model.path", json!({"model": {"path": checkpoint}})),
            ("prime.model", json!({"prime": {"model": checkpoint}})),
            ("data.files", json!({"data": {"files": [beside, own]}})),
            ("data.files", json!({"data": {"files": [dir.join("*.jsonl")]}})),
            ("eval.files", json!({"eval": {"files": [detour]}})),
            ("sft.eval_files", json!({"sft": {"eval_files": [own]}})),
            ("eval.bench", json!({"eval": {"bench": [format!("mine={}", own.display())]}})),
            ("eval.bench", json!({"eval": {"bench": [format!("mine={}/*.jsonl", dir.display())]}})),
            ("reward.verifier", json!({"reward": {"verifier": {"command": ["python3", own]}}})),
        ];
        if cfg!(unix) {
            inside.push(("model.path", json!({"model": {"path": link}})));
        }
        for (key, values) in inside {
            let message = check(Existing::Overwrite, values.clone()).unwrap_err().to_string();
            assert!(
                message.starts_with(key) && message.contains("--overwrite would remove"),
                "{message}"
            );
            check(Existing::Resume, values).unwrap();
        }
        let outside = json!({
            "run": {"out": dir}, "model": {"path": "Qwen/Qwen2.5-7B"},
            "data": {"files": [beside]}, "eval": {"files": ["no/such/file"], "bench": ["aime24"]},
            "reward": {"verifier": "math"},
        });
        check(Existing::Overwrite, outside).unwrap();
    }

    #[test]
    fn hidden_files_do_not_block_a_directory_and_others_do() {
        let dir = tempfile::tempdir().unwrap();
        let run = location(dir.path(), Existing::Refuse);
        for left in [".recipe.partial", ".isentrope-01234567abcdef", ".nfs0001"] {
            fs::write(dir.path().join(left), "").unwrap();
            run.check().unwrap();
        }
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        assert!(run.check().unwrap_err().to_string().contains("has files in it and is no run"));
        fs::write(dir.path().join(METRICS), "").unwrap();
        let refused = run.check().unwrap_err().to_string();
        assert!(refused.contains("the metrics of a run and not its .recipe.json"), "{refused}");
    }

    #[test]
    fn a_run_that_has_lost_its_checkpoints_is_not_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        let place = location(dir.path(), Existing::Resume);
        place.check_saved().unwrap();
        let checkpoints = dir.path().join("checkpoints");
        fs::create_dir(&checkpoints).unwrap();
        let is_lost = |every: u64, steps: u64, recorded: u64| {
            let recipe = json!({"run": {"steps": steps}, "checkpoint": {"every": every}});
            fs::write(dir.path().join(VALUES), recipe.to_string()).unwrap();
            let rows: String =
                (0..=recorded).map(|step| format!("{{\"step\":{step}}}\n")).collect();
            fs::write(dir.path().join(METRICS), rows).unwrap();
            let message = format!("the numbers of {recorded} steps");
            place.check_saved().is_err_and(|error| error.to_string().contains(&message))
        };
        // A kill before the first checkpoint leaves as many steps, with other files beside them.
        assert_eq!(
            [0, 2, 3, 4, 8].map(|recorded| is_lost(3, 8, recorded)),
            [false, false, false, true, true]
        );
        assert_eq!([7, 8].map(|recorded| is_lost(0, 8, recorded)), [false, true]);
        // Nor does a checkpoint that found no room on the disk. Without the journal of a first step
        // that sampled there was one, due or not.
        fs::create_dir(dir.path().join(ROLLOUTS)).unwrap();
        for (name, lost) in [
            ("step-000008.rank-0.journal", [false, true]),
            ("step-000001.jsonl", [true, true]),
            ("step-000001.rank-0.journal", [false, false]),
        ] {
            fs::write(dir.path().join(ROLLOUTS).join(name), "").unwrap();
            assert_eq!([is_lost(20, 100, 7), is_lost(0, 8, 8)], lost, "{name}");
        }
        fs::remove_dir_all(dir.path().join(ROLLOUTS)).unwrap();
        fs::remove_dir(&checkpoints).unwrap();
        assert!(is_lost(20, 100, 7));
        fs::create_dir_all(checkpoints.join(".step-000008.partial")).unwrap();
        assert!(!is_lost(0, 8, 8));
    }

    #[test]
    fn a_name_that_no_directory_can_have_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("no/such/place", scratch.path().join("link")).unwrap();
        let link = if cfg!(unix) { "a link to no/such/place" } else { "" };
        for (dir, part) in [
            (PathBuf::new(), "empty: name a directory"),
            ("-".into(), "is -"),
            (scratch.path().join("file"), "file is a file"),
            (scratch.path().join("file/run"), "file is a file"),
            (scratch.path().join("link"), link),
            (scratch.path().join("link/run"), link),
        ] {
            let Err(error) = location(&dir, Existing::Refuse).check() else {
                assert!(part.is_empty(), "{}", dir.display());
                continue;
            };
            let error = error.to_string();
            assert!(error.starts_with("run.out is ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_run_is_not_overwritten_with_the_recipe_of_the_new_one() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("run");
        fs::create_dir(&dir).unwrap();
        for name in [VALUES, RECIPE, "mine.toml"] {
            fs::write(dir.join(name), "").unwrap();
        }
        let check = |source: &Path| {
            let source = source.to_owned();
            RunLocation { source, ..location(&dir, Existing::Overwrite) }.check()
        };
        check(&dir.join(RECIPE)).unwrap();
        check(&scratch.path().join("run/../run").join(RECIPE)).unwrap();
        check(&scratch.path().join("mine.toml")).unwrap();
        let message = check(&dir.join("mine.toml")).unwrap_err().to_string();
        assert!(
            message.starts_with("the recipe names") && message.contains("mine.toml"),
            "{message}"
        );
    }
}
