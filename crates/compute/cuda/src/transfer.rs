//! Copies between host and device: rows, parameters, elements.

use crate::buffer::{CudaBuffer, Tail};
use crate::catalog::{FILL_RANDOM, PACK_EXACT, PACK_SPLIT, UNPACK_EXACT, UNPACK_SPLIT};
use crate::cuda::{Cuda, lines};
use crate::kernels::Grid;
use crate::layout::{Element, Layout};
use half::bf16;
use isentrope_kernels::{Buffer, Kind, Linear};
use std::ops::Range;

/// Elements that are copied by way of the host at a time.
const COPIED: usize = 1 << 18;

/// The upper half of an f32, as a weight is split: rounded to nearest, ties away from zero; NaN
/// stays NaN.
fn split(x: f32) -> (u16, u16) {
    let image = if x.is_nan() { (x.to_bits() | 0x0040_0000) & 0xffff_0000 } else { x.to_bits() };
    ((image.wrapping_add(0x8000) >> 16) as u16, image as u16)
}

impl Cuda {
    /// Sets every element of a buffer, padding included.
    pub(crate) fn fill_whole(&self, buffer: &CudaBuffer, value: f32) {
        *buffer.tail() = Tail::default();
        let elements = buffer.layout.elements();
        if buffer.host.is_some() {
            self.write_range(buffer, 0, &vec![value; elements]);
            return;
        }
        match buffer.layout.element {
            Element::F32 => self.fill_words(buffer.start(), elements, value.to_bits()),
            Element::Bf16 => {
                self.fill_halves(buffer.start(), elements, bf16::from_f32(value).to_bits());
            }
            Element::Frozen => self.fill_halves(buffer.start(), elements, split(value).0),
            Element::Split => {
                let (upper, rest) = split(value);
                self.fill_halves(buffer.start(), elements, upper);
                self.fill_halves(buffer.rest(), elements, rest);
            }
        }
        if value.to_bits() == 0 {
            buffer.set_zero();
        }
    }

    /// Draws a weight's elements on the device, padding included: bf16, evenly from `-range` to
    /// `range`. For measurements of models without uploading weights.
    ///
    /// # Panics
    /// When the buffer is no weight, or elements are kept as f32.
    pub fn draw_weight(&self, weight: &mut Buffer, seed: u64, range: f32) {
        let weight: &CudaBuffer = weight.of();
        let element = weight.layout.element;
        assert!(
            matches!(element, Element::Split | Element::Frozen),
            "only weights that are kept as bf16 are drawn"
        );
        let halves = weight.layout.elements();
        FILL_RANDOM.launch(
            &*self.device,
            lines(halves),
            (weight.start(), halves as u64, seed, range),
        );
        if element == Element::Split {
            self.fill_halves(weight.rest(), halves, 0);
        }
    }

