//! The directory of a run, and the policy for a run that is there already.

use super::sinks::JsonlSink;
use crate::error::{Error, Result};
use isentrope_files::{check_writable, dangling, names, write_json};
use isentrope_run::run_files::{MANIFEST, METRICS, RECIPE, VALUES};
use isentrope_settings::{complete, differences};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory that a run is to be kept in.
#[derive(Clone, Debug)]
pub struct RunLocation {
    /// The directory.
    pub dir: PathBuf,
    /// The policy if there is a run in it.
    pub existing: Existing,
    /// The file that the recipe was read from.
    pub source: PathBuf,
    /// The resolved recipe, as text and as values.
    pub recipe: (String, Value),
    /// The values of a recipe that sets nothing: an older run, which lacks some keys, had these.
    pub defaults: Value,
}

/// The policy for a run that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it alone: an error.
    Refuse,
    /// Go on from its latest checkpoint; start it where there is none.
    Resume,
    /// Remove it.
    Overwrite,
}

impl RunLocation {
    /// Checks that a run can be kept there.
    ///
    /// # Errors
    /// [`Error::Run`] when there is a run that is to be left alone, when what is there is no run,
    /// or when the run that is to be removed holds something that the new one reads;
    /// [`Io`](isentrope_evaluation::Error::Io).
    pub fn check(&self) -> Result<()> {
        self.check_name()?;
        let shown = self.dir.display();
        if !self.dir.join(VALUES).exists() {
            // Hidden files are left by a kill or kept by a file system: they belong to nobody.
            if names(&self.dir)?.iter().all(|name| name.to_string_lossy().starts_with('.')) {
                return Ok(());
            }
            let what = if self.dir.join(METRICS).exists() {
                format!(
                    "{shown} has the metrics of a run and not its {VALUES}, which a copy must have too; or name another \
                     directory with --set run.out=..."
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
                "{shown} holds a run; --resume goes on with it, --overwrite starts it anew, and --set run.out=... \
                 starts another"
            ))),
        }
    }

    /// The last step whose numbers are there; 0 where no step's are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn recorded(&self) -> Result<u64> {
        Ok(JsonlSink::last_step(&self.dir.join(METRICS))?.unwrap_or(0))
    }

    /// Checks that the run which is there still has a checkpoint to go on from, if it ever had one.
    /// Begun again, it would remove what it has recorded.
    ///
    /// # Errors
    /// [`Error::Run`] when it has recorded steps after the first that it saves, or all of its
    /// steps, and has no checkpoint; when what is there cannot be read.
    pub fn check_saved(&self) -> Result<()> {
        // Remains of a checkpoint that a kill has left count too: there was no other, then.
        if !names(&self.dir.join("checkpoints"))?.is_empty() {
            return Ok(());
        }
        let recorded = self.recorded()?;
        if recorded == 0 {
            return Ok(());
        }
        let saved_recipe = self.saved_recipe()?;
        let number = |key: &str| saved_recipe.pointer(key).and_then(Value::as_u64);
        let is_past_first =
            number("/checkpoint/every").is_some_and(|every| (1..recorded).contains(&every));
        let is_whole = number("/run/steps").is_some_and(|steps| recorded >= steps);
        if !is_past_first && !is_whole {
            return Ok(());
        }
        Err(Error::Run(format!(
            "{} has the numbers of {recorded} steps, and its checkpoints are gone: put them back for --resume to go on from \
             them, or take --overwrite to make the run anew",
            self.dir.display()
        )))
    }

    /// Adds what is known at the end of a process to what its manifest says of it.
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io); [`Error::Run`] when the manifest is none.
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

    /// Checks that the directory's name is that of a directory, or may become one, and that one can
    /// write there.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) naming `run.out`.
    pub fn check_name(&self) -> Result<()> {
        let shown = self.dir.display();
        if self.dir.as_os_str().is_empty() {
            let what =
                "is empty: name a directory, or leave it out for runs/ and the recipe's name";
            return Err(Error::setting("run.out", what));
        }
        if self.dir == Path::new("-") {
            let what = "is -, and a run is a directory: name one (./- is one of that name)";
            return Err(Error::setting("run.out", what));
        }
        if let Some(leads_to) = dangling(&self.dir) {
            let what = format!(
                "is {shown}, by way of a link to {}, which is not there",
                leads_to.display()
            );
            return Err(Error::setting("run.out", what));
        }
        let existing = self.dir.ancestors().find(|dir| dir.exists());
        if let Some(file) = existing.filter(|existing| !existing.is_dir()) {
            let what = format!("is {shown}, and {} is a file: name a directory", file.display());
            return Err(Error::setting("run.out", what));
        }
        check_writable(&self.dir).map_err(|error| {
            Error::setting("run.out", format!("is {shown}, and {error}; name another directory"))
        })
    }

    /// Whether there is a run to be removed when the new one can start.
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
    ///
    /// # Errors
    /// [`Io`](isentrope_evaluation::Error::Io) and
    /// [`Invalid`](isentrope_evaluation::Error::Invalid) when these cannot be read.
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
        let shown = self.dir.display();
        // The run's own recipe may go: it has been read, and is written again.
        let own = dir.join(RECIPE);
        if entries(&self.source).iter().any(|entry| is_inside(&dir, entry) && *entry != own) {
            return Err(Error::Run(format!(
                "--overwrite would remove the recipe {} with the run in {shown}: move it out of there, or start \
                 another run with --set run.out=...",
                self.source.display()
            )));
        }
        for key in INPUTS {
            let Some(value) = self.recipe.1.pointer(&format!("/{}", key.replace('.', "/"))) else {
                continue;
            };
            if let Some(input) = first_inside(&dir, value) {
                return Err(Error::Run(format!(
                    "{key} names {input}, which --overwrite would remove with the run in {shown}: move it out of \
                     there, or start another run with --set run.out=..."
                )));
            }
        }
        Ok(())
    }
}

