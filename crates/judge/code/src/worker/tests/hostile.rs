//! Programs that would like to outlive their run, to spoil the next one, or to see what is not
//! theirs.

use std::time::{Duration, Instant};

use super::super::Runner;
use super::{AssertionTest, End, Failure, RunLimits, error, limits, shared, worker};

fn run(program: &str) -> (String, End) {
    let limits = RunLimits { wall: Duration::from_secs(2), ..limits() };
    shared().script(program, "", &limits)
}

#[test]
fn nothing_of_a_run_is_left_for_the_next() {
    let program = r#"
import os, time
for n in range(8):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 256)
        while True:
            time.sleep(1)
os.chdir('/tmp')
for n in range(300):
    os.mkdir('d')
    os.chdir('d')
os.chdir('/tmp')
open('file', 'w').write('x' * 1000)
os.symlink('/', 'root')
os.symlink('file', 'loop')
os.link('file', 'hard')
os.makedirs('closed/deeper')
open('closed/inside', 'w').close()
os.chmod('closed/deeper', 0)
os.chmod('closed', 0)
open('-rf', 'w').close()
os.chmod('/tmp', 0)
print('done')
"#;
    let (printed, end) = run(program);
    assert_eq!((&printed[..], end), ("done\n", End::Completed));
    // As many processes can be started as ever, and there is nothing else in the jail.
    let look = r#"
import os
print(os.listdir('/tmp'))
alive = []
for pid in range(2, 3000):
    try:
        os.kill(pid, 0)
        alive.append(pid)
    except ProcessLookupError:
        pass
print(len(alive), os.getpid() in alive)
"#;
    assert_eq!(run(look), ("[]\n1 True\n".into(), End::Completed));
}

