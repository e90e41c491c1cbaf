//! The mathematics of every operation in f64 on row-major data, forward and backward, and the proof
//! by finite differences that each backward is the gradient of its forward.

use isentrope_kernels::{AdamW, Attention, Gate};

/// `y = x W^T + b`. `x: [tokens, inputs]`, `w: [outputs, inputs]`.
pub fn linear(x: &[f64], w: &[f64], b: &[f64], inputs: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for x in x.chunks(inputs) {
        for (w, b) in w.chunks(inputs).zip(b) {
            y.push(b + dot(x, w));
        }
    }
    y
}

/// `(dx, dw, db)`.
pub fn linear_backward(
    x: &[f64],
    w: &[f64],
    dy: &[f64],
    inputs: usize,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let outputs = w.len() / inputs;
    let (mut dx, mut dw, mut db) = (vec![0.0; x.len()], vec![0.0; w.len()], vec![0.0; outputs]);
    for ((x, dx), dy) in x.chunks(inputs).zip(dx.chunks_mut(inputs)).zip(dy.chunks(outputs)) {
        for (o, &dy) in dy.iter().enumerate() {
            let row = o * inputs..(o + 1) * inputs;
            db[o] += dy;
            add_scaled(dx, dy, &w[row.clone()]);
            add_scaled(&mut dw[row], dy, x);
        }
    }
    (dx, dw, db)
}

/// One group: `x / sqrt(mean x^2 + eps) * w`.
pub fn rms_norm(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let rms = (dot(x, x) / x.len() as f64 + eps).sqrt();
    x.iter().zip(w).map(|(x, w)| x / rms * w).collect()
}

/// `(dx, dw)` of one group, by the product rule on `x * (1 / rms)`.
pub fn rms_norm_backward(x: &[f64], w: &[f64], eps: f64, dy: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = x.len() as f64;
    let rms = (dot(x, x) / n + eps).sqrt();
    let dw = x.iter().zip(dy).map(|(x, dy)| dy * x / rms).collect();
    // d(1/rms)/dx_i = -x_i / (n rms^3)
    let d_inverse: f64 = x.iter().zip(w).zip(dy).map(|((x, w), dy)| x * w * dy).sum();
    let dx = x
        .iter()
        .zip(w)
        .zip(dy)
        .map(|((x, w), dy)| dy * w / rms - d_inverse * x / (n * rms.powi(3)));
    (dx.collect(), dw)
}

/// Rotates the pairs (x[i], x[i + half]) of one head by `angles[i]`.
pub fn rope(x: &[f64], angles: &[f64]) -> Vec<f64> {
    let half = angles.len();
    let mut y = x.to_vec();
    for (i, angle) in angles.iter().enumerate() {
        let (sin, cos) = angle.sin_cos();
        y[i] = cos * x[i] - sin * x[i + half];
        y[i + half] = sin * x[i] + cos * x[i + half];
    }
    y
}

/// The function of a gate, and its slope.
fn gated(by: Gate, g: f64) -> (f64, f64) {
    match by {
        Gate::Silu => {
            let e = (-g).exp();
            // Quotient rule on g / (1 + e^-g), written so that an infinite e gives the limit.
            let slope =
                if e.is_infinite() { 0.0 } else { (1.0 + e + g * e) / ((1.0 + e) * (1.0 + e)) };
            (g / (1.0 + e), slope)
        }
        Gate::GeluTanh => {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let tanh = (root * (g + 0.044_715 * g.powi(3))).tanh();
            let inner = root * (1.0 + 3.0 * 0.044_715 * g * g);
            (0.5 * g * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * g * (1.0 - tanh * tanh) * inner)
        }
    }
}

/// One row `[gate, up]`.
pub fn glu(by: Gate, gate_up: &[f64]) -> Vec<f64> {
    let (gate, up) = gate_up.split_at(gate_up.len() / 2);
    gate.iter().zip(up).map(|(&g, u)| gated(by, g).0 * u).collect()
}

/// The gradient of one row `[gate, up]`.
pub fn glu_backward(by: Gate, gate_up: &[f64], dy: &[f64]) -> Vec<f64> {
    let (gate, up) = gate_up.split_at(gate_up.len() / 2);
    let d_gate = gate.iter().zip(up).zip(dy).map(|((&g, u), dy)| dy * u * gated(by, g).1);
    let d_up = gate.iter().zip(dy).map(|(&g, dy)| dy * gated(by, g).0);
    d_gate.chain(d_up).collect()
}

