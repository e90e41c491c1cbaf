//! Opening of files that someone else has written.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::{Error, Result, refuse_dangling};

/// Opens a regular file for reading and follows symbolic links. All inputs of commands go through
/// here: a FIFO would wait for a writer, a device might never end, and a directory would fail
/// without a clear cause.
///
/// # Errors
/// [`Error::Io`] when the file cannot be opened; of kind [`ErrorKind::InvalidInput`], naming the
/// kind of file, when it is not a regular file.
pub fn open_regular(path: &Path) -> Result<File> {
    // Checked before opening, which would already wait for the writer of a FIFO.
    let metadata = fs::metadata(path).or_else(|error| {
        if error.kind() == ErrorKind::NotFound {
            refuse_dangling(path)?;
        }
        Err(Error::at(path)(error))
    })?;
    check_regular(&metadata).map_err(Error::at(path))?;
    let file = File::open(path).map_err(Error::at(path))?;
    // Another file may have taken the name since.
    check_regular(&file.metadata().map_err(Error::at(path))?).map_err(Error::at(path))?;
    Ok(file)
}

/// Reads a whole regular file.
///
/// # Errors
/// As [`open_regular`]; of kind [`ErrorKind::FileTooLarge`], without reading further, when it has
/// more than `max_bytes`.
pub fn read_regular(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Error::at(path))?;
    if bytes.len() as u64 > max_bytes {
        let what = format!("larger than the limit of {max_bytes} bytes for such a file");
        return Err(Error::at(path)(io::Error::new(ErrorKind::FileTooLarge, what)));
    }
    Ok(bytes)
}

/// Refuses anything but a regular file.
///
/// # Errors
/// Of kind [`ErrorKind::InvalidInput`], naming the kind of file.
pub fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let what = format!("is {}, not a regular file", name(metadata.file_type()));
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

fn name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe (FIFO)",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}
