//! Sixteen-lane vectors over every instruction set, and the run-time choice among them.
//!
//! A kernel is written once, against [`Simd`], whose vector always has 16 lanes: one AVX-512
//! register, two AVX2 registers, four NEON registers or an array of 16 floats. Each operation is a
//! single correctly rounded IEEE operation per lane, so a kernel gives the same bits on every path
//! by construction; there is nothing else in which the paths could differ.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use std::fmt;
use std::str::FromStr;

/// Lanes of a vector, and partial sums of a reduction, on every instruction set.
pub(crate) const LANES: usize = 16;

/// Operations on vectors of 16 `f32` lanes.
///
/// # Safety
/// Every method must be called only where the implementing instruction set is available; pointers
/// must be valid for the lanes that the method reads or writes (no alignment is needed).
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Sixteen lanes.
    type V: Copy;
    /// Columns of a matrix product's register tile, in vectors: the register file has room for them
    /// and for six rows.
    const TILE_VECTORS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a > b ? a : b`: the second operand when either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `x < bound ? yes : no`, lane by lane (`no` when either is NaN).
    unsafe fn select_lt(x: Self::V, bound: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// `2^n` where `magic` is `1.5 * 2^23 + n`, for integers `n` in `[-126, 127]`.
    unsafe fn exp2_of_magic(magic: Self::V) -> Self::V;

    /// The first `n` lanes from `p`, zeros beyond; `n <= 16`.
    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self::V {
        debug_assert!(n <= LANES);
        let mut lanes = [0.0; LANES];
        // SAFETY: the caller vouches for n readable floats and for the instruction set.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            Self::load(lanes.as_ptr())
        }
    }

    /// Stores the first `n` lanes; `n <= 16`.
    #[inline(always)]
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize) {
        debug_assert!(n <= LANES);
        // SAFETY: the caller vouches for n writable floats and for the instruction set.
        unsafe {
            let lanes = Self::to_array(v);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }

    /// Transposes 16 by 16 floats. Strides are from row to row, in floats.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..LANES {
            for j in 0..LANES {
                // SAFETY: the caller vouches for 16 rows of 16 lanes on both sides.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }

    /// The lanes as an array.
    #[inline(always)]
    unsafe fn to_array(v: Self::V) -> [f32; LANES] {
        let mut lanes = [0.0; LANES];
        // SAFETY: the array has 16 lanes; the caller vouches for the instruction set.
        unsafe { Self::store(lanes.as_mut_ptr(), v) };
        lanes
    }

    /// The fixed tree that combines 16 partial sums: neighbours at distance 8, then 4, 2, 1.
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        // SAFETY: the caller vouches for the instruction set.
        let l = unsafe { Self::to_array(v) };
        let mut eight = [0.0; 8];
        for i in 0..8 {
            eight[i] = l[i] + l[i + 8];
        }
        let mut four = [0.0; 4];
        for i in 0..4 {
            four[i] = eight[i] + eight[i + 4];
        }
        (four[0] + four[2]) + (four[1] + four[3])
    }

    /// The largest lane; lanes that are NaN may be passed over.
    #[inline(always)]
    unsafe fn max_lane(v: Self::V) -> f32 {
        // SAFETY: the caller vouches for the instruction set.
        let l = unsafe { Self::to_array(v) };
        let larger = |a: f32, b: f32| if a > b { a } else { b };
        // A tree, as in `sum`: one comparison after another would take most of the time of a short
        // softmax.
        let mut eight = [0.0; 8];
        for i in 0..8 {
            eight[i] = larger(l[i], l[i + 8]);
        }
        let mut four = [0.0; 4];
        for i in 0..4 {
            four[i] = larger(eight[i], eight[i + 4]);
        }
        larger(larger(four[0], four[2]), larger(four[1], four[3]))
    }
}

/// Runs a body for each vector of a run of `len` floats: it starts at `i` and has `n <= 16` lanes.
/// A macro, since a closure need not be inlined and would then be compiled without the instruction
/// set.
macro_rules! vectors {
    ($len:expr, |$i:ident, $n:ident| $body:expr) => {{
        let len: usize = $len;
        let whole = len - len % $crate::simd::LANES;
        let mut start = 0;
        while start < whole {
            let ($i, $n) = (start, $crate::simd::LANES);
            $body;
            start += $crate::simd::LANES;
        }
        if whole < len {
            let ($i, $n) = (whole, len - whole);
            $body;
        }
    }};
}
pub(crate) use vectors;

/// Loads `n` lanes, zeros beyond.
///
/// # Safety
/// `n <= 16` floats are readable at `p`, and the instruction set is available.
#[inline(always)]
pub(crate) unsafe fn load<S: Simd>(p: *const f32, n: usize) -> S::V {
    // SAFETY: the caller's promise.
    unsafe { if n == LANES { S::load(p) } else { S::load_first(p, n) } }
}

/// Stores `n` lanes.
///
/// # Safety
/// `n <= 16` floats are writable at `p`, and the instruction set is available.
#[inline(always)]
pub(crate) unsafe fn store<S: Simd>(p: *mut f32, v: S::V, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { if n == LANES { S::store(p, v) } else { S::store_first(p, v, n) } }
}

/// Asks the processor to fetch floats that will be needed soon. It is only a hint, for any address.
#[inline(always)]
pub(crate) fn prefetch(start: *const f32, floats: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..floats).step_by(LANES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching never faults, and every x86-64 processor can.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, floats);
}

/// A computation written over [`Simd`]. `run` must be `#[inline(always)]`, and so must everything
/// it calls, so that the whole kernel is compiled for the instruction set it is dispatched to.
pub(crate) trait Kernel {
    /// The computation's result.
    type Output;
    /// # Safety
    /// The instruction set `S` must be available, and what the kernel's own fields point to must be
    /// valid.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// An instruction set that kernels can run on. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// x86-64 with AVX-512F.
    Avx512,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// 64-bit Arm.
    Neon,
    /// Portable code; without a hardware FMA it is correct and very slow.
    Scalar,
}

