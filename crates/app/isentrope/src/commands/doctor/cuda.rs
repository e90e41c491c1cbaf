//! NVIDIA's GPUs, driver and libraries in `isentrope doctor`, and `--install-cuda`, which fetches
//! libraries.

use super::Part;
use crate::device::bf16_arithmetic;
use crate::memory::human;
use crate::progress::Download;
use crate::standard_output::{print, print_fitted};
use anyhow::Result;
use isentrope_cuda::gpu::{
    Blas, Driver, Installation, Installer, LibraryName, Nccl, NoDriver, Nvrtc, Outcome, Package,
    Search, Surroundings,
};
use std::fmt;
use std::path::PathBuf;

/// The major version of CUDA whose libraries are fetched if there is no driver yet.
const NEWEST: u32 = 13;

/// The parts of CUDA on this machine.
pub struct CudaReport {
    driver: Option<Driver>,
    no_driver: Option<NoDriver>,
    libraries: Vec<Search>,
    /// The entries of `ISENTROPE_CUDA_LIBRARIES` that are no absolute paths of directories.
    misnamed: Vec<PathBuf>,
}

impl CudaReport {
    /// Looks for driver and libraries.
    pub fn find() -> Self {
        let surroundings = Surroundings::of_process();
        let (driver, no_driver) = match Driver::find(&surroundings) {
            Ok(driver) => (Some(driver), None),
            Err(none) => (None, Some(none)),
        };
        let cuda = driver.as_ref().map(|driver| driver.cuda);
        // NVRTC must know the GPUs that commands can use.
        let mut architectures =
            driver.iter().flat_map(|driver| &driver.gpus).map(|gpu| gpu.architecture);
        let architecture = architectures.find(|architecture| architecture.check().is_ok());
        let libraries = vec![
            Nvrtc::search(&surroundings, cuda, architecture).1,
            Blas::look(&surroundings, cuda),
            Nccl::search(&surroundings).1,
        ];
        Self { driver, no_driver, libraries, misnamed: surroundings.misnamed() }
    }

    /// A line for the GPUs, and one for each library.
    pub(super) fn parts(&self) -> Vec<Part> {
        let libraries = self.libraries.iter().map(|search| self.library(search));
        [self.gpu()].into_iter().chain(libraries).collect()
    }

    fn gpu(&self) -> Part {
        let (available, why) = match (&self.driver, &self.no_driver) {
            (Some(driver), _) => {
                // Each GPU has its number for --device, and the reason if it cannot be used.
                let named = driver.gpus.iter().enumerate().map(|(number, gpu)| {
                    let memory = human(usize::try_from(gpu.memory_bytes).unwrap_or(usize::MAX));
                    let lack = gpu.architecture.check().err();
                    let lack = lack.map(|lack| format!(" (of no use: {lack})")).unwrap_or_default();
                    format!("GPU {number}: {}, {memory}, {}{lack}", gpu.name, gpu.architecture)
                });
                let release = driver.release.as_deref().unwrap_or("of unknown version");
                let gpus = named.collect::<Vec<_>>().join("; ");
                let available = driver.gpus.iter().any(|gpu| gpu.architecture.check().is_ok());
                let rest =
                    if available { format!("; {}", self.use_of(driver)) } else { String::new() };
                (available, format!("{gpus}; driver {release}, CUDA {}{rest}", driver.cuda))
            }
            (None, Some(none)) => (false, none.why.clone()),
            (None, None) => (false, "nothing is known of it".into()),
        };
        Part { name: "GPU", available, why }
    }

    /// How commands use the GPUs that are good enough.
    fn use_of(&self, driver: &Driver) -> String {
        let compiles =
            self.libraries.iter().any(|s| s.library == LibraryName::Nvrtc && s.taken().is_some());
        match driver.gpus.iter().find(|gpu| gpu.architecture.check().is_ok()) {
            Some(gpu) if compiles => {
                let bf16 = bf16_arithmetic((gpu.architecture.major, gpu.architecture.minor));
                format!(
                    "commands compute on it (--device); in f32 with the CPU's bits, in bf16 as \
                     {bf16}"
                )
            }
            _ => "but commands compute on the CPU for want of NVRTC".into(),
        }
    }

    fn library(&self, search: &Search) -> Part {
        let of_use = match search.library {
            LibraryName::Nccl => "several GPUs",
            _ => "a GPU",
        };
        let why = match search.taken() {
            Some(taken) => taken.to_string(),
            // Without a GPU, nobody needs it.
            None if self.no_driver.as_ref().is_some_and(|none| !none.has_device)
                && search.candidates.is_empty() =>
            {
                format!(
                    "not in any of {} directories (it is of use with {of_use} only)",
                    search.directories
                )
            }
            None => search.missing(),
        };
        Part { name: search.library.name(), available: search.taken().is_some(), why }
    }
}

/// Shows settings that may be wrong, and copies of libraries that were found and not taken.
impl fmt::Display for CudaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.misnamed {
            let path = path.display();
            writeln!(
                f,
                "  ISENTROPE_CUDA_LIBRARIES names {path}, which is no absolute path of a directory"
            )?;
        }
        // If no copy is taken, the library's line says why.
        for search in self.libraries.iter().filter(|search| search.taken().is_some()) {
            for other in search.candidates.iter().filter(|other| other.outcome != Outcome::Taken) {
                writeln!(f, "  another {:<9} {other}", search.library.to_string())?;
            }
        }
        Ok(())
    }
}

/// Fetches NVIDIA's libraries for the installed driver, and prints the outcome.
pub fn install() -> Result<()> {
    let surroundings = Surroundings::of_process();
    let installer = Installer::from_env(&surroundings)?;
    let progress = Download::default();
    let major = Driver::find(&surroundings).map_or(NEWEST, |driver| driver.cuda.major);
    for package in Package::of(major) {
        let Installation { package, version, directory, libraries, was_there } =
            installer.install(package, &progress)?;
        let how =
            if was_there { "was there already" } else { "installed, its SHA-256 is the index's" };
        let libraries = libraries.join(", ");
        print(&format!("{package} {version}: {how}; {libraries} in {}\n", directory.display()))?;
    }
    let report = CudaReport::find();
    let parts: String = report.parts().iter().map(ToString::to_string).collect();
    print_fitted(&format!("{parts}{report}"))
}
