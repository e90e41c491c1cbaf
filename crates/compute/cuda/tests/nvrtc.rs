//! Kernels through NVIDIA's own compiler, which needs no GPU: every kernel for every architecture,
//! without a spill.
//!
//! NVRTC is looked for as the program does (`ISENTROPE_CUDA_LIBRARIES`, a virtual environment, the
//! system, ...). Without it, each test prints so and tests nothing; `ISENTROPE_TEST_NVRTC=1` makes
//! that a failure.

use isentrope_cuda::gpu::{Architecture, Error, KernelCache, Nvrtc, Source, Surroundings};
use isentrope_cuda::{FUNCTIONS, HEADERS, SOURCES};
use std::fs;
use std::sync::OnceLock;
use std::thread;

/// The compiler, if there is one.
fn nvrtc() -> Option<&'static Nvrtc> {
    static NVRTC: OnceLock<Option<Nvrtc>> = OnceLock::new();
    let found = NVRTC.get_or_init(|| {
        let (nvrtc, search) = Nvrtc::search(&Surroundings::of_process(), None, None);
        if nvrtc.is_none() {
            assert!(
                std::env::var_os("ISENTROPE_TEST_NVRTC").is_none(),
                "NVRTC: {}",
                search.missing()
            );
            println!("skipped: no kernel is compiled by NVRTC here: {}", search.missing());
        }
        nvrtc
    });
    found.as_ref()
}

#[test]
#[ignore = "deep: NVIDIA's compiler takes minutes"]
fn every_kernel_compiles_for_every_architecture_without_a_spill() {
    let Some(nvrtc) = nvrtc() else { return };
    let headers: Vec<Source<'_>> = HEADERS.iter().map(Source::from).collect();
    let (mut kernels, mut wrong) = (0, Vec::new());
    for architecture in Architecture::TESTED {
        assert!(
            nvrtc.knows(architecture),
            "NVRTC {} does not know {architecture}",
            nvrtc.version()
        );
        for &source in SOURCES {
            let compiled = nvrtc
                .compile(source.into(), &headers, architecture)
                .unwrap_or_else(|error| panic!("{error}"));
            // The log has all kernels that Rust knows, and no others.
            let mut known: Vec<&str> = FUNCTIONS
                .iter()
                .filter(|function| function.source == source)
                .map(|function| function.name)
                .collect();
            let all = usage(&compiled.log);
            let mut there: Vec<&str> = all.iter().map(|usage| usage.function.as_str()).collect();
            known.sort_unstable();
            there.sort_unstable();
            assert_eq!(there, known, "kernels of {}", source.file);
            for usage in &all {
                let name = format!("{} in {} for {architecture}", usage.function, source.file);
                assert!((1..=255).contains(&usage.registers), "{name}: {usage:?}");
                assert!(
                    usage.shared <= 48 << 10,
                    "{name}: more static shared memory than a block may have"
                );
                if (usage.spill_stores, usage.spill_loads, usage.stack) != (0, 0, 0) {
                    wrong.push(format!("{name} uses memory for registers: {usage:?}"));
                }
            }
            let warnings = compiled.log.lines().filter(|line| line.contains("warning"));
            wrong.extend(warnings.map(|line| format!("{architecture}: {line}")));
            kernels += all.len();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{kernels} kernels of {} files, by NVRTC {}", SOURCES.len(), nvrtc.version());
}

/// Spills and local memory are noticed.
#[test]
#[ignore = "deep: NVIDIA's compiler takes minutes"]
fn spills_and_local_memory_are_seen() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"
        extern "C" __global__ void __launch_bounds__(1024, 2) crowded(const float* x, float* y) {
            float v[96];
            for (int i = 0; i < 96; i++) v[i] = x[i * 1024 + threadIdx.x];
            #pragma unroll
            for (int round = 0; round < 4; round++) {
                #pragma unroll
                for (int i = 0; i < 96; i++) v[i] = v[i] * v[(i * 7 + 1) % 96] + v[(i + 31) % 96];
            }
            for (int i = 0; i < 96; i++) y[i * 1024 + threadIdx.x] = v[i];
        }
        extern "C" __global__ void indexed(const int* x, int* y) {
            int v[64];
            for (int i = 0; i < 64; i++) v[i] = i;
            for (int i = 0; i < x[0]; i++) v[x[i] & 63] += x[i + 1];
            for (int i = 0; i < 64; i++) y[i] = v[x[i] & 63];
        }
        extern "C" __global__ void plain(float* y) {
            __shared__ float tile[64];
            tile[threadIdx.x] = y[threadIdx.x];
            __syncthreads();
            y[threadIdx.x] = tile[63 - threadIdx.x];
        }"#;
    let compiled =
        nvrtc.compile(Source { name: "spills.cu", text }, &[], Architecture::new(9, 0)).unwrap();
    let all = usage(&compiled.log);
    let of = |name: &str| all.iter().find(|usage| usage.function == name).unwrap();
    assert!(of("crowded").spill_stores > 0 && of("crowded").spill_loads > 0, "{}", compiled.log);
    assert!(of("indexed").stack >= 256, "{}", compiled.log);
    let plain = of("plain");
    assert_eq!(
        (plain.spill_stores, plain.spill_loads, plain.stack, plain.shared),
        (0, 0, 0, 256),
        "{}",
        compiled.log
    );
}

#[test]
#[ignore = "deep: NVIDIA's compiler takes minutes"]
fn code_is_for_the_architecture_and_fuses_nothing_by_itself() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"
        #include "own.h"
        extern "C" __global__ void f(const float* x, float* y) { y[0] = SUM(x[0] * x[1], x[2]); }"#;
    let header = Source { name: "own.h", text: "#define SUM(a, b) ((a) + (b))\n" };
    let source = Source { name: "f.cu", text };
    for architecture in Architecture::TESTED {
        let compiled = nvrtc.compile(source, &[header], architecture).unwrap();
        // An ELF file for machine 190, NVIDIA's.
        assert_eq!(
            (&compiled.cubin[..4], &compiled.cubin[18..20]),
            (&b"\x7fELF"[..], &[190, 0][..])
        );
        assert!(!compiled.cubin.windows(8).any(|bytes| bytes == b".version"), "PTX");
        assert_eq!(usage(&compiled.log).len(), 1);
    }
}

