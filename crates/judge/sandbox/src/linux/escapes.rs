//! Ways out of a jail.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::IoSliceMut;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::ptrace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, Uid, chroot, close, sethostname, setresuid};
use rustix::net::{AddressFamily, SocketType, socket};

use super::attempts::{EscapeTargets, Outcome};
use super::resource_limits::counts_by_namespace;

/// One way out.
pub struct Escape {
    pub name: &'static str,
    pub attempt: fn(&EscapeTargets) -> Outcome,
    /// Whether the attempt does no harm if nothing stops it.
    pub harmless: bool,
}

const fn harmless(name: &'static str, attempt: fn(&EscapeTargets) -> Outcome) -> Escape {
    Escape { name, attempt, harmless: true }
}

const fn harmful(name: &'static str, attempt: fn(&EscapeTargets) -> Outcome) -> Escape {
    Escape { name, attempt, harmless: false }
}

/// All of them.
pub const ESCAPES: &[Escape] = &[
    harmless("read a file of the host", |outside| {
        refused(fs::read(&outside.file), format_args!("{} was read", outside.file))
    }),
    harmless("read it through a link in /tmp", read_through_link),
    harmless("read accounts, processes and devices", read_system),
    harmful("write outside of /tmp", write_outside),
    harmless("open a socket of any family", open_socket),
    harmless("connect to a port of this machine", connect_port),
    harmless("connect to an abstract socket", connect_socket),
    harmless("signal a process outside", |outside| {
        refused(kill(Pid::from_raw(outside.process), None), "a signal could be sent")
    }),
    harmless("read the memory of a process outside", read_memory),
    harmless("trace a process outside", trace_outside),
    harmless("find secrets in the environment", read_environment),
    harmful("find an inherited descriptor", find_descriptor),
    harmful("become root", |_| {
        let root = Uid::from_raw(0);
        refused(setresuid(root, root, root), "this is root")
    }),
    harmless("have privileges", have_privileges),
    harmful("make namespaces", make_namespaces),
    harmful("mount", try_mount),
    harmful("change the root directory", |_| refused(chroot("/tmp"), "it was changed")),
    harmful("make a device", make_device),
    harmful("name the host", |_| refused(sethostname("escaped"), "it was named")),
    harmless("make memory that has no owner", |_| {
        refused(memfd_create(c"isentrope", MFdFlags::empty()), "a file of memory was made")
    }),
    harmless("raise a limit", raise_limit),
    harmful("outlive the process in front", |_| {
        refused(set_pdeathsig(None), "its end would not be noticed")
    }),
];

/// Held if there is an error.
fn refused<T>(result: Result<T, impl Display>, got: impl Display) -> Outcome {
    match result {
        Ok(_) => Err(got.to_string()),
        Err(error) => Ok(error.to_string()),
    }
}

/// Combines outcomes: held if all were, with the last one's obstacle; otherwise what got through.
fn all(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    outcomes.into_iter().try_fold(String::new(), |_, outcome| outcome)
}

fn read_through_link(outside: &EscapeTargets) -> Outcome {
    let link = format!("{}/isentrope-link-{}", std::env::temp_dir().display(), std::process::id());
    let hard = fs::hard_link(&outside.file, &link);
    let outcome = match hard {
        Ok(()) => Err("a hard link was made".to_owned()),
        Err(_) => symlink(&outside.file, &link)
            .map_err(|error| error.to_string())
            .and_then(|()| refused(fs::read(&link), "it was read")),
    };
    let _ = fs::remove_file(&link);
    outcome
}

fn read_system(_: &EscapeTargets) -> Outcome {
    let files = "/etc/passwd /etc/shadow /etc/hostname /proc/1/environ /proc/self/status \
                 /proc/self/exe /sys/kernel /dev/mem /dev/kmsg /.host /tmp/../etc/passwd";
    let opened = |file| refused(File::open(file), format_args!("{file} was opened"));
    all(files.split_whitespace().map(opened))
}

fn write_outside(_: &EscapeTargets) -> Outcome {
    let this = std::env::args_os().next().unwrap_or_default();
    let opened = OpenOptions::new().append(true).open(this);
    let places = ["/", "/usr/lib", "/lib", "/etc", "/dev", "/.host"];
    let made = places.map(|place| {
        let file = format!("{}/isentrope-test", place.trim_end_matches('/'));
        refused(fs::write(&file, ""), format_args!("{file} was written"))
    });
    all(made.into_iter().chain([refused(opened, "the program was opened for writing")]))
}

fn open_socket(_: &EscapeTargets) -> Outcome {
    // There are 46 families. Any kernel refuses other numbers.
    all((0..64).flat_map(|family| {
        [SocketType::STREAM, SocketType::DGRAM, SocketType::RAW, SocketType::SEQPACKET].map(
            |kind| {
                let opened = socket(AddressFamily::from_raw(family), kind, None);
                refused(opened, format_args!("a socket of family {family} was opened"))
            },
        )
    }))
}

