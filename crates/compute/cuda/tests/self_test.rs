//! The operations that a GPU must get right before it is used.

use crate::patches::Change;
use crate::watched::{Watch, Watched};
use isentrope_cuda::{Cuda, Dtype, Function, HEADERS, Limits, Operation, SOURCES, self_test};
use isentrope_cuda_emulator::{Emulator, Settings};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// One bit of a device's download is wrong; downloads are counted from 0. With f32 it is in the
/// last element. With bf16 it is near the beginning, because rows of bf16 end with padding.
struct Wrong {
    dtype: Dtype,
    which: usize,
    downloads: AtomicUsize,
    /// The bytes of each download, before one of them is made wrong.
    received: Mutex<Vec<Vec<u8>>>,
    /// The downloads of a device whose kernels ran. With them no kernel runs here, and each
    /// download has its bytes from there.
    known: Option<Arc<Vec<Vec<u8>>>>,
}

impl Watch for Wrong {
    fn downloaded(&self, bytes: &mut [u8]) {
        let number = self.downloads.fetch_add(1, Ordering::Relaxed);
        if let Some(known) = &self.known {
            bytes.copy_from_slice(&known[number]);
        }
        self.received.lock().unwrap().push(bytes.to_vec());
        if number == self.which {
            let at = if self.dtype == Dtype::F32 { bytes.len() - 2 } else { 2 };
            bytes[at] ^= 1;
        }
    }
    fn computes(&self) -> bool {
        self.known.is_none()
    }
}

/// The self-test's verdict on a device whose download `which` is wrong, and the downloads that
/// there were.
fn tested(
    dtype: Dtype,
    capability: (u32, u32),
    which: usize,
    known: Option<Arc<Vec<Vec<u8>>>>,
) -> (Result<(), String>, Vec<Vec<u8>>) {
    let (downloads, received) = (AtomicUsize::new(0), Mutex::default());
    let watch = Wrong { dtype, which, downloads, received, known };
    let device = Watched::with(Settings { capability, ..Settings::default() }, watch);
    let verdict = self_test(&Cuda::new(device.clone(), dtype));
    let received = device.watch.received.lock().unwrap().clone();
    (verdict, received)
}

#[test]
#[ignore = "deep: tries every kernel with a wrong bit"]
fn a_single_wrong_bit_is_told() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let (said, downloads) = tested(dtype, (9, 0), usize::MAX, None);
        said.unwrap();
        let downloads = Arc::new(downloads);
        let with_wrong = |which| tested(dtype, (9, 0), which, Some(Arc::clone(&downloads)));
        // With the sound downloads alone, without kernels, the verdict is the same.
        let (said, again) = with_wrong(usize::MAX);
        said.unwrap();
        assert_eq!(again.len(), downloads.len(), "downloads of {dtype:?}");
        for which in 0..downloads.len() {
            let (said, _) = with_wrong(which);
            let Err(said) = said else { panic!("download {which} of {dtype:?} may be wrong") };
            assert!(said.contains(" where it must be "), "download {which} of {dtype:?}: {said}");
        }
    }
}

/// The host does not know the arithmetic of this generation's tensor cores.
#[test]
fn a_sound_ampere_passes() {
    tested(Dtype::Bf16, (8, 0), usize::MAX, None).0.unwrap();
}

/// The self-test's verdict on a device that a watch disturbs.
fn said_of<W: Watch>(watch: W, capability: (u32, u32)) -> (Result<(), String>, Arc<Watched<W>>) {
    let device = Watched::with(Settings { capability, ..Settings::default() }, watch);
    (self_test(&Cuda::new(device.clone(), Dtype::Bf16)), device)
}

