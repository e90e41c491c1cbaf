//! A GPU as a [`Device`]: one context, one stream, kernels compiled when it is opened.

use super::calls::{Calls, DriverError};
use super::event::Event;
use super::fetch::FetchBuffers;
use super::graph::GpuGraph;
use super::memory::{GpuMemory, LockedMemory, STAGED, Staging};
use super::nvrtc::cache;
use super::stream::{Stream, as_int};
use super::{
    Architecture, Blas, Driver, Error, KernelCache, Nvrtc, Search, Source, Surroundings, Version,
};
use crate::catalog::FUNCTIONS;
use crate::device::{Device, Fetch, Graph, HostMemory, Limits, Memory, MemoryInfo, Product};
use crate::failure::DeviceFailure;
use crate::kernels::{self, Argument, Function, Grid, HEADERS};
use crate::operation::Operation;
use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute};
use isentrope_kernels::OutOfMemory;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

/// A GPU, and one stream of its work.
pub struct Gpu {
    program: Arc<Program>,
    staging: Mutex<Staging>,
    fetch_buffers: FetchBuffers,
    /// The event that a second stream waits for, in the first.
    followed: Option<Event>,
    /// The stream is dropped last, because the fields above need its context.
    stream: Arc<Stream>,
}

/// The kernels and libraries that all streams of a GPU share.
struct Program {
    name: String,
    limits: Limits,
    nvrtc: Nvrtc,
    cache: Option<KernelCache>,
    architecture: Architecture,
    loaded: RwLock<Loaded>,
    /// Whether the driver waits for each launch, so that a failure names its kernel. A graph would
    /// be one launch of many.
    launches_block: bool,
    blas: Option<Blas>,
    /// How the search for cuBLASLt went.
    blas_search: Search,
}

/// Kernels loaded by the driver: modules by file, functions by file and name.
#[derive(Default)]
struct Loaded {
    modules: HashMap<&'static str, sys::CUmodule>,
    functions: HashMap<(&'static str, &'static str), sys::CUfunction>,
}

