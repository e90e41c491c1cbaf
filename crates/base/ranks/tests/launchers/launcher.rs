//! The launchers that there are, and what a job of theirs says.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};
use tempfile::TempDir;

/// Names more launchers.
pub const MORE: &str = "ISENTROPE_TEST_MPIRUN";
/// No job of these tests takes longer, if it ends at all.
const LIMIT: Duration = Duration::from_secs(120);
/// Time from a rank's failure to the end of the others, if they do not end by themselves.
const GRACE: Duration = Duration::from_secs(3);

/// A program that starts ranks.
#[derive(Clone)]
pub struct Launcher {
    /// Its name.
    pub name: String,
    pub kind: Kind,
    program: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    OpenMpi,
    Mpich,
    /// Processes with the variables of torchrun.
    Tcp,
}

impl Kind {
    /// Whether a library of MPI belongs to it.
    pub fn is_mpi(self) -> bool {
        self != Self::Tcp
    }
}

/// How a job ended.
pub struct JobResult {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Launcher {
    pub fn tcp() -> Self {
        Self { name: "TCP".into(), kind: Kind::Tcp, program: PathBuf::new() }
    }

    pub fn installed() -> Vec<Self> {
        let named: Vec<PathBuf> = env::var_os(MORE).iter().flat_map(env::split_paths).collect();
        let on_path = env::var_os("PATH").iter().flat_map(env::split_paths).collect::<Vec<_>>();
        let find =
            |name: &str| on_path.iter().map(|path| path.join(name)).find(|path| path.is_file());
        // Debian's names, with which both can be installed.
        let mut programs: Vec<PathBuf> =
            ["mpirun.openmpi", "mpirun.mpich"].iter().filter_map(|name| find(name)).collect();
        if programs.is_empty() {
            programs.extend(find("mpirun"));
        }
        programs.extend(named);
        let of_mpi = programs.iter().filter_map(|program| Self::of(program));
        std::iter::once(Self::tcp()).chain(of_mpi).collect()
    }

    fn of(program: &Path) -> Option<Self> {
        let output =
            Command::new(program).arg("--version").env("PATH", path_for(program)).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let open_mpi = said.contains("Open MPI") || said.contains("OpenRTE");
        let version = said
            .split_whitespace()
            .find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        let family = match () {
            () if open_mpi => "Open MPI",
            () if said.contains("Intel") => "Intel MPI",
            () => "MPICH",
        };
        Some(Self {
            name: format!("{family} {}", version.unwrap_or("?")),
            kind: if open_mpi { Kind::OpenMpi } else { Kind::Mpich },
            program: program.to_owned(),
        })
    }

    /// Starts a job of ranks of this program.
    pub fn start(&self, ranks: usize, task: &str, variables: &[(&str, &str)]) -> Job {
        self.start_programs(&[(ranks, env::current_exe().unwrap())], task, variables)
    }

