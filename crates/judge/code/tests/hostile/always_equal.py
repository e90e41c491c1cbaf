# Tries: to return an object that is equal to everything, and whatever else it is taken for.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error or time_limit or memory_limit


class Anything:
    def __getattr__(self, name):
        return self

    def yes(self, *_, **__):
        return True

    def itself(self, *_, **__):
        return self

    def zero(self, *_, **__):
        return 0

    __eq__ = __contains__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __instancecheck__ = __subclasscheck__ = yes
    __call__ = __getitem__ = __iter__ = __enter__ = __await__ = __copy__ = __deepcopy__ = __reversed__ = itself
    __sub__ = __rsub__ = __abs__ = __round__ = __index__ = __int__ = __hash__ = __len__ = __trunc__ = __neg__ = __mod__ = __pow__ = zero
    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __and__ = __or__ = __xor__ = __matmul__ = __divmod__ = itself

    def __ne__(self, other):
        return False

    def __float__(self):
        return 0.0

    def __str__(self):
        return ""

    def __next__(self):
        raise StopIteration

    def __exit__(self, *_):
        return True


def answer(number):
    return Anything()
