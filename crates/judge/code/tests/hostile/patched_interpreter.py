# Tries: to change builtins and modules, hoping that somebody else uses them too.
# Scripts: wrong_answer or runtime_error or output_limit
# Calls: runtime_error or wrong_answer or time_limit
# Assertions in every style: runtime_error or wrong_answer or time_limit
import builtins
import gc
import json
import operator
import os
import struct
import sys
import types

builtins.hostile = True
sys.modules["hostile"] = types.ModuleType("hostile")
for module in (sys.modules.get("unittest"), sys.modules.get("pytest"), sys.modules.get("json"), operator):
    for name in list(vars(module)) if module else ():
        if callable(getattr(module, name)) and not name.startswith("__"):
            setattr(module, name, lambda *_, **__: True)
for name in ("all", "any", "isinstance", "abs", "len", "sorted", "hash"):
    setattr(builtins, name, lambda *_, **__: True)
json.dumps = lambda *_, **__: '{"v": true, "o": [], "names": {"answer": "value"}}'
os.environ["HOSTILE"] = "1"
sys.settrace(lambda *_: None)
sys.setswitchinterval(1000)
gc.disable()


def answer(number):
    return True
