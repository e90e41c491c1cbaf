//! The load-balancing loss and its gradient against transformers' `load_balancing_loss_func`
//! (fixtures/models/make_router_balance.py), at the positions that predict a token from the sixth
//! on of all texts.

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{Derivatives, Gradient, Model, Packed, RouterBalance, Sequence, TapeKind};
use safetensors::SafeTensors;
use std::path::Path;
use std::sync::Arc;

const PROMPT: usize = 5;

fn words(file: &SafeTensors<'_>, name: &str) -> Vec<[u8; 4]> {
    let bytes = file.tensor(name).unwrap().data();
    bytes.chunks_exact(4).map(|bytes| bytes.try_into().unwrap()).collect()
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    words(file, name).into_iter().map(f32::from_le_bytes).collect()
}

#[test]
fn the_loss_and_its_gradient_are_those_of_transformers() {
    for name in ["olmoe", "qwen3-moe", "qwen3.5-moe"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name);
        let model = Model::load(&dir, Arc::new(Cpu::new(Isa::available()[0], 2).unwrap())).unwrap();
        let read = |file: &str| std::fs::read(dir.join(file)).unwrap();
        let (texts, balance) = (read("expected.safetensors"), read("router_balance.safetensors"));
        let [texts, theirs] =
            [&texts, &balance].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
        let tokens: Vec<Vec<u32>> = (0..3)
            .map(|i| words(&texts, &format!("tokens.{i}")))
            .map(|of_text| of_text.into_iter().map(u32::from_le_bytes).collect())
            .collect();
        let sequences: Vec<Sequence<'_>> =
            tokens.iter().map(|tokens| Sequence { tokens, score_from: PROMPT }).collect();
        // Two passes, whose numbers are added.
        let passes: Vec<Packed> = sequences.chunks(2).map(Packed::new).collect();
        let mut balance = RouterBalance::default();
        passes.iter().for_each(|packed| balance.add(&model.router_balance(packed)));
        let loss = f64::from(floats(&theirs, "loss")[0]);
        assert!((balance.loss() - loss).abs() < 1e-6 * loss, "{name}: {} {loss}", balance.loss());
        let slopes = balance.slopes(1.0);
        let mut gradient = Gradient::zeros(&model).unwrap();
        for packed in passes {
            let zeros = vec![0.0; packed.target_count()];
            let (_, tape) = model.forward(packed, 1.0, TapeKind::BlockInputs);
            let derivatives = Derivatives { experts: &slopes, ..Derivatives::of(&zeros, &zeros) };
            model.backward(tape, derivatives, &mut gradient);
        }
        let gradient = gradient.finish(&model);
        let mut compared = 0;
        for (id, parameter, tensor) in model.layout.trained().tensors() {
            let key = format!("grad.{}", tensor.name);
            if theirs.tensor(&key).is_err() {
                continue;
            }
            let theirs = floats(&theirs, &key);
            let ours = gradient.tensor(&*model.backend, id, parameter, tensor);
            let norm = |values: &mut dyn Iterator<Item = f32>| -> f64 {
                values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt()
            };
            let off = norm(&mut ours.iter().zip(&theirs).map(|(a, b)| a - b));
            let size = norm(&mut theirs.iter().copied());
            assert!(off < 1e-4 * size, "{name}: {key} is off by {off} of {size}");
            compared += 1;
        }
        assert_eq!(compared, theirs.len() - 1, "{name}");
    }
}
