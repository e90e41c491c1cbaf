//! A file as read-only memory. Weights are converted straight out of the page cache, so that
//! loading a model never holds a second copy of its files.

#![allow(unsafe_code, reason = "mapped bytes are only as constant as the file behind them")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

/// A read-only memory map of a whole file.
///
/// The file must not be changed in place or truncated while it is mapped: the operating system
/// would then show other bytes or end the process. Replacing it by renaming another file over it is
/// harmless, and is how isentrope itself writes.
#[derive(Debug)]
pub struct MappedFile {
    /// None for an empty file, which cannot be mapped.
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the regular file at `path` (symbolic links are followed).
    ///
    /// # Errors
    /// What the operating system says, and [`io::ErrorKind::InvalidInput`] for a directory, pipe or
    /// device.
    pub fn open(path: &Path) -> io::Result<Self> {
        // The type is checked before opening, because opening a pipe waits for its writer.
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the map is read-only and handed out only as `&[u8]` bounded by `self`. The type's
        // documentation demands that the file is not edited or truncated meanwhile.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { map: Some(map) })
    }

    /// The content of the file.
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Tells the kernel that the bytes of `range` have been copied and that their pages may leave
    /// this process, so that resident memory does not grow by the whole file. A later access reads
    /// them from the file again. It is advice: a range outside the file, a refusal or a system
    /// without such a call changes nothing.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = &self.map
            && range.start < range.end
            && range.end <= map.len()
        {
            // SAFETY: dropping pages loses only data that was written to them. These are clean
            // pages of a read-only file map, and the next access faults them in again with the same
            // content.
            let advised = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
            // Only memory use depends on it, so a refusal is ignored.
            drop(advised);
        }
        #[cfg(not(unix))]
        drop(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_their_release() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        let content: Vec<u8> = (0..100_003_u32).map(|i| (i * 7 % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = MappedFile::open(&path).unwrap();
        assert_eq!(file.bytes(), content);
        file.release(5_000..90_001);
        file.release(0..content.len());
        file.release(7..7);
        file.release(0..content.len() + 1);
        file.release(usize::MAX - 1..usize::MAX);
        assert_eq!(file.bytes(), content);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn released_pages_leave_resident_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        std::fs::write(&path, vec![1; 4 << 20]).unwrap();
        let file = MappedFile::open(&path).unwrap();
        let resident_kib = || {
            let address = format!("{:x}-", file.bytes().as_ptr() as usize);
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let of_map = maps.lines().skip_while(|line| !line.starts_with(&address));
            let rss = of_map.skip(1).find_map(|line| line.strip_prefix("Rss:")).unwrap();
            rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
        };
        assert_eq!(file.bytes().iter().map(|&byte| usize::from(byte)).sum::<usize>(), 4 << 20);
        assert!(resident_kib() >= 4096);
        file.release(0..4 << 20);
        assert_eq!(resident_kib(), 0);
    }

    #[test]
    fn an_empty_file_is_no_bytes_and_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        std::fs::write(&path, []).unwrap();
        let file = MappedFile::open(&path).unwrap();
        assert!(file.bytes().is_empty());
        file.release(0..1);
        assert_eq!(MappedFile::open(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(
            MappedFile::open(&dir.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