// SAFETY: the driver's functions may be called from any thread on any of its handles, once the
// thread has the context, which each method ensures. State that the methods change is behind locks.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}
// SAFETY: as above.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Gpu {
    /// Opens a GPU by its number in the driver's order, and compiles kernels for it, or takes them
    /// from the cache.
    ///
    /// # Errors
    /// When there is no such GPU, no driver or NVRTC that goes with it, or a kernel does not
    /// compile.
    pub fn open(
        ordinal: usize,
        surroundings: &Surroundings,
        sources: &[&'static kernels::Source],
    ) -> Result<Self, Error> {
        let (driver, calls) = Driver::open(surroundings)?;
        let gpu = driver.gpus.get(ordinal).ok_or_else(|| {
            Error::Driver(format!(
                "there is no GPU {ordinal}: the driver shows {} (from 0)",
                driver.gpus.len()
            ))
        })?;
        let architecture = gpu.architecture.check()?;
        let (nvrtc, search) = Nvrtc::search(surroundings, Some(driver.cuda), Some(architecture));
        let nvrtc = nvrtc
            .ok_or_else(|| Error::Library(format!("no NVRTC can be used: {}", search.missing())))?;
        let stream = Arc::new(Stream::new(calls, ordinal)?);
        let shared = stream
            .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let release =
            driver.release.as_ref().map(|release| format!("{release}, ")).unwrap_or_default();
        let (blas, blas_search) = Blas::search(surroundings, driver.cuda, architecture);
        let program = Program {
            name: format!(
                "{} (driver {release}CUDA {}; NVRTC {})",
                gpu.name,
                driver.cuda,
                nvrtc.version()
            ),
            limits: Limits {
                capability: (architecture.major, architecture.minor),
                processors: gpu.processors,
                shared,
            },
            nvrtc,
            cache: surroundings
                .cache()
                .map(|directory| KernelCache::new(cache::directory(&directory))),
            architecture,
            loaded: RwLock::default(),
            launches_block: surroundings.launches_block(),
            blas,
            blas_search,
        };
        let gpu = Self::of_stream(Arc::new(program), stream, None)?;
        // Each file is compiled on its own thread, all at the same time.
        let compiled: Vec<Result<Vec<u8>, Error>> = thread::scope(|scope| {
            let threads: Vec<_> = sources
                .iter()
                .map(|&source| (source, scope.spawn(|| gpu.compile(source))))
                .collect();
            threads
                .into_iter()
                .map(|(source, thread)| {
                    let what = format!("compiling {} panicked", source.file);
                    thread.join().unwrap_or(Err(Error::Library(what)))
                })
                .collect()
        });
        for (source, compiled) in sources.iter().zip(compiled) {
            gpu.load(source, &compiled?)?;
        }
        // The driver loads a kernel into the GPU's memory when the kernel is looked up. In the
        // middle of a run there may be no room, so all kernels are looked up here. cuBLASLt loads
        // its kernels at first use; if that fails, our own kernel computes the product.
        for function in FUNCTIONS.iter().filter(|function| sources.contains(&function.source)) {
            gpu.find(function)?;
        }
        Ok(gpu)
    }

    fn of_stream(
        program: Arc<Program>,
        stream: Arc<Stream>,
        followed: Option<Event>,
    ) -> Result<Self, Error> {
        let staging = Mutex::new(Staging::new(&stream)?);
        Ok(Self { program, staging, fetch_buffers: FetchBuffers::default(), followed, stream })
    }

    /// Without the library of products: our own kernels compute all products.
    ///
    /// # Panics
    /// When there is a second stream already.
    pub fn without_blas(mut self) -> Self {
        Arc::get_mut(&mut self.program).expect("one stream has the program").blas = None;
        self
    }

    /// The library of products, if there is one.
    pub fn blas(&self) -> Option<&Blas> {
        self.program.blas.as_ref()
    }

    /// The version of NVRTC that compiles its kernels.
    pub fn nvrtc_version(&self) -> Version {
        self.program.nvrtc.version()
    }

    /// The architecture that kernels are compiled for.
    pub fn architecture(&self) -> Architecture {
        self.program.architecture
    }

    /// Buffers for fetched bytes.
    pub(super) fn fetch_buffers(&self) -> &FetchBuffers {
        &self.fetch_buffers
    }

    /// The stream that everything goes into.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Puts a product of the library into a capturing stream; returns false if the library has not
    /// computed a product of these sizes before.
    pub(super) fn captures_product(&self, stream: sys::CUstream, product: &Product) -> bool {
        self.program.blas.as_ref().is_some_and(|blas| blas.captured(self, product, stream))
    }

    fn compile(&self, source: &'static kernels::Source) -> Result<Vec<u8>, Error> {
        let headers: Vec<Source<'_>> = HEADERS.iter().map(Source::from).collect();
        self.program.nvrtc.cached(
            self.program.cache.as_ref(),
            source.into(),
            &headers,
            self.program.architecture,
        )
    }

    /// Hands the kernels of a source to the driver.
    fn load(&self, source: &'static kernels::Source, cubin: &[u8]) -> Result<sys::CUmodule, Error> {
        let mut module = ptr::null_mut();
        // SAFETY: the bytes are a whole cubin, which the driver copies; it writes the pointer. The
        // module stays loaded as long as the context, and that as long as this.
        let code = |calls: &Calls| unsafe {
            (calls.cuModuleLoadData)(&raw mut module, cubin.as_ptr().cast())
        };
        let loaded = self.stream.call(code);
        loaded.map_err(|error| self.refused(source, "the driver does not load it", &error))?;
        self.program
            .loaded
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .modules
            .insert(source.file, module);
        Ok(module)
    }

    fn refused(&self, source: &kernels::Source, what: &str, why: &DriverError) -> Error {
        Error::Driver(format!(
            "{}, compiled for {}: {what}: {why}",
            source.file, self.program.architecture
        ))
    }

    fn function(&self, function: &Function) -> sys::CUfunction {
        let key = (function.source.file, function.name);
        let known = self
            .program
            .loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .functions
            .get(&key)
            .copied();
        known.unwrap_or_else(|| {
            self.find(function).unwrap_or_else(|error| DeviceFailure::of_device(error).end())
        })
    }

    /// Looks a kernel up, once.
    fn find(&self, function: &Function) -> Result<sys::CUfunction, Error> {
        let source = function.source;
        let known = self
            .program
            .loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .modules
            .get(source.file)
            .copied();
        let module = match known {
            Some(module) => module,
            None => self.load(source, &self.compile(source)?)?,
        };
        let name = CString::new(function.name).map_err(|_| {
            Error::Library(format!("a kernel of {} has a zero byte in its name", source.file))
        })?;
        let failed = |error: DriverError| self.refused(source, function.name, &error);
        let mut handle = ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero byte; the driver writes the
        // pointer.
        let code = |calls: &Calls| unsafe {
            (calls.cuModuleGetFunction)(&raw mut handle, module, name.as_ptr())
        };
        self.stream.call(code).map_err(failed)?;
        // The driver wants a request, once, for more than 48 KiB of shared memory.
        let of_its_own = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32;
        let mut fixed = 0;
        // SAFETY: the function is one of a module that stays loaded; the driver writes one number.
        let code = |calls: &Calls| unsafe {
            (calls.cuFuncGetAttribute)(&raw mut fixed, of_its_own, handle)
        };
        self.stream.call(code).map_err(failed)?;
        let dynamic =
            as_int(self.program.limits.shared.saturating_sub(usize::try_from(fixed).unwrap_or(0)));
        let attribute =
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
        // SAFETY: as above.
        let code =
            |calls: &Calls| unsafe { (calls.cuFuncSetAttribute)(handle, attribute, dynamic) };
        self.stream.call(code).map_err(failed)?;
        let mut loaded = self.program.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.functions.insert((source.file, function.name), handle);
        Ok(handle)
    }

    /// Launches a kernel in a stream: the GPU's own, or one that captures.
    pub(super) fn launch_in(
        &self,
        stream: sys::CUstream,
        function: &Function,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), DriverError> {
        function.check(arguments);
        let [x, y, z] = grid.blocks;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        let handle = self.function(function);
        // A parameter of four bytes is read from the low end of its eight.
        let mut values: Vec<u64> = arguments.iter().map(|argument| argument.bits()).collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| ptr::from_mut(value).cast::<c_void>()).collect();
        self.stream.call(|calls| {
            // SAFETY: the function's module stays loaded, and the check above has compared number
            // and kinds of the arguments. The emulator's tests show that kernels stay within the
            // memory that they are given.
            unsafe {
                let (arguments, none) = (pointers.as_mut_ptr(), ptr::null_mut());
                let (shared, threads) = (grid.shared, grid.threads);
                (calls.cuLaunchKernel)(
                    handle, x, y, z, threads, 1, 1, shared, stream, arguments, none,
                )
            }
        })
    }

    fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(memory: &Memory, offset: usize, bytes: usize) -> sys::CUdeviceptr {
        let end = offset.checked_add(bytes).filter(|end| *end <= memory.bytes());
        let all = memory.bytes();
        assert!(end.is_some(), "bytes {offset} .. + {bytes} of a memory of {all} bytes");
        memory.address() + offset as u64
    }

    /// Copies bytes to locked memory, after all earlier work of the stream.
    pub(super) fn copy_to_locked(
        &self,
        from: &Memory,
        at: usize,
        to: &LockedMemory,
        to_at: usize,
        bytes: usize,
    ) {
        let address = Self::range(from, at, bytes);
        let locked = to.lock();
        let to = to.range(&locked, to_at, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("download", Some(bytes));
            // SAFETY: both ranges are within their memories. The next reader or writer of the
            // host's memory takes its lock and waits for the stream first; the memory is freed
            // behind the stream.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyDtoHAsync_v2)(to.cast(), address, bytes, self.stream.handle)
            });
        }
    }
}

