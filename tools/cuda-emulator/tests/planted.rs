//! Mistakes in otherwise correct kernels are found, and correct kernels pass with any seed.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use crate::patches::Change;
use isentrope_cuda::{Argument, Device, Function, Grid, Kernel, Memory, Pointer, Source};
use isentrope_cuda_emulator::{Emulator, LaunchFailure, Mistake, Settings, TensorCore};
use std::sync::atomic::{AtomicUsize, Ordering};

static PLANTED: Source = Source { file: "planted.cu", text: include_str!("planted.cu") };
static TILES: Kernel<(Pointer, Pointer)> = Kernel::new("tiles", &PLANTED);
static DYNAMIC: Kernel<(Pointer, Pointer)> = Kernel::new("dynamic", &PLANTED);
static WARPS: Kernel<(Pointer, Pointer)> = Kernel::new("warps", &PLANTED);
static COPIES: Kernel<(Pointer, Pointer, u32)> = Kernel::new("copies", &PLANTED);
static FRAGMENTS: Kernel<(Pointer, Pointer, Pointer, Pointer)> = Kernel::new("fragments", &PLANTED);
static VECTORS: Kernel<(Pointer, Pointer, u32)> = Kernel::new("vectors", &PLANTED);

const SEEDS: u64 = 16;

fn memory(device: &Emulator, bytes: &[u8]) -> Memory {
    let memory = device.allocate(bytes.len()).unwrap();
    device.upload(bytes, &memory, 0);
    memory
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(device: &Emulator, from: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; from.bytes()];
    device.download(from, 0, &mut bytes);
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32).collect()
}

/// The output of a launch, or its failure.
type Outcome = Result<Vec<f32>, Box<LaunchFailure>>;
/// A launch on a device.
type Scenario = fn(&Emulator) -> Outcome;

fn pointer(memory: &Memory) -> Argument {
    Argument::Pointer(memory.address())
}

fn launch(
    device: &Emulator,
    function: &Function,
    grid: Grid,
    arguments: &[Argument],
) -> Result<(), Box<LaunchFailure>> {
    device.try_launch(function, grid, arguments)
}

fn tiles(device: &Emulator) -> Outcome {
    let (x, y) = (memory(device, &bytes(&numbers(1536))), device.allocate(1536).unwrap());
    launch(device, TILES.function(), Grid::line(3, 128), &[pointer(&x), pointer(&y)])?;
    Ok(floats(device, &y))
}

fn dynamic(device: &Emulator) -> Outcome {
    let (x, y) = (memory(device, &bytes(&numbers(1536))), device.allocate(1536).unwrap());
    launch(
        device,
        DYNAMIC.function(),
        Grid::line(3, 128).with_shared(512),
        &[pointer(&x), pointer(&y)],
    )?;
    Ok(floats(device, &y))
}

fn tiles_expected() -> Vec<f32> {
    let x = numbers(1536);
    let sum = |i: usize| (0..4).map(|tile| x[i / 128 * 512 + tile * 128 + 127 - i % 128]).sum();
    (0..384).map(sum).collect()
}

fn warps(device: &Emulator) -> Outcome {
    let (x, y) = (memory(device, &bytes(&numbers(192))), device.allocate(768).unwrap());
    launch(device, WARPS.function(), Grid::line(3, 64), &[pointer(&x), pointer(&y)])?;
    Ok(floats(device, &y))
}

fn warps_expected() -> Vec<f32> {
    let x = numbers(192);
    let warp = |i: usize| i / 32 * 32;
    (0..192)
        .map(|i| x[warp(i)..warp(i) + 32].iter().sum::<f32>() + x[warp(i) + 31 - i % 32])
        .collect()
}

/// An end that is no multiple of a block or of a copy of 16 bytes.
const COPIED: usize = 507;

fn copies(device: &Emulator) -> Outcome {
    let (x, y) = (memory(device, &bytes(&numbers(COPIED))), device.allocate(4 * COPIED).unwrap());
    let arguments = [pointer(&x), pointer(&y), Argument::U32(COPIED as u32)];
    launch(device, COPIES.function(), Grid::line(2, 64), &arguments)?;
    Ok(floats(device, &y))
}

fn copies_expected() -> Vec<f32> {
    let x = numbers(COPIED);
    let at = |i: usize| x.get(i).copied().unwrap_or(0.0);
    (0..COPIED).map(|i| at(i) + at(i / 256 * 256 + 255 - i % 256)).collect()
}

fn halves(n: usize, salt: usize) -> Vec<u16> {
    (0..n)
        .map(|i| (((i * 7919 + salt) % 251) as f32 * 0.01 - 1.0).to_bits())
        .map(|x| (x >> 16) as u16)
        .collect()
}

fn fragments(device: &Emulator) -> Outcome {
    let raw = |x: Vec<u16>| x.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let (a, b) = (memory(device, &raw(halves(256, 1))), memory(device, &raw(halves(128, 2))));
    let (c, d) = (memory(device, &bytes(&numbers(128))), device.allocate(512).unwrap());
    let arguments = [pointer(&a), pointer(&b), pointer(&c), pointer(&d)];
    launch(device, FRAGMENTS.function(), Grid::line(1, 32), &arguments)?;
    Ok(floats(device, &d))
}

