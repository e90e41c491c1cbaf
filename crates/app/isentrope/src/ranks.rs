//! Ranks that a launcher has started together, or `--ranks` starts: they connect, rank 0 prints
//! messages, and all end with the same status (docs/guides/several-machines.md).

use crate::device::{self, LocalRank};
use crate::interrupt::{self, Interrupted};
use crate::messages;
use crate::standard_output::ReaderGone;
use crate::terminal::{Terminal, phase_name};
use crate::trace::StepTrace;
use anyhow::{Error, Result};
use isentrope_files::this_program;
use isentrope_ranks::{
    LOCAL_LAUNCHER, Launch, LocalRanks, Message, Settings, Watch, World, shards_of_rank,
};
use isentrope_train::observer::{Observer, Progress, ProgressObserver, StepReport};
use std::cell::Cell;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The ranks of the job, and this rank's threads.
pub struct Ranks {
    pub world: Arc<World>,
    /// The threads that this rank computes with.
    pub threads: usize,
    /// Whether recipe and data have passed their checks: an earlier failure would happen again.
    pub is_settled: Cell<bool>,
}

/// Ranks to start on this machine.
pub struct Here {
    pub count: usize,
    /// The recipe's number of shards, if it has one.
    pub shards: Option<usize>,
    /// The command that starts them, where nothing else starts ranks.
    pub command: String,
}

/// The wait of ranks that say nothing before they end: a launcher ends all ranks when one ends with
/// an error, and the first, which may begin seconds later, is to say why.
const BEHIND_THE_FIRST: Duration = Duration::from_secs(10);

/// Exit status of a failure that starting the job again would not mend.
pub const EXIT_SETUP: u8 = 2;

/// The end of a rank; the first rank has printed the reason.
#[derive(Debug, thiserror::Error)]
#[error("the first rank has said why")]
pub struct Silent(u8);

impl Silent {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.0)
    }
}

/// Connects the ranks that a launcher has started, or starts ranks `here`, and runs `work` on each.
/// If it fails on one rank, it ends on all, and rank 0 prints the reason. `asked` is the value of
/// `--threads`. A rank that is silent for `patience` is given up; none: never.
pub fn together(
    asked: Option<usize>,
    here: Option<Here>,
    patience: Option<Duration>,
    work: impl FnOnce(&Ranks) -> Result<()>,
) -> Result<()> {
    let launch = Launch::from_environment()?;
    let are_several = launch.is_some() || here.as_ref().is_some_and(|here| here.count > 1);
    let threads = device::threads(asked).map_err(|error| match are_several {
        // Starting ranks again does not help.
        true => isentrope_ranks::Error::Start(error.to_string()).into(),
        false => error,
    })?;
    let settings = Settings {
        threads,
        program: format!("isentrope {}", env!("CARGO_PKG_VERSION")),
        watch: Watch { silent: patience, ..Watch::default() },
        tell: Arc::new(|message: Message<'_>| match message {
            Message::Warning(text) => messages::warning(text),
            Message::Error(text) => messages::error(text),
        }),
    };
    if let (Some(launch), Some(here)) = (&launch, &here) {
        refuse_more(launch, here)?;
    }
    let (launch, local) = match (launch, here) {
        (None, Some(Here { count, shards, .. })) if count > 1 => {
            shards.map(|shards| shards_of_rank(shards, count, 0)).transpose()?;
            let (local, launch) = LocalRanks::start(count, same_command)?;
            local.processes().into_iter().for_each(interrupt::ends_with_this);
            (Some(launch), Some(local))
        }
        (launch, _) => (launch, None),
    };
    let world = Arc::new(World::begin(launch, &settings).inspect_err(|_| {
        local.iter().for_each(LocalRanks::kill);
    })?);
    if world.size() == 1 {
        return work(&Ranks { world, threads, is_settled: Cell::new(false) });
    }
    let is_free = asked.is_none() && std::env::var_os("ISENTROPE_THREADS").is_none();
    let threads = if is_free { fair_threads(&world, threads) } else { threads };
    let ranks = Ranks { threads, world, is_settled: Cell::new(false) };
    ranks.introduce();
    let result = match work(&ranks) {
        Err(error) if error.is::<ReaderGone>() => Ok(()), // the work is done
        result => result,
    };
    let Ranks { world, is_settled, .. } = ranks;
    let result = match result {
        Err(error) if !error.is::<Interrupted>() => Err(error),
        // If rank 0 cannot write the last files, the others learn it here.
        ended => world.any(false).map_err(Error::from).and(ended),
    };
    let result = result.map_err(|error| end(&world, &error, is_settled.get()).into());
    // Nothing else holds the world any more.
    let left = Arc::into_inner(world).map_or(Ok(()), World::finish);
    result.and(left.map_err(Error::from))
}

