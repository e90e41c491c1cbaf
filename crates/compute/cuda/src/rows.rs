//! Copies, sums and row selection, and embeddings.

use crate::batch::CudaBatch;
use crate::buffer::CudaBuffer;
use crate::catalog::{
    ADD, ADD_EMBEDDING_ROWS, COPY_ROWS, EMBED, EMBED_BACKWARD_BF16, SCALE_ROWS, SCATTER_ROWS,
};
use crate::cuda::{Cuda, lines};
use crate::dtype::Dtype;
use crate::index::CudaIndex;
use crate::kernels::Pointer;
use crate::layout::{Element, Layout};
use isentrope_kernels::Linear;
use std::collections::HashSet;

/// The type that selects the kernels for a buffer.
pub(crate) fn dtype_of(buffer: &CudaBuffer) -> Dtype {
    match buffer.layout.element {
        Element::F32 => Dtype::F32,
        Element::Bf16 => Dtype::Bf16,
        Element::Split | Element::Frozen => panic!("an operation on rows of weights"),
    }
}

impl Cuda {
    /// `to[slots[i]] = from[rows[i]]`, whole rows. Without rows or without slots, `i` itself takes
    /// their place.
    pub(crate) fn copy_rows(
        &self,
        from: &CudaBuffer,
        rows: Option<&CudaIndex>,
        to: &CudaBuffer,
        slots: Option<&CudaIndex>,
        count: usize,
    ) {
        let features = from.layout.features;
        assert!(
            to.layout.features == features && from.layout.element == to.layout.element,
            "rows of another kind"
        );
        match rows {
            Some(rows) => rows.check(from.layout.rows, "there is no row"),
            None => assert!(count <= from.layout.rows, "{count} rows of {}", from.layout.rows),
        }
        match slots {
            Some(slots) => slots.check_slots(to.layout.rows, "a slot beyond the end:"),
            None => assert!(count <= to.layout.rows, "{count} rows of {}", to.layout.rows),
        }
        let of = |index: Option<&CudaIndex>| index.map_or(Pointer::NULL, CudaIndex::start);
        let (from_stride, to_stride) = (from.layout.stride, to.layout.stride);
        let (rows, slots) = (of(rows), of(slots));
        COPY_ROWS.of(dtype_of(from)).launch(
            &*self.device,
            lines(count * features),
            (from.start(), rows, to.start(), slots, count, features, from_stride, to_stride),
        );
    }

    /// As [`copy_rows`](Self::copy_rows), in order: if several rows go to one slot, the last one
    /// stays.
    pub(crate) fn store_in_order(
        &self,
        from: &CudaBuffer,
        rows: &CudaIndex,
        to: &CudaBuffer,
        slots: &CudaIndex,
    ) {
        assert_eq!(rows.len(), slots.len());
        if slots.is_distinct() {
            return self.copy_rows(from, Some(rows), to, Some(slots), rows.len());
        }
        let mut taken = HashSet::new();
        let last: Vec<usize> =
            (0..slots.len()).rev().filter(|&i| taken.insert(slots.host[i])).collect();
        let some =
            |of: &CudaIndex| self.indexed(&last.iter().map(|&i| of.host[i]).collect::<Vec<_>>());
        self.copy_rows(from, Some(&some(rows)), to, Some(&some(slots)), last.len());
    }

    /// `to[rows[i]] += from[i]` in order, from zeros in the first `total` rows.
    pub(crate) fn scatter(
        &self,
        from: &CudaBuffer,
        rows: &CudaIndex,
        to: &CudaBuffer,
        total: usize,
    ) {
        let features = from.layout.features;
        from.rows(rows.len(), features);
        to.rows(total, features);
        rows.check(total, "there is no row");
        let element = to.layout.element;
        assert_eq!(from.layout.element, element);
        if total > 0 {
            self.device.clear(to.memory(), 0, total * to.layout.stride * element.bytes());
        }
        let groups = rows.groups(|words| self.uploaded(words));
        SCATTER_ROWS.of(dtype_of(to)).launch(
            &*self.device,
            lines(groups.len * features),
            (
                from.start(),
                groups.keys(),
                groups.starts(),
                groups.order(),
                to.start(),
                groups.len,
                features,
                from.layout.stride,
                to.layout.stride,
            ),
        );
    }