/// The keys whose values are, or contain, paths that a run reads.
const INPUTS: [&str; 7] = [
    "model.path",
    "prime.model",
    "data.files",
    "sft.eval_files",
    "eval.files",
    "eval.bench",
    "reward.verifier",
];

/// The first text in the value that is the path of something in the directory.
fn first_inside<'a>(dir: &Path, value: &'a Value) -> Option<&'a str> {
    match value {
        Value::String(text) => {
            // A benchmark with a file is NAME=FILE.
            let file = text.split_once('=').map(|(_, file)| file);
            let goes_inside = |text: &&str| {
                named(text)
                    .iter()
                    .flat_map(|path| entries(path))
                    .any(|entry| is_inside(dir, &entry))
            };
            [Some(text.as_str()), file].into_iter().flatten().find(goes_inside)
        }
        Value::Array(values) => values.iter().find_map(|value| first_inside(dir, value)),
        Value::Object(values) => values.values().find_map(|value| first_inside(dir, value)),
        _ => None,
    }
}

/// The paths that a text may stand for: those that match it where it is a pattern, else itself.
fn named(text: &str) -> Vec<PathBuf> {
    match isentrope_data::DataLocation::parse(text) {
        place @ isentrope_data::DataLocation::Pattern(_) => {
            place.files(isentrope_data::Split::Train, &()).unwrap_or_default()
        }
        _ => vec![text.into()],
    }
}

/// Every directory and link that the path goes through as it is written, and what it ends at. Empty
/// if nothing is there.
fn entries(path: &Path) -> Vec<PathBuf> {
    let (Ok(end), Ok(written)) = (fs::canonicalize(path), std::path::absolute(path)) else {
        return Vec::new();
    };
    let entry = |part: &Path| Some(fs::canonicalize(part.parent()?).ok()?.join(part.file_name()?));
    written.ancestors().filter_map(entry).chain([end]).collect()
}