/// Where the row of one position holds the query of `head`, its key and its value.
fn parts(shape: Attention, head: usize) -> [usize; 3] {
    let kv_head = head * shape.kv_heads / shape.heads;
    [head, shape.heads + kv_head, shape.heads + shape.kv_heads + kv_head]
        .map(|h| h * shape.head_dim)
}

fn visible(shape: Attention, query: usize, key: usize) -> bool {
    key <= query && shape.window.is_none_or(|w| query - key < w)
}

/// Softmax weights of one query over all positions up to its own.
fn attention_weights(shape: Attention, qkv: &[f64], head: usize, query: usize) -> Vec<f64> {
    let [q, k, _] = parts(shape, head);
    let part = |i: usize, at: usize| &qkv[i * shape.row() + at..][..shape.head_dim];
    let score = |j| f64::from(shape.scale) * dot(part(query, q), part(j, k));
    let z: Vec<f64> = (0..=query)
        .map(|j| if visible(shape, query, j) { score(j) } else { f64::NEG_INFINITY })
        .collect();
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
    z.iter().map(|z| (z - max).exp() / sum).collect()
}

/// A whole sequence. `qkv: [len, heads + 2 kv_heads, head_dim]`, result `[len, heads, head_dim]`.
pub fn attention(shape: Attention, qkv: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for query in 0..qkv.len() / shape.row() {
        for head in 0..shape.heads {
            let mut sum = vec![0.0; shape.head_dim];
            for (key, p) in attention_weights(shape, qkv, head, query).into_iter().enumerate() {
                let value = key * shape.row() + parts(shape, head)[2];
                add_scaled(&mut sum, p, &qkv[value..value + shape.head_dim]);
            }
            out.extend(sum);
        }
    }
    out
}

/// `d_qkv` of a whole sequence.
pub fn attention_backward(shape: Attention, qkv: &[f64], d_out: &[f64]) -> Vec<f64> {
    let dim = shape.head_dim;
    let mut d_qkv = vec![0.0; qkv.len()];
    for query in 0..qkv.len() / shape.row() {
        for head in 0..shape.heads {
            let d_out = &d_out[(query * shape.heads + head) * dim..][..dim];
            let p = attention_weights(shape, qkv, head, query);
            let at = |i: usize, part: usize| {
                let start = i * shape.row() + parts(shape, head)[part];
                start..start + dim
            };
            let d_p: Vec<f64> = (0..p.len()).map(|j| dot(d_out, &qkv[at(j, 2)])).collect();
            let mean = dot(&p, &d_p);
            for j in 0..p.len() {
                let d_score = p[j] * (d_p[j] - mean) * f64::from(shape.scale);
                add_scaled(&mut d_qkv[at(j, 2)], p[j], d_out);
                add_scaled(&mut d_qkv[at(j, 1)], d_score, &qkv[at(query, 0)]);
                add_scaled(&mut d_qkv[at(query, 0)], d_score, &qkv[at(j, 1)]);
            }
        }
    }
    d_qkv
}

/// Natural logarithms of the probabilities of one row of logits.
pub fn log_softmax(logits: &[f64], temperature: f64) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Over all but one maximum, so that a sum barely above 1 keeps its distance from 1.
    let first = logits.iter().position(|&z| z == max);
    let rest: f64 = (0..logits.len())
        .filter(|&i| Some(i) != first)
        .map(|i| ((logits[i] - max) / temperature).exp())
        .sum();
    logits.iter().map(|z| (z - max) / temperature - rest.ln_1p()).collect()
}

/// Entropy in nats from log-probabilities; an impossible token adds nothing.
pub fn entropy(logprobs: &[f64]) -> f64 {
    -logprobs.iter().map(|&l| if l.exp() == 0.0 { 0.0 } else { l.exp() * l }).sum::<f64>()
}

/// Logarithm of the probability of these tokens together. No tokens mean the whole vocabulary.
pub fn log_mass(logprobs: &[f64], kept: &[u32]) -> f64 {
    let of_kept = || kept.iter().map(|&token| logprobs[token as usize]);
    let largest = of_kept().fold(f64::NEG_INFINITY, f64::max);
    if kept.is_empty() {
        0.0
    } else {
        largest + of_kept().map(|l| (l - largest).exp()).sum::<f64>().ln()
    }
}

