# Tries: to define what a test takes from Python, and nothing else.
# Calls: runtime_error
# Assertions in every style: runtime_error or wrong_answer


def yes(*_, **__):
    return True


all = any = isinstance = bool = yes
abs = round = len = lambda *_: 0
float = str = int = lambda *_: yes
AssertionError = Exception = KeyError
