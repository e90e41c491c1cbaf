//! Unpacks a wheel's libraries.

use super::Package;
use crate::gpu::Error;
use isentrope_files::{AtomicDirectory, NewFile};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;

/// Most bytes of one unpacked file, and of all together. The largest real one has some 700 MB.
const FILE_LIMIT: u64 = 2 << 30;
const ALL_LIMIT: u64 = 4 << 30;
/// Most entries of an archive.
const ENTRIES: usize = 10_000;

/// Unpacks the needed libraries and the licence into a new directory, which appears whole. An
/// entry's name decides whether it is unpacked, but not where.
pub(super) fn unpack(archive: &Path, package: Package, directory: &Path) -> Result<(), Error> {
    let failed =
        |what: &dyn std::fmt::Display| Error::Install(format!("{}: {what}", archive.display()));
    let file = File::open(archive).map_err(|error| failed(&error))?;
    let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|error| failed(&error))?;
    if zip.len() > ENTRIES {
        return Err(failed(&format_args!("{} entries are too many for a wheel", zip.len())));
    }
    let staged = AtomicDirectory::create(directory).map_err(|error| failed(&error))?;
    let mut left = ALL_LIMIT;
    let mut libraries = 0;
    for place in 0..zip.len() {
        let mut entry = zip.by_index(place).map_err(|error| failed(&error))?;
        let path = entry.name().map_err(|error| failed(&error))?.into_owned();
        let Some(name) = wanted(&path, package) else { continue };
        if !entry.is_file() || entry.is_symlink() {
            return Err(failed(&format_args!("{path} is not a plain file")));
        }
        let size = entry.size();
        if size > FILE_LIMIT || size > left {
            return Err(failed(&format_args!("{path} is too large: {size} bytes")));
        }
        left -= size;
        libraries += usize::from(name != LICENCE);
        let mut to = NewFile::create(&staged.path().join(&name)).map_err(|error| failed(&error))?;
        let mut chunk = vec![0; 1 << 20];
        let mut written = 0;
        loop {
            let read =
                entry.read(&mut chunk).map_err(|error| failed(&format_args!("{name}: {error}")))?;
            if read == 0 {
                break;
            }
            written += read as u64;
            if written > size {
                return Err(failed(&format_args!("{name} is longer than the archive says")));
            }
            to.write(&chunk[..read]).map_err(|error| failed(&error))?;
        }
        if written < size {
            return Err(failed(&format_args!("{name} is shorter than the archive says")));
        }
        to.finish().map_err(|error| failed(&error))?;
    }
    if libraries == 0 {
        return Err(failed(&format_args!("none of {} is in it", package.libraries.join(", "))));
    }
    staged.commit().map_err(|error| failed(&error))
}

const LICENCE: &str = "License.txt";

/// The file name for an entry, if the entry is needed: a library of `nvidia/../lib`, or the licence
/// of the package.
fn wanted(entry: &str, package: Package) -> Option<String> {
    let parts: Vec<&str> = entry.split('/').collect();
    let name = *parts.last()?;
    if parts.iter().any(|part| part.is_empty() || *part == "..") || entry.contains('\\') {
        return None;
    }
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_library = parts.len() == 4
        && (parts[0], parts[2]) == ("nvidia", "lib")
        && package.libraries.iter().any(|start| name.starts_with(start));
    let is_licence = parts[0].ends_with(".dist-info") && name == LICENCE;
    (is_plain && (is_library || is_licence)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_and_the_licence_are_wanted() {
        let wanted = |entry| wanted(entry, Package::of(13)[0]);
        assert_eq!(wanted("nvidia/cu13/lib/libnvrtc.so.13").as_deref(), Some("libnvrtc.so.13"));
        assert_eq!(
            wanted("nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9").as_deref(),
            Some("libnvrtc-builtins.so.12.9")
        );
        assert_eq!(
            wanted("x-13.5.37.dist-info/licenses/License.txt").as_deref(),
            Some("License.txt")
        );
        for other in [
            "nvidia/cu13/include/nvrtc.h",
            "nvidia/cu13/lib/libnvrtc.alt.so.13",
            "nvidia/cu13/lib/libcublasLt.so.13",
            "nvidia/../lib/libnvrtc.so.13",
            "/nvidia/lib/libnvrtc.so.13",
            "../nvidia/cu13/lib/libnvrtc.so.13",
            "nvidia/cu13/lib/libnvrtc.so.13/../../x",
            "nvidia/cu13/lib/libnvrtc.so.\u{7}",
            "nvidia\\cu13/x/lib/libnvrtc.so.13",
        ] {
            assert_eq!(wanted(other), None, "{other}");
        }
    }
}
