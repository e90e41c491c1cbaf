# Tries: to be a class of exceptions where a function is asked for, equal to everything, of a metaclass that lies.
# Scripts: wrong_answer
# Calls: wrong_answer or runtime_error
# Assertions in every style: wrong_answer or runtime_error


class Meta(type):
    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return 0

    def __instancecheck__(cls, other):
        return True


class answer(Exception, metaclass=Meta):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __sub__(self, other):
        return 0

    def __str__(self):
        return ""
