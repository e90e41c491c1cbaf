//! Products by cuBLASLt, where it computes them to the bits of the kernels here.
//!
//! The library promises no bits. But an algorithm that does not split sums adds up along the depth in the tensor core alone, and
//! that is a chain of steps of 16 whatever its tiles are (see [`chain`]). So only such algorithms are asked for: without
//! workspace there is no room for partial sums, and what the heuristics propose is looked at. And before a kind of product is
//! left to the library for the first time, some are computed and compared with chains on the host: a mismatch is told, and
//! leaves this kind to the kernels here.

use super::chain::chain;
use super::device::Gpu;
use super::symbols::{self, functions};
use super::{Architecture, LibraryName, Search, Surroundings, Version};
use crate::device::{Device, Memory, Product};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulAlgoConfigAttributes_t as Config, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayout_t, cudaDataType_t, cudaStream_t,
};
use cudarc::driver::sys::CUstream;
use half::bf16;
use isentrope_kernels::OutOfMemory;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The algorithms whose tiles do not change bits, on Hopper and later ("nvjet"). Others compute tiny or unaligned products
/// without the tensor core.
const ALGORITHM: c_int = 66;
/// Proposals that are looked at.
const PROPOSALS: usize = 16;
/// Bytes that every address and every row is a multiple of.
const ALIGNMENT: usize = 16;
/// Rows (or, where sums go on, terms) of the products that are compared first.
const TESTED: [usize; 4] = [1, 8, 64, 4096];
/// Numbers of a result that are compared, spread over its first and its last row.
const COMPARED: usize = 64;
/// Numbers of each of a compared product's matrices that grow with the tokens, at most; and of the sums that are gone on from.
const LARGEST: usize = 1 << 28;
/// Numbers of the random pattern that compared matrices repeat: a prime, so that no two rows are alike.
const PATTERN: usize = 131_071;

functions! {
    /// cuBLASLt's functions, which return a code that is 0 where all went well.
    struct Functions {
        cublasLtGetVersion() -> usize;
        cublasLtCreate(*mut cublasLtHandle_t) -> c_int;
        cublasLtDestroy(cublasLtHandle_t) -> c_int;
        cublasLtMatmulDescCreate(*mut cublasLtMatmulDesc_t, u32, u32) -> c_int;
        cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, u32, *const c_void, usize) -> c_int;
        cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) -> c_int;
        cublasLtMatrixLayoutCreate(*mut cublasLtMatrixLayout_t, u32, u64, u64, i64) -> c_int;
        cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) -> c_int;
        cublasLtMatmulPreferenceCreate(*mut cublasLtMatmulPreference_t) -> c_int;
        cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, u32, *const c_void, usize) -> c_int;
        cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) -> c_int;
        cublasLtMatmulAlgoGetHeuristic(
            cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
            cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, c_int, *mut Proposal, *mut c_int
        ) -> c_int;
        cublasLtMatmulAlgoConfigGetAttribute(
            *const cublasLtMatmulAlgo_t, u32, *mut c_void, usize, *mut usize
        ) -> c_int;
        cublasLtMatmul(
            cublasLtHandle_t, cublasLtMatmulDesc_t, *const c_void, *const c_void, cublasLtMatrixLayout_t, *const c_void,
            cublasLtMatrixLayout_t, *const c_void, *const c_void, cublasLtMatrixLayout_t, *mut c_void, cublasLtMatrixLayout_t,
            *const cublasLtMatmulAlgo_t, *mut c_void, usize, cudaStream_t
        ) -> c_int;
    }
}

/// `cublasLtMatmulHeuristicResult_t`, whose state may be a number that is not known here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proposal {
    algorithm: cublasLtMatmulAlgo_t,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// What comparing a product with chains has shown.
enum Compared {
    Same,
    /// What is different, and where.
    Different(String),
    /// The library cannot compute it as one chain.
    NoAlgorithm,
    /// It was not computed.
    TooLarge,
}

/// The library, for one GPU.
pub struct Blas {
    functions: Functions,
    handle: cublasLtHandle_t,
    version: Version,
    architecture: Architecture,
    /// By the product without its addresses: how it is computed, if it can be.
    algorithms: Mutex<HashMap<Product, Option<cublasLtMatmulAlgo_t>>>,
    /// By kind: whether the bits are right, and if not, why not.
    verdicts: Mutex<HashMap<Product, Result<(), String>>>,
}

