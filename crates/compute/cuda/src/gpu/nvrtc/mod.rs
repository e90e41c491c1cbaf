//! Compiles CUDA C++ to machine code, by NVRTC.
//!
//! The result is always code for an architecture (cubin), never PTX: a driver refuses the PTX of a
//! later NVRTC, but runs machine code of every NVRTC with its own major version.

pub(super) mod cache;

use super::search::companions;
use super::symbols::{self, functions};
use super::{Architecture, Error, LibraryName, Search, Surroundings, Version};
pub use cache::KernelCache;
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

/// Options for every kernel, besides the architecture. Sources write out fused multiply-adds, and
/// everything else is rounded by IEEE 754, so results do not depend on the compiler.
const OPTIONS: [&str; 6] = [
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ptxas-options=-v",
];

functions! {
    /// NVRTC's functions, which return a code that is 0 where all went well.
    struct Functions {
        nvrtcVersion(*mut c_int, *mut c_int) -> c_int;
        nvrtcGetNumSupportedArchs(*mut c_int) -> c_int;
        nvrtcGetSupportedArchs(*mut c_int) -> c_int;
        nvrtcGetErrorString(c_int) -> *const c_char;
        nvrtcCreateProgram(
            *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char,
            *const *const c_char
        ) -> c_int;
        nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char) -> c_int;
        nvrtcDestroyProgram(*mut nvrtcProgram) -> c_int;
        nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> c_int;
        nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> c_int;
        nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> c_int;
        nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> c_int;
    }
}

/// A text, and the name by which other texts include it and messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// Such as `norm.cu`.
    pub name: &'a str,
    /// CUDA C++.
    pub text: &'a str,
}

impl From<&'static crate::kernels::Source> for Source<'static> {
    fn from(source: &'static crate::kernels::Source) -> Self {
        Self { name: source.file, text: source.text }
    }
}

/// Result of compiling a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code, as the driver loads it.
    pub cubin: Vec<u8>,
    /// NVRTC's log: warnings, and each kernel's use of resources.
    pub log: String,
}

/// A copy of NVRTC.
pub struct Nvrtc {
    functions: Functions,
    version: Version,
    path: PathBuf,
    /// The architectures that this NVRTC can compile for, as numbers such as 90.
    architectures: Vec<c_int>,
}

impl Nvrtc {
    /// Looks for a copy of NVRTC that works with the driver, if there is one, and knows the
    /// architecture, if that is known.
    pub fn search(
        surroundings: &Surroundings,
        driver: Option<Version>,
        architecture: Option<Architecture>,
    ) -> (Option<Self>, Search) {
        Search::run(LibraryName::Nvrtc, surroundings, driver, |path| {
            let nvrtc = Self::open(path)?;
            match architecture {
                Some(needed) if !nvrtc.knows(needed) => {
                    Err(format!("it does not know the architecture {needed}"))
                }
                _ => {
                    let version = nvrtc.version;
                    Ok((nvrtc, version))
                }
            }
        })
    }

