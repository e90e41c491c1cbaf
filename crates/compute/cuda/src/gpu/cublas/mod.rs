//! Products by cuBLASLt, if it computes them to the bits of the kernels here.
//!
//! The library promises no bits. But an algorithm that does not split sums adds along the depth in
//! the tensor core alone: a chain of steps of 16, whatever its tiles are (see [`chain`]). So only
//! such algorithms are asked for: without workspace there is no room for partial sums, and the
//! proposals are checked. Before an algorithm computes a kind of product for the first time, one
//! product is compared with chains on the host ([`Algorithms`]). If a bit differs, the reason is
//! kept and our own kernels compute such products.

mod algorithms;
pub(crate) mod chain;
mod comparison;

use super::device::Gpu;
use super::symbols::{self, functions};
use super::{Architecture, LibraryName, Search, Surroundings, Version};
use crate::device::{Device, Memory, Product};
use algorithms::{Algorithm, Algorithms, Comparison, Library, with_tokens};
use comparison::{difference, pattern};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulAlgoConfigAttributes_t as Config, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayout_t, cudaDataType_t,
    cudaStream_t,
};
use cudarc::driver::sys::CUstream;
use half::bf16;
use isentrope_kernels::OutOfMemory;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::path::Path;
use std::ptr;

/// The algorithms whose tiles do not change bits, on Hopper and later ("nvjet"). Others compute
/// tiny or unaligned products without the tensor core.
const ALGORITHM: c_int = 66;
/// Most proposals that are considered.
const PROPOSALS: usize = 16;
/// Required alignment of addresses and rows, in bytes.
const ALIGNMENT: usize = 16;
/// The most elements of each matrix of a compared product that grows with the tokens, and of a
/// weight's gradient.
const LARGEST: usize = 1 << 28;
/// `CUBLAS_STATUS_NOT_SUPPORTED`: there are no proposals.
const NOT_SUPPORTED: c_int = 15;

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
        cublasLtMatmulPreferenceSetAttribute(
            cublasLtMatmulPreference_t, u32, *const c_void, usize
        ) -> c_int;
        cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) -> c_int;
        cublasLtMatmulAlgoGetHeuristic(
            cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
            cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
            cublasLtMatmulPreference_t, c_int, *mut Proposal, *mut c_int
        ) -> c_int;
        cublasLtMatmulAlgoConfigGetAttribute(
            *const cublasLtMatmulAlgo_t, u32, *mut c_void, usize, *mut usize
        ) -> c_int;
        cublasLtMatmul(
            cublasLtHandle_t, cublasLtMatmulDesc_t, *const c_void,
            *const c_void, cublasLtMatrixLayout_t, *const c_void, cublasLtMatrixLayout_t,
            *const c_void, *const c_void, cublasLtMatrixLayout_t, *mut c_void,
            cublasLtMatrixLayout_t, *const cublasLtMatmulAlgo_t, *mut c_void, usize, cudaStream_t
        ) -> c_int;
    }
}

/// `cublasLtMatmulHeuristicResult_t`. Its state may be a number that is not known here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proposal {
    algorithm: cublasLtMatmulAlgo_t,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// The library, for one GPU.
pub struct Blas {
    functions: Functions,
    handle: cublasLtHandle_t,
    version: Version,
    architecture: Architecture,
    algorithms: Algorithms,
}

/// The library together with the GPU that it computes on.
struct On<'a> {
    blas: &'a Blas,
    gpu: &'a Gpu,
}

