//! The library's interface between threads that are ranks: it moves bytes in the order of a stream,
//! and refuses what NCCL refuses.
#![allow(unsafe_code, reason = "a C interface")]
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_nccl_loopback::result::{
    IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, SUCCESS,
};
use isentrope_nccl_loopback::{
    Config, UniqueId, loopback_device, ncclCommAbort, ncclCommGetAsyncError,
    ncclCommInitRankConfig, ncclGetUniqueId, ncclGroupEnd, ncclGroupStart, ncclRecv, ncclSend,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// `ncclUint8` and `ncclFloat32`.
const BYTE: c_int = 1;
const FLOAT: c_int = 7;
/// Time in which nothing happens that is to happen.
const A_WHILE: Duration = Duration::from_millis(50);

const CONFIG: Config =
    Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 21_400, blocking: 0 };

fn id() -> UniqueId {
    let mut id = UniqueId([0; 128]);
    // SAFETY: there is room for it.
    assert_eq!(unsafe { ncclGetUniqueId(&raw mut id) }, SUCCESS);
    id
}

/// A rank with an emulated stream.
struct Rank {
    handle: *mut c_void,
    stream: Box<AtomicU32>,
}

impl Rank {
    fn begin(id: UniqueId, rank: c_int, ranks: c_int, config: &Config) -> Result<Self, c_int> {
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for the handle.
        let code = unsafe { ncclCommInitRankConfig(&raw mut handle, ranks, id, rank, config) };
        if code != IN_PROGRESS {
            assert!(handle.is_null());
            return Err(code);
        }
        let this = Self { handle, stream: Box::default() };
        match this.settled() {
            SUCCESS => Ok(this),
            code => Err(code),
        }
    }

    fn state(&self) -> c_int {
        let mut state = -1;
        // SAFETY: the communicator lives, and there is room for a number.
        assert_eq!(unsafe { ncclCommGetAsyncError(self.handle, &raw mut state) }, SUCCESS);
        state
    }

    /// The state once nothing is in progress on the host.
    fn settled(&self) -> c_int {
        let begun = Instant::now();
        while self.state() == IN_PROGRESS && begun.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_micros(100));
        }
        self.state()
    }

    fn is_idle(&self) -> bool {
        self.stream.load(Ordering::Acquire) == 0
    }

    /// Whether the stream comes to its end within a while.
    fn ends(&self) -> bool {
        let begun = Instant::now();
        while !self.is_idle() && begun.elapsed() < A_WHILE {
            thread::sleep(Duration::from_micros(100));
        }
        self.is_idle()
    }

    fn send(&self, bytes: &[u8], kind: c_int, to: c_int) -> c_int {
        let (from, count) =
            (bytes.as_ptr().cast(), bytes.len() / if kind == FLOAT { 4 } else { 1 });
        let stream = ptr::from_ref(&*self.stream).cast_mut().cast();
        // SAFETY: tests keep the bytes until the exchange has ended or is aborted.
        unsafe { ncclSend(from, count, kind, to, self.handle, stream) }
    }

    fn receive(&self, bytes: &mut [u8], kind: c_int, from: c_int) -> c_int {
        let (to, count) =
            (bytes.as_mut_ptr().cast(), bytes.len() / if kind == FLOAT { 4 } else { 1 });
        let stream = ptr::from_ref(&*self.stream).cast_mut().cast();
        // SAFETY: as above.
        unsafe { ncclRecv(to, count, kind, from, self.handle, stream) }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        assert_eq!(unsafe { ncclCommAbort(self.handle) }, SUCCESS);
        assert!(self.is_idle(), "an abort ends what is in the stream");
    }
}