    pub(crate) fn write_rows(&self, buffer: &CudaBuffer, first: usize, rows: &[f32]) {
        let Layout { element, features, stride, .. } = buffer.layout;
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        let count = rows.len() / features.max(1);
        buffer.rows_from(first, count, features);
        if rows.is_empty() {
            return;
        }
        let at = first * stride * element.bytes();
        match element {
            Element::F32 => self.device.upload(bytemuck::cast_slice(rows), buffer.memory(), at),
            Element::Bf16 => {
                let mut halves = vec![0u16; count * stride];
                for (to, from) in halves.chunks_exact_mut(stride).zip(rows.chunks_exact(features)) {
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, &from)| *to = bf16::from_f32(from).to_bits());
                }
                self.device.upload(bytemuck::cast_slice(&halves), buffer.memory(), at);
            }
            Element::Split | Element::Frozen => panic!("weights are packed, not written"),
        }
    }

    pub(crate) fn read_rows(&self, buffer: &CudaBuffer, first: usize, rows: &mut [f32]) {
        let Layout { features, stride, .. } = buffer.layout;
        assert!(rows.len().is_multiple_of(features.max(1)), "part of a row");
        let count = rows.len() / features.max(1);
        buffer.rows_from(first, count, features);
        if rows.is_empty() {
            return;
        }
        let mut elements = vec![0.0; count * stride];
        self.read_range(buffer, first * stride, &mut elements);
        for (to, from) in rows.chunks_exact_mut(features).zip(elements.chunks_exact(stride)) {
            to.copy_from_slice(&from[..features]);
        }
    }

    /// Copies the first rows of a buffer to another of the same type. One of the two may wait in
    /// the host's memory.
    pub(crate) fn copy_first(&self, from: &CudaBuffer, to: &CudaBuffer, rows: usize) {
        let Layout { element, features, stride, .. } = from.layout;
        from.bytes_before(0, rows, features);
        to.bytes_before(0, rows, features);
        assert!(to.layout.element == element && to.layout.stride == stride, "rows of another kind");
        let bytes = rows * stride * element.bytes();
        match (&from.waiting, &to.waiting) {
            (None, Some(host)) => host.copy_out(&self.device, from.memory(), bytes),
            (Some(host), None) => host.copy_in(&self.device, to.memory(), bytes),
            // An ordinary launch, without the rows of padding.
            _ if self.device.is_recording() => self.copy_rows(from, None, to, None, rows),
            _ if bytes > 0 => self.device.copy(from.memory(), 0, to.memory(), 0, bytes),
            _ => {}
        }
    }

    pub(crate) fn pack_rows(&self, kind: Kind, first: usize, rows: &[f32], packed: &CudaBuffer) {
        let Part { inputs, outputs, stride, count } = Part::new(kind, first, rows.len(), packed);
        if rows.is_empty() {
            return;
        }
        self.settle(packed);
        let grid = Grid::line(rows.len().div_ceil(256), 256);
        let uploaded = self.uploaded(rows);
        match packed.layout.element {
            Element::F32 => PACK_EXACT.launch(
                &*self.device,
                grid,
                (uploaded.at(0), packed.start(), first, count, inputs, outputs, stride),
            ),
            Element::Split | Element::Frozen => PACK_SPLIT.launch(
                &*self.device,
                grid,
                (
                    uploaded.at(0),
                    packed.start(),
                    packed.rest(),
                    first as u64,
                    count,
                    inputs,
                    stride,
                ),
            ),
            Element::Bf16 => panic!("activations are written, not packed"),
        }
    }

    pub(crate) fn unpack_rows(
        &self,
        kind: Kind,
        first: usize,
        packed: &CudaBuffer,
        rows: &mut [f32],
    ) {
        let Part { inputs, outputs, stride, count } = Part::new(kind, first, rows.len(), packed);
        if rows.is_empty() {
            return;
        }
        self.settle(packed);
        let grid = Grid::line(rows.len().div_ceil(256), 256);
        let unpacked = self.scratch(4 * rows.len());
        match packed.layout.element {
            Element::F32 => UNPACK_EXACT.launch(
                &*self.device,
                grid,
                (packed.start(), unpacked.at(0), first, count, inputs, outputs, stride),
            ),
            Element::Split | Element::Frozen => UNPACK_SPLIT.launch(
                &*self.device,
                grid,
                (
                    packed.start(),
                    packed.rest(),
                    unpacked.at(0),
                    first as u64,
                    count,
                    inputs,
                    stride,
                ),
            ),
            Element::Bf16 => panic!("activations are read, not unpacked"),
        }
        self.device.download(unpacked.memory(), 0, bytemuck::cast_slice_mut(rows));
    }

    /// Copies elements between buffers: on the device where both are there and of types of which no
    /// number changes, else by way of the host.
    pub(crate) fn copy_range(
        &self,
        from: &CudaBuffer,
        elements: Range<usize>,
        to: &CudaBuffer,
        first: usize,
    ) {
        let (start, count) = (elements.start, elements.len());
        self.settle(from);
        if from.host.is_none()
            && to.host.is_none()
            && let Some(places) = bytes_alike(&from.layout, &elements, &to.layout, first)
        {
            assert!(
                elements.end <= from.layout.elements() && first + count <= to.layout.elements(),
                "elements beyond the end"
            );
            self.settle(to);
            for (at, to_at, bytes) in places {
                if bytes > 0 {
                    self.device.copy(from.memory(), at, to.memory(), to_at, bytes);
                }
            }
            return;
        }
        let mut piece = vec![0.0; COPIED.min(count)];
        for done in (0..count).step_by(COPIED) {
            let piece = &mut piece[..COPIED.min(count - done)];
            self.read_range(from, start + done, piece);
            self.write_range(to, first + done, piece);
        }
    }

    pub(crate) fn write_range(&self, to: &CudaBuffer, first: usize, elements: &[f32]) {
        assert!(first + elements.len() <= to.layout.elements(), "elements beyond the end");
        if elements.is_empty() {
            return;
        }
        self.settle(to);
        if let Some(host) = &to.host {
            self.device.write_host(bytemuck::cast_slice(elements), host, 4 * first);
            return;
        }
        match to.layout.element {
            Element::F32 => {
                self.device.upload(bytemuck::cast_slice(elements), to.memory(), 4 * first);
            }
            Element::Frozen => {
                let upper: Vec<u16> = elements.iter().map(|&x| split(x).0).collect();
                self.device.upload(bytemuck::cast_slice(&upper), to.memory(), 2 * first);
            }
            Element::Split => {
                let (upper, rest): (Vec<u16>, Vec<u16>) =
                    elements.iter().map(|&x| split(x)).unzip();
                let (memory, rest_at) =
                    (to.memory(), to.layout.rest_at(&(first..first + elements.len())));
                self.device.upload(bytemuck::cast_slice(&upper), memory, 2 * first);
                self.device.upload(bytemuck::cast_slice(&rest), memory, rest_at);
            }
            Element::Bf16 => panic!("activations are written by rows"),
        }
    }
}

