//! Directories of adapters that peft has written, read, written again, merged and damaged.

use crate::common::{bits, oracle};
use isentrope_kernels::{Cpu, Isa, Role};
use isentrope_model::adapter::{
    AdapterConfig, BaseModel, Targets, merge, other_companions, write_adapter_files,
};
use isentrope_model::checkpoint::{Fingerprint, WeightDtype, WriteOptions, Writer};
use isentrope_model::{Error, Layout, Model, ModelConfig, Packed, Result, Scores, Sequence};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const ADAPTERS: [&str; 9] = [
    "qwen3-moe-experts",
    "qwen3.5-moe-shared",
    "llama-patterns",
    "mistral-rslora",
    "phi3-all-linear",
    "qwen2-all-linear",
    "qwen2-layers",
    "qwen2-pissa",
    "qwen3-qv",
];
const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const Q_OF_LAYER_0: &str = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

fn adapter(name: &str) -> PathBuf {
    oracle("adapters").join(name)
}

fn base_of(dir: &Path) -> PathBuf {
    AdapterConfig::read(dir).unwrap().find_base(dir).unwrap()
}

fn cpu() -> Arc<Cpu> {
    Arc::new(Cpu::new(Isa::available()[0], 1).unwrap())
}

fn load(dir: &Path, base: &Path) -> Result<Model> {
    Model::load_adapter(dir, &AdapterConfig::read(dir)?, base, cpu(), Role::Weight)
}

fn scores(model: &Model) -> Scores {
    let tokens: Vec<u32> = (0..24).map(|i| (i * 17 + 5) % 61).collect();
    model.score(&Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]), 1.0)
}

fn options(dtype: WeightDtype, carry_from: Option<&Path>) -> WriteOptions<'_> {
    WriteOptions { dtype, max_shard_bytes: u64::MAX, carry_from, writer: Writer::ALONE }
}

/// A copy of an adapter's directory, and its base.
fn copy_of(name: &str) -> (TempDir, PathBuf) {
    let copy = tempfile::tempdir().unwrap();
    for file in [CONFIG, WEIGHTS] {
        fs::copy(adapter(name).join(file), copy.path().join(file)).unwrap();
    }
    (copy, base_of(&adapter(name)))
}

fn edit(dir: &Path, edits: &Value) {
    let path = dir.join(CONFIG);
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value) in edits.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn written_adapters_load_with_the_same_bits() {
    for name in ADAPTERS {
        let (dir, base) = (adapter(name), base_of(&adapter(name)));
        let mut config = AdapterConfig::read(&dir).unwrap();
        let fingerprint = Some(Fingerprint::of(&base).unwrap());
        let path = base.display().to_string();
        config.base = Some(BaseModel { path, revision: None, fingerprint });
        let model = load(&dir, &base).unwrap();
        let out = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let written = out.each_ref().map(|out| {
            let options = options(WeightDtype::F32, Some(&base));
            let files = write_adapter_files(out.path(), &model, &config, options).unwrap();
            let content = |file: &PathBuf| (file.file_name().unwrap().to_owned(), fs::read(file));
            files.iter().map(content).map(|(name, bytes)| (name, bytes.unwrap())).collect()
        });
        let [first, second]: [BTreeMap<_, _>; 2] = written;
        assert!(first == second, "{name}: other bytes");
        let names: Vec<_> = first.keys().map(|name| name.to_str().unwrap()).collect();
        let companion = "generation_config.json";
        let of_base = base.join(companion).exists().then_some(companion);
        let expected = [CONFIG, WEIGHTS, "base_fingerprint.json"].into_iter().chain(of_base);
        assert_eq!(names, expected.collect::<Vec<_>>());
        assert_eq!(other_companions(out[0].path(), &base).unwrap(), Vec::<&str>::new());

        let again = load(out[0].path(), &base_of(out[0].path())).unwrap();
        assert!(scores(&model).same_bits(&scores(&again)), "{name}");
        let read = AdapterConfig::read(out[0].path()).unwrap();
        assert_eq!(
            (read.rank, read.alpha, read.use_rslora),
            (config.rank, config.alpha, config.use_rslora)
        );
        assert_eq!((&read.targets, &read.base), (&config.targets, &config.base));
        // Every other writer leaves the files to the first.
        let other =
            WriteOptions { writer: Writer { number: 1, of: 2 }, ..options(WeightDtype::F32, None) };
        assert!(write_adapter_files(out[0].path(), &model, &config, other).unwrap().is_empty());
    }
}

