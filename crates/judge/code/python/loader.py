# The first thing that an interpreter in a jail runs: it reads the modules below from its first frame and starts the server.
import json, os, sys, types
def read(length):
    parts = []
    while length:
        parts.append(os.read(0, min(length, 1 << 20)) or os._exit(0))
        length -= len(parts[-1])
    return b"".join(parts)
sys.path[:] = [path for path in sys.path if path]
start = json.loads(read(int.from_bytes(read(5)[1:], "little")))
for name, source in start["modules"]:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
sys.modules["server"].start(start["role"], [name for name, _ in start["modules"]])
