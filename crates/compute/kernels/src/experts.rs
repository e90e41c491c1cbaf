//! Mixtures of experts: the experts that each token goes to, and sums over them.

use crate::erased::{Buffer, DeviceRoutes};
use crate::math::{exp, ln};
use crate::simd::{Kernel, Simd, load, store, vectors};
use crate::threads::{Shared, Workers};
use std::ops::Range;

/// Floats below which a task is not worth its start.
const LEAST: usize = 1 << 13;

/// The choice among a block's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Experts of a block.
    pub experts: usize,
    /// Experts that a token goes to; at most `experts`.
    pub chosen: usize,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalised: bool,
}

/// The choice of experts for some tokens: what the host knows of it, and what the device keeps.
#[derive(Debug)]
pub struct Routing {
    /// The experts of each token.
    pub routes: Routes,
    /// The probability of each expert, `[tokens, experts]`, exact.
    pub probabilities: Buffer,
    /// The entropy of each token's probabilities, `[tokens]`, in nats.
    pub entropies: Vec<f32>,
    /// The routes on the device.
    pub on_device: DeviceRoutes,
}

/// The experts of some tokens, and the tokens of each expert.
#[derive(Clone, Debug, PartialEq)]
pub struct Routes {
    /// The choice that was made.
    pub router: Router,
    /// `[tokens, chosen]`, ascending within a token.
    pub experts: Vec<u32>,
    /// The weight of each expert's output, `[tokens, chosen]`.
    pub weights: Vec<f32>,
    /// All choices, expert after expert, and by ascending tokens for each.
    pub by_expert: Choices,
    /// The first of the choices of each expert, and the end of the last one's: `[experts + 1]`.
    starts: Vec<usize>,
}

/// Choices of an expert by a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// Rows of the tokens.
    pub rows: Vec<u32>,
    /// The weight of each in the expert's output.
    pub weights: Vec<f32>,
    /// The place of each in `[tokens, chosen]`.
    pub places: Vec<u32>,
}

impl Routes {
    /// Groups a choice, `[tokens, chosen]` each, by experts.
    pub fn new(router: Router, experts: Vec<u32>, weights: Vec<f32>) -> Self {
        let mut starts = vec![0; router.experts + 1];
        for &expert in &experts {
            starts[expert as usize + 1] += 1;
        }
        for expert in 0..router.experts {
            starts[expert + 1] += starts[expert];
        }
        let count = experts.len();
        let (mut rows, mut sorted, mut places) = (vec![0; count], vec![0.0; count], vec![0; count]);
        let mut next = starts.clone();
        for (place, (&expert, &weight)) in experts.iter().zip(&weights).enumerate() {
            let to = &mut next[expert as usize];
            rows[*to] = (place / router.chosen) as u32;
            sorted[*to] = weight;
            places[*to] = place as u32;
            *to += 1;
        }
        let by_expert = Choices { rows, weights: sorted, places };
        Self { router, experts, weights, by_expert, starts }
    }

    /// The choices of an expert, a part of [`by_expert`](Self::by_expert).
    pub fn of_expert(&self, expert: usize) -> Range<usize> {
        self.starts[expert]..self.starts[expert + 1]
    }
}

/// Replaces `logits: [tokens, experts]` by their softmax, and chooses the likeliest experts of each
/// token; of equally likely ones those with lower numbers. Returns the entropies of the softmax
/// too, `[tokens]`.
pub(crate) fn route(
    workers: &Workers,
    router: Router,
    logits: &mut [f32],
    tokens: usize,
) -> (Routes, Vec<f32>) {
    let Router { experts, chosen, normalised } = router;
    assert!(0 < chosen && chosen <= experts && logits.len() >= tokens * experts);
    let (mut all, mut all_weights) = (vec![0; tokens * chosen], vec![0.0; tokens * chosen]);
    let mut all_entropies = vec![0.0; tokens];
    let logits = Shared::of(logits);
    let (to, weights) = (Shared::of(&mut all), Shared::of(&mut all_weights));
    let entropies = Shared::of(&mut all_entropies);
    workers.threads.ranges(tokens, 1, LEAST / experts + 1, |range| {
        let mut order: Vec<u32> = Vec::with_capacity(experts);
        for token in range {
            let places = token * chosen..(token + 1) * chosen;
            // SAFETY: rows are disjoint and within the slices, whose lengths are known above.
            let (row, to, weights, entropy) = unsafe {
                let row = logits.slice(token * experts..(token + 1) * experts);
                let entropy = &mut entropies.slice(token..token + 1)[0];
                (row, to.slice(places.clone()), weights.slice(places), entropy)
            };
            // SAFETY: the row is a slice.
            *entropy = unsafe { workers.isa.run(Softmax(row)) };
            order.clear();
            order.extend(0..experts as u32);
            let likelier = |a: &u32, b: &u32| {
                row[*b as usize].total_cmp(&row[*a as usize]).then_with(|| a.cmp(b))
            };
            order.select_nth_unstable_by(chosen - 1, likelier);
            to.copy_from_slice(&order[..chosen]);
            to.sort_unstable();
            for (weight, &expert) in weights.iter_mut().zip(to.iter()) {
                *weight = row[expert as usize];
            }
            if normalised {
                let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
                weights.iter_mut().for_each(|weight| *weight /= sum);
            }
        }
    });
    (Routes::new(router, all, all_weights), all_entropies)
}

