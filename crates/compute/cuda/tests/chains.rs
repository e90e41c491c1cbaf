//! The reference that the conformance tests of bf16 multiply by is the emulator's model of tensor
//! cores.

use crate::t16::Step;
use isentrope_cuda_emulator::TensorCore;

#[test]
fn random_chains_are_the_emulators() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let devices = [
        ((8, 0), TensorCore::Ampere),
        ((8, 9), TensorCore::Ampere),
        ((9, 0), TensorCore::Hopper),
        ((12, 0), TensorCore::Hopper),
    ];
    for case in 0..20_000_usize {
        // Like magnitudes, magnitudes far apart, and nearly all that there are.
        let (lowest, magnitudes) = [(120, 14), (90, 70), (0, 200)][case % 3];
        let mut number = || {
            let random = random();
            let exponent = lowest + (random >> 8) % magnitudes;
            let is_zero = case % 5 == 0 && random >> 50 & 3 == 0;
            if is_zero {
                0
            } else {
                ((random & 1) << 15 | exponent << 7 | random >> 40 & 127) as u16
            }
        };
        let a: Vec<u16> = (0..1 + case % 40).map(|_| number()).collect();
        let b: Vec<u16> = a.iter().map(|_| number()).collect();
        let start = f32::from_bits(u32::from(number()) << 16 | u32::from(number()));
        let wide = |halves: &[u16]| -> Vec<f32> {
            halves.iter().map(|&half| f32::from_bits(u32::from(half) << 16)).collect()
        };
        for (capability, core) in devices {
            let ours = Step::of(capability).chain(start, &wide(&a), &wide(&b));
            let theirs = core.chain(start, &a, &b);
            if theirs.is_finite() {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{core:?}: {start:e} {a:?} {b:?}");
            }
        }
    }
}
