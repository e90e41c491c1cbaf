//! Programs that would like to outlive their run, to spoil the next one, or to see what is not theirs.

use std::time::{Duration, Instant};

use super::{AssertionTest, End, Failure, RunLimits, error, limits, shared, worker};

fn run(program: &str) -> (String, End) {
    let limits = RunLimits { wall: Duration::from_secs(5), ..limits() };
    shared().script(program, "", &limits)
}

#[test]
fn nothing_of_a_run_is_left_for_the_next() {
    let program = "import os, subprocess, sys, time\nfor n in range(8):\n    if os.fork() == 0:\n        os.setsid()\n\
        \x20       for fd in range(256):\n            try: os.close(fd)\n            except OSError: pass\n        while True: time.sleep(1)\n\
        os.chdir('/tmp')\nfor n in range(300):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/tmp')\nopen('file', 'w').write('x' * 1000)\n\
        os.symlink('/', 'root'); os.symlink('file', 'loop'); os.link('file', 'hard');\nos.mkdir('closed')\n\
        open('closed/inside', 'w').close(); os.mkdir('closed/deeper'); os.chmod('closed/deeper', 0); os.chmod('closed', 0)\n\
        os.mkdir('.0'); open('-rf', 'w').close()\nos.chmod('/tmp', 0)\nprint('done')";
    let (printed, end) = run(program);
    assert_eq!((&printed[..], end), ("done\n", End::Completed));
    // As many processes can be started as ever, and there is nothing else in the jail.
    let look = "import os\nprint(os.listdir('/tmp'))\nalive = []\nfor pid in range(2, 3000):\n    try:\n        os.kill(pid, 0)\n\
        \x20       alive.append(pid)\n    except ProcessLookupError: pass\nprint(len(alive), os.getpid() in alive)";
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
        "import os, signal\nfor s in range(1, 65):\n    try: os.kill(1, s)\n    except OSError: pass\nos.kill(0, 9)",
        "import os, signal\nos.kill(-1, signal.SIGKILL)",
        "import os\nfor fd in range(256):\n    try: os.close(fd)\n    except OSError: pass",
        "import os\nfor fd in range(256):\n    try: os.write(fd, b'E\\x10\\0\\0\\0{}' * 1000)\n    except OSError: pass",
        "import resource\nfor what in range(16):\n    try: resource.setrlimit(what, (0, 0))\n    except (OSError, ValueError): pass\nopen('/tmp/x', 'w')",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()",
        "import ctypes\nctypes.string_at(0)",
        "import gc, sys\nfor thing in gc.get_objects():\n    if isinstance(thing, dict):\n        try: thing.clear()\n        except BaseException: pass",
        "import os\nos.chdir('/tmp')\nn = 0\nwhile True:\n    try: open(str(n), 'wb').write(bytes(1 << 20))\n    except OSError: break\n    n += 1",
        "import os\nos.chdir('/tmp')\nn = 0\nwhile True:\n    try: os.mkdir(str(n))\n    except OSError: break\n    n += 1",
    ] {
        let (_, end) = run(program);
        assert!(!matches!(end, End::Fault(_)), "{program}: {end:?}");
        assert_eq!(
            run("import os\nopen('/tmp/y', 'w').write('z')\nprint(os.listdir('/tmp'))"),
            ("['y']\n".into(), End::Completed),
            "{program}"
        );
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
    let search = "import gc\nfound = 0\npart = '-'.join(['a-word', 'that'])\nseen = set()\nstack = [gc.get_objects()]\nwhile stack:\n    thing = stack.pop()\n\
        \x20   if id(thing) in seen: continue\n    seen.add(id(thing))\n    if isinstance(thing, (str, bytes)):\n\
        \x20       found += thing is not part and part in (thing if isinstance(thing, str) else thing.decode('latin-1'))\n    else: stack += gc.get_referents(thing)\n\
        print(len(seen) > 5000, found)";
    let (printed, end) = worker.script(search, "", &limits());
    assert_eq!((&printed[..], end), ("True 0\n", End::Completed)); // its own parts do not count: they are not joined
}

#[test]
fn programs_find_neither_the_test_nor_its_process() {
    // The test holds a word that the program looks for in everything that it can reach: objects, frames, files, processes.
    let program = "import gc, os, sys\ndef reach():\n    seen, stack, texts = set(), [gc.get_objects(), sys._getframe()], []\n\
        \x20   while stack:\n        thing = stack.pop()\n        if id(thing) in seen: continue\n        seen.add(id(thing))\n\
        \x20       if isinstance(thing, str): texts.append(thing)\n        else: stack += gc.get_referents(thing)\n    return texts\n\
        def f(x):\n    return any('-'.join(['expected', 'word']) in text for text in reach()) or len(os.listdir('/tmp')) or os.path.exists('/proc/1')\n";
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
    let bomb = "import os\nfor n in range(6):\n    if os.fork() == 0: break\nx = []\nwhile True: x.append(bytearray(os.urandom(1 << 20)))";
    let limits = RunLimits { wall: Duration::from_secs(20), memory_bytes: 1 << 30, output_bytes: 1000 };
    let (_, end) = worker.script(bomb, "", &limits);
    assert!(matches!(end, End::MemoryLimit | End::TimeLimit), "{end:?}");
    assert_eq!(worker.script("print(1)", "", &limits), ("1\n".into(), End::Completed));
    let test = AssertionTest { parts: vec!["assert f() == 1".into()], ..AssertionTest::default() };
    let unit = worker.units(&format!("def f():\n    exec({bomb:?})"), &test, &limits);
    assert!(matches!(unit[..], [Err(Failure::Ended(End::MemoryLimit | End::TimeLimit))]), "{unit:?}");
    assert_eq!(worker.units("def f(): return 1", &test, &limits), [Ok(())]);
}
