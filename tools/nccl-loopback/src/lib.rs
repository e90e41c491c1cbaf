//! NCCL's interface between processes or threads of one machine that have emulated GPUs, for tests
//! alone. Bytes move over Unix sockets.
//!
//! It keeps to what NCCL documents: calls between `ncclGroupStart` and `ncclGroupEnd` are one
//! exchange, which begins after `ncclGroupEnd` has returned; it is carried out in the order of the
//! emulated stream (`tools/cuda-emulator/src/library_stream.rs`), and sends and receives of one
//! exchange do not wait for each other. It is stricter where NCCL leaves open what happens: a send
//! ends only when its receive has taken all bytes, and a receive of another length or type than its
//! send is an error. It refuses ranks that are none, a rank that comes twice, and two ranks on one
//! device ([`loopback_device`]).
//!
//! [`mistake`] lists the mistakes that `ISENTROPE_LOOPBACK_MISTAKE` plants.
#![allow(unsafe_code, reason = "a C interface, and memory by address")]
#![allow(non_snake_case, reason = "NCCL's names")]

mod communicator;
pub mod mistake;
mod wire;

use communicator::{Communicator, Operation, Settings};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Results, by NCCL's names.
pub mod result {
    use std::ffi::c_int;

    /// All is well.
    pub const SUCCESS: c_int = 0;
    /// A socket has failed.
    pub const SYSTEM_ERROR: c_int = 2;
    /// An argument is wrong.
    pub const INVALID_ARGUMENT: c_int = 4;
    /// The interface is used in a wrong way.
    pub const INVALID_USAGE: c_int = 5;
    /// Another rank has failed.
    pub const REMOTE_ERROR: c_int = 6;
    /// The call goes on by itself.
    pub const IN_PROGRESS: c_int = 7;
}

use result::{IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, SUCCESS};

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId(pub [u8; 128]);

/// The beginning of `ncclConfig_t`.
#[repr(C)]
pub struct Config {
    /// Bytes of the whole.
    pub size: usize,
    /// `0xcafebeef`.
    pub magic: c_uint,
    /// The version of NCCL that the program knows.
    pub version: c_uint,
    /// Whether calls block. This library has no such calls.
    pub blocking: c_int,
}

/// The version that it says it is: 2.99.0.
const VERSION: c_int = 29_900;

thread_local! {
    /// The open groups of this thread, and the operations in them.
    static GROUPS: Cell<u32> = const { Cell::new(0) };
    static OPERATIONS: RefCell<Vec<(usize, Operation)>> = const { RefCell::new(Vec::new()) };
    /// The device of this thread.
    static DEVICE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A number that this process has used for nothing else.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Names the device of this thread's communicators, as `cudaSetDevice` would. Without a name every
/// communicator has a device of its own.
///
/// # Safety
/// The name ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loopback_device(name: *const c_char) {
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    DEVICE.set(Some(name));
}

/// See NCCL.
///
/// # Safety
/// There is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    if version.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's.
    unsafe { version.write(VERSION) };
    SUCCESS
}

/// See NCCL.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = match code {
        SUCCESS => c"no error",
        result::SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        result::REMOTE_ERROR => c"remote process exited or there was a network error",
        IN_PROGRESS => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// See NCCL.
///
/// # Safety
/// There is room for an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    if id.is_null() {
        return INVALID_ARGUMENT;
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = format!("isentrope-loopback-{}-{time}-{}", std::process::id(), next());
    let mut bytes = [0; 128];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the caller's.
    unsafe { id.write(UniqueId(bytes)) };
    SUCCESS
}

/// See NCCL.
///
/// # Safety
/// There is room for a handle, and a whole configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    handle: *mut *mut c_void,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *const Config,
) -> c_int {
    if handle.is_null() || config.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's.
    unsafe { handle.write(ptr::null_mut()) };
    // SAFETY: the caller's.
    let Config { size, magic, version, blocking } = unsafe { config.read() };
    let is_config = size >= size_of::<Config>() && magic == 0xcafe_beef && version >= 21_400;
    if !is_config || blocking != 0 || ranks < 1 || !(0..ranks).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    let name = id.0.split(|byte| *byte == 0).next().unwrap_or_default();
    let Ok(name) = std::str::from_utf8(name) else { return INVALID_ARGUMENT };
    let own = || format!("process {}, device {}", std::process::id(), next());
    let settings = Settings {
        name: name.to_owned(),
        rank: rank as usize,
        ranks: ranks as usize,
        device: DEVICE.with_borrow(Option::clone).unwrap_or_else(own),
    };
    let communicator = Box::new(Communicator::begin(settings));
    // SAFETY: the caller's.
    unsafe { handle.write(Box::into_raw(communicator).cast()) };
    IN_PROGRESS
}

