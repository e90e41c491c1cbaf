//! A GPU as a [`Device`]: one context, one stream, kernels compiled when it is opened.

use super::blas::Blas;
use super::calls::{Calls, Failed};
use super::compile::Compiled;
use super::event::Event;
use super::fetch::{GpuFetch, Landings};
use super::graph::GpuGraph;
use super::places::Surroundings;
use super::timeline::Timeline;
use super::{Architecture, Driver, Error, KernelCache, Nvrtc, Search, Source, Version, cache};
use crate::catalog::FUNCTIONS;
use crate::device::{Device, Limits, Memory, MemoryInfo, Product};
use crate::failure::Failure;
use crate::kernels::{self, Argument, Function, Grid, HEADERS};
use crate::operation::Operation;
use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction_attribute, CUstream_flags};
use isentrope_kernels::OutOfMemory;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

/// Uploads and downloads of at most so many bytes go through memory that the GPU reaches itself, so
/// that the host need not wait for an upload.
const STAGED: usize = 4 << 20;
/// Bytes of each half of that memory.
const HALF: usize = 8 << 20;
/// So many of the last launches are named when the GPU fails.
const REMEMBERED: usize = 6;

/// A GPU.
pub struct Gpu {
    name: String,
    limits: Limits,
    nvrtc: Nvrtc,
    cache: Option<KernelCache>,
    architecture: Architecture,
    loaded: RwLock<Loaded>,
    staging: Mutex<Staging>,
    /// Whether the driver waits for each launch, so that a failure names its kernel. A graph would
    /// be one launch of many.
    launches_block: bool,
    landings: Landings,
    blas: Option<Blas>,
    /// How the search for cuBLASLt went.
    blas_search: Search,
    /// Goes last: what is above needs its context.
    stream: Arc<Stream>,
}

/// Kernels loaded by the driver: modules by file, functions by file and name.
#[derive(Default)]
struct Loaded {
    modules: HashMap<&'static str, sys::CUmodule>,
    functions: HashMap<(&'static str, &'static str), sys::CUfunction>,
}

// SAFETY: the driver's functions may be called from any thread on any of its handles, once the
// thread has the context, which each method sees to; what the methods change themselves is behind
// locks.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// The context of a GPU and the stream that everything goes into.
pub(super) struct Stream {
    calls: Calls,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub handle: sys::CUstream,
    /// The kernels that were launched last, until the host has waited for them.
    launched: Mutex<Vec<&'static str>>,
    /// When it did what it was given, while a trace is recorded.
    pub timeline: Timeline,
}

// SAFETY: as for `Gpu`.
unsafe impl Send for Stream {}
// SAFETY: as for `Gpu`.
unsafe impl Sync for Stream {}

