//! The search for NVIDIA's libraries: every copy found, and why it was taken or not.

mod places;

use super::Version;
pub use places::{LibraryPlace, Surroundings};
pub(super) use places::{is_hidden, list};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// Versions of CUDA that this program can work with.
const MAJORS: [u32; 2] = [13, 12];
/// The oldest version of NCCL that this program can work with: it has communicators that do not
/// block.
pub(super) const OLDEST_NCCL: Version = Version { major: 2, minor: Some(14) };

/// A library of NVIDIA's, besides the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LibraryName {
    /// Compiles CUDA C++ while the program runs.
    #[serde(rename = "NVRTC")]
    Nvrtc,
    /// Products of matrices.
    #[serde(rename = "cuBLASLt")]
    CublasLt,
    /// Moves bytes between the GPUs of ranks.
    #[serde(rename = "NCCL")]
    Nccl,
}

impl LibraryName {
    /// The name that NVIDIA gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvrtc => "NVRTC",
            Self::CublasLt => "cuBLASLt",
            Self::Nccl => "NCCL",
        }
    }

    /// The beginning of its file names.
    fn file(self) -> &'static str {
        match self {
            Self::Nvrtc => "libnvrtc.so",
            Self::CublasLt => "libcublasLt.so",
            Self::Nccl => "libnccl.so",
        }
    }

    /// The Python package that has the library, for CUDA 13.
    pub fn package(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvidia-cuda-nvrtc",
            Self::CublasLt => "nvidia-cublas",
            Self::Nccl => "nvidia-nccl-cu13",
        }
    }
}

impl fmt::Display for LibraryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Outcome of trying a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in use.
    Taken,
    /// The copy cannot be used, for this reason.
    Refused(String),
    /// An earlier copy was taken.
    Unneeded,
}

/// A copy of a library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The file, without links.
    pub path: PathBuf,
    /// Why its directory was searched.
    pub place: LibraryPlace,
    /// The library's own version if it was taken, else the version in its files' names.
    pub version: Option<Version>,
    /// Whether the library was taken, and if not, why.
    pub outcome: Outcome,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.version {
            write!(f, "{version}, ")?;
        }
        write!(f, "{} ({})", self.path.display(), self.place)?;
        match &self.outcome {
            Outcome::Taken => Ok(()),
            Outcome::Refused(why) => write!(f, ": not taken, {why}"),
            Outcome::Unneeded => write!(f, ": not taken, another comes before it"),
        }
    }
}

/// The result of the search for a library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Search {
    /// The library that was searched for.
    pub library: LibraryName,
    /// All copies, in the order of the search.
    pub candidates: Vec<Candidate>,
    /// Number of directories that were searched.
    pub directories: usize,
}

impl Search {
    /// Looks for a library that works with the driver of this CUDA version (any library if there is
    /// no driver), and takes the first copy that `open` opens. `open` returns the copy's true
    /// version, or why it cannot be used.
    pub(super) fn run<T>(
        library: LibraryName,
        surroundings: &Surroundings,
        driver: Option<Version>,
        open: impl Fn(&Path) -> Result<(T, Version), String>,
    ) -> (Option<T>, Self) {
        let places = surroundings.places();
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut taken = None;
        for (place, directory) in &places {
            for path in copies(library, directory) {
                if candidates.iter().any(|candidate| candidate.path == path) {
                    continue;
                }
                let mut version = version_of(library, &path);
                let outcome = match version.map_or(Ok(()), |version| fits(library, version, driver))
                {
                    Err(why) => Outcome::Refused(why),
                    Ok(()) if taken.is_some() => Outcome::Unneeded,
                    Ok(()) => match open(&path) {
                        Ok((opened, own)) => {
                            version = Some(own);
                            match fits(library, own, driver) {
                                Ok(()) => {
                                    taken = Some(opened);
                                    Outcome::Taken
                                }
                                Err(why) => Outcome::Refused(why),
                            }
                        }
                        Err(why) => Outcome::Refused(why),
                    },
                };
                candidates.push(Candidate { path, place: *place, version, outcome });
            }
        }
        (taken, Self { library, candidates, directories: places.len() })
    }

