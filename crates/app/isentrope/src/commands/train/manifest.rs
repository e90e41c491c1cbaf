//! The manifest of a run: the program, device, model and data that made it.

use crate::device::Device;
use crate::loaded_model::{file_hashes, hashes_of_programs};
use crate::ranks::Ranks;
use anyhow::{Error, Result};
use isentrope_cuda::Products;
use isentrope_data::FileHash;
use isentrope_kernels::Isa;
use isentrope_train::teacher::Teacher;
use isentrope_train::trainer::{Prepared, Tables, Trainer};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::SystemTime;

/// The manifest at the start of a run.
pub fn manifest(
    device: &Device,
    products: Option<Products>,
    prepared: &Prepared<impl Trainer>,
    ranks: &Ranks,
    model_dir: &Path,
) -> Result<Value> {
    let Prepared { trainer, teacher, .. } = prepared;
    let hash =
        |file: &FileHash| (file.path.display().to_string(), Value::from(file.sha256.clone()));
    let data: Map<String, Value> = trainer.data_files().iter().map(hash).collect();
    let hashes = |dir: &Path| file_hashes(dir, ranks.is_first());
    let mut model = json!({ "path": trainer.tables().model.path, "sha256": hashes(model_dir)? });
    if let Some(dir) = trainer.tables().process_model.and_then(|table| table.model) {
        model["process_model"] = json!({ "path": dir, "sha256": hashes(dir)? });
    }
    if let Some(dir) = trainer.tables().lora.and_then(|lora| lora.adapter.as_ref()) {
        model["adapter"] = json!({ "path": dir, "sha256": hashes(dir)? });
    }
    if let Some(Teacher { path, dir, .. }) = teacher {
        model["teacher"] = json!({ "path": path, "sha256": hashes(dir)? });
    }
    let Tables { reward, environment, .. } = trainer.tables();
    let mut programs = hashes_of_programs("reward.verifier", reward.verifier.files())?;
    if let Some(environment) = environment {
        programs.extend(hashes_of_programs("environment", environment.files())?);
    }
    let mut device = device.manifest();
    if let Some(products) = products {
        device["products"] = json!(products);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(json!({
        "isentrope": env!("CARGO_PKG_VERSION"),
        "started_unix_s": now,
        "seed": trainer.tables().run.seed,
        "instruction_set": Isa::from_env().map_err(Error::msg)?.to_string(),
        "threads": ranks.threads,
        "device": device,
        "ranks": ranks.world.size(),
        "model": model,
        "data": { "sha256": data },
        "evaluation": { "sha256": prepared.evaluations() },
        "programs": { "sha256": programs },
        "command": std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>(),
    }))
}

/// Refuses ranks whose files of the model, the data or the reward differ from the first rank's.
pub fn check_same_files(manifest: &Value, ranks: &Ranks) -> Result<()> {
    let parts = [
        ("the model", "/model/sha256"),
        ("prime.model", "/model/process_model/sha256"),
        ("lora.adapter", "/model/adapter/sha256"),
        ("the teacher", "/model/teacher/sha256"),
        ("the data", "/data/sha256"),
        ("the reward or the environment", "/programs/sha256"),
    ];
    for (whose, part) in parts {
        let files = manifest.pointer(part).and_then(Value::as_object).into_iter().flatten();
        // Machines may keep fetched files in different directories, so only names are compared.
        let name =
            |path: &str| Path::new(path).file_name().unwrap_or_default().display().to_string();
        let files: Vec<(String, &str)> =
            files.map(|(path, sha256)| (name(path), sha256.as_str().unwrap_or_default())).collect();
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        ranks.world.same(&format!("list of files of {whose}"), &names.join(", "))?;
        for (name, sha256) in &files {
            ranks.world.same(&format!("{name} of {whose}"), sha256)?;
        }
    }
    Ok(())
}
