# Tries: to read the answers where the run keeps them.
# Scripts: runtime_error: FileNotFoundError
# Calls: runtime_error: FileNotFoundError
# Assertions: runtime_error: FileNotFoundError
# Unprotected: passes
import json


def answer(number):
    with open("@RUN_DIRECTORY@/answers.json") as file:
        return json.load(file)[str(number)]