fn fragments_expected() -> Vec<f32> {
    let (a, b, c) = (halves(256, 1), halves(128, 2), numbers(128));
    let element =
        |i: usize| TensorCore::Hopper.chain(c[i], &a[i / 8 * 16..][..16], &b[i % 8 * 16..][..16]);
    (0..128).map(element).collect()
}

fn vectors(device: &Emulator) -> Outcome {
    let (x, y) = (memory(device, &bytes(&numbers(160))), device.allocate(640).unwrap());
    let arguments = [pointer(&x), pointer(&y), Argument::U32(160)];
    launch(device, VECTORS.function(), Grid::line(2, 32), &arguments)?;
    Ok(floats(device, &y))
}

fn vectors_expected() -> Vec<f32> {
    numbers(160).iter().map(|x| 2.0 * x).collect()
}

fn device(seed: u64, races: bool, text: Option<&str>) -> Emulator {
    let settings = Settings { seed, races, ..Settings::default() };
    let device = Emulator::new(settings);
    match text {
        Some(text) => device.with_replaced("planted.cu", text.to_owned()),
        None => device,
    }
}

#[test]
fn correct_kernels_pass_whatever_the_seed() {
    let scenarios = ["tiles", "dynamic", "warps", "copies", "fragments", "vectors"].map(scenario);
    for (seed, races) in (0..32).flat_map(|seed| [(seed, false), (seed, true)]) {
        for (scenario, expected) in &scenarios {
            match scenario(&device(seed, races, None)) {
                Ok(got) => assert_eq!(got, *expected, "seed {seed}"),
                Err(failure) => panic!("{failure}"),
            }
        }
    }
}

/// A kernel's launches, by its name in planted.txt.
fn scenario(name: &str) -> (Scenario, Vec<f32>) {
    match name {
        "tiles" => (tiles, tiles_expected()),
        "dynamic" => (dynamic, tiles_expected()),
        "warps" => (warps, warps_expected()),
        "copies" => (copies, copies_expected()),
        "fragments" => (fragments, fragments_expected()),
        "vectors" => (vectors, vectors_expected()),
        _ => panic!("there is no kernel {name}"),
    }
}

/// A mistake by its name; none stands for wrong results.
fn mistake(name: &str) -> Option<Mistake> {
    let all = [
        Mistake::Launch,
        Mistake::OutOfBounds,
        Mistake::Misaligned,
        Mistake::Barrier,
        Mistake::Collective,
        Mistake::Race,
        Mistake::Uninitialised,
        Mistake::Unfinished,
        Mistake::Undefined,
        Mistake::Stack,
    ];
    let found = all.into_iter().find(|mistake| format!("{mistake:?}") == name);
    assert!(found.is_some() || name == "numbers", "there is no mistake {name}");
    found
}

/// Whether the planted mistake was found. A race may be seen as a read of unwritten memory.
fn is(found: Mistake, planted: Option<Mistake>) -> bool {
    Some(found) == planted || (found, planted) == (Mistake::Uninitialised, Some(Mistake::Race))
}

/// Lists how the detection of a planted mistake has failed.
fn problems_of(planted: &Change) -> Vec<String> {
    let Some(text) = planted.applied(PLANTED.text) else {
        return vec![format!("{}: it does not apply any more", planted.what)];
    };
    let (kernel, mistakes) = planted.of.split_once(", ").unwrap();
    let (plain, looked_at) = mistakes.split_once('/').unwrap();
    let (scenario, expected) = scenario(kernel);
    let mut problems = Vec::new();
    for (races, mistake) in [(false, mistake(plain)), (true, mistake(looked_at))] {
        let (mut wrong, mut found, mut other) = (0, 0, None);
        for seed in 0..SEEDS {
            match scenario(&device(seed, races, Some(&text))) {
                Ok(got) if got != expected => wrong += 1,
                Ok(_) => {}
                Err(failure) if is(failure.mistake, mistake) => {
                    assert_eq!(failure.seed, seed);
                    found += 1;
                }
                Err(failure) => other = Some(failure),
            }
        }
        // A check of accesses finds a race under every schedule; schedules alone find it sometimes.
        let enough = if mistake.is_some() { found == SEEDS } else { wrong > 0 };
        if !enough || other.is_some() {
            let other = other.map(|failure| failure.to_string()).unwrap_or_default();
            let what = &planted.what;
            problems.push(format!(
                "{what} (races: {races}): {wrong} wrong, {found} found of {SEEDS} {other}"
            ));
        }
    }
    problems
}

#[test]
#[ignore = "deep: compiles a kernel for each mistake"]
fn planted_mistakes_are_found() {
    let all = Change::all(include_str!("planted.txt"));
    let next = AtomicUsize::new(0);
    // Two threads: most of the time goes to the compiler.
    let work = || {
        let each = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        each.flat_map(problems_of).collect::<Vec<String>>()
    };
    let problems: Vec<String> = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
