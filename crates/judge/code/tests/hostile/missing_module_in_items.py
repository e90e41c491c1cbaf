# Tries: to make the test seem to be at fault, by an error that a test has when it imports what is not there.
# Variants: 5
# Scripts: runtime_error or wrong_answer
# Calls: runtime_error or wrong_answer
# Assertions in every style: runtime_error or wrong_answer


def missing(*_):
    raise ModuleNotFoundError("No module named 'numpy'", name="numpy")


def items():
    yield "3"
    missing()


class Items:
    __iter__ = __len__ = __getattr__ = __float__ = __str__ = __eq__ = missing


class Missing(ModuleNotFoundError):
    pass


def answer(number):
    return [missing, items, Items, lambda: map(missing, [1]), lambda: exec("raise Missing", globals())][@VARIANT@]()
