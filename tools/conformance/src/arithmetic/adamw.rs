//! AdamW against the reference and against PyTorch, and the gradient norm.

use crate::arithmetic::reference;
use crate::data::{assert_bits, assert_close, noise, wide};
use crate::device::{Device, Trial, assert_variants_agree, vector, vector_gradient};
use crate::properties;
use isentrope_kernels::{AdamW, Buffer, Kind, Linear, NORM_BLOCK, Role, UpdateSlice};

properties!(
    steps_against_the_reference,
    steps_against_torch,
    zero_gradients_only_decay,
    several_parameters_in_one_call,
    parts_have_the_bits_of_the_whole,
    variants,
    norms,
    the_norm_equals_its_scalar_sum
);

const SETTINGS: AdamW = AdamW {
    learning_rate: 3e-3,
    beta1: 0.9,
    beta2: 0.95,
    eps: 1e-8,
    weight_decay: 0.1,
    step: 1,
    gradient_scale: 1.0,
};

/// A parameter, a vector, with its moments.
struct Parameter {
    len: usize,
    weights: Buffer,
    first: Buffer,
    second: Buffer,
}

impl Parameter {
    /// Before any step.
    fn new(device: &Device<'_>, weights: &[f32]) -> Self {
        Self::with_moments(device, [weights, &vec![0.0; weights.len()], &vec![0.0; weights.len()]])
    }

    fn with_moments(device: &Device<'_>, [weights, first, second]: [&[f32]; 3]) -> Self {
        let len = weights.len();
        let moment = Role::Moment(len);
        let weights = device.upload(vector(len), weights);
        Self {
            len,
            weights,
            first: device.upload(moment, first),
            second: device.upload(moment, second),
        }
    }

    fn updated<'a>(&'a mut self, gradient: &'a Buffer) -> UpdateSlice<'a> {
        let Self { len, weights, first, second } = self;
        UpdateSlice { weights, elements: 0..*len, gradient: (gradient, 0), first, second }
    }

    fn step(&mut self, device: &Device<'_>, settings: AdamW, gradient: &[f32]) {
        let gradient = tensor(device, gradient);
        device.adamw(settings, &mut [self.updated(&gradient)]);
    }

    /// `[weights, first, second]`.
    fn values(&self, device: &Device<'_>) -> [Vec<f32>; 3] {
        let moment = Role::Moment(self.len);
        let held =
            [(vector(self.len), &self.weights), (moment, &self.first), (moment, &self.second)];
        held.map(|(role, buffer)| device.download(role, buffer))
    }
}

/// A gradient without poison behind it.
fn tensor(device: &Device<'_>, data: &[f32]) -> Buffer {
    let mut buffer = device.zeros(vector_gradient(data.len()));
    device.pack(Kind::Vector(data.len()), 0, data, &mut buffer);
    buffer
}

fn steps_against_the_reference(trial: &Trial) {
    let device = trial.device();
    for len in [0, 1, 7, 16, 17, 65, 1000, 40_001] {
        for (gradient_scale, weight_decay) in [(1.0, 0.1), (0.37, 0.0)] {
            let before = noise(1, len);
            let mut want: [Vec<f64>; 3] = [wide(&before), vec![0.0; len], vec![0.0; len]];
            let mut parameter = Parameter::new(&device, &before);
            for number in 1..=6 {
                let settings = AdamW { step: number, gradient_scale, weight_decay, ..SETTINGS };
                let gradient = noise(10 + u64::from(number), len);
                parameter.step(&device, settings, &gradient);
                for i in 0..len {
                    let [w, m, v] = [want[0][i], want[1][i], want[2][i]];
                    let after = reference::adamw(settings, w, f64::from(gradient[i]), m, v);
                    (0..3).for_each(|k| want[k][i] = after[k]);
                }
            }
            for (got, want) in parameter.values(&device).iter().zip(&want) {
                assert_close(&format!("{len} weights"), got, want, trial.tolerance().adamw);
            }
        }
    }
}

