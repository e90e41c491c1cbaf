# Tries: to learn something from its environment, its arguments, and the names of system and user.
# Scripts: runtime_error: nothing but HOME LANG OMP_NUM_THREADS OPENBLAS_NUM_THREADS
# Calls: runtime_error: nothing but HOME LANG OMP_NUM_THREADS OPENBLAS_NUM_THREADS
# Assertions: runtime_error: nothing but HOME LANG OMP_NUM_THREADS OPENBLAS_NUM_THREADS
import ctypes
import os
import socket

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p


def answer(number):
    known = {"HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONHASHSEED", "PYTHONUTF8", "TMPDIR"}
    assert set(os.environ) | {"LC_CTYPE"} == known | {"LC_CTYPE"}, sorted(os.environ)
    for name in ("CARGO_MANIFEST_DIR", "ISENTROPE_SANDBOX", "USER", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH"):
        assert libc.getenv(name.encode()) is None, name
    assert socket.gethostname() == "jail", socket.gethostname()
    assert os.getuid() != 0 and os.geteuid() == os.getuid() and os.getgid() != 0 and not os.getgroups()
    assert os.getppid() in (0, 1) and os.getpgid(0) == os.getpid()
    raise RuntimeError("nothing but " + " ".join(sorted(known)))
