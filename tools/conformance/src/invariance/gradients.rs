//! Neither the ends of micro-batches, nor how many go through a layer together, nor the activations
//! kept between forward and backward matter.
//! Sharing a prompt changes only the order of a sum.

use crate::device::Trial;
use crate::models::{
    FAMILIES, Text, adapted, family, gradient_bits, load, load_frozen, sequences, temperature,
    texts, wide_words, write_wide,
};
use crate::properties;
use isentrope_model::{Gradient, TapeKind, units};
use proptest::prelude::*;

properties!(
    micro_batches_change_nothing,
    a_shared_prompt_has_the_gradient_of_all_its_responses,
    micro_batches_of_a_wide_model_change_nothing
);

fn keep() -> impl Strategy<Value = TapeKind> {
    prop_oneof![
        Just(TapeKind::Activations),
        Just(TapeKind::LastBlocks(1)),
        Just(TapeKind::BlockInputs),
        Just(TapeKind::OffloadedBlockInputs)
    ]
}

fn micro_batches_change_nothing(trial: &Trial) {
    proptest!(trial.cases(64), |(
        family in family(),
        texts in texts(trial, 1..8),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), keep()), 0..6),
        last_keep in keep(),
        together in 1..5_usize,
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let mut whole = Gradient::zeros(model).unwrap();
        let all = [(&texts[..], TapeKind::Activations)];
        let expected = gradient_bits(model, &mut whole, &all, 1, temperature);

        let mut ends = vec![0];
        ends.extend(units(&sequences(&texts)).iter().scan(0, |end, unit| {
            *end += unit.sequences;
            Some(*end)
        }));
        let mut cuts: Vec<_> =
            cuts.iter().map(|(at, keep)| (ends[at.index(ends.len())], *keep)).collect();
        cuts.sort_by_key(|&(at, _)| at);
        cuts.push((texts.len(), last_keep));
        let mut from = 0;
        let mut batches = Vec::new();
        for (to, keep) in cuts {
            batches.push((&texts[from..to], keep));
            from = to;
        }
        let mut fresh = Gradient::zeros(model).unwrap();
        prop_assert!(gradient_bits(model, &mut fresh, &batches, 1, temperature) == expected);

        // Again in the same memory, several passes through a layer before any enters the next.
        whole.reset(&*model.backend);
        let again = gradient_bits(model, &mut whole, &batches, together, temperature);
        prop_assert!(again == expected);
    });
}

/// With the prompt repeated for each response the gradient is the same, but for rounding.
fn a_shared_prompt_has_the_gradient_of_all_its_responses(trial: &Trial) {
    let tolerance = trial.tolerance().shared_prompt;
    for family in FAMILIES {
        let model = trial.model(family);
        let prompt: Vec<u32> = (0..21).map(|i| (i * i + 3) % 61).collect();
        let texts: Vec<Text> = [30, 1, 17, 5]
            .iter()
            .map(|&len| {
                let response = (0..len).map(|i| (i * 7 + len) % 61);
                Text {
                    tokens: prompt.iter().copied().chain(response).collect(),
                    score_from: prompt.len(),
                }
            })
            .collect();
        assert_eq!(units(&sequences(&texts)).len(), 1);
        let gradient = |batches: &[(&[Text], TapeKind)]| -> Vec<Vec<f32>> {
            let bits = gradient_bits(model, &mut Gradient::zeros(model).unwrap(), batches, 1, 1.0);
            bits.into_iter()
                .map(|tensor| tensor.into_iter().map(f32::from_bits).collect())
                .collect()
        };
        let one_by_one: Vec<_> =
            texts.chunks(1).map(|text| (text, TapeKind::Activations)).collect();
        let (shared, apart) = (gradient(&[(&texts, TapeKind::Activations)]), gradient(&one_by_one));
        for (shared, apart) in shared.iter().zip(&apart) {
            let size = apart.iter().map(|x| x.abs()).fold(0.0, f32::max);
            let error = shared.iter().zip(apart).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(
                size > 0.0 && f64::from(error) <= tolerance * f64::from(size),
                "{family}: {error} of {size}"
            );
        }
    }
}

/// With more tokens, features and words than the kernels take at a time.
fn micro_batches_of_a_wide_model_change_nothing(trial: &Trial) {
    let dir = tempfile::tempdir().unwrap();
    write_wide(&dir.path().join("wide"));
    let (wide, device) = (dir.path().join("wide"), trial.device());
    let texts: Vec<Text> = [(40, 1), (75, 60), (2, 1), (50, 30)]
        .iter()
        .map(|&(len, score_from)| Text { tokens: wide_words(len as u64, len), score_from })
        .collect();
    let backend = device.backend();
    for model in [load(&wide, backend), adapted(load_frozen(&wide, backend))] {
        let gradient = |batches: &[(&[Text], TapeKind)]| {
            gradient_bits(&model, &mut Gradient::zeros(&model).unwrap(), batches, 1, 1.0)
        };
        let expected = gradient(&[(&texts, TapeKind::Activations)]);
        let one_by_one: Vec<_> =
            texts.chunks(1).map(|text| (text, TapeKind::Activations)).collect();
        assert!(gradient(&one_by_one) == expected);
        assert!(
            gradient(&[(&texts[..2], TapeKind::BlockInputs), (&texts[2..], TapeKind::Activations)])
                == expected
        );
    }
}
