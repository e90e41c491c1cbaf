//! RMSNorm: `y = x / sqrt(mean(x^2) + eps) * w`, over whole rows or over the heads inside a row.

use crate::simd::{Kernel, LANES, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// The numbers of an RMS norm besides its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean of squares.
    pub eps: f32,
    /// Added to each weight, unless 0: 1 in families whose weights stand around 0.
    pub shift: f32,
}

impl RmsNorm {
    /// A norm whose weights are factors themselves.
    pub fn plain(eps: f32) -> Self {
        Self { eps, shift: 0.0 }
    }

    /// The factors of `n` features.
    ///
    /// # Safety
    /// There are `n` weights, and the processor has the instruction set.
    #[inline(always)]
    unsafe fn factors<S: Simd>(self, weights: *const f32, n: usize) -> S::V {
        // SAFETY: the caller vouches for it.
        unsafe {
            let w = load::<S>(weights, n);
            if self.shift == 0.0 { w } else { S::add(w, S::splat(self.shift)) }
        }
    }
}

/// Which parts of each row are normalised: `groups` runs of `features` floats from `offset`, in
/// rows `stride` floats apart. Weights are shared by all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// Floats from one row to the next.
    pub stride: usize,
    /// Offset of the first group in its row.
    pub offset: usize,
    /// Groups per row.
    pub groups: usize,
    /// Floats per group.
    pub features: usize,
}

impl Grouped {
    /// Rows of `features` floats, normalised whole.
    pub fn rows(features: usize) -> Self {
        Self { stride: features, offset: 0, groups: 1, features }
    }

    /// Below this number of rows a task is not worth its start.
    fn least_rows(self) -> usize {
        (16_384 / (self.groups * self.features)).max(1)
    }

    /// Floats up to the end of the last group of `rows` rows.
    ///
    /// # Panics
    /// When the groups of a row reach into the next: several threads work on rows at once.
    pub(crate) fn extent(self, rows: usize) -> usize {
        assert!(self.offset + self.groups * self.features <= self.stride, "rows overlap: {self:?}");
        if rows == 0 {
            0
        } else {
            (rows - 1) * self.stride + self.offset + self.groups * self.features
        }
    }
}

/// `y = norm(x) * w`; `x` and `y` have the same layout. Writes only the groups.
pub(crate) fn forward(
    workers: &Workers,
    layout: Grouped,
    norm: RmsNorm,
    x: &[f32],
    weight: &[f32],
    y: &mut [f32],
    rows: usize,
) {
    assert!(x.len() >= layout.extent(rows) && y.len() >= layout.extent(rows));
    assert!(weight.len() >= layout.features);
    let y = Shared::of(y);
    workers.threads.ranges(rows, 1, layout.least_rows(), |range| {
        // SAFETY: rows are disjoint; extents were checked above.
        unsafe {
            workers.isa.run(Forward {
                layout,
                norm,
                x: x.as_ptr(),
                weight: weight.as_ptr(),
                y: y.start(),
                range,
            });
        }
    });
}

struct Forward {
    layout: Grouped,
    norm: RmsNorm,
    x: *const f32,
    weight: *const f32,
    y: *mut f32,
    range: Range<usize>,
}

/// `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
unsafe fn inverse_rms<S: Simd>(x: *const f32, features: usize, eps: f32) -> f32 {
    // SAFETY: the caller vouches for `features` floats at x.
    unsafe {
        let mut squares = S::splat(0.0);
        vectors!(features, |i, n| {
            let v = load::<S>(x.add(i), n);
            squares = S::fma(v, v, squares);
        });
        1.0 / (S::sum(squares) / features as f32 + eps).sqrt()
    }
}

impl Kernel for Forward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Grouped { stride, offset, groups, features } = self.layout;
        // SAFETY: `forward` checked the extents.
        unsafe {
            for row in self.range {
                for group in 0..groups {
                    let at = row * stride + offset + group * features;
                    let x = self.x.add(at);
                    let scale = S::splat(inverse_rms::<S>(x, features, self.norm.eps));
                    vectors!(features, |i, n| {
                        let v = S::mul(load::<S>(x.add(i), n), scale);
                        let w = self.norm.factors::<S>(self.weight.add(i), n);
                        store::<S>(self.y.add(at + i), S::mul(v, w), n);
                    });
                }
            }
        }
    }
}