fn connect_port(outside: &EscapeTargets) -> Outcome {
    let address = ([127, 0, 0, 1], outside.port).into();
    refused(TcpStream::connect_timeout(&address, Duration::from_secs(1)), "a connection was made")
}

fn connect_socket(outside: &EscapeTargets) -> Outcome {
    let address = SocketAddr::from_abstract_name(&outside.socket);
    refused(address.and_then(|address| UnixStream::connect_addr(&address)), "a connection was made")
}

fn read_memory(outside: &EscapeTargets) -> Outcome {
    // The first page is not mapped, so if nothing stops the call, it fails with EFAULT.
    let mut bytes = [0; 8];
    let place = RemoteIoVec { base: 8, len: 8 };
    match process_vm_readv(
        Pid::from_raw(outside.process),
        &mut [IoSliceMut::new(&mut bytes)],
        &[place],
    ) {
        Err(nix::errno::Errno::EFAULT) | Ok(_) => Err("it could be".into()),
        Err(error) => Ok(error.to_string()),
    }
}

fn trace_outside(outside: &EscapeTargets) -> Outcome {
    let process = Pid::from_raw(outside.process);
    let seized = ptrace::seize(process, ptrace::Options::empty());
    if seized.is_ok() {
        let _ = ptrace::detach(process, None);
    }
    refused(seized, "it is traced")
}

fn read_environment(_: &EscapeTargets) -> Outcome {
    const KNOWN: [&str; 4] = ["HOME", "LANG", "PATH", "TMPDIR"];
    let unknown = std::env::vars_os().find(|(name, _)| {
        let name = name.to_string_lossy();
        !KNOWN.contains(&&*name) && !name.starts_with("ISENTROPE_SANDBOX")
    });
    match unknown {
        Some((name, _)) => Err(format!("{} is set", name.display())),
        None => Ok("there are none".into()),
    }
}

fn find_descriptor(_: &EscapeTargets) -> Outcome {
    match (3..4096).find(|number| close(*number).is_ok()) {
        Some(number) => Err(format!("descriptor {number} was open")),
        None => Ok("there is none".into()),
    }
}

fn have_privileges(_: &EscapeTargets) -> Outcome {
    match rustix::thread::capabilities(None) {
        Ok(sets) if sets.permitted.is_empty() && sets.inheritable.is_empty() => {
            Ok("there are none".into())
        }
        Ok(sets) => Err(format!("capabilities {:?}", sets.permitted)),
        Err(error) => Err(error.to_string()),
    }
}

fn make_namespaces(_: &EscapeTargets) -> Outcome {
    use CloneFlags as F;
    let kinds =
        [F::CLONE_NEWUSER, F::CLONE_NEWNS, F::CLONE_NEWNET, F::CLONE_NEWPID, F::CLONE_NEWIPC];
    all(kinds.map(|kind| refused(unshare(kind), format_args!("{kind:?} was made"))))
}

fn try_mount(_: &EscapeTargets) -> Outcome {
    const NOTHING: Option<&str> = None;
    let mounts = [
        mount(Some("proc"), "/tmp", Some("proc"), MsFlags::empty(), NOTHING),
        mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::empty(), NOTHING),
        mount(NOTHING, "/", NOTHING, MsFlags::MS_REMOUNT | MsFlags::MS_BIND, NOTHING),
    ];
    all(mounts.map(|mounted| refused(mounted, "something was mounted")))
}

fn make_device(_: &EscapeTargets) -> Outcome {
    let kinds = [(SFlag::S_IFCHR, makedev(1, 1)), (SFlag::S_IFBLK, makedev(8, 0))];
    all(kinds.map(|(kind, number)| {
        refused(mknod("/tmp/device", kind, Mode::S_IRWXU, number), "a device was made")
    }))
}

fn raise_limit(_: &EscapeTargets) -> Outcome {
    use Resource as R;
    let resources =
        [R::RLIMIT_AS, R::RLIMIT_NPROC, R::RLIMIT_NOFILE, R::RLIMIT_FSIZE, R::RLIMIT_CORE];
    all(resources.map(|resource| {
        let (_, hard) = getrlimit(resource).map_err(|error| error.to_string())?;
        match hard.checked_add(1) {
            Some(more) => {
                refused(setrlimit(resource, more, more), format_args!("{resource:?} was raised"))
            }
            // If the kernel would count processes outside of the jail too, there is no such limit,
            // and the watchdog or a control group counts.
            None if resource == Resource::RLIMIT_NPROC && !counts_by_namespace() => {
                Ok("others count processes".into())
            }
            None => Err(format!("{resource:?} has no limit")),
        }
    }))
}
