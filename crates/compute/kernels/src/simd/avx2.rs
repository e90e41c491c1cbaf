//! AVX2 and FMA: a vector is two registers.

use super::{Kernel, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Avx2;

/// # Safety
/// As [`Kernel::run`], with AVX2 and FMA present.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function's own contract.
    unsafe { kernel.run::<Avx2>() }
}

macro_rules! halves {
    ($f:ident($($v:ident),+)) => { unsafe { [$f($($v[0]),+), $f($($v[1]),+)] } };
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each forwards its trait method's contract to two intrinsics"
)]
impl Simd for Avx2 {
    type V = [__m256; 2];
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe {
            _mm256_storeu_ps(p, v[0]);
            _mm256_storeu_ps(p.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        halves!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        halves!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    unsafe fn select_lt(x: Self::V, bound: Self::V, yes: Self::V, no: Self::V) -> Self::V {
        unsafe {
            let low = _mm256_cmp_ps::<_CMP_LT_OQ>(x[0], bound[0]);
            let high = _mm256_cmp_ps::<_CMP_LT_OQ>(x[1], bound[1]);
            [_mm256_blendv_ps(no[0], yes[0], low), _mm256_blendv_ps(no[1], yes[1], high)]
        }
    }
    #[inline(always)]
    unsafe fn exp2_of_magic(magic: Self::V) -> Self::V {
        unsafe {
            let one = _mm256_set1_epi32(0x3f80_0000);
            let low = _mm256_add_epi32(_mm256_slli_epi32::<23>(_mm256_castps_si256(magic[0])), one);
            let high =
                _mm256_add_epi32(_mm256_slli_epi32::<23>(_mm256_castps_si256(magic[1])), one);
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
}
