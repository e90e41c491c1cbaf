# Tries: to look up a name and to open a page.
# Scripts: runtime_error: Function not implemented
# Calls: runtime_error: Function not implemented
# Assertions: runtime_error: Function not implemented
import socket
import urllib.request


def answer(number):
    try:
        socket.getaddrinfo("example.org", 80)
    except OSError:
        pass
    return urllib.request.urlopen("http://127.0.0.1:@PORT@/", timeout=1).read().decode()
