# Tries: to put input into a terminal, to be told of what happens to its descriptors, and to grow its pipes.
# Scripts: runtime_error: nothing was controlled
# Calls: runtime_error: nothing was controlled
# Assertions: runtime_error: nothing was controlled
import fcntl
import os
import termios

CALLS = {
    "TIOCSTI": lambda fd: fcntl.ioctl(fd, termios.TIOCSTI, b"x"),
    "TIOCSCTTY": lambda fd: fcntl.ioctl(fd, termios.TIOCSCTTY, 1),
    "TIOCLINUX": lambda fd: fcntl.ioctl(fd, 0x541C, b"\x02\0\0\0"),
    "FS_IOC_SETFLAGS": lambda fd: fcntl.ioctl(fd, 0x40086602, b"\x10\0\0\0\0\0\0\0"),
    "FIOASYNC": lambda fd: fcntl.ioctl(fd, 0x5452, b"\1\0\0\0"),
    "F_SETOWN": lambda fd: fcntl.fcntl(fd, fcntl.F_SETOWN, 1),
    "F_SETSIG": lambda fd: fcntl.fcntl(fd, fcntl.F_SETSIG, 9),
    "F_SETPIPE_SZ": lambda fd: fcntl.fcntl(fd, 1031, 1 << 20),
    "F_SETLEASE": lambda fd: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK),
    "F_NOTIFY": lambda fd: fcntl.fcntl(fd, fcntl.F_NOTIFY, 0x80000002),
    "F_ADD_SEALS": lambda fd: fcntl.fcntl(fd, 1033, 0xF),
    "controlling terminal": lambda fd: os.open("/dev/tty", os.O_RDWR),
    "terminal": lambda fd: os.openpty(),
}


def answer(number):
    done = []
    for name, call in CALLS.items():
        for descriptor in range(6):
            try:
                call(descriptor)
                done.append(name)
            except OSError:
                pass
    raise RuntimeError(f"controlled: {done}" if done else "nothing was controlled")
