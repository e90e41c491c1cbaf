//! Where micro-batches end, and what is kept between forward and backward, does not matter; sharing a prompt changes the
//! order of a sum and nothing else.

use crate::inputs::{
    FAMILIES, Text, WIDE_VOCABULARY, family, gradient_bits, model, noise, sequences, temperature, texts,
    write_wide,
};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{Gradient, Keep, Model, units};
use proptest::prelude::*;
use std::sync::Arc;

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![Just(Keep::Activations), Just(Keep::BlockInputs)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn micro_batches_change_nothing(
        family in family(),
        texts in texts(1..8),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), keep()), 0..6),
        last_keep in keep(),
        temperature in temperature(),
    ) {
        let model = model(family);
        let mut whole = Gradient::zeros(model).unwrap();
        let expected = gradient_bits(model, &mut whole, &[(&texts, Keep::Activations)], temperature);

        let mut ends = vec![0];
        ends.extend(units(&sequences(&texts)).iter().scan(0, |end, unit| {
            *end += unit.sequences;
            Some(*end)
        }));
        let mut cuts: Vec<_> = cuts.iter().map(|(at, keep)| (ends[at.index(ends.len())], *keep)).collect();
        cuts.sort_by_key(|&(at, _)| at);
        cuts.push((texts.len(), last_keep));
        let mut from = 0;
        let mut batches = Vec::new();
        for (to, keep) in cuts {
            batches.push((&texts[from..to], keep));
            from = to;
        }
        prop_assert!(gradient_bits(model, &mut Gradient::zeros(model).unwrap(), &batches, temperature) == expected);

        // The same memory again.
        whole.reset(&model.backend);
        prop_assert!(gradient_bits(model, &mut whole, &batches, temperature) == expected);
    }
}

/// Of a prompt in full with each response, the gradient is the same but for rounding.
#[test]
fn a_shared_prompt_has_the_gradient_of_all_its_responses() {
    for family in FAMILIES {
        let model = model(family);
        let prompt: Vec<u32> = (0..21).map(|i| (i * i + 3) % 61).collect();
        let texts: Vec<Text> = [30, 1, 17, 5]
            .iter()
            .map(|&len| {
                let response = (0..len).map(|i| (i * 7 + len) % 61);
                Text { tokens: prompt.iter().copied().chain(response).collect(), score_from: prompt.len() }
            })
            .collect();
        assert_eq!(units(&sequences(&texts)).len(), 1);
        let gradient = |batches: &[(&[Text], Keep)]| -> Vec<Vec<f32>> {
            let bits = gradient_bits(model, &mut Gradient::zeros(model).unwrap(), batches, 1.0);
            bits.into_iter().map(|tensor| tensor.into_iter().map(f32::from_bits).collect()).collect()
        };
        let one_by_one: Vec<_> = texts.chunks(1).map(|text| (text, Keep::Activations)).collect();
        let (shared, apart) = (gradient(&[(&texts, Keep::Activations)]), gradient(&one_by_one));
        for (shared, apart) in shared.iter().zip(&apart) {
            let size = apart.iter().map(|x| x.abs()).fold(0.0, f32::max);
            let error = shared.iter().zip(apart).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(size > 0.0 && error <= 1e-5 * size, "{family}: {error} of {size}");
        }
    }
}

/// With more tokens, features and words than the kernels take at a time.
#[test]
fn micro_batches_of_a_wide_model_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_wide(&dir.path().join("wide"));
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
    let model = Model::load(&dir.path().join("wide"), cpu).unwrap();
    let texts: Vec<Text> = [(70, 1), (150, 60), (2, 1), (110, 30)]
        .iter()
        .map(|&(len, score_from)| {
            let word = |x: &f32| ((x + 1.0) / 2.0 * WIDE_VOCABULARY as f32) as u32;
            Text { tokens: noise(len as u64, len).iter().map(word).collect(), score_from }
        })
        .collect();
    let gradient = |batches: &[(&[Text], Keep)]| {
        gradient_bits(&model, &mut Gradient::zeros(&model).unwrap(), batches, 1.0)
    };
    let expected = gradient(&[(&texts, Keep::Activations)]);
    let one_by_one: Vec<_> = texts.chunks(1).map(|text| (text, Keep::Activations)).collect();
    assert!(gradient(&one_by_one) == expected);
    assert!(gradient(&[(&texts[..2], Keep::BlockInputs), (&texts[2..], Keep::Activations)]) == expected);
}
