//! A run asks the vendor's library only for products that were examined before it began.

use crate::support::{bits, load};
use crate::watched::{Watch, Watched};
use isentrope_conformance::adapted;
use isentrope_cuda::{Argument, Cuda, Device, Dtype, FUNCTIONS, Grid, Layer, Product};
use isentrope_cuda_emulator::Emulator;
use isentrope_kernels::{Backend, Kind};
use isentrope_model::{Derivatives, Gradient, Model, Packed, Sequence, TapeKind};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A library that computes nothing, and remembers its requests.
#[derive(Default)]
struct Library {
    examined: Mutex<HashSet<Product>>,
    asked: Mutex<HashSet<Product>>,
    /// Whether everything was examined.
    is_known: AtomicBool,
}

/// A product without its addresses and its number of tokens.
fn kind(product: &Product) -> Product {
    let plain = Product { a: 0, b: 0, d: 0, ..*product };
    if plain.a_transposed { Product { depth: 0, ..plain } } else { Product { rows: 0, ..plain } }
}

impl Watch for Library {
    fn product(&self, _: &Emulator, product: &Product) -> bool {
        self.asked.lock().unwrap().insert(kind(product));
        false
    }
    fn product_library(&self) -> Option<String> {
        Some("a library".into())
    }
    /// Called before the model is loaded; later calls ask for the product.
    fn examine(&self, product: &Product) -> Result<(), String> {
        let of = if self.is_known.load(Ordering::Relaxed) { &self.asked } else { &self.examined };
        of.lock().unwrap().insert(kind(product));
        Err("it computes nothing".into())
    }
}

/// A forward and a backward pass over a sequence; returns the bits of its log-probs.
fn pass(model: &Model, length: u32, gradient: &mut Gradient) -> Vec<u32> {
    let tokens: Vec<u32> = (0..length).map(|i| i * 7 % 61).collect();
    let packed = Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]);
    let (scores, tape) = model.forward(packed, 1.0, TapeKind::BlockInputs);
    let coefficients = vec![0.5; tokens.len() - 1];
    model.backward(tape, Derivatives::of(&coefficients, &coefficients), gradient);
    bits(&scores.logprobs)
}

/// A library that claims to compute all products. It leaves them to the kernels, but sets the
/// result's memory to zero first: a sum that should have continued from there would have other
/// bits.
#[derive(Default)]
pub struct Able {
    /// Products whose result is not rounded: of layers that add to a residual, logits, and parts of
    /// gradients.
    exact: AtomicUsize,
    /// Gradients of weights.
    begun: AtomicUsize,
}

impl Watch for Able {
    fn product(&self, emulator: &Emulator, product: &Product) -> bool {
        self.exact.fetch_add(usize::from(product.d_exact), Ordering::Relaxed);
        if product.a_transposed {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let words = product.rows * product.columns;
            let fill = FUNCTIONS.iter().find(|function| function.name == "fill_words").unwrap();
            let arguments =
                [Argument::Pointer(product.d), Argument::U64(words as u64), Argument::U32(0)];
            emulator.launch(fill, Grid::line(words.div_ceil(1024), 256), &arguments);
        }
        false
    }
    fn product_library(&self) -> Option<String> {
        Some("a library".into())
    }
    fn examine(&self, _: &Product) -> Result<(), String> {
        Ok(())
    }
}

/// Models whose sizes are multiples of 8, because the library takes no others, and whether each has
/// an adapter.
const MODELS: [(&str, bool); 4] =
    [("llama3", false), ("qwen2-untied", false), ("llama3", true), ("qwen3-moe", false)];

/// Additions to unrounded sums, and gradients that begin and then continue, have the bits of the
/// kernels alone.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn with_a_library_bits_are_the_same() {
    struct Without;
    impl Watch for Without {}
    fn passes<W: Watch>(
        name: &str,
        is_adapted: bool,
        watch: W,
    ) -> (Vec<Vec<u32>>, Arc<Watched<W>>) {
        let device = Watched::new(watch);
        let backend = Arc::new(Cuda::new(device.clone(), Dtype::Bf16));
        let model = load(backend.clone(), name);
        let model = if is_adapted { adapted(model) } else { model };
        let mut gradient = Gradient::zeros(&model).unwrap();
        let mut all = Vec::new();
        // Twice over, as updates are; lengths that end within a block of 16 tokens and at the end
        // of one.
        for lengths in [&[21, 40, 9][..], &[33, 5]] {
            all.extend(lengths.iter().map(|&length| pass(&model, length, &mut gradient)));
            for (parameter, buffer) in
                model.layout.trained().iter().zip(gradient.finish(&model).buffers())
            {
                let rows = match parameter.kind {
                    Kind::Vector(numbers) => numbers,
                    Kind::Matrix(shape) => shape.outputs,
                };
                let mut numbers = vec![0.0_f32; rows * parameter.kind.row()];
                backend.unpack(parameter.kind, 0, buffer, &mut numbers);
                all.push(bits(&numbers));
            }
            gradient.reset(&*backend);
        }
        (all, device)
    }
    for (name, is_adapted) in MODELS {
        let (expected, _) = passes(name, is_adapted, Without);
        let (bits, device) = passes(name, is_adapted, Able::default());
        assert!(bits == expected, "{name}");
        let watch = &device.watch;
        let [exact, begun] =
            [&watch.exact, &watch.begun].map(|count| count.load(Ordering::Relaxed));
        assert!(begun >= 8 && exact > 2 * begun, "{name}: {exact} and {begun}");
    }
}

#[test]
fn passes_ask_for_nothing_that_was_not_examined() {
    for (name, is_adapted) in MODELS {
        let device = Watched::new(Library::default());
        let backend = Arc::new(Cuda::new(device.clone(), Dtype::Bf16));
        let model = load(backend.clone(), name);
        let model = if is_adapted { adapted(model) } else { model };
        let of_blocks = model.layout.linear_layers();
        let outputs: HashSet<(usize, usize)> =
            of_blocks.iter().map(|(shape, _)| (shape.inputs, shape.outputs)).collect();
        let of_adapters = model.layout.adapter_layers().map(|(shape, _)| (shape, None));
        let layers: Vec<Layer> = of_blocks
            .into_iter()
            .map(|(shape, adds)| (shape, Some(adds)))
            .chain(of_adapters)
            .map(|(shape, adds)| Layer { shape, adds })
            .collect();
        let head = isentrope_kernels::Linear {
            inputs: model.config.hidden_size,
            outputs: model.config.vocab_size,
        };
        let products = backend.examine_products(&layers, head, 64);
        assert!(products.kinds.iter().all(|kind| kind.why_not.is_some()));
        let forward = products.kinds.iter().filter(|kind| kind.what.starts_with("outputs of"));
        assert_eq!(forward.count(), outputs.len(), "{name}: no library computes adapters' outputs");
        device.watch.is_known.store(true, Ordering::Relaxed);
        assert!(device.watch.asked.lock().unwrap().is_empty(), "loading asks for no product");

        let mut gradient = Gradient::zeros(&model).unwrap();
        pass(&model, 40, &mut gradient);
        let (asked, examined) =
            (&device.watch.asked.lock().unwrap(), &device.watch.examined.lock().unwrap());
        assert!(asked.len() >= 6, "{name}: {} kinds are asked for", asked.len());
        let unknown: Vec<_> = asked.difference(examined).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:#?}");
    }
}
