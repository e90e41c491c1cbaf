//! The emulated device's promises beside running kernels.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_cuda::{Argument, Device, Grid, Kernel, Memory, Pointer, Source};
use isentrope_cuda_emulator::{Emulator, Mistake, Settings, TensorCore};
use std::panic::{AssertUnwindSafe, catch_unwind};

static PLANTED: Source = Source { file: "planted.cu", text: include_str!("planted.cu") };
static TILES: Kernel<(Pointer, Pointer)> = Kernel::new("tiles", &PLANTED);
static FRAGMENTS: Kernel<(Pointer, Pointer, Pointer, Pointer)> = Kernel::new("fragments", &PLANTED);

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn download(device: &Emulator, from: &Memory, read: impl Fn(&mut [u8])) -> Vec<u32> {
    let mut bytes = vec![0; from.bytes()];
    read(&mut bytes);
    device.synchronize();
    bytes.chunks_exact(4).map(|x| u32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

#[test]
fn memory_that_there_is_not_is_refused() {
    let device = Emulator::new(Settings { memory: 1 << 20, ..Settings::default() });
    let half = device.allocate(1 << 19).unwrap();
    assert_eq!(device.memory_info().free, 1 << 19);
    let refused = device.allocate((1 << 19) + 1).map(|_| ()).unwrap_err();
    assert_eq!(refused.asked, (1 << 19) + 1);
    assert_eq!(device.allocate(usize::MAX).map(|_| ()).unwrap_err().asked, usize::MAX);
    drop(half);
    assert_eq!(device.allocate(1 << 20).unwrap().bytes(), 1 << 20);
}

#[test]
fn memory_holds_what_is_put_there() {
    let device = Emulator::new(Settings::default());
    let (a, b) = (device.allocate(10).unwrap(), device.allocate(7).unwrap());
    device.upload(&[1, 2, 3, 4], &a, 6);
    device.copy(&a, 7, &b, 0, 3);
    device.clear(&b, 1, 1);
    let mut three = [9; 3];
    device.download(&b, 0, &mut three);
    assert_eq!(three, [2, 0, 4]);
    assert_eq!(device.allocate(0).unwrap().bytes(), 0);
    for address in [a.address(), b.address()] {
        assert_eq!(address % 16, 0);
    }
}

#[test]
#[should_panic(expected = "4 bytes from 7 of a memory of 10")]
fn ranges_outside_of_a_memory_panic() {
    let device = Emulator::new(Settings::default());
    let memory = device.allocate(10).unwrap();
    device.upload(&[0; 4], &memory, 7);
}

#[test]
fn freed_memory_is_nobodys() {
    let device = Emulator::new(Settings::default());
    let (freed, y) = (device.allocate(6144).unwrap(), device.allocate(1536).unwrap());
    let at = freed.address();
    drop(freed);
    // The next allocations get other addresses.
    let next: Vec<_> = (0..20).map(|_| device.allocate(6144).unwrap()).collect();
    assert!(next.iter().all(|memory| memory.address() != at));
    let arguments = [Argument::Pointer(at), Argument::Pointer(y.address())];
    let failure = device.try_launch(TILES.function(), Grid::line(3, 128), &arguments).unwrap_err();
    assert_eq!((failure.mistake, failure.kernel), (Mistake::OutOfBounds, "tiles"));
}

#[test]
fn schedules_follow_from_the_seed_alone() {
    // A race: the result depends on the order.
    let text = PLANTED.text.replacen("    sync();  // read\n", "", 1);
    let run = |seed: u64, workers: usize| {
        let device = Emulator::new(Settings { seed, workers, ..Settings::default() });
        let device = device.with_replaced("planted.cu", text.clone());
        let x: Vec<f32> = (0..16_384).map(|i| (i * 37 % 101) as f32).collect();
        let (from, to) = (device.allocate(65_536).unwrap(), device.allocate(16_384).unwrap());
        device.upload(&bytes(&x), &from, 0);
        let arguments = [Argument::Pointer(from.address()), Argument::Pointer(to.address())];
        device.try_launch(TILES.function(), Grid::line(32, 128), &arguments).unwrap();
        download(&device, &to, |bytes| device.download(&to, 0, bytes))
    };
    let all: Vec<_> = (0..8).map(|seed| run(seed, 1)).collect();
    assert!(all.iter().any(|other| *other != all[0]), "some seeds differ");
    for (seed, first) in all.iter().enumerate() {
        assert_eq!(run(seed as u64, 3), *first, "seed {seed} on three workers");
    }
}

#[test]
fn tensor_cores_are_those_of_the_capability() {
    // 64 - 64 + 2^-19.
    let half = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
    let (mut a, mut b) = ([0.0f32; 16], [0.0f32; 16]);
    (a[0], b[0]) = (2f32.powi(-19), 1.0);
    (a[1], b[1]) = (-64.0, 1.0);
    let row = |x: &[f32; 16], rows: usize| {
        x.iter().copied().cycle().take(16 * rows).flat_map(half).collect::<Vec<u8>>()
    };
    let mut sums = Vec::new();
    for (capability, core) in
        [((8, 0), TensorCore::Ampere), ((9, 0), TensorCore::Hopper), ((12, 0), TensorCore::Hopper)]
    {
        let device = Emulator::new(Settings { capability, ..Settings::default() });
        let put = |bytes: &[u8]| {
            let memory = device.allocate(bytes.len()).unwrap();
            device.upload(bytes, &memory, 0);
            memory
        };
        let (of_a, of_b, c) = (put(&row(&a, 16)), put(&row(&b, 8)), put(&bytes(&[64.0; 128])));
        let d = device.allocate(512).unwrap();
        let arguments = [&of_a, &of_b, &c, &d].map(|memory| Argument::Pointer(memory.address()));
        device.try_launch(FRAGMENTS.function(), Grid::line(1, 32), &arguments).unwrap();
        let bits = |x: &[f32; 16]| x.map(|x| (x.to_bits() >> 16) as u16);
        let expected = core.dot(64.0, bits(&a), bits(&b)).to_bits();
        assert_eq!(download(&device, &d, |bytes| device.download(&d, 0, bytes)), [expected; 128]);
        sums.push(f32::from_bits(expected));
    }
    // 2^-19 is 25 bits below 2^6.
    assert_eq!(sums, [0.0, 2f32.powi(-19), 2f32.powi(-19)]);
}

#[test]
fn a_stream_that_does_not_wait_for_the_other_is_found() {
    let first = Emulator::new(Settings::default());
    let second = first.second_stream().unwrap();
    let (a, b) = (first.allocate(8).unwrap(), first.allocate(8).unwrap());
    first.clear(&a, 0, 8);
    second.follow();
    second.copy(&a, 0, &b, 0, 8);
    let used = |by: &dyn Device| {
        let uses = AssertUnwindSafe(|| by.clear(&b, 0, 8));
        catch_unwind(uses).err().map(|said| *said.downcast::<String>().unwrap())
    };
    let said = used(&first).expect("the second stream may still write it");
    assert!(said.contains("stream 0") && said.contains("waited for stream 1"), "{said}");
    assert!(used(&*second).is_some(), "the first stream came between");
    second.follow();
    assert!(used(&*second).is_none());
    second.synchronize();
    assert!(used(&first).is_none());
}
