# Tries: to be a module where a function is asked for, so that the test seems to be at fault.
# Calls: runtime_error
# Assertions in every style: runtime_error or wrong_answer
import ctypes as answer
