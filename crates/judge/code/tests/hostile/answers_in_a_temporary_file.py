# Tries: to read the answers from a temporary file of the host.
# Scripts: runtime_error: FileNotFoundError
# Calls: runtime_error: FileNotFoundError
# Assertions: runtime_error: FileNotFoundError
# Unprotected: passes
import json


def answer(number):
    with open("@TEMPORARY_FILE@") as file:
        return json.load(file)[str(number)]
