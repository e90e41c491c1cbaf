# Tries: to sleep for a day.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit
import time


def answer(number):
    time.sleep(86400)
