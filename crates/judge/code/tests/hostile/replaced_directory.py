# Tries: to put something else in the place of the temporary directory.
# Scripts: runtime_error: nothing was replaced
# Calls: runtime_error: nothing was replaced
# Assertions: runtime_error: nothing was replaced
import os


def attempts():
    yield lambda: os.rename("/tmp", "/tmp2")
    yield lambda: os.rmdir("/tmp")
    yield lambda: os.symlink("/tmp/x", "/x")
    yield lambda: os.mkdir("/x")
    yield lambda: open("/x", "w")
    yield lambda: os.unlink("/dev/shm")
    yield lambda: os.rename("/dev/shm", "/dev/shm2")
    yield lambda: os.symlink("/tmp", "/dev/x")
    yield lambda: os.chmod("/", 0o777)
    yield lambda: os.chmod("/dev", 0o777)
    yield lambda: os.chown("/tmp", 0, 0)
    yield lambda: os.link("/dev/null", "/tmp/null")
    yield lambda: os.mknod("/tmp/device", 0o20666, os.makedev(1, 1))
    yield lambda: os.chroot("/tmp")


def answer(number):
    done = []
    for place, attempt in enumerate(attempts()):
        try:
            attempt()
            done.append(place)
        except OSError:
            pass
    raise RuntimeError(f"replaced: {done}" if done else "nothing was replaced")