/// Memory on a GPU.
pub struct GpuMemory {
    stream: Arc<Stream>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// Memory of the host that is locked, so that the GPU reaches it itself, for whoever keeps it.
pub struct LockedMemory {
    stream: Arc<Stream>,
    /// Whoever holds the lock puts copies from or to it into the stream, or has waited for those,
    /// and reads or writes it.
    address: Mutex<*mut u8>,
    bytes: usize,
}

// SAFETY: the memory is this one's own, and no thread's in particular.
unsafe impl Send for LockedMemory {}
// SAFETY: the bytes behind the address are used by whoever holds the lock alone, and by the stream,
// for which that one waits.
unsafe impl Sync for LockedMemory {}

/// Memory of the host that the GPU reaches itself, in two halves. Each is written from its
/// beginning to its end, and again once the stream has passed what was in it before: by then the
/// other half has been written, so that there is seldom anything to wait for.
struct Staging {
    address: *mut u8,
    /// The half that is being written.
    half: usize,
    /// Bytes of it that have been.
    used: usize,
    /// The place in the stream behind the copies from and to each half.
    passed: [Event; 2],
}

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
        let gpu = Self {
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
            staging: Mutex::new(Staging::new(&stream)?),
            launches_block: surroundings.launches_block(),
            landings: Landings::default(),
            blas,
            blas_search,
            stream,
        };
        // NVRTC compiles as many at a time as it is asked to.
        let compiled: Vec<Result<Compiled, Error>> = thread::scope(|scope| {
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
        // The driver puts a kernel into the GPU's memory when it is looked up. In the middle of a
        // run there may be none left. Those of cuBLASLt are loaded when they are first used: where
        // that is refused, our own kernel computes the product.
        for function in FUNCTIONS.iter().filter(|function| sources.contains(&function.source)) {
            gpu.find(function)?;
        }
        Ok(gpu)
    }

    /// Without the library of products: all are computed by the kernels here.
    pub fn without_blas(mut self) -> Self {
        self.blas = None;
        self
    }

    /// How the search for the library of products went.
    pub fn blas_search(&self) -> &Search {
        &self.blas_search
    }

    /// The library of products, if there is one.
    pub fn blas(&self) -> Option<&Blas> {
        self.blas.as_ref()
    }

    /// The version of what has compiled its kernels.
    pub fn nvrtc_version(&self) -> Version {
        self.nvrtc.version()
    }

    /// The architecture that kernels are compiled for.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Buffers that fetched bytes arrive in.
    pub(super) fn landings(&self) -> &Landings {
        &self.landings
    }

    /// The stream that everything goes into.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Puts a product by the library of products into a stream that captures; false where the
    /// library has not computed one of such sizes before.
    pub(super) fn captures_product(&self, stream: sys::CUstream, product: &Product) -> bool {
        self.blas.as_ref().is_some_and(|blas| blas.captured(self, product, stream))
    }

    fn compile(&self, source: &'static kernels::Source) -> Result<Compiled, Error> {
        let headers: Vec<Source<'_>> = HEADERS.iter().map(Source::from).collect();
        self.nvrtc.cached(self.cache.as_ref(), source.into(), &headers, self.architecture)
    }

    /// Hands the kernels of a source to the driver.
    fn load(
        &self,
        source: &'static kernels::Source,
        compiled: &Compiled,
    ) -> Result<sys::CUmodule, Error> {
        let mut module = ptr::null_mut();
        // SAFETY: the bytes are a whole cubin, which the driver copies; it writes the pointer. The
        // module stays loaded as long as the context, and that as long as this.
        let code = |calls: &Calls| unsafe {
            (calls.cuModuleLoadData)(&raw mut module, compiled.cubin.as_ptr().cast())
        };
        let loaded = self.stream.call(code);
        loaded.map_err(|error| self.refused(source, "the driver does not load it", &error))?;
        self.loaded
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .modules
            .insert(source.file, module);
        Ok(module)
    }

    fn refused(&self, source: &kernels::Source, what: &str, why: &Failed) -> Error {
        Error::Driver(format!("{}, compiled for {}: {what}: {why}", source.file, self.architecture))
    }

    fn function(&self, function: &Function) -> sys::CUfunction {
        let key = (function.source.file, function.name);
        let known =
            self.loaded.read().unwrap_or_else(PoisonError::into_inner).functions.get(&key).copied();
        known.unwrap_or_else(|| {
            self.find(function).unwrap_or_else(|error| Failure::of_device(error).end())
        })
    }

    /// Looks a kernel up, once.
    fn find(&self, function: &Function) -> Result<sys::CUfunction, Error> {
        let source = function.source;
        let known = self
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
        let failed = |error: Failed| self.refused(source, function.name, &error);
        let mut handle = ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero byte; the driver writes the
        // pointer.
        let code = |calls: &Calls| unsafe {
            (calls.cuModuleGetFunction)(&raw mut handle, module, name.as_ptr())
        };
        self.stream.call(code).map_err(failed)?;
        // More than 48 KiB of shared memory must be asked for, once.
        let of_its_own = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32;
        let mut fixed = 0;
        // SAFETY: the function is one of a module that stays loaded; the driver writes one number.
        let code = |calls: &Calls| unsafe {
            (calls.cuFuncGetAttribute)(&raw mut fixed, of_its_own, handle)
        };
        self.stream.call(code).map_err(failed)?;
        let dynamic =
            as_int(self.limits.shared.saturating_sub(usize::try_from(fixed).unwrap_or(0)));
        let attribute =
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
        // SAFETY: as above.
        let code =
            |calls: &Calls| unsafe { (calls.cuFuncSetAttribute)(handle, attribute, dynamic) };
        self.stream.call(code).map_err(failed)?;
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.functions.insert((source.file, function.name), handle);
        Ok(handle)
    }

    /// Launches a kernel in a stream, which may be one that captures.
    pub(super) fn launch_in(
        &self,
        stream: sys::CUstream,
        function: &Function,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), Failed> {
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
            // SAFETY: the function's module stays loaded, and its arguments are as many and as
            // large as it takes, by the check above. What it does with the memory behind the
            // pointers is the kernel's affair: that it stays within what it was given is shown on
            // the emulator.
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

    fn range(memory: &GpuMemory, offset: usize, bytes: usize) -> sys::CUdeviceptr {
        let end = offset.checked_add(bytes).filter(|end| *end <= memory.bytes);
        assert!(end.is_some(), "bytes {offset} .. + {bytes} of a memory of {} bytes", memory.bytes);
        memory.address + offset as u64
    }
}

impl Device for Gpu {
    type Memory = GpuMemory;
    type HostMemory = LockedMemory;
    type Fetch = GpuFetch;
    type Graph = GpuGraph;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
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

    fn allocate(&self, bytes: usize) -> Result<GpuMemory, OutOfMemory> {
        let stream = Arc::clone(&self.stream);
        if bytes == 0 {
            return Ok(GpuMemory { stream, address: 0, bytes });
        }
        let mut address = 0;
        // SAFETY: the driver writes the address. Nobody reads the memory before something was
        // written there, or its user does not care.
        match self.stream.call(|calls| unsafe { (calls.cuMemAlloc_v2)(&raw mut address, bytes) }) {
            Ok(()) => Ok(GpuMemory { stream, address, bytes }),
            Err(Failed { code: Failed::OUT_OF_MEMORY, .. }) => {
                let MemoryInfo { free, total } = self.memory_info();
                let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
                let why = format!("the GPU has {:.2} of {:.2} GiB free", gib(free), gib(total));
                Err(OutOfMemory { asked: bytes, why })
            }
            Err(error) => self.stream.fail(&error),
        }
    }

    fn upload(&self, bytes: &[u8], to: &GpuMemory, offset: usize) {
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
        // SAFETY: the range is within the memory. The staged bytes stay as they are until the
        // stream has come so far.
        unsafe { self.stream.upload(address, staged) };
    }

    fn download(&self, from: &GpuMemory, offset: usize, bytes: &mut [u8]) {
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
        // SAFETY: as above; nobody else has the staged bytes until the lock is given back.
        unsafe { self.stream.download(address, staged) };
        self.stream.wait();
        bytes.copy_from_slice(staged);
    }

    fn fetch(&self, from: &GpuMemory, offset: usize, bytes: usize) -> GpuFetch {
        self.begin_fetch(from, offset, bytes)
    }

    fn fetched(&self, fetch: GpuFetch, bytes: &mut [u8]) {
        self.end_fetch(fetch, bytes);
    }

    fn copy(
        &self,
        from: &GpuMemory,
        from_offset: usize,
        to: &GpuMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let (from, to) = (Self::range(from, from_offset, bytes), Self::range(to, to_offset, bytes));
        if bytes > 0 {
            let _timed = self.stream.timed("copy", Some(bytes));
            // SAFETY: both ranges are within their memories.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyDtoDAsync_v2)(to, from, bytes, self.stream.handle)
            });
        }
    }

