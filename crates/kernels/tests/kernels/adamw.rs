//! AdamW against the reference and against PyTorch, and the gradient norm.

use crate::reference;
use crate::support::{assert_bits, assert_close, cpu, every_cpu, noise, wide};
use isentrope_kernels::{AdamW, Backend, Cpu, CpuBuffer, Kind, Role, Updated};

const SETTINGS: AdamW = AdamW {
    learning_rate: 3e-3,
    beta1: 0.9,
    beta2: 0.95,
    eps: 1e-8,
    weight_decay: 0.1,
    step: 1,
    gradient_scale: 1.0,
};

/// A parameter of these weights.
fn weights(cpu: &Cpu, data: &[f32]) -> CpuBuffer {
    let kind = Kind::Vector(data.len());
    let mut buffer = cpu.allocate(Role::Weight(kind)).unwrap();
    cpu.pack(kind, 0, data, &mut buffer);
    buffer
}

/// A parameter with its moments, `[weights, first, second]`, before any step.
fn start(cpu: &Cpu, data: &[f32]) -> [CpuBuffer; 3] {
    let moment = || cpu.allocate(Role::Moment(Kind::Vector(data.len()))).unwrap();
    [weights(cpu, data), moment(), moment()]
}

fn step(cpu: &Cpu, settings: AdamW, [weights, first, second]: &mut [CpuBuffer; 3], gradient: &[f32]) {
    let gradient = self::weights(cpu, gradient);
    cpu.adamw(settings, &mut [Updated { weights, gradient: &gradient, first, second }]);
}

#[test]
fn steps_against_the_reference() {
    let cpu = cpu();
    for len in [0, 1, 7, 16, 17, 65, 1000, 40_001] {
        for (gradient_scale, weight_decay) in [(1.0, 0.1), (0.37, 0.0)] {
            let before = noise(1, len);
            let mut want: [Vec<f64>; 3] = [wide(&before), vec![0.0; len], vec![0.0; len]];
            let mut parameter = start(cpu, &before);
            for number in 1..=6 {
                let settings = AdamW { step: number, gradient_scale, weight_decay, ..SETTINGS };
                let gradient = noise(10 + u64::from(number), len);
                step(cpu, settings, &mut parameter, &gradient);
                for i in 0..len {
                    let [w, m, v] = [want[0][i], want[1][i], want[2][i]];
                    let after = reference::adamw(settings, w, f64::from(gradient[i]), m, v);
                    (0..3).for_each(|k| want[k][i] = after[k]);
                }
            }
            for (got, want) in parameter.iter().zip(&want) {
                assert_close(&format!("{len} weights"), got, want, 1e-6);
            }
        }
    }
}

/// `adamw_torch.txt` is what `adamw_torch.py` prints: a line of settings, the weights, then for each step its
/// gradient and the weights and moments after it, from `torch.optim.AdamW` in f64.
#[test]
fn steps_against_torch() {
    let lines: Vec<Vec<f64>> = include_str!("adamw_torch.txt")
        .lines()
        .map(|line| line.split_whitespace().map(|x| x.parse().unwrap()).collect())
        .collect();
    let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let [learning_rate, beta1, beta2, eps, weight_decay] = lines[0][..] else { panic!("five settings") };
    let cpu = cpu();
    let mut parameter = start(cpu, &narrow(&lines[1]));
    let steps = lines[2..].chunks_exact(4);
    assert_eq!(steps.len(), 5);
    for (number, expected) in (1..).zip(steps) {
        let gradient_scale = 1.0;
        let settings = AdamW { learning_rate, beta1, beta2, eps, weight_decay, step: number, gradient_scale };
        step(cpu, settings, &mut parameter, &narrow(&expected[0]));
        for (what, (got, want)) in
            ["weights", "first moment", "second moment"].iter().zip(parameter.iter().zip(&expected[1..]))
        {
            assert_close(&format!("{what} after step {number}"), got, want, 1e-6);
        }
    }
}

#[test]
fn zero_gradients_only_decay() {
    let cpu = cpu();
    let before = noise(1, 100);
    let mut parameter = start(cpu, &before);
    step(cpu, SETTINGS, &mut parameter, &[0.0; 100]);
    let want: Vec<f64> = before.iter().map(|&w| f64::from(w) * (1.0 - 3e-4)).collect();
    assert_close("weights", &parameter[0], &want, 2e-7);
    assert_bits("first moment", &parameter[1], &[0.0; 100]);
}

/// Parameters updated together have the bits of each alone.
#[test]
fn several_parameters_in_one_call() {
    let cpu = cpu();
    let (data, gradients) = ([noise(1, 40), noise(2, 70_000)], [noise(3, 40), noise(4, 70_000)]);
    let alone = [0, 1].map(|i| {
        let mut parameter = start(cpu, &data[i]);
        step(cpu, SETTINGS, &mut parameter, &gradients[i]);
        parameter
    });
    let [mut a, mut b] = [0, 1].map(|i| start(cpu, &data[i]));
    let device = [0, 1].map(|i| weights(cpu, &gradients[i]));
    let mut updated: Vec<Updated<'_, CpuBuffer>> = [&mut a, &mut b]
        .into_iter()
        .zip(&device)
        .map(|([weights, first, second], gradient)| Updated { weights, gradient, first, second })
        .collect();
    cpu.adamw(SETTINGS, &mut updated);
    for (got, want) in [a, b].iter().flatten().zip(alone.iter().flatten()) {
        assert_bits("together", got, want);
    }
}

#[test]
fn norms() {
    for lens in [&[][..], &[0], &[1], &[17], &[4096], &[4097], &[200_003], &[5, 0, 4096, 200_003, 0, 1]] {
        let x: Vec<Vec<f32>> = (3..).zip(lens).map(|(seed, &len)| noise(seed, len)).collect();
        let want: f64 = x.iter().flat_map(|x| wide(x)).map(|x| x * x).sum::<f64>().sqrt();
        let norms: Vec<f64> = every_cpu()
            .iter()
            .map(|cpu| {
                let tensors: Vec<CpuBuffer> = x.iter().map(|x| weights(cpu, x)).collect();
                cpu.norm(&tensors.iter().collect::<Vec<_>>())
            })
            .collect();
        assert!((norms[0] - want).abs() <= 1e-6 * want, "{} instead of {want} over {lens:?}", norms[0]);
        assert!(norms.iter().all(|n| n.to_bits() == norms[0].to_bits()), "{lens:?} floats: {norms:?}");
    }
}

/// The order of sums is part of the contract: chains in lanes, blocks of a tensor in f64, then the tensors.
#[test]
fn the_norm_adds_up_in_order() {
    let x = [noise(1, 9000), noise(2, 100)];
    let block = |x: &[f32]| {
        let mut lanes = [0.0f32; 16];
        x.iter().enumerate().for_each(|(i, &v)| lanes[i % 16] = v.mul_add(v, lanes[i % 16]));
        f64::from(tree(&lanes))
    };
    let want = x.iter().map(|x| x.chunks(4096).map(block).sum::<f64>()).sum::<f64>().sqrt();
    let tensors = x.map(|x| weights(cpu(), &x));
    assert_eq!(cpu().norm(&[&tensors[0], &tensors[1]]).to_bits(), want.to_bits());
}

/// The sum of sixteen partial sums, halves added to halves.
fn tree(lanes: &[f32]) -> f32 {
    if let [sum] = lanes {
        return *sum;
    }
    let (low, high) = lanes.split_at(lanes.len() / 2);
    tree(&low.iter().zip(high).map(|(a, b)| a + b).collect::<Vec<f32>>())
}
