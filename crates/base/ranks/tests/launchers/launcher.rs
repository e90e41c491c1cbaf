//! The launchers that there are, and what a job of theirs says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Names more launchers.
pub const MORE: &str = "ISENTROPE_TEST_MPIRUN";
/// No job of these tests takes longer, if it ends at all.
const LIMIT: Duration = Duration::from_secs(120);

/// A program that starts ranks.
#[derive(Clone)]
pub struct Launcher {
    /// Its name.
    pub name: String,
    pub open_mpi: bool,
    program: PathBuf,
}

/// How a job ended.
pub struct JobResult {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Launcher {
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
        programs.iter().filter_map(|program| Self::of(program)).collect()
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
            open_mpi,
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
        let mut command = Command::new(&self.program);
        if self.open_mpi {
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
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Job { child, begun: Instant::now() }
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

/// Launchers that are called by a path look for their own parts on PATH.
fn path_for(program: &Path) -> OsString {
    let own = program.parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([own].into_iter().chain(env::split_paths(&path))).unwrap()
}

/// A job under way.
pub struct Job {
    child: Child,
    begun: Instant,
}

impl Job {
    /// How it ends. One that does not fails the test.
    pub fn end(self) -> JobResult {
        let (begun, process) = (self.begun, self.child.id());
        let waiting = thread::spawn(move || self.child.wait_with_output());
        while !waiting.is_finished() {
            if begun.elapsed() > LIMIT {
                let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
                panic!("the job has not ended in {} s", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let Output { status, stdout, stderr } = waiting.join().unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        JobResult {
            success: status.success(),
            stdout: text(&stdout),
            stderr: text(&stderr),
            took: begun.elapsed(),
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