impl Device for Gpu {
    fn name(&self) -> String {
        self.program.name.clone()
    }

    fn limits(&self) -> Limits {
        self.program.limits
    }

    fn memory_info(&self) -> MemoryInfo {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the driver writes two numbers.
        self.stream
            .expect(|calls| unsafe { (calls.cuMemGetInfo_v2)(&raw mut free, &raw mut total) });
        MemoryInfo { free, total }
    }

    fn keeps_memory(&self) -> bool {
        true
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, OutOfMemory> {
        if bytes == 0 {
            return Ok(Memory::new(0, 0, ()));
        }
        let stream = Arc::clone(&self.stream);
        let mut address = 0;
        // SAFETY: the driver writes the address. The memory's first reader comes after its first
        // writer, or ignores its content.
        match self.stream.call(|calls| unsafe { (calls.cuMemAlloc_v2)(&raw mut address, bytes) }) {
            Ok(()) => Ok(Memory::new(address, bytes, GpuMemory { stream, address, bytes })),
            Err(DriverError { code: DriverError::OUT_OF_MEMORY, .. }) => {
                let MemoryInfo { free, total } = self.memory_info();
                let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
                let why = format!("the GPU has {:.2} of {:.2} GiB free", gib(free), gib(total));
                Err(OutOfMemory { asked: bytes, why })
            }
            Err(error) => self.stream.fail(&error),
        }
    }

    fn upload(&self, bytes: &[u8], to: &Memory, offset: usize) {
        let address = Self::range(to, offset, bytes.len());
        if bytes.is_empty() {
            return;
        }
        if bytes.len() > STAGED {
            // SAFETY: the range is within the memory, and the bytes are borrowed until the stream
            // has come so far.
            unsafe { self.stream.upload(address, bytes) };
            self.stream.wait();
            return;
        }
        let mut staging = self.staging();
        let staged = staging.next(bytes.len());
        staged.copy_from_slice(bytes);
        // SAFETY: the range is within the memory. The staged bytes do not change until the stream
        // has copied them.
        unsafe { self.stream.upload(address, staged) };
    }

    fn download(&self, from: &Memory, offset: usize, bytes: &mut [u8]) {
        let address = Self::range(from, offset, bytes.len());
        if bytes.is_empty() {
            return;
        }
        if bytes.len() > STAGED {
            // SAFETY: the range is within the memory, and the bytes are borrowed until the stream
            // has come so far.
            unsafe { self.stream.download(address, bytes) };
            self.stream.wait();
            return;
        }
        let mut staging = self.staging();
        let staged = staging.next(bytes.len());
        // SAFETY: as above; the lock keeps others from the staged bytes.
        unsafe { self.stream.download(address, staged) };
        self.stream.wait();
        bytes.copy_from_slice(staged);
    }

    fn fetch(&self, from: &Memory, offset: usize, bytes: usize) -> Fetch {
        Fetch::new(self.begin_fetch(from, offset, bytes))
    }

    fn fetched(&self, fetch: Fetch, bytes: &mut [u8]) {
        self.end_fetch(fetch.into_own(), bytes);
    }

    fn copy(&self, from: &Memory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        let (from, to) = (Self::range(from, at, bytes), Self::range(to, to_at, bytes));
        if bytes > 0 {
            let _timed = self.stream.timed("copy", Some(bytes));
            // SAFETY: both ranges are within their memories.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyDtoDAsync_v2)(to, from, bytes, self.stream.handle)
            });
        }
    }

    fn clear(&self, memory: &Memory, offset: usize, bytes: usize) {
        let address = Self::range(memory, offset, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("clear", Some(bytes));
            // SAFETY: the range is within the memory.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemsetD8Async)(address, 0, bytes, self.stream.handle)
            });
        }
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory, OutOfMemory> {
        LockedMemory::new(&self.stream, bytes).map(HostMemory::new)
    }

    fn copy_in(&self, from: &HostMemory, at: usize, to: &Memory, to_at: usize, bytes: usize) {
        let address = Self::range(to, to_at, bytes);
        let from: &LockedMemory = from.of();
        let locked = from.lock();
        let from = from.range(&locked, at, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("upload", Some(bytes));
            // SAFETY: both ranges are within their memories. The next writer of the host's memory
            // takes its lock and waits for the stream first; the memory is freed behind the stream.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyHtoDAsync_v2)(address, from.cast(), bytes, self.stream.handle)
            });
        }
    }

    fn copy_out(&self, from: &Memory, at: usize, to: &HostMemory, to_at: usize, bytes: usize) {
        self.copy_to_locked(from, at, to.of(), to_at, bytes);
    }

    fn read_host(&self, from: &HostMemory, offset: usize, bytes: &mut [u8]) {
        let from: &LockedMemory = from.of();
        let locked = from.lock();
        let from = from.range(&locked, offset, bytes.len());
        self.stream.wait();
        if !bytes.is_empty() {
            // SAFETY: the range is within the memory, which the stream does not use any more; the
            // lock keeps other threads from it.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        }
    }

    fn write_host(&self, bytes: &[u8], to: &HostMemory, offset: usize) {
        let to: &LockedMemory = to.of();
        let locked = to.lock();
        let to = to.range(&locked, offset, bytes.len());
        self.stream.wait();
        if !bytes.is_empty() {
            // SAFETY: as above.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }

    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        self.stream.note(function.name);
        let _timed = self.stream.timed(function.name, None);
        match self.launch_in(self.stream.handle, function, grid, arguments) {
            Ok(()) => {}
            Err(
                refused @ DriverError {
                    code: DriverError::INVALID_VALUE | DriverError::OUT_OF_RESOURCES,
                    ..
                },
            ) => {
                panic!("the kernel {} cannot be launched as {grid:?}: {refused}", function.name)
            }
            Err(error) => self.stream.fail(&error),
        }
    }

    fn capture(&self, operations: &[Operation]) -> Result<Graph, String> {
        if self.program.launches_block {
            return Err("CUDA_LAUNCH_BLOCKING is set, which has each kernel waited for".into());
        }
        GpuGraph::of(self, operations).map(Graph::new)
    }

    fn replay(&self, graph: &Graph) -> Result<(), String> {
        self.stream.note("a captured step");
        let _timed = self.stream.timed("graph", None);
        // The first launch of a graph takes it to the GPU, which may have no memory for it.
        let graph: &GpuGraph = graph.of();
        match self.stream.call(|calls| graph.launch(calls, self.stream.handle)) {
            Ok(()) => Ok(()),
            Err(lacks @ DriverError { code: DriverError::OUT_OF_MEMORY, .. }) => {
                Err(lacks.to_string())
            }
            Err(error) => self.stream.fail(&error),
        }
    }

    fn product(&self, product: &Product) -> bool {
        self.program.blas.as_ref().is_some_and(|blas| blas.product(self, product))
    }

    fn product_library(&self) -> Option<String> {
        self.program.blas.as_ref().map(|blas| format!("cuBLASLt {}", blas.version()))
    }

    fn examine(&self, product: &Product) -> Result<(), String> {
        match &self.program.blas {
            Some(blas) => blas.verdict(self, product),
            None => Err(self.program.blas_search.missing()),
        }
    }

    fn library_stream(&self) -> Option<*mut c_void> {
        self.stream.enter();
        Some(self.stream.handle.cast())
    }

    fn second_stream(&self) -> Option<Arc<dyn Device>> {
        let second = || {
            let stream = Arc::new(self.stream.second()?);
            let followed =
                Event::new(&self.stream).map_err(|why| Error::Driver(why.to_string()))?;
            Self::of_stream(Arc::clone(&self.program), stream, Some(followed))
        };
        let second = second().unwrap_or_else(|error| DeviceFailure::of_device(error).end());
        Some(Arc::new(second))
    }

    fn follow(&self) {
        if let Some(followed) = &self.followed {
            followed.record();
            followed.hold(&self.stream);
        }
    }

    fn is_idle(&self) -> bool {
        self.stream.is_idle()
    }

    fn synchronize(&self) {
        self.stream.wait();
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let address = self.staging().address;
        // SAFETY: once the stream has ended nothing uses the staging memory, and no method can ask
        // for it again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFreeHost)(address.cast())
        });
    }
}
