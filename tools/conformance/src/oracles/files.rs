//! The checkpoints under `crates/compute/model/tests/fixtures/models` and the adapters beside them,
//! and the results of transformers and peft for them.

use crate::models;
use isentrope_kernels::{Backend, Role};
use isentrope_model::{AdapterConfig, Model};
use safetensors::{Dtype, SafeTensors};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The folder of the adapters.
const ADAPTERS: &str = "adapters";

/// The names of all checkpoints.
pub fn checkpoints() -> Vec<String> {
    let names = names_in("");
    assert!(names.len() >= 18, "fixtures are missing");
    names
}

/// The names of those checkpoints and of all adapters.
pub fn names() -> Vec<String> {
    let adapters = names_in(ADAPTERS).into_iter().map(|name| format!("{ADAPTERS}/{name}"));
    let names: Vec<String> = checkpoints().into_iter().chain(adapters).collect();
    assert!(names.len() >= 24, "fixtures are missing");
    names
}

fn names_in(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(models::checkpoint(folder))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("expected.safetensors").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A checkpoint or an adapter with its expected values.
pub struct Oracle {
    directory: PathBuf,
    expected: Vec<u8>,
}

impl Oracle {
    pub fn read(name: &str) -> Self {
        let directory = models::checkpoint(name);
        let expected = fs::read(directory.join("expected.safetensors")).unwrap();
        Self { directory, expected }
    }

    /// The model, or the base with its adapter.
    pub fn load(&self, backend: &Arc<dyn Backend>) -> Model {
        if !AdapterConfig::is_in(&self.directory) {
            return models::load(&self.directory, backend);
        }
        let config = AdapterConfig::read(&self.directory).unwrap();
        let base = config.find_base(&self.directory).unwrap();
        Model::load_adapter(&self.directory, &config, &base, backend.clone(), Role::Weight).unwrap()
    }

    /// The texts: tokens of each.
    pub fn texts(&self) -> Vec<Vec<u32>> {
        let names = (0..).map(|i| format!("tokens.{i}"));
        let tokens = |name: String| {
            let bytes = self.bytes(&name, Dtype::I32);
            bytes
                .chunks_exact(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()) as u32)
                .collect()
        };
        names.take_while(|name| self.has(name)).map(tokens).collect()
    }

    /// The values of a name, for each text in turn.
    pub fn of_all_texts(&self, name: &str) -> Vec<f32> {
        (0..self.texts().len()).flat_map(|i| self.floats(&format!("{name}.{i}"))).collect()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name, Dtype::F32);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    /// Prompt and continuation.
    pub fn greedy(&self) -> (Vec<u32>, Vec<u32>) {
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(self.directory.join("greedy.json")).unwrap()).unwrap();
        let tokens = |key: &str| {
            json[key].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect()
        };
        (tokens("prompt"), tokens("greedy"))
    }

    fn has(&self, name: &str) -> bool {
        SafeTensors::deserialize(&self.expected).unwrap().tensor(name).is_ok()
    }

    fn bytes(&self, name: &str, dtype: Dtype) -> Vec<u8> {
        let tensors = SafeTensors::deserialize(&self.expected).unwrap();
        let tensor = tensors.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), dtype);
        tensor.data().to_vec()
    }
}
