//! The other end of [`worker`](super::worker): this program, started a second time to do nothing but render templates.
//!
//! Nothing in the engine bounds what a template takes, so the operating system does: the process has limits on memory and
//! time, and where it exceeds them or its stack, it dies and the program that asked does not.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::engine::Engine;
use super::wire::{Failure, Request, receive, send};

/// Set in the environment of a worker, to the number of the process that started it. In any other process it means nothing.
pub(super) const VARIABLE: &str = "ISENTROPE_CHAT_TEMPLATE_WORKER";

/// Address space that a worker may take beyond what the program takes at its start, in bytes.
pub(super) const MEMORY: u64 = if cfg!(test) { 256 << 20 } else { 512 << 20 };

/// Processor time that one request may take, in seconds. A real template takes a few milliseconds.
pub(super) const SECONDS: u64 = if cfg!(test) { 1 } else { 10 };

/// How a worker ends that cannot read what it is asked.
pub(super) const UNREADABLE: i32 = 3;

/// Makes every program that holds this library, its tests included, a worker when it is started as one: the loader calls
/// what is listed in this section before `main`. A program need do nothing for it, which a test's `main` cannot.
// Reason for the attribute: a section of this name is a list of functions with the C calling convention, which `start` is.
// The order: the loader has set up the C library; other entries of this section, of which the standard library's keeps the
// arguments, come before or after. So nothing here may ask for arguments. What a worker does else needs no set-up: environment,
// standard streams and what is kept per thread are there from their first use, and no other thread runs yet. `main` would add
// a handler for stacks that overflow, which ends in SIGABRT, as want of memory does: without it the two can be told apart.
#[allow(unsafe_code)]
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if is_worker() {
        // Neither errors nor panics have anybody to go to: the other end sees how this process ends.
        let served = catch_unwind(serve).is_ok_and(|served| served.is_ok());
        std::process::exit(if served { 0 } else { UNREADABLE });
    }
}

/// Whether this process was started by a program as its worker.
pub(super) fn is_worker() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|program| {
        #[cfg(unix)]
        return program.to_str() == Some(&std::os::unix::process::parent_id().to_string());
        #[cfg(not(unix))]
        return !program.is_empty(); // who started a process cannot be told there
    })
}

/// Answers requests until there are no more, or this process has taken memory that it does not give back.
fn serve() -> io::Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = BufWriter::new(io::stdout().lock());
    let limits = limits::set(MEMORY);
    send(&mut output, &limits.as_ref().map(drop).map_err(ToString::to_string))?;
    output.flush()?;
    let limits = limits?;
    let mut engine = None;
    loop {
        let request = match receive(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            request => request?,
        };
        limits.allow(SECONDS)?;
        let answer = answer(request, &mut engine, &mut input)?;
        send(&mut output, &answer)?;
        output.flush()?;
        if limits.half_used() {
            return Ok(());
        }
    }
}

fn answer(
    request: Request,
    engine: &mut Option<Engine>,
    input: &mut impl Read,
) -> io::Result<Result<String, Failure>> {
    let failed = || Failure::Invalid("the template engine fails".to_owned());
    let contained = |call: &mut dyn FnMut() -> Result<String, Failure>| {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(failed()))
    };
    match request {
        Request::Compile(sources) => Ok(contained(&mut || {
            *engine = None;
            *engine = Some(Engine::compile(&sources)?);
            Ok(String::new())
        })),
        Request::Render(conversation) => {
            let mut values = |count| (0..count).map(|_| receive(input)).collect::<io::Result<Vec<Value>>>();
            let (messages, variables) =
                (values(conversation.messages)?, values(conversation.variables.len())?);
            let Some(engine) = engine else { return Err(io::ErrorKind::InvalidInput.into()) };
            Ok(contained(&mut || engine.render(&conversation, &messages, &variables)))
        }
    }
}

#[cfg(unix)]
mod limits {
    use std::io;

    use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

    /// The limits of this process.
    pub struct Limits {
        /// Address space at the start and in the end, in bytes, where it can be asked for.
        space: Option<(u64, u64)>,
    }

    /// Sets the limits of this process: so much memory more than it has, and no core file.
    pub fn set(memory: u64) -> io::Result<Limits> {
        lower(Resource::RLIMIT_CORE, 0)?;
        let Some(now) = address_space() else {
            // What else there is counts less, and some systems refuse it.
            let _ = lower(Resource::RLIMIT_DATA, memory);
            return Ok(Limits { space: None });
        };
        lower(Resource::RLIMIT_AS, now + memory)?;
        Ok(Limits { space: Some((now, now + memory)) })
    }

    impl Limits {
        /// Allows this process so many seconds of processor time from now on.
        pub fn allow(&self, seconds: u64) -> io::Result<()> {
            let usage = getrusage(UsageWho::RUSAGE_SELF)?;
            let used = usage.user_time().tv_sec() + usage.system_time().tv_sec();
            lower(Resource::RLIMIT_CPU, u64::try_from(used).unwrap_or(0) + 1 + seconds)
        }

        /// Whether half of the memory is gone, as values that hold each other are never given back.
        pub fn half_used(&self) -> bool {
            let now = address_space();
            self.space.zip(now).is_some_and(|((first, last), now)| now > first + (last - first) / 2)
        }
    }

    /// A limit that can be raised again, unless the hard one is lower still.
    fn lower(resource: Resource, to: u64) -> io::Result<()> {
        let (_, hard) = getrlimit(resource)?;
        Ok(setrlimit(resource, hard.min(to), hard)?)
    }

    /// The address space of this process in bytes, where /proc says it.
    fn address_space() -> Option<u64> {
        let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
        let page = u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??).ok()?;
        pages.checked_mul(page)
    }
}

#[cfg(not(unix))]
mod limits {
    use std::io;

    /// No limits but those of the engine: here a template can take all memory, and no more than its process with it.
    pub struct Limits;

    pub fn set(_memory: u64) -> io::Result<Limits> {
        Ok(Limits)
    }

    impl Limits {
        pub fn allow(&self, _seconds: u64) -> io::Result<()> {
            Ok(())
        }

        pub fn half_used(&self) -> bool {
            false
        }
    }
}
