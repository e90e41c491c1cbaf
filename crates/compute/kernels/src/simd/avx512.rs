//! AVX-512F: a vector is one register.

use super::{Kernel, LANES, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Avx512;

/// # Safety
/// As [`Kernel::run`], with AVX-512F, AVX2 and FMA present.
#[target_feature(enable = "avx512f,avx2,fma")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function's own contract.
    unsafe { kernel.run::<Avx512>() }
}

#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each forwards its trait method's contract to one intrinsic"
)]
impl Simd for Avx512 {
    type V = __m512;
    const TILE_VECTORS: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
        debug_assert!(n <= LANES);
        unsafe { _mm512_maskz_loadu_ps(first(n), p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
        debug_assert!(n <= LANES);
        unsafe { _mm512_mask_storeu_ps(p, first(n), v) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sqrt(a: __m512) -> __m512 {
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn select_lt(x: __m512, bound: __m512, yes: __m512, no: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, bound), no, yes) }
    }
    #[inline(always)]
    unsafe fn exp2_of_magic(magic: __m512) -> __m512 {
        unsafe {
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(magic));
            _mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_set1_epi32(0x3f80_0000)))
        }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        unsafe {
            let mut rows = [_mm512_setzero_ps(); LANES];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_ps(from.add(i * from_stride));
            }
            // Gathers column quarters: rows[0..4] end up with the first of all rows, rows[8..12]
            // with the second, rows[4..8] with the third, rows[12..16] with the fourth.
            for i in [0, 1, 2, 3, 8, 9, 10, 11] {
                let (a, b) = (rows[i], rows[i + 4]);
                rows[i] = _mm512_shuffle_f32x4::<0x44>(a, b);
                rows[i + 4] = _mm512_shuffle_f32x4::<0xee>(a, b);
            }
            for i in 0..8 {
                let (a, b) = (rows[i], rows[i + 8]);
                rows[i] = _mm512_shuffle_f32x4::<0x88>(a, b);
                rows[i + 8] = _mm512_shuffle_f32x4::<0xdd>(a, b);
            }
            // Transposes 4 by 4 within each quarter.
            for (quarter, first) in [0, 8, 4, 12].into_iter().enumerate() {
                let [a, b, c, d] = [rows[first], rows[first + 1], rows[first + 2], rows[first + 3]];
                let pairs = |x, y| {
                    [_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y)]
                        .map(|v| _mm512_castps_pd(v))
                };
                let (ab, cd) = (pairs(a, b), pairs(c, d));
                for half in 0..2 {
                    let to = to.add((4 * quarter + 2 * half) * to_stride);
                    _mm512_storeu_ps(to, _mm512_castpd_ps(_mm512_unpacklo_pd(ab[half], cd[half])));
                    _mm512_storeu_ps(
                        to.add(to_stride),
                        _mm512_castpd_ps(_mm512_unpackhi_pd(ab[half], cd[half])),
                    );
                }
            }
        }
    }
}
