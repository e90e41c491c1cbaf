//! Times `y = x W^T` at one shape: `linear_bench ROWS INPUTS OUTPUTS [--backward]` prints one JSON
//! line.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is what it is for")]

use isentrope_kernels::{Backend, Cpu, Isa, Kind, Linear, Role, thread_count};
use std::time::Instant;

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let [rows, inputs, outputs] = numbers[..] else {
        eprintln!("usage: linear_bench ROWS INPUTS OUTPUTS [--backward]");
        std::process::exit(2);
    };
    let backward = std::env::args().any(|a| a == "--backward");
    let cpu =
        Isa::from_env().and_then(|isa| Cpu::new(isa, thread_count(None)?)).unwrap_or_else(|e| {
            eprintln!("{e}");
            std::process::exit(1);
        });
    let shape = Linear { inputs, outputs };
    let noise = |len: usize| -> Vec<f32> {
        (0..len as u32)
            .map(|i| (i.wrapping_mul(2_654_435_769) >> 8) as f32 / 16_777_216.0 - 0.5)
            .collect()
    };
    let activations = |rows: usize, features: usize| {
        let mut buffer = cpu.buffer(Role::Activation(rows, features));
        cpu.write(&mut buffer, 0, &noise(rows * features));
        buffer
    };
    let kind = Kind::Matrix(shape);
    let parameter = |role| cpu.allocate(role).unwrap_or_else(|e| panic!("{e}"));
    let (x, mut y, mut dx) =
        (activations(rows, inputs), activations(rows, outputs), activations(rows, inputs));
    let (mut weights, mut dw) = (parameter(Role::Weight(kind)), parameter(Role::Gradient(kind)));
    cpu.pack(kind, 0, &noise(inputs * outputs), &mut weights);
    let flops = 2.0 * rows as f64 * inputs as f64 * outputs as f64;
    let median = |f: &mut dyn FnMut()| {
        let repeats = ((4e10 / flops) as usize).clamp(7, 2000);
        let mut seconds: Vec<f64> = (0..repeats + 2)
            .map(|_| {
                let start = Instant::now();
                f();
                start.elapsed().as_secs_f64()
            })
            .skip(2)
            .collect();
        seconds.sort_by(f64::total_cmp);
        flops / seconds[seconds.len() / 20] / 1e9
    };
    let report = |what: &str, gflops: f64| {
        println!(
            r#"{{"what":"{what}","rows":{rows},"in":{inputs},"out":{outputs},"gflops":{gflops:.1},"isa":"{}"}}"#,
            cpu.isa()
        );
    };
    report("forward", median(&mut || cpu.linear(shape, &x, &weights, None, &mut y, rows)));
    if backward {
        report(
            "input",
            median(&mut || cpu.linear_backward_input(shape, &y, &weights, &mut dx, rows)),
        );
        report("weight", median(&mut || cpu.linear_backward_weight(shape, &y, &x, &mut dw, rows)));
    }
}
