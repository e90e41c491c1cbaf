//! A model with an adapter is the model whose weights are W + s B A, and the gradients of A and B
//! follow from that of these weights by the chain rule.

use crate::common::{oracle, oracles};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::adapter::{AdapterLayout, Rank};
use isentrope_model::{Derivatives, Gradient, Layout, Model, ModelConfig, Packed};
use isentrope_model::{ParameterList, Parameters, Sequence};
use isentrope_model::{Scores, TapeKind};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

fn load(name: &str) -> Model {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name);
    Model::load(&dir, Arc::new(Cpu::new(Isa::available()[0], 2).unwrap())).unwrap()
}

/// Other ranks and scales for modules that share a product; none for keys and in the last block.
fn rank(module: &str) -> Option<Rank> {
    let (rank, scale) = match module.rsplit('.').next().unwrap() {
        "q_proj" | "qkv_proj" => (3, 2.0),
        "v_proj" => (5, 0.7),
        "o_proj" => (1, 1.3),
        "gate_proj" | "gate_up_proj" | "input_linear" => (4, 0.5),
        "up_proj" => (2, 1.0),
        "down_proj" => (6, 0.9),
        _ => return None,
    };
    (!module.starts_with("model.layers.1.")).then_some(Rank { rank, scale })
}

type Tensors = HashMap<String, (Vec<usize>, Vec<f32>)>;

fn tensors(model: &Model, list: &ParameterList, of: &Parameters) -> Tensors {
    let named = |(id, parameter, tensor)| {
        let tensor: &isentrope_model::NamedTensor = tensor;
        let parameter: &isentrope_model::Parameter = parameter;
        let values = of.tensor(&*model.backend, id, parameter, tensor);
        (tensor.name.clone(), (parameter.shape(tensor), values))
    };
    list.tensors().map(named).collect()
}

/// `a: [n, m]`, `b: [m, k]`, in double precision.
fn product(a: &[f32], b: &[f32], [n, m, k]: [usize; 3]) -> Vec<f64> {
    let at = |i: usize, j: usize| {
        (0..m).map(|l| f64::from(a[i * m + l]) * f64::from(b[l * k + j])).sum()
    };
    (0..n * k).map(|place| at(place / k, place % k)).collect()
}

fn transposed(a: &[f32], [n, m]: [usize; 2]) -> Vec<f32> {
    (0..n * m).map(|place| a[place % n * m + place / n]).collect()
}

fn pass(model: &Model) -> (Scores, Tensors) {
    let tokens: Vec<Vec<u32>> =
        vec![vec![3, 9, 4, 17, 5, 6], vec![3, 9, 4, 2, 11], vec![8, 1, 7, 30]];
    let sequences: Vec<Sequence<'_>> =
        tokens.iter().map(|tokens| Sequence { tokens, score_from: 3 }).collect();
    let packed = Packed::new(&sequences);
    let (scores, tape) = model.forward(packed, 0.8, TapeKind::Activations);
    let targets = scores.logprobs.len();
    let slopes: Vec<f32> = (0..targets).map(|i| 0.5 - 0.2 * i as f32).collect();
    let mut gradient = Gradient::zeros(model).unwrap();
    model.backward(tape, Derivatives::of(&slopes, &vec![0.3; targets]), &mut gradient);
    let list = model.layout.trained();
    let gradient = tensors(model, list, gradient.finish(model));
    (scores, gradient)
}

