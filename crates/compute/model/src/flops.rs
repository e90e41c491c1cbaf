//! Counts a model's arithmetic, from the layout alone.

use crate::layout::{BlockLayout, Expert, Layout, Mixer, Shapes};
use isentrope_kernels::Linear;
use std::iter::Sum;
use std::ops::Mul;

/// Tokens that go through a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tokens {
    /// Tokens that go through the blocks.
    pub tokens: f64,
    /// Tokens whose next token is drawn or scored: they also go through the head.
    pub scored: f64,
    /// Keys that the tokens see, summed over the tokens: the mean over layers, since some may have
    /// a window.
    pub visible: f64,
}

/// The window of each layer's attention ([`sliding_window`](crate::ModelConfig::sliding_window)).
type Windows = [Option<usize>];

/// The keys that the first `tokens` of a sequence see: the mean of the layers.
fn seen(windows: &Windows, tokens: f64) -> f64 {
    // Each token sees itself and all before it, up to the width of its window.
    let triangle = |n: f64| n * (n + 1.0) / 2.0;
    let through = |window: &Option<usize>| {
        let window = window.map_or(tokens, |window| tokens.min(window as f64));
        triangle(window) + (tokens - window) * window
    };
    windows.iter().map(through).sum::<f64>() / windows.len() as f64
}

impl Tokens {
    /// Responses of `new` tokens to prompts of `prompt` tokens, `group` to each. A prompt goes
    /// through the model once for its group.
    pub fn of_groups(windows: &Windows, prompts: f64, group: f64, prompt: f64, new: f64) -> Self {
        let (of_prompt, of_all) = (seen(windows, prompt), seen(windows, prompt + new));
        Self {
            tokens: prompts * (prompt + group * new),
            scored: prompts * group * new,
            visible: prompts * (of_prompt + group * (of_all - of_prompt)),
        }
    }

    /// The prompts of [`of_groups`](Self::of_groups) alone, before any token is drawn.
    pub fn of_prefill(windows: &Windows, prompts: f64, prompt: f64) -> Self {
        Self { tokens: prompts * prompt, scored: 0.0, visible: prompts * seen(windows, prompt) }
    }

    /// The responses of [`of_groups`](Self::of_groups) alone. Their first token is drawn from the
    /// prompt's last row, and their last is not fed.
    pub fn of_decoding(windows: &Windows, prompts: f64, group: f64, prompt: f64, new: f64) -> Self {
        let (responses, fed) = (prompts * group, (new - 1.0).max(0.0));
        let visible = seen(windows, prompt + fed) - seen(windows, prompt);
        Self { tokens: responses * fed, scored: responses * new, visible: responses * visible }
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            tokens: a.tokens + b.tokens,
            scored: a.scored + b.scored,
            visible: a.visible + b.visible,
        })
    }
}

impl Mul<f64> for Tokens {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self { tokens: by * self.tokens, scored: by * self.scored, visible: by * self.visible }
    }
}

impl Layout {
    /// Floating-point operations of a forward pass: two per weight of a product, and four per key
    /// and query feature.
    pub fn forward_flops(&self, of: Tokens) -> f64 {
        let weights = |shape: Linear| shape.inputs as f64 * shape.outputs as f64;
        let shapes = &self.shapes;
        let mlp = weights(shapes.gate_up) + weights(shapes.down);
        let shared = self.shared_expert().map_or(0.0, |of| {
            let Expert { gate_up, down } = of.expert();
            weights(of.gate_shape) + weights(gate_up.shape) + weights(down.shape)
        });
        let mlp = shapes.router.map_or(mlp, |router| {
            router.chosen as f64 * mlp + (shapes.hidden * router.experts) as f64 + shared
        });
        let products = |block: &BlockLayout| {
            let delta = match &block.mixer {
                Mixer::Attention(_) => 0.0,
                // A token decays, reads, writes and reads each matrix; half as products count.
                Mixer::Delta(of) => 3.5 * (of.rule.value_heads * of.rule.matrix()) as f64,
            };
            weights(block.qkv.shape) + weights(block.output.shape) + mlp + delta
        };
        let blocks: f64 = self.blocks.iter().map(products).sum();
        let layers = self.attention_layers() as f64;
        let adapters = self.adapter.as_ref().map_or(0.0, |of| of.product_weights(shapes.router));
        let attention = 4.0 * shapes.output.inputs as f64 * of.visible;
        2.0 * ((blocks + adapters) * of.tokens + weights(shapes.vocabulary) * of.scored)
            + layers * attention
    }

