//! With bf16, weights are exact f32 in two parts, which AdamW updates to the CPU's bits; operations
//! see the nearest bf16.

use crate::support::{self, ADAMW, bits, cpu, emulated, rounded};
use crate::watched::{Watch, Watched};
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::Settings;
use isentrope_kernels::{AdamW, Backend, Buffer, HostBatch, Kind, Linear, Role, UpdateSlice, Work};
use std::sync::Mutex;

fn cuda() -> Cuda {
    emulated(Dtype::Bf16, Settings::default())
}

/// A weight of every sort: with every lower half below some upper ones, zeros, subnormals, the
/// largest, infinities.
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
    assert_eq!(bits(&again), bits(weights));
    // Transfers as f32 elements give these weights too.
    let mut elements = vec![0.0; cuda.element_count(kind)];
    cuda.read_elements(&packed, 0, &mut elements);
    let mut travelled = cuda.allocate(Role::Weight(kind)).unwrap();
    cuda.write_elements(&mut travelled, 0, &elements);
    cuda.unpack(kind, 0, &travelled, &mut again);
    assert_eq!(bits(&again), bits(weights));
}

/// Ties go away from zero; all else rounds to the nearest.
fn nearest(weight: f32) -> f32 {
    let is_tie = weight.to_bits() & 0xffff == 0x8000;
    if is_tie { f32::from_bits(weight.to_bits() + 0x8000) } else { rounded(weight) }
}

#[test]
fn operations_see_the_nearest_bf16() {
    let (cuda, weights) = (cuda(), weights());
    let shape = Linear { inputs: 1, outputs: weights.len() };
    let want: Vec<f32> = weights.iter().map(|&weight| nearest(weight)).collect();
    for role in [Role::Weight, Role::Frozen] {
        let mut packed = cuda.allocate(role(Kind::Matrix(shape))).unwrap();
        cuda.pack(Kind::Matrix(shape), 0, &weights, &mut packed);
        let tokens = (0..weights.len() as u32).collect();
        let mut seen = cuda.buffer(Role::Activation(weights.len(), 1));
        cuda.embed(
            shape,
            &packed,
            &cuda.upload_batch(&HostBatch { tokens, ..HostBatch::default() }),
            &mut seen,
        );
        let mut got = vec![0.0; weights.len()];
        cuda.read(&seen, 0, &mut got);
        assert_eq!(bits(&got), bits(&want));
    }
}

