//! Durable storage: files and directories that appear whole or not at all, locks, hashes and
//! checksums; and the path of the running program.
//!
//! To commit, the contents are synced, then renamed, then the directory is synced. So a crash
//! leaves either the old or the new contents.

mod atomic_directory;
mod atomic_file;
mod digest;
mod directory;
mod error;
mod input;
mod lock;
mod masked_crc;
mod new_file;
mod this_process;

pub use atomic_directory::AtomicDirectory;
pub use atomic_file::{AtomicFile, check_writable, partial, put_in_place, write_file, write_json};
pub use digest::{Digest, sha256, sha256_of_file};
pub use directory::{
    dangling, make_directory, names, parent, refuse_dangling, remove, sync_directory, sync_file,
};
pub use error::{Error, Result};
pub use input::{check_regular, open_regular, read_regular};
pub use lock::{Lock, is_locked, lock_directory, lock_file};
pub use masked_crc::masked_crc;
pub use new_file::NewFile;
pub use this_process::{is_ignored, this_program};