// SAFETY: the handle may be used by several threads at a time, as cuBLASLt's documentation says; the rest is behind locks.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Looks for a copy that goes with the driver, for the GPU whose context the calling thread has.
    pub(super) fn search(
        surroundings: &Surroundings,
        driver: Version,
        architecture: Architecture,
    ) -> (Option<Self>, Search) {
        Search::run(LibraryName::CublasLt, surroundings, Some(driver), |path| {
            let (functions, version) = open(path)?;
            let mut handle = ptr::null_mut();
            // SAFETY: the library writes the handle.
            let code = unsafe { (functions.cublasLtCreate)(&raw mut handle) };
            if code != 0 {
                return Err(format!("it cannot be set up for this GPU (cuBLAS status {code})"));
            }
            let (algorithms, verdicts) = (Mutex::default(), Mutex::default());
            Ok((Self { functions, handle, version, architecture, algorithms, verdicts }, version))
        })
    }

    /// How the search for it goes, without a GPU: nothing is kept.
    pub fn look(surroundings: &Surroundings, driver: Option<Version>) -> Search {
        Search::run(LibraryName::CublasLt, surroundings, driver, open).1
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether products of a kind have been found to have the right bits.
    pub(super) fn is_right(&self, product: &Product) -> bool {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(verdicts.get(&kind_of(product)), Some(Ok(())))
    }

    /// Computes a product in a stream if the bits are known to be those of the kernels here; false where they are not, after
    /// which nothing has been done.
    pub(super) fn product(&self, gpu: &Gpu, product: &Product, stream: CUstream) -> bool {
        self.verdict(gpu, product).is_ok() && self.run_in(gpu, product, stream)
    }

    /// Whether products of a kind have the right bits, which is found out with the first of them.
    ///
    /// # Errors
    /// Why they are left to the kernels here.
    pub fn verdict(&self, gpu: &Gpu, product: &Product) -> Result<(), String> {
        let kind = kind_of(product);
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verdicts.get(&kind) {
            return known.clone();
        }
        // There may be memory when the next product is asked for, so that a lack of it is no verdict.
        let verdict = self.examine(gpu, kind).map_err(|error| error.to_string())?;
        verdicts.insert(kind, verdict.clone());
        verdict
    }

    /// Compares products of a kind.
    fn examine(&self, gpu: &Gpu, kind: Product) -> Result<Result<(), String>, OutOfMemory> {
        if self.architecture.major < 9 {
            return Ok(Err(format!("the bits of {}'s tensor core are not known", self.architecture)));
        }
        let (mut is_same, mut is_asked) = (false, false);
        for tokens in TESTED {
            match self.compare(gpu, &with_tokens(kind, tokens))? {
                Compared::Same => is_same = true,
                Compared::Different(why) => return Ok(Err(why)),
                Compared::NoAlgorithm => is_asked = true,
                Compared::TooLarge => {}
            }
        }
        Ok(match (is_same, is_asked) {
            (true, _) => Ok(()),
            (false, true) => Err("the library has no algorithm of one chain for it".into()),
            (false, false) => Err("even products of few tokens are too large to be compared".into()),
        })
    }

    /// Every kind of product that was left to the kernels here, and why.
    pub fn refusals(&self) -> Vec<String> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |(kind, verdict): (&Product, &Result<(), String>)| {
            let why = verdict.as_ref().err()?;
            Some(format!("cuBLASLt {} is not used for {}: {why}", self.version, describe(kind)))
        };
        let mut all: Vec<String> = verdicts.iter().filter_map(told).collect();
        all.sort();
        all
    }

    /// Computes a product of random numbers, and compares some results with chains on the host.
    fn compare(&self, gpu: &Gpu, shape: &Product) -> Result<Compared, OutOfMemory> {
        let Product { rows, columns, depth, .. } = *shape;
        // The weights do not count: they are as large as the model has them.
        let largest = match shape.accumulates {
            true => (depth * rows.max(columns)).max(rows * columns),
            false => rows * columns.max(depth),
        };
        if largest > LARGEST {
            return Ok(Compared::TooLarge);
        }
        let pattern = pattern();
        let filled = |numbers: usize| fill(gpu, &pattern, numbers);
        let (a, b) = (filled(rows * depth)?, filled(columns * depth)?);
        let d = filled(rows * columns * if shape.d_exact { 2 } else { 1 })?;
        if !self.run(gpu, &Product { a: a.address(), b: b.address(), d: d.address(), ..*shape }) {
            return Ok(Compared::NoAlgorithm);
        }
        let size = if shape.d_exact { 4 } else { 2 };
        let number = |place: usize| pattern[place % PATTERN];
        let mut line = vec![0; columns * size];
        for row in [0, rows - 1] {
            gpu.download(&d, row * columns * size, &mut line);
            for column in (0..columns).step_by(columns.div_ceil(COMPARED)) {
                let at = |transposed, line: usize, lines: usize, term: usize| match transposed {
                    true => number(term * lines + line),
                    false => number(line * depth + term),
                };
                let of_a: Vec<u16> = (0..depth).map(|term| at(shape.a_transposed, row, rows, term)).collect();
                let of_b: Vec<u16> =
                    (0..depth).map(|term| at(shape.b_transposed, column, columns, term)).collect();
                let place = row * columns + column;
                // A float of the pattern is two of its numbers, the upper half second.
                let before = u32::from(number(2 * place)) | u32::from(number(2 * place + 1)) << 16;
                let sum = chain(if shape.accumulates { f32::from_bits(before) } else { 0.0 }, &of_a, &of_b);
                let bytes = &line[column * size..][..size];
                let (is, should) = match shape.d_exact {
                    true => (u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), sum.to_bits()),
                    false => (
                        u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
                        bf16::from_f32(sum).to_bits().into(),
                    ),
                };
                if is != should {
                    return Ok(Compared::Different(format!(
                        "of a product of {rows} x {depth} x {columns}, the result in row {row}, column {column} is {is:#x} and a \
                         chain gives {should:#x}"
                    )));
                }
            }
        }
        Ok(Compared::Same)
    }

    /// Computes a product as one chain, whatever bits that gives; false where the library cannot.
    pub fn run(&self, gpu: &Gpu, product: &Product) -> bool {
        self.run_in(gpu, product, gpu.stream().handle)
    }

    fn run_in(&self, gpu: &Gpu, product: &Product, handle: CUstream) -> bool {
        let Product { rows, columns, depth, .. } = *product;
        let row_of = |transposed, lines| if transposed { lines } else { depth };
        let widths = [row_of(product.a_transposed, rows), row_of(product.b_transposed, columns), columns];
        let is_aligned =
            [product.a, product.b, product.d].iter().all(|address| address.is_multiple_of(ALIGNMENT as u64))
                && widths.iter().all(|width| (width * size_of::<bf16>()).is_multiple_of(ALIGNMENT));
        if !is_aligned || rows == 0 || columns == 0 || depth == 0 {
            return false;
        }
        let stream = gpu.stream();
        // The library proposes algorithms for the GPU whose context the calling thread has, which may have none yet.
        stream.enter();
        let Some(call) = Call::new(self, product) else { return false };
        let shape = Product { a: 0, b: 0, d: 0, ..*product };
        let mut algorithms = self.algorithms.lock().unwrap_or_else(PoisonError::into_inner);
        let algorithm = *algorithms.entry(shape).or_insert_with(|| call.propose());
        drop(algorithms);
        let Some(algorithm) = algorithm else { return false };
        let (one, beta) = (1.0_f32, if product.accumulates { 1.0_f32 } else { 0.0 });
        // What goes into a graph does not run now.
        let runs = handle == stream.handle;
        if runs {
            stream.note("cuBLASLt");
        }
        let _timed = runs.then(|| stream.timed("cuBLASLt", None));
        // SAFETY: the layouts say how large the matrices are, which whoever hands the addresses over has allocated; the
        // algorithm was proposed for these layouts. Factors are on the host, as the description's default says.
        let code = unsafe {
            (self.functions.cublasLtMatmul)(
                self.handle,
                call.description,
                (&raw const one).cast(),
                product.b as *const c_void,
                call.layouts[0],
                product.a as *const c_void,
                call.layouts[1],
                (&raw const beta).cast(),
                product.d as *const c_void,
                call.layouts[2],
                product.d as *mut c_void,
                call.layouts[2],
                &raw const algorithm,
                ptr::null_mut(),
                0,
                handle.cast(),
            )
        };
        code == 0
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's, and is not used again.
        unsafe { (self.functions.cublasLtDestroy)(self.handle) };
    }
}

