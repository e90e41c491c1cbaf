# Tries: to ask a server of this machine.
# Scripts: runtime_error: Function not implemented
# Calls: runtime_error: Function not implemented
# Assertions: runtime_error: Function not implemented
# Unprotected: passes
import json
import socket


def answer(number):
    with socket.create_connection(("127.0.0.1", @PORT@)) as server:
        return json.loads(server.makefile().read())[str(number)]