#[test]
fn an_adapter_is_the_merged_weights() {
    let names = [
        "qwen3",
        "qwen2-tied",
        "phi3",
        "phi4-mini",
        "llama-biases",
        "olmo2",
        "olmo3",
        "smollm3",
        "ministral3",
        "mistral-head-dim",
        "gemma3",
        "granite",
        "granite4",
        "olmoe",
        "qwen3-moe",
        "qwen3.5",
        "qwen3.5-moe",
    ];
    for name in names {
        let plain = load(name);
        let (before, _) = pass(&plain);
        let layout = AdapterLayout::new(&plain.layout, rank).unwrap();
        let mut adapted = load(name).base().with_new_adapter(layout, 7).unwrap();
        let (same, _) = pass(&adapted);
        assert!(before.same_bits(&same), "{name}: a new adapter changes nothing");

        // B becomes random.
        let list = adapted.layout.trained().clone();
        let backend = adapted.backend.clone();
        for (number, (id, parameter, tensor)) in list.tensors().enumerate() {
            if tensor.name.ends_with("lora_B.weight") {
                let len: usize = parameter.shape(tensor).iter().product();
                let value = |i: usize| ((i * 37 + number * 11) % 101) as f32 / 500.0 - 0.1;
                let values: Vec<f32> = (0..len).map(value).collect();
                adapted.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &values);
            }
        }
        let weights = tensors(&adapted, &list, adapted.trained());
        let mut merged = load(name);
        let base_list = merged.layout.parameters.clone();
        for (id, parameter, tensor) in base_list.tensors() {
            let module = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
            let Some(Rank { rank, scale }) = rank(module) else { continue };
            let (_, a) = &weights[&format!("{module}.lora_A.weight")];
            let (_, b) = &weights[&format!("{module}.lora_B.weight")];
            let [rows, columns] = parameter.shape(tensor)[..] else { continue };
            let mut values = merged.weights.tensor(&*backend, id, parameter, tensor);
            for (value, more) in values.iter_mut().zip(product(b, a, [rows, rank, columns])) {
                *value = (f64::from(*value) + f64::from(scale) * more) as f32;
            }
            merged.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &values);
        }
        let (scores, gradient) = pass(&adapted);
        let (expected, of_weights) = pass(&merged);
        assert!(!before.same_bits(&scores), "{name}: the adapter acts");
        for (own, other) in scores.logprobs.iter().zip(&expected.logprobs) {
            assert!((own - other).abs() < 1e-4, "{name}: {own} and {other}");
        }
        let mut compared = 0;
        for (key, (shape, values)) in &gradient {
            let is_a = key.ends_with("lora_A.weight");
            let module = key.rsplit_once(".lora_").unwrap().0;
            let scale = rank(module).unwrap().scale;
            let (of, dw) = &of_weights[&format!("{module}.weight")];
            let expected = if is_a {
                let (of_b, b) = &weights[&format!("{module}.lora_B.weight")];
                product(&transposed(b, [of_b[0], of_b[1]]), dw, [shape[0], of[0], of[1]])
            } else {
                let (of_a, a) = &weights[&format!("{module}.lora_A.weight")];
                product(dw, &transposed(a, [of_a[0], of_a[1]]), [of[0], of[1], shape[1]])
            };
            let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            assert!(largest > 0.0, "{name}: {key}");
            for (own, other) in values.iter().zip(expected) {
                let error = (f64::from(*own) - f64::from(scale) * other).abs();
                assert!(error < 2e-4 * largest.max(1e-3), "{name}: {key}: {own}, {other}");
                compared += 1;
            }
        }
        assert!(compared > 100, "{name}");
        let count = list.tensors().count();
        assert_eq!(gradient.len(), count);
    }
}

#[test]
fn groups_are_blocks_and_the_parameters_around_them() {
    let all = oracles().into_iter().map(|name| ModelConfig::read(&oracle(&name)).unwrap());
    for config in all {
        let layout = Layout::new(&config);
        let adapter = AdapterLayout::new(&layout, rank).unwrap();
        for list in [&layout.parameters, &adapter.parameters] {
            let groups = list.groups();
            assert_eq!(groups.len(), config.layers + 2);
            assert_eq!(groups[0].start, 0);
            assert!(groups.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(groups[config.layers + 1].end, list.len());
            for (group, of) in groups.into_iter().enumerate() {
                let block = format!("model.layers.{}.", group as i64 - 1);
                let is_block = (1..=config.layers).contains(&group);
                for tensor in list[of].iter().flat_map(|parameter| &parameter.tensors) {
                    assert_eq!(tensor.name.starts_with(&block), is_block, "{}", tensor.name);
                    assert_eq!(tensor.name.contains(".layers."), is_block, "{}", tensor.name);
                }
            }
        }
    }
}
