# Tries: to write wherever there is a directory, and over the libraries of the interpreter.
# Scripts: runtime_error: nothing was written
# Calls: runtime_error: nothing was written
# Assertions: runtime_error: nothing was written
import os
import sys
import sysconfig


def answer(number):
    written = []
    library = sysconfig.get_paths()["stdlib"]
    places = ["/", "/usr", "/usr/lib", "/lib", "/dev", "/etc", "/var", "/var/tmp", "/run", "/root", "/home", "@RUN_DIRECTORY@",
              library, os.path.join(library, "site-packages"), os.path.dirname(sys.executable), "/tmp/..", "/proc", "/sys"]
    for place in places:
        try:
            with open(f"{place}/@TRACE@.trace", "w") as file:
                file.write("here")
            written.append(place)
        except OSError:
            pass
    for path in (os.__file__, sys.executable, "/dev/null", "/dev/urandom", "@RUN_DIRECTORY@/answers.json"):
        for act in (lambda: os.truncate(path, 0), lambda: os.chmod(path, 0o777), lambda: os.utime(path, (0, 0)),
                    lambda: os.unlink(path), lambda: os.rename(path, path + "2"), lambda: os.chown(path, os.getuid(), -1),
                    lambda: os.link(path, "/tmp/link"), lambda: os.setxattr(path, "user.x", b"x"),
                    lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND)) if path != "/dev/null" else 1 / 0):
            try:
                act()
                written.append(path)
            except (OSError, ZeroDivisionError):
                pass
    raise RuntimeError(f"written: {written}" if written else "nothing was written")
