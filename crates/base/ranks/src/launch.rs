//! How this process was started, by the environment: launchers leave the number of ranks there.

use crate::error::{Error, Result};
use crate::local::{self, Children};
use crate::tcp::Meeting;
use std::time::Duration;

/// Switches ranks off.
pub(crate) const RANKS_VARIABLE: &str = "ISENTROPE_RANKS";
/// The port at which ranks meet over TCP, in place of the launcher's.
pub(crate) const PORT_VARIABLE: &str = "ISENTROPE_PORT";
/// A word that the ranks of one job know, and others do not.
pub(crate) const KEY_VARIABLE: &str = "ISENTROPE_KEY";

/// Time after which a rank says that it waits for others to begin, and least time before it gives
/// up: launchers start ranks one after another.
pub(crate) const NOTICE: Duration = Duration::from_secs(10);
pub(crate) const LEAST_TIME: Duration = Duration::from_secs(20);

/// Most ranks that are believed.
const MOST_RANKS: u32 = 1 << 16;

/// Ports where the ranks of Slurm's steps meet, below those that systems give out by themselves.
const SLURM_PORTS: std::ops::Range<u64> = 20_000..30_000;

/// The MPI libraries that a launcher starts ranks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH, Intel MPI, Cray MPICH and all that share their launcher's protocol.
    Mpich,
}

/// How several ranks were started.
#[derive(Debug)]
pub struct Launch(pub(crate) Way);

/// How the ranks meet.
#[derive(Debug)]
pub(crate) enum Way {
    /// Over the MPI library of their launcher.
    Mpi(MpiLaunch),
    /// Over TCP.
    Tcp(Meeting),
}

/// A launcher of MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiLaunch {
    /// By what the ranks were started.
    pub launcher: &'static str,
    /// The variable that says so.
    pub variable: &'static str,
    /// The launcher's number of ranks; none if it does not say.
    pub size: Option<usize>,
    /// This rank's number; none if the launcher does not say.
    pub rank: Option<usize>,
    /// The families of libraries that fit the launcher, the likeliest first.
    pub families: &'static [Family],
}

impl Launch {
    /// The launch of several ranks that a launcher's variables tell of; none if this process is
    /// alone.
    ///
    /// # Errors
    /// [`Error::Start`] when a variable is no number, or one is missing.
    pub fn from_environment() -> Result<Option<Self>> {
        if let Ok(parent) = std::env::var(local::PARENT_VARIABLE) {
            local::end_with(&parent);
        }
        let way = from_variables(|name| std::env::var(name).ok())?;
        Ok(way.map(Self))
    }

    /// The program that has started the ranks.
    pub fn launcher(&self) -> &'static str {
        match &self.0 {
            Way::Mpi(launch) => launch.launcher,
            Way::Tcp(meeting) => meeting.launcher,
        }
    }

    /// The number of ranks, as far as the launcher says.
    pub fn size(&self) -> Option<usize> {
        match &self.0 {
            Way::Mpi(launch) => launch.size,
            Way::Tcp(meeting) => Some(meeting.size),
        }
    }

    /// This rank's number, as far as the launcher says.
    pub fn rank(&self) -> Option<usize> {
        match &self.0 {
            Way::Mpi(launch) => launch.rank,
            Way::Tcp(meeting) => Some(meeting.rank),
        }
    }
}