// SAFETY: cuBLASLt's documentation allows several threads to use the handle at a time; the rest is
// behind locks.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Looks for a copy that works with the driver, for the GPU whose context the calling thread
    /// has.
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
            let algorithms = Algorithms::default();
            Ok((Self { functions, handle, version, architecture, algorithms }, version))
        })
    }

    /// Runs the same search without a GPU, and keeps nothing.
    pub fn look(surroundings: &Surroundings, driver: Option<Version>) -> Search {
        Search::run(LibraryName::CublasLt, surroundings, driver, open).1
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Computes a product if the library gives the bits of the kernels here. If that is not known
    /// yet, finds out first. Otherwise returns false and does nothing.
    pub(super) fn product(&self, gpu: &Gpu, product: &Product) -> bool {
        if !is_aligned(product) {
            return false;
        }
        let algorithm = self.algorithms.of(&On { blas: self, gpu }, product);
        algorithm
            .is_some_and(|algorithm| self.compute(gpu, product, algorithm, gpu.stream().handle))
    }

    /// Puts a product into a capturing stream, if a product of these sizes was
    /// [computed](Self::product) before; returns false if none was.
    pub(super) fn captured(&self, gpu: &Gpu, product: &Product, stream: CUstream) -> bool {
        let known = self.algorithms.known(product).filter(|_| is_aligned(product));
        known.is_some_and(|algorithm| self.compute(gpu, product, algorithm, stream))
    }

    /// Whether some proposed algorithm computes products of a kind to the right bits. The first
    /// call finds out.
    ///
    /// # Errors
    /// Why they are left to the kernels here.
    pub(super) fn verdict(&self, gpu: &Gpu, product: &Product) -> Result<(), String> {
        self.algorithms.examine(&On { blas: self, gpu }, product)
    }

    /// Computes a product with an algorithm that was proposed for its sizes; returns false if the
    /// library refuses.
    fn compute(
        &self,
        gpu: &Gpu,
        product: &Product,
        algorithm: Algorithm,
        handle: CUstream,
    ) -> bool {
        let stream = gpu.stream();
        stream.enter();
        let Ok(call) = Call::new(self, product) else { return false };
        let algorithm = cublasLtMatmulAlgo_t { data: algorithm };
        let (one, zero) = (1.0_f32, 0.0_f32);
        // A call that goes into a graph does not run yet.
        let runs = handle == stream.handle;
        if runs {
            stream.note("cuBLASLt");
        }
        let _timed = runs.then(|| stream.timed("cuBLASLt", None));
        // SAFETY: the layouts have the sizes of the matrices, which the caller has allocated at
        // these addresses. The algorithm was proposed for these layouts, or the library refuses it.
        // Factors are on the host, the description's default.
        let code = unsafe {
            (self.functions.cublasLtMatmul)(
                self.handle,
                call.description,
                (&raw const one).cast(),
                product.b as *const c_void,
                call.layouts[0],
                product.a as *const c_void,
                call.layouts[1],
                (&raw const zero).cast(),
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

impl Library for On<'_> {
    fn propose(&self, shape: &Product) -> Result<Option<Algorithm>, String> {
        if !is_aligned(shape) {
            return Ok(None);
        }
        // The library proposes algorithms for the GPU whose context the calling thread has, which
        // may have none yet.
        self.gpu.stream().enter();
        let proposed = Call::new(self.blas, shape).and_then(|call| call.propose());
        proposed.map_err(|code| {
            format!("the library proposes no algorithm for it (cuBLAS status {code})")
        })
    }

    fn compare(&self, shape: &Product, algorithm: &Algorithm) -> Result<Comparison, OutOfMemory> {
        let Self { blas, gpu } = *self;
        if blas.architecture.major < 9 {
            let why = format!("the bits of {}'s tensor core are not known", blas.architecture);
            return Ok(Comparison::Refused(why));
        }
        let Some(shape) = small_enough(shape) else {
            return Ok(Comparison::Refused(
                "even products of few tokens are too large to be compared".into(),
            ));
        };
        let Product { rows, columns, depth, .. } = shape;
        let size = if shape.d_exact { 4 } else { 2 };
        let pattern = pattern();
        let filled = |numbers: usize| fill(gpu, &pattern, numbers);
        let (a, b) = (filled(rows * depth)?, filled(columns * depth)?);
        let d = filled(rows * columns * size / 2)?;
        let product = Product { a: a.address(), b: b.address(), d: d.address(), ..shape };
        if !blas.compute(gpu, &product, *algorithm, gpu.stream().handle) {
            return Ok(Comparison::Refused("the library does not compute what it proposes".into()));
        }
        let read = |row: usize, line: &mut [u8]| gpu.download(&d, row * line.len(), line);
        Ok(difference(&shape, &pattern, read).map_or(Comparison::Same, Comparison::Refused))
    }
}

/// Whether addresses and rows have the alignment that the library is asked for, and no size is 0.
fn is_aligned(product: &Product) -> bool {
    let Product { rows, columns, depth, .. } = *product;
    let row_of = |transposed, lines| if transposed { lines } else { depth };
    let widths =
        [row_of(product.a_transposed, rows), row_of(product.b_transposed, columns), columns];
    [rows, columns, depth].iter().all(|&size| size > 0)
        && [product.a, product.b, product.d]
            .iter()
            .all(|address| address.is_multiple_of(ALIGNMENT as u64))
        && widths.iter().all(|width| (width * size_of::<bf16>()).is_multiple_of(ALIGNMENT))
}

/// The product with the largest number of tokens that can be compared, at most its own.
fn small_enough(shape: &Product) -> Option<Product> {
    let Product { rows, columns, depth, .. } = *shape;
    // The weights do not count, because the model holds a matrix of that size anyway.
    let (tokens, of_a_token, whatever) = match shape.a_transposed {
        true => (depth, rows.max(columns), rows * columns),
        false => (rows, columns.max(depth), 0),
    };
    let most = LARGEST / of_a_token.max(1);
    (most > 0 && whatever <= LARGEST).then(|| with_tokens(*shape, tokens.min(most)))
}

fn open(path: &Path) -> Result<(Functions, Version), String> {
    let functions = Functions::load(symbols::open(path)?)?;
    // SAFETY: the function takes nothing.
    let number = unsafe { (functions.cublasLtGetVersion)() } as u32;
    Ok((functions, Version::new(number / 10_000, number % 10_000 / 100)))
}

/// Descriptors of one call, destroyed after it.
///
/// The library's matrices lie column by column. A matrix that lies row by row is, to it, the
/// transposed one; so it computes `d^T = b a^T`, whose left factor is `b`.
struct Call<'a> {
    blas: &'a Blas,
    description: cublasLtMatmulDesc_t,
    /// Layouts of the left factor, the right one, and the result.
    layouts: [cublasLtMatrixLayout_t; 3],
}

impl<'a> Call<'a> {
    /// # Errors
    /// The library's status code.
    fn new(blas: &'a Blas, product: &Product) -> Result<Self, c_int> {
        let functions = &blas.functions;
        let mut call = Self { blas, description: ptr::null_mut(), layouts: [ptr::null_mut(); 3] };
        let (compute, scale) =
            (cublasComputeType_t::CUBLAS_COMPUTE_32F as u32, cudaDataType_t::CUDA_R_32F as u32);
        // SAFETY: the library writes the pointer.
        let code = unsafe {
            (functions.cublasLtMatmulDescCreate)(&raw mut call.description, compute, scale)
        };
        if code != 0 {
            return Err(code);
        }
        // CUBLAS_OP_T is 1 and CUBLAS_OP_N is 0; cudarc does not declare them here.
        let operation = i32::from;
        for (attribute, operation) in [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, operation(!product.b_transposed)),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, operation(product.a_transposed)),
        ] {
            let (value, size) = ((&raw const operation).cast(), size_of::<i32>());
            // SAFETY: the description was made above, and the attribute is an int.
            let code = unsafe {
                (functions.cublasLtMatmulDescSetAttribute)(
                    call.description,
                    attribute as u32,
                    value,
                    size,
                )
            };
            if code != 0 {
                return Err(code);
            }
        }
        let Product { rows, columns, depth, .. } = *product;
        let stored = |transposed, lines| if transposed { (lines, depth) } else { (depth, lines) };
        let exact =
            if product.d_exact { cudaDataType_t::CUDA_R_32F } else { cudaDataType_t::CUDA_R_16BF };
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
                return Err(code);
            }
        }
        Ok(call)
    }

    /// The first algorithm that the library proposes and that adds up in one chain.
    fn propose(&self) -> Result<Option<Algorithm>, c_int> {
        let functions = &self.blas.functions;
        let mut preference = ptr::null_mut();
        // SAFETY: the library writes the pointer.
        let code = unsafe { (functions.cublasLtMatmulPreferenceCreate)(&raw mut preference) };
        if code != 0 {
            return Err(code);
        }
        let (no_bytes, no_scheme, alignment) = (0_u64, 0_u32, ALIGNMENT as u32);
        let number = |number: &u32| (ptr::from_ref(number).cast::<c_void>(), size_of::<u32>());
        let alignments = [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        let wishes =
            alignments.map(|attribute| (attribute, number(&alignment))).into_iter().chain([
                (
                    Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                    ((&raw const no_bytes).cast(), size_of::<u64>()),
                ),
                (Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, number(&no_scheme)),
            ]);
        let mut code = 0;
        for (attribute, (value, size)) in wishes {
            // SAFETY: the preference was made above, and each attribute has its type in the
            // library's header.
            code |= unsafe {
                (functions.cublasLtMatmulPreferenceSetAttribute)(
                    preference,
                    attribute as u32,
                    value,
                    size,
                )
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
            // SAFETY: all arguments live; the library writes at most PROPOSALS proposals, and their
            // number.
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
        let count = match code {
            0 => usize::try_from(count).unwrap_or(0).min(PROPOSALS),
            NOT_SUPPORTED => 0,
            code => return Err(code),
        };
        let one_chain = |proposal: &&Proposal| {
            proposal.state == 0
                && proposal.workspace == 0
                && self.config(proposal, Config::CUBLASLT_ALGO_CONFIG_ID) == Some(ALGORITHM)
                && self
                    .config(proposal, Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
                    .is_some_and(|parts| parts <= 1)
                && self.config(proposal, Config::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == Some(0)
        };
        Ok(proposals[..count].iter().find(one_chain).map(|proposal| proposal.algorithm.data))
    }

    fn config(&self, proposal: &Proposal, attribute: Config) -> Option<c_int> {
        let (mut value, mut written): (c_int, usize) = (0, 0);
        // SAFETY: the algorithm is the library's; both attributes are ints.
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

/// Memory of `numbers` bfloat16 that repeat the pattern.
fn fill(gpu: &Gpu, pattern: &[u16], numbers: usize) -> Result<Memory, OutOfMemory> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_compared_with_fewer_tokens() {
        let (rows, columns, depth) = (4096, 151_936, 3584);
        let logits = Product { d_exact: true, rows, columns, depth, ..Product::default() };
        let compared = small_enough(&logits).unwrap();
        assert!(compared.rows < 4096 && compared.rows * compared.columns <= LARGEST);
        assert!((compared.rows + 1) * compared.columns > LARGEST);
        assert_eq!(Product { rows: 4096, ..compared }, logits);
        assert_eq!(
            small_enough(&Product { rows: 64, ..logits }),
            Some(Product { rows: 64, ..logits })
        );
        // A weight's gradient has as many sums for any number of tokens.
        let weights = Product { a_transposed: true, b_transposed: true, ..logits };
        assert_eq!(small_enough(&Product { rows: 1 << 15, columns: 1 << 14, ..weights }), None);
        let fewer = small_enough(&Product { rows: 4096, columns: 4096, depth: 1 << 17, ..weights })
            .unwrap();
        assert_eq!((fewer.rows, fewer.columns, fewer.depth), (4096, 4096, 1 << 16));
    }

    #[test]
    fn matrices_lie_at_multiples_of_16_bytes() {
        let (a, b, d) = (256, 512, 1024);
        let sizes = Product { rows: 3, columns: 64, depth: 128, ..Product::default() };
        let plain = Product { a, b, d, ..sizes };
        assert!(is_aligned(&plain));
        let others = [
            Product { b: 520, ..plain },
            Product { columns: 68, ..plain },
            Product { depth: 132, ..plain },
            Product { a_transposed: true, ..plain },
            Product { rows: 0, ..plain },
        ];
        assert!(others.iter().all(|product| !is_aligned(product)));
    }
}