    fn open(path: &Path) -> Result<Self, String> {
        // NVRTC opens this library by its name when it compiles. It is found anywhere if it is
        // loaded already.
        for companion in companions(path) {
            let _ = symbols::open(&companion); // where it is damaged, compiling says so
        }
        let functions = Functions::load(symbols::open(path)?)?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: NVRTC writes numbers through the pointers.
        let codes = unsafe {
            [
                (functions.nvrtcVersion)(&raw mut major, &raw mut minor),
                (functions.nvrtcGetNumSupportedArchs)(&raw mut count),
            ]
        };
        let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has room for the number of architectures that NVRTC has just given.
        let code = unsafe { (functions.nvrtcGetSupportedArchs)(architectures.as_mut_ptr()) };
        let number = |number: c_int| u32::try_from(number).unwrap_or(0);
        if codes != [0, 0] || code != 0 {
            return Err("it does not say its version".into());
        }
        let version = Version::new(number(major), number(minor));
        Ok(Self { functions, version, path: path.to_owned(), architectures })
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this NVRTC can compile for an architecture.
    pub fn knows(&self, architecture: Architecture) -> bool {
        self.architectures
            .iter()
            .any(|&known| known.cast_unsigned() == architecture.major * 10 + architecture.minor)
    }

    /// The machine code of [`compile`](Self::compile), from the cache if it has an entry. A cache
    /// that cannot be written to only costs time at every start.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn cached(
        &self,
        cache: Option<&KernelCache>,
        source: Source<'_>,
        headers: &[Source<'_>],
        architecture: Architecture,
    ) -> Result<Vec<u8>, Error> {
        let compile = || Ok(self.compile(source, headers, architecture)?.cubin);
        let Some(cache) = cache else { return compile() };
        let (name, version) = (architecture.to_string(), self.version.to_string());
        let parts = [name.as_str(), &version, source.name, source.text];
        let headers_parts = headers.iter().flat_map(|header| [header.name, header.text]);
        let key = cache::key(parts.into_iter().chain(OPTIONS).chain(headers_parts));
        if let Some(cubin) = cache.get(&key) {
            return Ok(cubin);
        }
        let cubin = compile()?;
        let _ = cache.put(&key, &cubin);
        Ok(cubin)
    }

    /// Compiles a source that may include the headers by their names.
    ///
    /// # Errors
    /// [`Error::Compile`] with NVRTC's log; [`Error::Library`] when NVRTC fails otherwise.
    pub fn compile(
        &self,
        source: Source<'_>,
        headers: &[Source<'_>],
        architecture: Architecture,
    ) -> Result<Compiled, Error> {
        let Self { functions, .. } = self;
        let program = Program::new(self, source, headers)?;
        let options: Vec<CString> = OPTIONS
            .iter()
            .map(|&option| option.to_owned())
            .chain([format!("--gpu-architecture={architecture}")])
            .map(|option| self.c_string(&option))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program lives; `pointers` has `options.len()` strings, which outlive the
        // call.
        let code = unsafe {
            (functions.nvrtcCompileProgram)(
                program.handle,
                options.len() as c_int,
                pointers.as_ptr(),
            )
        };
        // SAFETY: both functions are NVRTC's own, for the log's size and for the log of a program
        // that lives.
        let log = unsafe {
            program.bytes(functions.nvrtcGetProgramLogSize, functions.nvrtcGetProgramLog)
        }?;
        // The log has the time of each kernel's compilation, which is different every time.
        let log: Vec<String> = String::from_utf8_lossy(&log)
            .trim_end_matches('\0')
            .lines()
            .filter(|line| !line.contains("Compile time"))
            .map(str::to_owned)
            .collect();
        let log = log.join("\n");
        if code != 0 {
            let log = if log.is_empty() { self.told(code) } else { log };
            return Err(Error::Compile {
                file: source.name.into(),
                architecture: architecture.to_string(),
                log,
            });
        }
        // SAFETY: as above, for the machine code.
        let cubin = unsafe { program.bytes(functions.nvrtcGetCUBINSize, functions.nvrtcGetCUBIN) }?;
        Ok(Compiled { cubin, log })
    }

    fn check(&self, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        Err(Error::Library(format!(
            "NVRTC {} in {}: {}",
            self.version,
            self.path.display(),
            self.told(code)
        )))
    }

    fn told(&self, code: c_int) -> String {
        // SAFETY: NVRTC returns a constant text for every number, even for unknown ones.
        let text = unsafe { (self.functions.nvrtcGetErrorString)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: the text ends with a zero byte, as all texts of the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn c_string(&self, text: &str) -> Result<CString, Error> {
        CString::new(text)
            .map_err(|_| Error::Library("a source for NVRTC holds a zero byte".into()))
    }
}

/// NVRTC's program, which is destroyed when this is dropped.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: nvrtcProgram,
    /// Texts that the program may refer to while it lives.
    _texts: Vec<CString>,
}

impl<'a> Program<'a> {
    fn new(nvrtc: &'a Nvrtc, source: Source<'_>, headers: &[Source<'_>]) -> Result<Self, Error> {
        let sources = [&[source], headers].concat();
        let texts = sources
            .iter()
            .flat_map(|source| [source.text, source.name])
            .map(|text| nvrtc.c_string(text));
        let texts: Vec<CString> = texts.collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let (text, name) = (pointers[0], pointers[1]);
        let contents: Vec<*const c_char> = pointers[2..].iter().copied().step_by(2).collect();
        let names: Vec<*const c_char> = pointers[2..].iter().copied().skip(1).step_by(2).collect();
        let mut handle = ptr::null_mut();
        // SAFETY: all pointers lead to texts that end with a zero byte and live as long as the
        // program; both lists have `contents.len()` entries.
        let code = unsafe {
            (nvrtc.functions.nvrtcCreateProgram)(
                &raw mut handle,
                text,
                name,
                contents.len() as c_int,
                contents.as_ptr(),
                names.as_ptr(),
            )
        };
        nvrtc.check(code)?;
        Ok(Self { nvrtc, handle, _texts: texts })
    }

    /// Reads bytes by a pair of functions: one gives the length, one the bytes.
    ///
    /// # Safety
    /// The second function writes as many bytes as the first one says.
    unsafe fn bytes(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_int,
        get: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, Error> {
        let mut length = 0;
        // SAFETY: the program lives, and the function writes one number.
        self.nvrtc.check(unsafe { size(self.handle, &raw mut length) })?;
        let mut bytes = vec![0_u8; length];
        // SAFETY: the caller promises that the function writes this number of bytes.
        self.nvrtc.check(unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program lives, and is not used again.
        unsafe { (self.nvrtc.functions.nvrtcDestroyProgram)(&raw mut self.handle) };
    }
}