/// Without their rests, two bytes each. They come back as operations see them, however they came.
#[test]
fn frozen_weights_are_the_nearest_bf16_alone() {
    let (cuda, weights) = (cuda(), weights());
    let shape = Linear { inputs: 3, outputs: weights.len() / 3 };
    let weights = &weights[..3 * shape.outputs];
    let want: Vec<f32> = weights.iter().map(|&weight| nearest(weight)).collect();
    let kind = Kind::Matrix(shape);
    let of = |role: fn(Kind) -> Role, values: &[f32]| {
        let mut packed = cuda.allocate(role(kind)).unwrap();
        cuda.pack(kind, 0, values, &mut packed);
        packed
    };
    let back = |packed: &Buffer| {
        let mut values = vec![0.0; weights.len()];
        cuda.unpack(kind, 0, packed, &mut values);
        bits(&values)
    };
    let frozen = of(Role::Frozen, weights);
    assert_eq!(back(&frozen), bits(&want));
    // Elements travel to and from them.
    let mut elements = vec![0.0; cuda.element_count(kind)];
    cuda.read_elements(&of(Role::Weight, weights), 0, &mut elements);
    let mut travelled = cuda.allocate(Role::Frozen(kind)).unwrap();
    cuda.write_elements(&mut travelled, 0, &elements);
    assert_eq!(back(&travelled), bits(&want));
    let mut travelled_elements = elements.clone();
    cuda.read_elements(&travelled, 0, &mut travelled_elements);
    assert_eq!(travelled_elements, elements.into_iter().map(nearest).collect::<Vec<_>>());
    let mut filled = frozen;
    let tie = f32::from_bits(0x3f80_8000);
    cuda.fill(&mut filled, tie);
    assert_eq!(back(&filled), vec![nearest(tie).to_bits(); weights.len()]);

    let bytes = |dtype, role| emulated(dtype, Settings::default()).bytes(role);
    for kind in [Kind::Vector(24), Kind::Matrix(Linear { inputs: 24, outputs: 16 })] {
        let (whole, frozen) = (Role::Weight(kind), Role::Frozen(kind));
        assert_eq!(bytes(Dtype::Bf16, frozen), cuda.bytes_read(kind));
        assert_eq!(2 * bytes(Dtype::Bf16, frozen), bytes(Dtype::Bf16, whole));
        assert_eq!(bytes(Dtype::F32, frozen), bytes(Dtype::F32, whole));
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let cuda = cuda();
    // Rounded as an integer, the first two would become zeros.
    let weights =
        [0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000, 0x7f80_0001, 0x7fff_8000].map(f32::from_bits);
    let shape = Linear { inputs: 1, outputs: 5 };
    let batch = cuda.upload_batch(&HostBatch { tokens: (0..5).collect(), ..HostBatch::default() });
    for role in [Role::Weight, Role::Frozen] {
        let mut packed = cuda.allocate(role(Kind::Matrix(shape))).unwrap();
        cuda.pack(Kind::Matrix(shape), 0, &weights, &mut packed);
        let mut held = [0.0; 5];
        cuda.unpack(Kind::Matrix(shape), 0, &packed, &mut held);
        let (mut y, mut seen) = (cuda.buffer(Role::Activation(5, 1)), [0.0; 5]);
        cuda.embed(shape, &packed, &batch, &mut y);
        cuda.read(&y, 0, &mut seen);
        assert!(held.iter().chain(&seen).all(|x| x.is_nan()), "{held:?}, {seen:?}");
    }
}

/// Lengths of several parameters: a part of a block of an update, several blocks, one block.
const LENGTHS: [usize; 3] = [5, 9000, 4096];

/// Weights and moments of several parameters after some updates of all elements but the first.
/// `moment` makes the role of a moment with a number of elements.
fn updated(backend: &dyn Backend, moment: fn(usize) -> Role) -> Vec<Vec<u32>> {
    let noise = |seed: u32, len: usize| -> Vec<f32> {
        (0..len as u32)
            .map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) as f32 / 2e9) - 1.0)
            .collect()
    };
    let packed = |role, seed, len| {
        let mut buffer = backend.allocate(role).unwrap();
        backend.write_elements(&mut buffer, 0, &noise(seed, len));
        buffer
    };
    let zeros = |len| backend.allocate(moment(len)).unwrap();
    let mut parameters = LENGTHS.map(|len| {
        let weights = packed(Role::Weight(Kind::Vector(len)), 1 + len as u32, len);
        (weights, zeros(len - 1), zeros(len - 1))
    });
    // Weights of a checkpoint.
    backend.write_elements(&mut parameters[1].1, 3, &noise(5, 100));
    for step in 1..=3 {
        let gradients =
            LENGTHS.map(|len| packed(Role::Gradient(Kind::Vector(len)), 10 + step, len));
        let settings = AdamW { learning_rate: 3e-4, step, gradient_scale: 0.7, ..ADAMW };
        let mut together: Vec<_> = parameters
            .iter_mut()
            .zip(&gradients)
            .zip(LENGTHS)
            .map(|(((weights, first, second), gradient), len)| UpdateSlice {
                weights,
                elements: 1..len,
                gradient: (gradient, 1),
                first,
                second,
            })
            .collect();
        backend.adamw(settings, &mut together);
    }
    let bits = |buffer, len| {
        let mut elements = vec![0.0; len];
        backend.read_elements(buffer, 0, &mut elements);
        elements.into_iter().map(f32::to_bits).collect()
    };
    let each = parameters.iter().zip(LENGTHS);
    each.flat_map(|((weights, first, second), len)| {
        [bits(weights, len), bits(first, len - 1), bits(second, len - 1)]
    })
    .collect()
}

