//! Fetches NVIDIA's libraries from a Python package index, as `pip install` does, but without
//! Python.
//!
//! ```text
//! <cache>/downloads/<wheel>.incomplete     a wheel so far
//! <cache>/libraries/<package>-<version>/   its libraries and licence; there whole or not at all
//! <cache>/install.lock                     held while one process installs
//! ```
//!
//! A wheel is a zip archive. It is unpacked only if its SHA-256 is the index's, and only its
//! libraries and its licence are unpacked.

mod client;
mod download;
mod index;
mod wheel;

use super::search::{is_hidden, list};
use super::{Error, Surroundings};
use client::Client;
use isentrope_files::{make_directory, remove};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Python's own index. Another index is named as for pip.
const INDEX: &str = "https://pypi.org/simple";
const INDEX_VARIABLE: &str = "PIP_INDEX_URL";
/// Certificate authorities to trust, as for curl and pip.
const CERTIFICATES_VARIABLE: &str = "SSL_CERT_FILE";

/// Receives the progress of an installation. `()` ignores it.
pub trait Progress {
    /// `done` of the `total` bytes of `file` are on disk.
    fn advance(&self, file: &str, done: u64, total: u64);
    /// Something worth a line that does not stop the installation.
    fn warn(&self, message: &str);
}

impl Progress for () {
    fn advance(&self, _file: &str, _done: u64, _total: u64) {}
    fn warn(&self, _message: &str) {}
}

/// A package of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name on the index.
    pub name: &'static str,
    /// Its major version to take.
    pub major: u32,
    /// Beginnings of the names of the libraries that are needed.
    libraries: &'static [&'static str],
}

impl Package {
    /// The packages for a driver of CUDA's major version 12, or of a later one.
    pub fn of(driver_major: u32) -> [Self; 3] {
        let (nvrtc, cublas, nccl, major) = match driver_major {
            12 => ("nvidia-cuda-nvrtc-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12", 12),
            _ => ("nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-nccl-cu13", 13),
        };
        [
            Self { name: nvrtc, major, libraries: &["libnvrtc.so.", "libnvrtc-builtins.so."] },
            Self { name: cublas, major, libraries: &["libcublasLt.so."] },
            Self { name: nccl, major: 2, libraries: &["libnccl.so."] },
        ]
    }
}

/// Outcome of installing a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The package's name.
    pub package: &'static str,
    /// Its version.
    pub version: String,
    /// Directory of its libraries.
    pub directory: PathBuf,
    /// The names of the libraries.
    pub libraries: Vec<String>,
    /// Whether they were there already.
    pub was_there: bool,
}

/// Source and destination of a fetch.
pub struct Installer {
    index: String,
    cache: PathBuf,
    proxy: Option<ureq::Proxy>,
    certificates: Option<PathBuf>,
    /// The number of retries of a failed request, and the first pause before one.
    retries: u32,
    pause: Duration,
}

impl Installer {
    /// An installer with the environment's settings: `PIP_INDEX_URL` names another index,
    /// `HTTPS_PROXY` and its relatives a proxy, `SSL_CERT_FILE` certificates to trust,
    /// `XDG_CACHE_HOME` the directory of caches.
    ///
    /// # Errors
    /// [`Error::Install`] when there is no directory for a cache.
    pub fn from_env(surroundings: &Surroundings) -> Result<Self, Error> {
        let variable =
            |name: &str| surroundings.variables.get(name).filter(|value| !value.is_empty());
        let index = variable(INDEX_VARIABLE).map(|url| url.to_string_lossy().into_owned());
        let cache = surroundings.cache().ok_or_else(|| {
            Error::Install(
                "there is no home directory to keep libraries in; set XDG_CACHE_HOME".into(),
            )
        })?;
        Ok(Self {
            index: index.unwrap_or_else(|| INDEX.into()),
            cache,
            proxy: ureq::Proxy::try_from_env(),
            certificates: variable(CERTIFICATES_VARIABLE).map(PathBuf::from),
            retries: 4,
            pause: Duration::from_secs(1),
        })
    }

    /// An installer that asks this index, which may be on this machine, and hardly waits before a
    /// retry.
    pub fn new(index: &str, cache: PathBuf) -> Self {
        let pause = Duration::from_millis(1);
        Self { index: index.into(), cache, proxy: None, certificates: None, retries: 4, pause }
    }

    /// Fetches the latest version of a package for this machine, unless it is there, and removes
    /// other versions of it.
    ///
    /// # Errors
    /// [`Error::Install`] when the index or the disk fails, or what arrives is not what the index
    /// says.
    pub fn install(
        &self,
        package: Package,
        progress: &dyn Progress,
    ) -> Result<Installation, Error> {
        let failed = |error: isentrope_files::Error| Error::Install(error.to_string());
        let client = Client::new(self, progress)?;
        let wheel = index::latest(&client, package)?;
        let libraries = self.cache.join("libraries");
        make_directory(&libraries).map_err(failed)?;
        let lock = self.cache.join("install.lock");
        let _lock = isentrope_files::lock_file(&lock, || {
            progress
                .warn(&format!("waiting for another installation to release {}", lock.display()));
        })
        .map_err(failed)?;
        // Processes that were killed while unpacking left these. The lock excludes running ones.
        for left in list(&libraries).iter().filter(|path| is_hidden(path)) {
            remove(left).map_err(failed)?;
        }
        let directory = libraries.join(&wheel.directory);
        let was_there = directory.is_dir();
        if !was_there {
            let downloads = self.cache.join("downloads");
            // Other processes may have left parts of wheels.
            remove(&downloads).map_err(failed)?;
            make_directory(&downloads).map_err(failed)?;
            let archive = download::fetch(&client, &wheel, &downloads)?;
            let unpacked = wheel::unpack(&archive, package, &directory);
            remove(&archive).map_err(failed)?;
            unpacked?;
            let is_of_package = |path: &Path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.strip_prefix(&wheel.package).is_some_and(|rest| rest.starts_with('-'))
            };
            // A process that has loaded an older version keeps it until the process ends.
            for other in list(&libraries).iter().filter(|path| is_of_package(path)) {
                if *other != directory {
                    remove(other).map_err(failed)?;
                }
            }
        }
        let names = isentrope_files::names(&directory).map_err(failed)?;
        let mut names: Vec<String> =
            names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| package.libraries.iter().any(|start| name.starts_with(start)));
        names.sort();
        Ok(Installation {
            package: package.name,
            version: wheel.version,
            directory,
            libraries: names,
            was_there,
        })
    }
}