    /// The copy in use.
    pub fn taken(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.outcome == Outcome::Taken)
    }

    /// Explains why no copy can be used, and how to get one.
    pub fn missing(&self) -> String {
        let refused = match self.candidates.as_slice() {
            [] => {
                let versions = match self.library {
                    LibraryName::Nccl => "2",
                    _ => "13 or .12",
                };
                let (file, directories) = (self.library.file(), self.directories);
                format!("no {file}.{versions} in any of {directories} directories")
            }
            candidates => candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        };
        let package = self.library.package();
        format!(
            "{refused}; `isentrope doctor --install-cuda` fetches it, as does `pip install \
             {package}`"
        )
    }
}

/// Whether this program and this driver can work with a version.
fn fits(library: LibraryName, version: Version, driver: Option<Version>) -> Result<(), String> {
    if library == LibraryName::Nccl {
        // A file's name may give the major number alone.
        let fits = version.major == OLDEST_NCCL.major
            && (version.minor.is_none() || version >= OLDEST_NCCL);
        let why = || format!("NCCL {version} is not supported, only 2, from {OLDEST_NCCL} on");
        return if fits { Ok(()) } else { Err(why()) };
    }
    if !MAJORS.contains(&version.major) {
        return Err(format!("CUDA {version} is not supported, only 12 and 13"));
    }
    match driver {
        Some(driver) if version.major > driver.major => Err(format!(
            "the driver supports CUDA {driver} and its code is for CUDA {}; a driver of version \
             580 or later, or the package for \
             CUDA {}, goes with it",
            version.major, driver.major
        )),
        _ => Ok(()),
    }
}

/// The files of a library in a directory, without links, the newest version first.
fn copies(library: LibraryName, directory: &Path) -> Vec<PathBuf> {
    let is_copy = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(library.file())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut files: Vec<PathBuf> = list(directory)
        .into_iter()
        .filter(is_copy)
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    files.retain(|path| path.is_file());
    files.sort_by_key(|path| std::cmp::Reverse(version_of(library, path)));
    files.dedup();
    files
}

/// The version in file names: in the library's own, or in its companion's for NVRTC.
fn version_of(library: LibraryName, path: &Path) -> Option<Version> {
    let name = path.file_name()?.to_str()?;
    let version = Version::parse(name.strip_prefix(library.file())?.strip_prefix('.')?)?;
    if version.minor.is_some() || library != LibraryName::Nvrtc {
        return Some(version);
    }
    let companions = companions(path).into_iter();
    let versions = companions.filter_map(|path| {
        Version::parse(path.file_name()?.to_str()?.strip_prefix("libnvrtc-builtins.so.")?)
    });
    Some(versions.filter(|companion| companion.major == version.major).max().unwrap_or(version))
}

/// The files that NVRTC loads by name when it compiles, in the same directory.
pub(super) fn companions(nvrtc: &Path) -> Vec<PathBuf> {
    let mut files = nvrtc.parent().map(list).unwrap_or_default();
    files.retain(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    });
    files
}

#[cfg(test)]
mod tests {
    use super::places::NAMED;
    use super::*;
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::fs;

