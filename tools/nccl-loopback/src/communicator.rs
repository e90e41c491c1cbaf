//! A communicator: a thread that carries out exchanges one after another.

use crate::mistake::{Kind, Mistake};
use crate::result::{IN_PROGRESS, INVALID_USAGE, REMOTE_ERROR, SUCCESS};
use crate::wire::{self, Sockets};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between the end of a group and its beginning in the stream: NCCL too does this by itself.
const LAUNCH: Duration = Duration::from_micros(200);
/// Time by which an exchange that is not in the stream is late.
const LATE: Duration = Duration::from_millis(30);
/// Pause between two looks whether a failed communicator is aborted.
const PAUSE: Duration = Duration::from_millis(1);

/// The arguments that make a communicator.
pub(crate) struct Settings {
    /// The unique id.
    pub name: String,
    pub rank: usize,
    pub ranks: usize,
    pub device: String,
}

/// A send or a receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub sends: bool,
    pub address: usize,
    pub bytes: usize,
    pub kind: c_int,
    pub peer: usize,
    pub stream: usize,
}

/// State that a communicator shares with its thread.
#[derive(Default)]
pub(crate) struct Shared {
    has_begun: AtomicBool,
    is_aborted: AtomicBool,
    /// Groups that have ended, and whose exchanges are not in the stream yet.
    waiting: AtomicUsize,
    error: AtomicI32,
}

impl Shared {
    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Relaxed)
    }

    fn fail(&self, code: c_int) {
        self.error.store(code, Ordering::Release);
    }
}

pub(crate) struct Communicator {
    rank: usize,
    ranks: usize,
    shared: Arc<Shared>,
    /// There until it is dropped.
    exchanges: Option<Sender<Vec<Operation>>>,
    thread: Option<JoinHandle<()>>,
}

impl Communicator {
    pub(crate) fn begin(settings: Settings) -> Self {
        let (rank, ranks) = (settings.rank, settings.ranks);
        let shared = Arc::new(Shared::default());
        let (exchanges, waiting) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || work(&settings, &of_thread, &waiting));
        Self { rank, ranks, shared, exchanges: Some(exchanges), thread: Some(thread) }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn has(&self, rank: usize) -> bool {
        rank < self.ranks
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.shared.has_begun.load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> c_int {
        match self.shared.error.load(Ordering::Acquire) {
            SUCCESS if !self.has_begun() => IN_PROGRESS,
            SUCCESS if self.shared.waiting.load(Ordering::Acquire) > 0 => IN_PROGRESS,
            state => state,
        }
    }

    /// Starts an exchange.
    pub(crate) fn start(&self, exchange: Vec<Operation>) {
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        // Its thread ends only when this is dropped, or by a panic, which shows as a time-out.
        let _ = self.exchanges.iter().try_for_each(|exchanges| exchanges.send(exchange.clone()));
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.shared.is_aborted.store(true, Ordering::Relaxed);
        self.exchanges = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic in it has been printed
        }
    }
}

fn work(settings: &Settings, shared: &Shared, exchanges: &Receiver<Vec<Operation>>) {
    let planted = Mistake::of_environment().filter(|mistake| mistake.rank == settings.rank);
    let sockets = match Sockets::connect(settings, shared) {
        Ok(sockets) => sockets,
        Err(code) => return shared.fail(code),
    };
    shared.has_begun.store(true, Ordering::Release);
    for (number, exchange) in exchanges.iter().enumerate() {
        thread::sleep(LAUNCH);
        let Some(stream) = exchange.first().map(|operation| operation.stream) else { continue };
        // SAFETY: the caller has named an emulated device's stream, which begins with this number
        // and lives until the exchange has ended or the communicator is aborted.
        let under_way = unsafe { &*(stream as *const AtomicU32) };
        let kind = planted.filter(|mistake| number >= mistake.after).map(|mistake| mistake.kind);
        let lost = kind == Some(Kind::Lost) && planted.is_some_and(|it| it.after == number);
        let is_ordered = kind != Some(Kind::Unordered);
        if is_ordered {
            under_way.fetch_add(1, Ordering::AcqRel);
        }
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
        let all = exchange.iter().all(|operation| operation.stream == stream);
        let result = match kind {
            _ if !all => Err(INVALID_USAGE),
            Some(Kind::Failing) => Err(REMOTE_ERROR),
            _ => carry_out(&exchange, &sockets, shared, kind, lost),
        };
        if let Err(code) = result {
            shared.fail(code);
            while !shared.is_aborted() {
                thread::sleep(PAUSE);
            }
        }
        if is_ordered {
            under_way.fetch_sub(1, Ordering::AcqRel);
        }
        if result.is_err() {
            return;
        }
    }
}

