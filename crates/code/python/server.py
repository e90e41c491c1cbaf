"""The first process of a jail: forks a process for each run, passes on what it says, and ends all that the run has started.

It never looks at what runs are about: programs and tests are read by the forked process itself, so each run begins with the
same memory, in which there is nothing of the runs before.

    in    R  an order: what the run may take, as JSON; its content follows in the next frame
          M  bytes for the process of the run
          K  end the run
    out   H  hello, once
          O  bytes from the process of the run
          E  the end of the run, as JSON: nothing of it is left
"""

import gc
import json
import os
import select
import signal
import time

from frames import read_frame, write_frame
from run_process import become

CHUNK = 1 << 16
# The end of the standard error that is kept, in bytes: enough for the last line of a traceback.
TAIL = 4096


class Server:
    """Serves runs of one `main(content)` each, in modes by name, until its input ends."""

    def __init__(self, modes, in_jail):
        self.modes = modes
        # In a jail everything but this process is the run's. Elsewhere (in tests of this file) that would be everything.
        self.in_jail = in_jail and os.getpid() == 1
        self.wake, wake_up = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_up, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a first process gets only signals that it handles
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)

    def serve(self):
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
                    run.pending = memoryview(bytes(run.pending) + frame[1])
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
                self.kill(run)
            if self.wake in events:
                os.read(self.wake, CHUNK)
                self.reap(run)
        self.end(run)

    def kill(self, run):
        try:
            if self.in_jail:
                os.kill(-1, signal.SIGKILL)  # all processes but this one, at once
            else:
                os.killpg(run.process, signal.SIGKILL)
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
        self.kill(run)
        while self.in_jail and self.reap(run, 0):
            self.kill(run)
        if run.ended_for != "asked":
            run.drain()
        run.close()
        report = run.report()
        try:
            if self.in_jail:
                empty("/tmp")
        except OSError as error:
            report["left"] = str(error)
        write_frame(1, b"E", json.dumps(report).encode())


class Run:
    """One run: its process, and the pipes to it."""

    def __init__(self, order, main):
        script = order["mode"] == "script"
        self.limit = order.get("output_bytes") if script else None
        self.passed_on = 0
        self.tail = b""
        self.pending = b""
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
            data = os.read(self.outward, CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        self.passed_on += len(data)
        if self.limit is not None and self.passed_on > self.limit:
            data = data[:len(data) - (self.passed_on - self.limit)]
            self.ended_for = self.ended_for or "output"
        if data:
            write_frame(1, b"O", data)
        return not self.ended_for

    def keep_error(self):
        try:
            data = os.read(self.errors, CHUNK)
        except BlockingIOError:
            return True
        self.tail = (self.tail + data)[-TAIL:]
        return bool(data)

    def write_pending(self):
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.inward, self.pending):]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads there any more
            self.pending = b""

    def drain(self):
        """What is still in the pipes when all who could write there are gone."""
        deadline = time.monotonic() + 1  # for runs outside of a jail, where somebody may be left
        for read in (self.pass_on, self.keep_error):
            while not self.ended_for and time.monotonic() < deadline and read():
                pass

    def close(self):
        for fd in (self.inward, self.outward, self.errors):
            os.close(fd)

    def report(self):
        killed = os.WIFSIGNALED(self.status)
        lines = self.tail.decode("utf-8", "replace").split("\n")
        return {
            "exit": None if killed else os.WEXITSTATUS(self.status),
            "signal": os.WTERMSIG(self.status) if killed else None,
            "cpu_s": self.cpu,
            "ended_for": self.ended_for,
            "left": None,  # why something is left in the temporary directory
            "error": next((line.strip()[:500] for line in reversed(lines) if line.strip()), ""),
        }


def empty(top):
    """Empties a directory, however deep and however closed what is in it, without following a link out of it."""
    os.chmod(top, 0o700)
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    number, mark = 0, os.urandom(16).hex()
    try:
        while True:
            entries = list(os.scandir(directory))
            if not entries:
                return
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=directory)
                    continue
                # What is inside moves up beside it, so that no path is ever long.
                os.chmod(entry.name, 0o700, dir_fd=directory)
                inside = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                try:
                    for inner in list(os.scandir(inside)):
                        if inner.is_dir(follow_symlinks=False):
                            os.chmod(inner.name, 0o700, dir_fd=inside)
                            number += 1
                            os.rename(inner.name, f"{mark}.{number}", src_dir_fd=inside, dst_dir_fd=directory)
                        else:
                            os.unlink(inner.name, dir_fd=inside)
                finally:
                    os.close(inside)
                os.rmdir(entry.name, dir_fd=directory)
    finally:
        os.close(directory)
