use super::*;
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::ModelConfig;
use std::path::Path;

fn layout() -> Layout {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models/qwen3");
    Layout::new(&ModelConfig::read(&dir).unwrap())
}

fn workload() -> Workload {
    let sampled = Tokens::of_groups(8.0, 4.0, 20.0, 100.0);
    Workload {
        ranks: 1,
        steps: 30,
        sampled,
        sampled_at_a_time: 32,
        trained: sampled,
        passes: (1.0, 1.0),
        spared: 1.0,
        evaluated: Tokens::of_groups(10.0, 2.0, 20.0, 100.0),
        held_out: Tokens::default(),
        evaluations: 4,
        longest: 100,
    }
}

const NOTHING: Kept = Kept { of_sampling: 0.0, of_passes: true };

#[test]
fn time_is_work_over_speed() {
    let (layout, workload) = (layout(), workload());
    let forward = layout.forward_flops(workload.sampled);
    // One second to sample, a forward pass of an update in half.
    let speed = Speed { sampling: forward, updates: 2.0 * forward };
    let estimate = workload.estimate(&layout, NOTHING, speed);
    assert!((estimate.step.as_secs_f64() - 2.5).abs() < 1e-6, "{estimate}");
    let evaluation = layout.forward_flops(workload.evaluated) / forward;
    assert!((estimate.evaluation.as_secs_f64() - evaluation).abs() < 1e-6, "{estimate}");
    assert!((estimate.run.as_secs_f64() - 30.0 * 2.5 - 4.0 * evaluation).abs() < 1e-4, "{estimate}");
    // Activations kept from sampling spare the forward pass but for the head, as far as there is memory for them.
    let half = workload.estimate(&layout, Kept { of_sampling: 0.5, ..NOTHING }, speed);
    let blocks = layout.forward_flops(Tokens { scored: 0.0, ..workload.trained }) / forward;
    assert!((half.step.as_secs_f64() - (2.5 - 0.25 * blocks)).abs() < 1e-6, "{half}");
    // Without memory for those of its own, a backward pass needs another forward pass.
    let again = workload.estimate(&layout, Kept { of_passes: false, ..NOTHING }, speed);
    assert!((again.step.as_secs_f64() - 3.0).abs() < 1e-6, "{again}");
    let held_out = Workload { held_out: workload.sampled, evaluated: Tokens::default(), ..workload };
    let evaluation = held_out.estimate(&layout, NOTHING, speed).evaluation;
    assert!((evaluation.as_secs_f64() - 0.5).abs() < 1e-6, "{evaluation:?}");
    let on_ranks = Workload { ranks: 4, ..workload }.estimate(&layout, NOTHING, speed);
    assert!((on_ranks.step.as_secs_f64() - 2.5 / 4.0).abs() < 1e-6, "{on_ranks}");
    let shown = estimate.to_string();
    assert!(
        shown.starts_with("time: about 2 s a step, 0.6 s an evaluation, 78 s for the whole run"),
        "{shown}"
    );
    assert!(shown.contains("if responses take all of their 100 tokens"), "{shown}");
}

#[test]
fn a_run_without_end_has_a_time() {
    let workload = Workload { steps: u64::MAX, ..workload() };
    let estimate = workload.estimate(&layout(), NOTHING, Speed { sampling: 1e9, updates: 0.0 });
    assert!(estimate.to_string().contains(" 6e11 years for the whole run"), "{estimate}");
}

#[test]
fn speed_is_measured() {
    let cpu = Cpu::new(Isa::available()[0], 1).unwrap();
    let Speed { sampling, updates } = Speed::measure(&cpu, &layout(), 4).unwrap();
    assert!(sampling > 1e6 && updates > 1e6, "{sampling} {updates}");
    assert!(sampling < 1e14 && updates < 1e14, "{sampling} {updates}");
}

#[test]
fn times_are_told_in_their_units() {
    for (seconds, told) in [
        (0.04, "40 ms"),
        (3.4, "3 s"),
        (89.0, "89 s"),
        (600.0, "10 min"),
        (7300.0, "2 h"),
        (864_000.0, "10 days"),
        (86_400_000.0, "3 years"),
        (378_700_000.0, "12 years"),
        (3.156e13, "1e6 years"),
    ] {
        assert_eq!(human(Duration::from_secs_f64(seconds)), told);
    }
}
