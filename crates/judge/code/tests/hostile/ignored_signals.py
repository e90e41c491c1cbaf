# Tries: to ignore and block every signal, and to handle its timers, for ever.
# Scripts: time_limit
# Calls: time_limit
# Assertions: time_limit
import signal
import time


def answer(number):
    for each in signal.valid_signals():
        try:
            signal.signal(each, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - {signal.SIGALRM})
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
