//! A model on a device: configuration, layout and weights, loaded from a checkpoint and saved to
//! one.

use crate::adapter::Adapter;
use crate::checkpoint::{Checkpoint, WriteOptions, write_checkpoint};
use crate::config::{ModelConfig, Scales};
use crate::layout::Layout;
use crate::parameters::Parameters;
use crate::rope_table::RopeTable;
use crate::{Error, Result};
use isentrope_kernels::{Backend, Buffer, Kind, Role};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tensor of an output head.
const HEAD: &str = "lm_head.weight";
/// The tensor of the embedding.
const EMBEDDING: &str = "model.embed_tokens.weight";

/// A decoder that can run: forward, backward, step by step.
pub struct Model {
    /// The contents of config.json.
    pub config: ModelConfig,
    /// The place of each tensor.
    pub layout: Layout,
    /// The weights, in `layout`. Models that train adapters beside the same weights share them.
    pub weights: Arc<Parameters>,
    /// The weights of the adapter in `layout`.
    pub adapter: Option<Adapter>,
    /// The device.
    pub backend: Arc<dyn Backend>,
    pub(crate) rope: Arc<RopeTable>,
    pub(crate) scales: Arc<ScaleBuffers>,
    /// A number that no other model of the process has.
    pub(crate) number: u64,
}

/// The model's factors for [`Backend::scale_rows`], `[1, hidden]` each.
pub(crate) struct ScaleBuffers {
    pub embeddings: Option<Buffer>,
    pub branches: Option<Buffer>,
    pub hidden: Option<Buffer>,
}

impl ScaleBuffers {
    fn new(config: &ModelConfig, backend: &dyn Backend) -> Self {
        let Scales { embeddings, branches, hidden, .. } = config.scales;
        let buffer = |factor: f32| {
            let mut factors = backend.buffer(Role::Exact(1, config.hidden_size));
            backend.fill(&mut factors, factor);
            factors
        };
        Self {
            embeddings: embeddings.map(buffer),
            branches: branches.map(buffer),
            hidden: hidden.map(buffer),
        }
    }
}

impl Model {
    pub(crate) fn new(
        config: ModelConfig,
        layout: Layout,
        weights: Parameters,
        backend: Arc<dyn Backend>,
    ) -> Self {
        let weights = Arc::new(weights);
        let rope = Arc::new(RopeTable::new(&config));
        let scales = Arc::new(ScaleBuffers::new(&config, &*backend));
        Self { config, layout, weights, adapter: None, backend, rope, scales, number: number() }
    }

    /// The model without its adapter. It shares the rest.
    #[must_use]
    pub fn base(&self) -> Self {
        let Self { config, layout, weights, backend, rope, scales, .. } = self;
        Self {
            config: config.clone(),
            layout: Layout { adapter: None, ..layout.clone() },
            weights: weights.clone(),
            adapter: None,
            backend: backend.clone(),
            rope: rope.clone(),
            scales: scales.clone(),
            number: number(),
        }
    }

    /// The model without an adapter and without its weights: what reads a weight that has not been
    /// [put](Parameters::put_back) there panics.
    #[must_use]
    pub fn without_weights(&self) -> Self {
        let base = self.base();
        let weights = Parameters::without_memory(&*base.backend, &base.layout.parameters);
        Self { weights: Arc::new(weights), ..base }
    }

    /// The weights that training changes.
    pub fn trained(&self) -> &Parameters {
        self.adapter.as_ref().map_or(&*self.weights, |adapter| &adapter.weights)
    }

    /// The weights that training changes.
    ///
    /// # Panics
    /// When they are the model's own and shared.
    pub fn trained_mut(&mut self) -> &mut Parameters {
        match &mut self.adapter {
            Some(adapter) => &mut adapter.weights,
            None => Arc::get_mut(&mut self.weights).expect("trained weights are not shared"),
        }
    }

    /// As [`trained_mut`](Self::trained_mut), for buffers to take the place of others: no step that
    /// a device has captured reads the new ones.
    ///
    /// # Panics
    /// As [`trained_mut`](Self::trained_mut).
    pub fn trained_elsewhere(&mut self) -> &mut Parameters {
        self.number = number();
        self.trained_mut()
    }

    /// Loads a Hugging Face model directory.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it, or what in it is not supported.
    pub fn load(dir: &Path, backend: Arc<dyn Backend>) -> Result<Self> {
        Self::load_as(dir, backend, Role::Weight)
    }

