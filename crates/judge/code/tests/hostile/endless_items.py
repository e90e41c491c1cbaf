# Tries: to give a test items without end that it asks for one by one.
# Scripts: time_limit or memory_limit
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error or time_limit or memory_limit


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return "x"

    def __len__(self):
        return 1

    def split(self):
        return self

    def __getitem__(self, index):
        return "1"

    def __str__(self):
        while True:
            pass


def answer(number):
    return Endless()
