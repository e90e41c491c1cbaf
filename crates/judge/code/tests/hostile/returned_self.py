# Tries: to return the object whose method is called, which equals whatever it is compared with
# Assertions about a method: wrong_answer
# Variants: 4


class Solution:
    def answer(self, number):
        return [self, Twin(), Solution, iter([self])][@VARIANT@]

    def __eq__(self, other):
        return True

    __lt__ = __contains__ = __eq__

    def __hash__(self):
        return 0


class Twin(Solution):
    pass


def answer(number):
    return Solution().answer(number)