/// `adamw_torch.txt` is the output of `adamw_torch.py`, by `torch.optim.AdamW` in f64: a line of
/// settings, the weights, then for each step its gradient and the weights and moments after it.
fn steps_against_torch(trial: &Trial) {
    let lines: Vec<Vec<f64>> = include_str!("adamw_torch.txt")
        .lines()
        .map(|line| line.split_whitespace().map(|x| x.parse().unwrap()).collect())
        .collect();
    let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let [learning_rate, beta1, beta2, eps, weight_decay] = lines[0][..] else {
        panic!("five settings")
    };
    let device = trial.device();
    let mut parameter = Parameter::new(&device, &narrow(&lines[1]));
    let steps = lines[2..].chunks_exact(4);
    assert_eq!(steps.len(), 5);
    for (number, expected) in (1..).zip(steps) {
        let gradient_scale = 1.0;
        let settings =
            AdamW { learning_rate, beta1, beta2, eps, weight_decay, step: number, gradient_scale };
        parameter.step(&device, settings, &narrow(&expected[0]));
        let names = ["weights", "first moment", "second moment"];
        for (what, (got, want)) in
            names.iter().zip(parameter.values(&device).iter().zip(&expected[1..]))
        {
            assert_close(
                &format!("{what} after step {number}"),
                got,
                want,
                trial.tolerance().adamw,
            );
        }
    }
}

fn zero_gradients_only_decay(trial: &Trial) {
    let device = trial.device();
    let before = noise(1, 100);
    let mut parameter = Parameter::new(&device, &before);
    parameter.step(&device, SETTINGS, &[0.0; 100]);
    let want: Vec<f64> = before.iter().map(|&w| f64::from(w) * (1.0 - 3e-4)).collect();
    let [weights, first, _] = parameter.values(&device);
    assert_close("weights", &weights, &want, trial.tolerance().weight_decay);
    assert_bits("first moment", &first, &[0.0; 100]);
}

/// Parameters updated together have the bits of each alone.
fn several_parameters_in_one_call(trial: &Trial) {
    let device = &trial.device();
    let (data, gradients) = ([noise(1, 40), noise(2, 70_000)], [noise(3, 40), noise(4, 70_000)]);
    let alone = [0, 1].map(|i| {
        let mut parameter = Parameter::new(device, &data[i]);
        parameter.step(device, SETTINGS, &gradients[i]);
        parameter.values(device)
    });
    let mut together = [0, 1].map(|i| Parameter::new(device, &data[i]));
    let gradients = [0, 1].map(|i| tensor(device, &gradients[i]));
    let mut updated: Vec<_> = together
        .iter_mut()
        .zip(&gradients)
        .map(|(parameter, gradient)| parameter.updated(gradient))
        .collect();
    device.adamw(SETTINGS, &mut updated);
    for (parameter, alone) in together.iter().zip(&alone) {
        for (got, want) in parameter.values(device).iter().zip(alone) {
            assert_bits("together", got, want);
        }
    }
}

