# Tries: to abort, which would write the memory of the process to a file.
# Scripts: runtime_error: SIGABRT
# Calls: runtime_error: SIGABRT
# Assertions: runtime_error: SIGABRT
import os
import resource


def answer(number):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        pass
    os.abort()