    fn clear(&self, memory: &GpuMemory, offset: usize, bytes: usize) {
        let address = Self::range(memory, offset, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("clear", Some(bytes));
            // SAFETY: the range is within the memory.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemsetD8Async)(address, 0, bytes, self.stream.handle)
            });
        }
    }

    fn allocate_host(&self, bytes: usize) -> Result<LockedMemory, OutOfMemory> {
        let stream = Arc::clone(&self.stream);
        if bytes == 0 {
            return Ok(LockedMemory { stream, address: Mutex::new(ptr::null_mut()), bytes });
        }
        let mut address = ptr::null_mut();
        // SAFETY: the driver writes the address of as many bytes.
        match self
            .stream
            .call(|calls| unsafe { (calls.cuMemHostAlloc)(&raw mut address, bytes, 0) })
        {
            Ok(()) => {}
            Err(Failed { code: Failed::OUT_OF_MEMORY, .. }) => {
                let why = "the host has no such memory that can be locked for the GPU".into();
                return Err(OutOfMemory { asked: bytes, why });
            }
            Err(error) => self.stream.fail(&error),
        }
        let address: *mut u8 = address.cast();
        // SAFETY: so many bytes are there, and nobody else has them.
        unsafe { address.write_bytes(0, bytes) };
        Ok(LockedMemory { stream, address: Mutex::new(address), bytes })
    }

    fn copy_in(
        &self,
        from: &LockedMemory,
        from_offset: usize,
        to: &GpuMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let address = Self::range(to, to_offset, bytes);
        let locked = from.lock();
        let from = from.range(&locked, from_offset, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("upload", Some(bytes));
            // SAFETY: both ranges are within their memories. Whoever writes the host's next holds
            // its lock, and waits for the stream first; the memory is freed behind the stream.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyHtoDAsync_v2)(address, from.cast(), bytes, self.stream.handle)
            });
        }
    }

    fn copy_out(
        &self,
        from: &GpuMemory,
        from_offset: usize,
        to: &LockedMemory,
        to_offset: usize,
        bytes: usize,
    ) {
        let address = Self::range(from, from_offset, bytes);
        let locked = to.lock();
        let to = to.range(&locked, to_offset, bytes);
        if bytes > 0 {
            let _timed = self.stream.timed("download", Some(bytes));
            // SAFETY: as above, of whoever reads or writes it next.
            self.stream.expect(|calls| unsafe {
                (calls.cuMemcpyDtoHAsync_v2)(to.cast(), address, bytes, self.stream.handle)
            });
        }
    }

    fn read_host(&self, from: &LockedMemory, offset: usize, bytes: &mut [u8]) {
        let locked = from.lock();
        let from = from.range(&locked, offset, bytes.len());
        self.stream.wait();
        if !bytes.is_empty() {
            // SAFETY: the range is within the memory, which the stream uses no more, and nobody
            // else while it is locked.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        }
    }

    fn write_host(&self, bytes: &[u8], to: &LockedMemory, offset: usize) {
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
                refused @ Failed { code: Failed::INVALID_VALUE | Failed::OUT_OF_RESOURCES, .. },
            ) => {
                panic!("the kernel {} cannot be launched as {grid:?}: {refused}", function.name)
            }
            Err(error) => self.stream.fail(&error),
        }
    }

    fn capture(&self, operations: &[Operation]) -> Result<GpuGraph, String> {
        if self.launches_block {
            return Err("CUDA_LAUNCH_BLOCKING is set, which has each kernel waited for".into());
        }
        GpuGraph::of(self, operations)
    }

    fn replay(&self, graph: &GpuGraph) -> Result<(), String> {
        self.stream.note("a captured step");
        let _timed = self.stream.timed("graph", None);
        // The first launch of a graph takes it to the GPU, which may have no memory for it.
        match self.stream.call(|calls| graph.launch(calls, self.stream.handle)) {
            Ok(()) => Ok(()),
            Err(lacks @ Failed { code: Failed::OUT_OF_MEMORY, .. }) => Err(lacks.to_string()),
            Err(error) => self.stream.fail(&error),
        }
    }

    fn product(&self, product: &Product) -> bool {
        self.blas.as_ref().is_some_and(|blas| blas.product(self, product))
    }

    fn product_library(&self) -> Option<String> {
        self.blas.as_ref().map(|blas| format!("cuBLASLt {}", blas.version()))
    }

    fn examine(&self, product: &Product) -> Result<(), String> {
        match &self.blas {
            Some(blas) => blas.verdict(self, product),
            None => Err(self.blas_search.missing()),
        }
    }

    fn synchronize(&self) {
        self.stream.wait();
    }
}