/// Refuses to start ranks where a launcher has, before they wait for each other. The first rank
/// says why.
fn refuse_more(launch: &Launch, here: &Here) -> Result<()> {
    let launcher = launch.launcher();
    if launcher == LOCAL_LAUNCHER {
        return Ok(());
    }
    if launch.rank().is_some_and(|rank| rank > 0) {
        thread::sleep(BEHIND_THE_FIRST);
        return Err(Silent(EXIT_SETUP).into());
    }
    let Here { count, command, .. } = here;
    let size = launch.size().map_or_else(|| "some".to_owned(), |size| size.to_string());
    Err(isentrope_ranks::Error::Start(format!(
        "--ranks {count} starts ranks on this machine, but {launcher} has started {size} already: \
         leave --ranks away there, or run `{command}` alone"
    ))
    .into())
}

/// The command that has started this process.
fn same_command() -> Command {
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let mut command = Command::new(this_program().unwrap_or_else(|_| "isentrope".into()));
    #[cfg(unix)]
    name.iter().for_each(|name| {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    });
    command.args(arguments);
    command
}

/// Threads of a rank if nothing sets their number: `threads`, or its share of the machine's
/// processors if the ranks there would have more threads than processors.
fn fair_threads(world: &World, threads: usize) -> usize {
    let crowded = world.node().and_then(|node| Some((node.processors?, node.threads)));
    match crowded {
        Some((processors, all)) if all > processors => (threads * processors / all).max(1),
        _ => threads,
    }
}

/// Reports an error to the other ranks, unless it came from them. Rank 0 prints it before any rank
/// ends, because a launcher ends all ranks when one ends with an error.
fn end(world: &World, error: &Error, is_settled: bool) -> Silent {
    if error.is::<Interrupted>() {
        // So are all.
        if world.is_first() {
            messages::error(&crate::sentence(error));
        }
        return Silent(interrupt::EXIT_STATUS);
    }
    let said = crate::sentence(error);
    let told = world.fail(&said);
    world.vote(&[]); // others may ask whether to save the run: not with this one, which has left it
    let is_over = !world.go_on();
    if world.is_first() {
        let is_theirs = error.chain().any(<dyn std::error::Error>::is::<isentrope_ranks::Error>);
        messages::error(&if is_theirs && !is_setup_error(error) { told.to_string() } else { said });
    } else if is_over {
        messages::error(&said); // nobody else has heard of it
    }
    let may_help = is_settled || is_of_the_hub(error) || is_of_the_machines(error);
    // All ranks wait here for rank 0, which may still be saving the run, and agree on the exit
    // status; the rank with the error decides.
    let is_heard = error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(isentrope_ranks::Error::Rank { rank, .. }) if *rank != world.rank()
        )
    });
    let may_help =
        if is_over { may_help } else { world.any(may_help && !is_heard).unwrap_or(may_help) };
    Silent(if is_setup_error(error) || !may_help { EXIT_SETUP } else { 1 })
}

/// Whether launcher, library and recipe do not fit together, so that a restart does not help.
pub fn is_setup_error(error: &Error) -> bool {
    error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(isentrope_ranks::Error::Start(_))))
}

/// Whether a network, a memory or a disk has failed, so that a restart may help.
fn is_of_the_machines(error: &Error) -> bool {
    use isentrope_ranks::Error::{All, Damage, Device, Engine};
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(All(_) | Damage(_) | Device(_) | Engine(_)))
    })
}

/// Whether a model hub could not be reached, so that a restart may help.
fn is_of_the_hub(error: &Error) -> bool {
    use isentrope_evaluation::Error::Data;
    use isentrope_train::Error::Common;
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(isentrope_hub::Error::Hub(_)))
            || matches!(cause.downcast_ref(), Some(Common(Data(isentrope_data::Error::Hub(_)))))
    })
}