/// `dx += d(norm)/dx dy`; without `dy`, `dx` holds it on entry and is replaced. `dw`, if
/// it is wanted, continues over rows, and over groups within a row, in order. `x`, `dy` and `dx`
/// have `layout`.
#[allow(clippy::too_many_arguments, reason = "the operands of one gradient")]
pub(crate) fn backward(
    workers: &Workers,
    layout: Grouped,
    norm: RmsNorm,
    x: &[f32],
    weight: &[f32],
    dy: Option<&[f32]>,
    dx: &mut [f32],
    dw: Option<&mut [f32]>,
    rows: usize,
) {
    assert!(x.len() >= layout.extent(rows) && dx.len() >= layout.extent(rows));
    assert!(weight.len() >= layout.features);
    assert!(dw.as_ref().is_none_or(|dw| dw.len() >= layout.features));
    let dx = Shared::of(dx);
    let (dy, accumulate) = match dy {
        None => (dx.start().cast_const(), false),
        Some(dy) => {
            assert!(dy.len() >= layout.extent(rows));
            (dy.as_ptr(), true)
        }
    };
    let dy = Shared::at(dy.cast_mut());
    // The weight's gradient comes first, because it reads dy, which the second pass may overwrite.
    let mut scales = vec![0.0f32; rows * layout.groups];
    let shared = Shared::of(&mut scales);
    workers.threads.ranges(rows, 1, layout.least_rows(), |range| {
        // SAFETY: rows are disjoint; extents were checked above.
        unsafe {
            let (eps, x) = (norm.eps, x.as_ptr());
            workers.isa.run(Scales { layout, eps, x, scales: shared.start(), range });
        }
    });
    if let Some(dw) = dw {
        let dw = Shared::of(dw);
        workers.threads.ranges(layout.features, LANES, 64, |features| {
            // SAFETY: feature ranges are disjoint; extents were checked above.
            unsafe {
                workers.isa.run(WeightGradient {
                    layout,
                    x: x.as_ptr(),
                    dy: dy.start(),
                    scales: scales.as_ptr(),
                    dw: dw.start(),
                    features,
                    rows,
                });
            }
        });
    }
    workers.threads.ranges(rows, 1, layout.least_rows(), |range| {
        // SAFETY: rows are disjoint; extents were checked above.
        unsafe {
            workers.isa.run(InputGradient {
                layout,
                norm,
                x: x.as_ptr(),
                weight: weight.as_ptr(),
                dy: dy.start(),
                scales: scales.as_ptr(),
                dx: dx.start(),
                accumulate,
                range,
            });
        }
    });
}

struct Scales {
    layout: Grouped,
    eps: f32,
    x: *const f32,
    scales: *mut f32,
    range: Range<usize>,
}

impl Kernel for Scales {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Grouped { stride, offset, groups, features } = self.layout;
        for row in self.range {
            for group in 0..groups {
                // SAFETY: `backward` checked the extents.
                unsafe {
                    let x = self.x.add(row * stride + offset + group * features);
                    *self.scales.add(row * groups + group) =
                        inverse_rms::<S>(x, features, self.eps);
                }
            }
        }
    }
}

struct WeightGradient {
    layout: Grouped,
    x: *const f32,
    dy: *const f32,
    scales: *const f32,
    dw: *mut f32,
    features: Range<usize>,
    rows: usize,
}

impl Kernel for WeightGradient {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Grouped { stride, offset, groups, features } = self.layout;
        // SAFETY: `backward` checked the extents.
        unsafe {
            vectors!(self.features.len(), |i, n| {
                let i = self.features.start + i;
                let mut dw = load::<S>(self.dw.add(i), n);
                for row in 0..self.rows {
                    for group in 0..groups {
                        let at = row * stride + offset + group * features + i;
                        let scale = S::splat(*self.scales.add(row * groups + group));
                        let normed = S::mul(load::<S>(self.x.add(at), n), scale);
                        dw = S::fma(load::<S>(self.dy.add(at), n), normed, dw);
                    }
                }
                store::<S>(self.dw.add(i), dw, n);
            });
        }
    }
}

struct InputGradient {
    layout: Grouped,
    norm: RmsNorm,
    x: *const f32,
    weight: *const f32,
    dy: *const f32,
    scales: *const f32,
    dx: *mut f32,
    accumulate: bool,
    range: Range<usize>,
}

impl Kernel for InputGradient {
    type Output = ();

    /// With `s = 1/rms`: `dx = s (w dy) - x s^3 mean(w dy x)`.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Grouped { stride, offset, groups, features } = self.layout;
        // SAFETY: `backward` checked the extents.
        unsafe {
            for row in self.range {
                for group in 0..groups {
                    let at = row * stride + offset + group * features;
                    let scale = *self.scales.add(row * groups + group);
                    let mut dot = S::splat(0.0);
                    vectors!(features, |i, n| {
                        let w = self.norm.factors::<S>(self.weight.add(i), n);
                        let wd = S::mul(w, load::<S>(self.dy.add(at + i), n));
                        dot = S::fma(wd, load::<S>(self.x.add(at + i), n), dot);
                    });
                    let pull = S::splat(-(S::sum(dot) / features as f32) * scale * scale * scale);
                    let scale = S::splat(scale);
                    vectors!(features, |i, n| {
                        let w = self.norm.factors::<S>(self.weight.add(i), n);
                        let wd = S::mul(w, load::<S>(self.dy.add(at + i), n));
                        let d = S::fma(load::<S>(self.x.add(at + i), n), pull, S::mul(wd, scale));
                        let out = self.dx.add(at + i);
                        store::<S>(
                            out,
                            if self.accumulate { S::add(load::<S>(out, n), d) } else { d },
                            n,
                        );
                    });
                }
            }
        }
    }
}