/// Moves the bytes of an exchange: in order for each peer and direction, and all these at a time.
fn carry_out(
    exchange: &[Operation],
    sockets: &Sockets,
    shared: &Shared,
    mistake: Option<Kind>,
    loses: bool,
) -> Result<(), c_int> {
    let mut by_peer: BTreeMap<(usize, bool), Vec<Operation>> = BTreeMap::new();
    for operation in exchange {
        by_peer.entry((operation.peer, operation.sends)).or_default().push(*operation);
    }
    if loses {
        by_peer.retain(|(_, sends), _| !sends);
    }
    let move_one = |operation: &Operation| {
        let Operation { sends, address, bytes, kind, peer, .. } = *operation;
        let direction = if sends { &sockets.to } else { &sockets.from };
        let Some(socket) = &direction[peer] else { return Err(INVALID_USAGE) };
        if mistake == Some(Kind::Unordered) {
            thread::sleep(LATE);
            return move_late(socket, operation, shared);
        }
        if bytes == 0 {
            return if sends {
                wire::send(socket, kind, &[], shared)
            } else {
                wire::receive(socket, kind, &mut [], shared)
            };
        }
        if sends {
            // SAFETY: the caller of ncclSend vouches for the memory until the stream has passed.
            let memory = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
            wire::send(socket, kind, memory, shared)
        } else {
            // SAFETY: as above, of ncclRecv.
            let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
            wire::receive(socket, kind, memory, shared)
        }
    };
    let move_all = |operations: &Vec<Operation>| operations.iter().try_for_each(&move_one);
    thread::scope(|scope| {
        let threads: Vec<_> =
            by_peer.values().map(|operations| scope.spawn(|| move_all(operations))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(REMOTE_ERROR)));
        joined.fold(Ok(()), Result::and)
    })?;
    if mistake == Some(Kind::Swapped) {
        swap(exchange);
    }
    Ok(())
}

/// Swaps the bytes of the first two messages that came, as far as the shorter reaches.
fn swap(exchange: &[Operation]) {
    let mut came = exchange.iter().filter(|operation| !operation.sends);
    let (Some(first), Some(second)) = (came.next(), came.next()) else { return };
    let (first, second, bytes) = (first.address, second.address, first.bytes.min(second.bytes));
    // SAFETY: both ranges have been written just now, and do not overlap.
    unsafe { ptr::swap_nonoverlapping(first as *mut u8, second as *mut u8, bytes) };
}

/// Moves bytes of memory that may be gone by now: the system looks at it.
fn move_late(
    socket: &std::os::unix::net::UnixStream,
    operation: &Operation,
    shared: &Shared,
) -> Result<(), c_int> {
    let mut bytes = vec![0u8; operation.bytes];
    let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs =
        libc::iovec { iov_base: operation.address as *mut c_void, iov_len: operation.bytes };
    // SAFETY: the system checks the range in the other memory, this process's own.
    let copy = |call: CopyMemory| unsafe {
        call(libc::getpid(), &raw const own, 1, &raw const theirs, 1, 0);
    };
    if operation.sends {
        copy(libc::process_vm_readv);
        return wire::send(socket, operation.kind, &bytes, shared);
    }
    wire::receive(socket, operation.kind, &mut bytes, shared)?;
    copy(libc::process_vm_writev);
    Ok(())
}

/// `process_vm_readv` and `process_vm_writev`.
type CopyMemory = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;