impl Ranks {
    /// Whether this is rank 0, which prints messages for all.
    pub fn is_first(&self) -> bool {
        self.world.is_first()
    }

    /// This rank's place among the ranks of its machine.
    pub fn local_rank(&self) -> LocalRank {
        let ranks = self.world.node().map_or_else(|| vec![self.world.rank()], |node| node.ranks);
        let number = ranks.iter().position(|&rank| rank == self.world.rank()).unwrap_or(0);
        LocalRank { number, of: ranks.len(), speaks: self.is_first() }
    }

    /// Prints the number of ranks, and their machines.
    fn introduce(&self) {
        if !self.is_first() {
            return;
        }
        let Some(library) = self.world.library() else { return };
        let hosts = isentrope_ranks::Node::of(self.world.hosts());
        let on: Vec<String> =
            hosts.iter().map(|node| format!("{} on {}", node.ranks.len(), node.host)).collect();
        messages::say(&format!(
            "{} ranks ({}) of {} over {}",
            self.world.size(),
            on.join(", "),
            messages::counted(self.threads, "thread"),
            library.version
        ));
        for note in hosts.iter().filter(|node| node.processors.is_none_or(|n| node.threads <= n)) {
            note.note().iter().for_each(|note| messages::note(&note.to_string()));
        }
    }

    /// Runs `fetch` on the first rank, then on the others, who find the fetched files in place.
    pub fn first_then_all<T>(&self, fetch: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_first() {
            self.world.any(false)?;
            return fetch();
        }
        let fetched = fetch()?;
        self.world.any(false)?;
        Ok(fetched)
    }

    /// The result of `find` on the first rank, for all ranks.
    pub fn first_finds(&self, find: impl FnOnce() -> String) -> Result<String> {
        let found = if self.is_first() { find() } else { String::new() };
        Ok(String::from_utf8(self.world.broadcast(found.as_bytes())?)?)
    }
}

/// Watches a run on a rank: the first rank shows it, and each reports its progress to the others.
pub struct Watcher {
    terminal: Option<Terminal>,
    world: Arc<World>,
    /// The trace that was asked for.
    trace: Option<StepTrace>,
}

impl Watcher {
    pub fn new(ranks: &Ranks) -> Self {
        let terminal = ranks.is_first().then(Terminal::new);
        Self { terminal, world: Arc::clone(&ranks.world), trace: None }
    }

    /// Traces a step.
    pub fn tracing(&mut self, trace: Option<StepTrace>) {
        self.trace = trace;
    }

    /// A line before the first step.
    pub fn heading(&self, text: &str) {
        self.terminal.iter().for_each(|terminal| terminal.line(text));
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        self.terminal.iter().for_each(Terminal::finish);
        self.trace.iter().for_each(StepTrace::finish);
    }
}

impl ProgressObserver for Watcher {
    fn stop_requested(&self) -> bool {
        interrupt::requested()
    }

    fn progress(&mut self, progress: Progress) {
        let Progress { phase, done, total, .. } = progress;
        self.world.report(phase_name(phase), done as u64, total as u64);
        self.terminal.iter_mut().for_each(|terminal| terminal.progress(progress));
    }

    fn note(&mut self, text: &str) {
        self.terminal.iter_mut().for_each(|terminal| terminal.note(text));
    }
}

impl Observer for Watcher {
    fn begins(&mut self, step: u64, steps: u64) {
        if self.terminal.is_some() {
            interrupt::wind_up_first("finishing the current step");
        }
        self.trace.iter_mut().for_each(|trace| trace.begins(step, steps));
    }

    fn is_over(&mut self) {
        self.terminal.iter_mut().for_each(Terminal::is_over);
        let said = self.trace.as_mut().map(StepTrace::is_over).unwrap_or_default();
        for text in &said {
            match &mut self.terminal {
                Some(terminal) => terminal.note(text),
                None => messages::note(text),
            }
        }
    }

    fn step(&mut self, step: &StepReport<'_>) {
        self.terminal.iter_mut().for_each(|terminal| terminal.step(step));
    }
}