/// `d(a logprob[target] + b entropy + c log_mass(kept)) / d logits` of one row.
pub fn head_backward(
    logits: &[f64],
    temperature: f64,
    target: usize,
    kept: &[u32],
    [a, b, c]: [f64; 3],
) -> Vec<f64> {
    let logprobs = log_softmax(logits, temperature);
    let entropy = entropy(&logprobs);
    let mass = log_mass(&logprobs, kept);
    let gradient = logprobs.iter().enumerate().map(|(v, &l)| {
        let p = l.exp();
        let of_logprob = if v == target { 1.0 - p } else { -p };
        let of_entropy = if p == 0.0 { 0.0 } else { -p * (l + entropy) };
        let of_mass = match kept {
            [] => 0.0,
            _ if kept.contains(&(v as u32)) => (l - mass).exp() - p,
            _ => -p,
        };
        (a * of_logprob + b * of_entropy + c * of_mass) / temperature
    });
    gradient.collect()
}

/// KL(pi || q) in nats, from log-probs; an impossible token of pi adds nothing.
pub fn divergence(logprobs: &[f64], of_teacher: &[f64]) -> f64 {
    let term = |(&l, &q): (&f64, &f64)| if l.exp() == 0.0 { 0.0 } else { l.exp() * (l - q) };
    logprobs.iter().zip(of_teacher).map(term).sum()
}

/// `d divergence / d logits` of one row, beside a teacher's logits of the same tokens.
pub fn divergence_backward(logits: &[f64], of_teacher: &[f64], temperature: f64) -> Vec<f64> {
    let [own, its] = [logits, of_teacher].map(|logits| log_softmax(logits, temperature));
    let mean = divergence(&own, &its);
    let slope = |(&l, &q): (&f64, &f64)| match l.exp() {
        0.0 => 0.0,
        p => p * (l - q - mean) / temperature,
    };
    own.iter().zip(&its).map(slope).collect()
}

/// The slope of the entropy along the gradient of the target's log-prob among the tokens that are
/// kept, both by logits over temperature.
pub fn entropy_slope(logits: &[f64], temperature: f64, target: usize, kept: &[u32]) -> f64 {
    let gradient = |by| head_backward(logits, temperature, target, kept, by);
    temperature * temperature * dot(&gradient([0.0, 1.0, 0.0]), &gradient([1.0, 0.0, -1.0]))
}

