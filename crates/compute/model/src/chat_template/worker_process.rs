//! The process behind a [`worker`](super::worker): this program, started again only to render a
//! template.
//!
//! The operating system limits its memory and time. If a template exceeds them or the stack, only
//! this process dies.

use std::io::{self, BufReader, BufWriter};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::unistd::{SysconfVar, sysconf};

use super::engine::Engine;
use super::wire::{Failure, receive, send};

/// Environment variable of a worker, set to its parent's process id. In any other process it means
/// nothing.
pub(super) const VARIABLE: &str = "ISENTROPE_CHAT_TEMPLATE_WORKER";

/// Address space of a worker beyond that at its start, in bytes.
pub(super) const MEMORY: u64 = if cfg!(test) { 256 << 20 } else { 512 << 20 };

/// Processor time of one request, in seconds. A real template takes a few milliseconds.
pub(super) const SECONDS: u64 = if cfg!(test) { 4 } else { 10 };

/// Turns any program with this library into a worker if it is started as one, tests included: the
/// loader calls the functions of this section before `main`, so the program need do nothing.
// Reason for the attribute: a section of this name is a list of functions with the C calling
// convention, and `start` is one. The loader has set up the C library by then. The standard
// library's own entry, which keeps the arguments, may come later, so nothing here may ask for
// arguments. Environment, standard streams and thread-local values work from their first use, and
// no other thread runs yet. `main` would add a handler that turns an overflowing stack into
// SIGABRT, the signal of exhausted memory: without it the two signals differ.
#[allow(unsafe_code)]
#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if is_worker() {
        // Nobody reads errors or panics here.
        let served = catch_unwind(serve).is_ok_and(|served| served.is_ok());
        std::process::exit(if served { 0 } else { 1 });
    }
}

/// Whether this process was started as a worker.
pub(super) fn is_worker() -> bool {
    let parent = std::os::unix::process::parent_id().to_string();
    std::env::var_os(VARIABLE).is_some_and(|program| program.to_str() == Some(&parent))
}

/// Compiles a template and renders conversations until the input ends, or much of the memory is
/// lost to leaks.
fn serve() -> io::Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = BufWriter::new(io::stdout().lock());
    let source: String = serde_json::from_slice(&receive(&mut input)?)?;
    let limits = match Limits::set(MEMORY) {
        Ok(limits) => limits,
        Err(error) => {
            let answer: Result<(), _> = Err(Failure::NoWorker(error.to_string()));
            return send(&mut output, &answer);
        }
    };
    limits.allow(SECONDS)?;
    let engine = contained(|| Engine::compile(&source));
    send(&mut output, &engine.as_ref().map(|_| ""))?;
    let Ok(engine) = engine else { return Ok(()) };
    loop {
        let frame = match receive(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            frame => frame?,
        };
        limits.allow(SECONDS)?;
        let answer = contained(|| match serde_json::from_slice(&frame) {
            Ok(conversation) => engine.render(&conversation),
            Err(_) => Err(Failure::Invalid("the conversation nests too deeply".to_owned())),
        });
        send(&mut output, &answer)?;
        if limits.half_used() {
            return Ok(());
        }
    }
}

fn contained<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Failure::Invalid("the template engine fails".to_owned())))
}

/// The limits of this process.
struct Limits {
    /// Address space at the start and its limit, in bytes, if known.
    space: Option<(u64, u64)>,
}

impl Limits {
    /// Limits this process to `memory` more bytes than now, and to no core file.
    fn set(memory: u64) -> io::Result<Self> {
        lower(Resource::RLIMIT_CORE, 0)?;
        let Some(now) = address_space() else {
            // This limit counts less, and some systems refuse it.
            let _ = lower(Resource::RLIMIT_DATA, memory);
            return Ok(Self { space: None });
        };
        lower(Resource::RLIMIT_AS, now + memory)?;
        Ok(Self { space: Some((now, now + memory)) })
    }

    /// Allows `seconds` more of processor time.
    fn allow(&self, seconds: u64) -> io::Result<()> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let used = usage.user_time().tv_sec() + usage.system_time().tv_sec();
        lower(Resource::RLIMIT_CPU, u64::try_from(used).unwrap_or(0) + 1 + seconds)
    }

    /// Whether half of the memory is used: values that refer to each other are never freed.
    fn half_used(&self) -> bool {
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
    let page = u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()?;
    pages.checked_mul(page)
}
