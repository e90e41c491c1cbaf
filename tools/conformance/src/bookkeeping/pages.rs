//! Pages and slots are taken, shared and released without one being lost or given out twice.

use crate::device::Trial;
use crate::properties;
use isentrope_kernels::{Attention, Role};
use isentrope_model::{ActivationCache, KvCache};
use proptest::prelude::*;
use std::collections::BTreeMap;

properties!(
    every_page_is_free_or_held,
    sizes_of_pages,
    a_cache_beyond_all_memory_is_refused_with_a_sentence,
    slots_are_taken_once_until_they_are_freed
);

#[derive(Clone, Debug)]
enum Action {
    Take,
    Share(prop::sample::Index),
    Release(prop::sample::Index),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Take),
        any::<prop::sample::Index>().prop_map(Action::Share),
        any::<prop::sample::Index>().prop_map(Action::Release),
    ]
}

fn every_page_is_free_or_held(trial: &Trial) {
    let actions = prop::collection::vec(action(), 0..60);
    proptest!(trial.cases(256), |(pages in 0..6_usize, actions in actions)| {
        let mut cache = KvCache::new(trial.model("qwen3"), pages).unwrap();
        let mut holders: BTreeMap<u32, usize> = BTreeMap::new();
        for action in actions {
            let pick = |index: prop::sample::Index| {
                holders.keys().nth(index.index(holders.len())).copied()
            };
            match action {
                Action::Take => match cache.take() {
                    Some(page) => {
                        prop_assert!((page as usize) < pages);
                        prop_assert_eq!(holders.insert(page, 1), None);
                    }
                    None => prop_assert_eq!(holders.len(), pages),
                },
                Action::Share(_) | Action::Release(_) if holders.is_empty() => {}
                Action::Share(index) => {
                    let page = pick(index).unwrap();
                    cache.share(page);
                    *holders.get_mut(&page).unwrap() += 1;
                }
                Action::Release(index) => {
                    let page = pick(index).unwrap();
                    cache.release(page);
                    *holders.get_mut(&page).unwrap() -= 1;
                    holders.retain(|_, count| *count > 0);
                }
            }
            prop_assert_eq!(cache.free_pages(), pages - holders.len());
        }
    });
}

fn sizes_of_pages(trial: &Trial) {
    let page = trial.page();
    let counts = [0, 1, page - 1, page, page + 1, 10 * page]
        .map(|positions| KvCache::pages_for(trial.model("qwen3"), positions));
    assert_eq!(counts, [0, 1, 1, 1, 2, 10]);
    // Two layers of two heads, with a key and a value of 16 numbers per position.
    let shape = Attention { heads: 4, kv_heads: 2, head_dim: 16, window: None, scale: 0.25 };
    let bytes = trial.device().bytes(Role::Cache { shape, layers: 2, pages: 1 });
    assert_eq!(KvCache::page_bytes(trial.model("qwen3")), bytes);
}

fn a_cache_beyond_all_memory_is_refused_with_a_sentence(trial: &Trial) {
    for pages in [1 << 45, usize::MAX] {
        let refused = KvCache::new(trial.model("qwen3"), pages).err().unwrap().to_string();
        assert!(
            refused.starts_with("cannot allocate ") && refused.contains(" MiB of memory: "),
            "{refused}"
        );
    }
}

fn slots_are_taken_once_until_they_are_freed(trial: &Trial) {
    let mut activation_cache = ActivationCache::new(trial.model("qwen3"), 3).unwrap();
    let mut taken: Vec<u32> = std::iter::from_fn(|| activation_cache.take()).collect();
    taken.sort_unstable();
    assert_eq!((taken, activation_cache.free_slots()), (vec![0, 1, 2], 0));
    activation_cache.release(1);
    assert_eq!((activation_cache.take(), activation_cache.take()), (Some(1), None));
    activation_cache.clear();
    assert_eq!(activation_cache.free_slots(), 3);
}