/// One element: weight and both moments after a step.
pub fn adamw(s: AdamW, w: f64, g: f64, first: f64, second: f64) -> [f64; 3] {
    let [rate, beta1, beta2, eps, decay, scale] =
        [s.learning_rate, s.beta1, s.beta2, s.eps, s.weight_decay, f64::from(s.gradient_scale)];
    let g = g * scale;
    let first = beta1 * first + (1.0 - beta1) * g;
    let second = beta2 * second + (1.0 - beta2) * g * g;
    let corrected = |moment: f64, beta: f64| moment / (1.0 - beta.powi(s.step as i32));
    let update = corrected(first, beta1) / (corrected(second, beta2).sqrt() + eps);
    [w - rate * decay * w - rate * update, first, second]
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

pub(crate) mod finite_differences {
    use super::*;
    use crate::data::{noise, wide};
    use crate::device::Trial;
    use crate::properties;

    properties!(
        linear_gradient,
        rms_norm_gradient,
        rope_gradient_turns_back,
        glu_gradient,
        attention_gradient,
        head_gradient,
        divergence_gradient,
        slope_of_the_entropy
    );

    /// Checks that `gradient` is the gradient of `loss` at `x`.
    #[track_caller]
    fn assert_gradient(x: &[f64], gradient: &[f64], loss: impl Fn(&[f64]) -> f64) {
        assert_eq!(x.len(), gradient.len());
        let mut moved = x.to_vec();
        for i in 0..x.len() {
            let step = 1e-5;
            moved[i] = x[i] + step;
            let above = loss(&moved);
            moved[i] = x[i] - step;
            let slope = (above - loss(&moved)) / (2.0 * step);
            moved[i] = x[i];
            assert!(
                (slope - gradient[i]).abs() < 1e-8 * slope.abs().max(1.0),
                "{i}: {} but slope {slope}",
                gradient[i]
            );
        }
    }

    fn data(seed: u64, len: usize) -> Vec<f64> {
        wide(&noise(seed, len))
    }

    fn linear_gradient(_: &Trial) {
        let (x, w, b, dy) = (data(1, 12), data(2, 20), data(3, 5), data(4, 15));
        let (dx, dw, db) = linear_backward(&x, &w, &dy, 4);
        assert_gradient(&x, &dx, |x| dot(&linear(x, &w, &b, 4), &dy));
        assert_gradient(&w, &dw, |w| dot(&linear(&x, w, &b, 4), &dy));
        assert_gradient(&b, &db, |b| dot(&linear(&x, &w, b, 4), &dy));
    }

    fn rms_norm_gradient(_: &Trial) {
        let (x, w, dy) = (data(1, 9), data(2, 9), data(3, 9));
        let (dx, dw) = rms_norm_backward(&x, &w, 0.01, &dy);
        assert_gradient(&x, &dx, |x| dot(&rms_norm(x, &w, 0.01), &dy));
        assert_gradient(&w, &dw, |w| dot(&rms_norm(&x, w, 0.01), &dy));
    }

    fn rope_gradient_turns_back(_: &Trial) {
        let (x, angles, dy) = (data(1, 8), data(2, 4), data(3, 8));
        let back: Vec<f64> = angles.iter().map(|a| -a).collect();
        assert_gradient(&x, &rope(&dy, &back), |x| dot(&rope(x, &angles), &dy));
    }

    fn glu_gradient(_: &Trial) {
        let (x, dy) = (data(1, 14), data(2, 7));
        for by in [Gate::Silu, Gate::GeluTanh] {
            assert_gradient(&x, &glu_backward(by, &x, &dy), |x| dot(&glu(by, x), &dy));
        }
    }

    fn attention_gradient(_: &Trial) {
        for (heads, kv_heads, window) in
            [(2, 2, None), (4, 2, Some(3)), (3, 1, Some(1)), (2, 1, Some(90))]
        {
            let shape = Attention { heads, kv_heads, head_dim: 4, window, scale: 0.5 };
            let (qkv, d_out) = (data(1, 6 * shape.row()), data(2, 6 * heads * 4));
            let gradient = attention_backward(shape, &qkv, &d_out);
            assert_gradient(&qkv, &gradient, |x| dot(&attention(shape, x), &d_out));
        }
    }

    fn head_gradient(_: &Trial) {
        let logits = data(1, 11);
        for (temperature, target, kept, [a, b, c]) in [
            (1.0, 3, &[][..], [1.3, 0.0, 0.0]),
            (0.7, 0, &[], [0.0, -0.8, 0.3]),
            (0.7, 10, &[2, 10], [-0.4, 2.0, 1.1]),
            (1.0, 4, &[0, 4, 7, 9], [0.0, 0.0, -1.0]),
        ] {
            let gradient = head_backward(&logits, temperature, target, kept, [a, b, c]);
            assert_gradient(&logits, &gradient, |z| {
                let logprobs = log_softmax(z, temperature);
                a * logprobs[target] + b * entropy(&logprobs) + c * log_mass(&logprobs, kept)
            });
        }
    }

    fn divergence_gradient(_: &Trial) {
        let [logits, teacher] = [1, 2].map(|seed| data(seed, 11));
        for temperature in [1.0, 0.7] {
            let gradient = divergence_backward(&logits, &teacher, temperature);
            assert_gradient(&logits, &gradient, |z| {
                let [own, its] = [z, &teacher].map(|logits| log_softmax(logits, temperature));
                divergence(&own, &its)
            });
        }
    }

    /// The entropy after a small step along the gradient of a log-prob, and after one against it.
    fn slope_of_the_entropy(_: &Trial) {
        let logits = data(1, 11);
        for temperature in [1.0, 0.7] {
            for (target, kept) in [(3, &[][..]), (0, &[]), (10, &[2, 10]), (4, &[0, 4, 7, 9])] {
                let z: Vec<f64> = logits.iter().map(|z| z / temperature).collect();
                let along = head_backward(&z, 1.0, target, kept, [1.0, 0.0, -1.0]);
                let entropy_at = |step: f64| {
                    let moved: Vec<f64> = z.iter().zip(&along).map(|(z, d)| z + step * d).collect();
                    entropy(&log_softmax(&moved, 1.0))
                };
                let step = 1e-5;
                let want = (entropy_at(step) - entropy_at(-step)) / (2.0 * step);
                let got = entropy_slope(&logits, temperature, target, kept);
                assert!((got - want).abs() < 1e-9, "{got} instead of {want}");
            }
        }
    }
}