#[test]
fn a_merged_checkpoint_is_the_adapter_within_rounding() {
    for name in ADAPTERS {
        let (dir, base) = (adapter(name), base_of(&adapter(name)));
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("merged");
        merge(&dir, &base, &out, None, u64::MAX, &|| false).unwrap();
        let expected = scores(&load(&dir, &base).unwrap());
        let merged = scores(&Model::load(&out, cpu()).unwrap());
        let plain = scores(&Model::load(&base, cpu()).unwrap());
        let off = |other: &Scores| {
            let pairs = expected.logprobs.iter().zip(&other.logprobs);
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(off(&merged) < 1e-4, "{name}: {}", off(&merged));
        assert!(off(&plain) > 0.1, "{name}: the adapter has no effect");
        let refused = merge(&dir, &base, &out, None, u64::MAX, &|| false).unwrap_err().to_string();
        assert!(refused.ends_with("merged exists; name a new or an empty directory"), "{refused}");
    }
}

#[test]
fn a_merge_that_is_asked_to_end_leaves_nothing_behind() {
    let (dir, base) = (adapter("qwen3-qv"), base_of(&adapter("qwen3-qv")));
    let scratch = tempfile::tempdir().unwrap();
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 2;
    let ended = merge(&dir, &base, &scratch.path().join("merged"), None, u64::MAX, &stop);
    let Err(Error::File(isentrope_files::Error::Io { source, .. })) = ended else { panic!() };
    assert_eq!((source.kind(), asked.get()), (ErrorKind::Interrupted, 3));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_merged_checkpoint_has_the_type_that_is_asked_for() {
    let (dir, base) = (adapter("phi3-all-linear"), base_of(&adapter("phi3-all-linear")));
    let scratch = tempfile::tempdir().unwrap();
    let numbers = |dtype: Option<WeightDtype>| {
        let out = scratch.path().join(format!("{dtype:?}"));
        merge(&dir, &base, &out, dtype, u64::MAX, &|| false).unwrap();
        let json: Value =
            serde_json::from_slice(&fs::read(out.join("config.json")).unwrap()).unwrap();
        let model = Model::load(&out, cpu()).unwrap();
        let tensors = model.layout.parameters.tensors();
        let values = tensors.flat_map(|(id, p, t)| model.weights.tensor(&*model.backend, id, p, t));
        (json["dtype"].as_str().unwrap().to_owned(), values.collect::<Vec<f32>>())
    };
    let (own, wide) = numbers(None);
    let (asked, narrow) = numbers(Some(WeightDtype::Bf16));
    assert_eq!((own.as_str(), asked.as_str()), ("float32", "bfloat16"));
    let rounded: Vec<f32> =
        wide.iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect();
    assert_eq!(bits(&narrow), bits(&rounded));
}

/// Prints the log-probs of the tokens of `scores` under the adapter and under the merged model.
const PEFT: &str = r#"
import sys, warnings
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
warnings.filterwarnings("error", message=".*(adapter keys|Unexpected keyword).*")
base, adapter, merged = sys.argv[1:]
load = lambda path: AutoModelForCausalLM.from_pretrained(
    path, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
tokens = torch.tensor([(i * 17 + 5) % 61 for i in range(24)])
for model in [PeftModel.from_pretrained(load(base), adapter), load(merged)]:
    with torch.no_grad():
        logits = model(input_ids=tokens[None]).logits[0, :-1]
    logprobs = torch.log_softmax(logits, -1).gather(-1, tokens[1:, None])
    print(*logprobs[:, 0].tolist())
"#;

#[test]
#[ignore = "deep: needs ISENTROPE_TEST_PEFT, a Python with peft and transformers"]
fn peft_loads_what_is_written() {
    let python = std::env::var_os("ISENTROPE_TEST_PEFT").expect("it names a Python");
    for name in ADAPTERS {
        let (dir, base) = (adapter(name), base_of(&adapter(name)));
        let config = AdapterConfig::read(&dir).unwrap();
        let model = load(&dir, &base).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("adapter");
        fs::create_dir(&out).unwrap();
        // A configuration of our own, as that of a run, where one rank is enough.
        let own = AdapterConfig::new(4, 8.0, false, Targets::AllLinear);
        let config = if name == "qwen2-all-linear" { own } else { config };
        let options = options(WeightDtype::F32, Some(&base));
        write_adapter_files(&out, &model, &config, options).unwrap();
        let merged = scratch.path().join("merged");
        merge(&dir, &base, &merged, None, u64::MAX, &|| false).unwrap();
        let run = std::process::Command::new(&python)
            .args(["-c", PEFT])
            .args([&base, &out, &merged])
            .output()
            .unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let expected = scores(&model).logprobs;
        assert_eq!(printed.lines().count(), 2);
        for line in printed.lines() {
            let theirs: Vec<f32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            assert_eq!(theirs.len(), expected.len());
            let off = theirs.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{name}: {off}");
        }
    }
}

#[test]
fn configurations_that_are_no_plain_lora_are_refused_by_key() {
    let too_many = vec!["q_proj"; (1 << 16) + 1];
    let merge = "merge it into its base in peft (merge_and_unload, save_pretrained) and give that \
                 model";
    let only_plain =
        |what| format!("{what}; only plain LoRA of linear layers is supported: {merge}");
    let such = |what: &str| format!("{what}: make the adapter again with such a number");
    for (edits, what) in [
        (
            json!({"peft_type": "IA3"}),
            "peft_type is \"IA3\"; LORA is supported: make the adapter again with LoraConfig",
        ),
        (json!({"peft_type": null}), "peft_type is missing: add \"LORA\" if the adapter is that"),
        (
            json!({"task_type": "SEQ_CLS"}),
            "task_type is \"SEQ_CLS\"; CAUSAL_LM is supported: make the adapter again for a \
             causal language model",
        ),
        (json!({"bias": "all"}), &format!("bias is \"all\"; none is supported: {merge}")),
        (json!({"modules_to_save": ["lm_head"]}), &only_plain("modules_to_save is [\"lm_head\"]")),
        (json!({"use_dora": true}), &only_plain("use_dora is true")),
        (
            json!({"a_method_of_tomorrow": {"x": 1}}),
            &only_plain("a_method_of_tomorrow is {\"x\":1}"),
        ),
        (
            json!({"init_lora_weights": "pissa_niter_4"}),
            "init_lora_weights is \"pissa_niter_4\", which changes the base's weights; save the \
             adapter as plain LoRA (save_pretrained with path_initial_model_for_weight_conversion)",
        ),
        (json!({"r": 0}), &such("r is 0, not from 1 to 4096")),
        (json!({"r": 2.5}), "r is 2.5, not a whole number from 0 to 18446744073709551615"),
        (
            json!({"rank_pattern": {"q_proj": 0}}),
            &such("rank_pattern of \"q_proj\" is 0, not from 1 to 4096"),
        ),
        (json!({"rank_pattern": {"q_proj": "x"}}), "rank_pattern has \"x\", not a number"),
        (json!({"rank_pattern": 4}), "rank_pattern is not an object of at most 256 entries"),
        (
            json!({"lora_alpha": 1e300}),
            &such(&format!("lora_alpha is 1{}, not from 0 to 1000000", "0".repeat(300))),
        ),
        (
            json!({"alpha_pattern": {"v_proj": -1}}),
            &such("alpha_pattern of \"v_proj\" is -1, not from 0 to 1000000"),
        ),
        (
            json!({"target_modules": null}),
            "target_modules is missing: name the modules that adapter_model.safetensors has A and \
             B of",
        ),
        (json!({"target_modules": too_many}), "target_modules has 65537 entries, above 65536"),
        (json!({"layers_to_transform": [-1]}), "layers_to_transform is [-1], not layers' numbers"),
        (
            json!({"layers_to_transform": 1, "target_modules": ".*"}),
            "layers_to_transform needs a list of target_modules",
        ),
    ] {
        let (dir, _) = copy_of("qwen3-qv");
        edit(dir.path(), &edits);
        let refused = AdapterConfig::read(dir.path()).unwrap_err().to_string();
        assert_eq!(refused, format!("{}: {what}", dir.path().join(CONFIG).display()));
    }
    // Accepted: they say how A and B came to be, and nothing of what they are.
    for edits in [
        json!({"init_lora_weights": "gaussian"}),
        json!({"init_lora_weights": false}),
        json!({"init_lora_weights": "eva", "eva_config": {"rho": 2.0}}),
        json!({"fan_in_fan_out": true, "lora_dropout": 0.1, "task_type": null}),
    ] {
        let (dir, base) = copy_of("qwen3-qv");
        edit(dir.path(), &edits);
        load(dir.path(), &base).unwrap();
    }
}

#[test]
fn targets_outside_the_linear_layers_are_refused_with_those_that_there_are() {
    let there_are = "there are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, in \
                     full such as model.layers.0.self_attn.q_proj";
    let long = "(?:a|b){1000}".repeat(40);
    for (targets, what) in [
        (json!(["query"]), format!("the targets match no linear layer; {there_are}")),
        (json!("q_proj"), format!("the targets match no linear layer; {there_are}")),
        (
            json!(["q_proj", "embed_tokens"]),
            format!(
                "the targets have model.embed_tokens, which is no linear layer of a block; \
                 {there_are}"
            ),
        ),
        (
            json!(".*"),
            format!(
                "the targets have model.embed_tokens, which is no linear layer of a block; \
                 {there_are}"
            ),
        ),
        (
            json!("(?!k).*_proj"),
            "the pattern \"(?!k).*_proj\" is no regular expression that can be read (look-around \
             and back-references cannot)"
                .to_owned(),
        ),
        (
            json!("a)|(b"),
            "the pattern \"a)|(b\" is no regular expression that can be read (look-around and \
             back-references cannot)"
                .to_owned(),
        ),
        (json!(long), format!("the pattern {:?}... is too large", &long[..80])),
    ] {
        let (dir, base) = copy_of("qwen3-qv");
        edit(dir.path(), &json!({ "target_modules": targets }));
        let refused = load(dir.path(), &base).err().unwrap().to_string();
        assert_eq!(refused, format!("{}: {what}", dir.path().join(CONFIG).display()));
    }

    let layout = Layout::new(&ModelConfig::read(&oracle("qwen3")).unwrap());
    let refusal = |rank: usize, names: &[&str]| {
        let targets = Targets::Modules(names.iter().map(|&name| name.to_owned()).collect());
        let config = AdapterConfig::new(rank, 8.0, false, targets);
        config.layout(&layout).unwrap_err().to_string()
    };
    assert_eq!(refusal(0, &["q_proj"]), "the rank is 0, not from 1 to 4096");
    // A name that peft would pass over.
    assert_eq!(
        refusal(4, &["q_proj", "v_prj"]),
        format!("the target \"v_prj\" is no linear layer of a block; {there_are}")
    );
    assert_eq!(
        refusal(4, &["lm_head"]),
        format!("the targets have lm_head, which is no linear layer of a block; {there_are}")
    );
}

#[test]
fn a_directory_without_an_adapter_is_refused_with_what_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    fs::write(dir.join("file"), "").unwrap();
    let remedy = "name the directory of an adapter, such as a checkpoint of a run with [lora] or \
                  what peft's save_pretrained wrote";
    for (path, what) in [
        (dir.join("absent"), "there is no such directory"),
        (dir.join("file"), "is a file"),
        (dir.to_owned(), "has no adapter_config.json"),
        (oracle("qwen3"), "is a whole model, and no adapter"),
    ] {
        let refused = AdapterConfig::read(&path).unwrap_err().to_string();
        assert_eq!(refused, format!("{}: {what}: {remedy}", path.display()));
    }
    #[cfg(unix)]
    {
        // Nobody can look into a link to itself, be it root.
        let around = dir.join("around");
        std::os::unix::fs::symlink(&around, &around).unwrap();
        let refused = AdapterConfig::read(&around).unwrap_err();
        assert!(matches!(refused, Error::File { .. }), "{refused}");
    }
}

/// Rewrites the file of A and B: `change` gets each tensor's name, shape and values.
fn rewrite(dir: &Path, change: impl Fn(&mut BTreeMap<String, (Vec<usize>, Vec<f32>)>)) {
    let bytes = fs::read(dir.join(WEIGHTS)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = |bytes: &[u8]| {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let tensors = file.tensors().into_iter();
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)> =
        tensors.map(|(name, t)| (name, (t.shape().to_vec(), values(t.data())))).collect();
    change(&mut tensors);
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, (shape, values))| {
            (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap())
    });
    fs::write(dir.join(WEIGHTS), safetensors::serialize(views, None).unwrap()).unwrap();
}

#[test]
fn damaged_weights_are_refused_with_file_and_tensor() {
    type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;
    type Damage = fn(&mut Tensors);
    let of_another = |what: &str| {
        let remedy =
            "give the model that the adapter was trained beside, or save the adapter again";
        format!("{what}: {remedy}")
    };
    let damages: [(Damage, String); 5] = [
        (
            |all| drop(all.remove(Q_OF_LAYER_0)),
            of_another(&format!("holds no tensor {Q_OF_LAYER_0}")),
        ),
        (
            |all| all.get_mut(Q_OF_LAYER_0).unwrap().0 = vec![32, 2],
            of_another(&format!("tensor {Q_OF_LAYER_0} has shape [32, 2], not [2, 32]")),
        ),
        (
            |all| all.get_mut(Q_OF_LAYER_0).unwrap().1[3] = f32::NAN,
            format!(
                "tensor {Q_OF_LAYER_0} is NaN at index 3: its training has diverged, or the file \
                 is damaged; take an earlier checkpoint, or copy the file again"
            ),
        ),
        (
            |all| drop(all.insert("base_model.model.lm_head.weight".into(), (vec![1], vec![1.0]))),
            of_another(&format!(
                "tensor base_model.model.lm_head.weight is no A or B of the modules that {CONFIG} \
                 names"
            )),
        ),
        (
            |all| {
                let (shape, values) = all.get_mut(Q_OF_LAYER_0).unwrap();
                shape[0] = 1;
                values.truncate(32);
            },
            of_another(&format!("tensor {Q_OF_LAYER_0} has shape [1, 32], not [2, 32]")),
        ),
    ];
    for (damage, what) in damages {
        let (dir, base) = copy_of("qwen3-qv");
        rewrite(dir.path(), damage);
        let refused = load(dir.path(), &base).err().unwrap().to_string();
        assert_eq!(refused, format!("{}: {what}", dir.path().join(WEIGHTS).display()));
        let out = dir.path().join("merged");
        let refused =
            merge(dir.path(), &base, &out, None, u64::MAX, &|| false).unwrap_err().to_string();
        assert!(refused.ends_with(&what) && !out.exists(), "{refused}");
    }
    // Files that are no longer what they were.
    let whole = fs::read(adapter("qwen3-qv").join(WEIGHTS)).unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    let text = fs::read(adapter("qwen3-qv").join(CONFIG)).unwrap();
    for (file, bytes, parts) in [
        (WEIGHTS, &whole[..whole.len() / 2], ["is not a whole safetensors file", "save it again"]),
        (WEIGHTS, &[], ["is not a whole safetensors file (header too small)", "save it again"]),
        (WEIGHTS, &text, ["its first bytes claim a header of 8", "save it again"]),
        (WEIGHTS, pointer, ["is a pointer of Git LFS", "`git lfs pull`"]),
        (CONFIG, &text[..99], ["not valid JSON: EOF while parsing", "; mend it or copy it again"]),
    ] {
        let (dir, base) = copy_of("qwen3-qv");
        fs::write(dir.path().join(file), bytes).unwrap();
        let refused = load(dir.path(), &base).err().unwrap().to_string();
        let starts = refused.starts_with(&format!("{}: ", dir.path().join(file).display()));
        assert!(starts && parts.iter().all(|part| refused.contains(part)), "{refused}");
    }
    let (dir, base) = copy_of("qwen3-qv");
    fs::remove_file(dir.path().join(WEIGHTS)).unwrap();
    let refused = load(dir.path(), &base).err().unwrap().to_string();
    assert!(
        refused
            .ends_with("no adapter_model.safetensors, with the weights: copy the whole directory")
    );
    let (dir, base) = copy_of("qwen3-qv");
    fs::rename(dir.path().join(WEIGHTS), dir.path().join("adapter_model.bin")).unwrap();
    let refused = load(dir.path(), &base).err().unwrap().to_string();
    assert!(refused.contains("pickled weights only (adapter_model.bin)"), "{refused}");
}

#[test]
fn another_base_is_refused_by_name() {
    let (dir, base) = copy_of("qwen3-qv");
    let fingerprint = Fingerprint::of(&base).unwrap();
    let refusal = |expected: Fingerprint| {
        let text = json!({
            "config_sha256": expected.config_sha256, "weights_crc32c": expected.weights_crc32c,
        });
        fs::write(dir.path().join("base_fingerprint.json"), text.to_string()).unwrap();
        let config = AdapterConfig::read(dir.path()).unwrap();
        config.check_base(&base, Fingerprint::of).err().map(|error| error.to_string())
    };
    let other = Fingerprint::of(&oracle("qwen3-untied")).unwrap();
    let is_not =
        format!("{}: is not the base that the adapter is for, ../../qwen3: ", base.display());
    assert_eq!(refusal(fingerprint.clone()), None);
    let weights = Fingerprint { weights_crc32c: other.weights_crc32c, ..fingerprint.clone() };
    assert_eq!(refusal(weights), Some(format!("{is_not}its weights differ")));
    let config = Fingerprint { config_sha256: other.config_sha256, ..fingerprint };
    assert_eq!(refusal(config), Some(format!("{is_not}its config.json differs")));
    // Without equal configurations, and for them alone, no weights are read.
    let unread = |_: &Path| -> Result<Fingerprint> { panic!("the weights are read") };
    let read = AdapterConfig::read(dir.path()).unwrap();
    assert!(read.check_base(&base, unread).is_err() && read.check_base_config(&base).is_err());
    // Without a fingerprint, shapes decide.
    fs::remove_file(dir.path().join("base_fingerprint.json")).unwrap();
    let refused = load(dir.path(), &oracle("llama-mqa")).err().unwrap().to_string();
    assert!(refused.contains(Q_OF_LAYER_0) && refused.contains("has shape"), "{refused}");
}

#[test]
fn an_adapter_names_its_base_by_a_whole_path_or_by_id_and_revision() {
    let scratch = tempfile::tempdir().unwrap();
    let with_sign = scratch.path().join("base@2");
    fs::create_dir(&with_sign).unwrap();
    let with_sign = with_sign.to_str().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (dir, base) = (adapter("qwen3-qv"), base_of(&adapter("qwen3-qv")));
    let mut config = AdapterConfig::read(&dir).unwrap();
    let model = load(&dir, &base).unwrap();
    for (given, path, revision) in [
        ("org/name@v1.0", "org/name", Some("v1.0")),
        ("org/name@refs/pr/3", "org/name", Some("refs/pr/3")),
        ("org/name", "org/name", None),
        ("tests/fixtures", here.to_str().unwrap(), None),
        (with_sign, with_sign, None),
    ] {
        let named = BaseModel::new(given, Fingerprint::of(&base).unwrap()).unwrap();
        assert_eq!((&*named.path, named.revision.as_deref()), (path, revision));
        config.base = Some(named);
        let out = tempfile::tempdir().unwrap();
        let files = options(WeightDtype::F32, None);
        write_adapter_files(out.path(), &model, &config, files).unwrap();
        assert_eq!(AdapterConfig::read(out.path()).unwrap().base, config.base);
    }
}

#[test]
fn a_fingerprint_is_of_values_and_not_of_files() {
    let sharded = oracle("qwen2-bf16-sharded");
    let model = Model::load(&sharded, cpu()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let whole = scratch.path().join("whole");
    model.save(&whole, options(WeightDtype::Bf16, None)).unwrap();
    let crc = |dir: &Path| Fingerprint::of(dir).unwrap().weights_crc32c;
    assert_eq!(crc(&sharded), crc(&whole));
    let wide = scratch.path().join("wide");
    model.save(&wide, options(WeightDtype::F32, None)).unwrap();
    assert_ne!(crc(&sharded), crc(&wide));
}
