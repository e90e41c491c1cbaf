# Tries: to find the answers among the open files of the process that judges it, by its number.
# Scripts: runtime_error: nothing was found
# Calls: runtime_error: nothing was found
# Assertions: runtime_error: nothing was found
# Unprotected: passes
import json
import os


def answer(number):
    for descriptor in range(200):
        try:
            path = f"/proc/@PROCESS@/fd/{descriptor}"
            if os.readlink(path) == "@TEMPORARY_FILE@":
                with open(path) as file:
                    return json.load(file)[str(number)]
        except (OSError, ValueError):
            pass
    raise RuntimeError("nothing was found")
