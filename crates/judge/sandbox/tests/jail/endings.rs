//! Nothing of a jail remains, whichever process ends first.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use isentrope_sandbox::{Ending, Jail, Sandbox, Tier, kill_all};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    first_process, outer_of, processes_named, script, shell, skipped, tiers, unique, wait_until,
};

/// Leaves processes in sessions of their own, with nothing open, that ignore what they can.
const DAEMONS: &str = "trap '' TERM HUP INT; \
     for i in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP INT; exec < /dev/null > /dev/null 2>&1; \
     while :; do sleep 100; done' \"$0\" & done; sleep 0.2; echo ready; ";

/// Starts a jail with daemons. At least four processes have the name.
fn with_daemons(sandbox: &Sandbox, name: &str, then: &str) -> Jail {
    let mut jail = Jail::start(sandbox, &shell(&format!("{DAEMONS}{then}"), name)).unwrap();
    let (_, stdout, _) = jail.streams().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    jail
}

fn is_gone(name: &str) -> bool {
    processes_named(name).is_empty()
}

/// Things that jails might leave on the host: mounts and temporary files.
fn host() -> (String, BTreeSet<String>) {
    let files = fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().display().to_string());
    let of_jails = |name: &String| name.starts_with(".host") || name.starts_with("isentrope-jail");
    (fs::read_to_string("/proc/self/mountinfo").unwrap(), files.filter(of_jails).collect())
}

#[test]
fn endings_are_told_as_they_were() {
    for sandbox in tiers() {
        assert_eq!(script(&sandbox, "exit 0").ending, Ending::Exited(0));
        assert_eq!(script(&sandbox, "exit 7").ending, Ending::Exited(7));
        let name = unique("killed");
        let mut jail = Jail::start(&sandbox, &shell("sleep 100; true", &name)).unwrap();
        kill(Pid::from_raw(first_process(&name).cast_signed()), Signal::SIGKILL).unwrap();
        assert_eq!(jail.wait(), Ending::Signaled(9));
    }
}

#[test]
fn what_the_program_leaves_ends_with_it() {
    let before = host();
    for sandbox in tiers() {
        for (then, ending) in [("exit 3", Ending::Exited(3)), ("exec sleep 100", Ending::Ended)] {
            let name = unique("daemons");
            let mut jail = with_daemons(&sandbox, &name, then);
            if ending == Ending::Ended {
                assert!(processes_named(&name).len() >= 3);
                jail.end();
            }
            assert_eq!(jail.wait(), ending);
            assert!(is_gone(&name));
        }
        let name = unique("daemons");
        drop(with_daemons(&sandbox, &name, "sleep 100"));
        assert!(is_gone(&name), "dropped");
    }
    assert_eq!(host(), before);
}

#[test]
fn nothing_remains_when_the_outer_process_is_killed() {
    for sandbox in tiers() {
        let name = unique("outer");
        let mut jail = with_daemons(&sandbox, &name, "sleep 100");
        let outer = Pid::from_raw(outer_of(first_process(&name)).cast_signed());
        // Signals that schedulers send to all processes of a job do not reach it.
        kill(outer, Signal::SIGTERM).unwrap();
        kill(outer, Signal::SIGINT).unwrap();
        assert_eq!(jail.wait_for(Duration::from_millis(200)), None);
        kill(outer, Signal::SIGKILL).unwrap();
        assert_eq!(jail.wait(), Ending::Lost);
        wait_until(|| is_gone(&name));
    }
}

#[test]
fn nothing_remains_when_bubblewrap_is_killed() {
    let Ok(sandbox) = Sandbox::of_tier(Tier::Bubblewrap) else {
        skipped("there is no bubblewrap for this user");
        return;
    };
    let name = unique("bwrap");
    let mut jail = with_daemons(&sandbox, &name, "sleep 100");
    let bwrap = crate::support::parent_of(first_process(&name));
    kill(Pid::from_raw(bwrap.cast_signed()), Signal::SIGKILL).unwrap();
    assert!(matches!(jail.wait(), Ending::Signaled(9) | Ending::Lost));
    wait_until(|| is_gone(&name));
}

