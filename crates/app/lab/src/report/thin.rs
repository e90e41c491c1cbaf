//! Reduces long series to fewer points, and keeps every spike.

/// At most `most` points of a series, in order: the first, the last, and the least and the largest
/// of each stretch between.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_of_one_step_and_both_ends_stay() {
        let mut points: Vec<(u64, f64)> =
            (0..10_000).map(|i| (i, (i as f64 / 900.0).sin())).collect();
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
}