/// A product without what one of its kind differs in from others.
fn kind_of(product: &Product) -> Product {
    with_tokens(Product { a: 0, b: 0, d: 0, ..*product }, 0)
}

fn open(path: &Path) -> Result<(Functions, Version), String> {
    let functions = Functions::load(symbols::open(path)?)?;
    // SAFETY: the function takes nothing.
    let number = unsafe { (functions.cublasLtGetVersion)() } as u32;
    Ok((functions, Version::new(number / 10_000, number % 10_000 / 100)))
}

/// What one call needs, which is destroyed with it.
///
/// The library's matrices lie column by column. A matrix that lies row by row is, to it, the transposed one; so it computes
/// `d^T = b a^T`, whose left factor is `b`.
struct Call<'a> {
    blas: &'a Blas,
    description: cublasLtMatmulDesc_t,
    /// Of the left factor, the right one, and the result.
    layouts: [cublasLtMatrixLayout_t; 3],
}

impl<'a> Call<'a> {
    fn new(blas: &'a Blas, product: &Product) -> Option<Self> {
        let functions = &blas.functions;
        let mut call = Self { blas, description: ptr::null_mut(), layouts: [ptr::null_mut(); 3] };
        let (compute, scale) =
            (cublasComputeType_t::CUBLAS_COMPUTE_32F as u32, cudaDataType_t::CUDA_R_32F as u32);
        // SAFETY: the library writes the pointer.
        let code = unsafe { (functions.cublasLtMatmulDescCreate)(&raw mut call.description, compute, scale) };
        if code != 0 {
            return None;
        }
        // CUBLAS_OP_T and CUBLAS_OP_N, which cudarc does not have here.
        let operation = i32::from;
        for (attribute, operation) in [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, operation(!product.b_transposed)),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, operation(product.a_transposed)),
        ] {
            let (value, size) = ((&raw const operation).cast(), size_of::<i32>());
            // SAFETY: the description was made above, and the attribute is an int.
            let code = unsafe {
                (functions.cublasLtMatmulDescSetAttribute)(call.description, attribute as u32, value, size)
            };
            if code != 0 {
                return None;
            }
        }
        let Product { rows, columns, depth, .. } = *product;
        let stored = |transposed, lines| if transposed { (lines, depth) } else { (depth, lines) };
        let exact = if product.d_exact { cudaDataType_t::CUDA_R_32F } else { cudaDataType_t::CUDA_R_16BF };
        let matrices = [
            (stored(product.b_transposed, columns), cudaDataType_t::CUDA_R_16BF),
            (stored(product.a_transposed, rows), cudaDataType_t::CUDA_R_16BF),
            ((columns, rows), exact),
        ];
        for (layout, ((height, width), kind)) in call.layouts.iter_mut().zip(matrices) {
            let (height, width) = (height as u64, width as u64);
            // SAFETY: the library writes the pointer. Columns follow each other without gaps.
            let code = unsafe {
                (functions.cublasLtMatrixLayoutCreate)(
                    layout,
                    kind as u32,
                    height,
                    width,
                    height.cast_signed(),
                )
            };
            if code != 0 {
                return None;
            }
        }
        Some(call)
    }

    /// The first algorithm that the library proposes and that adds up in one chain.
    fn propose(&self) -> Option<cublasLtMatmulAlgo_t> {
        let functions = &self.blas.functions;
        let mut preference = ptr::null_mut();
        // SAFETY: the library writes the pointer.
        if unsafe { (functions.cublasLtMatmulPreferenceCreate)(&raw mut preference) } != 0 {
            return None;
        }
        let (no_bytes, no_scheme, alignment) = (0_u64, 0_u32, ALIGNMENT as u32);
        let number = |number: &u32| (ptr::from_ref(number).cast::<c_void>(), size_of::<u32>());
        let alignments = [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        let wishes = alignments.map(|attribute| (attribute, number(&alignment))).into_iter().chain([
            (
                Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                ((&raw const no_bytes).cast(), size_of::<u64>()),
            ),
            (Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, number(&no_scheme)),
        ]);
        let mut code = 0;
        for (attribute, (value, size)) in wishes {
            // SAFETY: the preference was made above, and each attribute has the type that the library's header says.
            code |= unsafe {
                (functions.cublasLtMatmulPreferenceSetAttribute)(preference, attribute as u32, value, size)
            };
        }
        let nothing = Proposal {
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
            workspace: 0,
            state: -1,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut proposals = [nothing; PROPOSALS];
        let mut count = 0;
        let [left, right, result] = self.layouts;
        if code == 0 {
            // SAFETY: all that is handed over lives; the library writes at most so many proposals, and how many.
            code = unsafe {
                (functions.cublasLtMatmulAlgoGetHeuristic)(
                    self.blas.handle,
                    self.description,
                    left,
                    right,
                    result,
                    result,
                    preference,
                    PROPOSALS as c_int,
                    proposals.as_mut_ptr(),
                    &raw mut count,
                )
            };
        }
        // SAFETY: the preference is not used again.
        unsafe { (functions.cublasLtMatmulPreferenceDestroy)(preference) };
        let count = if code == 0 { usize::try_from(count).unwrap_or(0).min(PROPOSALS) } else { 0 };
        let one_chain = |proposal: &&Proposal| {
            proposal.state == 0
                && proposal.workspace == 0
                && self.config(proposal, Config::CUBLASLT_ALGO_CONFIG_ID) == Some(ALGORITHM)
                && self
                    .config(proposal, Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
                    .is_some_and(|parts| parts <= 1)
                && self.config(proposal, Config::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == Some(0)
        };
        proposals[..count].iter().find(one_chain).map(|proposal| proposal.algorithm)
    }

    fn config(&self, proposal: &Proposal, attribute: Config) -> Option<c_int> {
        let (mut value, mut written): (c_int, usize) = (0, 0);
        // SAFETY: the algorithm is the library's; the attributes asked for are ints.
        let code = unsafe {
            (self.blas.functions.cublasLtMatmulAlgoConfigGetAttribute)(
                &raw const proposal.algorithm,
                attribute as u32,
                (&raw mut value).cast(),
                size_of::<c_int>(),
                &raw mut written,
            )
        };
        (code == 0).then_some(value)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let functions = &self.blas.functions;
        for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
            // SAFETY: the library made it, and it is not used again.
            unsafe { (functions.cublasLtMatrixLayoutDestroy)(layout) };
        }
        if !self.description.is_null() {
            // SAFETY: as above.
            unsafe { (functions.cublasLtMatmulDescDestroy)(self.description) };
        }
    }
}

/// A product of so many tokens. These are the rows; where sums go on, they are the terms.
fn with_tokens(product: Product, tokens: usize) -> Product {
    match product.accumulates {
        true => Product { depth: tokens, ..product },
        false => Product { rows: tokens, ..product },
    }
}

fn describe(kind: &Product) -> String {
    let Product { rows, columns, depth, .. } = *kind;
    match (kind.accumulates, kind.b_transposed) {
        (true, _) => format!("gradients of weights {rows} x {columns}"),
        (false, false) => format!("linear layers from {depth} to {columns}"),
        (false, true) => format!("gradients of inputs, from {depth} to {columns}"),
    }
}

/// Random numbers between -2 and 2 of many magnitudes, as bfloat16; none is zero.
fn pattern() -> Vec<u16> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut number = || {
        let random = random();
        let exponent = 127 - (random >> 16 & 7).min(random >> 24 & 7);
        (random >> 32 & 1) << 15 | exponent << 7 | random >> 40 & 127
    };
    (0..PATTERN).map(|_| number() as u16).collect()
}

/// Memory of so many bfloat16 that repeat the pattern.
fn fill(gpu: &Gpu, pattern: &[u16], numbers: usize) -> Result<<Gpu as Device>::Memory, OutOfMemory> {
    let bytes = numbers * size_of::<u16>();
    let memory = gpu.allocate(bytes)?;
    let pattern: &[u8] = bytemuck::cast_slice(pattern);
    let mut filled = bytes.min(pattern.len());
    gpu.upload(&pattern[..filled], &memory, 0);
    while filled < bytes {
        let more = filled.min(bytes - filled);
        gpu.copy(&memory, 0, &memory, filled, more);
        filled += more;
    }
    Ok(memory)
}
