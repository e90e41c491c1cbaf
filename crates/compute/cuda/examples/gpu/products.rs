//! cuBLASLt: whether its bits are those of chains, and how fast it is beside the kernels here, for
//! the shapes of two models.

use crate::Scale;
use crate::report::{Report, Work};
use crate::speed::seconds;
use isentrope_cuda::gpu::Gpu;
use isentrope_cuda::{Device, Memory, Product};

/// Inputs and outputs of a block's linear layers and of the head: of Qwen2.5-0.5B and Qwen2.5-7B.
const LAYERS: [(usize, usize); 9] = [
    (896, 1152),
    (896, 896),
    (896, 9728),
    (4864, 896),
    (896, 151_936),
    (3584, 4608),
    (3584, 3584),
    (3584, 37_888),
    (18_944, 3584),
];
const TOKENS: [usize; 3] = [16, 256, 4096];

/// Every layer in three directions.
pub fn sweep(gpu: &Gpu, scale: Scale, report: &mut Report) {
    let Some(blas) = gpu.blas() else {
        let missing = gpu.blas_search().missing();
        report.verdict(
            "cuBLASLt",
            "library",
            Ok(format!("there is none, the kernels here do without: {missing}")),
        );
        return;
    };
    report.verdict("cuBLASLt", "library", Ok(format!("version {}", blas.version())));
    for refusal in blas.refusals() {
        report.verdict("cuBLASLt", "operations measured above", Ok(refusal));
    }
    for (inputs, outputs) in LAYERS {
        for (direction, product) in directions(inputs, outputs) {
            let verdict = match blas.verdict(gpu, &product) {
                Ok(()) => "bits of chains".to_owned(),
                Err(why) => format!("not used: {why}"),
            };
            report.verdict("cuBLASLt", &format!("{direction}, {inputs} x {outputs}"), Ok(verdict));
            for tokens in TOKENS {
                let product = match product.a_transposed {
                    true => Product { depth: tokens, ..product },
                    false => Product { rows: tokens, ..product },
                };
                let Product { rows, columns, depth, .. } = product;
                let size = if product.d_exact { 4 } else { 2 };
                let allocated = [2 * rows * depth, 2 * columns * depth, size * rows * columns]
                    .map(|bytes| gpu.allocate(bytes));
                let [Ok(a), Ok(b), Ok(d)] = allocated else { continue };
                for (memory, bytes) in [(&a, a.bytes()), (&b, b.bytes()), (&d, d.bytes())] {
                    fill(gpu, memory, bytes);
                }
                let product = Product { a: a.address(), b: b.address(), d: d.address(), ..product };
                if !blas.run(gpu, &product) {
                    continue;
                }
                let time = seconds(scale.window / 2, gpu, || {
                    blas.run(gpu, &product);
                });
                let flop = 2.0 * rows as f64 * columns as f64 * depth as f64;
                report.peak = Some(report.peak.unwrap_or(0.0).max(flop / time));
                let bytes = (a.bytes() + b.bytes() + d.bytes()) as f64;
                let what = format!("{direction}, {tokens} x {inputs} x {outputs}");
                report.time("cuBLASLt", &what, time, Work { bytes, flop });
            }
        }
    }
}

fn directions(inputs: usize, outputs: usize) -> [(&'static str, Product); 3] {
    let plain = Product {
        a: 0,
        a_transposed: false,
        b: 0,
        b_transposed: false,
        d: 0,
        d_exact: false,
        rows: 0,
        columns: outputs,
        depth: inputs,
    };
    let weight = Product {
        a_transposed: true,
        b_transposed: true,
        d_exact: true,
        rows: outputs,
        columns: inputs,
        depth: 0,
        ..plain
    };
    [
        ("forward", plain),
        (
            "backward, input",
            Product { b_transposed: true, columns: inputs, depth: outputs, ..plain },
        ),
        ("backward, weight", weight),
    ]
}

/// Random numbers of moderate size: zeros would be multiplied faster.
fn fill(gpu: &Gpu, memory: &<Gpu as Device>::Memory, bytes: usize) {
    let mut random = crate::probe::Random::new(bytes as u64);
    let mut half = || (random.number().to_bits() >> 16) as u16;
    let part: Vec<u8> = (0..(1 << 19).min(bytes / 2)).flat_map(|_| half().to_le_bytes()).collect();
    for at in (0..bytes).step_by(part.len().max(1)) {
        let here = part.len().min(bytes - at);
        gpu.upload(&part[..here], memory, at);
    }
}
