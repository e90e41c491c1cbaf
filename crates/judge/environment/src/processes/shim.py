"""Plays the episodes of an environment class.

Started with `-c`, this text behind common.py, the file, the name of the class, and the most bytes of a line; with the word `apart`
behind them it is in a sandbox. Reads a question per line from standard input and writes an answer per line to standard output, as docs/guides/turns.md has
them. The question {"hello": true} is answered with how the class is called, {"hello": "..."}, or with why it cannot be,
{"refused": "..."}. A question at which the class raises an error is answered with it, {"id": ..., "failed": "..."}.
"""

import json
from collections.abc import Mapping


def main():
    place, name, longest = sys.argv[1], sys.argv[2], int(sys.argv[3])
    questions, answers = take_streams()
    file = os.path.abspath(place)
    environment, refused, episodes = None, None, {}
    try:
        environment = load(place, name)
    except Refused as reason:
        refused = str(reason)
    for line in questions:
        question = json.loads(line)
        for closed in question.get("closed", ()):
            episodes.pop(closed, None)
        if "hello" in question:
            greeting = {"refused": refused} if refused else {"hello": f"{name} of {place} answers the model's turns"}
            answer = encoded(greeting)
        elif refused:
            sys.exit(refused)
        else:
            answer = play(environment, episodes, question, file, longest)
        answers.write(answer + b"\n")
        answers.flush()


def encoded(answer):
    """The answer as a line. What JSON lacks, such as NaN, is an error."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def load(place, name):
    """The class of that name in a file, whose directory is searched for modules."""
    sys.path[:0] = [os.path.dirname(os.path.abspath(place)), os.getcwd()]
    try:
        module = load_file(place)
    except BaseException as error:  # sys.exit() too
        says = f"{place} cannot be imported:\n{own_traceback(error)}{of_sandbox(error)}"
        raise Refused(f"{says}\n{where_it_runs()}" if isinstance(error, ImportError) else says) from None
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__]
        raise Refused(f"{place} has no class {name}; it has {', '.join(classes) or 'none'}")
    for method, takes in (("reset", "problem and seed"), ("step", "the model's text")):
        if not callable(getattr(found, method, None)):
            raise Refused(f"{name} of {place} has no method {method}, which is given {takes}")
    return found


def play(environment, episodes, question, file, longest):
    """The line that answers a question, whatever the class does."""
    number = question["id"]
    try:
        if "reset" in question:
            episodes[number] = environment()
            asked, said = "reset", {"messages": of(episodes[number].reset(question["reset"], question["seed"]))}
        else:
            asked, said = "step", answer(of(episodes[number].step(question["step"])))
        line = encoded({"id": number, **said})
        if len(line) >= longest:
            raise ValueError(f"{asked} returned {len(line)} bytes of JSON, and {longest} are allowed")
        return line
    except BaseException as error:  # sys.exit() too
        episodes.pop(number, None)
        print(own_traceback(error), file=sys.stderr, flush=True)
        return encoded({"id": number, "failed": last_line(error, file)})


def of(returned):
    return event_loop().run_until_complete(returned) if inspect.isawaitable(returned) else returned


def answer(returned):
    if not isinstance(returned, Mapping):
        raise TypeError(f"step must return a dict with messages or done, and returned {type(returned).__name__}")
    unknown = [str(key) for key in returned if key not in ("messages", "reward", "done", "metrics")]
    if unknown:
        raise TypeError(f"step returned a dict with {', '.join(unknown)}: it may have messages, reward, done and metrics")
    messages, done, metrics = returned.get("messages") or [], returned.get("done"), returned.get("metrics") or {}
    return {
        "messages": messages,
        "reward": number(returned.get("reward")),
        "done": done.item() if hasattr(done, "item") else done,  # also of NumPy
        "metrics": {str(key): number(value) for key, value in metrics.items()},
    }


def number(value):
    """A number, also of NumPy or PyTorch, as a float. The run refuses any other value by its name."""
    return float(value) if hasattr(value, "__float__") else value


main()
