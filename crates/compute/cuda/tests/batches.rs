//! A batch that describes its rows wrongly is refused before a kernel can believe it.

use crate::support::{caught, emulated};
use isentrope_cuda::Dtype;
use isentrope_cuda_emulator::Settings;
use isentrope_kernels::{Attention, Backend, HostBatch, Role, Run};

const SHAPE: Attention = Attention { heads: 2, kv_heads: 1, head_dim: 4, window: None, scale: 0.5 };

/// Two runs of 20 rows, whose sequences have two pages each.
fn host() -> HostBatch {
    let run = |row, pages| Run { row, len: 20, position: 0, pages };
    HostBatch {
        tokens: vec![1; 40],
        runs: vec![run(0, 0..2), run(20, 2..4)],
        pages: vec![3, 1, 0, 2],
        ..HostBatch::default()
    }
}

/// The outcome: nothing, or the message of a panic.
fn outcome(batch: &HostBatch, pages: usize) -> Result<(), String> {
    let cuda = emulated(Dtype::F32, Settings::default());
    caught(|| {
        let batch = cuda.upload_batch(batch);
        let mut cache = cuda.allocate(Role::Cache { shape: SHAPE, layers: 1, pages }).unwrap();
        let qkv = cuda.allocate(Role::Activation(40, SHAPE.row())).unwrap();
        cuda.store_kv(SHAPE, &qkv, &batch, &mut cache, 0);
    })
}

#[test]
fn mistakes_are_named() {
    assert_eq!(outcome(&host(), 4), Ok(()));
    let refused = |part: &str, pages: usize, change: fn(&mut HostBatch)| {
        let mut batch = host();
        change(&mut batch);
        let message = outcome(&batch, pages).unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    refused("pages beyond the cache", 3, |_| ());
    refused("rows beyond the batch", 4, |batch| batch.runs[1].len = 21);
    refused("runs share rows", 4, |batch| batch.runs[1].row = 19);
    refused("runs share places in the cache", 4, |batch| batch.pages[2] = 3);
    refused("positions beyond the sequence's pages", 4, |batch| batch.runs[0].pages = 0..1);
}

#[test]
fn gradients_are_of_whole_sequences() {
    let cuda = emulated(Dtype::F32, Settings::default());
    let refused = |part: &str, positions: [usize; 2]| {
        let mut host = host();
        host.runs.iter_mut().zip(positions).for_each(|(run, position)| run.position = position);
        let message = caught(|| {
            let zeros = |features| cuda.allocate(Role::Activation(40, features)).unwrap();
            let (qkv, d_out, mut d_qkv) = (zeros(SHAPE.row()), zeros(8), zeros(SHAPE.row()));
            cuda.attention_backward(SHAPE, &qkv, &cuda.upload_batch(&host), &d_out, &mut d_qkv);
        })
        .unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    refused("whole sequences", [5, 0]);
    refused("continues none before it", [0, 19]);
}