fn is_inside(dir: &Path, path: &Path) -> bool {
    path.starts_with(dir) && path != dir
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

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
        for (to, link) in [
            (&*checkpoint, &link),
            (&beside, &dir.join("base")),
            (scratch.path(), &dir.join("all")),
        ] {
            std::os::unix::fs::symlink(to, link).unwrap();
        }
        let check = |existing, values: Value| {
            let source = scratch.path().join("recipe.toml");
            RunLocation {
                dir: dir.clone(),
                existing,
                source,
                recipe: (String::new(), values),
                defaults: json!({}),
            }
            .check()
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
            ("reward.verifier", json!({"reward": {"verifier": {"command": ["python3", own]}}})),
        ];
        if cfg!(unix) {
            inside.push(("model.path", json!({"model": {"path": link}})));
            inside.push(("model.path", json!({"model": {"path": dir.join("base")}})));
            inside.push(("data.files", json!({"data": {"files": [dir.join("all/run-2")]}})));
        }
        for (key, values) in inside {
            let said = check(Existing::Overwrite, values.clone()).unwrap_err().to_string();
            assert!(said.starts_with(key) && said.contains("--overwrite would remove"), "{said}");
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
        let place = RunLocation {
            dir: dir.path().to_owned(),
            existing: Existing::Refuse,
            source: "recipe.toml".into(),
            recipe: (String::new(), json!({})),
            defaults: json!({}),
        };
        for left in [".recipe.partial", ".isentrope-01234567abcdef", ".nfs0001"] {
            fs::write(dir.path().join(left), "").unwrap();
            place.check().unwrap();
        }
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        assert!(place.check().unwrap_err().to_string().contains("has files in it and is no run"));
        fs::write(dir.path().join(METRICS), "").unwrap();
        assert!(
            place
                .check()
                .unwrap_err()
                .to_string()
                .contains("the metrics of a run and not its .recipe.json")
        );
    }

    #[test]
    fn what_has_lost_its_checkpoints_is_not_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        let place = RunLocation {
            dir: dir.path().to_owned(),
            existing: Existing::Resume,
            source: "recipe.toml".into(),
            recipe: (String::new(), json!({})),
            defaults: json!({}),
        };
        place.check_saved().unwrap();
        let is_lost = |every: u64, steps: u64, recorded: u64| {
            let recipe = json!({"run": {"steps": steps}, "checkpoint": {"every": every}});
            fs::write(dir.path().join(VALUES), recipe.to_string()).unwrap();
            let rows: String =
                (0..=recorded).map(|step| format!("{{\"step\":{step}}}\n")).collect();
            fs::write(dir.path().join(METRICS), rows).unwrap();
            match place.check_saved() {
                Ok(()) => false,
                Err(error) => {
                    error.to_string().contains(&format!("the numbers of {recorded} steps"))
                }
            }
        };
        // A kill before the first checkpoint is there leaves as many steps, but not all with
        // nothing beside them.
        assert_eq!(
            [0, 2, 3, 4, 8].map(|recorded| is_lost(3, 8, recorded)),
            [false, false, false, true, true]
        );
        assert_eq!([7, 8].map(|recorded| is_lost(0, 8, recorded)), [false, true]);
        fs::create_dir_all(dir.path().join("checkpoints/.step-000008.partial")).unwrap();
        assert!(!is_lost(0, 8, 8));
    }

    #[test]
    fn places_that_are_none_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("no/such/place", scratch.path().join("link")).unwrap();
        let said = |dir: PathBuf| {
            let recipe = (String::new(), json!({}));
            let place = RunLocation {
                dir,
                existing: Existing::Refuse,
                source: "recipe.toml".into(),
                recipe,
                defaults: json!({}),
            };
            place.check().unwrap_err().to_string()
        };
        assert!(said("".into()).starts_with("run.out is empty: name a directory"));
        assert!(said("-".into()).starts_with("run.out is -"));
        for below in ["file", "file/run"] {
            let said = said(scratch.path().join(below));
            assert!(said.starts_with("run.out is ") && said.contains("file is a file"), "{said}");
        }
        for below in if cfg!(unix) { &["link", "link/run"][..] } else { &[] } {
            let said = said(scratch.path().join(below));
            assert!(
                said.starts_with("run.out is ") && said.contains("a link to no/such/place"),
                "{said}"
            );
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
            let recipe = (String::new(), json!({}));
            RunLocation {
                dir: dir.clone(),
                existing: Existing::Overwrite,
                source: source.to_owned(),
                recipe,
                defaults: json!({}),
            }
            .check()
        };
        check(&dir.join(RECIPE)).unwrap();
        check(&scratch.path().join("run/../run").join(RECIPE)).unwrap();
        check(&scratch.path().join("mine.toml")).unwrap();
        let said = check(&dir.join("mine.toml")).unwrap_err().to_string();
        assert!(said.contains("would remove the recipe") && said.contains("mine.toml"), "{said}");
    }

    /// Keys whose values are free texts and no paths of what a run reads.
    const OTHER_TEXTS: [&str; 10] = [
        "data.columns.answer",
        "data.columns.prompt",
        "data.date",
        "data.prompt_prefix",
        "data.prompt_suffix",
        "data.system",
        "data.template_variables",
        "eval.stop",
        "rollout.stop",
        "run.out",
    ];

    /// Puts the keys below a schema whose values are texts, or lists or maps of such, into `keys`;
    /// not those below `INPUTS`.
    fn texts(root: &Value, schema: &Value, key: &str, keys: &mut BTreeSet<String>) {
        if INPUTS.contains(&key) {
            keys.insert(key.to_owned());
            return;
        }
        if let Some(name) = schema["$ref"].as_str() {
            texts(root, root.pointer(name.trim_start_matches('#')).unwrap(), key, keys);
        }
        let is_text = schema["type"] == "string"
            || schema["type"].as_array().is_some_and(|t| t.contains(&json!("string")));
        if is_text && schema.get("enum").is_none() && schema.get("const").is_none() {
            keys.insert(key.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            texts(root, property, &key, keys);
        }
        let alternatives = ["anyOf", "oneOf", "allOf"]
            .map(|of| schema[of].as_array().cloned().unwrap_or_default());
        let of_all = [&schema["items"], &schema["additionalProperties"]]
            .into_iter()
            .filter(|of| of.is_object());
        alternatives.iter().flatten().chain(of_all).for_each(|part| texts(root, part, key, keys));
    }

    #[test]
    fn every_text_of_a_recipe_is_an_input_or_known_to_be_none() {
        let mut keys = BTreeSet::new();
        for schema in
            [schemars::schema_for!(crate::rl::Recipe), schemars::schema_for!(crate::sft::Recipe)]
        {
            let schema = schema.to_value();
            texts(&schema, &schema, "", &mut keys);
        }
        let known: BTreeSet<String> =
            INPUTS.iter().chain(&OTHER_TEXTS).map(|&key| key.to_owned()).collect();
        assert_eq!(keys, known);
    }
}