impl Stream {
    fn new(calls: Calls, ordinal: usize) -> Result<Self, Error> {
        let check = |result: Result<(), Failed>| {
            result.map_err(|failed| {
                Error::Driver(match failed.code {
                    Failed::OUT_OF_MEMORY => {
                        format!(
                            "GPU {ordinal} has no memory left even for a context; `nvidia-smi` shows who has it"
                        )
                    }
                    _ => format!("GPU {ordinal} cannot be used: {failed}"),
                })
            })
        };
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the driver is initialised, and writes what the pointers lead to. The device is
        // one that it has named.
        unsafe {
            check(calls.check((calls.cuDeviceGet)(&raw mut device, as_int(ordinal))))?;
            check(calls.check((calls.cuDevicePrimaryCtxRetain)(&raw mut context, device)))?;
        }
        // From here on whatever fails releases the context.
        let mut stream = Self {
            calls,
            device,
            context,
            handle: ptr::null_mut(),
            launched: Mutex::default(),
            timeline: Timeline::default(),
        };
        // SAFETY: the context is retained as long as the stream lives, and the driver writes one
        // handle.
        unsafe {
            check(stream.calls.check((stream.calls.cuCtxSetCurrent)(context)))?;
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            let created = (stream.calls.cuStreamCreate)(&raw mut stream.handle, flags);
            check(stream.calls.check(created))?;
        }
        Ok(stream)
    }