/// Where the bytes of elements are, where they go, and how many: what is copied where one type has
/// the bytes of the other. None if it has not.
fn bytes_alike(
    from: &Layout,
    elements: &Range<usize>,
    to: &Layout,
    first: usize,
) -> Option<Vec<(usize, usize, usize)>> {
    let count = elements.len();
    let upper = (2 * elements.start, 2 * first, 2 * count);
    match (from.element, to.element) {
        (Element::F32, Element::F32) => Some(vec![(4 * elements.start, 4 * first, 4 * count)]),
        (Element::Split, Element::Frozen) => Some(vec![upper]),
        (Element::Split, Element::Split) => {
            let rests = (from.rest_at(elements), to.rest_at(&(first..first + count)), 2 * count);
            Some(vec![upper, rests])
        }
        _ => None,
    }
}

/// Whole rows of a parameter, as arguments of kernels.
struct Part {
    inputs: usize,
    outputs: usize,
    stride: usize,
    count: usize,
}

impl Part {
    /// `elements` elements, which are the rows `first ..`.
    ///
    /// # Panics
    /// When they are not whole rows of that parameter.
    fn new(kind: Kind, first: usize, elements: usize, packed: &CudaBuffer) -> Self {
        match kind {
            // A vector is a column: its rows have one element.
            Kind::Vector(_) => {
                packed.vector(first + elements);
                Self { inputs: 1, outputs: packed.layout.features, stride: 1, count: elements }
            }
            Kind::Matrix(shape) => {
                packed.matrix(shape);
                assert!(elements.is_multiple_of(shape.inputs.max(1)), "part of a row");
                let count = elements / shape.inputs.max(1);
                assert!(first + count <= shape.outputs, "rows {first} .. + {count} of {shape:?}");
                let Linear { inputs, outputs } = shape;
                Self { inputs, outputs, stride: packed.layout.matrix_stride(), count }
            }
        }
    }
}