/// The results of some ranks that begin together.
fn on_ranks<T: Send>(ranks: c_int, act: impl Fn(c_int, Rank) -> T + Sync) -> Vec<T> {
    let (id, act) = (id(), &act);
    thread::scope(|scope| {
        let begin = |rank| move || act(rank, Rank::begin(id, rank, ranks, &CONFIG).unwrap());
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(begin(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn pattern(rank: c_int, message: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + message * 7) as u8 ^ rank as u8).collect()
}

#[test]
fn messages_of_a_group_come_in_order_to_all_and_in_the_stream() {
    const SIZES: [usize; 3] = [1 << 20, 0, 5]; // one is longer than what a socket holds
    on_ranks(3, |own, rank| {
        let mut came: Vec<Vec<Vec<u8>>> =
            (0..3).map(|_| SIZES.iter().map(|&bytes| vec![0; bytes]).collect()).collect();
        let sent: Vec<Vec<u8>> =
            SIZES.iter().enumerate().map(|(i, &bytes)| pattern(own, i, bytes)).collect();
        assert_eq!(ncclGroupStart(), SUCCESS);
        for peer in (0..3).filter(|peer| *peer != own) {
            sent.iter().for_each(|bytes| assert_eq!(rank.send(bytes, BYTE, peer), SUCCESS));
            for bytes in &mut came[peer as usize] {
                assert_eq!(rank.receive(bytes, BYTE, peer), SUCCESS);
            }
        }
        assert!(rank.is_idle(), "nothing begins before the group ends");
        assert_eq!(ncclGroupEnd(), IN_PROGRESS);
        assert_eq!(rank.settled(), SUCCESS);
        while !rank.is_idle() {
            thread::yield_now();
        }
        for peer in (0..3).filter(|peer| *peer != own) {
            for (i, bytes) in came[peer as usize].iter().enumerate() {
                assert_eq!(*bytes, pattern(peer, i, SIZES[i]), "message {i} of {peer}");
            }
        }
    });
}

#[test]
fn a_send_that_nobody_receives_does_not_end_until_it_is_aborted() {
    on_ranks(2, |own, rank| {
        let bytes = [1; 8];
        if own == 0 {
            assert_eq!(rank.send(&bytes, BYTE, 1), IN_PROGRESS);
            assert_eq!(rank.settled(), SUCCESS);
            assert!(!rank.ends());
        } else {
            thread::sleep(2 * A_WHILE);
        }
    });
}

#[test]
fn a_receive_of_another_length_or_type_is_an_error() {
    for (length, kind) in [(4, BYTE), (12, BYTE), (8, FLOAT)] {
        on_ranks(2, |own, rank| {
            let mut bytes = vec![1; if own == 0 { 8 } else { length }];
            if own == 0 {
                assert_eq!(rank.send(&bytes, BYTE, 1), IN_PROGRESS);
                rank.settled();
                assert!(!rank.ends());
            } else {
                assert_eq!(rank.receive(&mut bytes, kind, 0), IN_PROGRESS);
                thread::sleep(A_WHILE / 2);
                assert_eq!(rank.settled(), INVALID_USAGE, "{length} of {kind}");
                assert!(!rank.is_idle(), "what has failed is not passed over");
                assert_eq!(rank.send(&bytes, BYTE, 0), INVALID_USAGE);
                thread::sleep(A_WHILE);
            }
        });
    }
}

#[test]
fn a_rank_that_is_gone_is_an_error_of_those_that_wait_for_it() {
    on_ranks(2, |own, rank| {
        if own == 0 {
            let mut bytes = [0; 8];
            assert_eq!(rank.receive(&mut bytes, BYTE, 1), IN_PROGRESS);
            thread::sleep(A_WHILE);
            assert_eq!(rank.settled(), REMOTE_ERROR);
        }
    });
}

#[test]
fn wrong_ranks_and_configurations_are_refused() {
    let refused = |rank, ranks, config: &Config| Rank::begin(id(), rank, ranks, config).err();
    assert_eq!(refused(2, 2, &CONFIG), Some(INVALID_ARGUMENT));
    assert_eq!(refused(-1, 2, &CONFIG), Some(INVALID_ARGUMENT));
    assert_eq!(refused(0, 0, &CONFIG), Some(INVALID_ARGUMENT));
    for config in [
        Config { magic: 1, ..CONFIG },
        Config { size: 8, ..CONFIG },
        Config { blocking: 1, ..CONFIG },
    ] {
        assert_eq!(refused(0, 1, &config), Some(INVALID_ARGUMENT));
    }
    let alone = Rank::begin(id(), 0, 1, &CONFIG).unwrap();
    assert_eq!(alone.send(&[1], BYTE, 1), INVALID_ARGUMENT);
    assert_eq!(alone.send(&[1], BYTE, -1), INVALID_ARGUMENT);
    assert_eq!(alone.send(&[1], 99, 0), INVALID_ARGUMENT);
    assert_eq!(alone.send(&[1], BYTE, 0), INVALID_USAGE);
    assert_eq!(ncclGroupEnd(), INVALID_USAGE, "no group is open");
}

#[test]
fn two_ranks_on_one_device_and_a_rank_that_comes_twice_are_refused() {
    fn on(device: &CStr, id: UniqueId, rank: c_int) -> Result<(), c_int> {
        // SAFETY: the name ends with a zero byte.
        unsafe { loopback_device(device.as_ptr()) };
        Rank::begin(id, rank, 2, &CONFIG).map(drop)
    }
    let both = |devices: [&'static CStr; 2], ranks: [c_int; 2]| {
        let id = id();
        let threads = [0, 1].map(|i| thread::spawn(move || on(devices[i], id, ranks[i])));
        threads.map(|thread| thread.join().unwrap())
    };
    assert_eq!(both([c"GPU-0", c"GPU-1"], [0, 1]), [Ok(()), Ok(())]);
    let refused = both([c"GPU-0", c"GPU-0"], [0, 1]);
    assert!(refused.contains(&Err(INVALID_USAGE)), "{refused:?}");
    let id = id();
    let begin = |rank| {
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for the handle.
        unsafe { ncclCommInitRankConfig(&raw mut handle, 2, id, rank, &CONFIG) };
        Rank { handle, stream: Box::default() }
    };
    let twice = [begin(1), begin(1)];
    let begun = Instant::now();
    let is_open = |rank: &Rank| rank.state() == IN_PROGRESS;
    while twice.iter().all(is_open) && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_micros(100));
    }
    let mut states = twice.each_ref().map(Rank::state);
    states.sort_unstable();
    assert_eq!(states, [INVALID_USAGE, IN_PROGRESS], "the later one, and rank 0 has not come");
}
