//! Buffers on the device of a backend on trial, with marked memory around an operation's own.

use crate::data::{self, POISON, assert_bits, is_poison};
use crate::models::{self, FAMILIES};
use crate::subject::{Subject, Tolerance, Variant};
use isentrope_kernels::{
    Attention, Backend, Buffer, DeviceBatch, HostBatch, Kind, Linear, Role, Run, norm,
};
use isentrope_model::Model;
use proptest::test_runner::Config;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Least number of poisoned elements behind every buffer.
const TAIL: usize = 37;

/// A backend on trial, and the state that its properties share.
pub(crate) struct Trial {
    subject: Box<dyn Subject>,
    /// A variant that holds few logits at a time, and their number.
    in_small_blocks: (Variant, usize),
    models: OnceLock<Vec<Model>>,
}

impl Trial {
    pub fn new(subject: Box<dyn Subject>) -> Self {
        Self { in_small_blocks: subject.in_small_blocks(), subject, models: OnceLock::new() }
    }

    /// The variant on which most properties are tested.
    pub fn device(&self) -> Device<'_> {
        self.devices().next().expect("a subject has a variant")
    }

    /// All variants.
    pub fn devices(&self) -> impl Iterator<Item = Device<'_>> {
        self.subject.variants().iter().map(|variant| Device { subject: &*self.subject, variant })
    }

    /// A device that holds few logits at a time, and their number.
    pub fn in_small_blocks(&self) -> (Device<'_>, usize) {
        let (variant, logits) = &self.in_small_blocks;
        (Device { subject: &*self.subject, variant }, *logits)
    }

    /// The model of a family, on that variant.
    pub fn model(&self, family: &str) -> &Model {
        let load = |name| models::model(name, self.device().backend());
        let at = FAMILIES.iter().position(|&name| name == family).unwrap();
        &self.models.get_or_init(|| FAMILIES.into_iter().map(load).collect())[at]
    }

    /// The number of random cases of a property: `all`, or fewer if the subject has less time.
    pub fn cases(&self, all: u32) -> Config {
        data::cases(self.subject.cases(all))
    }

    /// Evenly spread ones of these similar cases: all of them, or fewer if the subject has less
    /// time.
    pub fn some<T>(&self, alike: Vec<T>) -> impl Iterator<Item = T> {
        let tried = self.subject.cases(alike.len() as u32).max(1) as usize;
        let step = alike.len().div_ceil(tried).max(1);
        alike.into_iter().step_by(step)
    }

    pub fn tolerance(&self) -> Tolerance {
        self.subject.tolerance()
    }

    /// Positions in a page of keys and values.
    pub fn page(&self) -> usize {
        self.device().page_positions()
    }

    pub fn subject(&self) -> &dyn Subject {
        &*self.subject
    }
}

/// One variant of the backend on trial. Operations are called on it directly; its buffers have
/// poison behind them.
pub(crate) struct Device<'a> {
    subject: &'a dyn Subject,
    variant: &'a Variant,
}

impl Deref for Device<'_> {
    type Target = dyn Backend;
    fn deref(&self) -> &dyn Backend {
        &*self.variant.backend
    }
}

/// The role of a bias or of a norm's weights.
pub(crate) fn vector(len: usize) -> Role {
    Role::Weight(Kind::Vector(len))
}

/// The role of their gradient.
pub(crate) fn vector_gradient(len: usize) -> Role {
    Role::Gradient(Kind::Vector(len))
}

/// The role of the weights of a linear layer.
pub(crate) fn weights(shape: Linear) -> Role {
    Role::Weight(Kind::Matrix(shape))
}

/// The role of their gradient.
pub(crate) fn gradient(shape: Linear) -> Role {
    Role::Gradient(Kind::Matrix(shape))
}

/// Elements in a buffer, without padding.
fn elements(role: Role) -> usize {
    match role {
        Role::Activation(rows, features)
        | Role::OffloadedActivation(rows, features)
        | Role::Exact(rows, features) => rows * features,
        Role::Weight(kind) | Role::Frozen(kind) | Role::Gradient(kind) => match kind {
            Kind::Vector(len) => len,
            Kind::Matrix(shape) => shape.inputs * shape.outputs,
        },
        Role::Moment(elements) | Role::OffloadedMoment(elements) => elements,
        Role::Cache { .. } => panic!("nobody looks into a cache"),
    }
}

/// The role with room for poison, where rows follow one another.
fn with_tail(role: Role) -> Role {
    let longer = |rows: usize, features: usize| rows + TAIL.div_ceil(features.max(1));
    match role {
        Role::Activation(rows, features) => Role::Activation(longer(rows, features), features),
        Role::Exact(rows, features) => Role::Exact(longer(rows, features), features),
        Role::Weight(Kind::Vector(len)) => Role::Weight(Kind::Vector(len + TAIL)),
        Role::Frozen(Kind::Vector(len)) => Role::Frozen(Kind::Vector(len + TAIL)),
        Role::Gradient(Kind::Vector(len)) => Role::Gradient(Kind::Vector(len + TAIL)),
        Role::Moment(elements) => Role::Moment(elements + TAIL),
        Role::OffloadedMoment(elements) => Role::OffloadedMoment(elements + TAIL),
        Role::Weight(Kind::Matrix(_))
        | Role::Frozen(Kind::Matrix(_))
        | Role::Gradient(Kind::Matrix(_))
        | Role::OffloadedActivation(..)
        | Role::Cache { .. } => role,
    }
}

