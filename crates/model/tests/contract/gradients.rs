//! Where micro-batches end, and what is kept between forward and backward, does not matter.

use crate::inputs::{
    Text, WIDE_VOCABULARY, family, gradient_bits, model, noise, temperature, texts, write_wide,
};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{Gradient, Keep, Model};
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
        let mut whole = Gradient::zeros(model);
        let expected = gradient_bits(model, &mut whole, &[(&texts, Keep::Activations)], temperature);

        let mut cuts: Vec<_> = cuts.iter().map(|(at, keep)| (at.index(texts.len() + 1), *keep)).collect();
        cuts.sort_by_key(|&(at, _)| at);
        cuts.push((texts.len(), last_keep));
        let mut from = 0;
        let mut batches = Vec::new();
        for (to, keep) in cuts {
            batches.push((&texts[from..to], keep));
            from = to;
        }
        prop_assert!(gradient_bits(model, &mut Gradient::zeros(model), &batches, temperature) == expected);

        // The same memory again.
        whole.reset(&model.backend);
        prop_assert!(gradient_bits(model, &mut whole, &batches, temperature) == expected);
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
    let gradient =
        |batches: &[(&[Text], Keep)]| gradient_bits(&model, &mut Gradient::zeros(&model), batches, 1.0);
    let expected = gradient(&[(&texts, Keep::Activations)]);
    let one_by_one: Vec<_> = texts.chunks(1).map(|text| (text, Keep::Activations)).collect();
    assert!(gradient(&one_by_one) == expected);
    assert!(gradient(&[(&texts[..2], Keep::BlockInputs), (&texts[2..], Keep::Activations)]) == expected);
}
