//! Student's t distribution, and the change over a series of measurements.

/// Probability that Student's t with `degrees` of freedom (from 1) lies within -t and t, for
/// t from 0 (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
pub fn within(t: f64, degrees: usize) -> f64 {
    let n = degrees as f64;
    let angle = libm::atan(t / n.sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    // Powers of the cosine with coefficients (2 4 .. k-1) / (3 5 .. k) for odd, (1 3 .. k-1) / (2 4
    // .. k) for even degrees.
    let (mut term, mut sum) = if degrees % 2 == 1 { (cosine, cosine) } else { (1.0, 1.0) };
    let mut k = if degrees % 2 == 1 { 3 } else { 2 };
    while k + 2 <= degrees {
        term *= cosine * cosine * (k - 1) as f64 / k as f64;
        sum += term;
        k += 2;
    }
    let share = match degrees {
        1 => 2.0 / std::f64::consts::PI * angle,
        _ if degrees % 2 == 1 => 2.0 / std::f64::consts::PI * (angle + sine * sum),
        _ => sine * sum,
    };
    share.clamp(0.0, 1.0)
}

/// The quantile of Student's t at probability `p`, from 0.5 to 1 (exclusive).
pub fn quantile(p: f64, degrees: usize) -> f64 {
    let inside = 2.0 * p - 1.0;
    let mut high = 1.0;
    while within(high, degrees) < inside {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if within(middle, degrees) < inside { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The 95 % interval of the last less the first of some measurements, by how much neighbours differ
/// (von Neumann 1941). A trend adds to these differences, so the interval is rather too wide. None
/// for fewer than three measurements.
pub fn interval_of_change(measurements: &[f64]) -> Option<[f64; 2]> {
    let (first, last) = (measurements.first()?, measurements.last()?);
    let degrees = measurements.len().checked_sub(1).filter(|degrees| *degrees > 1)?;
    let squares: f64 = measurements.windows(2).map(|w| (w[1] - w[0]) * (w[1] - w[0])).sum();
    let half = quantile(0.975, degrees) * (squares / degrees as f64).sqrt();
    Some([last - first - half, last - first + half])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_from_scatter() {
        assert_eq!(interval_of_change(&[1.0, 0.5]), None);
        // 4.303 of two degrees, times the root of the mean square of -0.2 and 0.1.
        let [low, high] = interval_of_change(&[1.0, 0.8, 0.9]).unwrap();
        assert!((low + 0.7803).abs() < 1e-4 && (high - 0.5803).abs() < 1e-4, "{low} {high}");
        let falling: Vec<f64> = (0..20).map(|i| 1.0 - 0.01 * f64::from(i)).collect();
        assert!(interval_of_change(&falling).unwrap()[1] < 0.0);
    }
}
