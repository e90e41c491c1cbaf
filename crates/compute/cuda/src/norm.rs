//! RMSNorm and its gradients.

use crate::buffer::CudaBuffer;
use crate::catalog::{
    RMS_NORM, RMS_NORM_INPUT_GRADIENT, RMS_NORM_SCALES, RMS_NORM_WEIGHT_GRADIENT,
};
use crate::cuda::Cuda;
use crate::kernels::Grid;
use crate::linear::chains;
use isentrope_kernels::{Grouped, RmsNorm};

/// Groups in a block: a half warp for each.
const GROUPS: usize = 8;

/// Checks that the groups of a row do not reach into the next row.
///
/// # Panics
/// When they do.
pub(crate) fn check(layout: Grouped) {
    assert!(
        layout.offset + layout.groups * layout.features <= layout.stride,
        "rows overlap: {layout:?}"
    );
}

impl Cuda {
    pub(crate) fn norm(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &CudaBuffer,
        weight: &CudaBuffer,
        y: &CudaBuffer,
        rows: usize,
    ) {
        check(layout);
        let Grouped { stride, offset, groups, features } = layout;
        RMS_NORM.of(self.dtype).launch(
            &*self.device,
            Grid::line((rows * groups).div_ceil(GROUPS), 128),
            (
                x.rows(rows, stride),
                weight.vector(features),
                y.rows(rows, stride),
                rows,
                x.layout.stride,
                y.layout.stride,
                offset,
                groups,
                features,
                norm.eps,
                norm.shift,
            ),
        );
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
    pub(crate) fn norm_gradient(
        &self,
        layout: Grouped,
        norm: RmsNorm,
        x: &CudaBuffer,
        weight: &CudaBuffer,
        dy: Option<&CudaBuffer>,
        dx: &CudaBuffer,
        dw: Option<&CudaBuffer>,
        rows: usize,
    ) {
        check(layout);
        let Grouped { stride, offset, groups, features } = layout;
        let (device, adds, dy) = (&*self.device, dy.is_some(), dy.unwrap_or(dx));
        let scales = self.scratch(4 * rows * groups);
        let grid = Grid::line((rows * groups).div_ceil(GROUPS), 128);
        let (x_at, dy_at, weight_at) =
            (x.rows(rows, stride), dy.rows(rows, stride), weight.vector(features));
        let (x_stride, dy_stride) = (x.layout.stride, dy.layout.stride);
        RMS_NORM_SCALES.of(self.dtype).launch(
            device,
            grid,
            (x_at, scales.at(0), rows, x_stride, offset, groups, features, norm.eps),
        );
        // The weight's gradient comes first: it reads dy, which the input's gradient may overwrite.
        if let Some(dw) = dw {
            RMS_NORM_WEIGHT_GRADIENT.of(self.dtype).launch(
                device,
                chains(features),
                (
                    x_at,
                    dy_at,
                    scales.at(0),
                    dw.vector(features),
                    rows,
                    x_stride,
                    dy_stride,
                    offset,
                    groups,
                    features,
                ),
            );
        }
        RMS_NORM_INPUT_GRADIENT.of(self.dtype).launch(
            device,
            grid,
            (
                x_at,
                weight_at,
                dy_at,
                scales.at(0),
                dx.rows(rows, stride),
                rows,
                x_stride,
                dy_stride,
                dx.layout.stride,
                offset,
                groups,
                features,
                adds,
                norm.shift,
            ),
        );
    }
}