/// As [`Launch::from_environment`], from these variables.
fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Way>> {
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
        let size = text.parse().ok().filter(|size: &u32| (1..=MOST_RANKS).contains(size));
        size.map(|size| Some(size as usize)).ok_or_else(|| {
            Error::Start(format!(
                "{name} = {text:?} is no number of ranks: a launcher sets it; unset it, or set \
                 {RANKS_VARIABLE}=off to run alone"
            ))
        })
    };
    // A process that `--ranks` has started has the variables of whatever started its parent, too.
    if has(local::PARENT_VARIABLE) {
        let size = size("WORLD_SIZE")?.unwrap_or(1);
        return by_tcp(&variable, local::LOCAL_LAUNCHER, "RANK", size);
    }
    let rank = || {
        let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];
        names.into_iter().find_map(&variable)?.parse().ok()
    };
    let by_mpi = |launcher, variable, size, families| {
        let launch = MpiLaunch { launcher, variable, size, rank: rank(), families };
        Ok(Some(launch).filter(|launch| launch.size != Some(1)).map(Way::Mpi))
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
        return by_mpi("mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", size, OPEN_MPI);
    }
    if let size @ Some(_) = size("PMI_SIZE")? {
        let hydra = has("MPI_LOCALNRANKS") || !slurm;
        let (launcher, families) =
            if hydra { (HYDRA, MPICH) } else { ("srun --mpi=pmi2", MPICH_FIRST) };
        return by_mpi(launcher, "PMI_SIZE", size, families);
    }
    if has("MPI_LOCALNRANKS") {
        return by_mpi(HYDRA, "MPI_LOCALNRANKS", None, MPICH);
    }
    // Slurm may have started torchrun, whose processes then have Slurm's variables, too.
    if let (true, Some(size)) = (has("RANK"), size("WORLD_SIZE")?) {
        let launcher = match () {
            () if has("TORCHELASTIC_RUN_ID") => "torchrun",
            () => "RANK and WORLD_SIZE",
        };
        return by_tcp(&variable, launcher, "RANK", size);
    }
    let steps = if slurm { size("SLURM_STEP_NUM_TASKS")? } else { None };
    match (has("PMIX_RANK"), steps) {
        (true, Some(_)) => by_mpi("srun --mpi=pmix", "SLURM_STEP_NUM_TASKS", steps, OPEN_MPI_FIRST),
        (true, None) => by_mpi("a launcher with PMIx", "PMIX_RANK", None, OPEN_MPI_FIRST),
        (false, Some(size)) => by_tcp(&variable, "srun", "SLURM_PROCID", size),
        (false, None) => match size("WORLD_SIZE")? {
            // Without RANK each process would train alone.
            Some(size) if has("MASTER_ADDR") => by_tcp(&variable, "WORLD_SIZE", "RANK", size),
            _ => Ok(None),
        },
    }
}

/// Ranks that meet over TCP; `rank_variable` numbers them.
fn by_tcp(
    variable: &impl Fn(&str) -> Option<String>,
    launcher: &'static str,
    rank_variable: &str,
    size: usize,
) -> Result<Option<Way>> {
    if size == 1 {
        return Ok(None);
    }
    let wrong = |name: &str, is: &str| {
        let text = variable(name).map_or("unset".into(), |text| format!("{text:?}"));
        Error::Start(format!(
            "{name} is {text}, and {is}: this is one of {size} ranks ({launcher}), which meet over \
             TCP; set it, or {RANKS_VARIABLE}=off to run each rank alone"
        ))
    };
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let rank = number(rank_variable).filter(|&rank| rank < size as u64);
    let rank =
        rank.ok_or_else(|| wrong(rank_variable, &format!("no number from 0 to {}", size - 1)))?;
    let is_slurm = rank_variable == "SLURM_PROCID";
    let slurm_host = || variable("SLURM_STEP_NODELIST").and_then(|list| first_host(&list));
    let host = variable("MASTER_ADDR").filter(|host| !host.is_empty());
    let host = host
        .or_else(|| slurm_host().filter(|_| is_slurm))
        .ok_or_else(|| wrong("MASTER_ADDR", "names no host: it is that of rank 0"))?;
    let port_of = |name: &str| match variable(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(wrong(name, "no port from 1 to 65535")),
        },
    };
    let port = match (port_of(PORT_VARIABLE)?, port_of("MASTER_PORT")?) {
        (Some(port), _) => port,
        // torchrun's own store listens at its port, unless it says that it does not.
        (None, Some(port))
            if variable("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") =>
        {
            port.checked_add(1).unwrap_or(port - 1)
        }
        (None, Some(port)) => port,
        (None, None) if is_slurm => {
            let [job, step] = ["SLURM_JOB_ID", "SLURM_STEP_ID"].map(number);
            let place = job.unwrap_or(0).wrapping_mul(61).wrapping_add(step.unwrap_or(0));
            let ports = SLURM_PORTS.end - SLURM_PORTS.start;
            (SLURM_PORTS.start + place % ports) as u16
        }
        (None, None) => return Err(wrong("MASTER_PORT", "no port from 1 to 65535")),
    };
    let key = variable(KEY_VARIABLE).unwrap_or_default();
    let rank = rank as usize; // below the size
    let (listener, children) = (None, Children::default());
    let meeting = Meeting { launcher, rank, size, host, port, key, listener, children };
    Ok(Some(Way::Tcp(meeting)))
}

