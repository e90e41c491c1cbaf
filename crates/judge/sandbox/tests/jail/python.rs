//! Python runs, with what programs use of it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use isentrope_sandbox::{Ending, Limits, Program};

use crate::support::{Done, run, skipped, tiers};

/// The interpreter's own file and its directories, if this user can run one.
fn python() -> Option<(PathBuf, Vec<PathBuf>)> {
    let script = "import sys, os; print(os.path.realpath(sys.executable)); print(sys.base_prefix); print(sys.base_exec_prefix)";
    let output = Command::new("python3")
        .args(["-I", "-c", script])
        .output()
        .ok()
        .filter(|done| done.status.success());
    let Some(output) = output else {
        skipped("this user has no python3");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(PathBuf::from);
    let program = lines.next().unwrap();
    // Where the prefix is that of the system, only what is Python's.
    let library =
        |prefix: PathBuf| if prefix.as_os_str() == "/usr" { "/usr/lib".into() } else { prefix };
    Some((program, lines.map(library).collect()))
}

fn on_every_tier(script: &str, check: impl Fn(&Done)) {
    let Some((program, readable)) = python() else { return };
    let limits = Limits { memory_bytes: 512 << 20, ..Limits::default() };
    let arguments = ["-I", "-c", script].map(Into::into).to_vec();
    let program = Program { program, arguments, readable, limits, ..Program::default() };
    for sandbox in tiers() {
        let done = run(&sandbox, &program, "3\n4\n");
        check(&done);
    }
}

fn prints(script: &str, expected: &str) {
    on_every_tier(script, |done| {
        assert!(done.stdout == expected && done.ending == Ending::Exited(0), "{done:?}");
    });
}

#[test]
fn it_starts_quickly() {
    on_every_tier("print(int(input()) + int(input()))", |done| {
        eprintln!("python in a jail took {:?}", done.took);
        assert_eq!(done.stdout, "7\n");
        assert!(done.took < Duration::from_secs(5));
    });
}

#[test]
fn libraries_of_its_own_can_be_used() {
    prints(
        "import collections, ctypes, decimal, hashlib, itertools, json, math, random, re, sqlite3, string, tempfile\n\
         print(hashlib.sha256(b'').hexdigest()[:8], decimal.Decimal(2).sqrt(), ctypes.sizeof(ctypes.c_long))\n\
         print(sqlite3.connect(':memory:').execute('select 1 + 1').fetchone())\n\
         with tempfile.NamedTemporaryFile('w+') as f: f.write('x'); f.seek(0); print(f.name[:5], f.read())\n",
        "e3b0c442 1.414213562373095048801688724 8\n(2,)\n/tmp/ x\n",
    );
}

#[test]
fn threads_processes_and_loops_work() {
    prints(
        "import threading, subprocess, sys, asyncio, os\n\
         results = []\n\
         threads = [threading.Thread(target=results.append, args=(i,)) for i in range(8)]\n\
         [t.start() for t in threads]; [t.join() for t in threads]\n\
         print(sorted(results))\n\
         print(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout.strip())\n\
         async def later(x):\n    await asyncio.sleep(0.01)\n    return x\n\
         async def both():\n    return await asyncio.gather(later(1), later(2))\n\
         print(asyncio.run(both()))\n\
         import multiprocessing\n\
         with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n\
         print(os.getpid(), os.cpu_count() > 0)\n",
        "[0, 1, 2, 3, 4, 5, 6, 7]\n42\n[1, 2]\n[1, 2]\n1 True\n",
    );
}

/// The scheduler gives each session its share, so a jail has only one session. A program that asks
/// for another goes on as if it had it.
#[test]
fn a_jail_is_one_session() {
    prints(
        "import os, subprocess, sys\n\
         before = os.getsid(0)\n\
         if os.fork() == 0:\n    os.setsid()\n    os._exit(os.getsid(0) == before)\n\
         print(os.waitstatus_to_exitcode(os.wait()[1]))\n\
         script = f'import os; print(os.getsid(0) == {before})'\n\
         print(subprocess.run([sys.executable, '-c', script], capture_output=True, text=True, start_new_session=True).stdout)\n",
        "1\nTrue\n\n",
    );
}

/// Locks of /dev/null would be seen in other jails, and signals to a group reach the first process.
#[test]
fn records_are_not_locked_and_the_first_group_is_closed() {
    prints(
        "import fcntl, os\n\
         try: fcntl.lockf(open('/dev/null', 'w'), fcntl.LOCK_EX)\n\
         except OSError: print('no lock', flush=True)\n\
         if os.fork() == 0:\n    os.setpgid(0, 0)\n    try: os.setpgid(0, 1)\n    \
         except PermissionError: print('no group', flush=True)\n    os._exit(0)\n\
         os.wait()\n",
        "no lock\nno group\n",
    );
}

#[test]
fn extension_modules_with_threads_of_their_own_load() {
    on_every_tier("import numpy; print(numpy.linalg.inv(numpy.eye(64)).sum())", |done| {
        if done.stderr.contains("No module named 'numpy'") {
            skipped("this python3 has no numpy");
            return;
        }
        assert_eq!(done.stdout, "64.0\n", "{done:?}");
    });
}

#[test]
fn what_waits_in_sockets_is_memory() {
    let script = "import socket\n\
         pairs = [socket.socketpair() for _ in range(100)]\n\
         for pair in pairs:\n    for one in pair:\n        one.setblocking(False)\n        \
         try:\n            while True: one.send(bytes(4096))\n        except BlockingIOError: pass\n\
         print('full', flush=True)\nimport time; time.sleep(2)\n";
    let Some((program, readable)) = python() else { return };
    let limits = Limits { memory_bytes: 64 << 20, open_files: 1024, ..Limits::default() };
    let arguments = vec!["-I".into(), "-c".into(), script.into()];
    let program = Program { program, arguments, readable, limits, ..Program::default() };
    for sandbox in tiers() {
        let done = run(&sandbox, &program, "");
        assert_eq!(done.ending, Ending::MemoryLimit, "{done:?}");
    }
}
