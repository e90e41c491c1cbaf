//! NCCL, which moves bytes between the GPUs of ranks. Of its functions only sends and receives are
//! used: sums in the order of NCCL's own would depend on the number of ranks and their wiring.
//!
//! Communicators do not block: every call returns at once, and a lost rank is noticed by the clock.

use super::search::OLDEST_NCCL;
use super::symbols::{self, functions};
use super::{Error, LibraryName, Search, Surroundings, Version};
use crate::device::{Device, Memory};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::size_of;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two polls.
const POLL_PAUSE: Duration = Duration::from_micros(20);
/// Number of first polls that only yield to other threads, and do not sleep.
const YIELDS_BEFORE_SLEEP: u32 = 100;

/// `ncclSuccess`.
const SUCCESS: c_int = 0;
/// `ncclInProgress`: the call goes on by itself.
const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
const BYTE: c_int = 1;

/// `ncclComm_t`.
type Handle = *mut c_void;

/// `ncclUniqueId`: names a communicator that is being made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    /// Its length.
    pub const BYTES: usize = 128;

    /// The id of these bytes, which another rank has sent; none if there are more or fewer.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes, to be sent to other ranks.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// `ncclConfig_t` as NCCL 2.14 has it. Later versions have more fields, and take this for what it
/// is by its size and version.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    /// The rest of the last 8 bytes, where later versions have a field: `NCCL_CONFIG_UNDEF_INT`.
    padding: c_int,
}

impl Config {
    fn without_blocking() -> Self {
        let size = size_of::<Self>();
        Self { size, magic: 0xcafe_beef, version: 2_14_00, blocking: 0, padding: c_int::MIN }
    }
}

functions! {
    /// NCCL's functions, which return a code that is 0 where all went well.
    struct Functions {
        ncclGetVersion(*mut c_int) -> c_int;
        ncclGetErrorString(c_int) -> *const c_char;
        ncclGetUniqueId(*mut UniqueId) -> c_int;
        ncclCommInitRankConfig(*mut Handle, c_int, UniqueId, c_int, *mut Config) -> c_int;
        ncclCommGetAsyncError(Handle, *mut c_int) -> c_int;
        ncclCommAbort(Handle) -> c_int;
        ncclGroupStart() -> c_int;
        ncclGroupEnd() -> c_int;
        ncclSend(*const c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        ncclRecv(*mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
    }
}

/// The library.
#[derive(Clone, Copy)]
pub struct Nccl {
    functions: Functions,
    version: Version,
}

impl Nccl {
    /// Looks for a copy. Whether it goes with the driver shows when ranks begin.
    pub fn search(surroundings: &Surroundings) -> (Option<Self>, Search) {
        Search::run(LibraryName::Nccl, surroundings, None, |path| {
            let nccl = load(path)?;
            Ok((nccl, nccl.version))
        })
    }

    /// Opens this copy.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: &Path) -> Result<Self, Error> {
        load(path).map_err(|why| Error::Library(format!("{}: {why}", path.display())))
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// An id for a new communicator.
    ///
    /// # Errors
    /// A sentence.
    pub fn unique_id(&self) -> Result<UniqueId, String> {
        let mut id = UniqueId([0; UniqueId::BYTES]);
        // SAFETY: the library writes the id.
        let code = unsafe { (self.functions.ncclGetUniqueId)(&raw mut id) };
        self.check(code).map(|()| id)
    }

    /// An error unless a call has ended well or goes on.
    fn check(&self, code: c_int) -> Result<(), String> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: the library takes any code, and returns a text that stays, or null.
        let text = unsafe { (self.functions.ncclGetErrorString)(code) };
        if text.is_null() {
            return Err(format!("NCCL {}: error {code}", self.version));
        }
        // SAFETY: the text ends with a zero byte.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        Err(format!("NCCL {}: {text}; NCCL_DEBUG=WARN says more", self.version))
    }
}

fn load(path: &Path) -> Result<Nccl, String> {
    let library = symbols::open(path)?;
    // Copies before 2.14 lack functions. The version says so more plainly than their names.
    let too_old = |lack: String| format!("it is older than NCCL {OLDEST_NCCL} ({lack})");
    let functions = Functions::load(library).map_err(too_old)?;
    let mut number = 0;
    // SAFETY: the library writes one number.
    let code = unsafe { (functions.ncclGetVersion)(&raw mut number) };
    let nccl = Nccl { functions, version: Version::of_nccl(number) };
    nccl.check(code).map(|()| nccl)
}

/// Bytes of a device's memory that go to a rank, or come from it.
#[derive(Clone, Copy)]
pub struct Transfer<'a> {
    /// The other rank.
    pub rank: usize,
    /// The memory.
    pub memory: &'a Memory,
    /// The first byte.
    pub at: usize,
    /// How many.
    pub bytes: usize,
}

