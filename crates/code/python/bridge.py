"""One end of the talk between a program and its test: questions about objects, answers, and questions while one is answered.

    q  a question: {"op": name, "v": its operands, "o": objects, "plain": whether the answer must stand for itself}
    a  its answer: {"v": the value, or "x": the error, "o": objects, "m": objects of the question that have changed,
       "out": what was printed, "line": the last line of the error's traceback}
"""

import json
import sys
import threading
import traceback

from attributes import MUTABLE, Malformed, is_unchanged, snapshot
from iterators import Numbered
from objects import Objects
from operations import OPERATIONS
from values import Decoder, Encoder

# Operations by which iterators say that they have come to their end.
ENDING = {"next", "send", "batch"}
# What a message can do to whoever reads it, if it was made to.
UNREADABLE = (Malformed, LookupError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError, ImportError)


def last_line(error):
    """The last line of an error's traceback."""
    try:
        lines = traceback.format_exception_only(type(error), error)
        text = lines[-1] if isinstance(error, SyntaxError) else lines[0]
        return text.strip().split("\n")[0][:500]
    except BaseException:
        return type(error).__name__


class Bridge(Objects):
    """`namespace` has the classes that both sides define under the same names."""

    def __init__(self, channel, namespace):
        super().__init__(namespace)
        self.channel = channel
        self.asking = threading.RLock()  # a thread of its own may ask too, when nobody else does
        self.printed = lambda: ""
        self.plain = False

    def ask(self, op, *operands):
        """The value of an operation there, or its error."""
        with self.asking:
            return self.ask_alone(op, operands)

    def ask_alone(self, op, operands):
        encoder = Encoder(self)
        body = {"op": op, "v": encoder.element(operands), "o": encoder.complete()}
        self.channel.send(b"q", json.dumps(body).encode())
        while True:
            kind, data = self.channel.receive()
            if kind == b"a":
                break
            self.answer(data)
        try:
            message = json.loads(data)
            decoder = Decoder(self, message, encoder.objects)
            for number, content in message.get("m", ()):
                if type(encoder.objects[number]) not in MUTABLE and not self.is_shared(type(encoder.objects[number])):
                    raise Malformed("an object that cannot change has changed")
                decoder.fill(encoder.objects[number], content)
            error = decoder.element(message["x"]) if "x" in message else None
            if not isinstance(error, (BaseException, type(None))):
                raise Malformed("an error that is none")
            value = decoder.element(message.get("v"))
            printed = message.get("out", "")
        except UNREADABLE as problem:
            if op == "global" and isinstance(problem, ImportError):
                raise  # a module that is not here
            return self.misspoken(problem)
        if printed:
            sys.stdout.write(str(printed))
        if error is None:
            self.received(op, decoder.objects)
            return value
        if op not in ENDING and isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit)):
            # Where a test does this in an iterator of its own, such an error would end that as if all were done.
            what = "a call" if op == "call" else op
            error = RuntimeError(f"{what} raised {type(error).__name__}")
        raise self.arrived(error)

    def received(self, op, objects):
        """These have come with the value of an operation."""

    def answer(self, data):
        """Answers a question of the other side."""
        try:
            message = json.loads(data)
            decoder = Decoder(self, message)
            operands = decoder.element(message["v"])
            op = message["op"]
            before = [(number, thing, snapshot(thing)) for number, thing in enumerate(decoder.objects)
                      if type(thing) in MUTABLE or self.is_shared(type(thing))]
        except UNREADABLE as problem:
            return self.misspoken(problem)
        self.plain = bool(message.get("plain"))
        try:
            key, result = "v", self.perform(op, operands)
        except BaseException as error:
            key, result = "x", error
            error.__traceback__ = None  # so that what it holds on to is given back
        if self.plain:  # from who has nothing that could change, and no input
            self.reply((), (), key, result)
        else:
            self.reply(decoder.objects, before, key, result)

    def reply(self, known, before, key, result):
        encoder = Encoder(self, known)
        try:
            body = {key: encoder.element(result)}
            changed = [[number, encoder.content(thing)] for number, thing, old in before if not is_unchanged(thing, old)]
            body["o"] = encoder.complete()
        except Exception as error:
            encoder, changed = Encoder(self), []
            body = {"x": encoder.element(TypeError(f"the value cannot be passed on: {error}")), "o": encoder.complete()}
        if key == "x":
            body["line"] = last_line(result)
        if changed:
            body["m"] = changed
        printed = self.printed()
        if printed:
            body["out"] = printed
        self.channel.send(b"a", json.dumps(body).encode())

    def perform(self, op, operands):
        first, *others = operands
        if type(first) is Numbered:
            raise Malformed("an object of the other side")
        return OPERATIONS[op](first, *others)

    def misspoken(self, problem):
        """What becomes of a message that cannot be read."""
        raise problem

    def arrived(self, error):
        """An error that the other side has raised, before it is raised here."""
        return error
