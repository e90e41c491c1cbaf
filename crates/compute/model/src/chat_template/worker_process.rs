//! The process behind a [`worker`](super::worker): this program, started again only to render
//! templates.
//!
//! The operating system limits its memory and time. If a template exceeds them or the stack, only
//! this process dies.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::engine::Engine;
use super::wire::{Failure, Request, receive, send};

/// Environment variable of a worker, set to its parent's process id. In any other process it means
/// nothing.
pub(super) const VARIABLE: &str = "ISENTROPE_CHAT_TEMPLATE_WORKER";

/// Address space of a worker beyond that at its start, in bytes.
pub(super) const MEMORY: u64 = if cfg!(test) { 256 << 20 } else { 512 << 20 };

/// Processor time of one request, in seconds. A real template takes a few milliseconds.
pub(super) const SECONDS: u64 = if cfg!(test) { 1 } else { 10 };

/// Exit code of a worker that cannot read a request.
pub(super) const UNREADABLE: i32 = 3;

/// Turns any program with this library into a worker if it is started as one, tests included: the
/// loader calls the functions of this section before `main`, so the program need do nothing.
// Reason for the attribute: a section of this name is a list of functions with the C calling
// convention, which `start` is. The order: the loader has set up the C library; other entries of
// this section, of which the standard library's keeps the arguments, come before or after. So
// nothing here may ask for arguments. What a worker does else needs no set-up: environment,
// standard streams and what is kept per thread are there from their first use, and no other thread
// runs yet. `main` would add a handler for stacks that overflow, which ends in SIGABRT, as want of
// memory does: without it the two can be told apart.
#[allow(unsafe_code)]
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if is_worker() {
        // Nobody reads errors or panics here; the exit code tells the parent.
        let served = catch_unwind(serve).is_ok_and(|served| served.is_ok());
        std::process::exit(if served { 0 } else { UNREADABLE });
    }
}

/// Whether this process was started as a worker.
pub(super) fn is_worker() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|program| {
        #[cfg(unix)]
        return program.to_str() == Some(&std::os::unix::process::parent_id().to_string());
        #[cfg(not(unix))]
        return !program.is_empty(); // who started a process cannot be told there
    })
}

/// Answers requests until the input ends, or much of the memory is lost to leaks.
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
            let mut values =
                |count| (0..count).map(|_| receive(input)).collect::<io::Result<Vec<Value>>>();
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
        /// Address space at the start and its limit, in bytes, if known.
        space: Option<(u64, u64)>,
    }

    /// Limits this process to `memory` more bytes than now, and to no core file.
    pub fn set(memory: u64) -> io::Result<Limits> {
        lower(Resource::RLIMIT_CORE, 0)?;
        let Some(now) = address_space() else {
            // This limit counts less, and some systems refuse it.
            let _ = lower(Resource::RLIMIT_DATA, memory);
            return Ok(Limits { space: None });
        };
        lower(Resource::RLIMIT_AS, now + memory)?;
        Ok(Limits { space: Some((now, now + memory)) })
    }

    impl Limits {
        /// Allows `seconds` more of processor time.
        pub fn allow(&self, seconds: u64) -> io::Result<()> {
            let usage = getrusage(UsageWho::RUSAGE_SELF)?;
            let used = usage.user_time().tv_sec() + usage.system_time().tv_sec();
            lower(Resource::RLIMIT_CPU, u64::try_from(used).unwrap_or(0) + 1 + seconds)
        }

        /// Whether half of the memory is used: values that refer to each other are never freed.
        pub fn half_used(&self) -> bool {
            let now = address_space();
            self.space.zip(now).is_some_and(|((first, last), now)| now > first + (last - first) / 2)
        }
    }

    /// Sets a soft limit, which can be raised again.
    fn lower(resource: Resource, to: u64) -> io::Result<()> {
        let (_, hard) = getrlimit(resource)?;
        Ok(setrlimit(resource, hard.min(to), hard)?)
    }

    /// The address space of this process in bytes, from /proc.
    fn address_space() -> Option<u64> {
        let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
        let page =
            u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??).ok()?;
        pages.checked_mul(page)
    }
}

#[cfg(not(unix))]
mod limits {
    use std::io;

    /// No limits but the engine's: a hostile template can exhaust the memory of its process.
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