/// The launched kernels, and the number of launches.
#[derive(Default)]
struct Launched(Mutex<HashSet<&'static str>>, AtomicUsize);

impl Watch for Launched {
    fn launched(&self, function: &Function) {
        self.0.lock().unwrap().insert(function.name);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every kernel of the tensor core runs, in tiles of all sizes and for heads of all sizes, in so
/// few launches (some microseconds each) that no user waits for them.
#[test]
fn all_kernels_of_the_tensor_core_are_tried_in_few_launches() {
    let (said, device) = said_of(Launched::default(), (9, 0));
    said.unwrap();
    let Launched(kernels, launches) = &device.watch;
    let mut untried: Vec<String> = Vec::new();
    let of_products = [
        "linear",
        "linear_glu",
        "logits",
        "linear_backward_input",
        "head_backward_input",
        "linear_backward_weight",
    ];
    let names =
        of_products.iter().flat_map(|name| [64, 128].map(|side| format!("{name}_bf16_{side}")));
    let narrow = ["linear", "linear_glu", "logits"].map(|name| format!("{name}_bf16_narrow"));
    let of_heads =
        ["attention", "attention_decode", "attention_backward_queries", "attention_backward_keys"];
    let of_heads = of_heads
        .iter()
        .flat_map(|name| [16, 32, 64, 128].map(|features| format!("{name}_{features}")));
    let alone = ["attention_merge", "add_and_norm"].map(str::to_owned);
    for name in names.chain(narrow).chain(of_heads).chain(alone) {
        if !kernels.lock().unwrap().contains(name.as_str()) {
            untried.push(name);
        }
    }
    assert!(untried.is_empty(), "{untried:?} of {kernels:?}");
    let launches = launches.load(Ordering::Relaxed);
    println!("{launches} launches");
    assert!(launches <= 160, "{launches} launches");
}

/// A tensor core that does two steps of 8 products instead of one of 16.
struct Older;

impl Watch for Older {
    fn limits(&self, limits: Limits) -> Limits {
        Limits { capability: (9, 0), ..limits }
    }
}

#[test]
fn another_tensor_core_is_told() {
    let said = said_of(Older, (8, 0)).0.unwrap_err();
    assert!(said.starts_with("the head's logits in bf16 computes "), "{said}");
}

/// A driver whose graphs lack their last launch.
struct Forgets;

impl Watch for Forgets {
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        Ok(operations[..operations.len() - 1].to_vec())
    }
}

/// A driver that makes no graphs, which is no mistake.
struct Refuses;

impl Watch for Refuses {
    fn capture(&self, _operations: &[Operation]) -> Result<Vec<Operation>, String> {
        Err("not today".into())
    }
}

#[test]
fn a_graph_that_is_not_its_launches_is_told() {
    let said = said_of(Forgets, (9, 0)).0.unwrap_err();
    assert!(said.starts_with("a step that is launched as one computes "), "{said}");
    said_of(Refuses, (9, 0)).0.unwrap();
}

/// Mistakes of mutations.txt that a compiler might make too, and the operation that the self-test
/// names.
const MISTAKES: [(&str, &str); 24] = [
    ("the last number of a row is not copied", "a linear layer in bf16 "),
    ("two matrices of b change places", "a linear layer in bf16 "),
    (
        "a warp of a large tile has a small one's columns",
        "a linear layer with an adapter in bf16, in tiles of 64,",
    ),
    (
        "what lies transposed is not transposed",
        "the gradient of a linear layer's input in bf16, in tiles of 64,",
    ),
    (
        "two matrices of a that lies transposed change places",
        "the gradient of a linear layer's weights in bf16, in tiles",
    ),
    (
        "sums begin with other numbers of d",
        "the gradient of the head's input in bf16, in tiles of 64,",
    ),
    (
        "the halves have each other's bias",
        "what a gated linear layer keeps in bf16, in tiles of 64,",
    ),
    ("a gate is not rounded before it is used", "a gated linear layer in bf16, in tiles of 64,"),
    ("up is gated by half of the sigmoid", "SwiGLU in bf16 "),
    ("the sum is only normed", "a layer that is added and normed in bf16 "),
    ("the pieces of values have not changed places", "attention in bf16, of heads of "),
    ("two lanes of a row do not ask for the maximum", "attention in bf16, of heads of "),
    (
        "the last warp's largest score counts nothing",
        "attention in bf16, in splits that are put together as",
    ),
    ("warps have the same features", "decoding attention in bf16, of heads of "),
    (
        "earlier splits' sums are another thread's",
        "attention in bf16, of several rows in two splits,",
    ),
    (
        "a split ends one tile early",
        "attention in bf16, in splits that are put together as if by one block,",
    ),
    (
        "a split of its own has a tile of the next",
        "attention in bf16, in two splits that are put together,",
    ),
    ("splits are put together with factors the wrong way round", "attention in bf16, of heads of "),
    (
        "the last split is not put together with the others",
        "attention in bf16, in two splits that are put together,",
    ),
    ("a sum of p dp is not divided", "the gradient of attention's queries in bf16, of heads of "),
    (
        "what a shared beginning has is looked for in the run",
        "the gradient of attention's queries in bf16, of heads of ",
    ),
    (
        "statistics of the other stage",
        "the gradient of attention's keys and values in bf16, of heads of ",
    ),
    (
        "weights of two blocks of queries change places",
        "the gradient of attention's keys and values in bf16, of heads of ",
    ),
    (
        "a run's last queries are left out",
        "the gradient of attention's keys and values in bf16, of heads of ",
    ),
];

/// The self-test's verdict on kernels with a change.
fn said_of_kernels_with(change: &Change) -> String {
    let file = change.of.split_once(' ').unwrap().0;
    let text =
        SOURCES.iter().copied().chain(HEADERS).find(|source| source.file == file).unwrap().text;
    let changed =
        change.applied(text).unwrap_or_else(|| panic!("{} does not apply any more", change.what));
    let emulator = Emulator::new(Settings::default()).with_replaced(file, changed);
    self_test(&Cuda::new(Arc::new(emulator), Dtype::Bf16)).err().unwrap_or_default()
}

#[test]
#[ignore = "deep: a start on the emulator for each wrong kernel"]
fn wrong_kernels_are_told_by_the_operation() {
    let changes = Change::all(include_str!("mutations.txt"));
    let mut missed = Vec::new();
    for (what, operation) in MISTAKES {
        let change =
            changes.iter().find(|change| change.what == what).unwrap_or_else(|| panic!("{what}"));
        let said = said_of_kernels_with(change);
        println!("{what}: {said}");
        if !said.starts_with(operation) {
            missed.push(format!("{what}: {said:?} is not of {operation}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
