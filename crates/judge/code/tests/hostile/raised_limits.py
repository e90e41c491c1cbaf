# Tries: to raise its own limits.
# Scripts: runtime_error: nothing was raised
# Calls: runtime_error: nothing was raised
# Assertions: runtime_error: nothing was raised
import os
import resource


def answer(number):
    raised = []
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            limit = getattr(resource, name)
            soft, hard = resource.getrlimit(limit)
            if hard == resource.RLIM_INFINITY:
                continue
            for more in (resource.RLIM_INFINITY, hard + 1):
                try:
                    resource.setrlimit(limit, (soft, more))
                    raised.append(name)
                except (ValueError, OSError):
                    pass
                try:
                    resource.prlimit(1, limit, (more, more))
                    raised.append(name)
                except (ValueError, OSError):
                    pass
    try:
        os.nice(-5)
        raised.append("nice")
    except OSError:
        pass
    raise RuntimeError(f"raised: {raised}" if raised else "nothing was raised")