/// The gradient of the logits, `[tokens, experts]`, from the softmax that [`route`] left.
/// `d_weights` are the derivatives by the weights of `routes`, `[tokens, chosen]`.
pub(crate) fn route_backward(
    routes: &Routes,
    d_weights: &[f32],
    probabilities: &[f32],
    d_logits: &mut [f32],
) {
    let Router { experts, chosen, normalised } = routes.router;
    let of_tokens = routes.experts.chunks_exact(chosen).zip(routes.weights.chunks_exact(chosen));
    let rows = probabilities.chunks_exact(experts).zip(d_logits.chunks_exact_mut(experts));
    for (((to, weights), d), (row, d_row)) in
        of_tokens.zip(d_weights.chunks_exact(chosen)).zip(rows)
    {
        let mean = weights.iter().zip(d).fold(0.0, |sum, (w, d)| sum + w * d);
        // Divided by their sum, weights are a softmax of the chosen experts alone.
        let others = if normalised { 0.0 } else { mean };
        d_row.iter_mut().zip(row).for_each(|(d, p)| *d = p * -others);
        for ((&expert, w), d) in to.iter().zip(weights).zip(d) {
            d_row[expert as usize] = w * (d - mean);
        }
    }
}

/// Replaces a row by its softmax, and returns the softmax's entropy: ln(sum e^d) - sum(d e^d) / sum
/// e^d, where d is the difference from the largest logit.
struct Softmax<'a>(&'a mut [f32]);

impl Kernel for Softmax<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        let (row, len) = (self.0.as_mut_ptr(), self.0.len());
        let largest = self.0.iter().fold(f32::NEG_INFINITY, |m, &z| if z > m { z } else { m });
        // SAFETY: all vectors lie within the row; the caller vouches for the instruction set.
        unsafe {
            let (mut sums, mut products) = (S::splat(0.0), S::splat(0.0));
            vectors!(len, |i, n| {
                let d = S::sub(load::<S>(row.add(i), n), S::splat(largest));
                store::<S>(row.add(i), exp::<S>(d), n);
                // Lanes beyond the row are zeros.
                let e = load::<S>(row.add(i), n);
                sums = S::add(sums, e);
                products = S::fma(e, d, products);
            });
            let (sum, product) = (S::sum(sums), S::sum(products));
            vectors!(len, |i, n| {
                store::<S>(row.add(i), S::div(load::<S>(row.add(i), n), S::splat(sum)), n);
            });
            ln(sum) - product / sum
        }
    }
}

/// `to[rows[i]] += weights[i] from[i]`, by fused multiply-adds, for ascending `rows`.
pub(crate) fn add_weighted(
    workers: &Workers,
    features: usize,
    from: &[f32],
    rows: &[u32],
    weights: &[f32],
    to: &mut [f32],
) {
    assert!(from.len() >= rows.len() * features && weights.len() == rows.len());
    assert!(rows.is_sorted_by(|a, b| a < b), "rows in order, each once");
    assert!(rows.last().is_none_or(|&row| (row as usize + 1) * features <= to.len()));
    let to = Shared::of(to);
    workers.threads.ranges(rows.len(), 1, LEAST / features + 1, |range| {
        for i in range {
            // SAFETY: each row of `to` is there and occurs once; lengths were checked above.
            unsafe {
                let from = from.as_ptr().add(i * features);
                let to = to.start().add(rows[i] as usize * features);
                workers.isa.run(AddWeighted { features, weight: weights[i], from, to });
            }
        }
    });
}

struct AddWeighted {
    features: usize,
    weight: f32,
    from: *const f32,
    to: *mut f32,
}

impl Kernel for AddWeighted {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `add_weighted` checked the lengths.
        unsafe {
            let weight = S::splat(self.weight);
            vectors!(self.features, |i, n| {
                let sum = load::<S>(self.to.add(i), n);
                let sum = S::fma(weight, load::<S>(self.from.add(i), n), sum);
                store::<S>(self.to.add(i), sum, n);
            });
        }
    }
}

