# Tries: to define names and return texts that cannot be written.
# Scripts: wrong_answer or runtime_error
# Calls: runtime_error or wrong_answer
# Assertions in every style: runtime_error or wrong_answer

globals()["\ud800"] = 1
globals()["\x00"] = type("\ud801", (), {})
globals()[""] = 2


def answer(number):
    return "\ud800\udfff\ud800"
