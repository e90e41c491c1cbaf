//! A kernel without barriers, and one with, through the device.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_cuda::{Device, Grid, Kernel, Pointer, Source};
use isentrope_cuda_emulator::{Emulator, Settings};

static SIMPLE: Source = Source { file: "simple.cu", text: include_str!("simple.cu") };
static SCALE: Kernel<(Pointer, Pointer, u32, f32)> = Kernel::new("scale_f32", &SIMPLE);
static SCALE_BF16: Kernel<(Pointer, Pointer, u32, f32)> = Kernel::new("scale_bf16", &SIMPLE);
static REVERSE: Kernel<(Pointer, Pointer)> = Kernel::new("reverse", &SIMPLE);

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(x: &[u8]) -> Vec<f32> {
    x.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

#[test]
fn kernels_compute_whatever_the_seed() {
    for (seed, races) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let workers = 1 + seed as usize % 3;
        let device = Emulator::new(Settings { seed, races, workers, ..Settings::default() });
        let x: Vec<f32> = (0..4000).map(|i| i as f32).collect();
        let (from, to) = (device.allocate(16_000).unwrap(), device.allocate(16_000).unwrap());
        device.upload(&bytes(&x), &from, 0);
        SCALE.launch(
            &device,
            Grid::line(32, 128),
            (Pointer::of(&from), Pointer::of(&to), 4000, 2.0),
        );
        let mut y = vec![0; 16_000];
        device.download(&to, 0, &mut y);
        assert_eq!(floats(&y), x.iter().map(|x| x * 2.0).collect::<Vec<_>>());

        REVERSE.launch(&device, Grid::line(31, 128), (Pointer::of(&from), Pointer::of(&to)));
        device.download(&to, 0, &mut y);
        let expected: Vec<f32> = (0..3968)
            .map(|i| {
                let (block, at) = (i / 128 * 128, i % 128);
                let reversed = |at: usize| x[block + 127 - at];
                reversed(at) + (at / 32 * 32..at / 32 * 32 + 32).map(reversed).sum::<f32>()
            })
            .collect();
        assert_eq!(floats(&y)[..3968], expected);
    }
}

#[test]
fn bf16_is_rounded_to_nearest_even() {
    let device = Emulator::new(Settings::default());
    // 1 + 2^-7 doubled is exact; times 1.00390625 it is a tie.
    let x: [u16; 2] = [0x3f81, 0x3f80];
    let memory = device.allocate(4).unwrap();
    let raw: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.upload(&raw, &memory, 0);
    let at = Pointer::of(&memory);
    SCALE_BF16.launch(&device, Grid::line(1, 32), (at, at, 2, 1.0 + 1.0 / 256.0));
    let mut y = [0; 4];
    device.download(&memory, 0, &mut y);
    assert_eq!(
        [u16::from_le_bytes([y[0], y[1]]), u16::from_le_bytes([y[2], y[3]])],
        [0x3f82, 0x3f80]
    );
}
