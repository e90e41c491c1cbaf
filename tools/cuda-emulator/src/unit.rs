//! A file of kernels, compiled by g++ to a library and loaded, as NVRTC does for a GPU.

use crate::calls::{Access, CALLS, Calls};
use isentrope_cuda::{ArgumentKind, HEADERS, Source};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, io, process};

const EMULATOR: &str = include_str!("../runtime/emulator.h");
const UNIT: &str = include_str!("../runtime/unit.cpp");
const ACCESSES: &str = include_str!("../runtime/accesses.cpp");

/// Compiler flags of every kernel: nothing is fused or reassociated. Undefined behaviour of C++
/// that a GPU would not notice ends in an illegal instruction.
const FLAGS: [&str; 10] = [
    "-std=c++17",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-stack-protector",
    // A kernel with too much on its stack meets the guard page, not the memory below it.
    "-fstack-clash-protection",
    "-Wall",
    "-Wno-unused-function",
    "-fsanitize=bounds,alignment,shift,integer-divide-by-zero",
    "-fsanitize-undefined-trap-on-error",
];

/// A kernel of a unit; `Export` in runtime/emulator.h.
#[repr(C)]
pub(crate) struct Export {
    next: *const Export,
    name: *const c_char,
    function: unsafe extern "C" fn(),
    call: unsafe extern "C" fn(unsafe extern "C" fn(), *const u64),
    threads: u32,
    parameters: u32,
    kinds: [u8; 32],
}

// SAFETY: it is constant once its library is loaded.
unsafe impl Send for Export {}
// SAFETY: as above.
unsafe impl Sync for Export {}

impl Export {
    /// Runs the kernel as one thread.
    ///
    /// # Safety
    /// On a fiber of a worker, with as many arguments as it has parameters.
    pub(crate) unsafe fn call(&self, arguments: &[u64]) {
        // SAFETY: the caller's.
        unsafe { (self.call)(self.function, arguments.as_ptr()) };
    }

    /// Most threads of its blocks.
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    /// Parameters by the C++ signature.
    pub(crate) fn parameters(&self) -> Vec<ArgumentKind> {
        const KINDS: [ArgumentKind; 4] =
            [ArgumentKind::Pointer, ArgumentKind::U32, ArgumentKind::U64, ArgumentKind::F32];
        self.kinds[..self.parameters as usize].iter().map(|&kind| KINDS[kind as usize]).collect()
    }
}

/// A loaded library.
pub(crate) struct Unit {
    exports: HashMap<String, &'static Export>,
}

impl Unit {
    /// The kernel of that name.
    pub(crate) fn export(&self, name: &str) -> Option<&'static Export> {
        self.exports.get(name).copied()
    }

    /// The names of all kernels, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.exports.keys().cloned().collect();
        names.sort();
        names
    }

    /// Compiles and loads a file of kernels, or takes an earlier compilation.
    ///
    /// # Errors
    /// A sentence, with what the compiler says.
    pub(crate) fn of(
        source: &Source,
        replaced: &Replaced,
        accesses: bool,
    ) -> Result<Arc<Self>, String> {
        // A unit is compiled once, under a lock of its own; others are compiled meanwhile.
        type Slot = Arc<Mutex<Option<Arc<Unit>>>>;
        static LOADED: Mutex<Option<HashMap<u64, Slot>>> = Mutex::new(None);
        let text = text(source, replaced);
        let headers = included(text, replaced);
        let is_changed = replaced.contains_key(source.file)
            || headers.iter().any(|(file, _)| replaced.contains_key(*file));
        let flags = flags(is_changed);
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), source.file, text, accesses, &flags, EMULATOR, UNIT, ACCESSES)
            .hash(&mut hasher);
        (crate::fiber::STACK, compiler()).hash(&mut hasher);
        headers.hash(&mut hasher);
        let key = hasher.finish();
        let slot = {
            let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(loaded.get_or_insert_default().entry(key).or_default())
        };
        let mut unit = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unit) = &*unit {
            return Ok(Arc::clone(unit));
        }
        let cache = directory()
            .map_err(|error| format!("there is no place for compiled kernels: {error}"))?;
        let library = cache.join(format!("{}-{key:016x}.so", source.file.trim_end_matches(".cu")));
        if !library.exists() {
            // Other processes that need the library wait for it. The lock ends with the process
            // that has it. If there are no locks here, each process compiles for itself.
            let lock = fs::File::create(library.with_extension("lock"));
            let _held = lock.and_then(|file| file.lock().map(|()| file));
            if !library.exists() {
                compile((source.file, text), &headers, accesses, &flags, &library)?;
            }
        }
        Ok(Arc::clone(unit.insert(Arc::new(load(&library, accesses)?))))
    }
}

/// Texts that replace the files' own, by the files' names.
pub(crate) type Replaced = HashMap<String, String>;