/// The first host of a list of Slurm's, such as `node[01-04,07],login`; none if it is no such list.
fn first_host(list: &str) -> Option<String> {
    let (mut host, mut rest) = (String::new(), list);
    loop {
        let (name, after) = rest.split_at(rest.find(['[', ',']).unwrap_or(rest.len()));
        host += name;
        let Some(numbers) = after.strip_prefix('[') else { break };
        let (numbers, after) = numbers.split_once(']')?;
        let number = numbers.split([',', '-']).next()?;
        if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        host += number;
        rest = after;
    }
    Some(host).filter(|host| !host.is_empty() && !host.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Way>> {
        from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn mpi(variables: &[(&str, &str)]) -> (&'static str, Option<usize>) {
        match read(variables).unwrap().unwrap() {
            Way::Mpi(launch) => (launch.launcher, launch.size),
            Way::Tcp(meeting) => panic!("{meeting:?}"),
        }
    }

    fn tcp(variables: &[(&str, &str)]) -> (&'static str, usize, usize, String) {
        match read(variables).unwrap().unwrap() {
            Way::Tcp(Meeting { launcher, rank, size, host, port, .. }) => {
                (launcher, rank, size, format!("{host} {port}"))
            }
            Way::Mpi(launch) => panic!("{launch:?}"),
        }
    }

    // The variables that launchers were seen to set: Open MPI 4.1 and 5.0, MPICH 4.0 and 5.0, Slurm
    // 22.05.
    #[test]
    fn launchers_of_mpi_are_told_by_their_variables() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")];
        assert_eq!(mpi(&open_mpi), ("mpirun of Open MPI", Some(4)));
        let hydra = [("PMI_SIZE", "8"), ("PMI_RANK", "1"), ("MPI_LOCALNRANKS", "8")];
        assert_eq!(mpi(&hydra), ("mpirun of MPICH or Intel MPI", Some(8)));
        let slurm = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "0")];
        let rank = |variables: &[_]| Launch(read(variables).unwrap().unwrap()).rank();
        assert_eq!((rank(&open_mpi), rank(&hydra)), (Some(0), Some(1)));
        for (name, value, expected) in
            [("PMIX_RANK", "0", "srun --mpi=pmix"), ("PMI_SIZE", "2", "srun --mpi=pmi2")]
        {
            assert_eq!(mpi(&[slurm[0], slurm[1], (name, value)]), (expected, Some(2)));
        }
        // One of four proxies that Hydra has started by srun.
        assert_eq!(mpi(&[slurm[0], slurm[1], hydra[0], hydra[2]]).1, Some(8));
        assert_eq!(mpi(&[("PMIX_RANK", "3")]), ("a launcher with PMIx", None));
        // mpirun inside of torchrun's environment.
        let torch = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")];
        assert_eq!(mpi(&[torch[0], torch[1], torch[2], open_mpi[0]]).1, Some(4));
    }

    #[test]
    fn ranks_that_are_started_here_meet_each_other_whatever_started_the_first() {
        let own = [
            ("ISENTROPE_PARENT", "7"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "127.0.0.1"),
            ("ISENTROPE_PORT", "77"),
        ];
        for (name, value) in [
            ("OMPI_COMM_WORLD_SIZE", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("PMI_SIZE", "1"),
            ("MPI_LOCALNRANKS", "2"),
            ("PMIX_RANK", "0"),
            ("SLURM_PROCID", "0"),
        ] {
            let variables = [&own[..], &[(name, value)]].concat();
            let expected = (local::LOCAL_LAUNCHER, 1, 2, "127.0.0.1 77".into());
            assert_eq!(tcp(&variables), expected, "{name}");
        }
    }

    // The variables that torchrun of PyTorch 2 and Slurm 22.05 were seen to set.
    #[test]
    fn launchers_without_mpi_say_where_ranks_meet() {
        let pods =
            [("RANK", "3"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "job-0"), ("MASTER_PORT", "2300")];
        let names = "RANK and WORLD_SIZE";
        assert_eq!(tcp(&pods), (names, 3, 4, "job-0 2300".into()));
        let mut torch = pods.to_vec();
        torch.extend([("TORCHELASTIC_RUN_ID", "none"), ("TORCHELASTIC_USE_AGENT_STORE", "True")]);
        assert_eq!(tcp(&torch), ("torchrun", 3, 4, "job-0 2301".into()));
        torch.push(("ISENTROPE_PORT", "77"));
        assert_eq!(tcp(&torch).3, "job-0 77");
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NODELIST", "node[07-09]"),
            ("SLURM_JOB_ID", "1000"),
            ("SLURM_STEP_ID", "2"),
        ];
        assert_eq!(tcp(&slurm), ("srun", 1, 2, "node07 21002".into()));
        // srun has started torchrun on two nodes.
        torch.extend(slurm);
        assert_eq!(tcp(&torch).0, "torchrun");
        torch.push(("PMIX_RANK", "1"));
        assert_eq!(tcp(&torch).0, "torchrun");
    }

    #[test]
    fn the_first_host_of_a_list_of_slurms_is_found() {
        for (list, first) in [
            ("node7", "node7"),
            ("a,b", "a"),
            ("node[01-04,07],x", "node01"),
            ("node[3]", "node3"),
            ("login,node[1-2]", "login"),
            ("r[1-2]n[03,4]-ib,q", "r1n03-ib"),
            ("gpu[2,5]-x.org", "gpu2-x.org"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
        for none in ["", ",", "node[", "node[1", "node[x]", "a]"] {
            assert_eq!(first_host(none), None, "{none}");
        }
    }

    #[test]
    fn one_process_is_alone() {
        for variables in [
            &[][..],
            &[("OMPI_COMM_WORLD_SIZE", "1")],
            // A shell in an allocation of Slurm, outside of any step.
            &[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")],
            &[("PMI_SIZE", "2"), ("ISENTROPE_RANKS", "off")],
            &[("WORLD_SIZE", "1"), ("RANK", "0")],
            &[("WORLD_SIZE", "8")],
        ] {
            assert!(read(variables).unwrap().is_none(), "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let refused = |variables: &[(&str, &str)]| read(variables).unwrap_err().to_string();
        for (name, value, part) in [
            ("PMI_SIZE", "many", "PMI_SIZE = \"many\" is no number of ranks"),
            ("OMPI_COMM_WORLD_SIZE", "0", "ISENTROPE_RANKS=off"),
            ("ISENTROPE_RANKS", "no", "only `off`"),
            ("WORLD_SIZE", "4", "MASTER_ADDR is unset"),
            ("WORLD_SIZE", "4294967297", "no number of ranks"),
        ] {
            let said = refused(&[(name, value), ("RANK", "0")]);
            assert!(said.contains(part), "{said}");
        }
        let torch = [("WORLD_SIZE", "4"), ("MASTER_ADDR", "a")];
        assert!(refused(&torch).contains("RANK is unset"));
        let said = refused(&[("RANK", "4"), torch[0], torch[1]]);
        assert!(
            said.contains("RANK is \"4\", and no number from 0 to 3: this is one of 4 ranks"),
            "{said}"
        );
        for port in ["0", "70000", "x"] {
            let said = refused(&[("RANK", "1"), torch[0], torch[1], ("MASTER_PORT", port)]);
            assert!(said.contains("no port from 1 to 65535"), "{said}");
        }
        assert!(refused(&[("RANK", "1"), torch[0], torch[1]]).contains("MASTER_PORT is unset"));
    }
}
