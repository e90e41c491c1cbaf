//! Activations cached by steps equal the activations of a pass over whole sequences.

use crate::device::Trial;
use crate::models::{Text, bits, family, noise, pack, temperature, tokens};
use crate::properties;
use isentrope_model::{
    ActivationCache, Derivatives, Gradient, KvCache, Model, Scores, Step, Tape, TapeKind,
};
use proptest::prelude::*;

properties!(cached_activations_give_the_gradient_of_the_pass);

const SLOTS: usize = 600;

fn cached_activations_give_the_gradient_of_the_pass(trial: &Trial) {
    let responses = prop::collection::vec(tokens(1..25), 1..4);
    proptest!(trial.cases(96), |(
        family in family(),
        groups in prop::collection::vec((tokens(1..40), responses), 1..4),
        chunks in prop::collection::vec(1..20_usize, 1..6),
        order in Just((0..SLOTS as u32).collect::<Vec<_>>()).prop_shuffle(),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let mut activation_cache = scrambled(model, &order);
        let (mut texts, mut slots) = (Vec::new(), Vec::new());
        for (prompt, responses) in &groups {
            let of_prompt = feed(model, &mut activation_cache, prompt, 0, &chunks);
            for response in responses {
                let text = [&prompt[..], response].concat();
                let fed = &text[..text.len() - 1];
                let own = feed(model, &mut activation_cache, fed, prompt.len(), &chunks);
                slots.push([&of_prompt[..], &own].concat());
                texts.push(Text { tokens: text, score_from: prompt.len() });
            }
        }
        let slots: Vec<&[u32]> = slots.iter().map(Vec::as_slice).collect();
        let expected = results(model, model.forward(pack(&texts), temperature, TapeKind::Activations));
        // A pass uses nothing up.
        for _ in 0..2 {
            let mut tape =
                model.tape_from_cache(pack(&texts), temperature, &activation_cache, &slots, None);
            prop_assert!(results(model, (tape.read_scores(model), tape)) == expected);
        }
    });
}

/// An activation cache that hands out its slots in the given order, with rows of other tokens in
/// all of them.
fn scrambled(model: &Model, order: &[u32]) -> ActivationCache {
    let mut activation_cache = ActivationCache::new(model, SLOTS).unwrap();
    let mut from = 0;
    while activation_cache.free_slots() > 0 {
        let rows = activation_cache.free_slots().min(64);
        feed(model, &mut activation_cache, &vec![from % 61; rows], 0, &[rows]);
        from += 7;
    }
    order.iter().for_each(|&slot| activation_cache.release(slot));
    activation_cache
}

/// Feeds tokens in chunks beside another sequence, and caches the activations of those from a
/// position on; returns their slots.
fn feed(
    model: &Model,
    activation_cache: &mut ActivationCache,
    tokens: &[u32],
    from: usize,
    chunks: &[usize],
) -> Vec<u32> {
    let pages = KvCache::pages_for(model, tokens.len());
    let mut cache = KvCache::new(model, pages + 1).unwrap();
    let pages: Vec<u32> = (0..pages).filter_map(|_| cache.take()).collect();
    let other = [cache.take().unwrap()];
    let [own_state, other_state] = [(); 2].map(|()| cache.take_state());
    let mut chunks = chunks.iter().cycle();
    let (mut slots, mut fed) = (Vec::new(), 0);
    while fed < tokens.len() {
        let end = if fed < from { from } else { tokens.len() }.min(fed + chunks.next().unwrap());
        let mut step = Step::default();
        step.push(&[1, 2, 3][..1 + fed % 3], 0, &other, false);
        step.go_on_from_state(other_state);
        step.push(&tokens[fed..end], fed, &pages, false);
        step.go_on_from_state(own_state);
        if fed >= from {
            let own: Vec<u32> = (fed..end).map(|_| activation_cache.take().unwrap()).collect();
            step.cache_activations(&own);
            slots.extend(own);
        }
        model.step(&step, &mut cache, Some(&mut *activation_cache));
        fed = end;
    }
    slots
}

/// The scores, and every tensor of the gradient of `sum(a logprob + b entropy)` with noise for a
/// and b.
fn results(model: &Model, (scores, tape): (Scores, Tape<'_>)) -> Vec<Vec<u32>> {
    let targets = scores.logprobs.len();
    let mut gradient = Gradient::zeros(model).unwrap();
    model.backward(tape, Derivatives::of(&noise(1, targets), &noise(2, targets)), &mut gradient);
    let sum = gradient.finish(model);
    let tensors = model.layout.trained().tensors();
    let tensors = tensors.map(|(id, p, t)| bits(&sum.tensor(&*model.backend, id, p, t)));
    [bits(&scores.logprobs), bits(&scores.entropies)].into_iter().chain(tensors).collect()
}