#[test]
#[ignore = "deep: NVIDIA's compiler takes minutes"]
fn a_wrong_source_is_told_with_file_line_and_what_is_wrong() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = Source { name: "wrong.cu", text: "__global__ void f() {\n  int x = y;\n}\n" };
    let error = nvrtc.compile(source, &[], Architecture::new(8, 0)).unwrap_err();
    let Error::Compile { file, architecture, log } = &error else { panic!("{error:?}") };
    assert_eq!((file.as_str(), architecture.as_str()), ("wrong.cu", "sm_80"));
    assert!(log.contains("wrong.cu(2)") && log.contains("\"y\" is undefined"), "{log}");
    assert!(error.to_string().starts_with("wrong.cu does not compile for sm_80:\n"), "{error}");
    // This architecture does not exist.
    let source = Source { name: "right.cu", text: "__global__ void f() {}\n" };
    let error = nvrtc.compile(source, &[], Architecture::new(8, 5)).unwrap_err().to_string();
    assert!(error.contains("sm_85") && error.contains("gpu-architecture"), "{error}");
}

#[test]
#[ignore = "deep: NVIDIA's compiler takes minutes"]
fn the_cache_gives_what_was_compiled_also_to_many_at_once() {
    let Some(nvrtc) = nvrtc() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = KernelCache::new(dir.path().join("kernels"));
    let text = "#include \"n.h\"\nextern \"C\" __global__ void f(int* x) { x[threadIdx.x] = N; }\n";
    let source = Source { name: "n.cu", text };
    let header = |text| Source { name: "n.h", text };
    let compile = |text, architecture| {
        nvrtc.cached(Some(&cache), source, &[header(text)], architecture).unwrap()
    };
    let hopper = Architecture::new(9, 0);
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..6).map(|_| scope.spawn(|| compile("#define N 1\n", hopper))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|compiled| compiled == &all[0]));
    let entries =
        || fs::read_dir(dir.path().join("kernels")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(entries().count(), 1);
    // From now on the cache returns the entry.
    let path = entries().next().unwrap();
    let (modified, whole) = (fs::metadata(&path).unwrap().len(), fs::read(&path).unwrap());
    assert_eq!(compile("#define N 1\n", hopper), all[0]);
    assert_eq!((fs::metadata(&path).unwrap().len(), entries().count()), (modified, 1));
    // A damaged entry is replaced. Another header or another architecture has another entry.
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(compile("#define N 1\n", hopper), all[0]);
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_ne!(compile("#define N 2\n", hopper), all[0]);
    assert_ne!(compile("#define N 1\n", Architecture::new(8, 0)), all[0]);
    assert_eq!(entries().count(), 3);
    // Without a writable directory, each call compiles.
    let nowhere = KernelCache::new("/proc/none".into());
    assert_eq!(
        nvrtc.cached(Some(&nowhere), source, &[header("#define N 1\n")], hopper).unwrap(),
        all[0]
    );
}

/// Resources of a multiprocessor that a kernel uses.
#[derive(Debug, Default, PartialEq)]
struct Usage {
    function: String,
    /// Registers of a thread.
    registers: u32,
    /// Bytes that a thread stores to memory for lack of registers.
    spill_stores: u32,
    /// Bytes that it loads back.
    spill_loads: u32,
    /// Bytes of a thread's stack, which is in memory as well.
    stack: u32,
    /// Bytes of a block's static shared memory.
    shared: u32,
}

/// Resources of each kernel in the log, from the lines of `ptxas -v`.
fn usage(log: &str) -> Vec<Usage> {
    let mut all: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some(function) = between(line, "Compiling entry function '", "'") {
            all.push(Usage { function: function.to_owned(), ..Usage::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        let number = |unit: &str| before(line, unit);
        if line.contains("bytes stack frame") {
            last.stack += number(" bytes stack frame").unwrap_or(0);
            last.spill_stores += number(" bytes spill stores").unwrap_or(0);
            last.spill_loads += number(" bytes spill loads").unwrap_or(0);
        }
        if let Some(registers) = number(" registers") {
            last.registers = registers;
            last.shared = number(" bytes smem").unwrap_or(0);
        }
    }
    all
}

fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(start)?;
    rest.split_once(end).map(|(text, _)| text)
}

/// The number that stands before a unit.
fn before(line: &str, unit: &str) -> Option<u32> {
    let (text, _) = line.split_once(unit)?;
    text.rsplit([' ', '(']).next()?.parse().ok()
}

#[test]
fn the_log_is_read() {
    let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 165 registers, used 1 barriers, 16 bytes cumulative stack size, 32768 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 400 bytes cmem[0]";
    let entry = |function: &str, registers, spill_stores, spill_loads, stack, shared| Usage {
        function: function.into(),
        registers,
        spill_stores,
        spill_loads,
        stack,
        shared,
    };
    assert_eq!(usage(log), [entry("first", 165, 8, 4, 16, 32768), entry("second", 10, 0, 0, 0, 0)]);
    assert_eq!(usage(""), []);
}