    /// Starts a job of several programs, each with its number of ranks.
    pub fn start_programs(
        &self,
        programs: &[(usize, PathBuf)],
        task: &str,
        variables: &[(&str, &str)],
    ) -> Job {
        if self.kind == Kind::Tcp {
            return Self::start_ranks(programs, task, variables);
        }
        let mut command = Command::new(&self.program);
        let mut scratch = None;
        if self.kind == Kind::OpenMpi {
            // Jobs with a common directory fail if one removes it while another begins
            // (open-mpi/ompi#8510).
            command.env("TMPDIR", scratch.insert(tempfile::tempdir().unwrap()).path());
            // More ranks than processors, which a test may be, and root, which containers are.
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        for (number, (ranks, program)) in programs.iter().enumerate() {
            command.args((number > 0).then_some(":"));
            command.args(["-n", &ranks.to_string()]).arg(program);
        }
        command.env(super::rank::TASK, task).envs(variables.iter().copied());
        command.env("PATH", path_for(&self.program));
        Job::start([command], scratch)
    }

    /// Ranks with the variables of torchrun.
    fn start_ranks(programs: &[(usize, PathBuf)], task: &str, variables: &[(&str, &str)]) -> Job {
        let each = programs.iter().flat_map(|(ranks, program)| vec![program; *ranks]);
        let each: Vec<_> = each.collect();
        let port = free_port();
        let of_rank = |(rank, program): (usize, &&PathBuf)| {
            let mut command = Command::new(program);
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", each.len().to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            command.env(super::rank::TASK, task).envs(variables.iter().copied());
            command
        };
        Job::start(each.iter().enumerate().map(of_rank), None)
    }

    /// The library that its ranks find.
    pub fn library(&self) -> Option<String> {
        let ended = self.run(2, "sum 2", &[]);
        let (_, path) = ended.stdout.lines().find_map(|line| line.split_once(" path="))?;
        Some(path.to_owned())
    }

    pub fn run(&self, ranks: usize, task: &str, variables: &[(&str, &str)]) -> JobResult {
        self.start(ranks, task, variables).end()
    }
}

/// A free port that no other job of this process was given.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

/// Launchers that are called by a path look for their own parts on PATH.
fn path_for(program: &Path) -> OsString {
    let own = program.parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([own].into_iter().chain(env::split_paths(&path))).unwrap()
}

/// A job under way: a launcher, or its ranks.
pub struct Job {
    processes: Vec<Child>,
    begun: Instant,
    /// A directory for the launcher's own files, until the job has ended.
    _scratch: Option<TempDir>,
}

impl Job {
    fn start(commands: impl IntoIterator<Item = Command>, scratch: Option<TempDir>) -> Self {
        let start = |mut command: Command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let processes = commands.into_iter().map(start).collect();
        Self { processes, begun: Instant::now(), _scratch: scratch }
    }

    /// How it ends. One that does not fails the test. As launchers do, it kills all soon after one
    /// has failed.
    pub fn end(self) -> JobResult {
        let ids: Vec<String> = self.processes.iter().map(|child| child.id().to_string()).collect();
        let kill = || Command::new("kill").arg("-9").args(&ids).stderr(Stdio::null()).status();
        let (sender, ended) = mpsc::channel();
        for child in self.processes {
            let sender = sender.clone();
            thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
        }
        let (mut outputs, mut failed) = (Vec::<Output>::new(), None);
        while outputs.len() < ids.len() {
            if let Ok(output) = ended.recv_timeout(Duration::from_millis(20)) {
                if !output.status.success() {
                    failed.get_or_insert_with(Instant::now);
                }
                outputs.push(output);
            }
            if failed.is_some_and(|failed| failed.elapsed() > GRACE) {
                kill().unwrap();
            }
            if self.begun.elapsed() > LIMIT {
                kill().unwrap();
                panic!("the job has not ended in {} s", LIMIT.as_secs());
            }
        }
        let text = |bytes: fn(&Output) -> &[u8]| {
            let all: Vec<u8> = outputs.iter().flat_map(|output| bytes(output).to_vec()).collect();
            String::from_utf8_lossy(&all).into_owned()
        };
        JobResult {
            success: outputs.iter().all(|output| output.status.success()),
            stdout: text(|output| &output.stdout),
            stderr: text(|output| &output.stderr),
            took: self.begun.elapsed(),
        }
    }
}

impl JobResult {
    /// Everything that was said, for a failed assertion.
    pub fn output(&self) -> String {
        let Self { took, stdout, stderr, .. } = self;
        format!("after {took:?}\nstandard output:\n{stdout}\nstandard error:\n{stderr}")
    }

    #[track_caller]
    pub fn check(&self, holds: bool) {
        assert!(holds, "{}", self.output());
    }

    /// It has failed, within this time.
    #[track_caller]
    pub fn check_failed(&self, within: Duration) {
        self.check(!self.success && self.took < within);
    }
}
