//! Rotary position embedding: pairs `(x[i], x[i + d/2])` of each head turned by an angle of the
//! token's position.

use crate::norm::Grouped;
use crate::simd::{Kernel, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Which way to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Rotates by the angle, as the forward pass does.
    Forward,
    /// Rotates by the negative angle, as the gradient does.
    Backward,
}

/// Turns every head of `layout` in place. Row r uses row `positions[r]` of `cos` and `sin`, each
/// `[positions, features / 2]`.
#[allow(clippy::too_many_arguments, reason = "the operands of one rotation")]
pub(crate) fn rotate(
    workers: &Workers,
    layout: Grouped,
    x: &mut [f32],
    cos: &[f32],
    sin: &[f32],
    positions: &[u32],
    turn: Turn,
) {
    let half = layout.features / 2;
    assert!(x.len() >= layout.extent(positions.len()) && layout.features.is_multiple_of(2));
    let rows = positions.iter().max().map_or(0, |&p| p as usize + 1);
    assert!(cos.len() >= rows * half && sin.len() >= rows * half);
    let x = Shared::of(x);
    workers.threads.ranges(
        positions.len(),
        1,
        (8192 / (layout.groups * layout.features)).max(1),
        |range| {
            // SAFETY: rows are disjoint; extents were checked above.
            unsafe {
                workers.isa.run(Rotate { layout, x: x.start(), cos, sin, positions, turn, range });
            }
        },
    );
}

struct Rotate<'a> {
    layout: Grouped,
    x: *mut f32,
    cos: &'a [f32],
    sin: &'a [f32],
    positions: &'a [u32],
    turn: Turn,
    range: Range<usize>,
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Grouped { stride, offset, groups, features } = self.layout;
        let half = features / 2;
        // SAFETY: `rotate` checked the extents.
        unsafe {
            let sign = S::splat(if self.turn == Turn::Forward { 1.0 } else { -1.0 });
            for row in self.range {
                let angles = self.positions[row] as usize * half;
                let (cos, sin) = (self.cos.as_ptr().add(angles), self.sin.as_ptr().add(angles));
                for group in 0..groups {
                    let first = self.x.add(row * stride + offset + group * features);
                    let second = first.add(half);
                    vectors!(half, |i, n| {
                        let (c, s) =
                            (load::<S>(cos.add(i), n), S::mul(load::<S>(sin.add(i), n), sign));
                        let (a, b) = (load::<S>(first.add(i), n), load::<S>(second.add(i), n));
                        let minus_s = S::sub(S::splat(0.0), s);
                        store::<S>(first.add(i), S::fma(a, c, S::mul(b, minus_s)), n);
                        store::<S>(second.add(i), S::fma(b, c, S::mul(a, s)), n);
                    });
                }
            }
        }
    }
}
