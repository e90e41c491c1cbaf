//! The CPU's distribution of a row of logits.

use crate::support::cpu;
use isentrope_kernels::{Distribution, ln};

#[test]
fn closed_forms() {
    let isa = cpu().isa();
    for n in [1usize, 2, 16, 61, 1000, 152_064] {
        let d = Distribution::of(isa, &vec![-4.25; n], 1.0);
        assert!(
            (f64::from(d.entropy) - (n as f64).ln()).abs() < 1e-6,
            "uniform over {n}: {}",
            d.entropy
        );
        assert_eq!((d.max, d.log_sum), (-4.25, ln(n as f32)));
    }
    let mut one_hot = vec![-200.0; 1000];
    one_hot[321] = 0.0;
    let certain = Distribution { max: 0.0, log_sum: 0.0, entropy: 0.0 };
    assert_eq!(Distribution::of(isa, &one_hot, 1.0), certain);
}
