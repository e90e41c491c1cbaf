# Tries: to ask a server of this machine behind a socket that is no file, by every call that names one.
# Scripts: runtime_error: Function not implemented
# Calls: runtime_error: Function not implemented
# Assertions: runtime_error: Function not implemented
# Unprotected: passes
import json
import socket


def answer(number):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        for end in socket.socketpair(socket.AF_UNIX, kind):
            for call in (lambda: end.connect("\0@ABSTRACT@"), lambda: end.sendto(b"x", "\0@ABSTRACT@"),
                         lambda: end.bind("\0@ABSTRACT@2"), lambda: end.sendmsg([b"x"], [], 0, "\0@ABSTRACT@")):
                try:
                    call()
                    end.sendall(b"x")
                except OSError:
                    pass
    with socket.socket(socket.AF_UNIX) as server:
        server.connect("\0@ABSTRACT@")
        return json.loads(server.makefile().read())[str(number)]
