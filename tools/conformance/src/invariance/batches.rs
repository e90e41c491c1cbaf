//! Neither the rest of a batch nor its order matters.

use crate::device::Trial;
use crate::models::{
    FAMILIES, Text, bits, family, gradient_bits, pack, score_bits, score_bits_alone, temperature,
    texts,
};
use crate::properties;
use isentrope_model::{Gradient, TapeKind};
use proptest::prelude::*;

properties!(
    company_changes_nothing,
    company_changes_no_slope,
    order_changes_nothing,
    batches_without_targets_are_nothing,
    a_score_from_zero_means_one
);

fn company_changes_nothing(trial: &Trial) {
    proptest!(trial.cases(96), |(
        family in family(),
        texts in texts(trial, 1..7).prop_shuffle(),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let alone: Vec<_> = texts
            .iter()
            .flat_map(|text| {
                let from = (text.score_from - 1).min(text.tokens.len().saturating_sub(1));
                score_bits_alone(model, &text.tokens, temperature).split_off(from)
            })
            .collect();
        prop_assert_eq!(score_bits(model, &texts, temperature), alone);
    });
}

/// The slope of each target's entropy, in a batch and alone. The scores returned with the slopes
/// equal the scores of `Model::score`.
fn company_changes_no_slope(trial: &Trial) {
    proptest!(trial.cases(24), |(
        family in family(),
        texts in texts(trial, 1..7).prop_shuffle(),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let (scores, slopes) = model.entropy_slopes(&pack(&texts), temperature);
        prop_assert!(scores.same_bits(&model.score(&pack(&texts), temperature)));
        let alone = |text| {
            let (_, slopes) = model.entropy_slopes(&pack(std::slice::from_ref(text)), temperature);
            slopes
        };
        let alone: Vec<f32> = texts.iter().flat_map(alone).collect();
        prop_assert_eq!(bits(&slopes), bits(&alone));
    });
}

/// Batches that differ only in the order of their sequences.
fn order_changes_nothing(trial: &Trial) {
    proptest!(trial.cases(96), |(
        family in family(),
        (texts, order) in texts(trial, 2..7).prop_flat_map(|texts| {
        let order: Vec<usize> = (0..texts.len()).collect();
        (Just(texts), Just(order).prop_shuffle())
        }),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let mut scores = score_bits(model, &texts, temperature).into_iter();
        let by_text: Vec<Vec<_>> =
            texts.iter().map(|text| scores.by_ref().take(text.target_count()).collect()).collect();
        let reordered: Vec<Text> = order.iter().map(|&i| texts[i].clone()).collect();
        let expected: Vec<_> = order.iter().flat_map(|&i| by_text[i].clone()).collect();
        prop_assert_eq!(score_bits(model, &reordered, temperature), expected);
    });
}

fn batches_without_targets_are_nothing(trial: &Trial) {
    let text = |len: u32, score_from| Text { tokens: (0..len).collect(), score_from };
    let batches =
        [vec![], vec![text(0, 1)], vec![text(1, 1)], vec![text(5, 5), text(5, 90), text(0, 7)]];
    for family in FAMILIES {
        let model = trial.model(family);
        for batch in &batches {
            let packed = pack(batch);
            assert_eq!((packed.token_count(), packed.target_count()), (0, 0));
            assert!(score_bits(model, batch, 1.0).is_empty());
            use TapeKind::{Activations, BlockInputs, OffloadedBlockInputs};
            for keep in [Activations, BlockInputs, OffloadedBlockInputs] {
                let mut gradient = Gradient::zeros(model).unwrap();
                let bits = gradient_bits(model, &mut gradient, &[(batch, keep)], 1, 1.0);
                assert!(bits.iter().flatten().all(|&b| b == 0), "{family}");
            }
        }
    }
}

fn a_score_from_zero_means_one(trial: &Trial) {
    let tokens: Vec<u32> = (3..9).collect();
    let model = trial.model("qwen2-tied");
    let from_zero = score_bits(model, &[Text { tokens: tokens.clone(), score_from: 0 }], 1.0);
    assert_eq!(from_zero, score_bits_alone(model, &tokens, 1.0));
}