    /// Loads a Hugging Face model directory whose weights never change: a device may keep them in
    /// less memory.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_frozen(dir: &Path, backend: Arc<dyn Backend>) -> Result<Self> {
        Self::load_as(dir, backend, Role::Frozen)
    }

    fn load_as(dir: &Path, backend: Arc<dyn Backend>, role: fn(Kind) -> Role) -> Result<Self> {
        let (config, layout, checkpoint) = open(dir)?;
        let weights = Parameters::read(&*backend, &layout.parameters, role, &checkpoint, "")?;
        Ok(Self::new(config, layout, weights, backend))
    }

    /// Loads a Hugging Face model directory on a rank that trains it with others, and updates the
    /// elements that `own` gives for each parameter: where weights are in two parts, the rank has
    /// the remainders of these elements alone. `exact` has weights of more precision in place of
    /// the directory's, if there are any.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_slice(
        dir: &Path,
        exact: Option<&Checkpoint>,
        backend: Arc<dyn Backend>,
        own: impl Fn(&Layout) -> Vec<Range<usize>>,
    ) -> Result<Self> {
        let (config, layout, checkpoint) = open(dir)?;
        let (checkpoint, list) = (exact.unwrap_or(&checkpoint), &layout.parameters);
        Parameters::expect(list, checkpoint, "")?;
        let weights = Parameters::slice(&*backend, list, &own(&layout), |parameter, weights| {
            Parameters::fill_one(&*backend, weights, parameter, checkpoint, "")
        })?;
        Ok(Self::new(config, layout, weights, backend))
    }

    /// Checks the weights of a Hugging Face model directory. It reads all of them and keeps none.
    ///
    /// # Errors
    /// Those of [`load`](Self::load) that are about the files.
    pub fn check_weights(dir: &Path) -> Result<()> {
        let (_, layout, checkpoint) = open(dir)?;
        Parameters::check(&layout.parameters, &checkpoint, "")
    }

    /// Writes a Hugging Face model directory that transformers and vLLM load, without the adapter.
    ///
    /// # Errors
    /// As [`write_checkpoint`].
    pub fn save(&self, dir: &Path, options: WriteOptions<'_>) -> Result<()> {
        let tensors = self.weights.tensors(&*self.backend, &self.layout.parameters, "");
        write_checkpoint(dir, &self.config.json, tensors, options)
    }

    /// Checks tokens against the vocabulary and the context.
    ///
    /// # Errors
    /// [`Error::Input`] naming the first offending token, or both lengths.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        let vocabulary = self.config.vocab_size;
        if let Some((i, token)) =
            tokens.iter().enumerate().find(|&(_, &t)| t as usize >= vocabulary)
        {
            return Err(Error::Input(format!(
                "token {token} at index {i} is outside the model's vocabulary of {vocabulary}"
            )));
        }
        let context = self.context();
        if tokens.len() > context {
            return Err(Error::Input(format!(
                "{} tokens do not fit the model's context of {context}",
                tokens.len()
            )));
        }
        Ok(())
    }

    /// The model's context, in tokens.
    pub fn context(&self) -> usize {
        self.config.context()
    }
}

/// A number that no other model has, and none had before.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Opens the weights of a model directory, which are the model's and no others.
fn open(dir: &Path) -> Result<(ModelConfig, Layout, Checkpoint)> {
    let config = ModelConfig::read(dir)?;
    let checkpoint = Checkpoint::open_model(dir)?;
    let layout = Layout::new(&config);
    expect_tensors(dir, &config, &layout, &checkpoint)?;
    Ok((config, layout, checkpoint))
}

/// Checks that a checkpoint has the tensors of a model and no others.
pub(crate) fn expect_tensors(
    dir: &Path,
    config: &ModelConfig,
    layout: &Layout,
    checkpoint: &Checkpoint,
) -> Result<()> {
    Parameters::expect(&layout.parameters, checkpoint, "")?;
    let mut taken: Vec<&str> =
        layout.parameters.tensors().map(|(_, _, t)| t.name.as_str()).collect();
    if config.tie_word_embeddings {
        taken.push(HEAD); // a copy of the embedding that some exports keep
    }
    let mut unused = checkpoint.unused(taken);
    // Layers that predict further tokens, which loaders pass over.
    unused.retain(|name| config.delta.is_none() || !name.starts_with("mtp."));
    if let [first, rest @ ..] = unused.as_slice() {
        let others = if rest.is_empty() {
            String::new()
        } else {
            format!(" and {} other tensors", rest.len())
        };
        return Err(Error::unsupported(
            dir,
            format!(
                "tensor {first}{others}: a {} of this configuration has no such weights",
                config.family.architecture
            ),
        ));
    }
    if config.tie_word_embeddings && checkpoint.shape(HEAD).is_some() {
        expect_copy_of_embedding(dir, checkpoint, layout)?;
    }
    Ok(())
}

/// A head that is tied and yet saved with its own values is refused: loaders disagree on which
/// values count.
fn expect_copy_of_embedding(dir: &Path, checkpoint: &Checkpoint, layout: &Layout) -> Result<()> {
    let vocabulary = layout.shapes.vocabulary;
    let shape = [vocabulary.outputs, vocabulary.inputs];
    if checkpoint.same_values(HEAD, EMBEDDING, &shape)? {
        return Ok(());
    }
    let what = format!(
        "tensor {HEAD} differs from {EMBEDDING}, though tie_word_embeddings is \
         true; set it to false in config.json, or remove the tensor"
    );
    Err(Error::invalid(dir, what))
}
