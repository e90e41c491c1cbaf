//! Shared by the tests: the tiers, programs in jails, and a look at them from outside.

use std::fs;
use std::io::{Read, Write};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use isentrope_sandbox::{Ending, Jail, Limits, Program, Sandbox, Tier};

/// How long what must happen may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Begins a line about a test that is left out.
pub const SKIPPED: &str = "SKIPPED: ";

/// Says what is not tried here, also of a test that passes: what is printed, the harness keeps to
/// itself.
pub fn skipped(what: &str) {
    let _ = writeln!(std::io::stderr(), "{SKIPPED}{what}");
}

/// Every tier that works here. Where there is no bubblewrap, that is said.
pub fn tiers() -> Vec<Sandbox> {
    let namespaces = Sandbox::of_tier(Tier::Namespaces).unwrap();
    match Sandbox::of_tier(Tier::Bubblewrap) {
        Ok(bubblewrap) => vec![namespaces, bubblewrap],
        Err(why) => {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| skipped(&format!("bubblewrap, {why}")));
            vec![namespaces]
        }
    }
}

/// A shell with a script, which has the name as its own.
pub fn shell(script: &str, name: &str) -> Program {
    Program {
        program: "/bin/sh".into(),
        arguments: ["-c", script, name].map(Into::into).to_vec(),
        readable: ["/bin", "/usr/bin"].map(Into::into).to_vec(),
        limits: Limits { memory_bytes: 256 << 20, processes: 32, ..Limits::default() },
        ..Program::default()
    }
}

/// The output of a program in a jail, and how it ended.
#[derive(Debug)]
pub struct Done {
    pub stdout: String,
    pub stderr: String,
    pub ending: Ending,
    pub took: Duration,
}

/// Runs a program to its end with this input.
pub fn run(sandbox: &Sandbox, program: &Program, input: &str) -> Done {
    let started = Instant::now();
    let mut jail = Jail::start(sandbox, program).unwrap();
    let (mut stdin, mut stdout, mut stderr) = jail.streams().unwrap();
    let input = input.to_owned();
    let write = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let read = thread::spawn(move || text(&mut stderr));
    let stdout = text(&mut stdout);
    let stderr = read.join().unwrap();
    let _ = write.join().unwrap(); // the program need not read
    let ending = jail.wait_for(PATIENCE).expect("the jail does not end");
    Done { stdout, stderr, ending, took: started.elapsed() }
}

fn text(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a script to its end.
pub fn script(sandbox: &Sandbox, script: &str) -> Done {
    run(sandbox, &shell(script, "script"), "")
}

/// A name that nothing else has.
pub fn unique(name: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes of this machine that have this among their arguments.
pub fn processes_named(name: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}

/// The first process of a jail whose program has this name: the one whose parent has another.
pub fn first_process(name: &str) -> u32 {
    wait_until(|| !processes_named(name).is_empty());
    *processes_named(name).iter().min_by_key(|pid| started_at(**pid)).unwrap()
}

/// When a process was started, in ticks since the system was.
fn started_at(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    fields.get(19).and_then(|field| field.parse().ok()).unwrap_or(u64::MAX)
}

/// The parent of a process.
pub fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The outer process of the jail that a process is the first of: with bubblewrap there is one
/// between them.
pub fn outer_of(first: u32) -> u32 {
    let mut pid = parent_of(first);
    while !fs::read(format!("/proc/{pid}/cmdline")).unwrap().ends_with(b"__sandbox\0")
        || fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"/usr/bin/bwrap")
    {
        pid = parent_of(pid);
    }
    pid
}

/// Waits for what must come true.
pub fn wait_until(mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < PATIENCE, "it does not come true");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether this user is root, and may do what root may.
pub fn is_root() -> bool {
    let may = rustix::thread::capabilities(None).unwrap().effective;
    nix::unistd::geteuid().is_root() && may.contains(rustix::thread::CapabilitySet::SYS_ADMIN)
}