    /// Floating-point operations of a backward pass: the gradient by activations and the gradient
    /// by weights take a forward pass each, and frozen weights have none of their own. Experts
    /// compute their first product again, and the router its logits.
    pub fn backward_flops(&self, of: Tokens) -> f64 {
        let passes = if self.adapter.is_some() { 1.0 } else { 2.0 };
        let weights = |shape: Linear| (shape.inputs * shape.outputs) as f64;
        let Shapes { gate_up, hidden, router, .. } = self.shapes;
        let routed = router.map_or(0.0, |router| {
            router.chosen as f64 * weights(gate_up) + (hidden * router.experts) as f64
        });
        let shared = self
            .shared_expert()
            .map_or(0.0, |of| weights(of.gate_shape) + weights(of.expert().gate_up.shape));
        let again = self.blocks.len() as f64 * (routed + shared);
        passes * self.forward_flops(of) + 2.0 * again * of.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{mixture, mixture_with};

    /// A model of 2 blocks with 4 experts, 2 for each token.
    #[test]
    fn experts_compute_their_first_product_again_on_the_way_back() {
        let layout = mixture(2, 4, 8);
        let of = Tokens { tokens: 3.0, scored: 3.0, visible: 6.0 };
        // Each token has two products from 32 to 16 features and four logits, in each block.
        let again = 3.0 * 2.0 * 2.0 * (2.0 * 32.0 * 16.0 + 32.0 * 4.0);
        assert_eq!(layout.backward_flops(of), 2.0 * layout.forward_flops(of) + again);
    }

    /// Every token goes through a shared expert, whatever others it chooses.
    #[test]
    fn a_shared_expert_computes_for_every_token() {
        let of = Tokens { tokens: 3.0, scored: 3.0, visible: 6.0 };
        let [narrow, wide] = [8, 24].map(|size| {
            let layout = mixture_with(serde_json::json!({
                "model_type": "qwen3_5_moe_text", "full_attention_interval": 1,
                "shared_expert_intermediate_size": size
            }));
            (layout.forward_flops(of), layout.backward_flops(of))
        });
        // In each of 2 blocks, 16 more inner features have three numbers for each of 32 features.
        let forward = 2.0 * 3.0 * 2.0 * 3.0 * 16.0 * 32.0;
        assert_eq!(wide.0 - narrow.0, forward);
        // Two of the three are computed again.
        assert_eq!(wide.1 - narrow.1, 2.0 * forward + forward * 2.0 / 3.0);
    }

    #[test]
    fn a_group_shares_its_prompt_and_sees_what_comes_before() {
        let of = Tokens::of_groups(&[None], 2.0, 3.0, 4.0, 5.0);
        // Position i sees i keys: 1 + 2 + 3 + 4 once, and 5 + 6 + 7 + 8 + 9 for each response.
        assert_eq!(
            of,
            Tokens { tokens: 2.0 * 19.0, scored: 30.0, visible: 2.0 * (10.0 + 3.0 * 35.0) }
        );
        // The prompts' keys, and 5 + 6 + 7 + 8 for each response.
        assert_eq!(
            Tokens::of_prefill(&[None], 2.0, 4.0),
            Tokens { tokens: 8.0, scored: 0.0, visible: 20.0 }
        );
        let decoded = Tokens::of_decoding(&[None], 2.0, 3.0, 4.0, 5.0);
        assert_eq!(decoded, Tokens { tokens: 24.0, scored: 30.0, visible: 6.0 * 26.0 });
    }

    /// Counted key by key: a token sees itself and those before it in its layer's window.
    #[test]
    fn a_window_hides_the_keys_before_it() {
        let windows = [None, Some(3), Some(1), Some(100)];
        let visible = |positions: std::ops::Range<usize>| -> f64 {
            let of_layer = |window: Option<usize>| -> usize {
                positions.clone().map(|i| (i + 1).min(window.unwrap_or(i + 1))).sum()
            };
            windows.into_iter().map(of_layer).sum::<usize>() as f64 / 4.0
        };
        for (prompt, new) in [(0, 1), (1, 1), (2, 7), (4, 5), (120, 30)] {
            let (p, n) = (prompt as f64, new as f64);
            assert_eq!(Tokens::of_prefill(&windows, 2.0, p).visible, 2.0 * visible(0..prompt));
            let responses = 3.0 * visible(prompt..prompt + new);
            assert_eq!(
                Tokens::of_groups(&windows, 2.0, 3.0, p, n).visible,
                2.0 * (visible(0..prompt) + responses)
            );
            let decoded = 6.0 * visible(prompt..prompt + new - 1);
            assert_eq!(Tokens::of_decoding(&windows, 2.0, 3.0, p, n).visible, decoded);
        }
    }
}
