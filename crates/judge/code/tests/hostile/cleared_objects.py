# Tries: to empty every table of the interpreter, those of its server among them.
# Scripts: wrong_answer or runtime_error or memory_limit or time_limit
# Calls: wrong_answer or runtime_error or memory_limit or time_limit
# Assertions: wrong_answer or runtime_error or memory_limit or time_limit
import gc


def answer(number):
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            try:
                thing.clear()
            except BaseException:
                pass
