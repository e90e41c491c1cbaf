//! Programs as scripts.

use super::super::Runner;
use super::{End, RunLimits, error, limits, shared, worker};
use crate::Python;

fn run(program: &str, input: &str) -> (String, End) {
    shared().script(program, input, &limits())
}

fn prints(program: &str, input: &str, expected: &str) {
    assert_eq!(run(program, input), (expected.into(), End::Completed), "{program}");
}

#[test]
fn input_is_read_in_every_way() {
    for program in [
        "print(int(input()) + int(input()))",
        "import sys; print(sum(map(int, sys.stdin)))",
        "import sys; print(sum(map(int, sys.stdin.read().split())))",
        "import sys; input = sys.stdin.readline; print(int(input()) + int(input()))",
        "import sys; print(sum(map(int, sys.stdin.buffer.read().split())))",
        "print(sum(map(int, open(0).read().split())))",
        "import os, io; print(sum(map(int, io.BytesIO(os.read(0, os.fstat(0).st_size)).read().split())))",
        "print(sum(map(int, stdin.readlines())))",
        "print(sum(map(int, open('/dev/stdin').read().split())))",
        "with open('/dev/stdin', 'rb') as file: print(sum(map(int, file)))",
        "import pathlib; print(sum(map(int, pathlib.Path('/dev/stdin').read_text().split())))",
        "import io; print(int(io.open('/dev/stdin').readline()) + 2)",
        "import fileinput; print(sum(map(int, fileinput.input())))",
        "import threading, sys\nsys.setrecursionlimit(10 ** 6)\nthreading.stack_size(1 << 26)\n\
         def main(): print(int(input()) + int(input()))\nt = threading.Thread(target=main)\nt.start()",
        "def main():\n    print(int(input()) + int(input()))\nif __name__ == '__main__':\n    main()",
    ] {
        prints(program, "40\n2\n", "42\n");
    }
}

/// How programs of competitions replace the standard output: by objects that write when they are
/// flushed.
const FAST: &str = r#"
import os
import sys
from io import BytesIO, IOBase

class Fast(IOBase):
    def __init__(self, file):
        self.fd, self.buffer = file.fileno(), BytesIO()
        self.write = self.buffer.write

    def flush(self):
        os.write(self.fd, self.buffer.getvalue())
        self.buffer.truncate(0), self.buffer.seek(0)

class Wrapper(IOBase):
    def __init__(self, file):
        self.buffer = Fast(file)
        self.flush = self.buffer.flush
        self.write = lambda text: self.buffer.write(text.encode())

sys.stdout = Wrapper(sys.stdout)
print('é', end='')
"#;

#[test]
fn output_arrives_however_it_is_written() {
    for program in [
        "print('é', end='')",
        "import sys; sys.stdout.write('é')",
        "import os; os.write(1, 'é'.encode())",
        "import sys; sys.stdout.buffer.write('é'.encode())",
        "out = open(1, 'w'); out.write('é')",
        "import io, sys; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8'); print('é', end='')",
        "import atexit; atexit.register(lambda: print('é', end=''))",
        "print('é', end=''); exit()",
        "import sys; print('é', end=''); sys.exit(0)",
        "import subprocess, sys; print('é', end='', flush=True); sys.stdout.close()",
        "open('/dev/stdout', 'w').write('é')",
        "import os\nclass A:\n    def __del__(self): os.write(1, 'é'.encode())\na = A()",
        "class A:\n    def __del__(self): print(text, end='')\na = A()\na.me = a\ntext = 'é'",
        FAST,
        "import os, sys\nif os.fork() == 0:\n    print('é', end=''); sys.stdout.flush(); os._exit(0)\nos.wait()",
    ] {
        prints(program, "", "é");
    }
}

#[test]
fn errors_are_named_by_the_last_line() {
    for (program, line) in [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: "),
        ("input()", "EOFError: EOF when reading a line"),
        ("class A(Exception): pass\nraise A('x\\ny')", "A: x"),
        ("import sys; sys.exit(3)", "it ended with exit status 3"),
        ("import sys; sys.exit('no')", "no"),
        ("import os; os._exit(7)", "it ended with exit status 7"),
        ("import os; os.abort()", "it died of SIGABRT"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError: "),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError", "ValueError"),
    ] {
        let (_, end) = run(program, "");
        let End::RuntimeError(says) = &end else { panic!("{program}: {end:?}") };
        assert!(says.starts_with(line), "{program}: {says}");
    }
    // Output from before the error is still there.
    assert_eq!(
        run("print(1, flush=True)\n1 / 0", ""),
        ("1\n".into(), error("ZeroDivisionError: division by zero"))
    );
}

#[test]
fn names_of_the_usual_prelude_are_there_and_builtins_stay() {
    prints(
        "print(gcd(4, 6), deque([1]), inf, List, pow(2, 3, 5), datetime.date(1, 2, 3), heappop([1]))",
        "",
        "2 deque([1]) inf typing.List 3 0001-02-03 1\n",
    );
    prints(
        "from __future__ import annotations\ndef f(x: no_such_name): return x\nprint(f(1))",
        "",
        "1\n",
    );
    // The first line is the first line.
    prints(
        "import sys; print(sys._getframe().f_lineno, __name__, __file__)",
        "",
        "1 __main__ program.py\n",
    );
    // As deep as a graph of the usual size.
    prints("def f(n): return n if n == 0 else f(n - 1)\nprint(f(30000))", "", "0\n");
}

#[test]
fn runs_are_the_same_every_time() {
    let program = "import random\nprint(random.random(), list({'a', 'b', 'c'}), hash('x'))";
    assert_eq!(run(program, ""), run(program, ""));
}

/// Counters of a jail would tell a run what the runs before it did.
#[test]
fn no_run_reads_how_many_processes_and_files_another_made() {
    for (look, counted) in [
        (
            "import os; print(os.getpid())",
            "for _ in range(137): os.fork() or os._exit(0); os.wait()",
        ),
        (
            "import os; print(os.fstat(os.open('/tmp/x', os.O_CREAT)).st_ino)",
            "for n in range(137): open(f'/tmp/{n}', 'w')",
        ),
    ] {
        let mut worker = worker(&Python::find(None).unwrap());
        let mut run = |program: &str| worker.script(program, "", &limits());
        let first = run(look);
        assert_eq!(first.1, End::Completed);
        assert_eq!(run(&format!("import os\n{counted}")), (String::new(), End::Completed));
        assert_eq!(run(look), first, "{counted}");
    }
}

#[test]
fn large_inputs_and_outputs_pass() {
    let input = "0123456789abcde\n".repeat(1 << 17);
    let limits = RunLimits { output_bytes: 4 << 20, ..limits() };
    let (printed, end) =
        shared().script("import sys\nsys.stdout.write(sys.stdin.read())", &input, &limits);
    assert_eq!(end, End::Completed);
    assert!(printed == input);
}