/// The communicator behind a handle.
///
/// # Safety
/// `ncclCommInitRankConfig` has made it, and it was not aborted.
unsafe fn communicator<'a>(handle: *mut c_void) -> Option<&'a Communicator> {
    // SAFETY: the caller's.
    unsafe { handle.cast::<Communicator>().as_ref() }
}

/// See NCCL.
///
/// # Safety
/// A communicator that was not aborted, and room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(handle: *mut c_void, state: *mut c_int) -> c_int {
    // SAFETY: the caller's.
    let Some(communicator) = (unsafe { communicator(handle) }) else { return INVALID_ARGUMENT };
    if state.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's.
    unsafe { state.write(communicator.state()) };
    SUCCESS
}

/// See NCCL.
///
/// # Safety
/// A communicator that was not aborted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(handle: *mut c_void) -> c_int {
    if handle.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's: nobody uses it again.
    drop(unsafe { Box::from_raw(handle.cast::<Communicator>()) });
    SUCCESS
}

/// See NCCL.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    GROUPS.set(GROUPS.get() + 1);
    SUCCESS
}

/// See NCCL.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    match GROUPS.get() {
        0 => return INVALID_USAGE,
        open => GROUPS.set(open - 1),
    }
    if GROUPS.get() > 0 {
        return SUCCESS;
    }
    let mut all = OPERATIONS.take();
    let mut code = SUCCESS;
    while let Some(&(handle, _)) = all.first() {
        let (own, others): (Vec<_>, _) = all.into_iter().partition(|(other, _)| *other == handle);
        all = others;
        let exchange = own.into_iter().map(|(_, operation)| operation).collect();
        // SAFETY: the operations' callers vouch for the handle until the group ends.
        match unsafe { communicator(handle as *mut c_void) } {
            Some(communicator) => {
                communicator.start(exchange);
                code = IN_PROGRESS;
            }
            None => return INVALID_ARGUMENT,
        }
    }
    code
}

/// See NCCL.
///
/// # Safety
/// A communicator that was not aborted, an emulated device's stream, and as much memory, which
/// nobody else uses until the stream has come so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    kind: c_int,
    to: c_int,
    handle: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { add(true, from as usize, (count, kind), to, handle, stream) }
}

/// See NCCL.
///
/// # Safety
/// As [`ncclSend`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    kind: c_int,
    from: c_int,
    handle: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { add(false, to as usize, (count, kind), from, handle, stream) }
}

/// Adds an operation to the open group, or makes it an exchange of its own.
///
/// # Safety
/// As [`ncclSend`].
unsafe fn add(
    sends: bool,
    address: usize,
    (count, kind): (usize, c_int),
    peer: c_int,
    handle: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    let Some(communicator) = (unsafe { communicator(handle) }) else { return INVALID_ARGUMENT };
    // ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, and floats of 2, 4, 8, 2.
    const BYTES: [usize; 10] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2];
    let Some(&bytes) = usize::try_from(kind).ok().and_then(|kind| BYTES.get(kind)) else {
        return INVALID_ARGUMENT;
    };
    let Some(peer) = usize::try_from(peer).ok().filter(|peer| communicator.has(*peer)) else {
        return INVALID_ARGUMENT;
    };
    let Some(bytes) = count.checked_mul(bytes) else { return INVALID_ARGUMENT };
    if stream.is_null() || (address == 0 && bytes > 0) {
        return INVALID_ARGUMENT;
    }
    // NCCL takes a send to itself beside its receive, which nothing here needs.
    if peer == communicator.rank() {
        return INVALID_USAGE;
    }
    match communicator.state() {
        SUCCESS => {}
        // In a group, an earlier exchange may still begin.
        IN_PROGRESS if communicator.has_begun() => {}
        IN_PROGRESS => return INVALID_USAGE,
        failed => return failed,
    }
    let operation = Operation { sends, address, bytes, kind, peer, stream: stream as usize };
    let _ = ncclGroupStart();
    OPERATIONS.with_borrow_mut(|operations| operations.push((handle as usize, operation)));
    ncclGroupEnd()
}
