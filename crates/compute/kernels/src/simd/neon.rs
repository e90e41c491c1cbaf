//! 64-bit Arm: a vector is four registers.

use super::{Kernel, Simd};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub(super) struct Neon;

/// # Safety
/// As [`Kernel::run`]; NEON is part of every 64-bit Arm target.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function's own contract.
    unsafe { kernel.run::<Neon>() }
}

macro_rules! quarters {
    (|$i:ident| $e:expr) => {
        unsafe {
            [
                {
                    let $i = 0;
                    $e
                },
                {
                    let $i = 1;
                    $e
                },
                {
                    let $i = 2;
                    $e
                },
                {
                    let $i = 3;
                    $e
                },
            ]
        }
    };
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each forwards its trait method's contract to four intrinsics"
)]
impl Simd for Neon {
    type V = [float32x4_t; 4];
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { [vdupq_n_f32(x); 4] }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        quarters!(|i| vld1q_f32(p.add(4 * i)))
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe {
            vst1q_f32(p, v[0]);
            vst1q_f32(p.add(4), v[1]);
            vst1q_f32(p.add(8), v[2]);
            vst1q_f32(p.add(12), v[3]);
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        quarters!(|i| vaddq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        quarters!(|i| vsubq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        quarters!(|i| vmulq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        quarters!(|i| vdivq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        quarters!(|i| vsqrtq_f32(a[i]))
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        quarters!(|i| vfmaq_f32(c[i], a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        quarters!(|i| vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn select_lt(x: Self::V, bound: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        quarters!(|i| vbslq_f32(vcltq_f32(x[i], bound[i]), yes[i], no[i]))
    }
    #[inline(always)]
    unsafe fn exp2_of_magic(magic: Self::V) -> Self::V {
        quarters!(|i| {
            let shifted = vshlq_n_u32::<23>(vreinterpretq_u32_f32(magic[i]));
            vreinterpretq_f32_u32(vaddq_u32(shifted, vdupq_n_u32(0x3f80_0000)))
        })
    }
}