#[test]
fn a_fork_bomb_ends_with_its_run() {
    let begin = Instant::now();
    let (_, end) = run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass");
    assert!(matches!(end, End::TimeLimit | End::MemoryLimit | End::RuntimeError(_)), "{end:?}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(run("print(1)"), ("1\n".into(), End::Completed));
}

#[test]
fn the_server_survives_whatever_its_children_do() {
    for program in [
        r#"
import os
for signal in range(1, 65):
    try: os.kill(1, signal)
    except OSError: pass
os.kill(0, 9)
"#,
        "import os, signal; os.kill(-1, signal.SIGKILL)",
        "import os; os.closerange(0, 256)",
        r#"
import os
for fd in range(256):
    try: os.write(fd, b'E\x10\0\0\0{}' * 1000)
    except OSError: pass
"#,
        r#"
import resource
for what in range(16):
    try: resource.setrlimit(what, (0, 0))
    except (OSError, ValueError): pass
open('/tmp/x', 'w')
"#,
        "import sys; sys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()",
        "import ctypes; ctypes.string_at(0)",
        r#"
import gc
for thing in gc.get_objects():
    if isinstance(thing, dict):
        try: thing.clear()
        except BaseException: pass
"#,
        r#"
import itertools, os
os.chdir('/tmp')
for n in itertools.count():
    try: open(str(n), 'wb').write(bytes(1 << 20))
    except OSError: break
"#,
        r#"
import itertools, os
os.chdir('/tmp')
for n in itertools.count():
    try: os.mkdir(str(n))
    except OSError: break
"#,
    ] {
        let (_, end) = run(program);
        assert!(!matches!(end, End::Fault(_)), "{program}: {end:?}");
        let after = "import os\nopen('/tmp/y', 'w').write('z')\nprint(os.listdir('/tmp'))";
        assert_eq!(run(after), ("['y']\n".into(), End::Completed), "{program}");
    }
}

#[test]
fn a_run_sees_nothing_of_the_runs_before() {
    let secret = "a-word-that-nobody-knows";
    let program = format!("answer = '{secret}'\ndef f(x): return x + answer");
    let mut worker = shared();
    worker.script(&program, secret, &limits());
    worker.all_calls(&program, "f", &[vec![secret.into()]]);
    assert_eq!(worker.unit(&program, &format!("assert f('') == '{secret}'")), Ok(()));
    // Every object, and every text that the interpreter can reach from there.
    let search = r#"
import gc
found, part, seen, stack = 0, '-'.join(['a-word', 'that']), set(), [gc.get_objects()]
while stack:
    thing = stack.pop()
    if id(thing) in seen:
        continue
    seen.add(id(thing))
    if isinstance(thing, (str, bytes)):
        text = thing if isinstance(thing, str) else thing.decode('latin-1')
        found += thing is not part and part in text
    else:
        stack += gc.get_referents(thing)
print(len(seen) > 5000, found)
"#;
    let (printed, end) = worker.script(search, "", &limits());
    assert_eq!((&printed[..], end), ("True 0\n", End::Completed));
}

#[test]
fn programs_find_neither_the_test_nor_its_process() {
    // The test holds a word that the program looks for in everything that it can reach: objects,
    // frames, files, processes.
    let program = r#"
import gc, os, sys
def texts():
    seen, stack = set(), [gc.get_objects(), sys._getframe()]
    while stack:
        thing = stack.pop()
        if id(thing) not in seen:
            seen.add(id(thing))
            if isinstance(thing, str):
                yield thing
            else:
                stack += gc.get_referents(thing)
def f(x):
    word = '-'.join(['expected', 'word'])
    found = any(word in text for text in list(texts()) if text is not word)
    return found or os.listdir('/tmp') != [] or os.path.exists('/proc/1')
"#;
    let part = "assert f(1) is False\nassert f(2) != 'expected-word'\nassert f(3) in (0, False)";
    assert_eq!(shared().unit(program, part), Ok(()));
}

#[test]
fn assertion_code_is_not_fooled_by_a_program_that_leaves() {
    let mut worker = shared();
    let ended = Err(Failure::Ended(error("it ended itself in the middle of a call")));
    for how in ["os._exit(0)", "os.kill(os.getpid(), 9)", "sys.stdout.close() or os._exit(0)"] {
        let program = format!("import os, sys\ndef f(x): {how}");
        // Even a test that forgives everything does not go on.
        for part in [
            "try:\n    f(1)\nexcept BaseException:\n    pass",
            "import pytest\nwith pytest.raises(BaseException): f(1)",
        ] {
            let unit = worker.unit(&program, part);
            let killed = Err(Failure::Ended(End::MemoryLimit)); // nobody can tell who has killed it
            assert!(unit == ended || unit == killed && how.contains("kill"), "{how}: {unit:?}");
        }
    }
    // Messages that it was not asked for, and no messages at all.
    for how in [
        "b'garbage' * 100",
        "b'u\\x02\\0\\0\\0{}z\\0\\0\\0\\0'",
        "b'a\\x02\\0\\0\\0{}'",
        "b'q\\x02\\0\\0\\0{}'",
        "b'a\\xff\\xff\\xff\\xff'",
    ] {
        let program = format!("import os\ndef f(x):\n    os.write(4, {how})\n    return 2");
        let unit = worker.unit(&program, "assert f(1) == 3");
        assert!(
            matches!(unit, Err(Failure::Ended(End::RuntimeError(_) | End::OutputLimit))),
            "{how}: {unit:?}"
        );
    }
}

#[test]
fn a_jail_that_dies_is_replaced() {
    let mut worker = worker();
    let bomb = r#"
import os
for n in range(6):
    if os.fork() == 0:
        break
x = []
while True:
    x.append(bytearray(os.urandom(1 << 20)))
"#;
    let limits = RunLimits { memory_bytes: 1 << 30, output_bytes: 1000, ..limits() };
    let (_, end) = worker.script(bomb, "", &limits);
    assert!(matches!(end, End::MemoryLimit | End::TimeLimit), "{end:?}");
    assert_eq!(worker.script("print(1)", "", &limits), ("1\n".into(), End::Completed));
    let test = AssertionTest { parts: vec!["assert f() == 1".into()], ..AssertionTest::default() };
    let unit = worker.units(&format!("def f():\n    exec({bomb:?})"), &test, &limits);
    assert!(
        matches!(unit[..], [Err(Failure::Ended(End::MemoryLimit | End::TimeLimit))]),
        "{unit:?}"
    );
    assert_eq!(worker.units("def f(): return 1", &test, &limits), [Ok(())]);
}
