# Describes an interpreter in one line of JSON: its program, its version, and the files it needs.
# Interpreters that are too old for anything else run it too, Python 2 among them.
import json, os, sys, sysconfig

def inside(path, directories):
    return any(path == directory or path.startswith(directory + os.sep) for directory in directories)

program = sys.executable
homes = [os.path.realpath(path) for path in (sys.prefix, sys.exec_prefix, getattr(sys, "base_prefix", sys.prefix),
                                             getattr(sys, "base_exec_prefix", sys.prefix))]
paths = [program, os.path.join(sys.prefix, "pyvenv.cfg")]
paths += [sysconfig.get_paths().get(name) for name in ("stdlib", "platstdlib")]
# Packages and archives of modules below the interpreter's own prefixes; what else was linked in is somebody's own.
paths += [path for path in sys.path if path and inside(os.path.realpath(path), homes)]
try:
    with open("/proc/self/maps") as maps:
        paths += [line.split(None, 5)[5].strip() for line in maps if "/" in line and ".so" in line]
except (IOError, OSError, IndexError):
    pass
readable = sorted(set(path for path in paths if path and os.path.isabs(path) and os.path.exists(path)))
print(json.dumps({"program": program, "version": list(sys.version_info[:3]), "readable": readable}))