    fn attribute(&self, attribute: CUdevice_attribute) -> Result<usize, Error> {
        let mut value = 0;
        // SAFETY: the device is the driver's, which writes one number.
        let code = unsafe {
            (self.calls.cuDeviceGetAttribute)(&raw mut value, attribute as u32, self.device)
        };
        self.calls.check(code).map_err(|error| Error::Driver(error.to_string()))?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// Calls the driver in this context.
    pub fn call(&self, f: impl FnOnce(&Calls) -> c_int) -> Result<(), Failed> {
        // SAFETY: the context is retained as long as this lives.
        self.calls.check(unsafe { (self.calls.cuCtxSetCurrent)(self.context) })?;
        self.calls.check(f(&self.calls))
    }

    /// As [`call`](Self::call), where failing means that the GPU is of no use any more.
    pub fn expect(&self, f: impl FnOnce(&Calls) -> c_int) {
        self.call(f).unwrap_or_else(|error| self.fail(&error));
    }

    /// Gives the calling thread the context.
    pub fn enter(&self) {
        self.expect(|_| 0);
    }

    /// Copies bytes from the host, once the stream has come so far.
    ///
    /// # Safety
    /// Until then the bytes stay as they are, and there is as much memory at the address.
    unsafe fn upload(&self, to: sys::CUdeviceptr, bytes: &[u8]) {
        let _timed = self.timed("upload", Some(bytes.len()));
        // SAFETY: by the caller's word.
        self.expect(|calls| unsafe {
            (calls.cuMemcpyHtoDAsync_v2)(to, bytes.as_ptr().cast(), bytes.len(), self.handle)
        });
    }

    /// Copies bytes to the host, once the stream has come so far.
    ///
    /// # Safety
    /// Until then nobody uses the bytes, and there is as much memory at the address.
    unsafe fn download(&self, from: sys::CUdeviceptr, bytes: &mut [u8]) {
        let _timed = self.timed("download", Some(bytes.len()));
        // SAFETY: by the caller's word.
        self.expect(|calls| unsafe {
            (calls.cuMemcpyDtoHAsync_v2)(bytes.as_mut_ptr().cast(), from, bytes.len(), self.handle)
        });
    }

    /// Waits for all that is in the stream.
    pub fn wait(&self) {
        // SAFETY: the stream lives as long as this.
        self.expect(|calls| unsafe { (calls.cuStreamSynchronize)(self.handle) });
        self.launched().clear();
        self.has_waited();
    }

    /// To be called when the host has waited for something in the stream.
    pub fn has_waited(&self) {
        if isentrope_trace::is_on() {
            self.tell_times();
        }
    }

    fn launched(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what is launched, to name it if the GPU fails.
    pub fn note(&self, kernel: &'static str) {
        let mut launched = self.launched();
        if launched.last() != Some(&kernel) {
            if launched.len() == REMEMBERED {
                launched.remove(0);
            }
            launched.push(kernel);
        }
    }

    /// Ends with what the driver says. Most failures of kernels are seen by a later call only, and
    /// by every one from then on; lack of memory is not one of them.
    pub fn fail(&self, error: &Failed) -> ! {
        if error.code == Failed::OUT_OF_MEMORY {
            Failure::of_memory(format!("the GPU has no memory left: {error}")).end();
        }
        Failure::of_device(failure(&error.to_string(), &self.launched())).end()
    }
}

/// The sentence for a GPU that has failed.
fn failure(what: &str, launched: &[&str]) -> String {
    match launched {
        [] => format!("the GPU has failed: {what}"),
        [only] => format!("the GPU has failed while it ran {only}: {what}"),
        [earlier @ .., last] => format!(
            "the GPU has failed: {what}; while it ran {last}, or what it was given before that ({}): CUDA_LAUNCH_BLOCKING=1 \
             tells which",
            earlier.iter().rev().copied().collect::<Vec<_>>().join(", ")
        ),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream any more, since whatever does keeps this alive; the
        // context was retained once.
        unsafe {
            (self.calls.cuCtxSetCurrent)(self.context);
            // A null handle is the default stream, and nobody's to destroy: this one was never
            // made.
            if !self.handle.is_null() {
                (self.calls.cuStreamSynchronize)(self.handle);
                self.timeline.destroy(&self.calls);
                (self.calls.cuStreamDestroy_v2)(self.handle);
            }
            (self.calls.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

impl Memory for GpuMemory {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        let _call = isentrope_trace::call("free").with("bytes", self.bytes);
        // Earlier calls may still use it. A GPU that has failed frees nothing, and has said so, or
        // will. SAFETY: the memory was allocated in this context, and is not used again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFree_v2)(self.address)
        });
    }
}

impl LockedMemory {
    /// How many bytes there are.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the first bytes, without waiting for the stream.
    ///
    /// # Safety
    /// What the stream has been given that writes them has been carried out.
    pub(super) unsafe fn read(&self, bytes: &mut [u8]) {
        let locked = self.lock();
        let from = self.range(&locked, 0, bytes.len());
        // SAFETY: the range is within the memory, which by the caller's word nothing writes now.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    fn lock(&self) -> MutexGuard<'_, *mut u8> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where so many bytes from `offset` are, of memory that is locked.
    ///
    /// # Panics
    /// When they reach beyond its end.
    fn range(&self, address: &MutexGuard<'_, *mut u8>, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        assert!(
            end.is_some(),
            "bytes {offset} .. + {bytes} of locked memory of {} bytes",
            self.bytes
        );
        address.wrapping_add(offset)
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let address = *self.lock();
        if address.is_null() {
            return;
        }
        // Earlier copies may still use it. A GPU that has failed frees nothing, and has said so, or
        // will. SAFETY: the memory was locked in this context, and is not used again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFreeHost)(address.cast())
        });
    }
}

impl Staging {
    fn new(stream: &Arc<Stream>) -> Result<Self, Error> {
        let failed = |failed: Failed| {
            Error::Driver(format!(
                "{} MiB of memory cannot be locked for the GPU: {failed}",
                (2 * HALF) >> 20
            ))
        };
        let passed = [Event::new(stream).map_err(failed)?, Event::new(stream).map_err(failed)?];
        let mut address = ptr::null_mut();
        // SAFETY: the driver writes the address of as many bytes.
        let code = |calls: &Calls| unsafe { (calls.cuMemHostAlloc)(&raw mut address, 2 * HALF, 0) };
        stream.call(code).map_err(failed)?;
        // SAFETY: so many bytes are there; as zeros they may be read.
        unsafe { address.cast::<u8>().write_bytes(0, 2 * HALF) };
        Ok(Self { address: address.cast(), half: 0, used: 0, passed })
    }

