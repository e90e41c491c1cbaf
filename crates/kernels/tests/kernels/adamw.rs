//! AdamW against the reference and against PyTorch, and the gradient norm.

use crate::reference;
use crate::support::{assert_bits, assert_close, cpu, every_cpu, noise, wide};
use isentrope_kernels::{AdamW, Backend};

const SETTINGS: AdamW = AdamW {
    learning_rate: 3e-3,
    beta1: 0.9,
    beta2: 0.95,
    eps: 1e-8,
    weight_decay: 0.1,
    step: 1,
    gradient_scale: 1.0,
};

#[test]
fn steps_against_the_reference() {
    let cpu = cpu();
    for len in [0, 1, 7, 16, 17, 65, 1000, 40_001] {
        for (gradient_scale, weight_decay) in [(1.0, 0.1), (0.37, 0.0)] {
            let start = noise(1, len);
            let mut want: [Vec<f64>; 3] = [wide(&start), vec![0.0; len], vec![0.0; len]];
            let (mut weights, mut first, mut second) = (cpu.upload(&start), cpu.zeros(len), cpu.zeros(len));
            for step in 1..=6 {
                let settings = AdamW { step, gradient_scale, weight_decay, ..SETTINGS };
                let gradient = noise(10 + u64::from(step), len);
                cpu.adamw(settings, &mut weights, &cpu.upload(&gradient), &mut first, &mut second);
                for i in 0..len {
                    let [w, m, v] = [want[0][i], want[1][i], want[2][i]];
                    let after = reference::adamw(settings, w, f64::from(gradient[i]), m, v);
                    (0..3).for_each(|k| want[k][i] = after[k]);
                }
            }
            for (got, want) in [&weights, &first, &second].into_iter().zip(&want) {
                cpu.with_host(got, len, |got| assert_close(&format!("{len} weights"), got, want, 1e-6));
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
    let len = lines[1].len();
    let (mut weights, mut first, mut second) =
        (cpu.upload(&narrow(&lines[1])), cpu.zeros(len), cpu.zeros(len));
    let steps = lines[2..].chunks_exact(4);
    assert_eq!(steps.len(), 5);
    for (step, expected) in (1..).zip(steps) {
        let settings = AdamW { learning_rate, beta1, beta2, eps, weight_decay, step, gradient_scale: 1.0 };
        cpu.adamw(settings, &mut weights, &cpu.upload(&narrow(&expected[0])), &mut first, &mut second);
        for (what, (got, want)) in ["weights", "first moment", "second moment"]
            .iter()
            .zip([&weights, &first, &second].iter().zip(&expected[1..]))
        {
            cpu.with_host(got, len, |got| {
                assert_close(&format!("{what} after step {step}"), got, want, 1e-6);
            });
        }
    }
}

#[test]
fn zero_gradients_only_decay() {
    let cpu = cpu();
    let start = noise(1, 100);
    let (mut weights, mut first, mut second) = (cpu.upload(&start), cpu.zeros(100), cpu.zeros(100));
    cpu.adamw(SETTINGS, &mut weights, &cpu.zeros(100), &mut first, &mut second);
    let want: Vec<f64> = start.iter().map(|&w| f64::from(w) * (1.0 - 3e-4)).collect();
    cpu.with_host(&weights, 100, |got| assert_close("weights", got, &want, 2e-7));
    cpu.with_host(&first, 100, |m| assert_bits("first moment", m, &[0.0; 100]));
}

#[test]
fn sums_of_squares() {
    for len in [0, 1, 17, 4096, 4097, 200_003] {
        let x = noise(3, len);
        let want: f64 = wide(&x).iter().map(|x| x * x).sum();
        let sums: Vec<f64> = every_cpu().iter().map(|cpu| cpu.sum_of_squares(&cpu.upload(&x))).collect();
        assert!((sums[0] - want).abs() <= 1e-6 * want, "{} instead of {want} over {len}", sums[0]);
        assert!(sums.iter().all(|s| s.to_bits() == sums[0].to_bits()), "{len} floats: {sums:?}");
    }
}
