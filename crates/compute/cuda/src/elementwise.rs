//! Rotary embedding and gated linear units.

use crate::batch::CudaBatch;
use crate::buffer::CudaBuffer;
use crate::catalog::{GLU, GLU_BACKWARD, ROPE};
use crate::cuda::{Cuda, lines};
use crate::kernels::Grid;
use crate::norm::check;
use isentrope_kernels::{Gate, Grouped, Turn};

impl Cuda {
    pub(crate) fn rotate(
        &self,
        layout: Grouped,
        x: &CudaBuffer,
        cos: &CudaBuffer,
        sin: &CudaBuffer,
        batch: &CudaBatch,
        turn: Turn,
    ) {
        check(layout);
        let Grouped { stride, offset, groups, features } = layout;
        assert!(features.is_multiple_of(2), "pairs of {features}");
        let (rows, half) = (batch.rows(), features / 2);
        let (cos, sin) =
            (cos.rows(batch.positions_end(), half), sin.rows(batch.positions_end(), half));
        let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
        ROPE.of(self.dtype).launch(
            &*self.device,
            Grid::line((rows * groups * half).div_ceil(256), 256),
            (
                x.rows(rows, stride),
                cos,
                sin,
                batch.positions(),
                rows,
                x.layout.stride,
                offset,
                groups,
                half,
                sign,
            ),
        );
    }

    pub(crate) fn gate(
        &self,
        by: Gate,
        features: usize,
        gate_up: &CudaBuffer,
        y: &CudaBuffer,
        tokens: usize,
    ) {
        let (from, to) = (gate_up.rows(tokens, 2 * features), y.rows(tokens, features));
        let (from_stride, to_stride) = (gate_up.layout.stride, y.layout.stride);
        GLU.of(self.dtype).launch(
            &*self.device,
            lines(tokens * features),
            (from, to, tokens, features, from_stride, to_stride, by == Gate::GeluTanh),
        );
    }

    pub(crate) fn gate_gradient(
        &self,
        by: Gate,
        features: usize,
        dy: &CudaBuffer,
        gate_up: &CudaBuffer,
        tokens: usize,
    ) {
        let (of_y, of_x) = (dy.rows(tokens, features), gate_up.rows(tokens, 2 * features));
        let (x_stride, y_stride) = (gate_up.layout.stride, dy.layout.stride);
        GLU_BACKWARD.of(self.dtype).launch(
            &*self.device,
            lines(tokens * features),
            (of_y, of_x, tokens, features, x_stride, y_stride, by == Gate::GeluTanh),
        );
    }
}
