//! Finds the MPI library: the named one, the one beside the launcher, or the system's.

use crate::error::{Error, Result};
use crate::launch::{Family, MpiLaunch};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::{Path, PathBuf};

/// Names the library.
const LIBRARY_VARIABLE: &str = "ISENTROPE_MPI";

/// Programs of launchers: this process descends from one of them.
#[rustfmt::skip]
const LAUNCHERS: [&str; 9] = [
    "mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy", "orterun", "orted",
    "prterun", "prted",
];

impl Family {
    /// File names of the family's libraries, with the version of their binary interface.
    fn names(self) -> &'static [&'static str] {
        match self {
            #[cfg(target_vendor = "apple")]
            Self::OpenMpi => &["libmpi.40.dylib"],
            #[cfg(target_vendor = "apple")]
            Self::Mpich => &["libmpi.12.dylib"],
            #[cfg(not(target_vendor = "apple"))]
            Self::OpenMpi => &["libmpi.so.40"],
            // The second is Debian's name.
            #[cfg(not(target_vendor = "apple"))]
            Self::Mpich => &["libmpi.so.12", "libmpich.so.12"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH or Intel MPI",
        }
    }
}

/// Loads the library that fits the launcher; it stays until the process ends. Also returns its
/// path; [`Error::Start`] lists the paths tried.
pub(super) fn load(launch: &MpiLaunch) -> Result<(String, &'static Library)> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(named);
        return match open(&path) {
            Ok(library) => Ok((path.display().to_string(), library)),
            Err(error) => Err(Error::Start(format!(
                "{LIBRARY_VARIABLE} = {}: {}; name the library of the MPI whose mpirun starts the \
                 ranks, such as /usr/lib/libmpi.so.40",
                path.display(),
                reason(&error)
            ))),
        };
    }
    let mut tried = Vec::new();
    let mut failed = None;
    for path in candidates(launch.families) {
        match open(&path) {
            Ok(library) => return Ok((path.display().to_string(), library)),
            // An existing file's error is reported in place of missing files.
            Err(error) if path.is_absolute() => failed = Some(reason(&error)),
            Err(_) => {}
        }
        tried.push(path.display().to_string());
    }
    let failed = failed.map(|error| format!(" ({error})")).unwrap_or_default();
    let families: Vec<&str> = launch.families.iter().map(|family| family.name()).collect();
    Err(Error::Start(format!(
        "{} has started several ranks ({}), but no library of {} is found{failed}: tried {}; name \
         it with \
         {LIBRARY_VARIABLE}=/path/to/libmpi.so, or set ISENTROPE_RANKS=off to run each rank alone",
        launch.launcher,
        launch.variable,
        families.join(" or "),
        tried.join(", ")
    )))
}

/// Files that exist, then names for the system to find.
fn candidates(families: &[Family]) -> Vec<PathBuf> {
    let prefixes = prefixes();
    let of_family = |family: &Family| {
        let beside = prefixes
            .iter()
            .flat_map(|prefix| ["lib", "lib64", "lib/release"].map(|lib| prefix.join(lib)));
        let files = beside.flat_map(|lib| family.names().iter().map(move |name| lib.join(name)));
        let names = family.names().iter().map(PathBuf::from);
        files.filter(|file| file.exists()).chain(names).collect::<Vec<_>>()
    };
    families.iter().flat_map(of_family).collect()
}

/// The launcher's directory, from its variables or from the programs that this process descends
/// from.
fn prefixes() -> Vec<PathBuf> {
    let variables = ["OPAL_PREFIX", "PMIX_PREFIX", "I_MPI_ROOT"];
    let said = variables.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> = said.collect();
    let mut process = std::os::unix::process::parent_id();
    // Shells and supervisors may stand in between, but not many.
    for _ in 0..8 {
        let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { break };
        let is_launcher = |name: &str| {
            LAUNCHERS.contains(&name)
                || LAUNCHERS.iter().any(|known| name.starts_with(&format!("{known}.")))
        };
        if program.file_name().and_then(|name| name.to_str()).is_some_and(is_launcher) {
            prefixes.extend(program.parent().and_then(Path::parent).map(Path::to_owned));
        }
        match parent(process) {
            Some(parent) if parent > 1 => process = parent,
            _ => break,
        }
    }
    prefixes.dedup();
    prefixes
}

fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn open(path: &Path) -> Result<&'static Library, libloading::Error> {
    // Open MPI loads parts of itself, which look for its symbols among the global ones (ompi issue
    // 3705). SAFETY: the library runs its own initialisers when it is loaded, which are sound in an
    // MPI library. By its name, or by the user's word, it is one.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }?;
    Ok(Box::leak(Box::new(library)))
}

/// The loader's message.
fn reason(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}
