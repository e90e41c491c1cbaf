# Tries: to claim names that a test has from others, by speaking the protocol itself.
# Variants: 2
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error
from protocol import *

NAMES = """__name__ __builtins__ __file__ __import__ __build_class__ __debug__ __path__ __spec__ __all__ __doc__ __class__ all any
    abs float str len list dict isinstance range AssertionError Exception check candidate run n found test_answer TestAnswer unittest
    pytest self Reader reader FOUND Node value solution answer""".split()

take_over({name: "function" for name in (NAMES, ["__name__"])[@VARIANT@]}, lambda question: b'{"v": true, "o": []}')
