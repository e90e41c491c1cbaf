//! How this process was started, by the environment: launchers of MPI leave the number of ranks
//! there.

use crate::error::{Error, Result};

/// Switches ranks off.
pub(crate) const RANKS: &str = "ISENTROPE_RANKS";

/// The MPI libraries that a launcher starts ranks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH, Intel MPI, Cray MPICH and all that share their launcher's protocol.
    Mpich,
}

/// How several ranks were started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// By what.
    pub launcher: &'static str,
    /// The variable that says so.
    pub variable: &'static str,
    /// How many ranks it says there are; none where it does not say.
    pub size: Option<usize>,
    /// The libraries that fit, the likeliest first.
    pub families: &'static [Family],
    /// Whether the ranks seem not to have been told how to find each other.
    pub is_bare: bool,
}

/// How several ranks were started; none when this process is alone.
///
/// # Errors
/// [`Error::Start`] when a variable is no number, or several processes were started in a way in
/// which ranks cannot meet.
pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Launched>> {
    match variable(RANKS).as_deref() {
        None | Some("" | "on") => {}
        Some("off") => return Ok(None),
        Some(other) => {
            return Err(Error::Start(format!(
                "{RANKS} = {other:?}: only `off` and `on` mean something"
            )));
        }
    }
    let has = |name: &str| variable(name).is_some();
    let size = |name: &'static str| {
        let Some(text) = variable(name) else { return Ok(None) };
        let size = text.parse().ok().filter(|&size: &usize| size > 0);
        size.map(Some).ok_or_else(|| {
            Error::Start(format!(
                "{name} = {text:?} is no number of ranks: a launcher sets it; unset it, or set {RANKS}=off to run alone"
            ))
        })
    };
    let slurm = has("SLURM_PROCID");
    // Inside a job of Slurm, MPI's own launchers set more: what they say is nearer to this process.
    let launched = if let Some(size) = size("OMPI_COMM_WORLD_SIZE")? {
        Launched {
            launcher: "mpirun of Open MPI",
            variable: "OMPI_COMM_WORLD_SIZE",
            size: Some(size),
            families: &[Family::OpenMpi],
            is_bare: false,
        }
    } else if let Some(size) = size("PMI_SIZE")? {
        let hydra = has("MPI_LOCALNRANKS") || !slurm;
        Launched {
            launcher: if hydra { "mpirun of MPICH or Intel MPI" } else { "srun --mpi=pmi2" },
            variable: "PMI_SIZE",
            size: Some(size),
            families: if hydra { &[Family::Mpich] } else { &[Family::Mpich, Family::OpenMpi] },
            is_bare: false,
        }
    } else if has("MPI_LOCALNRANKS") {
        Launched {
            launcher: "mpirun of MPICH or Intel MPI",
            variable: "MPI_LOCALNRANKS",
            size: None,
            families: &[Family::Mpich],
            is_bare: false,
        }
    } else if let (true, Some(size)) = (slurm, size("SLURM_STEP_NUM_TASKS")?) {
        Launched {
            launcher: if has("PMIX_RANK") { "srun --mpi=pmix" } else { "srun" },
            variable: "SLURM_STEP_NUM_TASKS",
            size: Some(size),
            families: &[Family::OpenMpi, Family::Mpich],
            is_bare: !has("PMIX_RANK"),
        }
    } else if has("PMIX_RANK") {
        Launched {
            launcher: "a launcher with PMIx",
            variable: "PMIX_RANK",
            size: None,
            families: &[Family::OpenMpi, Family::Mpich],
            is_bare: false,
        }
    } else if let (true, Some(size)) = (has("RANK"), size("WORLD_SIZE")?)
        && size > 1
    {
        return Err(Error::Start(format!(
            "WORLD_SIZE = {size}: processes that torchrun starts cannot meet on CPUs, where ranks need MPI: start them \
             with mpirun or srun, or set {RANKS}=off to run each alone"
        )));
    } else {
        return Ok(None);
    };
    Ok(Some(launched).filter(|launched| launched.size != Some(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launched>> {
        from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn launcher(variables: &[(&str, &str)]) -> (&'static str, Option<usize>) {
        let launched = read(variables).unwrap().unwrap();
        (launched.launcher, launched.size)
    }

    // The variables that launchers were seen to set: Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0, Slurm
    // 22.05.
    #[test]
    fn launchers_are_told_by_their_variables() {
        assert_eq!(
            launcher(&[("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")]),
            ("mpirun of Open MPI", Some(4))
        );
        let hydra = [("PMI_SIZE", "8"), ("PMI_RANK", "1"), ("MPI_LOCALNRANKS", "8")];
        assert_eq!(launcher(&hydra), ("mpirun of MPICH or Intel MPI", Some(8)));
        let slurm = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "0")];
        assert_eq!(launcher(&slurm), ("srun", Some(2)));
        assert!(read(&slurm).unwrap().unwrap().is_bare);
        assert_eq!(
            launcher(&[slurm[0], slurm[1], ("PMIX_RANK", "0")]),
            ("srun --mpi=pmix", Some(2))
        );
        assert_eq!(
            launcher(&[slurm[0], slurm[1], ("PMI_SIZE", "2")]),
            ("srun --mpi=pmi2", Some(2))
        );
        // One of four proxies that Hydra has started by srun.
        assert_eq!(launcher(&[slurm[0], slurm[1], hydra[0], hydra[2]]).1, Some(8));
        assert_eq!(launcher(&[("PMIX_RANK", "3")]), ("a launcher with PMIx", None));
    }

    #[test]
    fn one_process_is_alone() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("OMPI_COMM_WORLD_SIZE", "1")]), Ok(None));
        // A shell in an allocation of Slurm, outside of any step.
        assert_eq!(read(&[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")]), Ok(None));
        assert_eq!(read(&[("PMI_SIZE", "2"), ("ISENTROPE_RANKS", "off")]), Ok(None));
        assert_eq!(read(&[("WORLD_SIZE", "1"), ("RANK", "0")]), Ok(None));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let said = |variables: &[(&str, &str)]| read(variables).unwrap_err().to_string();
        assert!(
            said(&[("PMI_SIZE", "many")]).contains("PMI_SIZE = \"many\" is no number of ranks")
        );
        assert!(said(&[("OMPI_COMM_WORLD_SIZE", "0")]).contains("ISENTROPE_RANKS=off"));
        assert!(said(&[("ISENTROPE_RANKS", "no")]).contains("only `off`"));
        assert!(said(&[("WORLD_SIZE", "4"), ("RANK", "0")]).contains("mpirun or srun"));
    }
}
