"""The first process of a jail. It forks a process for each run, passes on its messages, and ends
all processes that the run has started.

It never reads programs or tests, which the forked process does itself: each run begins with the
same memory, in which there is nothing of the runs before. Messages pass through buffers that are
wiped with each run, and never through an object of Python, whose remains a program could find.

    in    R  an order with a run's limits, as JSON; its content follows in the next frame
          M  bytes for the process of the run
          K  end the run
    out   H  hello, once
          O  bytes from the process of the run
          E  the end of the run, as JSON, and behind a newline the end of its standard error;
             nothing is left of the run
"""

import gc
import json
import os
import select
import signal
import sys

from frames import read_frame, write_frame
from run_process import become

CHUNK = 1 << 16
# A run's output on its way.
BUFFER = memoryview(bytearray(CHUNK))
# The end of its standard error: enough for the last line of a traceback.
TAIL = memoryview(bytearray(4096))


class Server:
    """Serves runs of one `main(content)` each, in modes by name, until its input ends."""

    def __init__(self, modes):
        self.modes = modes
        self.wake, wake_up = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_up, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a first process gets only signals that it handles
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)

    def serve(self):
        self.counts_files = next_file() + 1 == next_file()  # old kernels number the files of all jails together
        self.next = next_process(), next_file()
        gc.collect()
        gc.freeze()
        write_frame(1, b"H", b"")
        while True:
            frame = read_frame(0)
            if frame is None:
                return
            if frame[0] == b"R":  # anything else came too late for its run
                self.run(json.loads(frame[1]))

    def run(self, order):
        run = Run(order, self.modes[order["mode"]])
        watched = select.poll()
        for fd in (0, self.wake, run.outward, run.errors):
            watched.register(fd, select.POLLIN)
        waits = False
        while run.status is None:
            events = dict(watched.poll())
            if 0 in events and not run.ended_for:
                frame = read_frame(0)
                if frame is None:
                    os._exit(0)  # nobody is left to answer, and with the first process all others end
                if frame[0] == b"K":
                    run.ended_for = "asked"
                elif frame[0] == b"M":
                    run.pending.append(memoryview(frame[1]))
            if run.outward in events and not run.pass_on():
                watched.unregister(run.outward)
            if run.errors in events and not run.keep_error():
                watched.unregister(run.errors)
            if run.pending:
                run.write_pending()
            if bool(run.pending) != waits:
                waits = not waits
                (watched.register if waits else watched.unregister)(run.inward, *[select.POLLOUT] * waits)
            if run.ended_for:
                self.kill()
            if self.wake in events:
                os.read(self.wake, CHUNK)
                self.reap(run)
        self.end(run)

    def kill(self):
        try:
            os.kill(-1, signal.SIGKILL)  # all processes of the jail but this one, at once
        except (ProcessLookupError, PermissionError):
            pass

    def reap(self, run, options=os.WNOHANG):
        """Buries what has ended; whether there is anything left that may end."""
        while True:
            try:
                process, status, usage = os.wait4(-1, options)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if process == run.process:
                run.status, run.cpu = status, usage.ru_utime + usage.ru_stime

    def end(self, run):
        """Leaves nothing of a run behind, then tells its end."""
        self.kill()
        while self.reap(run, 0):
            self.kill()
        if run.ended_for != "asked":
            run.drain()
        run.close()
        report = run.report(self.remains(run))
        write_frame(1, b"E", json.dumps(report).encode() + b"\n", TAIL[:run.kept])
        for buffer in (BUFFER, TAIL):
            wipe(buffer)

    def remains(self, run):
        """What the next run could see of this one, which then needs another jail; None for nothing."""
        try:
            os.chmod("/tmp", 0o700)
            if os.listdir("/tmp"):
                return "it left files"
            (process, file), self.next = self.next, (next_process(), next_file())
            os.utime("/tmp", ns=(0, 0))  # times could say something, too
        except OSError as error:
            return str(error)
        own_files = self.next[1] - file - 1 - run.is_script
        if self.next[0] != process + 2 or self.counts_files and own_files != 0:
            return "it started processes or made files, whose numbers the next run could read"
        return None


def next_process():
    """The next number of a process, by taking it."""
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return process


def next_file():
    """The next number of a file in the temporary directory, by taking it."""
    path = "/tmp/.number"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)
        os.unlink(path)


class Run:
    """One run: its process, and the pipes to it."""

    def __init__(self, order, main):
        self.is_script = order["mode"] == "script"  # whose input is a file
        self.limit = order.get("output_bytes") if self.is_script else None
        self.passed_on = 0
        self.kept = 0  # bytes of the standard error
        self.pending = []
        self.status = self.cpu = self.ended_for = None
        inward, self.inward = os.pipe()
        self.outward, outward = os.pipe()
        self.errors, errors = os.pipe()
        ready, is_ready = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            become(main, order, inward, outward, errors, is_ready)
        for fd in (inward, outward, errors, is_ready):
            os.close(fd)
        os.read(ready, 1)  # ends when the content has been read, and standard input is this process's again
        os.close(ready)
        for fd in (self.inward, self.outward, self.errors):
            os.set_blocking(fd, False)

    def pass_on(self):
        """Passes on what the process has written; whether there may be more."""
        try:
            length = os.readv(self.outward, [BUFFER])
        except BlockingIOError:
            return True
        if not length:
            return False
        self.passed_on += length
        if self.limit is not None and self.passed_on > self.limit:
            length -= self.passed_on - self.limit
            self.ended_for = self.ended_for or "output"
        if length > 0:
            write_frame(1, b"O", BUFFER[:length])
        return not self.ended_for

    def keep_error(self):
        try:
            length = os.readv(self.errors, [BUFFER])
        except BlockingIOError:
            return True
        new = min(length, len(TAIL))
        old = min(self.kept, len(TAIL) - new)
        TAIL[:old] = TAIL[self.kept - old:self.kept]
        TAIL[old:old + new] = BUFFER[length - new:length]
        self.kept = old + new
        return length > 0

    def write_pending(self):
        try:
            while self.pending:
                first = self.pending[0]
                written = os.write(self.inward, first)
                wipe(first[:written])
                self.pending[:1] = [first[written:]] if written < len(first) else []
        except BlockingIOError:
            pass
        except OSError:  # nobody reads there any more
            self.forget()

    def forget(self):
        for message in self.pending:
            wipe(message)
        self.pending = []

    def drain(self):
        """Passes on the rest in the pipes when all who could write there are gone."""
        for read in (self.pass_on, self.keep_error):
            while not self.ended_for and read():
                pass

    def close(self):
        self.forget()
        for fd in (self.inward, self.outward, self.errors):
            os.close(fd)

    def report(self, left):
        killed = os.WIFSIGNALED(self.status)
        return {
            "exit": None if killed else os.WEXITSTATUS(self.status),
            "signal": os.WTERMSIG(self.status) if killed else None,
            "cpu_s": self.cpu,
            "ended_for": self.ended_for,
            "left": left,
        }


def wipe(buffer):
    buffer[:] = bytes(len(buffer))


def start(role, modules):
    """Serves programs or tests until the input ends."""
    # It kills every process that it sees.
    if os.getpid() != 1:
        raise SystemExit("not the first process of a jail")
    if role == "programs":
        import program
        modes = {"script": program.script, "session": program.session}
    else:
        import checker
        import pytest_names
        modes = {"test": checker.session}
    for name in modules:
        del sys.modules[name]  # programs and tests have these names for themselves
    if role == "tests":
        sys.modules["pytest"] = pytest_names.module()
    os.chdir("/tmp")
    Server(modes).serve()