/// Multiplies each row by its weight.
pub(crate) fn weigh(workers: &Workers, features: usize, weights: &[f32], x: &mut [f32]) {
    assert!(x.len() >= weights.len() * features);
    let x = Shared::of(x);
    workers.threads.ranges(weights.len(), 1, LEAST / features + 1, |range: Range<usize>| {
        // SAFETY: rows are disjoint.
        let rows = unsafe { x.slice(range.start * features..range.end * features) };
        for (row, weight) in rows.chunks_exact_mut(features).zip(&weights[range]) {
            row.iter_mut().for_each(|x| *x *= weight);
        }
    });
}

/// `to[places[i]]` becomes the product of row `i` of `a` with that of `b`: 16 partial sums of fused
/// multiply-adds. Places ascend.
pub(crate) fn products(
    workers: &Workers,
    features: usize,
    a: &[f32],
    b: &[f32],
    places: &[u32],
    to: &mut [f32],
) {
    let rows = places.len();
    assert!(a.len() >= rows * features && b.len() >= rows * features);
    assert!(places.is_sorted_by(|a, b| a < b), "places in order, each once");
    assert!(places.last().is_none_or(|&place| (place as usize) < to.len()));
    let to = Shared::of(to);
    workers.threads.ranges(rows, 1, LEAST / features + 1, |range| {
        for i in range {
            let place = places[i] as usize;
            // SAFETY: elements are disjoint, and rows within the slices.
            unsafe {
                let (a, b) = (a.as_ptr().add(i * features), b.as_ptr().add(i * features));
                to.slice(place..place + 1)[0] = workers.isa.run(RowProduct { features, a, b });
            }
        }
    });
}

struct RowProduct {
    features: usize,
    a: *const f32,
    b: *const f32,
}

