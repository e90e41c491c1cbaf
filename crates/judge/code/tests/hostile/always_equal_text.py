# Tries: to return a text that is equal to every text, and numbers that are near to every number.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error


class Near(float):
    def __sub__(self, other):
        return 0.0

    __rsub__ = __abs__ = __sub__

    def __float__(self):
        return self


class Text(str):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return hash("")

    def __iter__(self):
        return iter([Text("x")])

    def split(self, *_):
        return [Near(), Near(), Near()]


def answer(number):
    return Text("text")
