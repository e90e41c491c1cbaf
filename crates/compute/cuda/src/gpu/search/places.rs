//! Directories that may hold NVIDIA's libraries, in the order of the search: first the user's, then
//! the order of NVIDIA's `cuda.pathfinder`, then the libraries that `isentrope doctor
//! --install-cuda` has fetched.

use serde::Serialize;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable with the directories that come first.
pub(super) const NAMED: &str = "ISENTROPE_CUDA_LIBRARIES";

/// Why a directory is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryPlace {
    /// `ISENTROPE_CUDA_LIBRARIES` names it.
    Named,
    /// The packages of Python's virtual environment.
    VirtualEnvironment,
    /// Conda's environment.
    Conda,
    /// The packages that pip installs for a user.
    UserPackages,
    /// `LD_LIBRARY_PATH`.
    LoaderPath,
    /// The system's loader.
    System,
    /// `CUDA_HOME` or `CUDA_PATH`, or where the toolkit is installed by default.
    Toolkit,
    /// Libraries that `isentrope doctor --install-cuda` has fetched.
    Installed,
}

impl fmt::Display for LibraryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => NAMED,
            Self::VirtualEnvironment => "VIRTUAL_ENV",
            Self::Conda => "CONDA_PREFIX",
            Self::UserPackages => "pip's packages of this user",
            Self::LoaderPath => "LD_LIBRARY_PATH",
            Self::System => "the system's libraries",
            Self::Toolkit => "the CUDA toolkit",
            Self::Installed => "isentrope doctor --install-cuda",
        })
    }
}

/// The settings of a process and its machine that decide where libraries are searched.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The root of the file system. Tests have one of their own.
    pub root: PathBuf,
    /// The user's directory.
    pub home: Option<PathBuf>,
    /// Environment variables.
    pub variables: HashMap<String, OsString>,
}

