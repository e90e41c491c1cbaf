# Tries: to ask a server of this machine behind a socket that is a file.
# Scripts: runtime_error: Function not implemented
# Calls: runtime_error: Function not implemented
# Assertions: runtime_error: Function not implemented
# Unprotected: passes
import json
import socket


def answer(number):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect("@RUN_DIRECTORY@/socket")
        return json.loads(server.makefile().read())[str(number)]