/// A number of a rank or of ranks as NCCL takes it, which refuses what is too large.
fn int(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// The devices of all ranks, as NCCL connects them: what it moves, it moves in the order of the
/// device's stream.
pub struct Communicator {
    nccl: Nccl,
    device: Arc<dyn Device>,
    rank: usize,
    /// Longest time of the beginning, and of an exchange.
    patience: Mutex<Duration>,
    /// None once it was aborted.
    handle: Mutex<Option<Handle>>,
    /// Where the library stores the handle. Not a Box, whose owner alone could write to it.
    _slot: Arc<AtomicPtr<c_void>>,
}

// SAFETY: NCCL allows any thread to call it, one at a time, which the lock sees to.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl Communicator {
    /// Connects this rank's device to all ranks' devices. They call this together, with one id.
    ///
    /// # Errors
    /// A sentence: when the device has no stream for libraries, when NCCL refuses (two ranks on one
    /// GPU, a driver that is too old), or when a rank does not come within `patience`.
    pub fn begin(
        nccl: Nccl,
        device: Arc<dyn Device>,
        id: &UniqueId,
        (rank, ranks): (usize, usize),
        patience: Duration,
    ) -> Result<Self, String> {
        // NCCL takes the GPU whose context the thread has.
        device.library_stream().ok_or("the device has no stream for libraries")?;
        let slot = Arc::new(AtomicPtr::new(ptr::null_mut()));
        let mut config = Config::without_blocking();
        // SAFETY: the library reads the configuration before it returns. It stores the handle, and
        // its thread that connects stores the same once more, later: the slot stays until the
        // communicator is aborted, which ends that thread.
        let code = unsafe {
            (nccl.functions.ncclCommInitRankConfig)(
                slot.as_ptr(),
                int(ranks),
                *id,
                int(rank),
                &raw mut config,
            )
        };
        let handle = slot.load(Ordering::Acquire);
        let handle = Mutex::new((!handle.is_null()).then_some(handle));
        let patience = Mutex::new(patience);
        // When it is dropped, it is aborted, also if the call has made it and then failed.
        let this = Self { nccl, device, rank, patience, handle, _slot: slot };
        nccl.check(code)?;
        let locked = this.lock();
        let begun = locked.ok_or("NCCL has made no communicator".to_owned()).and_then(|handle| {
            this.wait(|| Ok(!this.is_in_progress(handle)?), "not all ranks have begun")
        });
        drop(locked);
        begun.map(|()| this)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Gives exchanges this long from now on.
    pub fn set_patience(&self, patience: Duration) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
    }

    /// The library's version.
    pub fn version(&self) -> Version {
        self.nccl.version
    }

    /// Sends and receives, behind all earlier work of the device or of its second stream, and waits
    /// for the end. Of two ranks, one sends what the other receives, in the same order. Transfers
    /// without bytes are left out.
    ///
    /// # Errors
    /// A sentence: NCCL's, or that names the other ranks if they have not come in time. Then the
    /// communicator is aborted: nothing moves any more, and the device may be used again.
    ///
    /// # Panics
    /// When a transfer reaches beyond its memory.
    pub fn exchange(
        &self,
        device: &dyn Device,
        sends: &[Transfer<'_>],
        receives: &[Transfer<'_>],
    ) -> Result<(), String> {
        let mut locked = self.lock();
        let handle = locked.ok_or("NCCL was given up after an error")?;
        let mut peers: Vec<usize> =
            sends.iter().chain(receives).map(|transfer| transfer.rank).collect();
        peers.sort_unstable();
        peers.dedup();
        let peers: Vec<String> = peers.iter().map(|peer| format!("rank {peer}")).collect();
        let what = format!("bytes to or from {}", peers.join(" or "));
        let named = |why: String| format!("{what}: {why}");
        let is_over = || Ok(!self.is_in_progress(handle).map_err(named)? && device.is_idle());
        let started = self.start(handle, device, sends, receives).map_err(named);
        let result = started.and_then(|()| self.wait(is_over, &format!("{what} have not moved")));
        if result.is_err() {
            *locked = None;
            self.abort(handle);
        }
        result
    }

    /// Puts an exchange into the stream, once the library no longer says that it is in progress.
    fn start(
        &self,
        handle: Handle,
        device: &dyn Device,
        sends: &[Transfer<'_>],
        receives: &[Transfer<'_>],
    ) -> Result<(), String> {
        let stream = device.library_stream().ok_or("the device has lost its stream")?;
        let functions = &self.nccl.functions;
        let address = |Transfer { memory, at, bytes, .. }: &Transfer<'_>| {
            let end = at.checked_add(*bytes).filter(|end| *end <= memory.bytes());
            assert!(end.is_some(), "bytes {at} .. + {bytes} of a memory of {}", memory.bytes());
            (memory.address() + *at as u64) as *mut c_void
        };
        // SAFETY: the function takes nothing.
        self.nccl.check(unsafe { (functions.ncclGroupStart)() })?;
        let mut put = Ok(());
        for transfer in sends.iter().filter(|transfer| transfer.bytes > 0) {
            // SAFETY: the memory has these bytes, and is borrowed until the exchange is over or
            // aborted; nothing else uses it meanwhile.
            put = put.and(self.nccl.check(unsafe {
                let from = address(transfer).cast_const();
                let to = int(transfer.rank);
                (functions.ncclSend)(from, transfer.bytes, BYTE, to, handle, stream)
            }));
        }
        for transfer in receives.iter().filter(|transfer| transfer.bytes > 0) {
            // SAFETY: as above.
            put = put.and(self.nccl.check(unsafe {
                let (to, from) = (address(transfer), int(transfer.rank));
                (functions.ncclRecv)(to, transfer.bytes, BYTE, from, handle, stream)
            }));
        }
        // The group ends even if a call in it has failed.
        // SAFETY: the function takes nothing.
        let ended = self.nccl.check(unsafe { (functions.ncclGroupEnd)() });
        put.and(ended)
    }

    /// Whether the last call has not done its work on the host yet.
    fn is_in_progress(&self, handle: Handle) -> Result<bool, String> {
        let mut state = SUCCESS;
        // SAFETY: the communicator was not aborted; the library writes one number.
        let code = unsafe { (self.nccl.functions.ncclCommGetAsyncError)(handle, &raw mut state) };
        self.nccl.check(code).and_then(|()| self.nccl.check(state))?;
        Ok(state == IN_PROGRESS)
    }

    /// Waits until `is_over`; `late` is the sentence if it does not come.
    fn wait(
        &self,
        mut is_over: impl FnMut() -> Result<bool, String>,
        late: &str,
    ) -> Result<(), String> {
        let limit = *self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, mut asked) = (Instant::now(), 0);
        while !is_over()? {
            if begun.elapsed() > limit {
                return Err(format!(
                    "NCCL {}: {late} within {} s (see ranks.timeout_s)",
                    self.nccl.version,
                    limit.as_secs()
                ));
            }
            if asked < YIELDS_BEFORE_SLEEP {
                asked += 1;
                thread::yield_now();
            } else {
                thread::sleep(POLL_PAUSE);
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the communicator, which nobody uses again.
    fn abort(&self, handle: Handle) {
        self.device.library_stream(); // gives this thread the GPU's context
        // An error here says nothing new. SAFETY: the library made the handle, and it is not used
        // again.
        unsafe { (self.nccl.functions.ncclCommAbort)(handle) };
    }
}

impl Drop for Communicator {
    /// Aborts the communicator: what it moved was waited for, and `ncclCommDestroy` may wait for
    /// other ranks.
    fn drop(&mut self) {
        let handle = self.lock().take();
        handle.into_iter().for_each(|handle| self.abort(handle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first fields of NVIDIA's `ncclConfig_t`: a size_t, two unsigned ints, an int. No byte is
    /// left unwritten.
    #[test]
    fn the_configuration_lies_as_the_header_has_it() {
        assert_eq!(size_of::<Config>(), 24);
        let config = Config::without_blocking();
        assert_eq!(std::mem::offset_of!(Config, blocking), 16);
        assert_eq!(std::mem::offset_of!(Config, padding) + size_of::<c_int>(), 24);
        assert_eq!((config.size, config.version, config.blocking), (24, 21_400, 0));
        assert_eq!(size_of::<UniqueId>(), 128);
        assert!(UniqueId::of(&[0; 127]).is_none() && UniqueId::of(&[1; 128]).is_some());
    }
}