#[test]
fn updates_have_the_bits_of_the_cpu() {
    let want = updated(&cpu(), Role::Moment);
    assert_eq!(updated(&cuda(), Role::Moment), want);
    // For every home of the moments, and for transfers in pieces of every size.
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for piece in [1000, 4096, 9001, 13_098, 1 << 20] {
            let cuda = emulated(dtype, Settings::default());
            let got = updated(&cuda.with_moments_in_pieces_of(piece), Role::OffloadedMoment);
            assert!(got == want, "{dtype:?}, in pieces of {piece}");
        }
    }
}

/// A rank updates its own elements as if it had all remainders, although it gave up the others.
#[test]
fn a_rank_updates_its_own_elements_without_the_remainders_of_the_others() {
    let cuda = cuda();
    let split = cuda.split_weights().unwrap();
    let of_f32 = emulated(Dtype::F32, Settings::default());
    assert!(of_f32.split_weights().is_none() && cpu().split_weights().is_none());
    let kind = Kind::Matrix(Linear { inputs: 13, outputs: 700 });
    let count = cuda.element_count(kind);
    let numbers: Vec<f32> = weights().into_iter().filter(|x| x.is_finite()).take(count).collect();
    let settings = AdamW { learning_rate: 3e-4, step: 1, gradient_scale: 0.7, ..ADAMW };
    let ranges = [0..count, 4096..8192, 4096..count, 0..4096, 0..0];
    let made = ranges.map(|own| {
        let mut packed = cuda.allocate(Role::Weight(kind)).unwrap();
        cuda.write_elements(&mut packed, 0, &numbers);
        let free = cuda.device().memory_info().free;
        split.keep_remainders(&mut packed, own.clone()).unwrap();
        let freed = cuda.device().memory_info().free - free;
        assert_eq!(freed, 2 * (count - own.len()), "{own:?}");
        let mut rounded = vec![0; count];
        split.read_rounded(&packed, 0, &mut rounded);
        let nearest = numbers.iter().map(|&x| (nearest(x).to_bits() >> 16) as u16);
        assert!(nearest.eq(rounded), "{own:?}");
        let moments = [0, 1].map(|_| cuda.allocate(Role::Moment(own.len())).unwrap());
        let ([mut first, mut second], mut elements) = (moments, vec![0.0; own.len()]);
        let mut gradient = cuda.allocate(Role::Gradient(kind)).unwrap();
        cuda.write_elements(&mut gradient, 0, &numbers);
        cuda.adamw(
            settings,
            &mut [UpdateSlice {
                weights: &mut packed,
                elements: own.clone(),
                gradient: (&gradient, own.start),
                first: &mut first,
                second: &mut second,
            }],
        );
        cuda.read_elements(&packed, own.start, &mut elements);
        // Others' elements are seen as they come.
        let others: Vec<usize> = (0..count).filter(|at| !own.contains(at)).collect();
        if let Some(&other) = others.last() {
            split.write_rounded(&mut packed, other, &[0x3fc0]);
            let mut seen = [0; 2];
            split.read_rounded(&packed, other - 1, &mut seen);
            assert_eq!(seen[1], 0x3fc0);
            let read = || cuda.read_elements(&packed, other, &mut [0.0]);
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
            assert!(refused.is_err(), "half of a weight was read as if it were all");
        }
        let sums = cuda.square_sums(&[(&packed, own.clone())]);
        // A slice apart has the same bits, and so have weights that it is put back into.
        let mut apart = cuda.allocate(Role::Weight(Kind::Vector(own.len()))).unwrap();
        cuda.copy_elements(&packed, own.clone(), &mut apart, 0);
        let mut whole = split.allocate_slice(kind, own.clone()).unwrap();
        cuda.copy_elements(&apart, 0..own.len(), &mut whole, own.start);
        let mut frozen = cuda.allocate(Role::Frozen(kind)).unwrap();
        cuda.copy_elements(&apart, 0..own.len(), &mut frozen, own.start);
        for (of, first) in [(&apart, 0), (&whole, own.start)] {
            let mut read = vec![0.0; own.len()];
            cuda.read_elements(of, first, &mut read);
            assert_eq!(bits(&read), bits(&elements), "{own:?}");
        }
        let [rounded, of_frozen] = [&packed, &frozen].map(|of| {
            let mut rounded = vec![0; own.len()];
            split.read_rounded(of, own.start, &mut rounded);
            rounded
        });
        assert!(rounded == of_frozen, "{own:?}");
        (own, bits(&elements), sums)
    });
    let [whole, parts @ ..] = &made;
    for (own, elements, sums) in parts {
        assert!(elements[..] == whole.1[own.clone()], "{own:?}");
        let blocks = own.start / 4096..own.end.div_ceil(4096);
        assert_eq!(sums[..], whole.2[blocks], "{own:?}");
    }
}

