//! What a run asks of the vendor's library is what was examined before it began.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

mod watched;

use isentrope_cuda::{Cuda, Dtype, Layer, Product};
use isentrope_cuda_emulator::{Emulator, Settings};
use isentrope_kernels::Kind;
use isentrope_model::{Derivatives, Gradient, Keep, Model, Packed, Sequence};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use watched::{Watch, Watched};

/// A library that computes nothing, and remembers what it is asked for.
#[derive(Default)]
struct Library {
    examined: Mutex<HashSet<Product>>,
    asked: Mutex<HashSet<Product>>,
    /// Whether all has been examined.
    is_known: AtomicBool,
}

/// A product whatever its addresses and its number of tokens.
fn kind(product: &Product) -> Product {
    let plain = Product { a: 0, b: 0, d: 0, ..*product };
    if plain.accumulates { Product { depth: 0, ..plain } } else { Product { rows: 0, ..plain } }
}

impl Watch for Library {
    fn product(&self, product: &Product) -> bool {
        self.asked.lock().unwrap().insert(kind(product));
        false
    }
    fn product_library(&self) -> Option<String> {
        Some("a library".into())
    }
    /// Before the model is loaded; later on it is asked for.
    fn examine(&self, product: &Product) -> Result<(), String> {
        let of = if self.is_known.load(Ordering::Relaxed) { &self.asked } else { &self.examined };
        of.lock().unwrap().insert(kind(product));
        Err("it computes nothing".into())
    }
}

#[test]
fn passes_ask_for_nothing_that_was_not_examined() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/models");
    // Without biases; with sizes that are multiples of 8, so that the library is asked at all.
    for name in ["llama3", "qwen2-untied"] {
        let emulator = Emulator::new(Settings::default());
        let device = Watched { emulator, watch: Library::default() };
        let backend = Arc::new(Cuda::new(Arc::new(device), Dtype::Bf16));
        let model = Model::load(&models.join(name), backend.clone()).unwrap();
        let of_blocks = |tensor: &str| tensor.contains(".layers.") && tensor.ends_with("proj.weight");
        let layers: Vec<Layer> = model
            .layout
            .parameters
            .iter()
            .filter(|parameter| parameter.tensors.iter().any(|tensor| of_blocks(&tensor.name)))
            .filter_map(|parameter| match parameter.kind {
                Kind::Matrix(shape) => Some(Layer { shape, adds: false }),
                Kind::Vector(_) => None,
            })
            .collect();
        assert!(layers.len() >= 8, "{name} has few layers");
        let head =
            isentrope_kernels::Linear { inputs: model.config.hidden_size, outputs: model.config.vocab_size };
        let products = backend.examine_products(&layers, head, 64);
        assert!(products.kinds.iter().all(|kind| kind.why_not.is_some()));
        backend.device().watch.is_known.store(true, Ordering::Relaxed);
        assert!(backend.device().watch.asked.lock().unwrap().is_empty(), "loading asks for no product");

        let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 61).collect();
        let packed = Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]);
        let mut gradient = Gradient::zeros(&model).unwrap();
        let (_, tape) = model.forward(packed, 1.0, Keep::Activations);
        let coefficients = vec![0.5; tokens.len() - 1];
        model.backward(tape, Derivatives::of(&coefficients, &coefficients), &mut gradient);
        let (asked, examined) =
            (&backend.device().watch.asked.lock().unwrap(), &backend.device().watch.examined.lock().unwrap());
        assert!(asked.len() >= 8, "{name}: {} kinds are asked for", asked.len());
        let unknown: Vec<_> = asked.difference(examined).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:#?}");
    }
}