    /// A machine whose libraries are text files.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[&str]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            for file in files {
                let path = machine.at(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, file).unwrap();
            }
            machine
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn search(
            &self,
            driver: Option<Version>,
            variables: &[(&str, &str)],
        ) -> (Option<PathBuf>, Search) {
            let value = |value: &str| -> OsString {
                std::env::join_paths(value.split(':').map(|path| self.at(path))).unwrap()
            };
            let variables: HashMap<String, OsString> =
                variables.iter().map(|(name, paths)| ((*name).to_owned(), value(paths))).collect();
            let surroundings =
                Surroundings { root: self.at(""), home: Some(self.at("home")), variables };
            Search::run(LibraryName::Nvrtc, &surroundings, driver, |path| match fs::read_to_string(
                path,
            )
            .unwrap()
            .contains("damaged")
            {
                true => Err("invalid ELF header".into()),
                false => Ok((path.to_owned(), version_of(LibraryName::Nvrtc, path).unwrap())),
            })
        }
    }

    const ALL: [&str; 8] = [
        "home/.cache/isentrope/cuda/libraries/nvidia_cuda_nvrtc-13.5.37/libnvrtc.so.13",
        "usr/local/cuda/lib64/libnvrtc.so.12.4.127",
        "usr/lib64/libnvrtc.so.13",
        "loader/libnvrtc.so.13",
        "home/.local/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
        "conda/lib/libnvrtc.so.13",
        "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "named/libnvrtc.so.13",
    ];

    const VARIABLES: [(&str, &str); 4] = [
        ("ISENTROPE_CUDA_LIBRARIES", "named"),
        ("VIRTUAL_ENV", "venv"),
        ("CONDA_PREFIX", "conda"),
        ("LD_LIBRARY_PATH", "loader"),
    ];

    #[test]
    fn places_come_in_their_order_and_the_first_copy_is_taken() {
        // In each round, the copy that was taken in the round before is missing.
        for there in (1..=ALL.len()).rev() {
            let machine = Machine::new(&ALL[..there]);
            let (taken, search) = machine.search(None, &VARIABLES);
            assert_eq!(taken.unwrap(), machine.at(ALL[there - 1]));
            let paths: Vec<_> =
                search.candidates.iter().map(|candidate| candidate.path.clone()).collect();
            let expected: Vec<_> = ALL[..there].iter().rev().map(|file| machine.at(file)).collect();
            assert_eq!(paths, expected);
            assert_eq!(search.candidates[0].outcome, Outcome::Taken);
            assert!(search.candidates[1..].iter().all(|other| other.outcome == Outcome::Unneeded));
        }
    }

    #[test]
    fn a_copy_that_the_driver_cannot_work_with_is_passed_over() {
        let machine = Machine::new(&ALL);
        let (taken, search) = machine.search(Some(Version::new(12, 4)), &VARIABLES);
        assert_eq!(taken.unwrap(), machine.at(ALL[6]));
        let Outcome::Refused(why) = &search.candidates[0].outcome else { panic!("{search:?}") };
        assert!(why.contains("CUDA 12.4") && why.contains("580"), "{why}");
        // An older library goes with a newer driver.
        let machine = Machine::new(&ALL[1..2]);
        assert!(machine.search(Some(Version::new(13, 0)), &[]).0.is_some());
    }

    #[test]
    fn damaged_and_unknown_copies_are_refused_with_their_reasons() {
        let machine = Machine::new(&[
            "damaged/libnvrtc.so.13",
            "old/libnvrtc.so.11.2",
            "old/libnvrtc.alt.so.13",
        ]);
        let (taken, search) = machine.search(None, &[("ISENTROPE_CUDA_LIBRARIES", "old:damaged")]);
        assert!(taken.is_none() && search.taken().is_none());
        let said = search.missing();
        for part in [
            "11.2",
            "not supported",
            "invalid ELF header",
            "--install-cuda",
            "pip install nvidia-cuda-nvrtc",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(search.candidates.len(), 2);
    }

    #[test]
    fn nccl_has_versions_of_its_own() {
        let fits = |major, minor| fits(LibraryName::Nccl, Version { major, minor }, None).is_ok();
        assert!(fits(2, None) && fits(2, Some(14)) && fits(2, Some(30)));
        assert!(!fits(2, Some(13)) && !fits(3, Some(0)) && !fits(1, None));
        let machine = Machine::new(&[
            "venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
            "named/libnccl.so.2.12.10",
        ]);
        let at = |path: &str| machine.at(path).into();
        let variables = [("VIRTUAL_ENV".into(), at("venv")), (NAMED.into(), at("named"))].into();
        let surroundings = Surroundings { root: machine.at(""), home: None, variables };
        let open = |path: &Path| Ok((path.to_owned(), Version::new(2, 27)));
        let (taken, search) = Search::run(LibraryName::Nccl, &surroundings, None, open);
        assert!(taken.unwrap().ends_with("nccl/lib/libnccl.so.2"));
        let Outcome::Refused(why) = &search.candidates[0].outcome else { panic!("{search:?}") };
        assert!(why.contains("NCCL 2.12") && why.contains("2.14"), "{why}");
        let none = Search { candidates: vec![], ..search }.missing();
        assert!(none.contains("no libnccl.so.2 in") && none.contains("--install-cuda"), "{none}");
    }

    #[test]
    fn nothing_at_all_is_a_sentence() {
        let (taken, search) = Machine::new(&[]).search(None, &VARIABLES);
        assert!(taken.is_none());
        assert!(search.missing().contains("no libnvrtc.so.13 or .12 in any of 0 directories"));
    }

    #[test]
    fn links_are_one_copy_and_versions_come_from_names() {
        let machine = Machine::new(&["cuda/lib64/libnvrtc.so.12.4.127"]);
        #[cfg(unix)]
        for link in ["cuda/lib64/libnvrtc.so", "cuda/lib64/libnvrtc.so.12"] {
            std::os::unix::fs::symlink("libnvrtc.so.12.4.127", machine.at(link)).unwrap();
        }
        let (_, search) = machine.search(None, &[("CUDA_HOME", "cuda")]);
        assert_eq!(search.candidates.len(), 1);
        assert_eq!(search.candidates[0].version, Some(Version::new(12, 4)));
        let machine = Machine::new(&[
            "w/libnvrtc.so.13",
            "w/libnvrtc-builtins.so.13.5",
            "w/libnvrtc-builtins.so.12.9",
        ]);
        let (_, search) = machine.search(None, &[("LD_LIBRARY_PATH", "w")]);
        assert_eq!(search.candidates[0].version, Some(Version::new(13, 5)));
    }

    #[test]
    fn names_that_lead_nowhere_are_reported() {
        let machine = Machine::new(&["named/libnvrtc.so.13"]);
        let paths = [machine.at("named"), machine.at("nowhere")];
        let variables = [(NAMED.to_owned(), std::env::join_paths(&paths).unwrap())].into();
        let surroundings = Surroundings { root: machine.at(""), home: None, variables };
        assert_eq!(surroundings.misnamed(), [machine.at("nowhere")]);
    }

    #[test]
    fn nothing_is_looked_for_where_the_process_happens_to_be() {
        let machine = Machine::new(&ALL);
        // These directories, as relative paths, and the empty part that a final colon leaves.
        let up = std::env::current_dir()
            .unwrap()
            .components()
            .skip(1)
            .map(|_| "..")
            .collect::<PathBuf>();
        let relative = |path: &str| up.join(machine.at(path).strip_prefix("/").unwrap());
        assert!(relative("named").is_dir());
        let variables = |colon: &str| {
            let all = VARIABLES
                .into_iter()
                .chain([("CUDA_HOME", "usr/local/cuda"), ("CUDA_PATH", "conda")]);
            let all = all.chain([("XDG_CACHE_HOME", "home/.cache")]).map(|(name, path)| {
                let mut value = relative(path).into_os_string();
                value.push(if name == NAMED { colon } else { "" });
                (name.to_owned(), value)
            });
            all.collect::<HashMap<_, _>>()
        };
        for colon in ["", ":"] {
            let variables = variables(colon);
            let surroundings = Surroundings { root: machine.at("nowhere"), home: None, variables };
            assert_eq!(surroundings.places(), []);
            assert_eq!(surroundings.cache(), None);
            assert_eq!(surroundings.misnamed(), [relative("named")]);
        }
        let variables = [(NAMED.to_owned(), ":".into())].into();
        let surroundings = Surroundings { root: machine.at("nowhere"), home: None, variables };
        assert_eq!((surroundings.places(), surroundings.misnamed()), (vec![], vec![]));
    }

    #[test]
    fn the_loaders_configuration_is_read() {
        let machine = Machine::new(&[
            "opt/nvidia/libnvrtc.so.13",
            "etc/ld.so.conf.d/cuda.conf",
            "etc/ld.so.conf.d/note.txt",
        ]);
        fs::write(machine.at("etc/ld.so.conf.d/cuda.conf"), "# CUDA\n/opt/nvidia\n").unwrap();
        let (taken, search) = machine.search(None, &[]);
        assert_eq!(taken.unwrap(), machine.at("opt/nvidia/libnvrtc.so.13"));
        assert_eq!(search.candidates[0].place, LibraryPlace::System);
    }
}