#[test]
fn offloaded_moments_take_the_memory_of_the_host_alone() {
    let cuda = cuda().with_moments_in_pieces_of(100);
    let free = || cuda.device().memory_info().free;
    let before = free();
    let moment = cuda.allocate(Role::OffloadedMoment(1 << 20)).unwrap();
    assert_eq!(free(), before);
    let role = Role::OffloadedMoment(1 << 20);
    assert_eq!((cuda.bytes(role), cuda.host_bytes(role)), (0, 4 << 20));
    assert_eq!(cuda.host_bytes(Role::Moment(1 << 20)), 0);
    // Both moments of a piece, or of all elements if they are fewer.
    let workspace = |elements| cuda.workspace(Work::OffloadedMoments(elements));
    assert_eq!((workspace(1 << 20), workspace(7)), (2 * 4 * 100, 2 * 4 * 7));
    let mut elements = vec![1.0; 1 << 20];
    cuda.read_elements(&moment, 0, &mut elements);
    assert!(elements.iter().all(|&number| number.to_bits() == 0), "they begin as zeros");
}

/// Rows of more than two blocks of the host's memory, and blocks that were in use before.
#[test]
fn activations_wait_in_the_memory_of_the_host_alone() {
    for cuda in [cuda(), emulated(Dtype::F32, Settings::default())] {
        let (rows, features) = (700, 1001);
        let role = Role::OffloadedActivation(rows, features);
        let held = cuda.bytes(Role::Activation(rows, features));
        let host = cuda.host_bytes(role);
        assert!(held > 1 << 20 && (held..held + (1 << 20)).contains(&host), "{host} for {held}");
        assert_eq!(cuda.bytes(role), 0);
        for seed in 0..2 {
            let numbers = support::noise(seed, rows * features);
            let [mut rows_here, mut back] =
                [(); 2].map(|()| cuda.buffer(Role::Activation(rows, features)));
            cuda.write(&mut rows_here, 0, &numbers);
            let before = cuda.device().memory_info().free;
            let mut waiting = cuda.buffer(role);
            cuda.copy_first_rows(&rows_here, &mut waiting, rows);
            assert_eq!(cuda.device().memory_info().free, before);
            let mut written = vec![0.0; rows * features];
            cuda.read(&rows_here, 0, &mut written);
            cuda.fill(&mut rows_here, 0.0);
            cuda.fill(&mut back, 0.0);
            cuda.copy_first_rows(&waiting, &mut back, rows - 1);
            let mut read = vec![1.0; rows * features];
            cuda.read(&back, 0, &mut read);
            let last = (rows - 1) * features;
            assert!(read[..last] == written[..last] && read[last..].iter().all(|&x| x == 0.0));
        }
    }
}