/// The headers that a text includes, directly or through others, with their texts. A library
/// depends on these headers alone, so replacing another one does not recompile it.
fn included<'a>(text: &str, replaced: &'a Replaced) -> Vec<(&'static str, &'a str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut left = vec![text];
    while let Some(text) = left.pop() {
        for line in text.lines() {
            let named = line
                .trim_start()
                .strip_prefix("#include \"")
                .and_then(|rest| rest.split('"').next());
            let header = named.and_then(|file| HEADERS.iter().find(|header| header.file == file));
            if let Some(header) =
                header.filter(|header| found.iter().all(|(file, _)| *file != header.file))
            {
                let text = self::text(header, replaced);
                found.push((header.file, text));
                left.push(text);
            }
        }
    }
    found.sort_unstable();
    found
}

fn text<'a>(source: &Source, replaced: &'a Replaced) -> &'a str {
    replaced.get(source.file).map_or(source.text, String::as_str)
}

/// The compiler: `CXX`, or g++.
fn compiler() -> String {
    env::var("CXX").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "g++".to_owned())
}

fn flags(is_changed: bool) -> Vec<String> {
    let mut flags: Vec<String> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
    // Whole models run on the original kernels. Changed texts run once or twice, and compile for
    // long.
    flags.push(if is_changed { "-Og" } else { "-O2" }.to_owned());
    flags.push(format!("-DEMULATED_STACK={}ull", crate::fiber::STACK));
    // Without it, every fused multiply-add is a call.
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2") {
        flags.extend(["-mavx2".to_owned(), "-mfma".to_owned()]);
    }
    flags
}

/// Beside the program that runs. Cargo's tests and examples have one beside their directories.
fn directory() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let is_cargos = beside.ends_with("deps") || beside.ends_with("examples");
    let common = beside.parent().filter(|_| is_cargos).unwrap_or(beside);
    let cache = common.join("emulated-kernels");
    fs::create_dir_all(&cache)?;
    Ok(cache)
}

/// Writes the files of one library into a directory of its own, compiles them there, and moves the
/// library to its final path. Several processes may do so at once.
fn compile(
    (file, text): (&str, &str),
    headers: &[(&str, &str)],
    accesses: bool,
    flags: &[String],
    library: &Path,
) -> Result<(), String> {
    static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let work = library.with_extension(format!("{}-{number}", process::id()));
    let result = fs::create_dir_all(&work)
        .and_then(|()| {
            fs::write(work.join("emulator.h"), EMULATOR)?;
            fs::write(work.join("unit.cpp"), UNIT)?;
            fs::write(work.join("accesses.cpp"), ACCESSES)?;
            fs::write(work.join(file), text)?;
            headers.iter().try_for_each(|(name, text)| fs::write(work.join(name), text))
        })
        .map_err(|error| {
            format!("cannot write the kernels of {file} to {}: {error}", work.display())
        })
        .and_then(|()| {
            let kernels = format!("-DKERNELS=\"{file}\"");
            if accesses {
                // The hook it calls is a function of our own, so nothing is linked for it.
                let tell = ["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"];
                run(file, &work, flags, &["-c", "accesses.cpp", "-o", "accesses.o"])?;
                run(
                    file,
                    &work,
                    flags,
                    &["-c", "unit.cpp", "-o", "unit.o", &kernels, tell[0], tell[1]],
                )?;
                run(file, &work, &[], &["-shared", "-o", "unit.so", "unit.o", "accesses.o"])?;
            } else {
                run(file, &work, flags, &["-shared", "-o", "unit.so", "unit.cpp", &kernels])?;
            }
            fs::rename(work.join("unit.so"), library).map_err(|error| {
                format!("cannot move the library of {file} to {}: {error}", library.display())
            })
        });
    // A directory that stays does no harm.
    let _ = fs::remove_dir_all(&work);
    result
}

fn run(file: &str, work: &Path, flags: &[String], arguments: &[&str]) -> Result<(), String> {
    let name = compiler();
    let output = Command::new(&name).current_dir(work).args(flags).args(arguments).output();
    match output {
        Err(error) => Err(format!(
            "the emulator compiles kernels with {name}, which cannot be run ({error}): \
             apt-get install g++"
        )),
        Ok(output) if !output.status.success() => {
            Err(format!("{name} refuses {file}:\n{}", String::from_utf8_lossy(&output.stderr)))
        }
        Ok(_) => Ok(()),
    }
}

fn load(path: &Path, accesses: bool) -> Result<Unit, String> {
    type Begin = unsafe extern "C" fn(*const Calls) -> *const Export;
    type Tell = unsafe extern "C" fn(Access);
    let explain = |error: libloading::Error| format!("cannot load {}: {error}", path.display());
    // SAFETY: a library that was compiled from the files above, whose constructors make its list of
    // kernels.
    let library = unsafe { Library::new(path) }.map_err(explain)?;
    // Kernels stay for good: their lists and strings are referred to.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: both functions are declared so in runtime/, and called before any kernel.
    let first = unsafe {
        let first = library.get::<Begin>("isentrope_emulated").map_err(explain)?(&raw const CALLS);
        if accesses {
            library.get::<Tell>("isentrope_accesses").map_err(explain)?(CALLS.access());
        }
        first
    };
    let mut exports = HashMap::new();
    let mut next = first;
    // SAFETY: a list of constants of the library, which stays; names are literals.
    while let Some(export) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(export.name) }.to_string_lossy().into_owned();
        exports.insert(name, export);
        next = export.next;
    }
    Ok(Unit { exports })
}
