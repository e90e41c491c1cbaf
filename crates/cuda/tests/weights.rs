//! With bf16, weights are exact f32 in two parts, which AdamW updates to the CPU's bits; operations see the nearest bf16.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use half::bf16;
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::{AdamW, Backend, Cpu, HostBatch, Isa, Kind, Linear, Role, Updated};
use std::sync::Arc;

fn cuda() -> Cuda<Emulator> {
    Cuda::new(Arc::new(Emulator::new(Settings::default())), Dtype::Bf16)
}

/// A weight of every sort: with every lower half below some upper ones, zeros, subnormals, the largest, infinities.
fn weights() -> Vec<f32> {
    let upper = [0x0000, 0x8000, 0x0001, 0x3f80, 0xbf81, 0x7f7f, 0xff7f, 0x4248];
    let finite = upper
        .into_iter()
        .flat_map(|upper: u32| (0..0x1_0000).step_by(7).map(move |lower| upper << 16 | lower));
    let ties = upper.into_iter().map(|upper| upper << 16 | 0x8000);
    finite.chain(ties).map(f32::from_bits).chain([f32::INFINITY, f32::NEG_INFINITY]).collect()
}

#[test]
fn packed_weights_come_back_to_the_bit() {
    let (cuda, weights) = (cuda(), weights());
    let shape = Linear { inputs: 3, outputs: weights.len() / 3 };
    let weights = &weights[..3 * shape.outputs];
    let kind = Kind::Matrix(shape);
    let mut packed = cuda.allocate(Role::Weight(kind)).unwrap();
    cuda.pack(kind, 0, weights, &mut packed);
    let mut again = vec![0.0; weights.len()];
    cuda.unpack(kind, 0, &packed, &mut again);
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&again), bits(weights));
    // As numbers they travel likewise.
    let mut numbers = vec![0.0; cuda.numbers(kind)];
    cuda.read_numbers(&packed, 0, &mut numbers);
    let mut travelled = cuda.allocate(Role::Weight(kind)).unwrap();
    cuda.write_numbers(&mut travelled, 0, &numbers);
    cuda.unpack(kind, 0, &travelled, &mut again);
    assert_eq!(bits(&again), bits(weights));
}

#[test]
fn operations_see_the_nearest_bf16() {
    let (cuda, weights) = (cuda(), weights());
    let shape = Linear { inputs: 1, outputs: weights.len() };
    let mut packed = cuda.allocate(Role::Weight(Kind::Matrix(shape))).unwrap();
    cuda.pack(Kind::Matrix(shape), 0, &weights, &mut packed);
    let tokens = (0..weights.len() as u32).collect();
    let mut seen = cuda.buffer(Role::Activation(weights.len(), 1));
    cuda.embed(shape, &packed, &cuda.batch(&HostBatch { tokens, ..HostBatch::default() }), &mut seen);
    let mut got = vec![0.0; weights.len()];
    cuda.read(&seen, 0, &mut got);
    for (&weight, got) in weights.iter().zip(got) {
        // Of two equally near ones the one further from zero; otherwise as everybody rounds.
        let is_tie = weight.to_bits() & 0xffff == 0x8000;
        let want =
            if is_tie { f32::from_bits(weight.to_bits() + 0x8000) } else { bf16::from_f32(weight).to_f32() };
        assert_eq!(got.to_bits(), want.to_bits(), "of {weight:e}");
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let cuda = cuda();
    // Rounded as an integer, the first two would become zeros.
    let weights = [0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000, 0x7f80_0001, 0x7fff_8000].map(f32::from_bits);
    let shape = Linear { inputs: 1, outputs: 5 };
    let mut packed = cuda.allocate(Role::Weight(Kind::Matrix(shape))).unwrap();
    cuda.pack(Kind::Matrix(shape), 0, &weights, &mut packed);
    let mut held = [0.0; 5];
    cuda.unpack(Kind::Matrix(shape), 0, &packed, &mut held);
    let batch = cuda.batch(&HostBatch { tokens: (0..5).collect(), ..HostBatch::default() });
    let (mut y, mut seen) = (cuda.buffer(Role::Activation(5, 1)), [0.0; 5]);
    cuda.embed(shape, &packed, &batch, &mut y);
    cuda.read(&y, 0, &mut seen);
    assert!(held.iter().chain(&seen).all(|x| x.is_nan()), "{held:?}, {seen:?}");
}

/// Weights and moments after some updates.
fn updated<B: Backend>(backend: &B) -> [Vec<u32>; 3] {
    let len = 9000;
    let kind = Kind::Vector(len);
    let noise =
        |seed: u32| (0..len as u32).map(move |i| ((i ^ seed).wrapping_mul(2_654_435_761) as f32 / 2e9) - 1.0);
    let packed = |role, seed| {
        let mut buffer = backend.allocate(role).unwrap();
        backend.write_numbers(&mut buffer, 0, &noise(seed).collect::<Vec<f32>>());
        buffer
    };
    let mut weights = packed(Role::Weight(kind), 1);
    let [mut first, mut second] = [0, 1].map(|_| backend.allocate(Role::Moment(len)).unwrap());
    for step in 1..=4 {
        let gradient = packed(Role::Gradient(kind), 10 + step);
        let (learning_rate, weight_decay, gradient_scale) = (3e-4, 0.01, 0.7);
        let settings =
            AdamW { learning_rate, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay, step, gradient_scale };
        let (weights, first, second) = (&mut weights, &mut first, &mut second);
        let numbers = 0..len;
        backend.adamw(settings, &mut [Updated { weights, gradient: &gradient, numbers, first, second }]);
    }
    [&weights, &first, &second].map(|buffer| {
        let mut numbers = vec![0.0; len];
        backend.read_numbers(buffer, 0, &mut numbers);
        numbers.into_iter().map(f32::to_bits).collect()
    })
}

#[test]
fn updates_have_the_bits_of_the_cpu() {
    assert_eq!(updated(&cuda()), updated(&Cpu::new(Isa::available()[0], 1).unwrap()));
}
