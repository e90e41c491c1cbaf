//! Backends, numbers and comparisons that several tests share.

use half::bf16;
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{AdamW, Backend, Buffer, Cpu, Isa, Kind, Role};
use isentrope_model::Model;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn cpu() -> Cpu {
    Cpu::new(Isa::available()[0], 2).unwrap()
}

pub fn emulated(dtype: Dtype, settings: Settings) -> Cuda {
    Cuda::new(Arc::new(Emulator::new(settings)), dtype)
}

/// A backend whose threads run in an order that the seed decides.
pub fn seeded(dtype: Dtype, seed: u64) -> Cuda {
    emulated(dtype, Settings { seed, workers: 2, ..Settings::default() })
}

/// A tiny checkpoint of a family.
pub fn checkpoint(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../compute/model/tests/fixtures/models")
        .join(family)
}

pub fn load(backend: Arc<dyn Backend>, family: &str) -> Model {
    Model::load(&checkpoint(family), backend).unwrap()
}

/// An update's settings.
pub const ADAMW: AdamW = AdamW {
    learning_rate: 1e-3,
    beta1: 0.9,
    beta2: 0.99,
    eps: 1e-8,
    weight_decay: 0.01,
    step: 3,
    gradient_scale: 0.5,
};

/// Numbers from -1.5 to 1.5 without a pattern.
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 * 3.0 - 1.5
    };
    (0..len).map(|_| next()).collect()
}

/// Such numbers, rounded to bf16.
pub fn short_noise(seed: u64, len: usize) -> Vec<f32> {
    noise(seed, len).into_iter().map(rounded).collect()
}

/// To bf16, to nearest even.
pub fn rounded(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

/// The bits of numbers that bf16 holds.
pub fn halves(x: &[f32]) -> Vec<u16> {
    x.iter().map(|&x| bf16::from_f32(x).to_bits()).collect()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Results by their names, as bits.
pub type Results = Vec<(String, Vec<u32>)>;

/// A backend with shorthands, and its results so far.
pub struct Trial<'a> {
    pub backend: &'a dyn Backend,
    pub results: Results,
    /// Makes the numbers of buffers from a seed.
    numbers: fn(u64, usize) -> Vec<f32>,
}

impl<'a> Trial<'a> {
    pub fn new(backend: &'a dyn Backend) -> Self {
        Self { backend, results: Vec::new(), numbers: noise }
    }

    /// One whose numbers bf16 holds.
    pub fn short(backend: &'a dyn Backend) -> Self {
        Self { numbers: short_noise, ..Self::new(backend) }
    }

    pub fn rows(&self, seed: u64, rows: usize, features: usize) -> Buffer {
        self.rows_of(&(self.numbers)(seed, rows * features), features)
    }

    pub fn rows_of(&self, numbers: &[f32], features: usize) -> Buffer {
        let mut buffer =
            self.backend.buffer(Role::Activation(numbers.len() / features.max(1), features));
        self.backend.write(&mut buffer, 0, numbers);
        buffer
    }

    pub fn exact(&self, seed: u64, rows: usize, features: usize) -> Buffer {
        let mut buffer = self.backend.buffer(Role::Exact(rows, features));
        self.backend.write(&mut buffer, 0, &(self.numbers)(seed, rows * features));
        buffer
    }

    pub fn parameter(&self, role: fn(Kind) -> Role, kind: Kind, seed: u64) -> Buffer {
        let numbers = match kind {
            Kind::Vector(len) => len,
            Kind::Matrix(shape) => shape.inputs * shape.outputs,
        };
        self.parameter_of(role, kind, &(self.numbers)(seed, numbers))
    }

    pub fn parameter_of(&self, role: fn(Kind) -> Role, kind: Kind, numbers: &[f32]) -> Buffer {
        let mut buffer = self.backend.allocate(role(kind)).unwrap();
        self.backend.pack(kind, 0, numbers, &mut buffer);
        buffer
    }

    pub fn push(&mut self, name: &str, values: &[f32]) {
        self.results.push((name.to_owned(), bits(values)));
    }

    pub fn push_rows(&mut self, name: &str, buffer: &Buffer, rows: usize, features: usize) {
        let values = self.read(buffer, rows * features);
        self.push(name, &values);
    }

    /// The elements in the backend's order, with padding.
    pub fn push_numbers(&mut self, name: &str, kind: Kind, buffer: &Buffer) {
        let mut values = vec![0.0; self.backend.element_count(kind)];
        self.backend.read_elements(buffer, 0, &mut values);
        self.push(name, &values);
    }

    pub fn read(&self, buffer: &Buffer, numbers: usize) -> Vec<f32> {
        let mut values = vec![0.0; numbers];
        self.backend.read(buffer, 0, &mut values);
        values
    }
}

/// The first number of results that differs, in a sentence.
pub fn difference(got: &Results, want: &Results) -> Option<String> {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).find_map(|((name, got), (_, want))| {
        assert_eq!(got.len(), want.len(), "{name}");
        let i = (0..got.len()).find(|&i| got[i] != want[i])?;
        let [is, must] = [got[i], want[i]].map(f32::from_bits);
        let others = (0..got.len()).filter(|&i| got[i] != want[i]).count();
        Some(format!("{name}: {is:?} instead of {must:?} at {i}, {others} of {} differ", got.len()))
    })
}

/// Panics where results differ.
#[track_caller]
pub fn assert_equal(what: &str, got: &Results, want: &Results) {
    if let Some(difference) = difference(got, want) {
        panic!("{what}: {difference}");
    }
}

/// Calls something, and returns the text of its panic.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}
