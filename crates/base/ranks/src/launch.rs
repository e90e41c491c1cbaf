//! How this process was started, by the environment: launchers of MPI leave the number of ranks
//! there.

use crate::error::{Error, Result};

/// Switches ranks off.
pub(crate) const RANKS_VARIABLE: &str = "ISENTROPE_RANKS";

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
pub struct Launch {
    /// By what.
    pub launcher: &'static str,
    /// The variable that says so.
    pub variable: &'static str,
    /// The launcher's number of ranks; none if it does not say.
    pub size: Option<usize>,
    /// The families of libraries that fit the launcher, the likeliest first.
    pub families: &'static [Family],
    /// Whether the launcher seems to give ranks no way to find each other.
    pub is_bare: bool,
}

/// The launch of several ranks; none if this process is alone.
///
/// # Errors
/// [`Error::Start`] when a variable is no number, or several processes were started in a way in
/// which ranks cannot meet.
pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Launch>> {
    match variable(RANKS_VARIABLE).as_deref() {
        None | Some("" | "on") => {}
        Some("off") => return Ok(None),
        Some(other) => {
            return Err(Error::Start(format!(
                "{RANKS_VARIABLE} = {other:?}: only `off` and `on` mean something"
            )));
        }
    }
    let has = |name: &str| variable(name).is_some();
    let size = |name: &'static str| {
        let Some(text) = variable(name) else { return Ok(None) };
        let size = text.parse().ok().filter(|&size: &usize| size > 0);
        size.map(Some).ok_or_else(|| {
            Error::Start(format!(
                "{name} = {text:?} is no number of ranks: a launcher sets it; unset it, or set \
                 {RANKS_VARIABLE}=off to run alone"
            ))
        })
    };
    let by = |launcher, variable, size, families, is_bare| {
        let launch = Launch { launcher, variable, size, families, is_bare };
        Ok(Some(launch).filter(|launch| launch.size != Some(1)))
    };
    const OPEN_MPI: &[Family] = &[Family::OpenMpi];
    const MPICH: &[Family] = &[Family::Mpich];
    const OPEN_MPI_FIRST: &[Family] = &[Family::OpenMpi, Family::Mpich];
    const MPICH_FIRST: &[Family] = &[Family::Mpich, Family::OpenMpi];
    const HYDRA: &str = "mpirun of MPICH or Intel MPI";
    let slurm = has("SLURM_PROCID");
    // Inside a Slurm job, the variables of MPI's own launcher come first: they describe this
    // process more closely.
    if let size @ Some(_) = size("OMPI_COMM_WORLD_SIZE")? {
        return by("mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", size, OPEN_MPI, false);
    }
    if let size @ Some(_) = size("PMI_SIZE")? {
        let hydra = has("MPI_LOCALNRANKS") || !slurm;
        let (launcher, families) =
            if hydra { (HYDRA, MPICH) } else { ("srun --mpi=pmi2", MPICH_FIRST) };
        return by(launcher, "PMI_SIZE", size, families, false);
    }
    if has("MPI_LOCALNRANKS") {
        return by(HYDRA, "MPI_LOCALNRANKS", None, MPICH, false);
    }
    let has_pmix = has("PMIX_RANK");
    if let (true, size @ Some(_)) = (slurm, size("SLURM_STEP_NUM_TASKS")?) {
        let launcher = if has_pmix { "srun --mpi=pmix" } else { "srun" };
        return by(launcher, "SLURM_STEP_NUM_TASKS", size, OPEN_MPI_FIRST, !has_pmix);
    }
    if has_pmix {
        return by("a launcher with PMIx", "PMIX_RANK", None, OPEN_MPI_FIRST, false);
    }
    let world = if has("RANK") { size("WORLD_SIZE")? } else { None };
    match world.filter(|&size| size > 1) {
        Some(size) => Err(Error::Start(format!(
            "WORLD_SIZE = {size}: processes that torchrun starts cannot meet on CPUs, where ranks \
             need MPI: start them with mpirun or srun, or set {RANKS_VARIABLE}=off to run each \
             alone"
        ))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launch>> {
        from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn launcher(variables: &[(&str, &str)]) -> (&'static str, Option<usize>) {
        let launch = read(variables).unwrap().unwrap();
        (launch.launcher, launch.size)
    }

    // The variables that launchers were seen to set: Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0, Slurm
    // 22.05.
    #[test]
    fn launchers_are_told_by_their_variables() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")];
        assert_eq!(launcher(&open_mpi), ("mpirun of Open MPI", Some(4)));
        let hydra = [("PMI_SIZE", "8"), ("PMI_RANK", "1"), ("MPI_LOCALNRANKS", "8")];
        assert_eq!(launcher(&hydra), ("mpirun of MPICH or Intel MPI", Some(8)));
        let slurm = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "0")];
        assert_eq!(launcher(&slurm), ("srun", Some(2)));
        assert!(read(&slurm).unwrap().unwrap().is_bare);
        for (name, value, expected) in
            [("PMIX_RANK", "0", "srun --mpi=pmix"), ("PMI_SIZE", "2", "srun --mpi=pmi2")]
        {
            assert_eq!(launcher(&[slurm[0], slurm[1], (name, value)]), (expected, Some(2)));
        }
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
        for (name, value, part) in [
            ("PMI_SIZE", "many", "PMI_SIZE = \"many\" is no number of ranks"),
            ("OMPI_COMM_WORLD_SIZE", "0", "ISENTROPE_RANKS=off"),
            ("ISENTROPE_RANKS", "no", "only `off`"),
            ("WORLD_SIZE", "4", "mpirun or srun"),
        ] {
            let refused = read(&[(name, value), ("RANK", "0")]).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
