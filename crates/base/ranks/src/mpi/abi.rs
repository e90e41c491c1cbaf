//! The binary interfaces of MPI libraries: which one a library has, and what its functions and
//! constants are.
//!
//! There are two. Open MPI's handles are addresses of objects in the library. MPICH's, shared by
//! Intel MPI and Cray MPICH, are numbers of 32 bits. The constants below stand in the `mpi.h` of
//! Open MPI 4.1 and 5.0, and of MPICH 4.0 and 5.0.

use crate::error::{Error, Result};
use crate::launch::Family;
use libloading::os::unix::{Library, Symbol};
use std::ffi::{c_char, c_int, c_void};

/// A handle of a communicator, a datatype or a request, which have the same size in each interface.
pub(super) trait Handle: Copy + Send + 'static {
    /// A request's value before the library overwrites it.
    const UNSET: Self;
}

impl Handle for c_int {
    const UNSET: Self = 0;
}

/// An address.
impl Handle for usize {
    const UNSET: Self = 0;
}

type InitThread =
    unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
type OfComm<H, T> = unsafe extern "C" fn(H, T) -> c_int;
type Isend<H> = unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int;
type Irecv<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int;
type Testall<H> = unsafe extern "C" fn(c_int, *mut H, *mut c_int, *mut c_void) -> c_int;
type Iallgatherv<H> = unsafe extern "C" fn(
    *const c_void,
    c_int,
    H,
    *mut c_void,
    *const c_int,
    *const c_int,
    H,
    H,
    *mut H,
) -> c_int;
type Ibcast<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, H, *mut H) -> c_int;
type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// The functions and constants of a library.
pub(super) struct Calls<H> {
    pub init_thread: InitThread,
    pub finalize: unsafe extern "C" fn() -> c_int,
    pub abort: OfComm<H, c_int>,
    pub comm_rank: OfComm<H, *mut c_int>,
    pub comm_size: OfComm<H, *mut c_int>,
    pub isend: Isend<H>,
    pub irecv: Irecv<H>,
    pub testall: Testall<H>,
    pub iallgatherv: Iallgatherv<H>,
    pub ibcast: Ibcast<H>,
    /// MPI_COMM_WORLD.
    pub world: H,
    /// MPI_BYTE.
    pub byte: H,
    /// MPI_STATUSES_IGNORE, a constant in the place of an address.
    pub no_statuses: usize,
}

impl<H: Handle> Calls<H> {
    fn new(
        library: &Library,
        world: H,
        byte: H,
        no_statuses: usize,
    ) -> Result<Self, libloading::Error> {
        // SAFETY: the MPI standard declares the functions with these types, and `recognise` has
        // found out which handles the library has.
        unsafe {
            Ok(Self {
                init_thread: *library.get(b"MPI_Init_thread\0")?,
                finalize: *library.get(b"MPI_Finalize\0")?,
                abort: *library.get(b"MPI_Abort\0")?,
                comm_rank: *library.get(b"MPI_Comm_rank\0")?,
                comm_size: *library.get(b"MPI_Comm_size\0")?,
                isend: *library.get(b"MPI_Isend\0")?,
                irecv: *library.get(b"MPI_Irecv\0")?,
                testall: *library.get(b"MPI_Testall\0")?,
                iallgatherv: *library.get(b"MPI_Iallgatherv\0")?,
                ibcast: *library.get(b"MPI_Ibcast\0")?,
                world,
                byte,
                no_statuses,
            })
        }
    }
}

impl Calls<c_int> {
    pub fn of_mpich(library: &Library) -> Result<Self, libloading::Error> {
        Self::new(library, 0x4400_0000, 0x4c00_010d, 1)
    }
}

impl Calls<usize> {
    pub fn of_open_mpi(library: &Library) -> Result<Self, libloading::Error> {
        let address = |name: &[u8]| {
            // SAFETY: only the address is taken; the object behind it is the library's.
            unsafe { library.get::<*mut c_void>(name) }.map(|symbol| symbol.into_raw() as usize)
        };
        let (world, byte) = (address(b"ompi_mpi_comm_world\0")?, address(b"ompi_mpi_byte\0")?);
        Self::new(library, world, byte, 0)
    }
}

/// The family whose interface a library has, and the library's own name; [`Error::Start`] when it
/// has neither interface.
pub(super) fn recognise(library: &Library, path: &str) -> Result<(Family, String)> {
    let not_known = |what: &str| {
        Error::Start(format!(
            "{path} {what}: name Open MPI, MPICH, Intel MPI or another with their interface by \
             ISENTROPE_MPI"
        ))
    };
    let version = version(library).ok_or_else(|| not_known("is no MPI library"))?;
    // SAFETY: only whether there is such an object is asked.
    if unsafe { library.get::<*mut c_void>(b"ompi_mpi_comm_world\0") }.is_ok() {
        return Ok((Family::OpenMpi, version));
    }
    let lower = version.to_lowercase();
    if ["mpich", "intel", "mvapich", "parastation"].iter().any(|known| lower.contains(known)) {
        return Ok((Family::Mpich, version));
    }
    Err(not_known(&format!("calls itself {version:?}, which is not known here")))
}

/// MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is less.
const VERSION_BYTES: usize = 8192;

/// The first line of a library's own name and version.
fn version(library: &Library) -> Option<String> {
    // SAFETY: the type is the function's in the MPI standard, the same in every interface.
    let get: Symbol<GetLibraryVersion> =
        unsafe { library.get(b"MPI_Get_library_version\0") }.ok()?;
    let (mut text, mut length) = (vec![0u8; VERSION_BYTES], 0);
    // SAFETY: it may be called before MPI is initialised, and writes at most as much as every
    // interface allows.
    let code = unsafe { get(text.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).ok()?.min(VERSION_BYTES);
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let line = text.trim_end_matches('\0').lines().next()?;
    // `MPICH Version:      5.0.2`; `Open MPI v4.1.4, package: Debian OpenMPI, ident: ...`.
    let words: Vec<&str> = line.split(',').next()?.split_whitespace().collect();
    (code == 0).then(|| words.join(" ").replace("Version: ", ""))
}