impl Surroundings {
    /// The settings of this process.
    pub fn of_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        Self { root: "/".into(), home, variables: variables.collect() }
    }

    /// Whether the driver waits for each launch (`CUDA_LAUNCH_BLOCKING`).
    pub(in crate::gpu) fn launches_block(&self) -> bool {
        self.variable("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value != "0")
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The directory in a variable. A relative path is left out: it would load libraries from
    /// wherever the process happens to be started.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The parts of a variable like `PATH`. Empty parts, left by a superfluous colon, name nothing.
    fn parts(&self, name: &str) -> Vec<PathBuf> {
        let parts = self.variable(name).map(|paths| std::env::split_paths(paths).collect());
        let parts: Vec<PathBuf> = parts.unwrap_or_default();
        parts.into_iter().filter(|path| !path.as_os_str().is_empty()).collect()
    }

    /// The absolute paths of a variable like `PATH`. Relative ones are not searched: see
    /// [`directory`](Self::directory).
    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let parts = self.parts(name).into_iter();
        parts.filter(|path| path.is_absolute()).collect()
    }

    /// Entries of `ISENTROPE_CUDA_LIBRARIES` that are no absolute path of a directory.
    pub fn misnamed(&self) -> Vec<PathBuf> {
        let parts = self.parts(NAMED).into_iter();
        parts.filter(|path| !path.is_absolute() || !path.is_dir()).collect()
    }

    /// A path of the system's.
    pub(in crate::gpu) fn system(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The directory for everything that is kept for CUDA: `$XDG_CACHE_HOME/isentrope/cuda`, else
    /// `~/.cache/isentrope/cuda`; none without a home.
    pub fn cache(&self) -> Option<PathBuf> {
        let base = self
            .directory("XDG_CACHE_HOME")
            .or_else(|| Some(self.home.as_ref()?.join(".cache")))?;
        Some(base.join("isentrope").join("cuda"))
    }

    /// The existing directories that may hold libraries, in order.
    pub(super) fn places(&self) -> Vec<(LibraryPlace, PathBuf)> {
        let mut all = Vec::new();
        let mut add = |place, directories: Vec<PathBuf>| {
            for directory in directories {
                if directory.is_dir() && !all.iter().any(|(_, known)| *known == directory) {
                    all.push((place, directory));
                }
            }
        };
        // The named directory may be a virtual environment, a directory of packages, a toolkit, or
        // the libraries' own directory.
        let named = self.paths(NAMED).into_iter();
        add(
            LibraryPlace::Named,
            named
                .flat_map(|path| {
                    [vec![path.clone()], of_prefix(&path), of_packages(&path)].concat()
                })
                .collect(),
        );
        let prefixes = [
            ("VIRTUAL_ENV", LibraryPlace::VirtualEnvironment),
            ("CONDA_PREFIX", LibraryPlace::Conda),
        ];
        for (variable, place) in prefixes {
            add(
                place,
                self.directory(variable).iter().flat_map(|prefix| of_prefix(prefix)).collect(),
            );
        }
        let user = self.home.as_ref().map(|home| of_python(&home.join(".local")));
        add(LibraryPlace::UserPackages, user.unwrap_or_default());
        add(LibraryPlace::LoaderPath, self.paths("LD_LIBRARY_PATH"));
        add(LibraryPlace::System, self.loader());
        let toolkits =
            ["CUDA_HOME", "CUDA_PATH"].map(|name| self.directory(name)).into_iter().flatten();
        let toolkits =
            toolkits.chain(["/usr/local/cuda", "/opt/cuda"].map(|path| self.system(path)));
        add(LibraryPlace::Toolkit, toolkits.flat_map(|toolkit| of_toolkit(&toolkit)).collect());
        let installed = self.cache().map(|cache| below(&cache.join("libraries")));
        add(LibraryPlace::Installed, installed.unwrap_or_default());
        all
    }

    /// The directories of the system's loader: the configured ones, then its own.
    fn loader(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = list(&self.system("/etc/ld.so.conf.d"));
        files.retain(|file| file.extension().is_some_and(|ending| ending == "conf"));
        files.insert(0, self.system("/etc/ld.so.conf"));
        let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        let named: Vec<PathBuf> = texts
            .flat_map(|text| text.lines().map(str::trim).map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.starts_with('/'))
            .map(|line| self.system(&line))
            .collect();
        let own = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let own = [own.as_str(), "/usr/lib64", "/usr/lib"].map(|path| self.system(path));
        [named, own.into()].concat()
    }
}

/// Libraries of Python packages and of conda, below an environment.
fn of_prefix(prefix: &Path) -> Vec<PathBuf> {
    [of_python(prefix), of_toolkit(prefix)].concat()
}

/// Libraries of the packages of every Python below `prefix`, the latest Python first.
fn of_python(prefix: &Path) -> Vec<PathBuf> {
    let mut pythons = list(&prefix.join("lib"));
    pythons.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    });
    pythons.reverse();
    pythons.iter().flat_map(|python| of_packages(&python.join("site-packages"))).collect()
}

/// Libraries of NVIDIA's wheels among Python's packages: CUDA 13 has one, `nvidia/cu13/lib`;
/// CUDA 12 has `nvidia/cuda_nvrtc/lib` and similar directories, NCCL always has its own.
fn of_packages(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    let newest = ["cu13", "cuda_nvrtc", "cublas", "nccl"].map(|name| nvidia.join(name));
    newest.iter().map(|package| package.join("lib")).collect()
}

fn of_toolkit(toolkit: &Path) -> Vec<PathBuf> {
    let target = if cfg!(target_arch = "aarch64") {
        "targets/sbsa-linux/lib"
    } else {
        "targets/x86_64-linux/lib"
    };
    ["lib64", "lib", target].map(|lib| toolkit.join(lib)).into()
}

/// The directories in `directory`, the last name first, which has the newest version. A name that
/// begins with a dot belongs to an unfinished installation.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut directories = list(directory);
    directories.retain(|path| path.is_dir() && !is_hidden(path));
    directories.reverse();
    directories
}

/// Whether the name of a path begins with a dot.
pub(in crate::gpu) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Files of a directory by name; none if it cannot be read.
pub(in crate::gpu) fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