/// Set in the environment of this program when it is to start a jail for [`starter`]: the tier and
/// the name.
const STARTER: &str = "ISENTROPE_TEST_STARTER";

/// Not a test but the starter in one: starts a jail and waits to be killed, or ends all jails when
/// it reads a line.
#[test]
fn starter() {
    let Ok(value) = std::env::var(STARTER) else { return };
    let (tier, name) = value.split_once(':').unwrap();
    let tier = if tier == "bubblewrap" { Tier::Bubblewrap } else { Tier::Namespaces };
    let sandbox = Sandbox::of_tier(tier).unwrap();
    let mut jail = with_daemons(&sandbox, name, "sleep 100");
    eprintln!("started");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    if line == "exit\n" {
        kill_all();
        assert!(is_gone(name));
        assert_eq!(jail.wait(), Ending::Ended);
        let refused = Jail::start(&sandbox, &shell("true", "none")).unwrap_err().to_string();
        assert!(refused.contains("the program is ending"), "{refused}");
        std::process::exit(0);
    }
}

fn start_starter(sandbox: &Sandbox, name: &str) -> Child {
    let mut starter = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "endings::starter", "--nocapture"])
        .env(STARTER, format!("{}:{name}", sandbox.tier()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(starter.stderr.as_mut().unwrap());
    let mut line = String::new();
    while line != "started\n" {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the starter ended");
    }
    starter
}

#[test]
fn nothing_remains_when_the_starter_is_killed() {
    for sandbox in tiers() {
        let name = unique("starter");
        let mut starter = start_starter(&sandbox, &name);
        let outer = outer_of(first_process(&name));
        assert!(processes_named(&name).len() >= 3);
        starter.kill().unwrap();
        starter.wait().unwrap();
        wait_until(|| is_gone(&name));
        wait_until(|| !fs::exists(format!("/proc/{outer}")).unwrap());
    }
}

#[test]
fn nothing_remains_when_starter_and_outer_process_are_killed() {
    for sandbox in tiers() {
        let name = unique("both");
        let mut starter = start_starter(&sandbox, &name);
        let outer = outer_of(first_process(&name));
        kill(Pid::from_raw(outer.cast_signed()), Signal::SIGSTOP).unwrap();
        starter.kill().unwrap();
        starter.wait().unwrap();
        kill(Pid::from_raw(outer.cast_signed()), Signal::SIGKILL).unwrap();
        wait_until(|| is_gone(&name));
    }
}

#[test]
fn all_jails_end_at_once() {
    for sandbox in tiers() {
        let name = unique("all");
        let mut starter = start_starter(&sandbox, &name);
        std::io::Write::write_all(starter.stdin.as_mut().unwrap(), b"exit\n").unwrap();
        let mut said = String::new();
        starter.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(starter.wait().unwrap().success(), "{said}");
        assert!(is_gone(&name));
    }
}

#[test]
fn a_jail_outlives_the_thread_that_started_it() {
    for sandbox in tiers() {
        let start = || Jail::start(&sandbox, &shell("read line; echo $line", "thread")).unwrap();
        let mut jail = thread::scope(|scope| scope.spawn(start).join().unwrap());
        assert_eq!(jail.wait_for(Duration::from_millis(200)), None);
        let (mut stdin, mut stdout, _) = jail.streams().unwrap();
        std::io::Write::write_all(&mut stdin, b"still here\n").unwrap();
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), jail.wait()), ("still here\n", Ending::Exited(0)));
    }
}

#[test]
fn many_jails_leave_nothing_open() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let name = unique("many");
    for sandbox in tiers() {
        let before = open();
        thread::scope(|scope| {
            for worker in 0..8 {
                let (sandbox, name) = (&sandbox, &name);
                scope.spawn(move || {
                    for round in 0..20 {
                        let said = format!("{worker} {round}");
                        let done =
                            crate::support::run(sandbox, &shell(&format!("echo {said}"), name), "");
                        assert_eq!(
                            (done.stdout, done.ending),
                            (format!("{said}\n"), Ending::Exited(0))
                        );
                    }
                });
            }
        });
        // Other tests open files meanwhile, but not one for each of these jails.
        wait_until(|| open() <= before + 40);
        assert!(is_gone(&name));
    }
}