    /// `to += from` over the whole of two buffers of one role.
    pub(crate) fn add_whole(&self, from: &CudaBuffer, to: &CudaBuffer) {
        assert_eq!(from.layout, to.layout, "two buffers of different roles");
        self.settle(from);
        self.settle(to);
        self.add_elements(from, to, from.layout.elements());
    }

    /// `to += from` over the first rows. What pads them is added too.
    pub(crate) fn add_first(&self, from: &CudaBuffer, to: &CudaBuffer, rows: usize) {
        let Layout { element, features, stride, .. } = from.layout;
        from.rows(rows, features);
        to.rows(rows, features);
        assert!(to.layout.element == element && to.layout.stride == stride, "rows of another kind");
        self.add_elements(from, to, rows * stride);
    }

    fn add_elements(&self, from: &CudaBuffer, to: &CudaBuffer, count: usize) {
        ADD.of(dtype_of(from)).launch(
            &*self.device,
            lines(count),
            (from.start(), to.start(), count as u64),
        );
    }

    /// `x *= factors`, row by row.
    pub(crate) fn scale(&self, factors: &CudaBuffer, x: &CudaBuffer, rows: usize) {
        let features = factors.layout.features;
        assert_eq!(factors.layout.element, Element::F32, "factors are exact");
        SCALE_ROWS.of(dtype_of(x)).launch(
            &*self.device,
            lines(rows * features),
            (factors.rows(1, features), x.rows(rows, features), rows, features, x.layout.stride),
        );
    }

    /// `to *= factors` over the whole of two gradients of one parameter.
    pub(crate) fn multiply_whole(&self, factors: &CudaBuffer, to: &CudaBuffer) {
        assert_eq!(factors.layout, to.layout, "gradients of different parameters");
        assert_eq!(to.layout.element, Element::F32, "gradients are exact");
        self.settle(factors);
        self.settle(to);
        let count = to.layout.elements();
        SCALE_ROWS.of(Dtype::F32).launch(
            &*self.device,
            lines(count),
            (factors.start(), to.start(), 1, count, count),
        );
    }

    pub(crate) fn look_up(
        &self,
        vocabulary: Linear,
        packed: &CudaBuffer,
        batch: &CudaBatch,
        y: &CudaBuffer,
    ) {
        let rows = batch.rows();
        let Linear { inputs, outputs } = vocabulary;
        assert!(
            batch.host_tokens().all(|token| (token as usize) < outputs),
            "a token beyond the vocabulary"
        );
        EMBED.of(self.dtype).launch(
            &*self.device,
            lines(rows * inputs),
            (
                packed.matrix(vocabulary),
                batch.tokens(),
                batch.drawn(),
                y.rows(rows, inputs),
                rows,
                inputs,
                outputs,
                packed.layout.matrix_stride(),
                y.layout.stride,
            ),
        );
    }

    /// `rows[slots[t]] += dy[t]` in the order of tokens.
    pub(crate) fn add_embedded(&self, slots: &CudaIndex, dy: &CudaBuffer, rows: &CudaBuffer) {
        let hidden = rows.layout.features;
        let dy_start = dy.rows(slots.len(), hidden);
        slots.check(rows.layout.rows, "there is no slot");
        assert_eq!(rows.layout.element, Element::F32, "sums are exact");
        let groups = slots.groups(|words| self.uploaded(words));
        let kernel = match dtype_of(dy) {
            Dtype::F32 => SCATTER_ROWS.of(Dtype::F32),
            Dtype::Bf16 => &EMBED_BACKWARD_BF16,
        };
        kernel.launch(
            &*self.device,
            lines(groups.len * hidden),
            (
                dy_start,
                groups.keys(),
                groups.starts(),
                groups.order(),
                rows.start(),
                groups.len,
                hidden,
                dy.layout.stride,
                rows.layout.stride,
            ),
        );
    }

    /// `packed[tokens[slot]] += rows[slot]`.
    pub(crate) fn add_to_embedding(
        &self,
        vocabulary: Linear,
        rows: &CudaBuffer,
        tokens: &CudaIndex,
        packed: &CudaBuffer,
    ) {
        let Linear { inputs, outputs } = vocabulary;
        tokens.check(outputs, "there is no token");
        self.settle(packed);
        ADD_EMBEDDING_ROWS.launch(
            &*self.device,
            lines(tokens.len() * inputs),
            (
                rows.rows(tokens.len(), inputs),
                tokens.start(),
                packed.matrix(vocabulary),
                tokens.len(),
                inputs,
                outputs,
                packed.layout.matrix_stride(),
            ),
        );
    }
}
