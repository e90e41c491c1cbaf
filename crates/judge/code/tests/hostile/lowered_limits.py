# Tries: to lower all limits to nothing, and with them those of its server.
# Scripts: runtime_error or memory_limit
# Calls: runtime_error or memory_limit
# Assertions: runtime_error or memory_limit
import resource


def answer(number):
    for limit in range(16):
        try:
            resource.setrlimit(limit, (0, 0))
        except (OSError, ValueError):
            pass
    open("/tmp/file", "w")