/// The bytes of each piece of the host's memory.
#[derive(Default)]
struct Pieces(Mutex<Vec<usize>>);

impl Watch for Pieces {
    fn allocated_on_host(&self, bytes: usize) {
        self.0.lock().unwrap().push(bytes);
    }
}

/// Activations of one block and of 5, 64 blocks in a slab, have bytes of their own; a block that
/// was dropped comes back, and no other slab is locked for it.
#[test]
fn activations_on_the_host_share_slabs_that_are_locked_once() {
    let device = Watched::new(Pieces::default());
    let cuda = Cuda::new(device.clone(), Dtype::F32);
    let features = 1024;
    let role = |rows| Role::OffloadedActivation(rows, features);
    assert_eq!([1, 1025].map(|rows| cuda.host_bytes(role(rows)) >> 20), [1, 5]);
    let numbers = |seed: u32, rows: usize| -> Vec<f32> {
        (0..(rows * features) as u32).map(|at| f32::from_bits(seed << 21 | at)).collect()
    };
    let mut here = cuda.buffer(Role::Activation(1025, features));
    let mut most = 0;
    for (round, buffers, slabs) in [(0, 61, 2), (1, 124, 2), (2, 125, 3), (3, 1, 3)] {
        let rows = |buffer: u32| if buffer == 0 { 1025 } else { 1 };
        let seed = |buffer: u32| 128 * round + buffer;
        let waiting: Vec<Buffer> = (0..buffers)
            .map(|buffer| {
                cuda.write(&mut here, 0, &numbers(seed(buffer), rows(buffer)));
                let mut waiting = cuda.buffer(role(rows(buffer)));
                cuda.copy_first_rows(&here, &mut waiting, rows(buffer));
                waiting
            })
            .collect();
        for (buffer, waiting) in (0..).zip(&waiting) {
            let want = numbers(seed(buffer), rows(buffer));
            cuda.copy_first_rows(waiting, &mut here, rows(buffer));
            let mut back = vec![0.0; want.len()];
            cuda.read(&here, 0, &mut back);
            assert!(bits(&back) == bits(&want), "{buffer} of {buffers}");
        }
        assert_eq!(*device.watch.0.lock().unwrap(), vec![cuda.host_slab(); slabs], "{buffers}");
        // So much is planned.
        let planned = (0..buffers).map(|buffer| cuda.host_bytes(role(rows(buffer))));
        most = most.max(planned.sum::<usize>());
        assert_eq!(most.next_multiple_of(cuda.host_slab()), slabs * cuda.host_slab());
    }
}

/// Evenly spread numbers have mean 0 and a third of the range's square as their variance; each is a
/// bf16.
#[test]
fn drawn_weights_are_evenly_spread() {
    let cuda = cuda();
    let kind = Kind::Matrix(Linear { inputs: 128, outputs: 80 });
    let drawn = |seed| {
        let mut packed = cuda.allocate(Role::Weight(kind)).unwrap();
        cuda.draw_weight(&mut packed, seed, 0.5);
        let mut weights = vec![0.0_f32; 128 * 80];
        cuda.unpack(kind, 0, &packed, &mut weights);
        weights
    };
    let weights = drawn(3);
    assert!(weights.iter().all(|&w| w.abs() <= 0.5 && rounded(w) == w));
    let mean = |f: fn(f64) -> f64| weights.iter().map(|&w| f(f64::from(w))).sum::<f64>() / 10_240.0;
    // Four standard deviations: 0.289 / 101 each, and 0.0745 / 101.
    assert!(mean(|w| w).abs() < 0.0115, "{}", mean(|w| w));
    assert!((mean(|w| w * w) - 0.25 / 3.0).abs() < 0.003, "{}", mean(|w| w * w));
    assert_eq!(weights, drawn(3));
    assert_ne!(weights, drawn(4));
}
