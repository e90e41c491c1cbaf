# Tries: to return what would be a value if somebody waited for it.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions in every style: wrong_answer or runtime_error


async def answer(number):
    return True
