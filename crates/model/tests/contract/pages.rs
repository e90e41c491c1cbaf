//! Pages are taken, shared and released without one being lost or given out twice.

use crate::inputs::model;
use isentrope_kernels::{Backend, Cpu};
use isentrope_model::KvCache;
use proptest::prelude::*;
use std::collections::BTreeMap;

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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_free_or_held(pages in 0..6_usize, actions in prop::collection::vec(action(), 0..60)) {
        let mut cache = KvCache::new(model("qwen3"), pages).unwrap();
        let mut holders: BTreeMap<u32, usize> = BTreeMap::new();
        for action in actions {
            let pick = |index: prop::sample::Index| holders.keys().nth(index.index(holders.len())).copied();
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
    }
}

#[test]
fn sizes() {
    const PAGE: usize = Cpu::PAGE;
    let counts = [0, 1, PAGE - 1, PAGE, PAGE + 1, 10 * PAGE].map(KvCache::<Cpu>::pages_for);
    assert_eq!(counts, [0, 1, 1, 1, 2, 10]);
    // Two layers of two heads, with a key and a value of 16 floats per position.
    assert_eq!(KvCache::page_bytes(model("qwen3")), 2 * 2 * PAGE * (16 + 16) * 4);
}
