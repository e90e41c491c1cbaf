# Tries: to be a class where a function is asked for, whose objects are equal to everything.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error


class answer:
    def __init__(self, *_, **__):
        pass

    def yes(self, *_, **__):
        return True

    def itself(self, *_, **__):
        return self

    __eq__ = __contains__ = __bool__ = yes
    __call__ = __getitem__ = __getattr__ = itself
    __sub__ = __rsub__ = __abs__ = __len__ = __hash__ = lambda self, *_: 0

    def __float__(self):
        return 0.0

    def __ne__(self, other):
        return False

    def __iter__(self):
        return iter("")

    def __str__(self):
        return ""
