//! Long series in fewer points, with every spike left in.

/// At most `most` points of a series, in order: the first, the last, and the least and the largest of each stretch between.
pub(super) fn thin(points: &[(u64, f64)], most: usize) -> Vec<(u64, f64)> {
    let most = most.max(4);
    if points.len() <= most {
        return points.to_vec();
    }
    let inner = &points[1..points.len() - 1];
    let stretches = (most - 2) / 2;
    let mut kept = vec![points[0]];
    for i in 0..stretches {
        let stretch = &inner[i * inner.len() / stretches..(i + 1) * inner.len() / stretches];
        let place = |better: fn(f64, f64) -> bool| {
            (0..stretch.len()).reduce(|a, b| if better(stretch[b].1, stretch[a].1) { b } else { a })
        };
        let (least, largest) = (place(|b, a| b < a), place(|b, a| b > a));
        if let (Some(least), Some(largest)) = (least, largest) {
            kept.push(stretch[least.min(largest)]);
            if least != largest {
                kept.push(stretch[least.max(largest)]);
            }
        }
    }
    kept.push(points[points.len() - 1]);
    kept
}

/// Means over so many stretches of steps, each at its mean step.
pub(super) fn means(points: &[(u64, f64)], stretches: usize) -> Vec<(f64, f64)> {
    let stretch = |i: usize| &points[i * points.len() / stretches..(i + 1) * points.len() / stretches];
    let mean = |stretch: &[(u64, f64)]| {
        let n = stretch.len() as f64;
        let sums = stretch.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 as f64 / n, y + point.1 / n));
        (!stretch.is_empty()).then_some(sums)
    };
    (0..stretches).filter_map(|i| mean(stretch(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_of_one_step_and_both_ends_stay() {
        let mut points: Vec<(u64, f64)> = (0..10_000).map(|i| (i, (i as f64 / 900.0).sin())).collect();
        points[4321].1 = 50.0;
        points[7777].1 = -50.0;
        for most in [4, 10, 333, 1000] {
            let kept = thin(&points, most);
            assert!(kept.len() <= most && kept.len() > most / 3, "{most}: {}", kept.len());
            assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[9999]));
            assert!(kept.contains(&(4321, 50.0)) && kept.contains(&(7777, -50.0)), "{most}");
        }
        assert_eq!(thin(&points[..7], 7), points[..7]);
        assert_eq!(thin(&[], 5), []);
    }

    #[test]
    fn means_are_of_all_values_of_their_stretch() {
        let points: Vec<(u64, f64)> = (0..100).map(|i| (i, if i % 2 == 0 { 1.0 } else { 3.0 })).collect();
        for ((step, mean), expected) in means(&points, 2).into_iter().zip([24.5, 74.5]) {
            assert!((step - expected).abs() < 1e-9 && (mean - 2.0).abs() < 1e-9, "{step} {mean}");
        }
        assert_eq!(means(&points[..2], 5).len(), 2);
        assert_eq!(means(&[], 3), []);
    }
}
