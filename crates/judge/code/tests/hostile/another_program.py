# Tries: to become another program, which does not know what it was asked.
# Scripts: wrong_answer
# Calls: runtime_error or time_limit
# Assertions: runtime_error or time_limit
import os
import sys


def answer(number):
    code = "import os; os.closerange(3, 256); print('here I am')"
    os.execve(sys.executable, ["python3", "-I", "-c", code], {})
