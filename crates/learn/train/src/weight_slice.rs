//! A rank's slice of the weights that training changes. The model has all of them while it samples
//! and is evaluated; with `ranks.shard = "weights"` a rank has its slice alone while an update
//! learns, and the groups that passes go through are gathered in turn (ZeRO stage 3,
//! arXiv:1910.02054).

use crate::error::Result;
use crate::gathering::{Gathering, OwnPart, SlicedSet};
use crate::ranks::TrainingRanks;
use crate::shards::no_room;
use isentrope_kernels::{Backend, Buffer, Kind, Role};
use isentrope_model::{Error as ModelError, Model};
use isentrope_ranks::Slices;
use isentrope_trace::span;
use std::ops::Range;

/// This rank's elements of each parameter, exact, wherever they are.
pub struct WeightSlice {
    parts: Vec<Part>,
    slices: Slices,
    /// Each group's parameters, and their slices.
    groups: Vec<(Range<usize>, Slices)>,
    is_whole: bool,
}

/// The slice's part of one parameter.
struct Part {
    parameter: usize,
    elements: Range<usize>,
    /// The elements, if the model has none of the parameter's weights.
    apart: Option<Buffer>,
}

impl WeightSlice {
    /// The slice of a model that has all weights.
    pub fn new(model: &Model, ranks: &TrainingRanks) -> Self {
        let slices = ranks.slices(model);
        let part = |(parameter, elements)| Part { parameter, elements, apart: None };
        let parts = slices.by_parameter(&slices.of_rank(ranks.rank())).map(part).collect();
        Self { parts, groups: slices.groups().collect(), slices, is_whole: true }
    }

    /// Whether the model has all weights.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The slice, if the model has no weights.
    pub fn if_apart(&self) -> Option<&Self> {
        (!self.is_whole).then_some(self)
    }

    /// Takes the slice out of the model, which has no weights then. Nothing is exchanged.
    ///
    /// # Errors
    /// When there is no memory: for a moment there is one parameter's part twice.
    pub fn take_apart(&mut self, model: &mut Model) -> Result<()> {
        if !self.is_whole {
            return Ok(());
        }
        self.is_whole = false;
        let b = model.backend.clone();
        let weights = model.trained_elsewhere();
        let mut parts = self.parts.iter_mut().peekable();
        for parameter in 0..weights.buffers().len() {
            if let Some(part) = parts.next_if(|part| part.parameter == parameter) {
                let apart = b.allocate(Role::Weight(Kind::Vector(part.elements.len())));
                let mut apart =
                    apart.map_err(ModelError::from).map_err(no_room("slices of weights"))?;
                let from = &weights.buffers()[parameter];
                b.copy_elements(from, part.elements.clone(), &mut apart, 0);
                part.apart = Some(apart);
            }
            weights.take(&*b, parameter..parameter + 1);
        }
        Ok(())
    }

    /// Gives the model all weights again. All ranks call it together.
    ///
    /// # Errors
    /// As [`take_apart`](Self::take_apart); when another rank has failed.
    pub fn make_whole(&mut self, model: &mut Model, ranks: &TrainingRanks) -> Result<()> {
        if self.is_whole {
            return Ok(());
        }
        let _span = span("gather the weights");
        let (b, kinds) = (model.backend.clone(), kinds(model));
        let weights = model.trained_elsewhere();
        let mut parts = self.parts.iter_mut().peekable();
        for (parameter, kind) in kinds.into_iter().enumerate() {
            let mut part = parts.next_if(|part| part.parameter == parameter);
            let own = part.as_ref().map_or(0..0, |part| part.elements.clone());
            let whole = match b.split_weights() {
                Some(split) => split.allocate_slice(kind, own.clone()),
                None => b.allocate(Role::Weight(kind)),
            };
            let mut whole = whole.map_err(ModelError::from).map_err(no_room("whole weights"))?;
            if let Some(apart) = part.as_mut().and_then(|part| part.apart.take()) {
                b.copy_elements(&apart, 0..own.len(), &mut whole, own.start);
            }
            weights.put_back(parameter, vec![whole]);
        }
        self.is_whole = true;
        for (parameters, slices) in &self.groups {
            ranks.share_read(&*b, &mut weights.buffers_mut()[parameters.clone()], slices)?;
        }
        Ok(())
    }

    /// Gathers what operations read of a group's weights. `group` is its number in
    /// [`ParameterList::groups`](isentrope_model::ParameterList::groups); `weights` has a buffer of
    /// [`Role::Frozen`] for each of its parameters. All ranks gather groups in the same order.
    ///
    /// # Errors
    /// When another rank has failed.
    ///
    /// # Panics
    /// When the model has the weights.
    pub fn gather(
        &self,
        backend: &dyn Backend,
        ranks: &TrainingRanks,
        group: usize,
        weights: &mut [Buffer],
    ) -> Result<()> {
        let (parameters, slices) = &self.groups[group];
        for part in self.parts.iter().filter(|part| parameters.contains(&part.parameter)) {
            let (own, to) = (&part.elements, &mut weights[part.parameter - parameters.start]);
            let apart = part.apart.as_ref().expect("groups are gathered while the slice is apart");
            backend.copy_elements(apart, 0..own.len(), to, own.start);
        }
        ranks.share_read(backend, weights, slices)
    }

    /// The elements, in the order of parameters.
    pub fn own<'a>(&'a self, model: &'a Model) -> Vec<(&'a Buffer, Range<usize>)> {
        let own = self.parts.iter().map(|part| match &part.apart {
            Some(apart) => (apart, 0..part.elements.len()),
            None => (&model.trained().buffers()[part.parameter], part.elements.clone()),
        });
        own.collect()
    }

    /// The elements, as [`own`](Self::own), to be updated.
    pub fn own_mut<'a>(&'a mut self, model: &'a mut Model) -> Vec<(&'a mut Buffer, Range<usize>)> {
        if !self.is_whole {
            let own = self.parts.iter_mut().map(|Part { elements, apart, .. }| {
                (apart.as_mut().expect("the slice is apart"), 0..elements.len())
            });
            return own.collect();
        }
        let mut parts = self.parts.iter().peekable();
        let buffers = model.trained_mut().buffers_mut().iter_mut().enumerate();
        let own = buffers.filter_map(|(index, buffer)| {
            let part = parts.next_if(|part| part.parameter == index)?;
            Some((buffer, part.elements.clone()))
        });
        own.collect()
    }

    /// The weights of all ranks, exact also where a rank has but its slice of them.
    pub(crate) fn gathering<'a>(
        &'a self,
        model: &'a Model,
        ranks: &'a TrainingRanks,
    ) -> Gathering<'a> {
        let parts = self.parts.iter().zip(self.own(model));
        let own = parts.map(|(part, (buffer, at))| OwnPart {
            parameter: part.parameter,
            elements: part.elements.clone(),
            buffer,
            first: at.start,
        });
        let set = SlicedSet { prefix: "", own: own.collect() };
        Gathering::new(model, ranks, &self.slices, vec![set])
    }
}

fn kinds(model: &Model) -> Vec<Kind> {
    model.layout.trained().iter().map(|parameter| parameter.kind).collect()
}
