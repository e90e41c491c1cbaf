//! Calls of an MPI library.

use super::abi::{Calls, Handle};
use crate::error::{Error, Result};
use std::ffi::{c_int, c_void};
use std::ptr;

/// MPI_THREAD_SERIALIZED: several threads call, one at a time.
const SERIALIZED: c_int = 2;

/// One rank's arguments of an all-gather.
pub(super) struct AllGatherArguments<'a> {
    pub own: &'a [u8],
    pub all: &'a mut [u8],
    /// Length and place in `all` of each rank's part, `[ranks]`.
    pub lengths: &'a [c_int],
    pub places: &'a [c_int],
}

impl<H: Handle> Calls<H> {
    /// Initialises the library, once in a process. Returns this rank and the number of ranks. The
    /// error is a sentence.
    pub fn begin(&self) -> Result<(usize, usize), String> {
        let mut provided = 0;
        // SAFETY: the library takes no arguments as null, and writes one number.
        let code = unsafe {
            (self.init_thread)(ptr::null_mut(), ptr::null_mut(), SERIALIZED, &raw mut provided)
        };
        if code != 0 {
            return Err(format!("MPI_Init_thread says {code}"));
        }
        if provided < SERIALIZED {
            return Err("it allows no calls from several threads (MPI_THREAD_SERIALIZED)".into());
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the library is initialised, and writes one number each.
        let codes = unsafe {
            [
                (self.comm_rank)(self.world, &raw mut rank),
                (self.comm_size)(self.world, &raw mut size),
            ]
        };
        match (usize::try_from(rank), usize::try_from(size)) {
            (Ok(rank), Ok(size)) if codes == [0, 0] && rank < size => Ok((rank, size)),
            _ => Err(format!("it says that this is rank {rank} of {size}")),
        }
    }

    /// Starts to send bytes.
    ///
    /// # Safety
    /// The bytes neither move, change nor go before the request has ended.
    pub unsafe fn send(&self, bytes: &[u8], to: usize, tag: c_int) -> Result<H> {
        let (to, count, mut request) = (int(to)?, int(bytes.len())?, H::UNSET);
        let from: *const c_void = bytes.as_ptr().cast();
        // SAFETY: the bytes are there, and stay, as the caller promises.
        let code =
            unsafe { (self.isend)(from, count, self.byte, to, tag, self.world, &raw mut request) };
        checked("MPI_Isend", code).map(|()| request)
    }

    /// Starts to receive bytes.
    ///
    /// # Safety
    /// The bytes neither move, go nor are looked at before the request has ended.
    pub unsafe fn receive(&self, bytes: &mut [u8], from: usize, tag: c_int) -> Result<H> {
        let (from, count, mut request) = (int(from)?, int(bytes.len())?, H::UNSET);
        let to: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: the bytes are the library's alone until then, as the caller promises.
        let code =
            unsafe { (self.irecv)(to, count, self.byte, from, tag, self.world, &raw mut request) };
        checked("MPI_Irecv", code).map(|()| request)
    }

    /// Starts an all-gather.
    ///
    /// # Safety
    /// As [`send`](Self::send) for what goes, the lengths and the places, and as
    /// [`receive`](Self::receive) for what comes. There are as many lengths and places as ranks,
    /// and all parts lie in `all`.
    pub unsafe fn all_gather(&self, gathered: AllGatherArguments<'_>) -> Result<H> {
        let AllGatherArguments { own, all, lengths, places } = gathered;
        let (count, mut request) = (int(own.len())?, H::UNSET);
        // SAFETY: the caller keeps all memory that is read and written.
        let code = unsafe {
            (self.iallgatherv)(
                own.as_ptr().cast(),
                count,
                self.byte,
                all.as_mut_ptr().cast(),
                lengths.as_ptr(),
                places.as_ptr(),
                self.byte,
                self.world,
                &raw mut request,
            )
        };
        checked("MPI_Iallgatherv", code).map(|()| request)
    }

    /// Starts a broadcast.
    ///
    /// # Safety
    /// As [`receive`](Self::receive).
    pub unsafe fn broadcast(&self, bytes: &mut [u8], from: usize) -> Result<H> {
        let (from, count, mut request) = (int(from)?, int(bytes.len())?, H::UNSET);
        let to: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: the bytes are the library's alone until then, as the caller promises.
        let code =
            unsafe { (self.ibcast)(to, count, self.byte, from, self.world, &raw mut request) };
        checked("MPI_Ibcast", code).map(|()| request)
    }

    /// Whether all of these have ended.
    ///
    /// # Safety
    /// They are requests of this library, which it has last written itself.
    pub unsafe fn have_ended(&self, requests: &mut [H]) -> Result<bool> {
        let (count, mut ended) = (int(requests.len())?, 0);
        let no_statuses = ptr::without_provenance_mut(self.no_statuses);
        // SAFETY: the library writes over requests that have ended, and one number. For statuses it
        // has its own address of none.
        let code =
            unsafe { (self.testall)(count, requests.as_mut_ptr(), &raw mut ended, no_statuses) };
        checked("MPI_Testall", code).map(|()| ended != 0)
    }

    /// Ends the library.
    ///
    /// # Safety
    /// No request is under way, and nothing is called after this.
    pub unsafe fn end(&self) -> Result<()> {
        // SAFETY: as the caller promises.
        checked("MPI_Finalize", unsafe { (self.finalize)() })
    }
}

fn checked(function: &str, code: c_int) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(Error::Engine(format!("{function} has failed with code {code}")))
    }
}

/// As MPI counts.
pub(super) fn int(number: usize) -> Result<c_int> {
    c_int::try_from(number)
        .map_err(|_| Error::Engine(format!("{number} is more than MPI counts to")))
}