    /// The next so many bytes, at most [`STAGED`], which nothing in the stream uses any more.
    /// Whoever has them puts their copy into the stream before anybody asks for the next ones.
    fn next(&mut self, bytes: usize) -> &mut [u8] {
        if self.used + bytes > HALF {
            self.passed[self.half].record();
            self.half = 1 - self.half;
            self.used = 0;
            // One that was never recorded has been passed.
            self.passed[self.half].wait();
        }
        // SAFETY: `used + bytes` is at most a half. Parts before `used` may be in use by the
        // stream, these are not; and the borrow of self keeps others from asking for them.
        let part = unsafe {
            std::slice::from_raw_parts_mut(self.address.add(self.half * HALF + self.used), bytes)
        };
        self.used = (self.used + bytes).next_multiple_of(64).min(HALF);
        part
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let address = self.staging().address;
        // SAFETY: once the stream has come to its end nothing uses the staging memory, and nobody
        // can ask for it again.
        let _ = self.stream.call(|calls| unsafe {
            (calls.cuStreamSynchronize)(self.stream.handle);
            (calls.cuMemFreeHost)(address.cast())
        });
    }
}

/// A number that the driver takes as an `int`, which all sizes here fit.
fn as_int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_what_may_be_the_cause() {
        for launched in ["norm", "a captured step"] {
            assert_eq!(
                failure("an illegal memory access was encountered", &[launched]),
                format!(
                    "the GPU has failed while it ran {launched}: an illegal memory access was encountered"
                )
            );
        }
        let said = failure("x", &["a", "b", "c"]);
        assert!(
            said.contains("while it ran c, ")
                && said.contains("(b, a)")
                && said.contains("CUDA_LAUNCH_BLOCKING=1"),
            "{said}"
        );
    }
}
