//! Limits of jails, and programs that want more.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use isentrope_sandbox::{Ending, Jail, Limits, Program};

use crate::support::{
    PATIENCE, is_root, processes_named, run, script, shell, tiers, unique, wait_until,
};

fn limited(script: &str, limits: Limits) -> Program {
    Program { limits, ..shell(script, "limited") }
}

#[test]
fn memory_is_counted_over_all_processes() {
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    // Each holds what one alone may hold. Input of a process in the background is empty, so there it
    // sleeps.
    let hold = "x=$(head -c 30000000 /dev/urandom | base64 -w 0 | head -c 30000000); echo held";
    for sandbox in tiers() {
        let one = run(&sandbox, &limited(hold, limits.clone()), "");
        assert_eq!((one.stdout.as_str(), one.ending), ("held\n", Ending::Exited(0)));
        let several = format!("for i in 1 2 3 4; do ({hold}; sleep 60) & done; wait");
        let mut jail = Jail::start(&sandbox, &limited(&several, limits.clone())).unwrap();
        let _streams = jail.streams();
        assert_eq!(jail.wait_for(PATIENCE), Some(Ending::MemoryLimit));
    }
}

/// Set in the environment of this program when it is to be a bomb.
const BOMB: &str = "ISENTROPE_TEST_BOMB";

/// Not a test but the program in one: starts itself as often as it can, for ever.
#[test]
fn bomb() {
    if std::env::var_os(BOMB).is_none() {
        return;
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap();
    let arguments: Vec<_> = arguments.collect();
    loop {
        let _ = Command::new(&program).args(&arguments).spawn();
    }
}

#[test]
fn a_fork_bomb_stays_within_its_jail() {
    for sandbox in tiers() {
        let name = unique("bomb");
        let arguments = ["--exact", "limits::bomb", "--nocapture", "--test-threads=1", &name];
        let program = Program {
            program: std::env::current_exe().unwrap(),
            arguments: arguments.map(Into::into).to_vec(),
            environment: vec![(BOMB.into(), "1".into())],
            limits: Limits { processes: 20, ..Limits::default() },
            ..Program::default()
        };
        let mut jail = Jail::start(&sandbox, &program).unwrap();
        let _streams = jail.streams();
        wait_until(|| processes_named(&name).len() > 10);
        let until = Instant::now() + Duration::from_millis(500);
        // The kernel refuses root nothing, also in a user namespace; then too many are noticed a
        // moment later.
        let most = if nix::unistd::geteuid().is_root() && !is_root() { 100 } else { 20 };
        while Instant::now() < until {
            assert!(processes_named(&name).len() <= most);
            thread::sleep(Duration::from_millis(20));
        }
        // Others are not in its way.
        assert_eq!(script(&sandbox, "sh -c 'echo fine'").stdout, "fine\n");
        let started = Instant::now();
        assert!(matches!(jail.end(), Ending::Ended | Ending::ProcessLimit));
        assert!(started.elapsed() < Duration::from_secs(3));
        assert_eq!(processes_named(&name), [0; 0]);
    }
}

#[test]
fn tmp_is_full_when_it_is() {
    let limits = Limits { temporary_bytes: 1 << 20, temporary_files: 50, ..Limits::default() };
    for sandbox in tiers() {
        let bytes = "head -c 900000 /dev/urandom > a && echo fits; head -c 900000 /dev/urandom > b || wc -c < b; \
                     rm b; head -c 50000 /dev/urandom > c && echo fits again";
        let done = run(&sandbox, &limited(bytes, limits.clone()), "");
        let lines: Vec<&str> = done.stdout.lines().collect();
        assert!(
            matches!(lines[..], ["fits", less, "fits again"] if less.parse::<u32>().unwrap() < 200_000),
            "{done:?}"
        );
        let files = "i=0; while [ $i -lt 100 ] && true > file$i; do i=$((i+1)); done 2> /dev/null; ls | wc -l";
        let done = run(&sandbox, &limited(files, limits.clone()), "");
        // Where nothing refuses them, the jail ends.
        let count = done.stdout.trim().parse::<u32>();
        assert!(
            count.is_ok_and(|count| (30..=50).contains(&count))
                || done.ending == Ending::TemporaryLimit,
            "{done:?}"
        );
    }
}

#[test]
fn time_on_the_clock_is_the_starters() {
    for sandbox in tiers() {
        let mut jail = Jail::start(&sandbox, &shell("while :; do :; done", "endless")).unwrap();
        let started = Instant::now();
        assert_eq!(jail.wait_for(Duration::from_millis(300)), None);
        assert!((300..2000).contains(&started.elapsed().as_millis()));
        let started = Instant::now();
        assert_eq!(jail.end(), Ending::Ended);
        assert!(started.elapsed() < Duration::from_secs(2));
        assert_eq!(jail.end(), Ending::Ended, "as before");
    }
}
