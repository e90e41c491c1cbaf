//! Compiled kernels on disk.
//!
//! An entry is a file, named by the hash of everything that decides its content. It appears whole,
//! by a rename, so several programs may start at once: each makes a missing entry, with the same
//! content. An entry without the hash in its first line counts as absent. If all entries together
//! exceed the bound, the least recently used go.

use isentrope_files::{AtomicFile, Digest, make_directory, remove};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The beginning of an entry's first line. Entries of another form get another number.
const FORM: &str = "isentrope kernel 2";
/// Most bytes of all entries together.
const LIMIT: u64 = 256 << 20;

/// A directory of compiled kernels.
#[derive(Clone, Debug)]
pub struct KernelCache {
    directory: PathBuf,
    limit: u64,
}

impl KernelCache {
    /// The cache in a directory, which need not be there yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, limit: LIMIT }
    }

    /// The machine code under a key; `None` if the entry is absent or damaged. Marks its file as
    /// used now.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let cubin = parse(&bytes)?.to_vec();
        // If the directory is read-only, the order of removal does not matter.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(cubin)
    }

    /// Writes an entry, and removes the oldest entries beyond the limit.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    pub(super) fn put(&self, key: &str, cubin: &[u8]) -> isentrope_files::Result<()> {
        make_directory(&self.directory)?;
        let mut file = AtomicFile::create(&self.path(key))?;
        file.write(first_line(cubin).as_bytes())?;
        file.write(cubin)?;
        file.commit()?;
        self.shrink(key);
        Ok(())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(key).with_extension("kernel")
    }

    /// Removes the least recently used entries until the rest is within the limit. The entry under
    /// `kept` stays.
    fn shrink(&self, kept: &str) {
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "kernel"))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        let kept = self.path(kept);
        for (_, length, path) in entries {
            if bytes <= self.limit {
                break;
            }
            if path != kept && remove(&path).is_ok() {
                bytes -= length;
            }
        }
    }
}

/// The line before an entry's machine code, which has its hash.
fn first_line(cubin: &[u8]) -> String {
    let mut digest = Digest::sha256();
    digest.update(cubin);
    format!("{FORM} {}\n", digest.hex())
}

fn parse(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let (line, cubin) = bytes.split_at(end);
    (line == first_line(cubin).as_bytes()).then_some(cubin)
}

/// The hash of everything that decides the compiler's result. Each part counts with its length, so
/// that parts cannot be confused.
pub(super) fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Digest::sha256();
    for part in parts {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.hex()
}

/// The directory of compiled kernels, below the directory for everything of CUDA.
pub(in crate::gpu) fn directory(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn compiled(text: &str, bytes: usize) -> Vec<u8> {
        [text.as_bytes(), b"\n", &vec![7; bytes]].concat()
    }

    #[test]
    fn entries_come_back_whole_and_damaged_ones_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let cache = KernelCache::new(dir.path().join("a/b"));
        assert!(cache.get("k").is_none());
        cache.put("k", &compiled("two\nlines", 1000)).unwrap();
        assert_eq!(cache.get("k").unwrap(), compiled("two\nlines", 1000));
        let whole = fs::read(cache.path("k")).unwrap();
        for place in [0, 20, 90, 150, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(cache.path("k"), &damaged).unwrap();
            assert!(cache.get("k").is_none(), "byte {place}");
        }
        for length in [0, 10, 83, whole.len() - 1] {
            fs::write(cache.path("k"), &whole[..length]).unwrap();
            assert!(cache.get("k").is_none(), "{length} bytes");
        }
        cache.put("k", &compiled("again", 10)).unwrap();
        assert_eq!(cache.get("k").unwrap(), compiled("again", 10));
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = KernelCache { limit: 3500, ..KernelCache::new(dir.path().to_owned()) };
        let pause = || thread::sleep(Duration::from_millis(20));
        for key in ["a", "b", "c"] {
            cache.put(key, &compiled(key, 800)).unwrap();
            pause();
        }
        assert!(cache.get("a").is_some());
        pause();
        fs::write(dir.path().join("note"), vec![0; 5000]).unwrap();
        cache.put("d", &compiled("d", 800)).unwrap();
        let there = ["a", "b", "c", "d"].map(|key| cache.get(key).is_some());
        assert_eq!(there, [true, false, true, true]);
        // The newest entry stays, even if it alone is too large.
        cache.put("e", &compiled("e", 9000)).unwrap();
        assert!(
            cache.get("e").is_some()
                && cache.get("a").is_none()
                && dir.path().join("note").exists()
        );
    }

    #[test]
    fn many_writers_and_readers_see_whole_entries() {
        let dir = tempfile::tempdir().unwrap();
        let cache = KernelCache::new(dir.path().join("new"));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        cache.put("k", &compiled("same", 5000)).unwrap();
                        assert_eq!(cache.get("k").unwrap(), compiled("same", 5000));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
    }

    #[test]
    fn keys_tell_parts_apart() {
        assert_ne!(key(["ab", "c"]), key(["a", "bc"]));
        assert_ne!(key(["a"]), key(["a", ""]));
        assert_eq!(key(["a", "b"]).len(), 64);
    }
}
