//! The checkpoints under tests/fixtures/models and what transformers computed for them.

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::Model;
use safetensors::{Dtype, SafeTensors};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The names of all checkpoints.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(super::fixtures().join("models"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("expected.safetensors").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 19, "fixtures are missing");
    names
}

pub struct Oracle {
    dir: PathBuf,
    expected: Vec<u8>,
}

impl Oracle {
    pub fn read(name: &str) -> Self {
        let dir = super::oracle(name);
        let expected = fs::read(dir.join("expected.safetensors")).unwrap();
        Self { dir, expected }
    }

    pub fn model(&self) -> Model<Cpu> {
        self.model_on(Isa::available()[0], 2)
    }

    pub fn model_on(&self, isa: Isa, threads: usize) -> Model<Cpu> {
        Model::load(&self.dir, Arc::new(Cpu::new(isa, threads).unwrap())).unwrap()
    }

    pub fn sequences(&self) -> usize {
        (0..).take_while(|i| self.has(&format!("tokens.{i}"))).count()
    }

    pub fn tokens(&self, i: usize) -> Vec<u32> {
        let bytes = self.bytes(&format!("tokens.{i}"), Dtype::I32);
        bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()) as u32).collect()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = self.bytes(name, Dtype::F32);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    /// Prompt and continuation.
    pub fn greedy(&self) -> (Vec<u32>, Vec<u32>) {
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(self.dir.join("greedy.json")).unwrap()).unwrap();
        let tokens =
            |key: &str| json[key].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
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
