# Tries: to end with success before it can be asked.
# Scripts: wrong_answer
# Calls: runtime_error
# Assertions in every style: runtime_error
import os

os._exit(0)