impl Kernel for RowProduct {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        // SAFETY: `products` checked the lengths.
        unsafe {
            let mut sums = S::splat(0.0);
            vectors!(self.features, |i, n| {
                sums = S::fma(load::<S>(self.a.add(i), n), load::<S>(self.b.add(i), n), sums);
            });
            S::sum(sums)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::threads::Threads;

    fn on_each(mut f: impl FnMut(&Workers)) {
        for isa in Isa::available() {
            for threads in [1, 3] {
                f(&Workers { isa, threads: Threads::new(threads).unwrap() });
            }
        }
    }

    fn logits(tokens: usize, experts: usize) -> Vec<f32> {
        (0..tokens * experts).map(|i| ((i * 37 + i * i * 11) % 101) as f32 / 17.0).collect()
    }

    #[test]
    fn of_equally_likely_experts_the_first_are_chosen() {
        on_each(|workers| {
            for (row, chosen) in [
                ([0.5, 2.0, 2.0, 0.5, 2.0], [1, 2]),
                ([1.0; 5], [0, 1]),
                ([0.0, 0.0, 0.0, 1.0, 0.0], [0, 3]),
                ([f32::NAN; 5], [0, 1]),
            ] {
                let router = Router { experts: 5, chosen: 2, normalised: false };
                let (routes, _) = route(workers, router, &mut row.clone(), 1);
                assert_eq!(routes.experts, chosen, "{row:?}");
            }
        });
    }

    #[test]
    fn weights_are_those_of_f64_and_bits_are_those_of_a_token_alone() {
        let mut first: Option<Routes> = None;
        on_each(|workers| {
            for normalised in [false, true] {
                let router = Router { experts: 19, chosen: 4, normalised };
                let logits = logits(50, 19);
                let (routes, entropies) = route(workers, router, &mut logits.clone(), 50);
                for (t, z) in logits.chunks_exact(19).enumerate() {
                    let (alone, entropy) = route(workers, router, &mut z.to_vec(), 1);
                    let of = 4 * t..4 * t + 4;
                    assert_eq!(alone.experts, routes.experts[of.clone()]);
                    assert_eq!(alone.weights, routes.weights[of.clone()]);
                    assert_eq!(entropy, entropies[t..t + 1]);
                    let exact: Vec<f64> = z.iter().map(|&z| f64::from(z).exp()).collect();
                    let all: f64 = exact.iter().sum();
                    let in_f64: f64 = exact.iter().map(|e| -e / all * (e / all).ln()).sum();
                    assert!((f64::from(entropy[0]) - in_f64).abs() < 1e-6);
                    let chosen: Vec<usize> =
                        alone.experts.iter().map(|&expert| expert as usize).collect();
                    let sum: f64 = if normalised {
                        chosen.iter().map(|&expert| exact[expert]).sum()
                    } else {
                        exact.iter().sum()
                    };
                    for (&expert, &weight) in chosen.iter().zip(&alone.weights) {
                        assert!((f64::from(weight) * sum / exact[expert] - 1.0).abs() < 1e-6);
                    }
                    let least = chosen.iter().map(|&expert| z[expert]).fold(f32::MAX, f32::min);
                    let others = (0..19).filter(|expert| !chosen.contains(expert));
                    assert!(others.into_iter().all(|expert| z[expert] <= least));
                }
                if normalised {
                    let bits = first.get_or_insert_with(|| routes.clone());
                    assert_eq!(*bits, routes, "threads and instruction sets");
                }
            }
        });
    }

    #[test]
    fn choices_are_grouped_by_experts_in_the_order_of_tokens() {
        let router = Router { experts: 4, chosen: 2, normalised: false };
        let routes =
            Routes::new(router, vec![1, 3, 0, 1, 1, 3], vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        let of = |expert| {
            let range = routes.of_expert(expert);
            let Choices { rows, weights, places } = &routes.by_expert;
            (&rows[range.clone()], &weights[range.clone()], &places[range])
        };
        assert_eq!(of(0), (&[1][..], &[0.3][..], &[2][..]));
        assert_eq!(of(1), (&[0, 1, 2][..], &[0.1, 0.4, 0.5][..], &[0, 3, 4][..]));
        assert_eq!(of(2), (&[][..], &[][..], &[][..]));
        assert_eq!(of(3), (&[0, 2][..], &[0.2, 0.6][..], &[1, 5][..]));
    }

    /// The loss is a sum of the weights with these coefficients.
    fn loss(router: Router, z: &[f64], chosen: &[u32], coefficients: &[f32]) -> f64 {
        let exp = |expert: u32| z[expert as usize].exp();
        let sum: f64 = if router.normalised {
            chosen.iter().map(|&expert| exp(expert)).sum()
        } else {
            z.iter().map(|z| z.exp()).sum()
        };
        let terms = chosen.iter().zip(coefficients);
        terms.map(|(&expert, &c)| f64::from(c) * exp(expert) / sum).sum()
    }

    #[test]
    fn gradients_are_slopes() {
        let workers = Workers { isa: Isa::available()[0], threads: Threads::new(1).unwrap() };
        for normalised in [false, true] {
            let router = Router { experts: 7, chosen: 3, normalised };
            let z = logits(1, 7);
            let (mut softmax, mut gradient) = (z.clone(), z.clone());
            let (routes, _) = route(&workers, router, &mut softmax, 1);
            let coefficients = [0.7, -1.3, 0.4];
            route_backward(&routes, &coefficients, &softmax, &mut gradient);
            for (i, &ours) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut z: Vec<f64> = z.iter().map(|&z| f64::from(z)).collect();
                    z[i] += by;
                    loss(router, &z, &routes.experts, &coefficients)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slope - f64::from(ours)).abs() < 1e-6, "{normalised} {i}");
            }
        }
    }

    #[test]
    fn rows_are_weighed_and_added_by_fused_multiply_adds() {
        let (features, rows) = (21, [1, 4, 5]);
        let weights = [0.3, -0.7, 1.1];
        let from: Vec<f32> = logits(3, features);
        let before: Vec<f32> = logits(6, features).iter().map(|x| x - 2.0).collect();
        on_each(|workers| {
            let mut to = before.clone();
            add_weighted(workers, features, &from, &rows, &weights, &mut to);
            let mut weighed = from.clone();
            weigh(workers, features, &weights, &mut weighed);
            let mut expected = before.clone();
            for (i, &row) in rows.iter().enumerate() {
                for j in 0..features {
                    let (x, sum) =
                        (from[i * features + j], &mut expected[row as usize * features + j]);
                    *sum = weights[i].mul_add(x, *sum);
                    assert_eq!(weighed[i * features + j], weights[i] * x);
                }
            }
            assert_eq!(to, expected);
            let mut placed = [7.0; 5];
            products(workers, features, &from, &before, &[0, 2, 3], &mut placed);
            assert_eq!((placed[1], placed[4]), (7.0, 7.0));
            for (i, product) in [placed[0], placed[2], placed[3]].into_iter().enumerate() {
                let row = i * features..(i + 1) * features;
                let pairs = from[row.clone()].iter().zip(&before[row]);
                let exact: f64 = pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                assert!((f64::from(product) - exact).abs() < 1e-4);
            }
        });
    }
}