/// The environment variable that pins the instruction set.
pub const ISA_VARIABLE: &str = "ISENTROPE_ISA";

impl Isa {
    /// Every instruction set this processor can run, fastest first.
    pub fn available() -> Vec<Self> {
        [Self::Avx512, Self::Avx2, Self::Neon, Self::Scalar]
            .into_iter()
            .filter(|isa| isa.is_available())
            .collect()
    }

    /// The instruction set that `ISENTROPE_ISA` names, else the fastest available one.
    ///
    /// # Errors
    /// A sentence for the user when the variable names no instruction set, or one that this
    /// processor lacks.
    pub fn from_env() -> Result<Self, String> {
        match std::env::var_os(ISA_VARIABLE) {
            None => Ok(Self::available()[0]),
            Some(name) => Self::pinned(&name.to_string_lossy()),
        }
    }

    /// The instruction set of this name.
    fn pinned(name: &str) -> Result<Self, String> {
        let isa: Self = name.parse().map_err(|e| format!("{ISA_VARIABLE}: {e}"))?;
        if isa.is_available() {
            Ok(isa)
        } else {
            Err(format!("{ISA_VARIABLE}={name}: this processor does not have it"))
        }
    }

    pub(crate) fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && Self::Avx2.is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => true,
            Self::Scalar => true,
            #[allow(unreachable_patterns, reason = "which arms remain depends on the target")]
            _ => false,
        }
    }

    /// Runs a kernel compiled for this instruction set.
    ///
    /// # Safety
    /// Pointers in the kernel's fields must be valid. `self` must be available, which `Cpu::new`
    /// and `Distribution::of` check.
    #[inline]
    pub(crate) unsafe fn run<K: Kernel>(self, kernel: K) -> K::Output {
        debug_assert!(self.is_available());
        // SAFETY: availability was checked when the backend was built; the rest is the caller's
        // promise.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => avx512::run(kernel),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => avx2::run(kernel),
                #[cfg(target_arch = "aarch64")]
                Self::Neon => neon::run(kernel),
                _ => kernel.run::<scalar::Scalar>(),
            }
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Scalar => "scalar",
        })
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Avx512, Self::Avx2, Self::Neon, Self::Scalar]
            .into_iter()
            .find(|isa| isa.to_string() == name)
            .ok_or_else(|| format!("\"{name}\" is not one of avx512, avx2, neon, scalar"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Scalar] {
            assert_eq!(isa.to_string().parse(), Ok(isa));
            assert_eq!(Isa::pinned(&isa.to_string()).is_ok(), Isa::available().contains(&isa));
        }
        assert_eq!(Isa::available().last(), Some(&Isa::Scalar));
    }

    /// Transposes between strides of 19 and 21 floats.
    struct Transposed<'a>(&'a [f32]);

    impl Kernel for Transposed<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        unsafe fn run<S: Simd>(self) -> Vec<f32> {
            assert_eq!(self.0.len(), 16 * 19);
            let mut to = vec![-1.0; 16 * 21];
            // SAFETY: both sides have 16 rows of at least 16 floats.
            unsafe { S::transpose(self.0.as_ptr(), 19, to.as_mut_ptr(), 21) };
            to
        }
    }

    #[test]
    fn rows_become_columns() {
        let from: Vec<f32> = (0..16 * 19).map(|i| i as f32).collect();
        let want =
            (0..16 * 21).map(|i| if i % 21 < 16 { from[(i % 21) * 19 + i / 21] } else { -1.0 });
        let want: Vec<f32> = want.collect();
        for isa in Isa::available() {
            // SAFETY: the instruction set is available.
            assert_eq!(unsafe { isa.run(Transposed(&from)) }, want, "{isa}");
        }
    }

    #[test]
    fn what_cannot_be_pinned_is_explained() {
        for name in ["", "AVX2", "sse", "avx512 "] {
            let expected =
                format!("ISENTROPE_ISA: \"{name}\" is not one of avx512, avx2, neon, scalar");
            assert_eq!(Isa::pinned(name), Err(expected));
        }
        let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
        let expected = format!("ISENTROPE_ISA={foreign}: this processor does not have it");
        assert_eq!(Isa::pinned(foreign), Err(expected));
    }
}
