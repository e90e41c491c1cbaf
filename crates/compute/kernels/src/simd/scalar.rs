//! Portable code: a vector is an array. `f32::mul_add` is one rounding everywhere, in hardware or
//! in software.

use super::{LANES, Simd};

#[derive(Clone, Copy)]
pub(super) struct Scalar;

macro_rules! lanes {
    (|$i:ident| $e:expr) => {{
        let mut out = [0.0f32; LANES];
        for $i in 0..LANES {
            out[$i] = $e;
        }
        out
    }};
}

impl Simd for Scalar {
    type V = [f32; LANES];
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the caller vouches for 16 readable floats.
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for 16 writable floats.
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        lanes!(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        lanes!(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        lanes!(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        lanes!(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        lanes!(|i| a[i].sqrt())
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        lanes!(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        lanes!(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn select_lt(x: Self::V, bound: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        lanes!(|i| if x[i] < bound[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    unsafe fn exp2_of_magic(magic: Self::V) -> Self::V {
        lanes!(|i| f32::from_bits((magic[i].to_bits() << 23).wrapping_add(0x3f80_0000)))
    }
}
