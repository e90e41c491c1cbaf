//! Exchanges between the devices of ranks, by a library with NCCL's interface: what they add and
//! copy has the bits of exchanges through the hosts, and a library's mistakes are noticed. Ranks
//! are threads, each with an emulated device.

use crate::support::{emulated, load, noise};
use isentrope_budget::PassLimits;
use isentrope_cuda::gpu::{Communicator, Nccl};
use isentrope_cuda::{Cuda, Dtype};
use isentrope_cuda_emulator::Settings;
use isentrope_kernels::{Backend, Kind, Linear, PeerElements, Role};
use isentrope_model::Sequence;
use isentrope_ranks::{Watch, World, threads};
use isentrope_train::learner::{Coefficients, Learner};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::{TrainingRanks, try_links};
use isentrope_train::settings::{OptimizerSettings, POLICY_OPTIMIZER};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The library, which cargo builds beside the tests.
pub fn loopback() -> PathBuf {
    let beside = std::env::current_exe().unwrap();
    beside.with_file_name("libisentrope_nccl_loopback.so")
}

/// The results of some ranks, whose devices are connected with patience.
fn on_ranks<T: Send>(
    ranks: usize,
    dtype: Dtype,
    patience: Option<Duration>,
    act: impl Fn(Arc<World>, Cuda) -> T + Sync,
) -> Vec<T> {
    let settings = isentrope_ranks::Settings {
        threads: 1,
        program: "a test".into(),
        watch: Watch { silent: None, ..Watch::default() },
        tell: Arc::new(|_| {}),
    };
    let (worlds, _) = threads::worlds(ranks, &settings).unwrap();
    let nccl = Nccl::open(&loopback()).unwrap();
    let (id, act) = (nccl.unique_id().unwrap(), &act);
    thread::scope(|scope| {
        let rank = |world: World| {
            move || {
                let settings = Settings { seed: world.rank() as u64, ..Settings::default() };
                // Pieces end within parameters.
                let cuda = emulated(dtype, settings).with_linked_gradients_in_pieces_of(10_000);
                let (device, place) = (cuda.device().clone(), (world.rank(), world.size()));
                if let Some(patience) = patience {
                    let begun = Communicator::begin(nccl, device, &id, place, patience);
                    cuda.link(Some(Arc::new(begun.unwrap())));
                }
                act(Arc::new(world), cuda)
            }
        };
        let threads: Vec<_> = worlds.into_iter().map(|world| scope.spawn(rank(world))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

const PATIENT: Duration = Duration::from_secs(60);

/// Why the links may not be used, as all ranks have found.
fn trial(ranks: usize, patience: Duration) -> Option<String> {
    let found = on_ranks(ranks, Dtype::F32, Some(patience), |world, cuda| {
        // The kernel that adds is compiled before anybody waits for it.
        let gradient = Role::Gradient(Kind::Vector(1));
        cuda.add(&cuda.buffer(gradient), &mut cuda.buffer(gradient));
        let sent = world.traffic().sent_bytes;
        let found = try_links(&world, &cuda, cuda.device_links().unwrap()).unwrap();
        assert!(world.traffic().sent_bytes > sent);
        found
    });
    assert!(found.iter().all(|of_rank| *of_rank == found[0]), "{found:?}");
    found[0].clone()
}

/// The trial compares all bits, of sums over both kinds of levels of the tree.
#[test]
fn sums_and_copies_have_the_bits_of_those_through_the_hosts() {
    for ranks in [2, 3, 4] {
        assert_eq!(trial(ranks, PATIENT), None, "{ranks} ranks");
    }
}

#[test]
#[ignore = "deep: more ranks"]
fn sums_and_copies_of_many_ranks_have_the_bits_of_those_through_the_hosts() {
    for ranks in [5, 6, 7, 8, 12] {
        assert_eq!(trial(ranks, PATIENT), None, "{ranks} ranks");
    }
}

/// Either the bf16s of weights in two parts travel, or both parts.
#[test]
fn weights_in_two_parts_travel_rounded_or_exact() {
    let kind = Kind::Matrix(Linear { inputs: 24, outputs: 16 });
    for rounded in [true, false] {
        let all = on_ranks(2, Dtype::Bf16, Some(PATIENT), |world, cuda| {
            let weights = |rank: usize| {
                let mut buffer = cuda.allocate(Role::Weight(kind)).unwrap();
                cuda.pack(kind, 0, &noise(rank as u64, 24 * 16), &mut buffer);
                buffer
            };
            let (own, peer) = (world.rank(), 1 - world.rank());
            let part = |half: usize| {
                let elements = vec![(0, 192 * half..192 * (half + 1))];
                [PeerElements { rank: peer, elements }]
            };
            let mut buffers = [weights(own)];
            let links = cuda.device_links().unwrap();
            links.write(&mut buffers, rounded, &part(own), &part(peer)).unwrap();
            let split = cuda.split_weights().unwrap();
            let [mut got, mut want] = [[0; 384]; 2];
            split.read_rounded(&buffers[0], 0, &mut got);
            for half in [0, 1] {
                split.read_rounded(&weights(half), 192 * half, &mut want[192 * half..][..192]);
            }
            assert_eq!(got, want);
            let mut exact = vec![0.0; 384];
            cuda.read_elements(&buffers[0], 0, &mut exact);
            exact
        });
        // The remainders stay where they are if weights travel rounded.
        assert_eq!(all[0] == all[1], !rounded);
    }
}

/// Runs the trial on two ranks with a planted mistake, in a process of its own.
fn found_with(mistake: &str) -> (String, Duration) {
    let begun = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "links::a_trial_with_a_mistake", "--ignored", "--nocapture"])
        .env(isentrope_nccl_loopback::mistake::VARIABLE, mistake)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{mistake}: {said}");
    let found = said.lines().find_map(|line| line.split_once("found: "));
    (found.unwrap_or_else(|| panic!("{said}")).1.to_owned(), begun.elapsed())
}

#[test]
#[ignore = "a part of another test"]
#[allow(clippy::print_stdout, reason = "the other test reads it")]
fn a_trial_with_a_mistake() {
    println!("found: {}", trial(2, Duration::from_secs(2)).unwrap_or_default());
}

#[test]
fn mistakes_of_a_library_are_noticed_before_it_is_relied_on() {
    for (mistake, rank, parts) in [
        // The trial has two pieces of a sum, then copies.
        ("lost:1:1", 0, &["bytes to or from rank 1 have not moved within"][..]),
        ("lost:0:2", 1, &["bytes to or from rank 0 have not moved within"]),
        ("swapped:0:0", 0, &["known numbers have other sums"]),
        ("unordered:1:0", 0, &["known numbers have other sums"]),
        // The rank that fails is named beside the one that waits for it.
        ("failing:1:2", 0, &["bytes to or from rank 1: NCCL 2.99", "; rank 1 ("]),
    ] {
        let (found, took) = found_with(mistake);
        let named = format!("rank {rank} (");
        let is_said = found.starts_with(&named) && parts.iter().all(|part| found.contains(part));
        assert!(is_said, "{mistake}: {found}");
        assert!(took < Duration::from_secs(10), "{mistake}: {took:?}");
    }
}

/// Layers are added over the ranks in the second stream, while the last passes use the first: the
/// emulator refuses memory that the other stream may still use.
#[test]
fn updates_have_the_bits_of_those_through_the_hosts_and_of_one_rank() {
    let update = |world: Arc<World>, cuda: Cuda, (by_layer, weights_in_slices)| {
        let model = load(Arc::new(cuda), "qwen3-untied");
        let ranks = TrainingRanks::new(world, 2).unwrap();
        let settings = OptimizerSettings::default();
        let optimizer =
            Optimizer::new(&model, POLICY_OPTIMIZER, settings, &ranks, Role::Moment).unwrap();
        let limits = PassLimits {
            micro_batch_tokens: 5,
            tape_bytes: usize::MAX,
            activation_slots: 0,
            by_layer,
            offloads_inputs: false,
            weights_in_slices,
        };
        let mut learner = Learner::new(model, optimizer, limits, ranks).unwrap();
        let tokens = [[1, 2, 3, 4, 5], [7, 6, 5, 4, 3], [9, 8, 1, 2, 3], [2, 4, 6, 8, 1]];
        let sequences = tokens.each_ref().map(|tokens| Sequence { tokens, score_from: 1 });
        let imitate = Coefficients {
            d_logprobs: vec![-0.1; 16],
            d_entropies: vec![0.0; 16],
            ..Coefficients::default()
        };
        for _ in 0..2 {
            learner.make_whole().unwrap(); // as before sampling
            learner.accumulate_weighted(&sequences, 1.0, &imitate).unwrap();
            learner.step(1e-2).unwrap();
        }
        let checksum = learner.weights_checksum().unwrap();
        let scores = learner.score(&sequences, 1.0).unwrap();
        learner.make_whole().unwrap();
        assert!(learner.score(&sequences, 1.0).unwrap().same_bits(&scores));
        (checksum, scores.logprobs)
    };
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let new = |seed| emulated(dtype, Settings { seed, ..Settings::default() });
        let alone = update(Arc::new(World::alone()), new(5), (false, false));
        for shares in [(false, false), (true, false), (true, true)] {
            for is_linked in [true, false] {
                let patience = is_linked.then_some(PATIENT);
                let update = |world, cuda| update(world, cuda, shares);
                for of_rank in on_ranks(2, dtype, patience, update) {
                    assert!(of_rank == alone, "{dtype:?}, {shares:?}, linked: {is_linked}");
                }
            }
        }
    }
}