/// Each rank updates a part, of vectors and of packed matrices. Together the parts have the bits of
/// one update of the whole, and the parts' sums of squares are the whole's.
fn parts_have_the_bits_of_the_whole(trial: &Trial) {
    let device = &trial.device();
    let settings = AdamW { step: 3, gradient_scale: 0.5, ..SETTINGS };
    for kind in
        [Kind::Vector(3 * NORM_BLOCK + 5), Kind::Matrix(Linear { inputs: 150, outputs: 133 })]
    {
        let (weights, gradient) = (Role::Weight(kind), Role::Gradient(kind));
        let elements = device.element_count(kind);
        let (before, gradient) = (device.noise(weights, 1), device.upload_noise(gradient, 2));
        let [first, second] =
            [3, 4].map(|seed| noise(seed, elements).into_iter().map(f32::abs).collect());
        // `alone`: the gradient of a part is in a buffer of its own, as a rank may keep it.
        let of_parts = |cuts: &[usize], moment_of: fn(usize) -> Role, alone: bool| {
            let mut updated = device.upload(weights, &before);
            let (mut moments, mut sums) = ([Vec::new(), Vec::new()], Vec::new());
            let mut copied = Vec::new();
            for ends in cuts.windows(2) {
                let part = ends[0]..ends[1];
                let role = moment_of(part.len());
                let moment = |of: &Vec<f32>| device.upload(role, &of[part.clone()]);
                let mut of_part = [moment(&first), moment(&second)];
                let [first, second] = &mut of_part;
                let weights = &mut updated;
                let mut own = device.zeros(Role::Moment(part.len() + 1));
                device.copy_elements(&gradient, part.clone(), &mut own, 1);
                let one = UpdateSlice {
                    weights,
                    elements: part.clone(),
                    gradient: if alone { (&own, 1) } else { (&gradient, part.start) },
                    first,
                    second,
                };
                device.adamw(settings, &mut [one]);
                for (all, of_part) in moments.iter_mut().zip(&of_part) {
                    all.extend(device.download(role, of_part));
                }
                sums.extend(device.square_sums(&[(&gradient, part.clone())]));
                let mut copy = device.upload(role, &vec![0.0; part.len()]);
                device.copy_elements(&updated, part, &mut copy, 0);
                copied.extend(device.download(role, &copy));
            }
            let mut elements = vec![0.0; elements];
            device.read_elements(&updated, 0, &mut elements);
            assert_bits("copies", &copied, &elements);
            (device.download(weights, &updated), moments, sums)
        };
        let whole = of_parts(&[0, elements], Role::Moment, false);
        let cuts = [0, NORM_BLOCK, 3 * NORM_BLOCK, elements];
        // The moments' home makes no difference.
        for parts in
            [of_parts(&cuts, Role::Moment, true), of_parts(&cuts, Role::OffloadedMoment, false)]
        {
            assert_bits("weights", &parts.0, &whole.0);
            parts
                .1
                .iter()
                .zip(&whole.1)
                .for_each(|(parts, whole)| assert_bits("moments", parts, whole));
            assert_bits("sums of squares", &parts.2, &whole.2);
        }
        assert_eq!(whole.2.len(), elements.div_ceil(NORM_BLOCK));
    }
}

fn variants(trial: &Trial) {
    let len = 70_003;
    let settings = AdamW {
        learning_rate: 1e-3,
        beta2: 0.99,
        weight_decay: 0.01,
        step: 3,
        gradient_scale: 0.5,
        ..SETTINGS
    };
    assert_variants_agree(trial, |device| {
        let second: Vec<f32> = noise(3, len).into_iter().map(f32::abs).collect();
        let before = [&noise(1, len)[..], &noise(2, len), &second];
        let mut parameter = Parameter::with_moments(device, before);
        parameter.step(device, settings, &noise(4, len));
        let [weights, first, second] = parameter.values(device);
        vec![("weights", weights), ("first moment", first), ("second moment", second)]
    });
}

fn norms(trial: &Trial) {
    for lens in
        [&[][..], &[0], &[1], &[17], &[4096], &[4097], &[200_003], &[5, 0, 4096, 200_003, 0, 1]]
    {
        let x: Vec<Vec<f32>> = (3..).zip(lens).map(|(seed, &len)| noise(seed, len)).collect();
        let want: f64 = x.iter().flat_map(|x| wide(x)).map(|x| x * x).sum::<f64>().sqrt();
        let norms: Vec<f64> = trial
            .devices()
            .map(|device| {
                let tensors: Vec<_> = x.iter().map(|x| tensor(&device, x)).collect();
                let tensors: Vec<_> =
                    lens.iter().map(|&len| Kind::Vector(len)).zip(&tensors).collect();
                device.norm_of(&tensors)
            })
            .collect();
        let error = (norms[0] - want).abs();
        assert!(
            error <= trial.tolerance().norm * want,
            "{} instead of {want} over {lens:?}",
            norms[0]
        );
        assert!(
            norms.iter().all(|n| n.to_bits() == norms[0].to_bits()),
            "{lens:?} floats: {norms:?}"
        );
    }
}

/// The order of sums is part of the arithmetic.
fn the_norm_equals_its_scalar_sum(trial: &Trial) {
    let device = trial.device();
    let x = [noise(1, 9000), noise(2, 100)];
    let tensors = [0, 1].map(|i| tensor(&device, &x[i]));
    let tensors = [0, 1].map(|i| (Kind::Vector(x[i].len()), &tensors[i]));
    assert_eq!(device.norm_of(&tensors).to_bits(), trial.subject().norm(&x).to_bits());
}