impl Device<'_> {
    /// The variant's name.
    pub fn name(&self) -> &str {
        &self.variant.name
    }

    /// Whether the variant gets large work.
    pub fn is_fast(&self) -> bool {
        self.variant.fast
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.variant.backend
    }

    /// The values as operations see them in a buffer for this role.
    pub fn seen(&self, role: Role, data: Vec<f32>) -> Vec<f32> {
        data.into_iter().map(|x| self.subject.seen(role, x)).collect()
    }

    /// Noise that fills a buffer for this role, as operations see it.
    pub fn noise(&self, role: Role, seed: u64) -> Vec<f32> {
        self.seen(role, data::noise(seed, elements(role)))
    }

    /// The noise of [`noise`](Self::noise), in a buffer.
    pub fn upload_noise(&self, role: Role, seed: u64) -> Buffer {
        self.upload(role, &self.noise(role, seed))
    }

    /// A buffer of poison, longer than the role needs.
    pub fn blank(&self, role: Role) -> Buffer {
        let mut buffer = self.buffer(with_tail(role));
        self.fill(&mut buffer, POISON);
        buffer
    }

    /// Zeros, without poison behind them.
    pub fn zeros(&self, role: Role) -> Buffer {
        self.allocate(role).unwrap()
    }

    /// A buffer of these elements, with poison behind them. A gradient's padding is zero.
    pub fn upload(&self, role: Role, data: &[f32]) -> Buffer {
        assert_eq!(data.len(), elements(role), "{role:?}");
        let mut buffer = match role {
            Role::Gradient(Kind::Matrix(_)) => self.zeros(role),
            _ => self.blank(role),
        };
        match role {
            Role::Weight(kind) | Role::Frozen(kind) | Role::Gradient(kind) => {
                self.pack(kind, 0, data, &mut buffer);
            }
            Role::Moment(_) | Role::OffloadedMoment(_) => self.write_elements(&mut buffer, 0, data),
            _ => self.write(&mut buffer, 0, data),
        }
        buffer
    }

    /// The elements of a buffer. Checks that poison still lies behind them, and that a gradient's
    /// padding is zero.
    pub fn download(&self, role: Role, buffer: &Buffer) -> Vec<f32> {
        let whole = with_tail(role);
        let mut data = vec![POISON; elements(whole)];
        match whole {
            Role::Weight(kind) | Role::Frozen(kind) | Role::Gradient(kind) => {
                self.unpack(kind, 0, buffer, &mut data);
            }
            Role::Moment(_) | Role::OffloadedMoment(_) => self.read_elements(buffer, 0, &mut data),
            _ => self.read(buffer, 0, &mut data),
        }
        let tail = data.split_off(elements(role));
        assert!(tail.into_iter().all(is_poison), "wrote beyond the end of {role:?}");
        if let Role::Gradient(kind @ Kind::Matrix(_)) = role {
            let again = self.upload(role, &data);
            let (held, clean) = (self.all_numbers(kind, buffer), self.all_numbers(kind, &again));
            assert!(held == clean, "the padding of a gradient");
        }
        data
    }

    /// The bits of a parameter's elements, padding included.
    fn all_numbers(&self, kind: Kind, buffer: &Buffer) -> Vec<u32> {
        let mut elements = vec![0.0; self.element_count(kind)];
        self.read_elements(buffer, 0, &mut elements);
        elements.into_iter().map(f32::to_bits).collect()
    }

    /// Rows of these tokens, of no sequence.
    pub fn tokens(&self, tokens: &[u32]) -> DeviceBatch {
        self.upload_batch(&HostBatch { tokens: tokens.to_vec(), ..HostBatch::default() })
    }

    /// Rows at these positions, each from another sequence.
    pub fn positions(&self, positions: &[u32]) -> DeviceBatch {
        let run = |(row, &position): (usize, &u32)| Run {
            row,
            len: 1,
            position: position as usize,
            pages: 0..0,
        };
        let runs = positions.iter().enumerate().map(run).collect();
        self.upload_batch(&HostBatch {
            tokens: vec![0; positions.len()],
            runs,
            ..HostBatch::default()
        })
    }

    /// Rows of these runs, without a cache.
    pub fn runs(&self, rows: usize, runs: &[Run]) -> DeviceBatch {
        self.upload_batch(&HostBatch {
            tokens: vec![0; rows],
            runs: runs.to_vec(),
            ..HostBatch::default()
        })
    }

    /// The norm of whole tensors together.
    pub fn norm_of(&self, tensors: &[(Kind, &Buffer)]) -> f64 {
        let sums: Vec<Vec<f32>> = tensors
            .iter()
            .map(|&(kind, tensor)| self.square_sums(&[(tensor, 0..self.element_count(kind))]))
            .collect();
        norm(sums.iter().map(Vec::as_slice))
    }
}

/// Elements in a row of attention outputs.
pub(crate) fn width(shape: Attention) -> usize {
    shape.heads * shape.head_dim
}

/// Checks that every variant gives the bits of the first one.
pub(crate) fn assert_variants_agree(
    trial: &Trial,
    results: impl Fn(&Device<'_>) -> Vec<(&'static str, Vec<f32>)>,
) {
    let first = results(&trial.device());
    for device in trial.devices().skip(1) {
        for ((what, want), (_, got)) in first.iter().zip(results(&device)) {
            assert_bits(&format!("{what} on {}", device.name()), &got, want);
        }
    }
}
